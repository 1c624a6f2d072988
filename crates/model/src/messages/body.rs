//! Request bodies, and the marks that tell the server what to cache.

use std::collections::HashSet;

use pollux_domain::JsonObject;
use pollux_domain::content::Role;
use pollux_domain::model::{
    Dialect, GenerationSettings, Grounding, ModelInfo, ModelRequest, Origin, RequestRole, ToolChoice,
};
use pollux_domain::tool::ToolSpec;
use serde_json::{Value, json};

use super::CacheTtl;
use super::settings::{self, Situation};
use super::turns::{Message, Writer, Written};
use crate::shared::schema;
use crate::shared::settings::neutral;
use crate::shared::tool_names::ToolNames;

/// How many characters a tool's name may have.
const NAME_LIMIT: usize = 128;
/// Settings of the sampling, which Anthropic's own server refuses even at their defaults.
const SAMPLING: &[&str] = &["temperature", "top_p", "top_k"];
/// What the words of a user may not replace.
const FIXED: &[&str] = &["model", "messages", "stream"];

/// Who is asked, and what was learnt of them.
pub(super) struct Target<'a> {
    pub(super) origin: &'a Origin,
    pub(super) info: &'a ModelInfo,
    pub(super) first_party: bool,
    pub(super) cache: CacheTtl,
    pub(super) user_id: Option<&'a str>,
    /// Seals that the server refused before.
    pub(super) void: &'a HashSet<u64>,
    /// Fields that the server refused before.
    pub(super) unknown: &'a HashSet<String>,
    /// The last turn was paused by the server.
    pub(super) continues: bool,
}

/// A body, and what is needed to read what comes of it.
pub(super) struct Plan {
    pub(super) body: JsonObject,
    pub(super) names: ToolNames,
    /// Marks of the seals in it.
    pub(super) seals: Vec<u64>,
}

impl Target<'_> {
    /// The body of a streamed request.
    pub(super) fn stream(&self, request: &ModelRequest) -> Plan {
        let converses = matches!(request.role, RequestRole::Main | RequestRole::Subagent);
        let mut plan = self.plan(request, converses);
        plan.body.insert("stream".into(), json!(true));
        plan
    }

    /// The body of a request for a count, which knows fewer fields.
    pub(super) fn count(&self, request: &ModelRequest) -> JsonObject {
        let mut body = self.plan(request, false).body;
        const KNOWN: &[&str] =
            &["model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"];
        body.retain(|key, _| KNOWN.contains(&key.as_str()));
        body
    }

    /// `converses` is false for background work, which neither carries its reasoning nor is repeated.
    fn plan(&self, request: &ModelRequest, converses: bool) -> Plan {
        let wished = neutral(request);
        let caps = &self.info.caps;
        let names = ToolNames::new(&request.tools, NAME_LIMIT);
        let writer = Writer {
            target: self.origin,
            first_party: self.first_party,
            caps,
            names: &names,
            seals: converses,
            void: self.void,
            continues: self.continues,
        };
        let written = writer.write(request.contents.iter().map(AsRef::as_ref));
        let mut body = JsonObject::new();
        body.insert("model".into(), json!(self.info.id));
        body.insert("max_tokens".into(), json!(settings::max_tokens(&wished, self.info)));
        let situation = Situation {
            role: request.role,
            first_party: self.first_party,
            active_loop: written.active_loop(),
        };
        let reasons = settings::reasoning(&wished, self.info, &situation, &mut body);
        let instruction = settings::output(&wished, caps, &mut body);
        let system = request.system.as_deref().into_iter().chain(instruction.as_deref());
        let mut system: Vec<Value> = system
            .filter(|text| !text.trim().is_empty())
            .map(|text| json!({"type": "text", "text": text}))
            .collect();
        let mut tools = self.tools(request, &wished, &names, &written, &mut body);
        let Written { mut messages, seals } = written;
        if converses {
            self.mark(&mut tools, &mut system, &mut messages);
        }
        for (key, blocks) in [("system", system), ("tools", tools)] {
            if !blocks.is_empty() {
                body.insert(key.into(), Value::Array(blocks));
            }
        }
        body.insert("messages".into(), messages.into_iter().map(Message::into_json).collect());
        settings::sampling(&wished, !self.first_party && caps.sampling && !reasons, &mut body);
        if let Some(user) = self.user_id {
            body.insert("metadata".into(), json!({"user_id": user}));
        }
        self.add_words(&wished, &mut body);
        body.retain(|key, _| !self.unknown.contains(key));
        Plan { body, names, seals }
    }

    /// Declares the tools, and says which of them the model may call.
    fn tools(
        &self,
        request: &ModelRequest,
        wished: &GenerationSettings,
        names: &ToolNames,
        written: &Written,
        body: &mut JsonObject,
    ) -> Vec<Value> {
        let offered = request.tools.iter().filter(|tool| is_offered(tool, wished));
        let mut tools: Vec<Value> = offered.map(|tool| declaration(tool, names)).collect();
        let stubs = tools.is_empty() && !written.called().is_empty();
        if stubs {
            // A conversation with calls is only accepted where tools are declared.
            let stub =
                |name: &str| json!({"name": name, "input_schema": {"type": "object", "properties": {}}});
            tools.extend(written.called().into_iter().map(stub));
        }
        tools.extend(server_tool(request.grounding));
        let choice = if stubs && request.grounding == Grounding::None {
            Some(json!({"type": "none"}))
        } else {
            settings::tool_choice(wished, &self.info.caps, |name| names.wire(name))
        };
        if let Some(choice) = choice.filter(|_| !tools.is_empty()) {
            body.insert("tool_choice".into(), choice);
        }
        tools
    }

    /// Marks what the next request will begin with again: tools, instructions, the conversation up to the previous
    /// request, and up to this one. Four marks are allowed.
    fn mark(&self, tools: &mut [Value], system: &mut [Value], messages: &mut [Message]) {
        let (lasting, short) = match self.cache {
            CacheTtl::Off => return,
            CacheTtl::Short => (json!({"type": "ephemeral"}), json!({"type": "ephemeral"})),
            CacheTtl::Long => (json!({"type": "ephemeral", "ttl": "1h"}), json!({"type": "ephemeral"})),
        };
        for block in [tools.last_mut(), system.last_mut()].into_iter().flatten() {
            block["cache_control"] = lasting.clone();
        }
        let asked = messages.iter_mut().rev().filter(|message| message.role == Role::User).take(2);
        for block in asked.filter_map(|message| message.blocks.last_mut()) {
            block["cache_control"] = short.clone();
        }
    }

    /// Lays a user's own words of this dialect over the body.
    fn add_words(&self, wished: &GenerationSettings, body: &mut JsonObject) {
        for (key, value) in wished.words_of(&Dialect::MESSAGES).into_iter().flatten() {
            let refused = self.first_party && SAMPLING.contains(&key.as_str());
            if !refused && !FIXED.contains(&key.as_str()) {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The API cannot be given a choice of tools; what is not allowed is not declared.
fn is_offered(tool: &ToolSpec, wished: &GenerationSettings) -> bool {
    match wished.tool_choice.value() {
        Some(ToolChoice::Allowed { names, .. }) => names.contains(&tool.name),
        _ => true,
    }
}

fn declaration(tool: &ToolSpec, names: &ToolNames) -> Value {
    json!({
        "name": names.wire(&tool.name),
        "description": tool.description,
        "input_schema": schema::parameters(&tool.parameters),
    })
}

/// A tool that runs at the server.
fn server_tool(grounding: Grounding) -> Option<Value> {
    match grounding {
        Grounding::None => None,
        Grounding::Search => {
            Some(json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}))
        }
        Grounding::UrlContext => {
            Some(json!({"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 10}))
        }
    }
}
