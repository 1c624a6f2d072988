//! One request and its reply; a request that was refused for something in it is sent again without that.

use std::sync::Arc;

use pollux_domain::model::{ModelError, ModelErrorKind, ModelRequest};
use pollux_domain::sync::Locked as _;
use reqwest::Request;

use super::MessagesClient;
use super::body::Plan;
use super::reply::MessagesDecoder;
use crate::http::{Decoder, Exchange, Failure, Mend};
use crate::shared::fault::refuses_seals;
use crate::shared::tool_names::ToolNames;

/// How many fields of one request may turn out to be unknown to the server.
const MAX_UNKNOWN: u32 = 3;
/// Without these there is no request.
const NEEDED: &[&str] = &["model", "messages", "max_tokens", "stream", "tools", "system"];

const WITHOUT_SEALS: &str =
    "The server rejected the model's earlier reasoning; the session continues without it.";

pub(super) struct MessagesExchange {
    client: MessagesClient,
    request: Arc<ModelRequest>,
    continues: bool,
    plan: Plan,
    names: Arc<ToolNames>,
    unsealed: bool,
    dropped: u32,
}

impl MessagesExchange {
    pub(super) fn new(client: MessagesClient, request: Arc<ModelRequest>, continues: bool) -> Self {
        let plan = client.plan(&request, continues);
        let names = Arc::new(plan.names.clone());
        Self { client, request, continues, plan, names, unsealed: false, dropped: 0 }
    }

    /// Writes the request again with what was learnt.
    fn again(&mut self, notice: Option<&str>) -> Mend {
        self.plan = self.client.plan(&self.request, self.continues);
        Mend::Again(notice.map(str::to_owned))
    }
}

impl Exchange for MessagesExchange {
    fn request(&self) -> Result<Request, ModelError> {
        self.client.post("messages", &self.plan.body)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(MessagesDecoder::new(Arc::clone(&self.names), self.client.server().traits().local))
    }

    fn mend(&mut self, failure: &Failure) -> Mend {
        let learnt = &self.client.shared.learnt;
        if refuses_seals(&failure.error) && !self.unsealed && !self.plan.seals.is_empty() {
            self.unsealed = true;
            learnt.locked().seals.extend(self.plan.seals.iter().copied());
            return self.again(Some(WITHOUT_SEALS));
        }
        if let ModelErrorKind::Unsupported { param } = &failure.error.kind
            && self.plan.body.contains(param)
            && !NEEDED.contains(&param.as_str())
            && self.dropped < MAX_UNKNOWN
        {
            self.dropped += 1;
            let id = self.client.server().info(&self.request.model).id;
            learnt.locked().fields.entry(id).or_default().insert(param.clone());
            return self.again(None);
        }
        Mend::No
    }
}
