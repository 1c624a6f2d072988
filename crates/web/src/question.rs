//! Questions as the page shows them, and the answers it gives.

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Outcome, Question, QuestionForm, Subject};
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::visible;
use pollux_serve::SecretDigest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::{cut, line};

/// Characters of what is to be approved that are shown.
const SHOWN: usize = 200_000;
/// What the model is told unless the user says more.
const REFUSED: &str = "The user refused this call.";

/// A question with everything that the user needs to answer it. Hidden characters are made visible.
pub(crate) fn view(request: &ApprovalRequest, paths: &PathDisplay) -> Value {
    let tool = line(&request.display_name);
    let mut diff = None;
    let (title, body) = match &request.subject {
        Subject::Edit { path, diff: change } => {
            let asked = request.args.get("file_path").and_then(Value::as_str);
            diff = change.as_ref().map(|change| shown(&change.unified));
            let missing = change.is_none().then(|| "The change cannot be shown.".to_owned());
            (format!("Edit {}", paths.linked(asked, path)), missing)
        }
        Subject::Command { command, directory } => {
            (format!("Run in {}", paths.folder(directory)), Some(command.clone()))
        }
        Subject::Fetch(urls) => ("Fetch".to_owned(), Some(urls.join("\n"))),
        Subject::Server { server, tool } => {
            (format!("Run {tool} of the MCP server {server}"), Some(arguments(request)))
        }
        Subject::EnterPlan { reason } => ("Enter plan mode".to_owned(), Some(reason.clone())),
        Subject::Plan { path, text } => {
            (format!("Approve the plan {}", paths.shown(path)), Some(text.clone()))
        }
        Subject::Questions(_) => ("Answer questions".to_owned(), None),
        Subject::Sandbox(question) => (question.sentence(), question.command.clone()),
        Subject::Other(about) => (format!("Run {about}"), Some(arguments(request))),
    };
    let questions = match &request.subject {
        Subject::Questions(questions) => questions.iter().map(asked).collect(),
        _ => Vec::new(),
    };
    json!({
        "kind": "question",
        "call": request.call.as_str(),
        "version": version(request),
        "tool": tool,
        "title": visible(&title),
        "body": body.map(|body| shown(&body)),
        "diff": diff,
        "warning": request.destroys.as_deref().map(visible),
        "why": reasons(request),
        "offers": offers(request),
        "questions": questions,
    })
}

/// Differs between questions about one call, which is asked about again when its arguments change.
pub(crate) fn version(request: &ApprovalRequest) -> String {
    let about = json!([request.args, request.why.reason, request.why.rule, request.destroys]);
    SecretDigest::of(&about.to_string()).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(text: &str) -> String {
    cut(&visible(text), SHOWN)
}

fn arguments(request: &ApprovalRequest) -> String {
    format!("{:#}", Value::Object(request.args.clone()))
}

/// The answers that the page can give: it cannot edit.
fn offers(request: &ApprovalRequest) -> Vec<Value> {
    let mut offers: Vec<_> = request.offers.iter().filter(|offer| offer.outcome != Outcome::Edit).collect();
    offers.sort_by_key(|offer| offer.outcome.digit());
    let offer = |offer: &&pollux_domain::approval::Offer| {
        let label = offer.outcome.label().unwrap_or("Refuse");
        json!({"outcome": offer.outcome.as_str(), "label": label, "covers": visible(&offer.covers)})
    };
    offers.iter().map(offer).collect()
}

fn reasons(request: &ApprovalRequest) -> Vec<String> {
    let why = &request.why;
    let rule = why.rule.as_ref().map(|rule| format!("Rule: {rule}"));
    let parts = why.parts.iter().map(|part| format!("{} `{}`: {}", part.decision, part.text, part.reason));
    let all = [why.reason.clone()].into_iter().chain(rule).chain(parts).filter(|text| !text.is_empty());
    all.map(|text| shown(&text)).collect()
}

fn asked(question: &Question) -> Value {
    let (form, options) = match &question.form {
        QuestionForm::Text { placeholder } => ("text", vec![json!({"label": visible(placeholder)})]),
        QuestionForm::YesNo => ("one", vec![json!({"label": "Yes"}), json!({"label": "No"})]),
        QuestionForm::Choice { options, several } => {
            let options = options.iter().map(|option| {
                json!({"label": visible(&option.label), "description": visible(&option.description)})
            });
            (if *several { "several" } else { "one" }, options.collect())
        }
    };
    json!({"header": visible(&question.header), "text": visible(&question.text), "form": form, "options": options})
}

/// An answer of the page.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    pub(crate) call: String,
    /// The question that the page showed.
    pub(crate) version: String,
    outcome: String,
    /// What to do instead.
    #[serde(default)]
    message: String,
    /// To the model's questions.
    replies: Option<Vec<String>>,
}

impl Decision {
    /// The answer; `None` if there is no such one. The session checks that it was offered.
    pub(crate) fn answer(self) -> Option<ApprovalAnswer> {
        Some(match (Outcome::named(&self.outcome)?, self.replies) {
            (Outcome::Once, Some(replies)) => ApprovalAnswer::Replies(replies),
            (Outcome::Once, None) => ApprovalAnswer::Once,
            (Outcome::Session, _) => ApprovalAnswer::Session,
            (Outcome::SessionServer, _) => ApprovalAnswer::SessionServer,
            (Outcome::Project, _) => ApprovalAnswer::Project,
            (Outcome::Saved, _) => ApprovalAnswer::Saved,
            (Outcome::Refuse, _) => match self.message.trim() {
                "" => ApprovalAnswer::Refuse(REFUSED.to_owned()),
                why => ApprovalAnswer::Refuse(why.to_owned()),
            },
            (Outcome::Edit, _) => return None,
        })
    }
}
