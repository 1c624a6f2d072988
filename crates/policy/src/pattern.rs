//! Regular expressions over the arguments of a call, and the canonical text that they search.
//!
//! Accepts JavaScript syntax because upstream's policy files use it; refuses expressions that could take
//! exponential time.

mod linear;
mod literal;

use std::sync::{Arc, OnceLock};

use pollux_domain::JsonObject;
use serde_json::Value;

/// Length limit of a regex in a rule, in characters.
const MAX_PATTERN: usize = 2048;

/// Length limit of a text to match, in bytes; longer texts give an unknown result.
const MAX_SUBJECT: usize = 64 * 1024;

/// Limit of steps for a backtracking engine.
const MAX_STEPS: f64 = 5e7;

/// Why a regex is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    #[error("Invalid regex pattern")]
    Invalid(String),
    #[error("Unsafe regex pattern (potential ReDoS)")]
    Unsafe,
}

/// A regex in JavaScript syntax, searched anywhere in a text.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// Supports the complete syntax, but may backtrack; compiled on first use.
    regex: Arc<OnceLock<Option<regress::Regex>>>,
    /// Linear in the length of the text; compiled on first use, `None` if the syntax is not supported.
    linear: Arc<OnceLock<Option<regex::Regex>>>,
    source: String,
    ignores_case: bool,
    text: String,
    /// The text that every match begins with.
    literal: String,
}

/// Whether a regex matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternMatch {
    Yes,
    No,
    /// The text is too long to be searched.
    Unknown,
}

impl Pattern {
    /// For `argsPattern`. A leading or trailing `\0` or `\\0` means NUL.
    pub(crate) fn for_args(text: &str) -> Result<Self, PatternError> {
        let mut source = text.to_owned();
        if let Some(rest) = source.strip_prefix(r"\\0").or_else(|| source.strip_prefix(r"\0")) {
            source = format!(r"\x00{rest}");
        }
        if let Some(rest) = source.strip_suffix(r"\\0").or_else(|| source.strip_suffix(r"\0")) {
            source = format!(r"{rest}\x00");
        }
        Self::compile(text, &source, "", literal::beginning(&source))
    }

    /// For `commandRegex`: anchored at the start of the command.
    pub(crate) fn for_command(text: &str) -> Result<Self, PatternError> {
        let source = text.strip_prefix('^').unwrap_or(text);
        let literal = format!("\"command\":\"{}", literal::beginning(source));
        let source = match source.strip_suffix('$') {
            Some(rest) if !rest.ends_with('\\') => format!("\"command\":\"(?:{rest})\""),
            _ => format!("\"command\":\"(?:{source})"),
        };
        Self::compile(text, &source, "", literal)
    }

    /// For file paths; ignores case, because some file systems do.
    pub(crate) fn for_path(text: &str) -> Result<Self, PatternError> {
        Self::compile(text, text, "i", String::new())
    }

    /// The same for one of the program's own patterns, which a test checks: that takes a tenth of a start.
    pub(crate) fn for_own_path(text: &str) -> Self {
        Self::unchecked(text, text, "i", String::new())
    }

    fn compile(text: &str, source: &str, flags: &str, literal: String) -> Result<Self, PatternError> {
        if text.chars().count() > MAX_PATTERN {
            return Err(PatternError::Unsafe);
        }
        // Case folding is expensive and irrelevant for the syntax check.
        regress::Regex::new(source).map_err(|error| PatternError::Invalid(error.to_string()))?;
        if repeats_ambiguously(source) {
            return Err(PatternError::Unsafe);
        }
        Ok(Self::unchecked(text, source, flags, literal))
    }

    fn unchecked(text: &str, source: &str, flags: &str, literal: String) -> Self {
        Self {
            regex: Arc::default(),
            linear: Arc::default(),
            source: source.to_owned(),
            ignores_case: flags.contains('i'),
            text: text.to_owned(),
            literal,
        }
    }

    fn linear(&self) -> Option<&regex::Regex> {
        let made = self.linear.get_or_init(|| {
            let source = linear::translate(&self.source)?;
            regex::RegexBuilder::new(&source).case_insensitive(self.ignores_case).build().ok()
        });
        made.as_ref()
    }

    fn full(&self) -> Option<&regress::Regex> {
        let flags = if self.ignores_case { "i" } else { "" };
        self.regex.get_or_init(|| regress::Regex::with_flags(&self.source, flags).ok()).as_ref()
    }

    /// Whether backtracking through a text of this length could take too long.
    fn may_take_long(&self, length: usize) -> bool {
        let ways = i32::try_from(linear::repetitions(&self.source)).unwrap_or(i32::MAX).saturating_add(1);
        f64::from(u32::try_from(length).unwrap_or(u32::MAX)).powi(ways.min(64)) > MAX_STEPS
    }

    pub(crate) fn find(&self, subject: &str) -> PatternMatch {
        if subject.len() > MAX_SUBJECT {
            return PatternMatch::Unknown;
        }
        if !subject.contains(&self.literal) {
            return PatternMatch::No;
        }
        let found = match self.linear() {
            Some(regex) => regex.is_match(subject),
            None if self.may_take_long(subject.len()) => return PatternMatch::Unknown,
            None => match self.full() {
                Some(regex) => regex.find(subject).is_some(),
                None => return PatternMatch::Unknown,
            },
        };
        if found { PatternMatch::Yes } else { PatternMatch::No }
    }

    /// The regex as written in the rule.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The arguments as one line: keys sorted at every level, each top-level pair between NUL characters.
pub(crate) fn canonical_json(args: &JsonObject) -> String {
    let mut pairs: Vec<(&String, &Value)> = args.iter().collect();
    pairs.sort_by(|a, b| a.0.cmp(b.0));
    let mut out = String::from("{");
    for (index, (key, value)) in pairs.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('\0');
        write_string(key, &mut out);
        out.push(':');
        write_value(value, &mut out);
        out.push('\0');
    }
    out.push('}');
    out
}

/// A text as a JSON string with its quotes.
pub(crate) fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}

fn write_string(text: &str, out: &mut String) {
    out.push_str(&json_string(text));
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (index, (key, value)) in pairs.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_value(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        // JavaScript prints integral floats without a fraction.
        Value::Number(number) => {
            let text = number.to_string();
            out.push_str(text.strip_suffix(".0").unwrap_or(&text));
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Whether a regex can take exponential time: a repeated group that itself repeats, or whose branches can
/// begin alike.
fn repeats_ambiguously(source: &str) -> bool {
    let chars: Vec<char> = source.chars().collect();
    let mut groups: Vec<Group> = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => {
                begin_branch(&mut groups, Start::Escape(chars.get(at + 1).copied()));
                at += 1;
            }
            '[' => {
                begin_branch(&mut groups, Start::Class);
                at = class_end(&chars, at);
            }
            '(' => {
                begin_branch(&mut groups, Start::Class);
                groups.push(Group { expects_start: true, ..Group::default() });
                at = group_start(&chars, at);
            }
            '|' => {
                if let Some(group) = groups.last_mut() {
                    group.expects_start = true;
                }
            }
            ')' => {
                let group = groups.pop().unwrap_or_default();
                let repeated = repeats(&chars, at + 1);
                if repeated && (group.repeats || alike(&group.starts)) {
                    return true;
                }
                if let Some(outer) = groups.last_mut() {
                    outer.repeats |= repeated || group.repeats;
                }
            }
            '*' | '+' | '{' if repeats(&chars, at) => {
                if let Some(group) = groups.last_mut() {
                    group.repeats = true;
                }
            }
            '.' => begin_branch(&mut groups, Start::Any),
            other => begin_branch(&mut groups, Start::Char(other)),
        }
        at += 1;
    }
    false
}

#[derive(Debug, Clone, Default)]
struct Group {
    repeats: bool,
    expects_start: bool,
    starts: Vec<Start>,
}

/// The start of a branch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start {
    Char(char),
    Escape(Option<char>),
    Class,
    Any,
}

fn begin_branch(groups: &mut [Group], start: Start) {
    if let Some(group) = groups.last_mut()
        && group.expects_start
    {
        group.expects_start = false;
        group.starts.push(start);
    }
}

fn alike(starts: &[Start]) -> bool {
    let overlap = |a: Start, b: Start| match (a, b) {
        (Start::Char(a), Start::Char(b)) => a == b,
        (Start::Escape(Some(e)), Start::Char(c)) | (Start::Char(c), Start::Escape(Some(e))) => match e {
            'w' => c.is_ascii_alphanumeric() || c == '_',
            'd' => c.is_ascii_digit(),
            's' => c.is_whitespace(),
            'W' => !c.is_ascii_alphanumeric() && c != '_',
            other => other.is_ascii_uppercase() || other == c,
        },
        (Start::Escape(Some(a)), Start::Escape(Some(b))) => {
            a == b || !(a.is_ascii_punctuation() && b.is_ascii_punctuation())
        }
        _ => true,
    };
    starts.iter().enumerate().any(|(index, a)| starts.iter().skip(index + 1).any(|b| overlap(*a, *b)))
}

/// Whether a quantifier that can repeat more than once is at `at`.
fn repeats(chars: &[char], at: usize) -> bool {
    match chars.get(at) {
        Some('*' | '+') => true,
        Some('{') => {
            let inside: String = chars.iter().skip(at + 1).take_while(|c| **c != '}').collect();
            let starts_number = inside.starts_with(|c: char| c.is_ascii_digit());
            starts_number && inside != "0" && inside != "1" && inside != "0,1"
        }
        _ => false,
    }
}

/// The index of the `]` that ends a class.
fn class_end(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 1,
            ']' => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The last index of a group's opening, `(?:` and its kind included.
fn group_start(chars: &[char], start: usize) -> usize {
    if chars.get(start + 1) != Some(&'?') {
        return start;
    }
    match chars.get(start + 2) {
        Some('<') if !matches!(chars.get(start + 3), Some('=' | '!')) => {
            chars.iter().skip(start).position(|c| *c == '>').map_or(start + 2, |offset| start + offset)
        }
        Some('<') => start + 3,
        Some(_) => start + 2,
        None => start + 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_canonical_text_sorts_keys_and_wraps_top_level_pairs() {
        let args = object(json!({"b": {"z": 1, "a": [true, null]}, "a": "x\"y", "c": 2.0}));
        assert_eq!(
            canonical_json(&args),
            "{\0\"a\":\"x\\\"y\"\0,\0\"b\":{\"a\":[true,null],\"z\":1}\0,\0\"c\":2\0}"
        );
    }

    #[test]
    fn both_spellings_of_nul_match() {
        let text = canonical_json(&object(json!({"file_path": "/a"})));
        for pattern in [r#"\x00"file_path":"/a"\x00"#, r#"\\0"file_path":"/a"\\0"#, r#"\0"file_path":"/a"\0"#]
        {
            assert_eq!(Pattern::for_args(pattern).unwrap().find(&text), PatternMatch::Yes, "{pattern}");
        }
    }

    #[test]
    fn a_command_regex_is_anchored_at_the_start() {
        let text = canonical_json(&object(json!({"command": "git status"})));
        for (pattern, found) in
            [("git", true), ("^git", true), ("git status$", true), ("status", false), ("status|git$", false)]
        {
            let expected = if found { PatternMatch::Yes } else { PatternMatch::No };
            assert_eq!(Pattern::for_command(pattern).unwrap().find(&text), expected, "{pattern}");
        }
    }

    #[test]
    fn regexes_with_exponential_backtracking_are_refused() {
        for bad in ["(a+)+", "(a*)*b", "(?:a{2,})+", "((ab)+)*", "(a|a)*", "(.|x)+", r"(\w|a)*", "(x+){3,}"] {
            assert_eq!(Pattern::for_args(bad).unwrap_err(), PatternError::Unsafe, "{bad}");
        }
        for good in ["a+b*", "(abc)+", "(?:a|b)+", r"(?:\w|-)+", "(a+)?", "[(a+)]+", r"\(a+\)+", "(?:x/)?y+"]
        {
            assert!(Pattern::for_args(good).is_ok(), "{good}");
        }
        assert_eq!(Pattern::for_args(&"a".repeat(2049)).unwrap_err(), PatternError::Unsafe);
        assert!(matches!(Pattern::for_args("(").unwrap_err(), PatternError::Invalid(_)));
    }

    #[test]
    fn a_text_that_is_too_long_is_unknown() {
        assert_eq!(Pattern::for_args("a").unwrap().find(&"b".repeat(MAX_SUBJECT + 1)), PatternMatch::Unknown);
    }

    #[test]
    fn both_regex_engines_agree() {
        let subjects = ["", "git status", "a/b.rs", "\0\"p\":\"x\"\0", "ab\ncd", "A_1-z", "é ü"];
        for source in [
            r"git\s+\w+",
            r"^a/.*\.rs$",
            r"\x00.p.",
            "b.c",
            r"\b[A-Z]_\d",
            r"[^\w\s]",
            r"\W",
            "(?:git|hg) s",
            "",
        ] {
            let pattern = Pattern::for_args(source).unwrap();
            assert!(pattern.linear().is_some(), "{source}");
            for subject in subjects {
                let found = pattern.full().unwrap().find(subject).is_some();
                assert_eq!(pattern.find(subject) == PatternMatch::Yes, found, "{source} on {subject:?}");
            }
        }
    }

    #[test]
    fn a_backtracking_regex_is_not_run_on_a_long_text() {
        let pattern = Pattern::for_args("^(?!.*a.*b).*c.*d$").unwrap();
        assert_eq!(pattern.find("xcd"), PatternMatch::Yes);
        assert_eq!(pattern.find(&"cd ".repeat(1000)), PatternMatch::Unknown);
        let pattern = Pattern::for_args("a.*b.*c.*d.*e.*f").unwrap();
        assert_eq!(pattern.find(&"abcde".repeat(10_000)), PatternMatch::No);
    }

    proptest! {
        #[test]
        fn any_text_can_be_compiled_as_a_regex(text in ".{0,60}") {
            if let Ok(pattern) = Pattern::for_args(&text) {
                pattern.find("a short subject");
            }
        }
    }
}
