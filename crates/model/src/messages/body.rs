//! Request bodies, and the marks that tell the server what to cache.

use std::collections::HashSet;
use std::sync::Arc;

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
use crate::shared::body::{Field, RequestBody};
use crate::shared::declarations::{Declaration, Declarations, Form};
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
    pub(super) declarations: &'a Declarations,
}

/// A body, and what is needed to read what comes of it.
pub(super) struct Plan {
    pub(super) body: RequestBody,
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
    pub(super) fn count(&self, request: &ModelRequest) -> RequestBody {
        let mut body = self.plan(request, false).body;
        const KNOWN: &[&str] =
            &["model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"];
        body.retain(|key| KNOWN.contains(&key));
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
        let marks = converses.then(|| self.marks()).flatten();
        let mut body = RequestBody::from(body);
        let lasting = marks.as_ref().map(|marks| &marks.lasting);
        let tools = self.tools(request, &wished, &names, &written, lasting, &mut body);
        let Written { mut messages, seals } = written;
        if let Some(marks) = &marks {
            marks.set(&mut system, &mut messages);
        }
        if !system.is_empty() {
            body.insert("system".into(), Value::Array(system));
        }
        if !tools.is_empty() {
            body.insert("tools".into(), Field::Tools(tools));
        }
        body.insert("messages".into(), messages.into_iter().map(Message::into_json).collect::<Value>());
        let mut sampling = JsonObject::new();
        settings::sampling(&wished, !self.first_party && caps.sampling && !reasons, &mut sampling);
        body.extend(sampling);
        if let Some(user) = self.user_id {
            body.insert("metadata".into(), json!({"user_id": user}));
        }
        self.add_words(&wished, &mut body);
        body.retain(|key| !self.unknown.contains(key));
        Plan { body, names, seals }
    }

    /// Declares the tools, the last of them with a mark for the cache, and says which of them the model may call.
    fn tools(
        &self,
        request: &ModelRequest,
        wished: &GenerationSettings,
        names: &ToolNames,
        written: &Written,
        mark: Option<&Value>,
        body: &mut RequestBody,
    ) -> Vec<Declaration> {
        let offered: Vec<&Arc<ToolSpec>> =
            request.tools.iter().filter(|tool| is_offered(tool, wished)).collect();
        let mut others = Vec::new();
        let stubs = offered.is_empty() && !written.called().is_empty();
        if stubs {
            // A conversation with calls is only accepted where tools are declared.
            let stub =
                |name: &str| json!({"name": name, "input_schema": {"type": "object", "properties": {}}});
            others.extend(written.called().into_iter().map(stub));
        }
        others.extend(server_tool(request.grounding));
        let marked = offered.last().copied().filter(|_| others.is_empty()).zip(mark);
        if let (Some(last), Some(mark)) = (others.last_mut(), mark) {
            last["cache_control"] = mark.clone();
        }
        let declared = |tool: &Arc<ToolSpec>| match marked {
            Some((last, mark)) if Arc::ptr_eq(last, tool) => {
                self.declarations.get(tool, Form::Marked, |tool| {
                    let mut declaration = declaration(tool, names);
                    declaration["cache_control"] = mark.clone();
                    declaration
                })
            }
            _ => self.declarations.get(tool, Form::Plain, |tool| declaration(tool, names)),
        };
        let tools = offered.into_iter().map(declared);
        let tools: Vec<Declaration> = tools.chain(others.into_iter().map(Declaration::Other)).collect();
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

    /// The marks of this client, unless it sets none.
    fn marks(&self) -> Option<Marks> {
        let short = json!({"type": "ephemeral"});
        match self.cache {
            CacheTtl::Off => None,
            CacheTtl::Short => Some(Marks { lasting: short.clone(), short }),
            CacheTtl::Long => Some(Marks { lasting: json!({"type": "ephemeral", "ttl": "1h"}), short }),
        }
    }

    /// Lays a user's own words of this dialect over the body.
    fn add_words(&self, wished: &GenerationSettings, body: &mut RequestBody) {
        for (key, value) in wished.words_of(&Dialect::MESSAGES).into_iter().flatten() {
            let refused = self.first_party && SAMPLING.contains(&key.as_str());
            if !refused && !FIXED.contains(&key.as_str()) {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Marks of what the next request will begin with again: tools, instructions, the conversation up to the previous
/// request, and up to this one. Four marks are allowed.
struct Marks {
    /// For tools and instructions.
    lasting: Value,
    /// For the conversation.
    short: Value,
}

impl Marks {
    fn set(&self, system: &mut [Value], messages: &mut [Message]) {
        if let Some(block) = system.last_mut() {
            block["cache_control"] = self.lasting.clone();
        }
        let asked = messages.iter_mut().rev().filter(|message| message.role == Role::User).take(2);
        for block in asked.filter_map(|message| message.blocks.last_mut()) {
            block["cache_control"] = self.short.clone();
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
