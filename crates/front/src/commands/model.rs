//! `/model`: choose the model.

use pollux_domain::event::Op;
use pollux_domain::terminal_text::one_line;
use pollux_host::request::Scope;

use crate::Front;
use crate::choice::{Choice, ChoiceRow, Chosen, ListKey, ListOptions, RowAction};

const USAGE: &str = "Usage: /model set <name> [--persist]";
const AUTO: &str = "auto";
const MANUAL: &str = "manual";

impl Front<'_, '_> {
    /// `/model`
    pub(super) async fn model(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) {
        let mut words = rest.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("manage"), None, _) => self.choose_model(conversation).await,
            (Some("set"), Some(name), kept @ (None | Some("--persist"))) if !name.starts_with('-') => {
                self.set_model(name, kept.is_some(), conversation).await;
            }
            _ => self.ui.note(USAGE),
        }
    }

    async fn choose_model(&mut self, conversation: &mut pollux_host::Conversation) {
        let models = pollux_host::models(self.turn.loaded);
        let (auto, named): (Vec<_>, Vec<_>) =
            models.into_iter().partition(|(name, _)| name.starts_with(AUTO));
        let stands_for = auto.first().map(|(_, id)| id.as_str()).unwrap_or_default();
        let row = |key: &str, text: String| (key.to_owned(), text);
        let is_auto = self.model.starts_with(AUTO);
        let now = if is_auto { String::new() } else { format!(" ({})", one_line(&self.model)) };
        let first = vec![
            row(AUTO, format!("Auto: selected by rules, currently {stands_for}")),
            row(MANUAL, format!("Manual{now}: choose a model")),
        ];
        let mut kept = false;
        let marked = if is_auto { AUTO } else { MANUAL };
        let Some(chosen) = self.remembering("Select Model", &first, marked, &mut kept).await else { return };
        if chosen == AUTO {
            return self.set_model(AUTO, kept, conversation).await;
        }
        let rows: Vec<(String, String)> = named
            .into_iter()
            .map(|(name, id)| {
                let text = if id == name { name.clone() } else { format!("{name} ({id})") };
                (name, text)
            })
            .collect();
        let marked = self.model.clone();
        if let Some(name) = self.remembering("Select Model · Manual", &rows, &marked, &mut kept).await {
            self.set_model(&name, kept, conversation).await;
        }
    }

    /// A list in which Tab toggles whether the choice is saved.
    async fn remembering(
        &mut self,
        title: &str,
        rows: &[(String, String)],
        marked: &str,
        kept: &mut bool,
    ) -> Option<String> {
        let mut marked = marked.to_owned();
        loop {
            let row = |(key, text): &(String, String)| ChoiceRow {
                key: key.clone(),
                columns: vec![text.clone()],
                ..ChoiceRow::default()
            };
            let choice = Choice {
                title: title.to_owned(),
                rows: rows.iter().map(row).collect(),
                actions: vec![RowAction { key: ListKey::Tab, about: "toggle remembering", confirm: false }],
                marked: Some(marked),
                foot: vec![format!("Remember model for future sessions: {kept} (Press Tab to toggle)")],
                hint: Some("(Use Enter to select, Esc to close)".to_owned()),
                options: ListOptions { numbered: true, ..ListOptions::default() },
                ..Choice::default()
            };
            match self.ui.choose(choice).await? {
                Chosen { key, action: None } => return Some(key),
                Chosen { key, action: Some(_) } => {
                    *kept = !*kept;
                    marked = key;
                }
            }
        }
    }

    /// Sets the model from the next request on, and saves it if `kept`.
    async fn set_model(&mut self, name: &str, kept: bool, conversation: &mut pollux_host::Conversation) {
        if conversation.ask(Op::SetModel(name.to_owned())).is_err() {
            return;
        }
        self.model = name.to_owned();
        let id = pollux_host::models(self.turn.loaded)
            .into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, id)| id);
        let stands_for = id.filter(|id| id != name).map(|id| format!(" ({id})")).unwrap_or_default();
        let remembered = kept && self.keep_setting("model.name", name, Scope::User);
        let kept = if remembered { ", and in future sessions" } else { "" };
        self.ui.note(&format!("Model set to {}{stands_for}{kept}", one_line(name)));
    }

    /// The model and the used share of its context window.
    pub(super) async fn model_line(&mut self, conversation: &mut pollux_host::Conversation) -> String {
        let Some(view) = self.view(conversation).await else { return String::new() };
        let stands_for = match view.resolved_model == view.model {
            true => String::new(),
            false => format!(" ({})", view.resolved_model),
        };
        let share = (view.tokens * 100).checked_div(view.window).unwrap_or_default();
        format!("Model: {}{stands_for}, {share}% of {} tokens used", view.model, view.window)
    }
}
