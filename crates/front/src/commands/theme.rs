//! `/theme`: choose the colours of the screen.

use pollux_host::request::Scope;

use super::settings::{other, two_scopes};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, Chosen, ListEvent, ListKey, ListOptions, RowAction};
use crate::screen_provider::ThemeInfo;

impl Front<'_, '_> {
    /// `/theme`
    pub(super) async fn theme(&mut self) {
        let loaded = self.turn.loaded;
        if loaded.env.non_empty("NO_COLOR").is_some() {
            self.ui.note("Theme configuration unavailable due to NO_COLOR env variable.");
            return;
        }
        let fresh = pollux_host::load_settings(self.turn.request, &loaded.env).ok();
        let loaded = fresh.as_ref().unwrap_or(loaded);
        let list = self.screens.themes(loaded);
        self.ui.load_themes(loaded);
        let mut scope = Scope::User;
        self.ui.present(dialog(&list.themes, scope, &list.current));
        loop {
            match self.ui.list_event().await {
                None => {
                    self.ui.show_theme(None);
                    break;
                }
                Some(ListEvent::Marked(name)) => self.ui.show_theme(Some(&name)),
                Some(ListEvent::Chosen(Chosen { action: Some(_), key })) => {
                    scope = other(scope);
                    self.ui.present(dialog(&list.themes, scope, &key));
                }
                Some(ListEvent::Chosen(Chosen { action: None, key })) => {
                    self.set_theme(&key, scope);
                    break;
                }
                Some(ListEvent::Searched(_)) => {}
            }
        }
        self.ui.close_list();
    }

    fn set_theme(&mut self, name: &str, scope: Scope) {
        if self.keep_setting("ui.theme", name, scope) {
            self.ui.show_theme(Some(name));
            self.ui.note(&format!("Theme: {name}"));
        } else {
            self.ui.show_theme(None);
        }
    }
}

fn dialog(themes: &[ThemeInfo], scope: Scope, marked: &str) -> Choice {
    let rows = themes.iter().map(|theme| ChoiceRow {
        key: theme.name.clone(),
        columns: vec![theme.name.clone(), if theme.light { "Light" } else { "Dark" }.to_owned()],
        sample_theme: Some(theme.name.clone()),
        ..ChoiceRow::default()
    });
    Choice {
        title: "Select Theme".to_owned(),
        rows: rows.collect(),
        actions: vec![RowAction { key: ListKey::Tab, about: "change the scope", confirm: false }],
        marked: Some(marked.to_owned()),
        foot: two_scopes(scope),
        hint: Some("(Use Enter to select, Tab to configure scope, Esc to close)".to_owned()),
        options: ListOptions { stays_open: true, ..ListOptions::default() },
        ..Choice::default()
    }
}
