//! The keys of a local agent, in definition files and in settings.

use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::content::{Content, Part};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Local, MAX_TURNS, ModelChoice, Output, OutputForm, Prompt, TIME_LIMIT, inputs, servers};

/// Upper limit of minutes.
const MAX_MINUTES: f64 = 7.0 * 24.0 * 60.0;

/// The keys of a definition; any other key is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalFields {
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "read before to choose the form; accepted here so that other keys are refused"
    )]
    kind: Option<String>,
    pub(super) name: String,
    pub(super) description: String,
    #[serde(alias = "displayName")]
    pub(super) display_name: Option<String>,
    tools: Option<Vec<Value>>,
    #[serde(alias = "mcpServers", default)]
    mcp_servers: JsonObject,
    model: Option<String>,
    temperature: Option<f64>,
    #[serde(alias = "maxTurns")]
    max_turns: Option<i64>,
    #[serde(alias = "timeoutMins", alias = "maxTimeMinutes")]
    timeout_mins: Option<f64>,
    #[serde(alias = "initialMessages", default)]
    initial_messages: Vec<InitialMessage>,
    #[expect(dead_code, reason = "a label for people")]
    experimental: Option<bool>,
    inputs: Option<JsonObject>,
    #[serde(alias = "outputConfig")]
    output: Option<OutputFields>,
    query: Option<String>,
    #[serde(rename = "modelConfig.topP")]
    top_p: Option<f64>,
    #[serde(rename = "modelConfig.thinkingBudget")]
    thinking_budget: Option<i64>,
    #[serde(rename = "modelConfig.generateContentConfig", default)]
    generation: JsonObject,
}

/// An example turn, in the form of the API or with its text alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitialMessage {
    role: String,
    #[serde(alias = "content")]
    text: Option<String>,
    #[serde(default)]
    parts: Vec<InitialPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InitialPart {
    text: String,
}

impl InitialMessage {
    fn content(self) -> Result<Content, String> {
        let texts = self.text.into_iter().chain(self.parts.into_iter().map(|part| part.text));
        let parts: Vec<Part> = texts.map(Part::text).collect();
        match self.role.as_str() {
            _ if parts.is_empty() => Err("`initial_messages` has a message without text".to_owned()),
            "user" => Ok(Content::user(parts)),
            "model" | "assistant" => Ok(Content::model(parts)),
            other => Err(format!("unknown role `{other}` in `initial_messages` (expected user or model)")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputFields {
    #[serde(alias = "outputName")]
    name: Option<String>,
    description: Option<String>,
    schema: Value,
}

impl LocalFields {
    /// The agent with this system prompt; an error if the keys are invalid.
    pub(super) fn local(self, prompt: Prompt) -> Result<Local, String> {
        if self.description.trim().is_empty() {
            return Err("`description` is empty".to_owned());
        }
        let temperature = self.temperature.unwrap_or(1.0);
        if !(0.0..=2.0).contains(&temperature) {
            return Err(format!("`temperature` must be between 0 and 2, not {temperature}"));
        }
        let tools = self.tools.map(tool_names).transpose()?;
        if let Some(bad) = tools.iter().flatten().find(|name| !is_tool_word(name)) {
            return Err(format!("invalid tool name `{bad}` (wildcards are *, mcp_* and mcp_<server>_*)"));
        }
        let mut generation = JsonObject::from_iter([
            ("temperature".to_owned(), json!(temperature)),
            ("topP".to_owned(), json!(self.top_p.unwrap_or(0.95))),
        ]);
        if let Some(budget) = self.thinking_budget {
            generation.insert("thinkingConfig".to_owned(), json!({"thinkingBudget": budget}));
        }
        generation.extend(self.generation);
        let inputs = match &self.inputs {
            Some(written) => inputs::schema_of(written)?,
            None => inputs::query_schema(),
        };
        Ok(Local {
            prompt,
            query: self.query,
            initial: self
                .initial_messages
                .into_iter()
                .map(InitialMessage::content)
                .collect::<Result<_, _>>()?,
            inputs,
            output: self.output.map(OutputFields::output),
            tools,
            mcp_servers: servers::as_in_settings(self.mcp_servers)?,
            model: match self.model.as_deref() {
                None | Some("inherit" | "") => ModelChoice::Inherit,
                Some(name) => ModelChoice::Named(name.to_owned()),
            },
            generation,
            max_turns: self.max_turns.map_or(Ok(MAX_TURNS), turns)?,
            time_limit: self.timeout_mins.map_or(Ok(TIME_LIMIT), |minutes| time("timeout_mins", minutes))?,
        })
    }
}

impl OutputFields {
    fn output(self) -> Output {
        Output {
            name: self.name.unwrap_or_else(|| "result".to_owned()),
            description: self.description.unwrap_or_else(|| "The result of the task.".to_owned()),
            schema: self.schema,
            form: OutputForm::Plain,
        }
    }
}

fn tool_names(written: Vec<Value>) -> Result<Vec<String>, String> {
    let name = |tool| match tool {
        Value::String(name) => Ok(name),
        other => Err(format!("`tools` must list the names of tools, not {other}")),
    };
    written.into_iter().map(name).collect()
}

/// Names contain letters, digits and a few signs; a star only at the end of `*`, `mcp_*` and `mcp_<server>_*`.
fn is_tool_word(word: &str) -> bool {
    let plain =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'));
    match word.strip_suffix('*') {
        Some("" | "mcp_") => true,
        Some(start) => start.starts_with("mcp_") && start.ends_with('_') && plain(start),
        None => !word.is_empty() && plain(word),
    }
}

fn turns(given: i64) -> Result<u32, String> {
    u32::try_from(given)
        .ok()
        .filter(|turns| *turns > 0)
        .ok_or_else(|| format!("`max_turns` must be a positive whole number, not {given}"))
}

fn time(key: &str, minutes: f64) -> Result<Duration, String> {
    if minutes > 0.0 && minutes <= MAX_MINUTES {
        Ok(Duration::from_secs_f64(minutes * 60.0))
    } else {
        Err(format!("`{key}` must be a positive number of minutes, not {minutes}"))
    }
}

/// Applies `agents.overrides.<name>` to a definition; returns lines about invalid values.
pub(super) fn override_with(local: &mut Local, name: &str, written: &JsonObject) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |key: &str, why: &str| problems.push(format!("agents.overrides.{name}.{key}: {why}"));
    for (key, value) in written {
        match (key.as_str(), value) {
            ("enabled", Value::Bool(_)) => {}
            ("modelConfig", Value::Object(fields)) => {
                if let Some(model) = fields.get("model").and_then(Value::as_str) {
                    let inherits = matches!(model, "inherit" | "");
                    local.model =
                        if inherits { ModelChoice::Inherit } else { ModelChoice::Named(model.to_owned()) };
                }
                if let Some(Value::Object(config)) = fields.get("generateContentConfig") {
                    local.generation.extend(config.clone());
                }
            }
            ("runConfig", Value::Object(fields)) => {
                match fields.get("maxTurns").and_then(Value::as_i64).map(turns) {
                    Some(Ok(turns)) => local.max_turns = turns,
                    Some(Err(why)) => problem("runConfig.maxTurns", &why),
                    None => {}
                }
                let minutes = fields.get("maxTimeMinutes").and_then(Value::as_f64);
                match minutes.map(|minutes| time("maxTimeMinutes", minutes)) {
                    Some(Ok(limit)) => local.time_limit = limit,
                    Some(Err(why)) => problem("runConfig.maxTimeMinutes", &why),
                    None => {}
                }
            }
            ("tools", Value::Array(names)) => {
                let names: Vec<String> = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                match names.iter().find(|name| !is_tool_word(name)) {
                    Some(bad) => problem("tools", &format!("invalid tool name `{bad}`")),
                    None => local.tools = Some(names),
                }
            }
            ("mcpServers", Value::Object(written)) => match servers::as_in_settings(written.clone()) {
                Ok(servers) => local.mcp_servers.extend(servers),
                Err(why) => problem("mcpServers", &why),
            },
            (other, _) => problem(other, "unknown key or wrong type of value"),
        }
    }
    problems
}
