//! `/settings`: show and change settings.

use pollux_config::settings::schema::{self, Key, Kind};
use pollux_domain::failure::Failure;
use pollux_host::request::Scope;
use pollux_host::settings::{SettingsFiles, SettingsRow, bare};
use serde_json::Value;

use super::setting_titles::{Group, group, is_common, title};
use super::{CommandOutcome, Reopen};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, ListKey, ListOptions, RowAction};

const HINT: &str = "(Use Enter to select, Ctrl+L to reset, Tab to change focus, Esc to close)";

/// The settings file that a change goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    File(Scope),
    /// System settings, read-only.
    System,
}

impl Front<'_, '_> {
    /// `/settings`
    pub(super) async fn settings(&mut self) -> CommandOutcome {
        let mut target = Target::File(Scope::User);
        let mut marked = None;
        let mut changed: Vec<&'static Key> = Vec::new();
        loop {
            let mut files = match pollux_host::settings::settings(self.turn.request, &self.turn.loaded.env) {
                Ok(files) => files,
                Err(failure) => {
                    self.ui.error(&failure.message());
                    break;
                }
            };
            let rows = files.rows();
            let Some(chosen) = self.ui.choose(dialog(&files, &rows, target, marked, &changed)).await else {
                break;
            };
            marked = Some(chosen.key.clone());
            let (Some(key), Some(row)) =
                (schema::find(&chosen.key), rows.iter().find(|row| row.key == chosen.key))
            else {
                continue;
            };
            let scope = match (chosen.action, target) {
                (Some(ListKey::Tab), _) => {
                    target = target.next();
                    continue;
                }
                (_, Target::System) => {
                    self.ui.error("System settings are read-only here.");
                    continue;
                }
                (_, Target::File(scope)) => scope,
            };
            let done = match chosen.action {
                Some(ListKey::Reset) => files.reset(key.path, scope),
                _ => match self.new_value(key, row, files.written(key.path, scope)).await {
                    Some(text) => files.set(key.path, &text, scope).map(drop),
                    None => continue,
                },
            };
            match done {
                Ok(()) => {
                    if !changed.iter().any(|known| known.path == key.path) {
                        changed.push(key);
                    }
                    self.ui.reload_settings(self.turn, &self.model);
                }
                Err(failure) => self.ui.error(&failure.message()),
            }
        }
        self.ui.close_list();
        reopened(&changed)
    }

    /// The new value: toggled, the next choice, or typed.
    async fn new_value(&mut self, key: &Key, row: &SettingsRow, written: Option<Value>) -> Option<String> {
        let now = written.unwrap_or_else(|| row.value.clone());
        match key.kind {
            Kind::Boolean => Some((now != Value::Bool(true)).to_string()),
            Kind::Choice(words) => {
                let place = words.iter().position(|word| now.as_str() == Some(word));
                let next = place.map_or(0, |place| (place + 1) % words.len().max(1));
                words.get(next).map(|&word| word.to_owned())
            }
            _ => {
                let now = bare(&row.shown()).replace('\n', " ");
                let question = format!("{} ({}), now {now}: ", key.path, key.kind.name());
                self.ui.ask_line(&question).await.filter(|text| !text.trim().is_empty())
            }
        }
    }

    /// Writes one setting; returns whether it succeeded.
    pub(super) fn keep_setting(&mut self, key: &str, text: &str, scope: Scope) -> bool {
        let set = |text: &str| -> Result<(), Failure> {
            let mut files = pollux_host::settings::settings(self.turn.request, &self.turn.loaded.env)?;
            files.set(key, text, scope).map(drop)
        };
        match set(text) {
            Ok(()) => true,
            Err(failure) => {
                self.ui.error(&failure.message());
                false
            }
        }
    }
}

impl Target {
    fn next(self) -> Self {
        match self {
            Self::File(Scope::User) => Self::File(Scope::Project),
            Self::File(Scope::Project) => Self::System,
            Self::System => Self::File(Scope::User),
        }
    }

    fn sets(self, files: &SettingsFiles, row: &SettingsRow) -> bool {
        match self {
            Self::File(scope) => files.written(&row.key, scope).is_some(),
            Self::System => row.of_system,
        }
    }
}

/// The line that shows the selected scope.
pub(super) fn apply_to(scopes: &[(&str, bool)]) -> Vec<String> {
    let names = scopes.iter().map(|(name, chosen)| format!("{} {name}", if *chosen { "●" } else { " " }));
    vec![format!("Apply To (Tab): {}", names.collect::<Vec<_>>().join("  "))]
}

/// The lines for the two files.
pub(super) fn two_scopes(scope: Scope) -> Vec<String> {
    apply_to(&[("User Settings", scope == Scope::User), ("Workspace Settings", scope == Scope::Project)])
}

/// The other file.
pub(super) fn other(scope: Scope) -> Scope {
    match scope {
        Scope::User => Scope::Project,
        Scope::Project => Scope::User,
    }
}

fn dialog(
    files: &SettingsFiles,
    rows: &[SettingsRow],
    target: Target,
    marked: Option<String>,
    changed: &[&Key],
) -> Choice {
    let known = rows.iter().filter_map(|row| schema::find(&row.key).map(|key| (row, key)));
    let mut known: Vec<(&SettingsRow, &Key)> = known.filter(|(_, key)| is_changeable(key)).collect();
    known.sort_by_key(|(_, key)| place(key));
    let rows = known.into_iter().map(|(row, key)| {
        let star = if target.sets(files, row) { "*" } else { "" };
        let value = short(&bare(&row.shown()));
        let restart = if key.restart { " · requires restart" } else { "" };
        ChoiceRow {
            key: row.key.clone(),
            columns: vec![title(key), format!("{value}{star}"), group(key).name().to_owned()],
            preview: vec![
                key.about.to_owned(),
                format!("{} · {} · from {}{restart}", row.key, key.kind.name(), row.origin),
            ],
            ..ChoiceRow::default()
        }
    });
    let rows = rows.collect();
    let mut foot = apply_to(&[
        ("User Settings", target == Target::File(Scope::User)),
        ("Workspace Settings", target == Target::File(Scope::Project)),
        ("System (read-only)", target == Target::System),
    ]);
    let waiting: Vec<&str> = changed.iter().filter(|key| key.restart).map(|key| key.path).collect();
    if !waiting.is_empty() {
        foot.push(format!("To see changes, Pollux must be restarted: {}", waiting.join(", ")));
    }
    let action = |key, about| RowAction { key, about, confirm: false };
    Choice {
        title: "Settings".to_owned(),
        headings: vec!["Setting", "Value", "Group"],
        rows,
        actions: vec![action(ListKey::Tab, "change the scope"), action(ListKey::Reset, "reset it")],
        marked,
        foot,
        hint: Some(HINT.to_owned()),
        options: ListOptions {
            type_to_search: true,
            stays_open: true,
            // The group.
            optional_columns: &[2],
            ..ListOptions::default()
        },
        ..Choice::default()
    }
}

/// Characters of a value that are shown.
const VALUE: usize = 24;

/// The place in the list: common settings, then group by group, and keys without effect at the end.
fn place(key: &Key) -> (usize, Group) {
    (is_common(key).unwrap_or(usize::MAX), group(key))
}

/// Some values do not come from a settings file.
fn is_changeable(key: &Key) -> bool {
    !key.secret && !key.path.starts_with("admin.")
}

/// A value in one line; empty if it is not set.
fn short(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(VALUE) {
        _ if line == "null" => String::new(),
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Settings about appearance are already applied; others need the conversation reopened.
fn reopened(changed: &[&Key]) -> CommandOutcome {
    let is_look = |key: &&&Key| key.path.starts_with("ui.") || key.path == "general.vimMode" || key.restart;
    let others: Vec<&str> = changed.iter().filter(|key| !is_look(key)).map(|key| key.path).collect();
    if others.is_empty() {
        return CommandOutcome::Continue;
    }
    let note = format!("Applied: {}.", others.join(", "));
    let chose_model = others.iter().any(|path| matches!(*path, "model.name" | "model.provider"));
    CommandOutcome::Reopen(Reopen { note, chose_model, ..Reopen::default() })
}

#[cfg(test)]
mod tests {
    use super::super::setting_titles::has_effect;
    use super::*;

    #[test]
    fn values_are_short_common_settings_come_first_and_dead_ones_last() {
        assert_eq!(short("null"), "");
        assert_eq!(short("[\n  \"a\"\n]"), "[ \"a\" ]");
        assert_eq!(short(&"x".repeat(40)).chars().count(), VALUE + 1);
        let mut keys: Vec<&Key> = schema::KEYS.iter().filter(|key| is_changeable(key)).collect();
        keys.sort_by_key(|key| place(key));
        assert_eq!(keys.first().map(|key| key.path), Some("ui.theme"));
        let dead = keys.iter().position(|key| !has_effect(key)).expect("some have none");
        assert!(keys.iter().skip(dead).all(|key| group(key) == Group::Compatibility));
        assert!(keys.iter().take(dead).all(|key| group(key) != Group::Compatibility));
        // A key without effect is never among the first, whatever its name is.
        assert!(keys.iter().all(|key| is_common(key).is_none() || has_effect(key)));
    }

    #[test]
    fn only_what_the_screen_cannot_follow_opens_the_conversation_again() {
        let key = |path| schema::find(path).expect("a setting");
        assert!(matches!(reopened(&[key("ui.theme"), key("general.vimMode")]), CommandOutcome::Continue));
        let CommandOutcome::Reopen(reopen) = reopened(&[key("ui.theme"), key("model.name")]) else {
            panic!("the model is another one");
        };
        assert_eq!((reopen.note.as_str(), reopen.chose_model), ("Applied: model.name.", true));
    }
}
