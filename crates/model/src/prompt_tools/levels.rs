//! Which level a model works at, and what decides about it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use pollux_domain::BoxFuture;
use pollux_domain::model::{InfoSource, ModelError, ModelInfo};
use pollux_domain::sync::Locked;

use crate::providers::ToolMode;

/// What a local server knows about one model; `None` where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalFacts {
    /// The window in use, which may be smaller than the model's.
    pub context_window: Option<u64>,
    pub tools: Option<bool>,
    pub images: Option<bool>,
    pub reasoning: Option<bool>,
    /// What the user should change.
    pub advice: Option<String>,
}

/// A server that can be asked about its models.
pub trait LocalProbe: Send + Sync {
    /// What the server knows about a model, asked once without retries; `None` if it cannot be asked.
    fn local_facts<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Option<LocalFacts>, ModelError>>;
}

/// What the user's settings say of a model by its name.
pub type ModeOf = Arc<dyn Fn(&str) -> Option<ToolMode> + Send + Sync>;

/// How tools are offered to a provider's models.
#[derive(Clone)]
pub struct ToolPlan {
    pub mode: ModeOf,
    /// The server constrains a reply to a schema, so that calls can be asked for under a grammar.
    pub grammar: bool,
}

impl ToolPlan {
    /// The same mode for every model.
    pub fn fixed(mode: ToolMode) -> Self {
        Self { mode: Arc::new(move |_| Some(mode)), grammar: false }
    }
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// In the words of the wire.
    Native,
    /// In its text, as the system prompt explains.
    Prompt {
        /// The server writes the call under a grammar.
        grammar: bool,
    },
    /// Not at all.
    None,
}

/// The levels of all models of one client, as long as it lives.
pub(super) struct Levels {
    plan: ToolPlan,
    probe: Option<Arc<dyn LocalProbe>>,
    facts: Mutex<HashMap<String, LocalFacts>>,
    /// Models whose server refused tools, or which only described calls.
    prompted: Mutex<HashSet<String>>,
    /// Models whose server refused a grammar.
    without_grammar: Mutex<HashSet<String>>,
}

impl Levels {
    pub(super) fn new(plan: ToolPlan, probe: Option<Arc<dyn LocalProbe>>) -> Self {
        Self {
            plan,
            probe,
            facts: Mutex::default(),
            prompted: Mutex::default(),
            without_grammar: Mutex::default(),
        }
    }

    pub(super) fn level(&self, model: &str) -> Level {
        let mode = (self.plan.mode)(model);
        // What the user declares wins over what the server says of itself.
        let lacks_tools = || {
            mode.is_none() && self.facts.locked().get(model).is_some_and(|facts| facts.tools == Some(false))
        };
        match mode {
            Some(ToolMode::None) => Level::None,
            Some(ToolMode::Prompt) => self.prompt(model),
            _ if lacks_tools() || self.prompted.locked().contains(model) => self.prompt(model),
            Some(ToolMode::Native) | None => Level::Native,
        }
    }

    fn prompt(&self, model: &str) -> Level {
        Level::Prompt { grammar: self.plan.grammar && !self.without_grammar.locked().contains(model) }
    }

    /// From now on tools are explained in the prompt; false if they were already.
    pub(super) fn move_to_prompt(&self, model: &str) -> bool {
        self.prompted.locked().insert(model.to_owned())
    }

    pub(super) fn give_up_grammar(&self, model: &str) {
        self.without_grammar.locked().insert(model.to_owned());
    }

    /// Lays what was learnt over what is known of a model.
    pub(super) fn describe(&self, info: &mut ModelInfo) {
        if let Some(facts) = self.facts.locked().get(&info.id) {
            if info.source != InfoSource::User {
                info.context_window = facts.context_window.unwrap_or(info.context_window);
                info.source = InfoSource::Server;
            }
            info.caps.images |= facts.images == Some(true);
        }
        let level = self.level(&info.id);
        info.caps.tools = level != Level::None;
        if matches!(level, Level::Prompt { .. }) {
            info.caps.parallel = false;
        }
    }

    /// Asks the server about a model that nothing was heard of yet; what people should know about it.
    pub(super) fn ask(&self, model: &str) -> Option<BoxFuture<'static, Result<LocalFacts, ModelError>>> {
        let probe = Arc::clone(self.probe.as_ref()?);
        if self.facts.locked().contains_key(model) {
            return None;
        }
        let model = model.to_owned();
        Some(Box::pin(async move { Ok(probe.local_facts(&model).await?.unwrap_or_default()) }))
    }

    /// Keeps what the server said; the lines are for people.
    pub(super) fn learn(&self, model: &str, facts: LocalFacts) -> Vec<String> {
        let before = self.level(model);
        let mut lines: Vec<String> = facts.advice.iter().cloned().collect();
        self.facts.locked().insert(model.to_owned(), facts);
        if before == Level::Native && self.level(model) != Level::Native {
            lines.push(format!(
                "This server has no native tool calls for {model}; tools are described in the prompt instead."
            ));
        }
        lines
    }
}
