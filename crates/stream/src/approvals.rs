//! Approval requests as messages, and the host's answers.

use std::path::Path;

use pollux_domain::approval::{Answer, ApprovalRequest, Outcome, Question, QuestionForm, Subject};
use pollux_domain::terminal_text::visible;

use crate::incoming::{Approve, Unusable};
use crate::outgoing::{self, Approval, Offer, QuestionOption, Why, WhyPart};

/// What the model reads about a call that the host refused without a reason.
pub(crate) const REJECTED: &str = "The user rejected this call.";

/// The outcomes, by their words.
const OUTCOMES: [Outcome; 7] = [
    Outcome::Once,
    Outcome::Session,
    Outcome::SessionServer,
    Outcome::Project,
    Outcome::Saved,
    Outcome::Edit,
    Outcome::Refuse,
];

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
pub(crate) fn answer(approve: Approve) -> Result<Answer, Unusable> {
    let Approve { outcome, args, message, replies, .. } = approve;
    let outcome = outcome.map(|word| outcome_named(&word).ok_or(word)).transpose();
    let outcome = outcome.map_err(|word| {
        let word: String = word.chars().take(100).collect();
        Unusable::invalid(format!("unknown outcome `{word}`"))
    })?;
    match (outcome, args, replies) {
        // A refusal stays one, whatever else is said.
        (Some(Outcome::Refuse), ..) => Ok(Answer::Refuse(message.unwrap_or_else(|| REJECTED.to_owned()))),
        (_, Some(_), Some(_)) => Err(Unusable::invalid("`args` and `replies` exclude each other")),
        (_, None, Some(replies)) => Ok(Answer::Replies(replies)),
        (Some(Outcome::Edit | Outcome::Once) | None, Some(args), None) => Ok(Answer::Edited(args)),
        (Some(_), Some(_), None) => Err(Unusable::invalid("edited `args` are for one call only")),
        (Some(Outcome::Once), None, None) => Ok(Answer::Once),
        (Some(Outcome::Session), None, None) => Ok(Answer::Session),
        (Some(Outcome::SessionServer), None, None) => Ok(Answer::SessionServer),
        (Some(Outcome::Project), None, None) => Ok(Answer::Project),
        (Some(Outcome::Saved), None, None) => Ok(Answer::Saved),
        (Some(Outcome::Edit), None, None) => Err(Unusable::invalid("`modify_with_editor` needs `args`")),
        (None, None, None) => Err(Unusable::invalid("`approve` needs an `outcome`")),
    }
}

fn outcome_named(word: &str) -> Option<Outcome> {
    OUTCOMES.into_iter().find(|outcome| outcome.as_str() == word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(fields: serde_json::Value) -> Result<Answer, String> {
        let mut fields = fields;
        fields["callId"] = json!("c");
        answer(serde_json::from_value(fields).unwrap()).map_err(|unusable| unusable.message)
    }

    #[test]
    fn only_clear_words_allow_a_call() {
        assert_eq!(given(json!({"outcome": "proceed_once"})), Ok(Answer::Once));
        assert_eq!(given(json!({"outcome": "proceed_always_and_save"})), Ok(Answer::Saved));
        assert_eq!(given(json!({"outcome": "cancel"})), Ok(Answer::Refuse(REJECTED.to_owned())));
        let refused = Ok(Answer::Refuse("no".to_owned()));
        assert_eq!(given(json!({"outcome": "cancel", "message": "no", "args": {}, "replies": []})), refused);
        let Ok(Answer::Edited(args)) = given(json!({"outcome": "proceed_once", "args": {"a": 1}})) else {
            panic!()
        };
        assert_eq!(args["a"], 1);
        assert_eq!(given(json!({"replies": ["x"]})), Ok(Answer::Replies(vec!["x".to_owned()])));
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
