//! What is known of a model before it is asked.

use super::{Dialect, Effort, MicroUsd, ProviderId};

/// Models with a smaller window get the compact profile.
const COMPACT_WINDOW: u64 = 40_000;

/// What the program must know of a model before it asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The concrete name that is sent.
    pub id: String,
    pub provider: ProviderId,
    pub dialect: Dialect,
    /// How many tokens a request may hold.
    pub context_window: u64,
    /// How many tokens a reply may have, if that is known.
    pub max_output: Option<u64>,
    pub caps: Capabilities,
    /// It runs on the user's own machine or network.
    pub local: bool,
    /// Whether it gets the compact profile, where the user says so.
    pub compact: Option<bool>,
    /// What it costs, if that is known.
    pub prices: Option<Prices>,
    /// The model of the same provider for small background tasks.
    pub small: Option<String>,
    /// The model of the same provider that investigates a code base.
    pub investigator: Option<String>,
    /// The model of the same provider that carries out an approved plan, if the name leaves the choice open.
    pub implementer: Option<String>,
    pub source: InfoSource,
}

impl ModelInfo {
    /// What is assumed of a model that nothing says anything about: a small window, tools, and nothing else.
    pub fn unknown(id: impl Into<String>, provider: ProviderId, dialect: Dialect) -> Self {
        Self {
            id: id.into(),
            provider,
            dialect,
            context_window: 128_000,
            max_output: None,
            caps: Capabilities { tools: true, ..Capabilities::default() },
            local: false,
            compact: None,
            prices: None,
            small: None,
            investigator: None,
            implementer: None,
            source: InfoSource::Guess,
        }
    }

    /// The name to show for a model that was asked for as `asked`: Gemini's aliases as they are, because its formats
    /// carry them, and otherwise the concrete model.
    pub fn display_name(&self, asked: &str) -> String {
        if self.provider != ProviderId::GEMINI {
            return self.id.clone();
        }
        let bare = ["gemini/", "vertex/"].into_iter().find_map(|prefix| asked.strip_prefix(prefix));
        bare.unwrap_or(asked).to_owned()
    }

    /// Whether prompts have to be short: few tools, short descriptions, short instructions. A model on the user's own
    /// machine reads a long prompt slowly, and a small window has no room for one.
    pub fn is_compact(&self) -> bool {
        self.compact.unwrap_or(self.local || self.context_window < COMPACT_WINDOW)
    }
}

/// Who says what is known of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoSource {
    /// The program's own tables.
    Catalogue,
    /// The user's settings.
    User,
    /// The server.
    Server,
    /// Nobody; it is assumed.
    Guess,
}

/// What a model can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It calls tools.
    pub tools: bool,
    /// It asks for several calls in one reply.
    pub parallel: bool,
    /// It can be made to call, or not to call, a tool.
    pub tool_choice: bool,
    pub images: bool,
    pub pdf: bool,
    pub audio: bool,
    /// Media may stand inside the answer to a call.
    pub media_in_results: bool,
    pub reasoning: bool,
    /// The efforts it knows; empty if it cannot be told.
    pub efforts: Vec<Effort>,
    /// It keeps to a schema.
    pub structured: bool,
    /// It accepts sampling parameters.
    pub sampling: bool,
    /// The system may speak in the middle of a conversation.
    pub mid_system: bool,
    /// Its reasoning is bound to everything before it, which must not change afterwards.
    pub sealed_prefix: bool,
    /// It writes its reasoning into the text, between `<think>` and `</think>`.
    pub think_tags: bool,
    /// It keeps a list of tasks only if a tool for that is offered.
    pub wants_todo_list: bool,
}

/// Prices per million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices {
    pub input: MicroUsd,
    pub output: MicroUsd,
    pub cached: MicroUsd,
    pub cache_write: MicroUsd,
    /// From this many input tokens on, other prices hold.
    pub above: Option<(u64, Box<Prices>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_models_and_small_windows_are_compact_unless_the_user_says_otherwise() {
        let unknown = ModelInfo::unknown("m", ProviderId::new("lab"), Dialect::CHAT);
        assert!(!unknown.is_compact());
        assert!(ModelInfo { local: true, ..unknown.clone() }.is_compact());
        assert!(ModelInfo { context_window: 39_999, ..unknown.clone() }.is_compact());
        assert!(!ModelInfo { local: true, compact: Some(false), ..unknown.clone() }.is_compact());
        assert!(ModelInfo { compact: Some(true), ..unknown }.is_compact());
    }
}
