//! One request, and what is changed when the server refuses it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pollux_domain::JsonObject;
use pollux_domain::content::{BadArgs, Content, FunctionCall, Part};
use pollux_domain::model::{Finish, FinishReason, ModelError, ModelErrorKind, ReplyChunk, ReplyEvent};
use pollux_domain::sync::Locked;
use reqwest::Request;

use super::quirks::{Echo, has_think_tags};
use super::reply::ChatDecoder;
use super::request::{Lessons, Plan};
use crate::http::{Decoder, Exchange, Failure, Mend};
use crate::shared::body::RequestBody;
use crate::shared::fault;
use crate::shared::server::Server;

/// How many parameters may be dropped for one reply.
const MAX_REFUSED: usize = 3;
const TOOL_USE_FAILED: &str = "tool_use_failed";

/// What was learnt about each model, as long as the client lives.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<String, Lessons>>);

impl Memory {
    fn of(&self, model: &str) -> Lessons {
        self.0.locked().get(model).cloned().unwrap_or_default()
    }

    fn learn(&self, model: &str, lessons: &Lessons) {
        let mut known = self.0.locked();
        let known = known.entry(model.to_owned()).or_default();
        known.refused.extend(lessons.refused.iter().cloned());
        known.wants_reasoning |= lessons.wants_reasoning;
        known.without_seals |= lessons.without_seals;
    }
}

pub(super) struct ChatExchange {
    server: Arc<Server>,
    plan: Plan,
    memory: Arc<Memory>,
    lessons: Lessons,
    refused: usize,
    /// About how many tokens the last request had.
    asked: Cell<u64>,
}

impl ChatExchange {
    pub(super) fn new(server: Arc<Server>, plan: Plan, memory: Arc<Memory>) -> Self {
        let lessons = memory.of(&plan.info.id);
        Self { server, plan, memory, lessons, refused: 0, asked: Cell::new(0) }
    }

    pub(super) fn model(&self) -> &str {
        &self.plan.info.id
    }

    /// About how many tokens the request has.
    pub(super) fn estimate(&self) -> u64 {
        self.body().tokens()
    }

    fn body(&self) -> RequestBody {
        let any_model = self.plan.echo(&self.lessons) != Echo::Details;
        let is_own = |content: &Content| {
            let same_model = content.origin.as_ref().is_some_and(|origin| origin.model == self.plan.info.id);
            self.server.is_own(content.origin.as_ref()) && (any_model || same_model)
        };
        self.plan.body(&self.lessons, self.server.declarations(), &is_own)
    }

    fn learnt(&self, notice: Option<String>) -> Mend {
        self.memory.learn(&self.plan.info.id, &self.lessons);
        Mend::Again(notice)
    }

    /// Stops sending a parameter that the server does not know.
    fn drop_parameter(&mut self, param: &str) -> Mend {
        let body = self.body();
        let sent = match param {
            "strict" => self.plan.strict_tools,
            "reasoning_content" => self.plan.echo(&self.lessons) == Echo::Content,
            "reasoning_details" => self.plan.echo(&self.lessons) == Echo::Details,
            param => body.contains(param),
        };
        if !sent || self.refused >= MAX_REFUSED || !self.lessons.refused.insert(param.to_owned()) {
            return Mend::No;
        }
        self.refused += 1;
        self.learnt(None)
    }

    /// The server could not parse the model's own call: retry once at a lower temperature, then tell the model.
    fn retry_failed_call(&mut self, failure: &Failure) -> Mend {
        if !std::mem::replace(&mut self.lessons.lower_temperature, true) {
            return Mend::Again(None);
        }
        let Some(raw) = failure.rejected.as_deref().map(str::to_owned) else { return Mend::No };
        let named =
            self.plan.request.tools.iter().find(|tool| raw.contains(&*self.plan.names.wire(&tool.name)));
        let name = named.map_or("generic_tool", |tool| tool.name.as_str());
        let mut call = FunctionCall::new(None, name, JsonObject::new());
        call.bad_args = Some(Box::new(BadArgs { raw, error: failure.error.message.clone() }));
        let finish = Some(Finish { reason: FinishReason::ToolCalls, message: None });
        let chunk = ReplyChunk { parts: vec![Part::call(call)], finish, ..ReplyChunk::default() };
        Mend::Instead(vec![ReplyEvent::Chunk(chunk)])
    }
}

impl Exchange for ChatExchange {
    fn request(&self) -> Result<Request, ModelError> {
        let body = self.body();
        self.asked.set(body.tokens());
        self.server.post("chat/completions", &body)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        let plan = &self.plan;
        let strict = plan.strict_tools.then(|| Arc::clone(&plan.request.tools));
        let tags = has_think_tags(&plan.info.caps, &plan.info.id);
        let decoder = ChatDecoder::new(plan.names.clone(), plan.echo(&self.lessons), tags, self.asked.get());
        Box::new(decoder.on_server(self.server.traits().local, strict))
    }

    fn mend(&mut self, failure: &Failure) -> Mend {
        let error = &failure.error;
        if let ModelErrorKind::Unsupported { param } = &error.kind {
            return self.drop_parameter(param);
        }
        if error.status != Some(400) {
            return Mend::No;
        }
        if error.details.code.as_deref() == Some(TOOL_USE_FAILED) {
            return self.retry_failed_call(failure);
        }
        let wants_reasoning =
            error.message.contains("reasoning_content") && error.message.contains("passed back");
        if wants_reasoning && self.plan.echo(&self.lessons) == Echo::Nothing {
            self.lessons.wants_reasoning = true;
            return self.learnt(None);
        }
        if fault::refuses_seals(error) && !self.lessons.without_seals {
            self.lessons.without_seals = true;
            let notice = format!("retrying without the model's earlier reasoning: {}", error.message);
            return self.learnt(Some(notice));
        }
        Mend::No
    }
}
