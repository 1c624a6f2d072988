//! Questions to the person at the client: permissions, forms and choices.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use pollux_domain::approval::{
    ApprovalAnswer, ApprovalRequest, Offer, Outcome, Question, QuestionForm, Subject,
};
use pollux_domain::terminal_text::{one_line, visible};
use pollux_front::choice::Choice;
use pollux_front::input::Input;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::session::{AskedClient, OpenQuestion, Session};
use crate::tool_call;

/// The optionId of a plain no.
const NO: &str = "cancel";
/// What the model reads about a call that was rejected.
const REJECTED: &str = "The user rejected this call.";

/// Asks the client for the answer to an approval request; it reaches the conversation as input.
pub(crate) fn ask(session: &Rc<Session>, request: &ApprovalRequest) {
    let (settled, call) = (CancellationToken::new(), request.call.clone());
    let answer = {
        let (session, request) = (Rc::clone(session), request.clone());
        async move { answer(&session, &request).await }
    };
    let asking: AskedClient = Rc::new(RefCell::new(Some(Box::pin(answer))));
    let open = OpenQuestion { settled: settled.clone(), asking: Rc::clone(&asking) };
    session.state.borrow_mut().questions.insert(call.clone(), open);
    let session = Rc::clone(session);
    tokio::task::spawn_local(async move {
        let answer = poll_fn(|context| match asking.borrow_mut().as_mut() {
            Some(answer) => answer.as_mut().poll(context),
            None => Poll::Pending,
        });
        tokio::select! {
            biased;
            // Someone else answered, or the turn was cancelled.
            () = settled.cancelled() => {}
            answer = answer => session.send(Input::Decide { call, answer }),
        }
    });
}

/// An approval was settled; the client need not answer any more.
pub(crate) fn settled(session: &Session, call: &pollux_domain::id::CallId) {
    let question = session.state.borrow_mut().questions.remove(call);
    if let Some(OpenQuestion { settled, asking }) = question {
        settled.cancel();
        // At once, so that the client is told before the prompt is answered.
        asking.borrow_mut().take();
    }
}

async fn answer(session: &Session, request: &ApprovalRequest) -> ApprovalAnswer {
    match &request.subject {
        Subject::Questions(questions) => replies(session, request, questions).await,
        _ => permission(session, request).await,
    }
}

async fn permission(session: &Session, request: &ApprovalRequest) -> ApprovalAnswer {
    let offers: Vec<&Offer> = request.offers.iter().filter(|offer| option(offer).is_some()).collect();
    let mut options: Vec<Value> = offers.iter().filter_map(|offer| option(offer)).collect();
    options.push(json!({"optionId": NO, "name": "Reject", "kind": "reject_once"}));
    let params = json!({
        "sessionId": session.id(),
        "toolCall": tool_call::in_question(request),
        "options": options,
    });
    let answer = session.updates.client.request("session/request_permission", params).await;
    let refused = || ApprovalAnswer::Refuse(REJECTED.to_owned());
    let Some(chosen) = selected(answer.ok().as_ref()) else { return refused() };
    let offer = offers.into_iter().find(|offer| offer.outcome.as_str() == chosen);
    match offer.map(|offer| offer.outcome) {
        Some(Outcome::Once) => ApprovalAnswer::Once,
        Some(Outcome::Session) => ApprovalAnswer::Session,
        Some(Outcome::SessionServer) => ApprovalAnswer::SessionServer,
        Some(Outcome::Project) => ApprovalAnswer::Project,
        Some(Outcome::Saved) => ApprovalAnswer::Saved,
        Some(Outcome::Edit | Outcome::Refuse) | None => refused(),
    }
}

/// The optionId that the person selected.
fn selected(answer: Option<&Value>) -> Option<String> {
    let outcome = answer?.get("outcome")?;
    if outcome.get("outcome")? != "selected" {
        return None;
    }
    outcome.get("optionId")?.as_str().map(str::to_owned)
}

/// An offer as an option; its name says what it covers.
fn option(offer: &Offer) -> Option<Value> {
    let name = offer.outcome.label()?;
    let kind = if offer.outcome == Outcome::Once { "allow_once" } else { "allow_always" };
    let covers = one_line(&visible(&offer.covers));
    let name = if covers.is_empty() { name.to_owned() } else { format!("{name}: {covers}") };
    Some(json!({"optionId": offer.outcome.as_str(), "name": name, "kind": kind}))
}

/// Asks the model's or a server's questions: in one form, or one by one where the client has no forms.
async fn replies(session: &Session, request: &ApprovalRequest, questions: &[Question]) -> ApprovalAnswer {
    let replies = if session.updates.client.can().forms {
        form(session, Some(request), &one_line(&request.display_name), questions).await
    } else {
        one_by_one(session, request, questions).await
    };
    replies.map_or_else(|| ApprovalAnswer::Refuse(REJECTED.to_owned()), ApprovalAnswer::Replies)
}

async fn one_by_one(
    session: &Session,
    request: &ApprovalRequest,
    questions: &[Question],
) -> Option<Vec<String>> {
    let mut replies = Vec::new();
    for question in questions {
        let labels: Vec<String> = match &question.form {
            QuestionForm::YesNo => vec!["Yes".to_owned(), "No".to_owned()],
            QuestionForm::Choice { options, several: false } => {
                options.iter().map(|option| option.label.clone()).collect()
            }
            QuestionForm::Text { .. } | QuestionForm::Choice { .. } => return None,
        };
        let rows: Vec<(String, String)> =
            labels.iter().enumerate().map(|(n, label)| (n.to_string(), one_line(label))).collect();
        let chosen = pick(session, request.call.as_str(), &one_line(&question.text), &[], &rows).await?;
        replies.push(labels.get(chosen.parse::<usize>().ok()?)?.clone());
    }
    Some(replies)
}

/// Asks questions in a form; `None` if the person declines.
async fn form(
    session: &Session,
    request: Option<&ApprovalRequest>,
    message: &str,
    questions: &[Question],
) -> Option<Vec<String>> {
    let mut properties = Map::new();
    for (n, question) in questions.iter().enumerate() {
        properties.insert(format!("q{n}"), property(question));
    }
    let required: Vec<&String> = properties.keys().collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let mut params = json!({
        "sessionId": session.id(),
        "mode": "form",
        "message": if message.is_empty() { "A question" } else { message },
        "requestedSchema": schema,
    });
    if let (Some(request), Some(fields)) = (request, params.as_object_mut()) {
        fields.insert("toolCallId".to_owned(), json!(request.call.as_str()));
    }
    let answer = session.updates.client.request("elicitation/create", params).await.ok()?;
    if answer.get("action")? != "accept" {
        return None;
    }
    let content = answer.get("content")?;
    (0..questions.len()).map(|n| reply(content.get(format!("q{n}"))?)).collect()
}

/// One answer of a form as text.
fn reply(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(if *yes { "Yes" } else { "No" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(items?.join(", "))
        }
        Value::Null | Value::Object(_) => None,
    }
}

fn property(question: &Question) -> Value {
    let choices = |options: &[pollux_domain::approval::Choice]| -> Vec<Value> {
        let title = |option: &pollux_domain::approval::Choice| match option.description.is_empty() {
            true => option.label.clone(),
            false => format!("{}: {}", option.label, option.description),
        };
        options
            .iter()
            .map(|option| json!({"const": option.label, "title": one_line(&title(option))}))
            .collect()
    };
    let (title, about) = (one_line(&question.header), visible(&question.text));
    match &question.form {
        QuestionForm::Text { .. } => json!({"type": "string", "title": title, "description": about}),
        QuestionForm::YesNo => json!({"type": "boolean", "title": title, "description": about}),
        QuestionForm::Choice { options, several: false } => {
            json!({"type": "string", "title": title, "description": about, "oneOf": choices(options)})
        }
        QuestionForm::Choice { options, several: true } => {
            let items = json!({"anyOf": choices(options)});
            json!({"type": "array", "title": title, "description": about, "items": items})
        }
    }
}

/// Asks for one row of a list that a command shows; `None` if the person cancels or nothing runs.
pub(crate) async fn choose(session: &Session, choice: &Choice) -> Option<String> {
    let rows: Vec<(String, String)> =
        choice.rows.iter().map(|row| (row.key.clone(), one_line(&row.columns.join("  ")))).collect();
    let about: Vec<&str> = choice.about.iter().chain(&choice.foot).map(String::as_str).collect();
    let (title, cancelled) = (one_line(&choice.title), session.cancelled());
    tokio::select! {
        biased;
        () = cancelled.cancelled() => None,
        chosen = pick(session, "command", &title, &about, &rows) => chosen,
    }
}

/// Asks for a line of text; `None` if the client has no forms.
pub(crate) async fn ask_line(session: &Session, question: &str) -> Option<String> {
    if !session.updates.client.can().forms {
        return None;
    }
    let form_of = Question {
        header: String::new(),
        text: question.to_owned(),
        form: QuestionForm::Text { placeholder: String::new() },
    };
    let (message, cancelled) = (one_line(question), session.cancelled());
    let questions = [form_of];
    let answers = tokio::select! {
        biased;
        () = cancelled.cancelled() => None,
        answers = form(session, None, &message, &questions) => answers,
    };
    answers?.into_iter().next()
}

/// Asks yes or no.
pub(crate) async fn confirm(session: &Session, question: &str) -> bool {
    let rows = [("yes".to_owned(), "Yes".to_owned()), ("no".to_owned(), "No".to_owned())];
    let (title, cancelled) = (one_line(question), session.cancelled());
    let chosen = tokio::select! {
        biased;
        () = cancelled.cancelled() => None,
        chosen = pick(session, "command", &title, &[], &rows) => chosen,
    };
    chosen.as_deref() == Some("yes")
}

/// Asks for one of several by their keys: in a form, or as a permission request with an option for each.
async fn pick(
    session: &Session,
    call: &str,
    title: &str,
    about: &[&str],
    rows: &[(String, String)],
) -> Option<String> {
    let client = &session.updates.client;
    let about = about.join("\n");
    if client.can().forms {
        let options: Vec<Value> =
            rows.iter().map(|(key, name)| json!({"const": key, "title": name})).collect();
        let mut property = json!({"type": "string", "title": title, "oneOf": options});
        if let (false, Some(fields)) = (about.is_empty(), property.as_object_mut()) {
            fields.insert("description".to_owned(), json!(visible(&about)));
        }
        let schema = json!({"type": "object", "properties": {"choice": property}, "required": ["choice"]});
        let params = json!({
            "sessionId": session.id(),
            "mode": "form",
            "message": title,
            "requestedSchema": schema,
        });
        let answer = client.request("elicitation/create", params).await.ok()?;
        let chosen = answer.get("content")?.get("choice")?.as_str()?;
        let is_offered = rows.iter().any(|(key, _)| key == chosen);
        return (answer.get("action")? == "accept" && is_offered).then(|| chosen.to_owned());
    }
    let option = |(key, name): &(String, String)| {
        let kind = if ["no", "never"].contains(&key.as_str()) { "reject_once" } else { "allow_once" };
        json!({"optionId": format!("choice:{key}"), "name": name, "kind": kind})
    };
    let mut options: Vec<Value> = rows.iter().map(option).collect();
    options.push(json!({"optionId": NO, "name": "Cancel", "kind": "reject_once"}));
    let content = if about.is_empty() { Vec::new() } else { vec![tool_call::text(&about)] };
    let params = json!({
        "sessionId": session.id(),
        "toolCall": {"toolCallId": call, "title": title, "kind": "other", "status": "pending", "content": content},
        "options": options,
    });
    let answer = client.request("session/request_permission", params).await;
    let chosen = selected(answer.ok().as_ref())?;
    let chosen = chosen.strip_prefix("choice:")?;
    rows.iter().any(|(key, _)| key == chosen).then(|| chosen.to_owned())
}
