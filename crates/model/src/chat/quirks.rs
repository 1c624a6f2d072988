//! What servers of this dialect do differently, as data.

use pollux_domain::model::Capabilities;

use crate::shared::call_ids::IdRule;

/// How a server departs from the plain dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quirks {
    pub(crate) ids: IdRule,
    /// The parameter that limits the output.
    pub(crate) output_cap: &'static str,
    /// It counts tokens of streams only if it is asked to.
    pub(crate) stream_options: bool,
    /// The model can be made to call a tool.
    pub(crate) tool_choice: bool,
    /// The word that makes it call any tool.
    pub(crate) required: &'static str,
    /// A choice may name some of the tools.
    pub(crate) allowed_tools: bool,
    /// It keeps replies unless it is told not to.
    pub(crate) store: bool,
    /// It takes a key for its prompt cache.
    pub(crate) cache_key: bool,
    /// How it is told how much to reason.
    pub(crate) effort: EffortField,
    /// What of the model's reasoning it wants back.
    pub(crate) echo: Echo,
    /// A person may not speak right after a tool.
    pub(crate) no_user_after_tool: bool,
    /// What it can be asked beyond the dialect.
    pub(crate) facts: ServerFacts,
    /// Headers that it likes to see.
    pub(crate) headers: &'static [(&'static str, &'static str)],
}

/// The parameter for the effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffortField {
    /// `reasoning_effort`
    Flat,
    /// `reasoning: {effort}`
    Nested,
}

/// Reasoning that goes back with the turn it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    Nothing,
    /// `reasoning_content` on every turn with calls.
    Content,
    /// `reasoning_details` as they came.
    Details,
}

/// Where a server tells what the dialect has no word for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerFacts {
    None,
    /// `/api/show` and `/api/ps`
    Ollama,
    /// `/props`
    LlamaCpp,
    /// `/api/v0/models`
    LmStudio,
}

const PLAIN: Quirks = Quirks {
    ids: IdRule::Plain { max: 64 },
    output_cap: "max_tokens",
    stream_options: true,
    tool_choice: true,
    required: "required",
    allowed_tools: false,
    store: false,
    cache_key: false,
    effort: EffortField::Flat,
    echo: Echo::Nothing,
    no_user_after_tool: false,
    facts: ServerFacts::None,
    headers: &[],
};

const OPENAI: Quirks = Quirks {
    output_cap: "max_completion_tokens",
    allowed_tools: true,
    store: true,
    cache_key: true,
    ..PLAIN
};
const AZURE: Quirks = Quirks { output_cap: "max_completion_tokens", ..PLAIN };
const OLLAMA: Quirks = Quirks { tool_choice: false, facts: ServerFacts::Ollama, ..PLAIN };
const LLAMA_CPP: Quirks = Quirks { facts: ServerFacts::LlamaCpp, ..PLAIN };
const LM_STUDIO: Quirks = Quirks { facts: ServerFacts::LmStudio, ..PLAIN };
const MISTRAL: Quirks =
    Quirks { ids: IdRule::Nine, required: "any", stream_options: false, no_user_after_tool: true, ..PLAIN };
const ECHOING: Quirks = Quirks { echo: Echo::Content, ..PLAIN };
const OPENROUTER: Quirks =
    Quirks { effort: EffortField::Nested, echo: Echo::Details, headers: &[("X-Title", "Pollux")], ..PLAIN };

/// How a server is recognised; any of these is enough.
struct Server {
    provider: Option<&'static str>,
    /// The end of its host's name.
    host: Option<&'static str>,
    /// The port where it usually listens on this machine.
    port: Option<u16>,
    quirks: Quirks,
}

const fn provider(id: &'static str, host: &'static str, quirks: Quirks) -> Server {
    Server { provider: Some(id), host: Some(host), port: None, quirks }
}

const fn local(id: &'static str, port: u16, quirks: Quirks) -> Server {
    Server { provider: Some(id), host: None, port: Some(port), quirks }
}

const SERVERS: &[Server] = &[
    // Not by its id: settings may point that provider at another host, which is another server.
    Server { provider: None, host: Some("api.openai.com"), port: None, quirks: OPENAI },
    provider("azure", ".azure.com", AZURE),
    provider("mistral", "api.mistral.ai", MISTRAL),
    provider("deepseek", "api.deepseek.com", ECHOING),
    provider("moonshot", ".moonshot.ai", ECHOING),
    provider("moonshot", ".moonshot.cn", ECHOING),
    provider("openrouter", "openrouter.ai", OPENROUTER),
    local("ollama", 11434, OLLAMA),
    local("llamacpp", 8080, LLAMA_CPP),
    // A server that the program starts itself, at any port.
    Server { provider: Some("gguf"), host: None, port: None, quirks: LLAMA_CPP },
    local("lmstudio", 1234, LM_STUDIO),
];

/// Models that want nine characters in ids, wherever they run.
const NINE_CHARACTER_MODELS: &[&str] = &["mistral", "devstral", "codestral", "pixtral", "mixtral"];
/// Models that want their reasoning back, on servers that the table does not know.
const ECHOING_MODELS: &[&str] = &["deepseek", "kimi"];
/// Models that write their reasoning into the text where the server does not take it out.
const THINK_TAG_MODELS: &[&str] = &["deepseek-r1", "qwq", "qwen3"];

impl Quirks {
    /// Those of a server and of a model on it.
    pub(crate) fn of(provider: &str, host: &str, port: Option<u16>, model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let is_one_of = |families: &[&str]| families.iter().any(|family| model.contains(family));
        let is_local = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        let row = SERVERS.iter().find(|server| {
            server.provider == Some(provider)
                || server.host.is_some_and(|end| host.ends_with(end))
                || is_local && server.port.is_some() && server.port == port
        });
        let mut quirks = row.map_or(PLAIN, |server| server.quirks);
        if is_one_of(NINE_CHARACTER_MODELS) {
            quirks.ids = IdRule::Nine;
        }
        if row.is_none() && is_one_of(ECHOING_MODELS) {
            quirks.echo = Echo::Content;
        }
        quirks
    }
}

/// Whether reasoning has to be looked for in the text.
pub(crate) fn has_think_tags(caps: &Capabilities, model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    caps.think_tags || THINK_TAG_MODELS.iter().any(|family| model.contains(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_provider_its_host_or_its_port() {
        assert_eq!(Quirks::of("openai", "api.openai.com", None, "gpt-6"), OPENAI);
        assert_eq!(
            Quirks::of("openai", "gateway.example", None, "gpt-6"),
            PLAIN,
            "another host is another server"
        );
        assert_eq!(Quirks::of("x", "res.openai.azure.com", None, "gpt-6"), AZURE);
        assert_eq!(Quirks::of("x", "127.0.0.1", Some(11434), "qwen3"), OLLAMA);
        assert_eq!(Quirks::of("ollama", "box", Some(80), "qwen3"), OLLAMA);
        assert_eq!(Quirks::of("lab", "llm.example", Some(11434), "m"), PLAIN);
    }

    #[test]
    fn some_models_bring_their_habits_along() {
        assert_eq!(Quirks::of("lab", "llm.example", None, "Devstral-2").ids, IdRule::Nine);
        assert_eq!(Quirks::of("lab", "llm.example", None, "deepseek-v4").echo, Echo::Content);
        assert_eq!(Quirks::of("openrouter", "openrouter.ai", None, "deepseek/v4").echo, Echo::Details);
        assert!(has_think_tags(&Capabilities::default(), "Qwen3-8B"));
        assert!(!has_think_tags(&Capabilities::default(), "gpt-6"));
    }
}
