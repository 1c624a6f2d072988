//! `/footer`: what the last line shows.

use pollux_host::request::Scope;
use pollux_tui::app::FooterItem;
use pollux_tui::dialog::{LEFT, Manner, RESET, RIGHT, TAB};
use serde_json::Value;

use super::settings::{other, two_scopes};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, Letter};

const KEY: &str = "ui.footer.items";
const LABELS: &str = "ui.footer.showLabels";
const HINT: &str =
    "(Use Enter to show or hide, ←/→ to move, Ctrl+L for the usual ones, Tab to change focus, Esc to close)";

impl Front<'_, '_> {
    /// `/footer`
    pub(super) async fn footer(&mut self) {
        let mut scope = Scope::User;
        let mut marked = None;
        loop {
            let Ok(loaded) = pollux_host::load_settings(self.turn.request, &self.turn.loaded.env) else {
                break;
            };
            let given = |key: &str| loaded.settings.get(key).map(|(value, _)| value.clone());
            let (mut shown, labels) = (shown(given(KEY)), given(LABELS) != Some(Value::Bool(false)));
            let Some(chosen) = self.face.choose(dialog(&shown, labels, scope, marked)).await else { break };
            let key = chosen.key.clone();
            marked = Some(chosen.key);
            if chosen.letter == Some(TAB) {
                scope = other(scope);
                continue;
            }
            if key == LABELS {
                if chosen.letter.is_none() {
                    self.keep_setting(LABELS, &(!labels).to_string(), scope);
                }
            } else {
                change(&mut shown, &key, chosen.letter);
                self.keep_setting(KEY, &Value::from(shown).to_string(), scope);
            }
            self.face.look_anew(self.turn, &self.model);
        }
        self.face.close();
    }
}

/// The items that are shown, in order.
fn shown(given: Option<Value>) -> Vec<String> {
    match given {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => FooterItem::DEFAULT.iter().map(|item| name(*item).to_owned()).collect(),
    }
}

fn name(item: FooterItem) -> &'static str {
    FooterItem::ALL.iter().find(|(known, ..)| *known == item).map_or("", |(_, name, _)| name)
}

/// What a key does: Enter shows or hides, the arrows move.
fn change(shown: &mut Vec<String>, item: &str, letter: Option<char>) {
    let place = shown.iter().position(|known| known == item);
    match (letter, place) {
        (Some(RESET), _) => *shown = self::shown(None),
        (Some(LEFT), Some(place)) if place > 0 => shown.swap(place, place - 1),
        (Some(RIGHT), Some(place)) if place + 1 < shown.len() => shown.swap(place, place + 1),
        (Some(_), _) => {}
        (None, Some(place)) => drop(shown.remove(place)),
        (None, None) => shown.push(item.to_owned()),
    }
}

fn dialog(shown: &[String], labels: bool, scope: Scope, marked: Option<String>) -> Choice {
    let about = |item: &str| {
        FooterItem::ALL.iter().find(|(_, known, _)| *known == item).map_or("", |(.., about)| about)
    };
    let row = |item: &str, on: bool, about: &str| ChoiceRow {
        key: item.to_owned(),
        columns: vec![format!("[{}] {item}", if on { "x" } else { " " }), about.to_owned()],
        ..ChoiceRow::default()
    };
    let hidden = FooterItem::ALL.iter().filter(|(_, item, _)| !shown.iter().any(|known| known == item));
    let mut rows: Vec<ChoiceRow> = shown.iter().map(|item| row(item, true, about(item))).collect();
    rows.extend(hidden.map(|(_, item, about)| row(item, false, about)));
    rows.push(row(LABELS, labels, "words above the items"));
    let letter = |letter, about| Letter { letter, about, grave: false };
    Choice {
        title: "Configure Footer".to_owned(),
        rows,
        letters: vec![
            letter(LEFT, "move it forward"),
            letter(RIGHT, "move it back"),
            letter(RESET, "take the usual ones"),
            letter(TAB, "change where it is kept"),
        ],
        marked,
        foot: two_scopes(scope),
        hint: Some(HINT.to_owned()),
        manner: Manner { stays: true, ..Manner::default() },
        ..Choice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_shown_hidden_and_moved() {
        let mut items = shown(None);
        change(&mut items, "sandbox", None);
        change(&mut items, "auth", None);
        assert_eq!(items, ["workspace", "git-branch", "model-name", "quota", "auth"]);
        change(&mut items, "auth", Some(LEFT));
        change(&mut items, "workspace", Some(LEFT));
        change(&mut items, "workspace", Some(RIGHT));
        assert_eq!(items, ["git-branch", "workspace", "model-name", "auth", "quota"]);
        change(&mut items, "auth", Some(RESET));
        assert_eq!(items, shown(None));
    }
}
