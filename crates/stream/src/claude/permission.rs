//! Calls that need approval, as `can_use_tool` requests.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, ApprovalMode, ApprovalRequest, Outcome, Subject};
use pollux_domain::terminal_text::{one_line, visible};
use serde_json::{Value, json};

use super::words::{mode_named, mode_word};
use crate::approvals::REJECTED;

/// What the host decided.
#[derive(Debug, PartialEq)]
pub(crate) struct Decided {
    pub(crate) answer: ApprovalAnswer,
    /// The mode that the host wants from now on.
    pub(crate) mode: Option<String>,
    /// Parts of its answer that have no effect.
    pub(crate) notes: Vec<String>,
}

/// The question.
pub(crate) fn question(request: &ApprovalRequest) -> Value {
    let reason = visible(&request.why.reason).into_owned();
    json!({
        "subtype": "can_use_tool",
        "tool_name": request.tool,
        "input": input(request),
        "permission_suggestions": suggestions(request).into_iter().map(|(_, update)| update).collect::<Vec<_>>(),
        "blocked_path": null,
        "decision_reason": reason,
        "title": one_line(&visible(&title(&request.subject))),
        "display_name": request.display_name,
        "description": request.destroys.as_deref().map(|text| visible(text).into_owned()),
        "tool_use_id": request.call.as_str(),
    })
}

/// The arguments of the call. Questions to the person have none of their own that an answer could be put into.
fn input(request: &ApprovalRequest) -> JsonObject {
    let mut input = request.args.clone();
    if let Subject::Questions(questions) = &request.subject {
        let questions: Vec<Value> = questions
            .iter()
            .map(|question| json!(crate::approvals::question(question)))
            .map(renamed)
            .collect();
        input.insert("questions".to_owned(), questions.into());
    }
    input
}

/// A question with its text under the name that answers refer to.
fn renamed(mut question: Value) -> Value {
    if let Some(fields) = question.as_object_mut()
        && let Some(text) = fields.shift_remove("text")
    {
        fields.insert("question".to_owned(), text);
    }
    question
}

fn title(subject: &Subject) -> String {
    match subject {
        Subject::Edit { path, .. } => format!("Edit {}", path.display()),
        Subject::Command { command, .. } => format!("Run {command}"),
        Subject::Fetch(urls) => format!("Fetch {}", urls.join(", ")),
        Subject::Server { server, tool } => format!("Use {tool} of {server}"),
        Subject::EnterPlan { reason } => format!("Plan first: {reason}"),
        Subject::Plan { path, .. } => format!("Carry out the plan {}", path.display()),
        Subject::Questions(_) => "Answer questions".to_owned(),
        Subject::Sandbox(question) => question.sentence(),
        Subject::Other(text) => text.clone(),
    }
}

/// The answers that reach further than this call, in the host's form.
fn suggestions(request: &ApprovalRequest) -> Vec<(ApprovalAnswer, Value)> {
    let mut suggestions = Vec::new();
    for offer in &request.offers {
        let (answer, destination) = match offer.outcome {
            Outcome::Session => (ApprovalAnswer::Session, "session"),
            Outcome::SessionServer => (ApprovalAnswer::SessionServer, "session"),
            Outcome::Project => (ApprovalAnswer::Project, "localSettings"),
            Outcome::Saved => (ApprovalAnswer::Saved, "userSettings"),
            Outcome::Once | Outcome::Edit | Outcome::Refuse => continue,
        };
        let edits = matches!(request.subject, Subject::Edit { .. }) && offer.outcome == Outcome::Session;
        let update = match edits {
            true => json!({
                "type": "setMode", "mode": mode_word(ApprovalMode::AutoEdit, false), "destination": destination,
            }),
            false => json!({
                "type": "addRules",
                "rules": [{"toolName": request.tool, "ruleContent": visible(&offer.covers)}],
                "behavior": "allow",
                "destination": destination,
            }),
        };
        suggestions.push((answer, update));
    }
    suggestions
}

/// Reads the host's answer; everything but a clear yes is a no.
pub(crate) fn decided(request: &ApprovalRequest, answer: Result<JsonObject, String>) -> Decided {
    let refused =
        |why: String| Decided { answer: ApprovalAnswer::Refuse(why), mode: None, notes: Vec::new() };
    let answer = match answer {
        Ok(answer) => answer,
        Err(why) => return refused(format!("The call was not approved: {why}")),
    };
    let said = answer.get("message").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    match answer.get("behavior").and_then(Value::as_str) {
        Some("allow") => allowed(request, &answer),
        Some("deny") if answer.get("interrupt") == Some(&Value::Bool(true)) => {
            Decided { answer: ApprovalAnswer::Cancel, mode: None, notes: Vec::new() }
        }
        Some("deny") => refused(said.unwrap_or(REJECTED).to_owned()),
        _ => refused("The call was not approved: the host's answer has no valid `behavior`".to_owned()),
    }
}

fn allowed(request: &ApprovalRequest, answer: &JsonObject) -> Decided {
    let mut decided = Decided { answer: ApprovalAnswer::Once, mode: None, notes: Vec::new() };
    let updated = match answer.get("updatedInput") {
        None | Some(Value::Null) => None,
        Some(Value::Object(updated)) => Some(updated),
        Some(_) => {
            decided.answer = ApprovalAnswer::Refuse(
                "The call was not approved: `updatedInput` is not an object".to_owned(),
            );
            return decided;
        }
    };
    if let Subject::Questions(questions) = &request.subject {
        let replies = updated.and_then(|updated| updated.get("answers"));
        let reply = |text: &str| Some(replies?.get(text)?.as_str()?.to_owned());
        let replies: Option<Vec<String>> =
            questions.iter().map(|question| reply(&visible(&question.text))).collect();
        decided.answer = match replies {
            Some(replies) => ApprovalAnswer::Replies(replies),
            None => ApprovalAnswer::Refuse("The questions were not answered.".to_owned()),
        };
        return decided;
    }
    let offered = suggestions(request);
    // Suggestions are alternatives: of several, the first and smallest counts.
    let mut is_granted = false;
    for update in answer.get("updatedPermissions").and_then(Value::as_array).into_iter().flatten() {
        let kind = update.get("type").and_then(Value::as_str);
        let mode = update.get("mode").and_then(Value::as_str);
        if let Some((answer, _)) = offered.iter().find(|(_, offer)| offer == update) {
            if !std::mem::replace(&mut is_granted, true) {
                decided.answer = answer.clone();
            }
        } else if let (Some("setMode"), Some(mode)) = (kind, mode.filter(|mode| mode_named(mode).is_some())) {
            decided.mode = Some(mode.to_owned());
        } else {
            decided.notes.push("ignored an entry of `updatedPermissions` that was not suggested".to_owned());
        }
    }
    // Changed arguments are decided on like a new call, so nothing further is granted with them.
    if let Some(updated) = updated.filter(|updated| **updated != request.args) {
        decided.answer = ApprovalAnswer::Edited(updated.clone());
    }
    if !request.offers(&decided.answer) {
        decided.answer = ApprovalAnswer::Refuse(match decided.answer {
            ApprovalAnswer::Edited(_) => "The arguments of this call cannot be changed.".to_owned(),
            _ => REJECTED.to_owned(),
        });
    }
    decided
}

#[cfg(test)]
mod tests {
    use pollux_domain::approval::{Offer, Why};
    use pollux_domain::id::CallId;

    use super::*;

    fn request(offers: &[Outcome]) -> ApprovalRequest {
        let offer = |outcome: &Outcome| Offer { outcome: *outcome, covers: "npm test".to_owned() };
        ApprovalRequest {
            call: CallId::from_file("c"),
            tool: "run_shell_command".to_owned(),
            display_name: "Shell".to_owned(),
            args: json!({"command": "npm test"}).as_object().unwrap().clone(),
            subject: Subject::Command { command: "npm test".to_owned(), directory: "/".into() },
            destroys: None,
            why: Why::default(),
            offers: offers.iter().map(offer).collect(),
        }
    }

    fn answer(request: &ApprovalRequest, answer: Value) -> ApprovalAnswer {
        decided(request, Ok(answer.as_object().unwrap().clone())).answer
    }

    #[test]
    fn only_a_clear_yes_allows_a_call() {
        let request = request(&[Outcome::Once, Outcome::Session, Outcome::Edit, Outcome::Refuse]);
        let same = json!({"command": "npm test"});
        assert_eq!(
            answer(&request, json!({"behavior": "allow", "updatedInput": same})),
            ApprovalAnswer::Once
        );
        assert_eq!(answer(&request, json!({"behavior": "allow"})), ApprovalAnswer::Once);
        let changed = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
        let ApprovalAnswer::Edited(args) = answer(&request, changed) else { panic!() };
        assert_eq!(args["command"], "ls");
        for no in [
            json!({}),
            json!({"behavior": "yes"}),
            json!({"behavior": true}),
            json!({"behavior": "ALLOW"}),
            json!({"behavior": "allow", "updatedInput": "ls"}),
            json!({"behavior": "deny"}),
        ] {
            assert!(matches!(answer(&request, no.clone()), ApprovalAnswer::Refuse(_)), "{no}");
        }
        assert_eq!(
            answer(&request, json!({"behavior": "deny", "message": "no"})),
            ApprovalAnswer::Refuse("no".to_owned())
        );
        assert_eq!(
            answer(&request, json!({"behavior": "deny", "message": "x", "interrupt": true})),
            ApprovalAnswer::Cancel
        );
        assert!(matches!(decided(&request, Err("gone".to_owned())).answer, ApprovalAnswer::Refuse(_)));
    }

    #[test]
    fn nothing_is_granted_that_was_not_suggested() {
        let request = request(&[Outcome::Once, Outcome::Session, Outcome::Refuse]);
        let suggested = question(&request)["permission_suggestions"].clone();
        assert_eq!(suggested[0]["rules"][0]["ruleContent"], "npm test");
        let with = |updates: Value| json!({"behavior": "allow", "updatedPermissions": updates});
        assert_eq!(answer(&request, with(suggested.clone())), ApprovalAnswer::Session);
        let mut wider = suggested.clone();
        wider[0]["rules"][0]["ruleContent"] = json!("npm");
        assert_eq!(answer(&request, with(wider)), ApprovalAnswer::Once);
        let mut kept = suggested;
        kept[0]["destination"] = json!("userSettings");
        assert_eq!(answer(&request, with(kept)), ApprovalAnswer::Once);
        // Edits were not offered.
        let changed = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
        assert!(matches!(answer(&request, changed), ApprovalAnswer::Refuse(_)));
    }
}
