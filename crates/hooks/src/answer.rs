//! Parses the answer of a hook from its exit code and output.

use pollux_domain::JsonObject;
use pollux_domain::json::parse_wire;
use pollux_domain::terminal_text::{Stripper, plain};
use serde_json::Value;

use crate::ending::HookEnding;

/// Longest message or reason, in bytes.
const MAX_MESSAGE: usize = 16 << 10;
/// Longest context for the model, in bytes.
const MAX_CONTEXT: usize = 256 << 10;

/// Exit code of a hook that forbids.
const FORBIDS: i32 = 2;
/// Exit codes of a shell that could not run a command.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Whether something may happen; a later one is stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// No decision was given.
    #[default]
    None,
    Allow,
    Ask,
    Deny,
}

impl Decision {
    /// The JSON value; empty if no decision was given.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// One hook's answer, or several combined.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookAnswer {
    /// `continue: false`
    pub stop: bool,
    pub stop_reason: Option<String>,
    pub decision: Decision,
    pub reason: Option<String>,
    pub system_message: Option<String>,
    pub suppress_output: bool,
    /// `hookSpecificOutput`
    pub specific: JsonObject,
    /// A hook of a project or an extension chose the model in it.
    pub chose_foreign_model: bool,
}

impl HookAnswer {
    /// In the keys that hooks use; unset fields are omitted.
    pub fn to_json(&self) -> JsonObject {
        let mut fields = JsonObject::new();
        let mut add = |key: &str, value: Option<Value>| {
            fields.extend(value.map(|value| (key.to_owned(), value)));
        };
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        add("continue", self.stop.then_some(Value::Bool(false)));
        add("stopReason", text(&self.stop_reason));
        add("decision", (self.decision != Decision::None).then(|| self.decision.word().into()));
        add("reason", text(&self.reason));
        add("systemMessage", text(&self.system_message));
        add("suppressOutput", self.suppress_output.then_some(Value::Bool(true)));
        let specific = (!self.specific.is_empty()).then(|| Value::Object(self.specific.clone()));
        add("hookSpecificOutput", specific);
        fields
    }
}

/// An answer with the warnings from parsing it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ParsedAnswer {
    pub(crate) answer: HookAnswer,
    /// The problem, without the hook's name.
    pub(crate) warning: Option<String>,
    /// The hook did not do its work; a required one then forbids.
    pub(crate) failed: bool,
}

/// The ending and the output of a hook.
#[derive(Debug)]
pub(crate) struct HookOutput<'a> {
    pub(crate) ending: &'a HookEnding,
    pub(crate) stdout: &'a str,
    pub(crate) stderr: &'a str,
    /// Not all that it printed is here.
    pub(crate) cut: bool,
}

/// Parses the output of a hook. A JSON object counts for any exit code, except that 2 always denies.
pub(crate) fn read(said: &HookOutput<'_>) -> ParsedAnswer {
    let code = match said.ending {
        HookEnding::Exited(code) => Some(*code),
        HookEnding::Signalled(_) => None,
        HookEnding::TimedOut { after_ms } => {
            return failure(format!("timed out after {after_ms}ms and was killed"));
        }
        HookEnding::NotStarted(why) => return failure(format!("could not be started: {why}")),
        HookEnding::Failed(why) => return failure(format!("failed: {why}")),
        HookEnding::Cancelled => {
            let stop_reason = Some("The turn was cancelled.".to_owned());
            return ParsedAnswer {
                answer: HookAnswer { stop: true, stop_reason, ..HookAnswer::default() },
                ..ParsedAnswer::default()
            };
        }
    };
    // PowerShell and .NET begin their output with a byte order mark.
    let text = match without_mark(said.stdout) {
        "" => without_mark(said.stderr),
        stdout => stdout,
    };
    let mut reading = match parse(text) {
        Parsed::Object(object) => of_object(&object),
        Parsed::Other => ParsedAnswer::default(),
        Parsed::Text { begins_like_json } if said.cut && (begins_like_json || code == Some(0)) => {
            unreadable()
        }
        Parsed::Text { begins_like_json } => of_text(text, code, begins_like_json, said.ending),
    };
    if code == Some(FORBIDS) && reading.answer.decision != Decision::Deny {
        reading.answer.decision = Decision::Deny;
        if reading.answer.reason.is_none() {
            reading.answer.reason = message(said.stderr).or_else(|| reading.answer.system_message.clone());
        }
    }
    reading
}

fn without_mark(text: &str) -> &str {
    text.trim().trim_start_matches('\u{feff}').trim_start()
}

fn failure(warning: String) -> ParsedAnswer {
    ParsedAnswer { warning: Some(warning), failed: true, ..ParsedAnswer::default() }
}

/// Making a hook print too much must not bypass it.
fn unreadable() -> ParsedAnswer {
    let reason = "the hook's output is too long".to_owned();
    let warning = Some("printed too much output (treated as deny)".to_owned());
    let answer = HookAnswer { decision: Decision::Deny, reason: Some(reason), ..HookAnswer::default() };
    ParsedAnswer { answer, warning, failed: true }
}

enum Parsed {
    Object(JsonObject),
    /// Other JSON, which has no effect.
    Other,
    Text {
        begins_like_json: bool,
    },
}

fn parse(text: &str) -> Parsed {
    let mut value = parse_wire::<Value>(text.as_bytes());
    // Some languages' helpers encode twice.
    if let Ok(Value::String(inner)) = &value {
        value = parse_wire(inner.as_bytes());
    }
    match value {
        Ok(Value::Object(object)) => Parsed::Object(object),
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Parsed::Other
        }
        Err(_) => Parsed::Text { begins_like_json: text.starts_with(['{', '[']) || text.starts_with("\"{") },
    }
}

fn of_text(text: &str, code: Option<i32>, begins_like_json: bool, ending: &HookEnding) -> ParsedAnswer {
    let allowed =
        |system_message| HookAnswer { decision: Decision::Allow, system_message, ..HookAnswer::default() };
    match code {
        Some(FORBIDS) => {
            let answer =
                HookAnswer { decision: Decision::Deny, reason: message(text), ..HookAnswer::default() };
            ParsedAnswer { answer, ..ParsedAnswer::default() }
        }
        Some(0) if text.is_empty() => ParsedAnswer::default(),
        Some(0) => ParsedAnswer {
            answer: allowed(message(text)),
            warning: begins_like_json.then(|| "printed invalid JSON".to_owned()),
            failed: begins_like_json,
        },
        Some(code @ (NOT_EXECUTABLE | NOT_FOUND)) => {
            let why = if code == NOT_FOUND { "not found" } else { "not executable" };
            let detail = message(text).map(|text| format!(": {text}")).unwrap_or_default();
            failure(format!("COULD NOT BE RUN: its command is {why} (exit code {code}){detail}"))
        }
        Some(_) | None if text.is_empty() => failure(format!("failed: {ending}")),
        // As upstream: a signal is not an answer of the hook.
        None => ParsedAnswer { answer: allowed(message(text)), ..failure(format!("failed: {ending}")) },
        Some(_) => {
            let warned = message(text).map(|text| format!("Warning: {text}"));
            ParsedAnswer { answer: allowed(warned), warning: None, failed: true }
        }
    }
}

fn of_object(object: &JsonObject) -> ParsedAnswer {
    let text = |key: &str| object.get(key).and_then(Value::as_str).and_then(message);
    let mut specific =
        object.get("hookSpecificOutput").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut reason = text("reason");
    let mut word = object.get("decision");
    // Claude Code's names for the same fields.
    if let Some(theirs) = specific.shift_remove("permissionDecision")
        && word.is_none_or(Value::is_null)
    {
        reason =
            specific.get("permissionDecisionReason").and_then(Value::as_str).and_then(message).or(reason);
        specific.insert("decision".to_owned(), theirs);
        word = specific.get("decision");
    }
    let (decision, warning) = decision(word);
    specific.shift_remove("decision");
    if let Some(input) = specific.shift_remove("updatedInput") {
        specific.entry("tool_input").or_insert(input);
    }
    if let Some(Value::String(context)) = specific.get_mut("additionalContext") {
        *context = cut(Stripper::of_sequences().push(context), MAX_CONTEXT);
    }
    let answer = HookAnswer {
        stop: object.get("continue") == Some(&Value::Bool(false)),
        stop_reason: text("stopReason"),
        decision,
        reason,
        system_message: text("systemMessage"),
        suppress_output: object.get("suppressOutput") == Some(&Value::Bool(true)),
        specific,
        chose_foreign_model: false,
    };
    ParsedAnswer { answer, failed: warning.is_some(), warning }
}

/// The decision, and a warning if it is unknown.
fn decision(word: Option<&Value>) -> (Decision, Option<String>) {
    let unknown = |word: &str| {
        let word: String = plain(word).chars().take(40).collect();
        (
            Decision::None,
            Some(format!("returned the unknown decision `{word}` (expected allow, deny or ask)")),
        )
    };
    match word {
        None | Some(Value::Null) => (Decision::None, None),
        Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
            "allow" | "approve" => (Decision::Allow, None),
            "ask" => (Decision::Ask, None),
            "deny" | "block" => (Decision::Deny, None),
            "" => (Decision::None, None),
            other => unknown(other),
        },
        Some(other) => unknown(&other.to_string()),
    }
}

/// A text for users: trimmed, sanitised and limited in length; `None` if nothing is left.
fn message(text: &str) -> Option<String> {
    let text = cut(plain(text).trim().to_owned(), MAX_MESSAGE);
    (!text.is_empty()).then_some(text)
}

/// The start of an overlong text, with a note that it was cut.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let all = text.len();
        text.truncate(text.floor_char_boundary(limit));
        // A lone carriage return would make the note overwrite the line.
        text.truncate(text.trim_end_matches('\r').len());
        text.push_str(&format!("… [cut: {all} bytes]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(code: i32, stdout: &str, stderr: &str) -> ParsedAnswer {
        read(&HookOutput { ending: &HookEnding::Exited(code), stdout, stderr, cut: false })
    }

    #[test]
    fn a_line_end_is_not_cut_in_half() {
        assert_eq!(cut("a\r\nb".to_owned(), 2), "a… [cut: 4 bytes]");
    }

    #[test]
    fn exit_codes_and_output_make_a_decision() {
        use Decision::{Allow, Deny, None as Nothing};
        let deny = r#"{"decision":"deny","reason":"r"}"#;
        let allow = r#"{"decision":"allow"}"#;
        // code, stdout, stderr, decision, reason, message, failed
        let table: &[(i32, &str, &str, Decision, &str, &str, bool)] = &[
            (0, "", "", Nothing, "", "", false),
            (0, " fine \n", "", Allow, "", "fine", false),
            (0, "", "a note", Allow, "", "a note", false),
            (0, deny, "", Deny, "r", "", false),
            (0, "", deny, Deny, "r", "", false),
            (
                0,
                "log line\n{\"decision\":\"deny\"}",
                "",
                Allow,
                "",
                "log line\n{\"decision\":\"deny\"}",
                false,
            ),
            (0, "{\"decision\":", "", Allow, "", "{\"decision\":", true),
            (0, "5", "", Nothing, "", "", false),
            (0, "[1]", "", Nothing, "", "", false),
            (0, "\"{\\\"decision\\\":\\\"block\\\"}\"", "", Deny, "", "", false),
            (1, "careful", "", Allow, "", "Warning: careful", true),
            (1, deny, "", Deny, "r", "", false),
            (1, "", "", Nothing, "", "", true),
            (2, "no", "", Deny, "no", "", false),
            (2, "", "no", Deny, "no", "", false),
            (2, "", "", Deny, "", "", false),
            (2, allow, "because", Deny, "because", "", false),
            (2, "7", "why", Deny, "why", "", false),
            (3, "hm", "", Allow, "", "Warning: hm", true),
            (126, "", "denied", Nothing, "", "", true),
            (127, "", "no such file", Nothing, "", "", true),
            (127, deny, "", Deny, "r", "", false),
        ];
        for (code, stdout, stderr, decision, reason, message, failed) in table {
            let reading = said(*code, stdout, stderr);
            let answer = &reading.answer;
            let found = (answer.decision, answer.reason.as_deref().unwrap_or_default());
            assert_eq!(found, (*decision, *reason), "{code} {stdout} {stderr}");
            let found = (answer.system_message.as_deref().unwrap_or_default(), reading.failed);
            assert_eq!(found, (*message, *failed), "{code} {stdout} {stderr}");
        }
        assert!(said(127, "", "x: no").warning.unwrap().contains("COULD NOT BE RUN"));
    }

    #[test]
    fn overlong_output_denies_only_if_it_might_be_an_answer() {
        let cut = |text: &str, code| {
            read(&HookOutput { ending: &HookEnding::Exited(code), stdout: text, stderr: "", cut: true })
        };
        assert_eq!(cut("{\"decision\": \"de", 0).answer.decision, Decision::Deny);
        assert_eq!(cut("yyyy", 0).answer.decision, Decision::Deny);
        assert_eq!(cut("yyyy", 2).answer.decision, Decision::Deny);
        let long = said(0, &"é".repeat(20_000), "").answer.system_message.unwrap();
        assert!(long.len() < 17_000 && long.ends_with("[cut: 40000 bytes]"), "{}", long.len());
    }

    #[test]
    fn every_key_is_read_and_wrong_types_are_ignored() {
        let all = json!({"continue": false, "stopReason": "s", "decision": "ASK", "reason": "r\u{1b}[31m",
            "systemMessage": "m", "suppressOutput": true, "hookSpecificOutput": {"additionalContext": "\u{1b}[1mc"}});
        let answer = said(0, &all.to_string(), "").answer;
        assert!(answer.stop && answer.suppress_output);
        assert_eq!(answer.decision, Decision::Ask);
        assert_eq!((answer.stop_reason.as_deref(), answer.reason.as_deref()), (Some("s"), Some("r")));
        assert_eq!(answer.specific["additionalContext"], "c");
        let told = json!({"continue": false, "stopReason": "s", "decision": "ask", "reason": "r",
            "systemMessage": "m", "suppressOutput": true, "hookSpecificOutput": {"additionalContext": "c"}});
        assert_eq!(Value::Object(answer.to_json()), told);
        assert!(HookAnswer::default().to_json().is_empty());
        let odd = json!({"continue": "false", "decision": 5, "reason": [], "hookSpecificOutput": "x"});
        let reading = said(0, &odd.to_string(), "");
        assert_eq!(reading.answer, HookAnswer::default());
        assert!(reading.warning.unwrap().contains("`5`"));
    }

    #[test]
    fn claude_code_answers_are_accepted() {
        let theirs = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
            "permissionDecisionReason": "why", "updatedInput": {"a": 1}}});
        let answer = said(0, &theirs.to_string(), "").answer;
        assert_eq!((answer.decision, answer.reason.as_deref()), (Decision::Deny, Some("why")));
        assert_eq!(answer.specific["tool_input"], json!({"a": 1}));
    }
}
