//! `/footer`: choose and order the items of the footer.

use pollux_host::request::Scope;
use serde_json::Value;

use super::settings::{other, two_scopes};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, ListKey, ListOptions, RowAction};
use crate::screen_provider::FooterItemInfo;

const KEY: &str = "ui.footer.items";
const LABELS: &str = "ui.footer.showLabels";
const HINT: &str =
    "(Use Enter to show or hide, ←/→ to move, Ctrl+L to reset, Tab to change focus, Esc to close)";

impl Front<'_, '_> {
    /// `/footer`
    pub(super) async fn footer(&mut self) {
        let all = self.screens.footer_items();
        let mut scope = Scope::User;
        let mut marked = None;
        loop {
            let Ok(loaded) = pollux_host::load_settings(self.turn.request, &self.turn.loaded.env) else {
                break;
            };
            let given = |key: &str| loaded.settings.get(key).map(|(value, _)| value.clone());
            let (mut shown, labels) = (shown(given(KEY), &all), given(LABELS) != Some(Value::Bool(false)));
            let Some(chosen) = self.ui.choose(dialog(&shown, &all, labels, scope, marked)).await else {
                break;
            };
            let key = chosen.key.clone();
            marked = Some(chosen.key);
            if chosen.action == Some(ListKey::Tab) {
                scope = other(scope);
                continue;
            }
            if key == LABELS {
                if chosen.action.is_none() {
                    self.keep_setting(LABELS, &(!labels).to_string(), scope);
                }
            } else {
                change(&mut shown, &key, chosen.action, &all);
                self.keep_setting(KEY, &Value::from(shown).to_string(), scope);
            }
            self.ui.reload_settings(self.turn, &self.model);
        }
        self.ui.close_list();
    }
}

/// The items that are shown, in order.
fn shown(given: Option<Value>, all: &[FooterItemInfo]) -> Vec<String> {
    match given {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => defaults(all),
    }
}

fn defaults(all: &[FooterItemInfo]) -> Vec<String> {
    all.iter().filter(|item| item.default).map(|item| item.name.to_owned()).collect()
}

/// Applies a key: Enter shows or hides, the arrows move.
fn change(shown: &mut Vec<String>, item: &str, action: Option<ListKey>, all: &[FooterItemInfo]) {
    let place = shown.iter().position(|known| known == item);
    match (action, place) {
        (Some(ListKey::Reset), _) => *shown = defaults(all),
        (Some(ListKey::Left), Some(place)) if place > 0 => shown.swap(place, place - 1),
        (Some(ListKey::Right), Some(place)) if place + 1 < shown.len() => shown.swap(place, place + 1),
        (Some(_), _) => {}
        (None, Some(place)) => drop(shown.remove(place)),
        (None, None) => shown.push(item.to_owned()),
    }
}

fn dialog(
    shown: &[String],
    all: &[FooterItemInfo],
    labels: bool,
    scope: Scope,
    marked: Option<String>,
) -> Choice {
    let label = |name: &str| all.iter().find(|item| item.name == name).map_or("", |item| item.label);
    let row = |item: &str, on: bool, about: &str| ChoiceRow {
        key: item.to_owned(),
        columns: vec![format!("[{}] {item}", if on { "x" } else { " " }), about.to_owned()],
        ..ChoiceRow::default()
    };
    let hidden = all.iter().filter(|item| !shown.iter().any(|known| known == item.name));
    let mut rows: Vec<ChoiceRow> = shown.iter().map(|item| row(item, true, label(item))).collect();
    rows.extend(hidden.map(|item| row(item.name, false, item.label)));
    rows.push(row(LABELS, labels, "show labels above items"));
    let action = |key, about| RowAction { key, about, confirm: false };
    Choice {
        title: "Configure Footer".to_owned(),
        rows,
        actions: vec![
            action(ListKey::Left, "move left"),
            action(ListKey::Right, "move right"),
            action(ListKey::Reset, "reset to defaults"),
            action(ListKey::Tab, "change the scope"),
        ],
        marked,
        foot: two_scopes(scope),
        hint: Some(HINT.to_owned()),
        options: ListOptions { stays_open: true, ..ListOptions::default() },
        ..Choice::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[FooterItemInfo] = &[
        FooterItemInfo { name: "workspace", label: "workspace", default: true },
        FooterItemInfo { name: "sandbox", label: "sandbox", default: true },
        FooterItemInfo { name: "quota", label: "quota", default: true },
        FooterItemInfo { name: "auth", label: "/auth", default: false },
    ];

    #[test]
    fn items_are_shown_hidden_and_moved() {
        let mut items = shown(None, ALL);
        let mut change = |item: &str, action: Option<ListKey>| {
            change(&mut items, item, action, ALL);
            items.join(" ")
        };
        assert_eq!(change("sandbox", None), "workspace quota");
        assert_eq!(change("auth", None), "workspace quota auth");
        assert_eq!(change("auth", Some(ListKey::Left)), "workspace auth quota");
        assert_eq!(change("workspace", Some(ListKey::Left)), "workspace auth quota");
        assert_eq!(change("workspace", Some(ListKey::Right)), "auth workspace quota");
        assert_eq!(change("auth", Some(ListKey::Reset)), "workspace sandbox quota");
    }
}
