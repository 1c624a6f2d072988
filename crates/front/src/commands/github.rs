//! `/setup-github`: workflows for GitHub Actions.

use pollux_host::WorkflowSetup;

use crate::Front;

impl Front<'_, '_> {
    pub(super) async fn set_up_github(&mut self) {
        let done = match WorkflowSetup::find(self.turn.loaded.project.root()) {
            Ok(setup) => self.write_workflows(&setup).await,
            Err(text) => Err(text),
        };
        match done {
            Ok(text) => self.ui.note(&text),
            Err(text) => self.ui.error(&text),
        }
    }

    async fn write_workflows(&mut self, setup: &WorkflowSetup) -> Result<String, String> {
        let conflicts = setup.conflicts();
        if !conflicts.is_empty() {
            let question = format!("{} will be overwritten. Continue?", conflicts.join(", "));
            if !self.ui.confirm(&question).await {
                return Ok("Nothing was changed.".to_owned());
            }
        }
        setup.write()
    }
}
