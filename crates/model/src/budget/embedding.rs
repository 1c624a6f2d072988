//! Embeddings charged to a budget. Their prices are not listed, so only tokens and requests count.

use std::sync::Arc;

use pollux_domain::BoxFuture;
use pollux_domain::embedding::{EmbedError, EmbedErrorKind, Embedder, Origin, Purpose};
use pollux_domain::model::{ModelError, RequestRole};

use super::Ask;
use super::estimate::BYTES_PER_TOKEN;
use super::meter::Meter;
use crate::catalogue::cost::worst_cost;
use crate::catalogue::known;

/// An embedder whose requests are charged to a budget.
pub struct MeteredEmbedder {
    inner: Arc<dyn Embedder>,
    meter: Arc<Meter>,
}

impl MeteredEmbedder {
    pub fn new(inner: Arc<dyn Embedder>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl Embedder for MeteredEmbedder {
    fn origin(&self) -> &Origin {
        self.inner.origin()
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        purpose: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>> {
        Box::pin(async move {
            let Origin { provider, model, .. } = self.inner.origin();
            // A model on this machine costs nothing and sends nothing.
            if provider == "local" || texts.is_empty() {
                return self.inner.embed(texts, purpose).await;
            }
            let listed = known::prices(&format!("{provider}/{model}"));
            let prices = match listed {
                None if self.meter.budget().limits_money() => self.meter.unknown(model).map_err(refused)?,
                listed => listed,
            };
            let bytes: u64 = texts.iter().map(|text| text.len() as u64).sum();
            let input = bytes.div_ceil(BYTES_PER_TOKEN);
            let ask = Ask { input, max_output: 0, prices: prices.clone() };
            let reservation = self.meter.reserve(ask, RequestRole::Tool).await.map_err(refused)?;
            let vectors = self.inner.embed(texts, purpose).await;
            let spent = pollux_domain::budget::Spent {
                usd: prices.map(|prices| worst_cost(input, 0, &prices)).unwrap_or_default(),
                tokens: input,
                requests: 1,
                millis: 0,
            };
            self.meter.settle(reservation, spent);
            vectors
        })
    }
}

fn refused(error: ModelError) -> EmbedError {
    EmbedError { kind: EmbedErrorKind::Later { after: None }, message: error.message }
}
