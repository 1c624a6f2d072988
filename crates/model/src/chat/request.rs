//! The body of a request.

use std::collections::HashSet;
use std::sync::Arc;

use pollux_domain::content::Content;
use pollux_domain::model::{
    Dialect, GenerationSettings, InfoSource, ModelInfo, ModelRequest, OutputFormat, Setting, ToolChoice,
};
use pollux_domain::tool::ToolSpec;
use serde_json::{Value, json};

use super::messages::{self, Writer};
use super::quirks::{Echo, EffortField, Quirks};
use crate::shared::body::{Field, RequestBody};
use crate::shared::call_ids::CallIds;
use crate::shared::declarations::{Declaration, Declarations, Form};
use crate::shared::schema;
use crate::shared::tool_names::ToolNames;

/// The longest name of a tool.
pub(super) const MAX_NAME: usize = 64;

/// Everything that decides what is sent.
pub(super) struct Plan {
    pub(super) request: ModelRequest,
    pub(super) settings: GenerationSettings,
    pub(super) info: ModelInfo,
    pub(super) quirks: Quirks,
    pub(super) names: ToolNames,
    pub(super) strict_tools: bool,
}

/// What was learnt from errors since the plan was made.
#[derive(Debug, Clone, Default)]
pub(super) struct Lessons {
    /// Parameters that this server does not take for this model.
    pub(super) refused: HashSet<String>,
    /// It wants reasoning back although the table does not say so.
    pub(super) wants_reasoning: bool,
    /// It does not take reasoning of its own any more.
    pub(super) without_seals: bool,
    /// The server could not parse the model's own call; the retry uses a lower temperature.
    pub(super) lower_temperature: bool,
}

impl Plan {
    /// What of the model's reasoning goes back.
    pub(super) fn echo(&self, lessons: &Lessons) -> Echo {
        match self.quirks.echo {
            Echo::Nothing if lessons.wants_reasoning => Echo::Content,
            Echo::Content if lessons.refused.contains("reasoning_content") => Echo::Nothing,
            Echo::Details if lessons.refused.contains("reasoning_details") => Echo::Nothing,
            echo => echo,
        }
    }

    /// The body of the request.
    pub(super) fn body(
        &self,
        lessons: &Lessons,
        declarations: &Declarations,
        is_own: &dyn Fn(&Content) -> bool,
    ) -> RequestBody {
        let offered = self.offered();
        let mut reminders = Vec::new();
        let words = self.settings.words_of(&Dialect::CHAT).cloned().unwrap_or_default();
        let mut body = RequestBody::from(words);
        body.insert("model".into(), json!(self.info.id));
        body.insert("messages".into(), Value::Null);
        body.insert("stream".into(), json!(true));
        if self.quirks.stream_options {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        if self.quirks.store {
            body.insert("store".into(), json!(false));
        }
        if !offered.is_empty() {
            let strict = self.strict_tools && !lessons.refused.contains("strict");
            let form = if strict { Form::Strict } else { Form::Plain };
            let declared = |tool| declarations.get(tool, form, |tool| self.declaration(tool, strict));
            let tools: Vec<Declaration> = offered.into_iter().map(declared).collect();
            body.insert("tools".into(), Field::Tools(tools));
            self.add_choice(lessons, &mut body, &mut reminders);
            if let Setting::Set(false) = self.settings.parallel_calls {
                body.insert("parallel_tool_calls".into(), json!(false));
            }
        }
        self.add_limits(lessons, &mut body);
        self.add_output(lessons, &mut body, &mut reminders);
        body.retain(|key| !lessons.refused.contains(key));
        let mut messages = self.messages(lessons, is_own);
        for line in reminders {
            messages::remind(&mut messages, &line, &self.quirks);
        }
        body.insert("messages".into(), Value::Array(messages));
        body
    }

    fn messages(&self, lessons: &Lessons, is_own: &dyn Fn(&Content) -> bool) -> Vec<Value> {
        let contents = || self.request.contents.iter().map(|content| &**content);
        let ids = CallIds::of(contents(), self.quirks.ids);
        let writer = Writer {
            names: &self.names,
            ids: &ids,
            caps: &self.info.caps,
            quirks: &self.quirks,
            echo: self.echo(lessons),
            is_own: &|content| !lessons.without_seals && is_own(content),
        };
        let mut messages = Vec::new();
        if let Some(system) = self.request.system.as_deref().filter(|system| !system.is_empty()) {
            messages.push(json!({"role": "system", "content": system}));
        }
        writer.write(contents(), &mut messages);
        messages
    }

    /// The tools that are declared: fewer where the choice of some can only be made that way.
    fn offered(&self) -> Vec<&Arc<ToolSpec>> {
        let tools = self.request.tools.iter();
        match self.settings.tool_choice.value() {
            _ if !self.info.caps.tools => Vec::new(),
            Some(ToolChoice::None) if !self.can_choose() => Vec::new(),
            Some(ToolChoice::Allowed { names, .. }) if !(self.quirks.allowed_tools && self.can_choose()) => {
                tools.filter(|tool| names.contains(&tool.name)).collect()
            }
            _ => tools.collect(),
        }
    }

    /// Whether the model can be made to call a tool; where nothing is known, it is tried.
    fn can_choose(&self) -> bool {
        self.quirks.tool_choice && (self.info.caps.tool_choice || self.info.source == InfoSource::Guess)
    }

    fn declaration(&self, tool: &ToolSpec, strict: bool) -> Value {
        let mut function = json!({
            "name": self.names.wire(&tool.name),
            "description": tool.description,
            "parameters": schema::parameters(&tool.parameters),
        });
        if let (true, Some(parameters), Value::Object(fields)) =
            (strict, schema::strict(&tool.parameters), &mut function)
        {
            fields.insert("parameters".into(), parameters);
            fields.insert("strict".into(), json!(true));
        }
        json!({"type": "function", "function": function})
    }

    fn add_choice(&self, lessons: &Lessons, body: &mut RequestBody, reminders: &mut Vec<String>) {
        let Some(choice) = self.settings.tool_choice.value() else { return };
        let function = |name: &str| json!({"type": "function", "function": {"name": self.names.wire(name)}});
        let can_choose = self.can_choose() && !lessons.refused.contains("tool_choice");
        if can_choose {
            let wire = match choice {
                ToolChoice::Auto => return,
                ToolChoice::None => json!("none"),
                ToolChoice::Required => json!(self.quirks.required),
                ToolChoice::Only(name) => function(name),
                ToolChoice::Allowed { names, required } if self.quirks.allowed_tools => {
                    let mode = if *required { "required" } else { "auto" };
                    let tools: Vec<Value> = names.iter().map(|name| function(name)).collect();
                    json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}})
                }
                ToolChoice::Allowed { required: true, .. } => json!(self.quirks.required),
                ToolChoice::Allowed { required: false, .. } => return,
            };
            body.insert("tool_choice".into(), wire);
            return;
        }
        match choice {
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { required: false, .. } => {}
            ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
                reminders.push("Answer with a tool call, not with text.".to_owned());
            }
            ToolChoice::Only(name) => {
                let name = self.names.wire(name);
                reminders.push(format!("Answer with a call of the tool `{name}`, not with text."));
            }
        }
    }

    fn add_limits(&self, lessons: &Lessons, body: &mut RequestBody) {
        if let Setting::Set(max) = self.settings.max_output {
            let other =
                if self.quirks.output_cap == "max_tokens" { "max_completion_tokens" } else { "max_tokens" };
            let names = [self.quirks.output_cap, other];
            if let Some(name) = names.into_iter().find(|name| !lessons.refused.contains(*name)) {
                body.insert(name.into(), json!(max));
            }
        }
        let effort = self.settings.effort.value().and_then(|effort| effort.nearest(&self.info.caps.efforts));
        if let Some(effort) = effort {
            match self.quirks.effort {
                EffortField::Flat => body.insert("reasoning_effort".into(), json!(effort.as_str())),
                EffortField::Nested => body.insert("reasoning".into(), json!({"effort": effort.as_str()})),
            };
        }
        let sampling = &self.settings.sampling;
        if self.info.caps.sampling {
            if let Setting::Set(temperature) = &sampling.temperature {
                body.insert("temperature".into(), json!(temperature));
            }
            if let Setting::Set(top_p) = &sampling.top_p {
                body.insert("top_p".into(), json!(top_p));
            }
            if let Setting::Set(seed) = &sampling.seed {
                body.insert("seed".into(), json!(seed));
            }
        }
        if let Setting::Set(stop) = &sampling.stop
            && !stop.is_empty()
        {
            body.insert("stop".into(), json!(stop));
        }
        if lessons.lower_temperature {
            let before = sampling.temperature.value().and_then(serde_json::Number::as_f64);
            body.insert("temperature".into(), json!(before.map_or(0.2, |temperature| temperature / 2.0)));
        }
        if let (true, Setting::Set(key)) = (self.quirks.cache_key, &self.settings.cache_key) {
            body.insert("prompt_cache_key".into(), json!(key));
        }
    }

    fn add_output(&self, lessons: &Lessons, body: &mut RequestBody, reminders: &mut Vec<String>) {
        let Setting::Set(OutputFormat::Json { name, schema, strict }) = &self.settings.output else { return };
        let can = self.info.caps.structured || self.info.source == InfoSource::Guess;
        match schema {
            Some(schema) if can && !lessons.refused.contains("response_format") => {
                let name = name.as_deref().unwrap_or("reply");
                let format = json!({"name": name, "schema": schema, "strict": strict});
                body.insert("response_format".into(), json!({"type": "json_schema", "json_schema": format}));
            }
            Some(schema) => {
                reminders.push(format!("Answer only with a JSON object of this schema: {schema}"));
            }
            None => {
                body.insert("response_format".into(), json!({"type": "json_object"}));
                reminders.push("Answer only with a JSON object.".to_owned());
            }
        }
    }
}
