//! `/editor`: the editor for long prompts and proposed changes.

use pollux_domain::failure::Failure;
use pollux_host::request::Scope;
use pollux_host::settings::bare;

use crate::Front;
use crate::choice::{Choice, ChoiceRow};

const KEY: &str = "general.preferredEditor";
const NONE: &str = "none";

impl Front<'_, '_> {
    /// `/editor`
    pub(super) async fn editor(&mut self) {
        let files = pollux_host::settings::settings(self.turn.request, &self.turn.loaded.env);
        let now = files.ok().and_then(|files| files.written(KEY, Scope::User)).map(|value| bare(&value));
        let choice = self.editors(now.as_deref().unwrap_or(NONE));
        let Some(chosen) = self.ui.choose(choice).await else { return };
        let id = Some(chosen.key.as_str()).filter(|id| *id != NONE);
        if let Err(failure) = self.prefer(id) {
            self.ui.error(&failure.message());
            return;
        }
        self.ui.prefer_editor(id);
        self.ui.note(&format!("Preferred editor: {}", name(&chosen.key)));
    }

    fn prefer(&self, id: Option<&str>) -> Result<(), Failure> {
        let mut files = pollux_host::settings::settings(self.turn.request, &self.turn.loaded.env)?;
        match id {
            Some(id) => files.set(KEY, id, Scope::User).map(drop),
            None => files.reset(KEY, Scope::User),
        }
    }

    fn editors(&self, now: &str) -> Choice {
        let env = &self.turn.loaded.env;
        let row = |id: &str, text: String| ChoiceRow {
            key: id.to_owned(),
            columns: vec![format!("{text}{}", if id == now { " *" } else { "" })],
            ..ChoiceRow::default()
        };
        let known = crate::editors::editors().iter().map(|editor| {
            let missing = if editor.is_installed(env) { "" } else { " (Not installed)" };
            row(editor.id, format!("{}{missing}", editor.name))
        });
        let none = row(NONE, "None (VISUAL, EDITOR or vi)".to_owned());
        Choice {
            title: "Select Editor".to_owned(),
            rows: std::iter::once(none).chain(known).collect(),
            marked: Some(now.to_owned()),
            // A project must not choose a program to run.
            foot: vec!["Apply To: ● User Settings (a project cannot choose an editor)".to_owned()],
            hint: Some("(Use Enter to select, / to search, Esc to close)".to_owned()),
            ..Choice::default()
        }
    }
}

/// The display name of an editor.
fn name(id: &str) -> &str {
    crate::editors::editors().iter().find(|editor| editor.id == id).map_or(id, |editor| editor.name)
}
