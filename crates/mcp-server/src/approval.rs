//! A session's questions, put to the person at the client.

use pollux_domain::approval::Outcome;
use pollux_front::rpc::Peer;
use serde_json::{Value, json};

/// The field of the form.
const DECISION: &str = "decision";
const REJECT: &str = "cancel";

/// The message that answers an `APPROVAL` of a session; `None` is a client that cannot ask.
pub(crate) async fn answer(client: Option<&Peer>, approval: &Value) -> Value {
    let call = approval.get("callId").cloned().unwrap_or_default();
    let refused =
        |message: String| json!({"type": "approve", "callId": call, "outcome": REJECT, "message": message});
    let Some(client) = client.filter(|_| approval.get("questions").is_none()) else {
        return refused(cannot_ask(approval));
    };
    let answer = client.request("elicitation/create", form(approval)).await.unwrap_or_default();
    let is_accepted = answer.get("action").and_then(Value::as_str) == Some("accept");
    let chosen = answer.get("content").and_then(|content| content.get(DECISION)?.as_str());
    let chosen = chosen.filter(|_| is_accepted).unwrap_or(REJECT);
    match offers(approval).into_iter().find(|(outcome, _)| *outcome == chosen) {
        Some((outcome, _)) => json!({"type": "approve", "callId": call, "outcome": outcome}),
        None => refused("The user rejected this call.".to_owned()),
    }
}

/// What the model reads if nobody can be asked. It names the rule that the user can change.
fn cannot_ask(approval: &Value) -> String {
    let why = approval.get("why");
    let text = |name: &str| why.and_then(|why| why.get(name)).and_then(Value::as_str).unwrap_or_default();
    let reason = [text("rule"), text("reason")].into_iter().filter(|part| !part.is_empty());
    let reason = reason.collect::<Vec<_>>().join(": ");
    format!("This call needs approval, but the MCP client cannot ask for it ({reason}).")
}

/// The form of a question. Its text says what would happen; the choices say what they cover.
fn form(approval: &Value) -> Value {
    let (outcomes, names): (Vec<&str>, Vec<String>) = offers(approval).into_iter().unzip();
    let outcomes: Vec<&str> = outcomes.into_iter().chain([REJECT]).collect();
    let names: Vec<String> = names.into_iter().chain(["Reject".to_owned()]).collect();
    json!({
        "mode": "form",
        "message": message(approval),
        "requestedSchema": {
            "type": "object",
            "properties": {
                DECISION: {"type": "string", "title": "Decision", "enum": outcomes, "enumNames": names},
            },
            "required": [DECISION],
        },
    })
}

fn message(approval: &Value) -> String {
    let tool = approval.get("toolName").and_then(Value::as_str).unwrap_or_default();
    let subject = approval.get("subject");
    let part = |name: &str| subject.and_then(|subject| subject.get(name)).and_then(Value::as_str);
    let urls = subject.and_then(|subject| subject.get("urls")).and_then(Value::as_array);
    let urls = urls.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let parts =
        ["text", "command", "directory", "path", "server", "tool", "diff"].into_iter().filter_map(part);
    let mut lines = vec![format!("Pollux wants to use {tool}:")];
    lines.extend(parts.map(str::to_owned).chain(urls));
    if let Some(lost) = approval.get("destroys").and_then(Value::as_str) {
        lines.push(format!("This would be lost permanently: {lost}"));
    }
    lines.join("\n")
}

/// The outcomes that a form can offer, with their names.
fn offers(approval: &Value) -> Vec<(&str, String)> {
    let offers = approval.get("offers").and_then(Value::as_array).into_iter().flatten();
    let named = |offer: &'_ Value| {
        let label = Outcome::named(offer.get("outcome")?.as_str()?)?.label()?;
        let covers = offer.get("covers").and_then(Value::as_str).unwrap_or_default();
        Some(if covers.is_empty() { label.to_owned() } else { format!("{label}: {covers}") })
    };
    offers.filter_map(|offer| Some((offer.get("outcome")?.as_str()?, named(offer)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_shows_what_would_happen_and_offers_no_more_than_the_session_does() {
        let approval = json!({
            "callId": "c1", "toolName": "run_shell_command",
            "subject": {"kind": "command", "command": "rm -r build", "directory": "/p"},
            "why": {"reason": "it is not read-only", "rule": "default.toml:12"},
            "offers": [
                {"outcome": "proceed_once", "covers": ""},
                {"outcome": "proceed_always", "covers": "rm"},
                {"outcome": "modify_with_editor", "covers": ""},
            ],
            "destroys": "build",
        });
        let form = form(&approval);
        let decision = &form["requestedSchema"]["properties"][DECISION];
        assert_eq!(decision["enum"], json!(["proceed_once", "proceed_always", "cancel"]));
        assert_eq!(decision["enumNames"], json!(["Allow", "Allow for this session: rm", "Reject"]));
        let shown = form["message"].as_str().unwrap();
        assert!(shown.contains("rm -r build") && shown.contains("lost permanently: build"), "{shown}");
        assert!(cannot_ask(&approval).contains("default.toml:12: it is not read-only"));
    }
}
