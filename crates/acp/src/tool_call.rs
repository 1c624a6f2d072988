//! Tool calls as the client sees them: title, kind, places, and content with real diffs.

use std::path::Path;

use pollux_domain::approval::{ApprovalRequest, Subject};
use pollux_domain::event::{CallOutcome, CallReport, CallRequest, CallStatus, Location};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{one_line, plain};
use pollux_domain::tool::{Display, FileDiff, ToolKind};
use pollux_host::RecordedCall;
use serde_json::{Value, json};

use crate::updates::{MAX_LIVE, last};

/// The longest file that is shown as a diff, in bytes.
const MAX_DIFF: usize = 1024 * 1024;
/// The longest string of raw input that is sent, in bytes.
const MAX_RAW: usize = 64 * 1024;

/// The protocol's word for a kind.
pub(crate) fn kind(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think | ToolKind::Agent => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::Plan => "switch_mode",
        ToolKind::Communicate | ToolKind::Other => "other",
    }
}

/// The kind of a recorded call, which the record does not name.
fn recorded_kind(name: &str) -> &'static str {
    match name {
        "read_file" | "read_many_files" | "list_directory" => "read",
        "write_file" | "replace" => "edit",
        "grep_search" | "search_file_content" | "glob" | "memory_search" => "search",
        "run_shell_command" => "execute",
        "web_fetch" | "google_web_search" => "fetch",
        "invoke_agent" | "save_memory" | "write_todos" => "think",
        "enter_plan_mode" | "exit_plan_mode" => "switch_mode",
        _ => "other",
    }
}

/// A call that the model asked for.
pub(crate) fn requested(request: &CallRequest) -> Value {
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": request.call.as_str(),
        "title": title(request),
        "name": request.name,
        "kind": kind(request.kind),
        "status": "pending",
        "content": [],
        "locations": locations(&request.paths),
        "rawInput": raw_input(&Value::Object(request.args.clone())),
    })
}

fn title(request: &CallRequest) -> String {
    let title = if request.title.is_empty() { &request.display_name } else { &request.title };
    let title = one_line(&redacted(title));
    if title.is_empty() { request.name.clone() } else { title }
}

pub(crate) fn started(call: &str) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "in_progress"})
}

/// A call that runs in a terminal of the client.
pub(crate) fn in_terminal(call: &str, terminal: &Value) -> Value {
    json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "content": [terminal]})
}

/// A call that ended. The terminal that it ran in shows what it printed.
pub(crate) fn finished(report: &CallReport, terminal: Option<Value>) -> Value {
    let status = if report.outcome.succeeded() { "completed" } else { "failed" };
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": report.call.as_str(),
        "status": status,
        "content": terminal.map_or_else(|| content(report), |terminal| vec![terminal]),
        "locations": locations(&report.paths),
        "rawOutput": raw_output(&report.answer),
    })
}

fn content(report: &CallReport) -> Vec<Value> {
    let mut content = displayed(&report.display);
    let why = match &report.outcome {
        CallOutcome::Succeeded => None,
        CallOutcome::Cancelled => Some("Cancelled".to_owned()),
        CallOutcome::Failed(failure) => Some(failure.message.clone()),
    };
    let is_shown = |why: &str| matches!(&report.display, Display::Text(text) if text.contains(why));
    if let Some(why) = why.filter(|why| !is_shown(why)) {
        content.push(text(&why));
    }
    content
}

/// The displayed form of a result.
fn displayed(display: &Display) -> Vec<Value> {
    match display {
        Display::Nothing | Display::Todos(_) => Vec::new(),
        Display::Text(shown) if shown.is_empty() => Vec::new(),
        Display::Text(shown) => vec![text(&tail(last(shown, MAX_LIVE), shown.len() > MAX_LIVE))],
        Display::Diff(change) => vec![diff(change)],
        Display::List { summary, items } => {
            let lines: Vec<&str> = std::iter::once(summary).chain(items).map(String::as_str).collect();
            vec![text(&lines.join("\n"))]
        }
        Display::Agent(end) => vec![text(&end.result)],
    }
}

/// A change to a file. `oldText` is null for a new one.
pub(crate) fn diff(change: &FileDiff) -> Value {
    let before = change.before.as_deref().unwrap_or_default();
    if before.len() > MAX_DIFF || change.after.len() > MAX_DIFF {
        let stat = change.stat;
        let lines = format!("{} lines added, {} removed", stat.added_lines, stat.removed_lines);
        return text(&format!("{}: {lines} (too large to show)", change.path.display()));
    }
    json!({
        "type": "diff",
        "path": change.path,
        "oldText": change.before,
        "newText": change.after,
    })
}

/// A text as content of a call, without control sequences and secrets.
pub(crate) fn text(shown: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": redacted(&plain(shown))}})
}

/// The end of a text, marked if its beginning is missing.
pub(crate) fn tail(shown: &str, is_cut: bool) -> String {
    if is_cut { format!("[earlier output omitted]\n{shown}") } else { shown.to_owned() }
}

fn locations(paths: &[Location]) -> Vec<Value> {
    let location = |place: &Location| match place.line {
        Some(line) => json!({"path": place.path, "line": line}),
        None => json!({"path": place.path}),
    };
    paths.iter().map(location).collect()
}

/// Arguments without secrets and without very long strings.
fn raw_input(args: &Value) -> Value {
    let mut args = args.clone();
    redact_value(&mut args);
    shorten(&mut args);
    args
}

fn raw_output(answer: &str) -> Value {
    let mut output = json!({"output": redacted(answer)});
    shorten(&mut output);
    output
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_RAW => {
            let left_out = text.len() - MAX_RAW;
            text.truncate(text.floor_char_boundary(MAX_RAW));
            text.push_str(&format!("… [{left_out} bytes omitted]"));
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A call of an earlier run, with its result.
pub(crate) fn recorded(call: &RecordedCall) -> Value {
    let about = call.description.as_deref().or(call.display_name.as_deref()).unwrap_or(&call.name);
    let mut content = displayed(&call.display);
    let status = match call.status {
        Some(CallStatus::Success) => "completed",
        Some(CallStatus::Error | CallStatus::Cancelled) | None => "failed",
    };
    match call.status {
        None => content.push(text("Interrupted")),
        Some(CallStatus::Error) if content.is_empty() => content.push(text(last(&call.answer, MAX_LIVE))),
        Some(_) => {}
    }
    let paths = match &call.display {
        Display::Diff(change) => vec![Location::from(change.path.as_path())],
        _ => recorded_paths(call),
    };
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": call.call.as_str(),
        "title": one_line(&redacted(about)),
        "name": call.name,
        "kind": recorded_kind(&call.name),
        "status": status,
        "content": content,
        "locations": locations(&paths),
        "rawInput": raw_input(&Value::Object(call.args.clone())),
        "rawOutput": raw_output(&call.answer),
    })
}

fn recorded_paths(call: &RecordedCall) -> Vec<Location> {
    let given = ["file_path", "absolute_path", "dir_path", "path"];
    let given = given.iter().find_map(|key| call.args.get(*key)?.as_str());
    given.map(Path::new).filter(|path| path.is_absolute()).map(Location::from).into_iter().collect()
}

/// The call that a permission request is about, and why it needs approval.
pub(crate) fn in_question(request: &ApprovalRequest) -> Value {
    let mut content = Vec::new();
    let mut places = Vec::new();
    let title = match &request.subject {
        Subject::Edit { path, diff: change } => {
            content.extend(change.as_deref().map(diff));
            places.push(Location::from(path.as_path()));
            format!("{} {}", request.display_name, path.display())
        }
        Subject::Command { command, directory } => {
            content.push(text(&format!("```sh\n{command}\n```\nin {}", directory.display())));
            command.clone()
        }
        Subject::Fetch(pages) => pages.join(", "),
        Subject::Server { server, tool } => format!("{tool} ({server})"),
        Subject::EnterPlan { reason } => {
            content.push(text(reason));
            "Enter plan mode".to_owned()
        }
        Subject::Plan { path, text: plan } => {
            content.push(text(plan));
            places.push(Location::from(path.as_path()));
            "Approve the plan".to_owned()
        }
        Subject::Questions(_) => request.display_name.clone(),
        Subject::Sandbox(question) => {
            content
                .extend(question.command.as_deref().map(|command| text(&format!("```sh\n{command}\n```"))));
            question.sentence()
        }
        Subject::Other(about) => about.clone(),
    };
    content.extend(request.destroys.as_deref().map(|lost| text(&format!("Cannot be undone: {lost}"))));
    if !request.why.reason.is_empty() {
        content.push(text(&request.why.reason));
    }
    let mut call = json!({
        "toolCallId": request.call.as_str(),
        "title": one_line(&redacted(&title)),
        "name": request.tool,
        "kind": subject_kind(&request.subject),
        "status": "pending",
        "content": content,
        "locations": locations(&places),
        "rawInput": raw_input(&Value::Object(request.args.clone())),
    });
    if let (Subject::Sandbox(question), Some(fields)) = (&request.subject, call.as_object_mut()) {
        let mut meta = question.to_json();
        if let Some(meta) = meta.as_object_mut() {
            // The right is the one in `requested`.
            meta.remove("target");
            meta.insert("kind".to_owned(), "sandbox_expansion".into());
            meta.insert("requested".to_owned(), json!([question.right.to_json()]));
        }
        fields.insert("_meta".to_owned(), meta);
    }
    call
}

fn subject_kind(subject: &Subject) -> &'static str {
    match subject {
        Subject::Edit { .. } => "edit",
        Subject::Command { .. } => "execute",
        Subject::Fetch(_) => "fetch",
        Subject::EnterPlan { .. } | Subject::Plan { .. } => "switch_mode",
        Subject::Server { .. } | Subject::Questions(_) | Subject::Sandbox(_) | Subject::Other(_) => "other",
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::JsonObject;
    use pollux_domain::id::CallId;
    use pollux_domain::tool::DiffStat;

    use super::*;

    fn change(before: Option<&str>, after: String) -> FileDiff {
        FileDiff {
            unified: String::new(),
            file_name: "a".into(),
            path: "/w/a".into(),
            before: before.map(str::to_owned),
            after,
            stat: DiffStat::default(),
        }
    }

    #[test]
    fn a_new_file_has_no_old_text_and_a_huge_one_no_diff() {
        let new = diff(&change(None, "x".into()));
        assert_eq!((&new["oldText"], &new["path"]), (&Value::Null, &json!("/w/a")));
        assert_eq!(diff(&change(Some(""), "x".into()))["oldText"], "");
        assert_eq!(diff(&change(None, "x".repeat(MAX_DIFF + 1)))["type"], "content");
    }

    #[test]
    fn a_call_without_title_is_named_and_holds_no_secrets() {
        let mut args = JsonObject::new();
        args.insert("text".into(), "x".repeat(MAX_RAW + 9).into());
        args.insert("command".into(), "curl --password hunter2 x".into());
        let call = requested(&CallRequest::new(CallId::new("t", "1"), "some_tool", args));
        assert_eq!(call["title"], "some_tool");
        let line = call.to_string();
        assert!(!line.contains("hunter2") && line.contains("9 bytes omitted"));
    }
}
