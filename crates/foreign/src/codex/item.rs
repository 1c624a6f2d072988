//! One item of a Codex conversation, in the format of the Responses API.

use pollux_domain::event::CallStatus;
use pollux_domain::json::parse_lenient_str;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::arguments;
use crate::json::{self, Field};
use crate::session::{Args, RecordKind, RecordSink};

/// Texts that Codex itself inserts as user messages. Other tags are the user's.
const NOT_THE_USERS: [&str; 19] = [
    "<environment_context>",
    "<environments>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<user_action>",
    "<skill>",
    "<skills",
    "<subagent_notification>",
    "<current_time_reminder>",
    "<image_resize_notice>",
    "<codex_internal_context",
    "<goal_context>",
    "<hook_prompt",
    "<guardian_",
];

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow)]
    kind: Field<'a>,
    #[serde(borrow)]
    role: Field<'a>,
    #[serde(borrow)]
    content: Field<'a>,
    #[serde(borrow)]
    name: Field<'a>,
    #[serde(borrow)]
    arguments: Field<'a>,
    #[serde(borrow)]
    input: Field<'a>,
    #[serde(borrow)]
    action: Field<'a>,
    #[serde(borrow)]
    call_id: Field<'a>,
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    output: Field<'a>,
    #[serde(borrow)]
    model: Field<'a>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    text: Field<'a>,
}

/// The output of a command in older releases: JSON in a string.
#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    output: String,
    #[serde(default)]
    content: String,
    success: Option<bool>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    exit_code: Option<i64>,
}

/// Reports one item. Returns the text of a user message that the user did not write.
pub(super) fn record(raw: &RawValue, sink: &mut RecordSink<'_>) -> Option<String> {
    let item: Item<'_> = serde_json::from_str(raw.get()).ok()?;
    let call = json::text(item.call_id).or_else(|| json::text(item.id)).unwrap_or_default();
    match json::text(item.kind).as_deref() {
        Some("message") => return message(&item, sink),
        Some("function_call") => {
            let name = json::text(item.name).unwrap_or_default();
            function_call(sink, &call, &name, item.arguments);
        }
        Some("custom_tool_call") => {
            let name = json::text(item.name).unwrap_or_default();
            let input = json::text(item.input).unwrap_or_default();
            sink.record(RecordKind::Call { call: &call, name: &name, args: Args::Text(&input) });
        }
        Some(kind @ ("local_shell_call" | "web_search_call" | "tool_search_call")) => {
            let args: Map<String, Value> = json::parse(item.action).unwrap_or_default();
            let name = kind.trim_end_matches("_call");
            sink.record(RecordKind::Call { call: &call, name, args: Args::Object(&args) });
            if kind != "local_shell_call" {
                // These run at the provider; their ends are not recorded.
                sink.record(RecordKind::CallEnded { call: &call, status: CallStatus::Success, error: None });
            }
        }
        Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
            let (status, error) = outcome(item.output);
            sink.record(RecordKind::CallEnded { call: &call, status, error });
        }
        _ => {}
    }
    None
}

/// The model of a turn.
pub(super) fn model(payload: Field<'_>, sink: &mut RecordSink<'_>) {
    if let Some(model) = json::parse::<Item<'_>>(payload).and_then(|item| json::text(item.model)) {
        sink.record(RecordKind::Model(&model));
    }
}

/// The folder that a context message names, in the form of one release or another.
pub(super) fn cwd_in_context(context: &str) -> Option<String> {
    let tagged = context.split_once("<cwd>").and_then(|(_, rest)| rest.split_once("</cwd>"));
    let listed = || {
        let (_, rest) = context.split_once("Current working directory: ")?;
        rest.lines().next().map(|line| (line, ""))
    };
    tagged.or_else(listed).map(|(cwd, _)| cwd.trim().to_owned()).filter(|cwd| !cwd.is_empty())
}

fn message(item: &Item<'_>, sink: &mut RecordSink<'_>) -> Option<String> {
    let text = text_of(item.content);
    let text = text.trim();
    match json::text(item.role).as_deref() {
        _ if text.is_empty() => {}
        Some("assistant") => sink.record(RecordKind::Agent(text)),
        Some("user") if NOT_THE_USERS.iter().any(|start| text.starts_with(start)) => {
            return Some(text.to_owned());
        }
        Some("user") => sink.record(RecordKind::User(text)),
        // Those of the developer and the system are Codex's own.
        _ => {}
    }
    None
}

fn text_of(content: Field<'_>) -> String {
    if let Some(text) = json::text(content) {
        return text.into_owned();
    }
    let pieces = json::items(content).into_iter().filter_map(|raw| json::parse::<Piece<'_>>(Some(raw)));
    pieces.filter_map(|piece| json::text(piece.text).map(Into::<String>::into)).collect::<Vec<_>>().join("\n")
}

fn function_call(sink: &mut RecordSink<'_>, call: &str, name: &str, arguments: Field<'_>) {
    // A string that contains JSON; an object in some files.
    let text = json::text(arguments);
    let source = text.as_deref().or(arguments.map(RawValue::get)).unwrap_or_default();
    match parse_lenient_str::<Map<String, Value>>(source) {
        Ok(args) => sink.record(RecordKind::Call { call, name, args: Args::Object(&args) }),
        Err(_) => sink.record(RecordKind::Call { call, name, args: Args::Text(source) }),
    }
}

fn outcome(output: Field<'_>) -> (CallStatus, Option<String>) {
    let text = json::text(output).map_or_else(|| text_of(output), Into::into);
    let nested = if output.is_some_and(|raw| raw.get().starts_with('{')) {
        json::parse::<Output>(output)
    } else if text.starts_with('{') {
        parse_lenient_str::<Output>(&text).ok()
    } else {
        None
    };
    let (is_failed, text) = match nested {
        Some(nested) => {
            let code = nested.metadata.and_then(|metadata| metadata.exit_code);
            let is_failed = nested.success == Some(false) || code.is_some_and(|code| code != 0);
            (is_failed, if nested.output.is_empty() { nested.content } else { nested.output })
        }
        None => (exit_code(&text).is_some_and(|code| code != 0) || is_refusal(&text), text),
    };
    if !is_failed {
        return (CallStatus::Success, None);
    }
    let status = if is_abort(&text) { CallStatus::Cancelled } else { CallStatus::Error };
    (status, Some(arguments::first_chars(&text)))
}

/// The exit code that the first lines of an output tell.
fn exit_code(text: &str) -> Option<i64> {
    text.lines().take(8).find_map(|line| {
        let code =
            line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))?;
        code.trim().parse().ok()
    })
}

/// Whether a text replaces the output of a call that did not run.
fn is_refusal(text: &str) -> bool {
    let starts =
        ["failed to parse function arguments", "unsupported call", "execution error", "exec_command failed"];
    is_abort(text) || starts.iter().any(|start| text.starts_with(start))
}

fn is_abort(text: &str) -> bool {
    text.starts_with("aborted") || text.starts_with("exec command rejected by user")
}
