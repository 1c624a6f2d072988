//! The skills of a session, which can be reloaded while it runs.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use pollux_domain::BoxFuture;
use pollux_domain::sync::Locked as _;
use pollux_domain::tool::{Tool, ToolSource};
use tokio_util::sync::CancellationToken;

use super::activate::{ActivateSkill, activation};
use super::{BodyError, Skill, Skills};

/// Opens a folder for reading.
pub type GrantRead = Arc<dyn Fn(&Path) + Send + Sync>;

/// The current skills; the source of the tool `activate_skill`.
pub struct SkillRegistry {
    admit: GrantRead,
    state: Mutex<State>,
}

struct State {
    version: u64,
    skills: Skills,
    /// `None` when no skill is switched on.
    tool: Option<Arc<dyn Tool>>,
}

/// The difference after reloading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillChange {
    pub added: usize,
    pub removed: usize,
}

impl SkillRegistry {
    pub fn new(skills: Skills, admit: GrantRead) -> Self {
        let tool = tool(&skills, &admit);
        Self { admit, state: Mutex::new(State { version: 1, skills, tool }) }
    }

    /// Replaces the skills by newly discovered ones.
    pub fn replace(&self, skills: Skills) -> SkillChange {
        let tool = tool(&skills, &self.admit);
        let mut state = self.state();
        let names = |skills: &Skills| skills.enabled().map(|skill| skill.name.clone()).collect::<Vec<_>>();
        let (before, after) = (names(&state.skills), names(&skills));
        let count =
            |some: &[String], others: &[String]| some.iter().filter(|name| !others.contains(name)).count();
        let change = SkillChange { added: count(&after, &before), removed: count(&before, &after) };
        *state = State { version: state.version + 1, skills, tool };
        change
    }

    /// The enabled skill with this command name, without its slash.
    pub fn called(&self, word: &str) -> Option<Skill> {
        let state = self.state();
        let by_word = |skill: &&Skill| skill.command().eq_ignore_ascii_case(word);
        state.skills.enabled().find(by_word).cloned()
    }

    /// The text for the model when the user activates a skill; gives read access to its folder.
    pub fn activate(&self, skill: &Skill) -> Result<String, BodyError> {
        activation(skill, &self.admit).map(|(text, _)| text)
    }

    pub fn skills(&self) -> Skills {
        self.state().skills.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}

fn tool(skills: &Skills, admit: &GrantRead) -> Option<Arc<dyn Tool>> {
    let enabled: Arc<[Skill]> = skills.enabled().cloned().collect();
    (!enabled.is_empty()).then(|| Arc::new(ActivateSkill::new(enabled, Arc::clone(admit))) as Arc<dyn Tool>)
}

impl ToolSource for SkillRegistry {
    fn version(&self) -> u64 {
        self.state().version
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.state().tool.iter().cloned().collect()
    }

    fn context(&self) -> Option<String> {
        None
    }

    fn settled<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
