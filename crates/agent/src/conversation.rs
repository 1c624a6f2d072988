//! The conversation state of a session: turns, current prompt, instructions and counters.

pub(crate) mod epoch;

use std::sync::Arc;

use crate::history::History;
use crate::prompt::{self, PromptInputs};
use crate::steering::Steering;
use crate::tokens;
use crate::toolbox::Toolbox;

/// The conversation state.
pub(crate) struct Conversation {
    pub(crate) history: History,
    /// The current prompt.
    pub(crate) prompted: Prompted,
    /// What the user said since the last request.
    pub(crate) steering: Arc<Steering>,
    pub(crate) dialogue: Dialogue,
    pub(crate) counters: Counters,
    /// Inputs of the system prompt.
    pub(crate) prompt: PromptInputs,
    pub(crate) system: Arc<str>,
    /// Start of every request while it must not change; see `epoch`.
    pub(crate) epoch: Option<epoch::Epoch>,
    /// Estimated tokens of a request apart from the conversation.
    pub(crate) overhead: u64,
}

/// A prompt in progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prompted {
    /// Its record; empty if it was not recorded.
    pub(crate) message: String,
    /// The id that its requests share.
    pub(crate) id: String,
    /// The id for recording the current reply.
    pub(crate) reply: String,
}

/// The current prompt and the model's text, for hooks.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    pub(crate) prompt: String,
    pub(crate) replies: Vec<String>,
}

/// The counters of a session.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) prompts: u64,
    /// Requests of the conversation itself.
    pub(crate) requests: u32,
    /// Calls that came without an id.
    pub(crate) unnamed_calls: u64,
    /// Tokens of the last request as counted by the model, and its number of turns.
    pub(crate) last_request: Option<(u64, usize)>,
    /// Automatic compression failed and is not retried in this session.
    pub(crate) summary_failed: bool,
    pub(crate) recording_stopped: bool,
    /// Whether a failed sync was reported in this session.
    pub(crate) unsynced_reported: bool,
    pub(crate) compressions: u64,
    /// Context window that the server of a model reported, if smaller than the known one.
    pub(crate) named_window: Option<(String, u64)>,
    /// The model whose missing effort level the user knows of.
    pub(crate) effort_told: Option<String>,
    /// Number of user shell commands.
    pub(crate) shells: u64,
}

impl Conversation {
    pub(crate) fn new(history: History, prompt: PromptInputs, toolbox: &Toolbox) -> Self {
        let mut conversation = Self {
            history,
            prompted: Prompted::default(),
            steering: Arc::default(),
            dialogue: Dialogue::default(),
            counters: Counters::default(),
            prompt,
            system: Arc::from(""),
            epoch: None,
            overhead: 0,
        };
        conversation.history.describe_tools(toolbox.context());
        conversation.instruct(toolbox);
        conversation
    }

    /// Builds the system prompt for the visible tools.
    pub(crate) fn instruct(&mut self, toolbox: &Toolbox) {
        let declared = toolbox.declared();
        let names: Vec<&str> = declared.iter().map(|tool| tool.name.as_str()).collect();
        let prompt = PromptInputs { skills: toolbox.sections(), ..self.prompt.clone() };
        self.system = Arc::from(prompt::build(&prompt, &names));
        self.overhead =
            tokens::of_text(&self.system) + declared.iter().map(|tool| tokens::of_spec(tool)).sum::<u64>();
    }

    /// The size of the next request: as counted by the model, otherwise an estimate.
    pub(crate) fn size(&self) -> u64 {
        match self.counters.last_request {
            Some((tokens, turns)) => tokens.saturating_add(self.history.tokens_from(turns)),
            None => self.estimate(),
        }
    }

    /// The size as it is estimated here, whatever the model counted: two sizes can only be compared if they were
    /// counted in one way.
    pub(crate) fn estimate(&self) -> u64 {
        self.history.tokens().saturating_add(self.overhead)
    }
}
