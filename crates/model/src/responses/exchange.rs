//! One request and its reply.

use std::sync::Arc;

use pollux_domain::model::{ModelError, ModelErrorKind, ModelRequest, Origin};
use reqwest::Request;

use super::body::{self, Plan};
use super::decoder::ResponsesDecoder;
use super::input::Writer;
use super::{MAX_CALL_ID, MAX_TOOL_NAME, ResponsesClient, seals};
use crate::http::{Decoder, Exchange, Failure, Mend};
use crate::shared::call_ids::{CallIds, IdRule};
use crate::shared::tool_names::ToolNames;

/// Told when a request is sent again without its seals.
const WITHOUT_SEALS: &str =
    "the provider rejected stored reasoning; sending the conversation again without it";

/// A request that can be written again without what its server refused.
pub(super) struct ResponsesExchange {
    client: ResponsesClient,
    request: ModelRequest,
    origin: Arc<Origin>,
    names: Arc<ToolNames>,
}

impl ResponsesExchange {
    pub(super) fn new(client: ResponsesClient, request: ModelRequest) -> Self {
        let names = Arc::new(ToolNames::new(&request.tools, MAX_TOOL_NAME));
        let origin = Arc::new(client.origin(&request.model));
        Self { client, request, origin, names }
    }
}

impl Exchange for ResponsesExchange {
    fn request(&self) -> Result<Request, ModelError> {
        with_plan(&self.client, &self.request, &self.names, &self.origin, |plan| {
            self.client.server.post("responses", &body::reply(&self.request, plan)?)
        })
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        let local = self.client.server.traits().local;
        Box::new(ResponsesDecoder::new(Arc::clone(&self.origin), Arc::clone(&self.names), local))
    }

    fn mend(&mut self, failure: &Failure) -> Mend {
        let refused = &self.client.refused;
        if seals::names_a_seal(failure) {
            let contents = self.request.contents.iter().map(AsRef::as_ref);
            let is_new = refused.add_seals(&self.origin.model, contents);
            return if is_new { Mend::Again(Some(WITHOUT_SEALS.to_owned())) } else { Mend::No };
        }
        if let ModelErrorKind::Unsupported { param } = &failure.error.kind
            && let Some(field) = body::dispensable(param)
            && refused.add_field(&self.origin.model, field)
        {
            return Mend::Again(None);
        }
        Mend::No
    }
}

/// Writes something with all that decides how a request looks.
pub(super) fn with_plan<T>(
    client: &ResponsesClient,
    request: &ModelRequest,
    names: &ToolNames,
    origin: &Origin,
    write: impl FnOnce(&Plan<'_>) -> T,
) -> T {
    let info = client.info(&request.model);
    let contents = request.contents.iter().map(AsRef::as_ref);
    let ids = CallIds::of(contents, IdRule::Plain { max: MAX_CALL_ID });
    let refused = client.refused.fields(&origin.model);
    let any_seals = client.refused.allows_seals(&origin.model);
    let writer = Writer {
        names,
        ids: &ids,
        caps: &info.caps,
        keeps_seals: &|from| any_seals && seals::may_return(from, origin),
        keeps_seal: &|item| client.refused.allows(item),
    };
    let declarations = client.server.declarations();
    write(&Plan { model: &origin.model, caps: &info.caps, writer, refused: &refused, declarations })
}
