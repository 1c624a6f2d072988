//! The schema of settings: type, default, merge rule and description of each key.

use pollux_domain::spelling::distance;
use serde_json::{Map, Value};

/// One settings key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    pub merge: Merge,
    /// Takes effect at the next start.
    pub restart: bool,
    /// Shown as `***` and never written.
    pub secret: bool,
    /// One line for `config show` and the documentation.
    pub about: &'static str,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Number,
    Integer,
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    Texts,
    /// A text or a list of texts.
    TextOrTexts,
    /// A list of anything.
    List,
    /// An object with names of the user's choice.
    Map,
    /// A boolean, a text or an object.
    Sandbox,
}

/// The default of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fallback {
    Unset,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(&'static str),
    Texts(&'static [&'static str]),
    EmptyMap,
}

/// How a higher layer's value combines with what the lower ones gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Objects merge key by key, everything else is replaced.
    Replace,
    /// Lists are joined.
    Concat,
    /// Lists are joined without duplicates.
    Union,
    /// Objects merge one level deep: an entry is replaced whole.
    Shallow,
    /// Only what every list names.
    Intersect,
}

/// All keys, sorted by path.
pub const KEYS: &[Key] = include!("schema/keys.in");

/// Keys of earlier releases that are ignored silently.
const RETIRED: &[&str] = &[
    "experimental.introspectionAgentSettings",
    "experimental.jitContext",
    "experimental.skills",
    "general.previewFeatures",
    "tools.autoAccept",
    "tools.enableHooks",
    "tools.enableMessageBusIntegration",
    "tools.enableToolOutputTruncation",
    "tools.truncateToolOutputLines",
    "ui.useFullWidth",
];

/// The key with this path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.binary_search_by(|key| key.path.cmp(path)).ok().and_then(|index| KEYS.get(index))
}

/// The keys directly or indirectly below a path.
pub fn below(path: &str) -> &'static [Key] {
    let under = |key: &Key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    // `.` sorts before every letter, so they follow the path itself.
    let start = KEYS.partition_point(|key| key.path <= path);
    let rest = KEYS.get(start..).unwrap_or_default();
    let count = rest.iter().take_while(|key| under(key)).count();
    rest.get(..count).unwrap_or_default()
}

/// The key that a path is or lies below (`mcpServers` for `mcpServers.github.command`).
pub fn covering(path: &str) -> Option<&'static Key> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain(std::iter::once(path.len()));
    ends.filter_map(|end| path.get(..end)).find_map(find)
}

pub(crate) fn is_retired(path: &str) -> bool {
    RETIRED.contains(&path)
}

/// The known key or container nearest to a misspelt path in the same container.
pub fn nearest(path: &str) -> Option<String> {
    let (container, given) = path.rsplit_once('.').unwrap_or(("", path));
    let siblings = if container.is_empty() { KEYS } else { below(container) };
    let mut best: Option<(usize, &str)> = None;
    for key in siblings {
        let rest = if container.is_empty() { Some(key.path) } else { key.path.get(container.len() + 1..) };
        let Some(name) = rest.and_then(|rest| rest.split('.').next()) else { continue };
        let distance = distance(&given.to_lowercase(), &name.to_lowercase());
        // A short word is near to too many others.
        let near =
            distance == 0 || (distance <= 2 && given.len() >= 5) || (distance == 1 && given.len() >= 4);
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    let (_, name) = best?;
    Some(if container.is_empty() { name.to_owned() } else { format!("{container}.{name}") })
}

/// The nearest known key anywhere, for a path typed by hand.
pub fn nearest_anywhere(path: &str) -> Option<&'static str> {
    let given = path.to_lowercase();
    // A bare last part, typed without its group.
    let bare = |key: &&Key| key.path.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case(path));
    let by_name = KEYS.iter().find(bare);
    KEYS.iter()
        .map(|key| (distance(&given, &key.path.to_lowercase()), key.path))
        .min()
        .filter(|(distance, _)| *distance * 4 <= given.len().max(4))
        .map(|(_, path)| path)
        .or(by_name.map(|key| key.path))
}

impl Fallback {
    /// The value, or `None` when the key stays unset.
    pub fn value(&self) -> Option<Value> {
        Some(match self {
            Self::Unset => return None,
            Self::Boolean(value) => Value::Bool(*value),
            Self::Integer(value) => Value::from(*value),
            Self::Number(value) => Value::from(*value),
            Self::Text(value) => Value::from(*value),
            Self::Texts(values) => Value::from(values.to_vec()),
            Self::EmptyMap => Value::Object(Map::new()),
        })
    }
}

impl Kind {
    /// The type's name in messages and documentation.
    pub fn name(&self) -> String {
        match self {
            Self::Boolean => "boolean".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Integer => "integer".to_owned(),
            Self::Text => "string".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Texts | Self::List => "array".to_owned(),
            Self::TextOrTexts => "string or array".to_owned(),
            Self::Map => "object".to_owned(),
            Self::Sandbox => "boolean, string or object".to_owned(),
        }
    }
}

/// The tree of all defaults.
pub(crate) fn defaults() -> Map<String, Value> {
    let mut root = Map::new();
    for key in KEYS {
        if let Some(value) = key.default.value() {
            insert(&mut root, key.path, value);
        }
    }
    root
}

/// Puts a value at a dotted path, creating objects on the way.
pub(crate) fn insert(root: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((head, rest)) = path.split_once('.') else {
        root.insert(path.to_owned(), value);
        return;
    };
    if !root.get(head).is_some_and(Value::is_object) {
        root.insert(head.to_owned(), Value::Object(Map::new()));
    }
    if let Some(Value::Object(inner)) = root.get_mut(head) {
        insert(inner, rest, value);
    }
}

const fn key(path: &'static str, kind: Kind, default: Fallback, about: &'static str) -> Key {
    Key { path, kind, default, merge: Merge::Replace, restart: false, secret: false, about }
}

/// A switch that is on.
const fn on(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Boolean, Fallback::Boolean(true), about)
}

/// A switch that is off.
const fn off(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Boolean, Fallback::Boolean(false), about)
}

/// A whole number with a default.
const fn int(path: &'static str, default: i64, about: &'static str) -> Key {
    key(path, Kind::Integer, Fallback::Integer(default), about)
}

/// A text without a default.
const fn text(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Text, Fallback::Unset, about)
}

/// A text with a default.
const fn text_or(path: &'static str, default: &'static str, about: &'static str) -> Key {
    key(path, Kind::Text, Fallback::Text(default), about)
}

/// A word of a list, without a default.
const fn word(path: &'static str, words: &'static [&'static str], about: &'static str) -> Key {
    key(path, Kind::Choice(words), Fallback::Unset, about)
}

/// A word of a list, with a default.
const fn word_or(
    path: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    about: &'static str,
) -> Key {
    key(path, Kind::Choice(words), Fallback::Text(default), about)
}

/// A list of texts, empty unless set.
const fn texts(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Texts, Fallback::Texts(&[]), about)
}

/// A list of texts whose absence means something else than an empty one.
const fn maybe_texts(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Texts, Fallback::Unset, about)
}

/// A list of objects; those of a hook event.
const fn hook(path: &'static str, about: &'static str) -> Key {
    Key { merge: Merge::Concat, ..key(path, Kind::List, Fallback::Texts(&[]), about) }
}

const fn map(path: &'static str, about: &'static str) -> Key {
    key(path, Kind::Map, Fallback::EmptyMap, about)
}

impl Key {
    const fn restart(self) -> Self {
        Self { restart: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn merge(self, merge: Merge) -> Self {
        Self { merge, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_unique_so_that_they_can_be_searched() {
        for pair in KEYS.windows(2) {
            assert!(pair[0].path < pair[1].path, "`{}` must stand before `{}`", pair[1].path, pair[0].path);
        }
    }

    #[test]
    fn every_key_has_one_short_line_about_it_and_a_default_of_its_own_type() {
        for key in KEYS {
            assert!(
                !key.about.is_empty() && key.about.len() <= 120 && !key.about.ends_with('.'),
                "{}",
                key.path
            );
            let fits = match (key.kind, key.default) {
                (_, Fallback::Unset) => true,
                (Kind::Choice(words), Fallback::Text(word)) => words.contains(&word),
                (Kind::Boolean, Fallback::Boolean(_)) | (Kind::Integer, Fallback::Integer(_)) => true,
                (Kind::Number, Fallback::Number(_)) | (Kind::Text, Fallback::Text(_)) => true,
                (Kind::Texts | Kind::List, Fallback::Texts(_)) | (Kind::Map, Fallback::EmptyMap) => true,
                _ => false,
            };
            assert!(fits, "{}", key.path);
        }
    }

    #[test]
    fn lookups_find_keys_containers_and_neighbours() {
        assert_eq!(find("general.vimMode").map(|key| key.kind), Some(Kind::Boolean));
        assert_eq!(
            below("output").iter().map(|key| key.path).collect::<Vec<_>>(),
            ["output.dialect", "output.format"]
        );
        assert!(below("general.vimMode").is_empty() && below("nothing").is_empty());
        assert_eq!(covering("mcpServers.github.command").map(|key| key.path), Some("mcpServers"));
        assert_eq!(nearest("general.vimmode").as_deref(), Some("general.vimMode"));
        assert_eq!(nearest("modle").as_deref(), Some("model"));
        assert_eq!(nearest("tools.approval"), None);
        assert_eq!(nearest_anywhere("vimMode"), Some("general.vimMode"));
        assert_eq!(nearest_anywhere("general.vimMod"), Some("general.vimMode"));
    }
}
