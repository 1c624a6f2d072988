//! The tools of a session: which exist, which the model may see, and what a wrong name gets.

use std::sync::Arc;

use pollux_domain::spelling::distance;
use pollux_domain::tool::{Tool, ToolSpec};
use pollux_policy::canonical_tool_name;

use crate::approval::Approvals;

/// Tools that the model may call, as older conversations do, and that are not declared to it, as upstream has it.
const UNDECLARED: [&str; 2] = ["read_many_files", "get_internal_docs"];

/// The tools of one session.
pub(crate) struct Toolbox {
    all: Vec<Arc<dyn Tool>>,
    /// What the approvals let the model see now.
    tools: Vec<Arc<dyn Tool>>,
    declared: Arc<[Arc<ToolSpec>]>,
}

impl Toolbox {
    pub(crate) fn new(all: Vec<Arc<dyn Tool>>, approvals: &Approvals) -> Self {
        let mut toolbox = Self { all, tools: Vec::new(), declared: Arc::new([]) };
        toolbox.look_again(approvals);
        toolbox
    }

    /// Keeps what the approvals let the model see; another mode shows other tools.
    pub(crate) fn look_again(&mut self, approvals: &Approvals) {
        self.tools = self.all.iter().filter(|tool| approvals.exposes(&***tool)).cloned().collect();
        let specs = self.tools.iter().map(|tool| tool.spec());
        self.declared = specs.filter(|spec| !UNDECLARED.contains(&spec.name.as_str())).cloned().collect();
    }

    /// What is declared to the model.
    pub(crate) fn declared(&self) -> Arc<[Arc<ToolSpec>]> {
        Arc::clone(&self.declared)
    }

    /// The tool of this name or alias; the text for the model if there is none.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn Tool>, String> {
        // A tool's own name comes before an alias for another.
        let named = |wanted: &str| self.tools.iter().find(|tool| tool.spec().name == wanted);
        named(name).or_else(|| named(canonical_tool_name(name))).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> String {
        let mut near: Vec<(usize, &str)> =
            self.declared.iter().map(|spec| (distance(name, &spec.name), spec.name.as_str())).collect();
        near.sort();
        let near: Vec<String> = near.iter().take(3).map(|(_, name)| format!("\"{name}\"")).collect();
        match near.as_slice() {
            [] => format!("Tool \"{name}\" not found."),
            [only] => format!("Tool \"{name}\" not found. Did you mean {only}?"),
            several => format!("Tool \"{name}\" not found. Did you mean one of: {}?", several.join(", ")),
        }
    }
}
