//! MCP prompts as slash commands.

use pollux_domain::JsonObject;
use pollux_domain::untrusted::sealed;
use rmcp::model::{ClientRequest, GetPromptRequest, GetPromptRequestParams};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::offer::PromptSpec;
use crate::request::RequestError;
use crate::server::ServerUse;
use crate::words;

/// Characters of a prompt that are taken from a server.
const MAX_TEXT: usize = 1_000_000;

/// A prompt that can be typed.
pub struct PromptCommand {
    /// Without the slash.
    pub name: String,
    pub server: String,
    pub spec: PromptSpec,
    pub(crate) source: ServerUse,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    #[error("Missing required argument(s): {}", .0.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(", "))]
    Missing(Vec<String>),
    #[error("the prompt `{0}` has no text")]
    NoText(String),
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// The prompts of all servers. Where two have the same name, the later one is `<server>_<name>`.
pub(crate) fn commands(servers: &[ServerUse]) -> Vec<PromptCommand> {
    let mut commands: Vec<PromptCommand> = Vec::new();
    for server in servers {
        for spec in &server.state().offer.prompts {
            let plain: String = spec.name.split_whitespace().collect::<Vec<_>>().join("-");
            let taken = |name: &str| commands.iter().any(|command| command.name == name);
            let name = if taken(&plain) { format!("{}_{plain}", server.name()) } else { plain };
            if !taken(&name) {
                let (server, source) = (server.name().to_owned(), server.clone());
                commands.push(PromptCommand { name, server, spec: spec.clone(), source });
            }
        }
    }
    commands
}

impl PromptCommand {
    /// Whether a typed word means this prompt; the server's name may stand before it.
    pub fn is_called(&self, word: &str) -> bool {
        let bare = |separator: char| {
            let rest = word.strip_prefix(self.server.as_str()).and_then(|rest| rest.strip_prefix(separator));
            rest.is_some_and(|rest| rest == self.spec.name.split_whitespace().collect::<Vec<_>>().join("-"))
        };
        word == self.name || bare('.') || bare('_')
    }

    /// What it takes, for people.
    pub fn help(&self) -> String {
        let mut text = format!("/{}: {} (MCP server {})", self.name, self.spec.description, self.server);
        for argument in &self.spec.arguments {
            let must = if argument.required { " (required)" } else { "" };
            text.push_str(&format!("\n  --{}{must}  {}", argument.name, argument.description));
        }
        text
    }

    /// Asks the server for the prompt's text.
    pub async fn text(&self, arguments: &str, cancel: &CancellationToken) -> Result<String, PromptError> {
        let arguments = read(&self.spec, arguments).map_err(PromptError::Missing)?;
        let params = GetPromptRequestParams::new(self.spec.name.as_str()).with_arguments(arguments);
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let answer = self.source.request(request, cancel, None).await?;
        let messages = answer.get("messages").and_then(Value::as_array).into_iter().flatten();
        let texts: Vec<&str> = messages
            .filter(|message| message.get("role").and_then(Value::as_str) != Some("assistant"))
            .filter_map(|message| {
                let content = message.get("content")?;
                let text = content.get("text").or_else(|| content.pointer("/resource/text"))?;
                text.as_str()
            })
            .collect();
        let text: String = texts.join("\n\n").chars().take(MAX_TEXT).collect();
        if text.trim().is_empty() {
            return Err(PromptError::NoText(self.name.clone()));
        }
        Ok(sealed(&text).into_owned())
    }
}

/// Reads `--key=value`, `--key="some words"` and words in order; the names of required ones that are missing.
fn read(spec: &PromptSpec, typed: &str) -> Result<JsonObject, Vec<String>> {
    let mut given = JsonObject::new();
    let mut loose = Vec::new();
    for word in words::split(typed) {
        let named = word.strip_prefix("--").and_then(|word| word.split_once('='));
        match named {
            Some((key, value)) => {
                given.insert(key.to_owned(), Value::from(value));
            }
            None => loose.push(word),
        }
    }
    let open: Vec<&str> = spec
        .arguments
        .iter()
        .filter(|argument| argument.required && !given.contains_key(&argument.name))
        .map(|argument| argument.name.as_str())
        .collect();
    // Words without a name may also fill a prompt's only argument.
    let open = match (open.as_slice(), spec.arguments.as_slice()) {
        ([], [only]) if !given.contains_key(&only.name) => vec![only.name.as_str()],
        _ => open,
    };
    if let [only] = open.as_slice() {
        if !loose.is_empty() {
            given.insert((*only).to_owned(), Value::from(loose.join(" ")));
        }
    } else {
        for (name, word) in open.iter().zip(loose) {
            given.insert((*name).to_owned(), Value::from(word));
        }
    }
    let required = spec.arguments.iter().filter(|argument| argument.required);
    let missing: Vec<String> = required
        .filter(|argument| !given.contains_key(&argument.name))
        .map(|argument| argument.name.clone())
        .collect();
    if missing.is_empty() { Ok(given) } else { Err(missing) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::PromptArgument;

    fn spec(arguments: &[(&str, bool)]) -> PromptSpec {
        let arguments = arguments.iter().map(|(name, required)| PromptArgument {
            name: (*name).to_owned(),
            description: String::new(),
            required: *required,
        });
        PromptSpec { name: "p".into(), description: String::new(), arguments: arguments.collect() }
    }

    #[test]
    fn arguments_have_names_or_an_order() {
        let two = spec(&[("a", true), ("b", true), ("c", false)]);
        let one = spec(&[("a", true), ("c", false)]);
        for (spec, typed, expected) in [
            (&two, "x y", r#"{"a":"x","b":"y"}"#),
            (&two, r#"--b="two words" x"#, r#"{"b":"two words","a":"x"}"#),
            (&two, "--b=1 several words", r#"{"b":"1","a":"several words"}"#),
            (&one, "all of it", r#"{"a":"all of it"}"#),
            (&one, r#"--a="say \"hi\"" --c=1"#, r#"{"a":"say \"hi\"","c":"1"}"#),
            (&spec(&[("c", false)]), "words too", r#"{"c":"words too"}"#),
            (&spec(&[]), "nothing to fill", "{}"),
        ] {
            assert_eq!(Value::Object(read(spec, typed).unwrap()).to_string(), expected, "{typed}");
        }
        let missing = PromptError::Missing(read(&two, "").unwrap_err());
        assert_eq!(missing.to_string(), "Missing required argument(s): --a, --b");
    }
}
