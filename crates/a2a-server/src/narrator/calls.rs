//! Tool calls and approvals in upstream's form.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Question, QuestionForm, Subject};
use pollux_domain::event::{CallReport, CallRequest};
use pollux_domain::redact::redact_value;
use pollux_domain::tool::{Display, ToolKind};
use serde_json::{Value, json};

use super::clean;

/// The longest string of arguments and results that is sent, in bytes.
const MAX_STRING: usize = 64 * 1024;

/// A call and its state.
pub(super) fn call(request: &CallRequest, status: &str, prompt_id: &str) -> JsonObject {
    let mut args = Value::Object(request.args.clone());
    redact_value(&mut args);
    cut(&mut args);
    let data = json!({
        "request": {
            "callId": request.call.as_str(),
            "name": request.name,
            "args": args,
            "isClientInitiated": false,
            "prompt_id": prompt_id,
        },
        "status": status,
        "tool": {
            "name": request.name,
            "displayName": request.display_name,
            "description": clean(&request.title),
            "kind": request.kind.as_str(),
            "isOutputMarkdown": false,
            "canUpdateOutput": request.kind == ToolKind::Execute,
        },
    });
    match data {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// What came of a call.
pub(super) fn result(report: &CallReport) -> JsonObject {
    let answer = shortened(&clean(&report.answer));
    let mut response = json!({
        "callId": report.call.as_str(),
        "resultDisplay": shown(&report.display).unwrap_or_else(|| json!(answer)),
        "responseParts": [{"functionResponse": {
            "id": report.call.as_str(), "name": report.name, "response": {"output": answer},
        }}],
    });
    if let (Some(failure), Some(fields)) = (report.outcome.failure(), response.as_object_mut()) {
        fields.insert("error".to_owned(), json!({"message": clean(&failure.message)}));
        fields.insert("errorType".to_owned(), json!(failure.kind.as_str()));
    }
    let mut fields = JsonObject::new();
    fields.insert("response".to_owned(), response);
    fields
}

fn shown(display: &Display) -> Option<Value> {
    match display {
        Display::Diff(diff) => Some(json!({
            "fileDiff": shortened(&diff.unified),
            "fileName": diff.file_name,
            "filePath": diff.path,
            "originalContent": diff.before.as_deref().map(shortened),
            "newContent": shortened(&diff.after),
        })),
        Display::Text(text) => Some(json!(shortened(&clean(text)))),
        _ => None,
    }
}

/// What a person should know to decide.
pub(super) fn confirmation(request: &ApprovalRequest) -> Value {
    let outcomes: Vec<&str> = request.offers.iter().map(|offer| offer.outcome.as_str()).collect();
    let mut details = match &request.subject {
        Subject::Edit { path, diff } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let mut details = json!({
                "type": "edit",
                "title": format!("Confirm Edit: {name}"),
                "fileName": name,
                "filePath": path,
            });
            if let (Some(diff), Some(fields)) = (diff, details.as_object_mut()) {
                fields.insert("fileDiff".to_owned(), json!(diff.unified));
                fields.insert("originalContent".to_owned(), json!(diff.before));
                fields.insert("newContent".to_owned(), json!(diff.after));
            }
            details
        }
        Subject::Command { command, directory } => json!({
            "type": "exec",
            "title": "Confirm Shell Command",
            "command": command,
            "rootCommand": command.split_whitespace().next().unwrap_or_default(),
            "directory": directory,
        }),
        Subject::Server { server, tool } => json!({
            "type": "mcp",
            "title": "Confirm MCP Tool Execution",
            "serverName": server,
            "toolName": tool,
            "toolDisplayName": request.display_name,
        }),
        Subject::Fetch(urls) => info("Confirm Web Fetch", &urls.join("\n"), Some(urls)),
        Subject::EnterPlan { reason } => info("Enter Plan Mode", reason, None),
        Subject::Plan { path, text } => {
            json!({"type": "exit_plan_mode", "title": "Plan Approval", "planPath": path, "prompt": shortened(text)})
        }
        Subject::Questions(questions) => {
            let questions: Vec<Value> = questions.iter().map(question).collect();
            json!({"type": "ask_user", "title": "Answer Questions", "questions": questions})
        }
        Subject::Sandbox(question) => {
            let command = question.command.clone().unwrap_or_default();
            info("Confirm Sandbox Right", &format!("{:?} for `{command}`", question.right), None)
        }
        Subject::Other(text) => info("Confirm Tool", text, None),
    };
    if let Some(fields) = details.as_object_mut() {
        fields.insert("outcomes".to_owned(), json!(outcomes));
        fields.insert("reason".to_owned(), json!(clean(&request.why.reason)));
        if let Some(lost) = &request.destroys {
            fields.insert("destroys".to_owned(), json!(clean(lost)));
        }
    }
    details
}

fn info(title: &str, prompt: &str, urls: Option<&[String]>) -> Value {
    let mut details = json!({"type": "info", "title": title, "prompt": clean(prompt)});
    if let (Some(urls), Some(fields)) = (urls, details.as_object_mut()) {
        fields.insert("urls".to_owned(), json!(urls));
    }
    details
}

fn question(question: &Question) -> Value {
    let (kind, options) = match &question.form {
        QuestionForm::Text { .. } => ("text", Vec::new()),
        QuestionForm::YesNo => ("yesno", Vec::new()),
        QuestionForm::Choice { options, .. } => {
            let option = |option: &pollux_domain::approval::Choice| json!({"label": option.label, "description": option.description});
            ("choice", options.iter().map(option).collect())
        }
    };
    let several = matches!(question.form, QuestionForm::Choice { several: true, .. });
    json!({
        "header": question.header,
        "question": question.text,
        "type": kind,
        "options": options,
        "multiSelect": several,
    })
}

/// Shortens every string of a value.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_STRING => *text = shortened(text),
        Value::Array(items) => items.iter_mut().for_each(cut),
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_STRING {
        return text.to_owned();
    }
    let end = (0..=MAX_STRING).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n[output exceeds the size limit]", text.get(..end).unwrap_or_default())
}
