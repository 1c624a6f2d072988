//! `extension-enablement.json`: the folders in which an extension is enabled or disabled.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_domain::JsonObject;
use serde_json::{Value, json};

/// Next to the extensions.
pub const ENABLEMENT: &str = "extension-enablement.json";

/// The rules of all extensions.
#[derive(Debug, Clone, Default)]
pub struct Enablement {
    rules: JsonObject,
    /// Why the file could not be used, if so.
    pub problem: Option<String>,
}

/// The change to the rules of one extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch<'a> {
    /// In a folder and below.
    On(&'a Path),
    /// In a folder and below.
    Off(&'a Path),
    /// In a folder and wherever a rule switched it off.
    OnEverywhere(&'a Path),
    /// As if it had never been mentioned.
    Forget,
}

/// Why rules were not changed.
#[derive(Debug, thiserror::Error)]
pub enum EnablementError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is not valid: {reason}", file.display())]
    Invalid { file: PathBuf, reason: String },
}

impl Enablement {
    /// Reads the rules next to the extensions. Without a file, everything is enabled; with a damaged one, nothing is,
    /// because it may have disabled any of them.
    pub fn read(extensions: &Path) -> Self {
        let file = extensions.join(ENABLEMENT);
        match object(&file) {
            Ok(rules) => Self { rules, problem: None },
            Err(error) => {
                let problem = Some(format!(
                    "Failed to read extension enablement config: {error}; no extension is used until you repair or \
                     delete the file"
                ));
                Self { rules: JsonObject::new(), problem }
            }
        }
    }

    /// Whether an extension is enabled in a folder; the last matching rule wins.
    pub fn is_enabled(&self, name: &str, folder: &Path) -> bool {
        if self.problem.is_some() {
            return false;
        }
        let place = with_slashes(&folder.to_string_lossy());
        let fitting = rules_of(&self.rules, name).into_iter().rfind(|rule| rule.matches(&place));
        fitting.is_none_or(|rule| !rule.off)
    }
}

/// Changes the rules of one extension under the file's lock; those of others are preserved.
pub fn switch(extensions: &Path, name: &str, switch: Switch<'_>) -> Result<(), EnablementError> {
    let file = extensions.join(ENABLEMENT);
    if switch == Switch::Forget && !file.exists() {
        return Ok(());
    }
    let _lock = FileLock::acquire(&file)?;
    let mut all = object(&file)?;
    let mut rules = rules_of(&all, name);
    match switch {
        Switch::Forget => rules.clear(),
        Switch::On(folder) => add(&mut rules, Rule::below(folder, false)),
        Switch::Off(folder) => add(&mut rules, Rule::below(folder, true)),
        Switch::OnEverywhere(folder) => {
            rules.retain(|rule| !rule.off);
            add(&mut rules, Rule::below(folder, false));
        }
    }
    if rules.is_empty() {
        all.shift_remove(name);
    } else {
        let written: Vec<String> = rules.iter().map(Rule::written).collect();
        let entry = all.entry(name).or_insert_with(|| json!({}));
        match entry.as_object_mut() {
            Some(entry) => drop(entry.insert("overrides".to_owned(), json!(written))),
            None => *entry = json!({"overrides": written}),
        }
    }
    let text = format!("{:#}", Value::Object(all));
    Ok(files::replace(&file, text.as_bytes(), Mode::Shared)?)
}

/// Adds a rule; those of the same folder go, and those below it if it reaches there.
fn add(rules: &mut Vec<Rule>, new: Rule) {
    rules.retain(|rule| rule.base != new.base && !(new.below && new.matches(&rule.base)));
    rules.push(new);
}

/// `[!]/folder/[*]`
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    off: bool,
    base: String,
    /// Whether subfolders are included.
    below: bool,
}

impl Rule {
    fn below(folder: &Path, off: bool) -> Self {
        Self { off, base: with_slashes(&folder.to_string_lossy()), below: true }
    }

    fn parse(text: &str) -> Self {
        let (off, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        match text.strip_suffix('*') {
            Some(base) => Self { off, base: base.to_owned(), below: true },
            None => Self { off, base: text.to_owned(), below: false },
        }
    }

    fn written(&self) -> String {
        format!("{}{}{}", if self.off { "!" } else { "" }, self.base, if self.below { "*" } else { "" })
    }

    fn matches(&self, place: &str) -> bool {
        let pattern = format!("{}{}", self.base, if self.below { "*" } else { "" });
        fits(pattern.as_bytes(), place.as_bytes())
    }
}

fn rules_of(all: &JsonObject, name: &str) -> Vec<Rule> {
    let rules = all.get(name).and_then(|entry| entry.get("overrides")).and_then(Value::as_array);
    rules.into_iter().flatten().filter_map(Value::as_str).map(Rule::parse).collect()
}

fn object(file: &Path) -> Result<JsonObject, EnablementError> {
    let invalid = |reason: String| EnablementError::Invalid { file: file.to_owned(), reason };
    let Some(text) = files::read_text(file)? else { return Ok(JsonObject::new()) };
    if text.trim().is_empty() {
        return Ok(JsonObject::new());
    }
    match serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(invalid("it is not a JSON object".to_owned()))
        }
    }
}

fn with_slashes(path: &str) -> String {
    let mut path = path.replace('\\', "/");
    if !path.starts_with('/') {
        path.insert(0, '/');
    }
    if !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// Upstream's pattern: `*` matches anything, and `/*` matches nothing or anything after a slash. Dynamic
/// programming with one row per byte of the pattern, so that no pattern takes long.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut reached = vec![false; text.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    let mut rest = pattern;
    loop {
        let mut next = vec![false; text.len() + 1];
        match rest {
            [] => return reached.last() == Some(&true),
            [b'/', b'*', tail @ ..] => {
                let mut open = false;
                for (at, slot) in next.iter_mut().enumerate() {
                    *slot = open || reached.get(at) == Some(&true);
                    open |= reached.get(at) == Some(&true) && text.get(at) == Some(&b'/');
                }
                rest = tail;
            }
            [b'*', tail @ ..] => {
                let mut open = false;
                for (slot, from) in next.iter_mut().zip(&reached) {
                    open |= from;
                    *slot = open;
                }
                rest = tail;
            }
            [byte, tail @ ..] => {
                for (slot, (from, found)) in next.iter_mut().skip(1).zip(reached.iter().zip(text)) {
                    *slot = *from && found == byte;
                }
                rest = tail;
            }
        }
        reached = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(rules: &[&str], folder: &str) -> bool {
        let all = json!({"x": {"overrides": rules}});
        let Value::Object(rules) = all else { panic!("no object") };
        Enablement { rules, problem: None }.is_enabled("x", Path::new(folder))
    }

    #[test]
    fn the_last_matching_rule_wins_and_extensions_are_enabled_by_default() {
        for (rules, folder, on) in [
            (&[][..], "/any", true),
            (&["!/home/me/*"], "/home/me", false),
            (&["!/home/me/*"], "/home/me/a/b", false),
            (&["!/home/me/*"], "/home/meow", true),
            (&["!/home/me/"], "/home/me", false),
            (&["!/home/me/"], "/home/me/a", true),
            (&["/home/me/*", "!/home/me/p/*"], "/home/me/p/q", false),
            (&["!/home/me/*", "/home/me/p/*"], "/home/me/p/q", true),
            (&["!/home/me/p/*", "/home/me/*"], "/home/me/p", true),
            (&["!/home/*/secret/"], "/home/you/secret", false),
            (&["!*"], "/x", false),
            (&["!/*"], "/", false),
        ] {
            assert_eq!(enabled(rules, folder), on, "{rules:?} {folder}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_fast() {
        let pattern = format!("!/{}b", "a*".repeat(300));
        assert!(enabled(&[&pattern], &format!("/{}", "a".repeat(600))));
    }

    #[test]
    fn rules_are_added_cleared_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let text = || files::read_text(&dir.path().join(ENABLEMENT)).unwrap().unwrap();
        let overrides = |name: &str| -> Vec<String> {
            let all: Value = serde_json::from_str(&text()).unwrap();
            serde_json::from_value(all[name]["overrides"].clone()).unwrap_or_default()
        };
        let (home, inside, outside) = (Path::new("/home/me"), Path::new("/home/me/p"), Path::new("/srv/p"));
        switch(dir.path(), "other", Switch::On(home)).unwrap();
        switch(dir.path(), "x", Switch::On(home)).unwrap();
        switch(dir.path(), "x", Switch::Off(inside)).unwrap();
        switch(dir.path(), "x", Switch::Off(outside)).unwrap();
        assert_eq!(overrides("x"), ["/home/me/*", "!/home/me/p/*", "!/srv/p/*"]);
        // A rule for the home replaces those below it, but not the one for another folder.
        switch(dir.path(), "x", Switch::On(home)).unwrap();
        assert_eq!(overrides("x"), ["!/srv/p/*", "/home/me/*"]);
        assert!(!Enablement::read(dir.path()).is_enabled("x", outside));
        // "Everywhere" is everywhere.
        switch(dir.path(), "x", Switch::OnEverywhere(home)).unwrap();
        assert!(Enablement::read(dir.path()).is_enabled("x", outside));
        switch(dir.path(), "x", Switch::Forget).unwrap();
        assert!(!text().contains("\"x\"") && overrides("other") == ["/home/me/*"]);
    }

    #[test]
    fn a_broken_enablement_file_enables_nothing_and_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(ENABLEMENT);
        files::replace(&file, b"{oops", Mode::Shared).unwrap();
        let read = Enablement::read(dir.path());
        assert!(!read.is_enabled("x", Path::new("/a")) && read.problem.is_some());
        assert!(switch(dir.path(), "x", Switch::Off(Path::new("/a"))).is_err());
        assert_eq!(files::read_text(&file).unwrap().as_deref(), Some("{oops"));
    }
}
