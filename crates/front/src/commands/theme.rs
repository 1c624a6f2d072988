//! `/theme`: the colours.

use pollux_host::request::Scope;
use pollux_tui::dialog::{Manner, TAB};
use pollux_tui::theme::{Shade, Theme};

use super::settings::{other, two_scopes};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, Chosen, Letter, ListEvent};
use crate::screen::{chosen_theme, themes};

impl Front<'_, '_> {
    /// `/theme`
    pub(super) async fn theme(&mut self) {
        let loaded = self.turn.loaded;
        if loaded.env.non_empty("NO_COLOR").is_some() {
            self.face.note("Theme configuration unavailable due to NO_COLOR env variable.");
            return;
        }
        let now = match pollux_host::load_settings(self.turn.request, &loaded.env) {
            Ok(fresh) => chosen_theme(&fresh),
            Err(_) => chosen_theme(loaded),
        };
        let all = themes(loaded);
        let mut scope = Scope::User;
        self.face.present(dialog(&all, scope, &now.name));
        loop {
            match self.face.list_event().await {
                None => {
                    self.face.show_theme(&now);
                    break;
                }
                Some(ListEvent::Marked(name)) => {
                    if let Some((_, theme)) = all.iter().find(|(known, _)| *known == name) {
                        self.face.show_theme(theme);
                    }
                }
                Some(ListEvent::Chosen(Chosen { letter: Some(_), key })) => {
                    scope = other(scope);
                    self.face.present(dialog(&all, scope, &key));
                }
                Some(ListEvent::Chosen(Chosen { letter: None, key })) => {
                    self.take_theme(&key, &all, scope, &now);
                    break;
                }
                Some(ListEvent::Searched(_)) => {}
            }
        }
        self.face.close();
    }

    fn take_theme(&mut self, name: &str, all: &[(String, Theme)], scope: Scope, before: &Theme) {
        let theme = all.iter().find(|(known, _)| known == name).map(|(_, theme)| theme);
        match (self.keep_setting("ui.theme", name, scope), theme) {
            (true, Some(theme)) => {
                self.face.show_theme(theme);
                self.face.note(&format!("Theme: {name}"));
            }
            _ => self.face.show_theme(before),
        }
    }
}

fn dialog(all: &[(String, Theme)], scope: Scope, marked: &str) -> Choice {
    let rows = all.iter().map(|(name, theme)| ChoiceRow {
        key: name.clone(),
        columns: vec![
            name.clone(),
            match theme.shade {
                Shade::Dark => "Dark".to_owned(),
                Shade::Light => "Light".to_owned(),
            },
        ],
        sample: Some(Box::new(theme.clone())),
        ..ChoiceRow::default()
    });
    Choice {
        title: "Select Theme".to_owned(),
        rows: rows.collect(),
        letters: vec![Letter { letter: TAB, about: "change where it is kept", grave: false }],
        marked: Some(marked.to_owned()),
        foot: two_scopes(scope),
        hint: Some("(Use Enter to select, Tab to configure scope, Esc to close)".to_owned()),
        manner: Manner { stays: true, ..Manner::default() },
        ..Choice::default()
    }
}
