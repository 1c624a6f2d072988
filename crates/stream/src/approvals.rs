//! Approval requests as messages, and the host's answers.

use std::path::Path;

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Outcome, Question, QuestionForm, Subject};
use pollux_domain::terminal_text::visible;

use crate::incoming::{Approve, Unusable};
use crate::outgoing::{self, Approval, Offer, QuestionOption, Why, WhyPart};

/// What the model reads about a call that the host refused without a reason.
pub(crate) const REJECTED: &str = "The user rejected this call.";

/// A request as a message.
pub(crate) fn message(request: &ApprovalRequest) -> Approval {
    let questions = match &request.subject {
        Subject::Questions(questions) => Some(questions.iter().map(question).collect()),
        _ => None,
    };
    let parts = request.why.parts.iter().map(|part| WhyPart {
        text: shown(&part.text),
        decision: part.decision.clone(),
        reason: shown(&part.reason),
    });
    let offers = request
        .offers
        .iter()
        .map(|offer| Offer { outcome: offer.outcome.as_str().to_owned(), covers: shown(&offer.covers) });
    Approval {
        call_id: request.call.as_str().to_owned(),
        tool_name: request.tool.clone(),
        subject: subject(&request.subject),
        why: Why {
            reason: shown(&request.why.reason),
            rule: request.why.rule.clone(),
            parts: Some(parts.collect::<Vec<_>>()).filter(|parts| !parts.is_empty()),
        },
        offers: offers.collect(),
        destroys: request.destroys.as_deref().map(shown),
        questions,
    }
}

/// Makes hidden characters visible in a text that an approval depends on.
fn shown(text: &str) -> String {
    visible(text).into_owned()
}

fn path(path: &Path) -> Option<String> {
    Some(shown(&path.display().to_string()))
}

/// A subject of this kind with nothing else.
pub(crate) fn no_subject(kind: &str) -> outgoing::Subject {
    outgoing::Subject {
        kind: kind.to_owned(),
        path: None,
        diff: None,
        command: None,
        directory: None,
        urls: None,
        server: None,
        tool: None,
        text: None,
        right: None,
    }
}

fn subject(subject: &Subject) -> outgoing::Subject {
    let of = no_subject;
    match subject {
        Subject::Edit { path: file, diff } => outgoing::Subject {
            path: path(file),
            diff: diff.as_ref().map(|diff| shown(&diff.unified)),
            ..of("edit")
        },
        Subject::Command { command, directory } => {
            outgoing::Subject { command: Some(shown(command)), directory: path(directory), ..of("command") }
        }
        Subject::Fetch(urls) => {
            outgoing::Subject { urls: Some(urls.iter().map(|url| shown(url)).collect()), ..of("fetch") }
        }
        Subject::Server { server, tool } => {
            outgoing::Subject { server: Some(shown(server)), tool: Some(shown(tool)), ..of("server") }
        }
        Subject::EnterPlan { reason } => outgoing::Subject { text: Some(shown(reason)), ..of("enter_plan") },
        Subject::Plan { path: file, text } => {
            outgoing::Subject { path: path(file), text: Some(shown(text)), ..of("plan") }
        }
        Subject::Questions(_) => of("questions"),
        Subject::Sandbox(question) => outgoing::Subject {
            text: Some(shown(&question.sentence())),
            command: question.command.as_deref().map(shown),
            right: Some(outgoing::Right {
                kind: question.right.kind.as_str().to_owned(),
                target: shown(&question.right.target),
                program: question.program.as_deref().map(shown),
                call_id: question.call.clone(),
                rerun: question.rerun,
            }),
            ..of("sandbox")
        },
        Subject::Other(text) => outgoing::Subject { text: Some(shown(text)), ..of("other") },
    }
}

/// A question as part of a message.
pub(crate) fn question(question: &Question) -> outgoing::Question {
    let (form, options) = match &question.form {
        QuestionForm::Text { .. } => ("text", None),
        QuestionForm::YesNo => ("yes_no", None),
        QuestionForm::Choice { options, several } => {
            let options = options
                .iter()
                .map(|option| QuestionOption {
                    label: option.label.clone(),
                    description: option.description.clone(),
                })
                .collect();
            (if *several { "choices" } else { "choice" }, Some(options))
        }
    };
    outgoing::Question {
        header: shown(&question.header),
        text: shown(&question.text),
        form: form.to_owned(),
        options,
    }
}

/// The host's answer.
pub(crate) fn answer(approve: Approve) -> Result<ApprovalAnswer, Unusable> {
    let Approve { outcome, args, message, replies, .. } = approve;
    let outcome = outcome.map(|word| Outcome::named(&word).ok_or(word)).transpose();
    let outcome = outcome.map_err(|word| {
        let word: String = word.chars().take(100).collect();
        Unusable::invalid(format!("unknown outcome `{word}`"))
    })?;
    match (outcome, args, replies) {
        // A refusal stays one, whatever else is said.
        (Some(Outcome::Refuse), ..) => {
            Ok(ApprovalAnswer::Refuse(message.unwrap_or_else(|| REJECTED.to_owned())))
        }
        (_, Some(_), Some(_)) => Err(Unusable::invalid("`args` and `replies` are mutually exclusive")),
        (_, None, Some(replies)) => Ok(ApprovalAnswer::Replies(replies)),
        (Some(Outcome::Edit | Outcome::Once) | None, Some(args), None) => Ok(ApprovalAnswer::Edited(args)),
        (Some(_), Some(_), None) => Err(Unusable::invalid("edited `args` are for one call only")),
        (Some(Outcome::Once), None, None) => Ok(ApprovalAnswer::Once),
        (Some(Outcome::Session), None, None) => Ok(ApprovalAnswer::Session),
        (Some(Outcome::SessionServer), None, None) => Ok(ApprovalAnswer::SessionServer),
        (Some(Outcome::Project), None, None) => Ok(ApprovalAnswer::Project),
        (Some(Outcome::Saved), None, None) => Ok(ApprovalAnswer::Saved),
        (Some(Outcome::Edit), None, None) => Err(Unusable::invalid("`modify_with_editor` needs `args`")),
        (None, None, None) => Err(Unusable::invalid("`approve` needs an `outcome`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(fields: serde_json::Value) -> Result<ApprovalAnswer, String> {
        let mut fields = fields;
        fields["callId"] = json!("c");
        answer(serde_json::from_value(fields).unwrap()).map_err(|unusable| unusable.message)
    }

    #[test]
    fn a_question_about_a_right_names_it_with_its_call() {
        use pollux_domain::sandbox::{Right, RightKind, RightQuestion};
        let question = RightQuestion {
            right: Right { kind: RightKind::Write, target: "/opt/x".to_owned() },
            command: Some("cd a && touch /opt/x".to_owned()),
            program: Some("touch".to_owned()),
            call: Some("call-1".to_owned()),
            note: None,
            rerun: true,
        };
        let told = serde_json::to_value(subject(&Subject::Sandbox(Box::new(question)))).unwrap();
        let right = json!({"kind": "write", "target": "/opt/x", "program": "touch", "callId": "call-1", "rerun": true});
        assert_eq!((&told["kind"], &told["right"]), (&json!("sandbox"), &right));
        assert_eq!(told["text"], "touch was not allowed to write to /opt/x");
    }

    #[test]
    fn only_clear_words_allow_a_call() {
        assert_eq!(given(json!({"outcome": "proceed_once"})), Ok(ApprovalAnswer::Once));
        assert_eq!(given(json!({"outcome": "proceed_always_and_save"})), Ok(ApprovalAnswer::Saved));
        assert_eq!(given(json!({"outcome": "cancel"})), Ok(ApprovalAnswer::Refuse(REJECTED.to_owned())));
        let refused = Ok(ApprovalAnswer::Refuse("no".to_owned()));
        assert_eq!(given(json!({"outcome": "cancel", "message": "no", "args": {}, "replies": []})), refused);
        let Ok(ApprovalAnswer::Edited(args)) = given(json!({"outcome": "proceed_once", "args": {"a": 1}}))
        else {
            panic!()
        };
        assert_eq!(args["a"], 1);
        assert_eq!(given(json!({"replies": ["x"]})), Ok(ApprovalAnswer::Replies(vec!["x".to_owned()])));
        for unclear in [
            json!({}),
            json!({"outcome": "yes"}),
            json!({"outcome": "PROCEED_ONCE"}),
            json!({"outcome": "modify_with_editor"}),
            json!({"outcome": "proceed_always", "args": {}}),
        ] {
            assert!(given(unclear.clone()).is_err(), "{unclear}");
        }
    }
}
