//! Fallback to other models when the chosen one is unavailable.
//!
//! A model is replaced only with the user's consent: the list in `model.fallback`, or an answer to a question. A
//! stand-in is kept until the end of the turn. While the chosen model cools down, a listed one stands in for the next
//! turn too, with another notice; after an answer for one turn, the user is asked again. This module sends no requests,
//! and is called before anything of a step is committed.

pub(crate) mod state;

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::{ApprovalAnswer, Choice, Person, Question, QuestionForm};
use pollux_domain::content::Body;
use pollux_domain::event::{Event, ModelFallback, NoticeCode, Severity};
use pollux_domain::model::{Capabilities, ModelError, ModelErrorKind, ModelInfo, Wait};
use pollux_domain::terminal_text::one_line;
use tokio_util::sync::CancellationToken;

use self::state::{Consent, StandIn};
use crate::history::History;
use crate::session::Session;
use crate::session::notes::note;

/// How long a failed model is skipped if the server gives no time.
const COOL_DOWN: Duration = Duration::from_secs(30);
/// Pollux waits for rate limits shorter than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Attempts on an overloaded server before a fallback.
const OVERLOADED_ATTEMPTS: u32 = 3;

/// What to do after a model failed.
pub(crate) enum Fallback {
    /// Ask again: another model stands in.
    Found,
    /// Ask the same model again after this long.
    Wait(Duration),
    None,
}

/// Returns to the chosen model, unless it still cools down and a listed one stands in for it.
pub(crate) async fn begin_turn(session: &mut Session) {
    session.models.fallback.unanswered = None;
    let Some(stand_in) = session.models.fallback.stand_in.take() else { return };
    let chosen = session.model_settings.name.clone();
    if session.models.fallback.is_cooling(&chosen) {
        if stand_in.consent == Consent::Listed {
            let from = session.services.client.resolve(&chosen);
            let (name, error) = (stand_in.name.clone(), stand_in.error.clone());
            session.models.fallback.stand_in = Some(stand_in);
            return tell(session, &from, &name, &error, false).await;
        }
        session.models.fallback.unanswered = Some(stand_in.error);
    }
    if let Some(host) = &session.host {
        host.set_model(&chosen);
    }
    session.emit(Event::ModelChanged(session.displayed_model())).await;
}

/// What to do before the first request of a turn: the user agreed to another model for the last turn only.
pub(crate) async fn before_request(
    session: &mut Session,
    cancel: &CancellationToken,
) -> Option<(Fallback, ModelError)> {
    let error = session.models.fallback.unanswered.take()?;
    Some((ask(session, &error, cancel).await, error))
}

/// The error to fall back with at once, where waiting for the model would take long and there is another way.
pub(crate) fn instead_of_waiting(session: &Session, wait: &Wait) -> Option<ModelError> {
    let kind = wait.kind.clone()?;
    let long = match kind {
        ModelErrorKind::Overloaded => wait.attempt >= OVERLOADED_ATTEMPTS,
        ModelErrorKind::RateLimited => wait.delay > PATIENCE,
        _ => false,
    };
    if !long {
        return None;
    }
    let mut error = ModelError::new(kind, wait.status, wait.cause.clone());
    error.details.retry_after = Some(wait.delay);
    let has_listed = next_listed(session).is_some_and(|name| session.services.client.check(&name).is_ok());
    let has_proposal = || may_ask(session) && proposal(session, &error).is_some();
    (has_listed || has_proposal()).then_some(error)
}

/// Finds another model after this error, from the list or by asking.
pub(crate) async fn find(session: &mut Session, error: &ModelError, cancel: &CancellationToken) -> Fallback {
    if !is_eligible(error) || cancel.is_cancelled() {
        return Fallback::None;
    }
    tell_unused(session).await;
    while let Some(to) = next_listed(session) {
        match session.services.client.check(&to) {
            Ok(()) => {
                switch(session, &to, error, Consent::Listed).await;
                return Fallback::Found;
            }
            Err(unusable) => {
                session.models.fallback.cool(&to, COOL_DOWN);
                let line = format!("Skipping the fallback model {}: {}.", one_line(&to), reason(&unusable));
                note(session, Severity::Warning, &line).await;
                session.notice(Severity::Warning, NoticeCode::Model, line).await;
            }
        }
    }
    if may_ask(session) { ask(session, error, cancel).await } else { Fallback::None }
}

fn may_ask(session: &Session) -> bool {
    session.interactive && session.model_settings.fallback.is_empty()
}

/// Whether another model may help. Refusals, bad requests and the user's own limits are final.
fn is_eligible(error: &ModelError) -> bool {
    match error.kind {
        ModelErrorKind::Overloaded
        | ModelErrorKind::Server
        | ModelErrorKind::Network
        | ModelErrorKind::Cut
        | ModelErrorKind::Loading
        | ModelErrorKind::RateLimited
        | ModelErrorKind::QuotaExhausted
        | ModelErrorKind::Billing
        | ModelErrorKind::NotFound => true,
        ModelErrorKind::Auth
        | ModelErrorKind::BadRequest
        | ModelErrorKind::ContextOverflow { .. }
        | ModelErrorKind::Unsupported { .. }
        | ModelErrorKind::PolicyBlocked
        | ModelErrorKind::BudgetExceeded
        | ModelErrorKind::Malformed
        | ModelErrorKind::Script => false,
    }
}

/// The first listed model that has not failed lately and holds the conversation.
fn next_listed(session: &Session) -> Option<String> {
    let listed = &session.model_settings.fallback;
    listed.iter().find(|name| fits(session, name, true)).cloned()
}

/// Says once which listed models are not used because they are remote and the chosen one is local.
async fn tell_unused(session: &mut Session) {
    let listed = session.model_settings.fallback.clone();
    for name in &listed {
        if stays(session, name, true) || session.models.fallback.told.contains(name) {
            continue;
        }
        let line = format!(
            "Skipping the fallback model {}: the chosen model is local and this one is not; list it as \
             `provider/model` to allow it.",
            one_line(name)
        );
        session.models.fallback.told.push(name.clone());
        note(session, Severity::Warning, &line).await;
        session.notice(Severity::Warning, NoticeCode::Model, line).await;
    }
}

/// Whether a model keeps the conversation on this machine, if the chosen one does. A local model may have been chosen
/// for privacy, so a remote one must be listed as `provider/model`.
fn stays(session: &Session, name: &str, listed: bool) -> bool {
    let client = &session.services.client;
    let info = client.resolve(name);
    let is_explicit = listed && name.starts_with(&format!("{}/", info.provider.as_str()));
    info.local || is_explicit || !client.resolve(&session.model_settings.name).local
}

/// Whether a model may stand in for the one in use.
fn fits(session: &Session, name: &str, listed: bool) -> bool {
    if name == session.model()
        || name == session.model_settings.name
        || session.models.fallback.is_cooling(name)
    {
        return false;
    }
    let client = &session.services.client;
    let (now, info) = (client.resolve(session.model()), client.resolve(name));
    info.id != now.id && stays(session, name, listed) && session.size() < info.context_window
}

async fn switch(session: &mut Session, to: &str, error: &ModelError, consent: Consent) {
    let from = session.services.client.resolve(session.model());
    let target = session.services.client.resolve(to);
    if from.provider != target.provider {
        name_provider(session);
    }
    let failed = session.model().to_owned();
    session.models.fallback.cool(&failed, cool_down(error));
    let is_chosen = consent == Consent::Session && session.choose_model(to).is_ok();
    if !is_chosen {
        // The chosen model's own failure is the one to tell again.
        let first =
            session.models.fallback.stand_in.take().map_or_else(|| error.clone(), |other| other.error);
        session.models.fallback.stand_in = Some(StandIn { name: to.to_owned(), consent, error: first });
        if let Some(host) = &session.host {
            host.set_model(to);
        }
    }
    // The last request was counted in another model's tokens.
    session.conversation.counters.last_request = None;
    tell(session, &from, to, error, consent == Consent::Session).await;
}

fn cool_down(error: &ModelError) -> Duration {
    error.details.retry_after.unwrap_or(COOL_DOWN).max(COOL_DOWN)
}

/// Says that a model stands in for another one.
async fn tell(session: &mut Session, from: &ModelInfo, to: &str, error: &ModelError, for_session: bool) {
    let target = session.services.client.resolve(to);
    let fallback = ModelFallback {
        from: from.id.clone(),
        to: target.id.clone(),
        reason: reason(error),
        for_session,
        cool_down: cool_down(error),
        lost: lost(&session.conversation.history, from, &target),
    };
    note(session, Severity::Warning, &fallback.sentence()).await;
    session.emit(Event::ModelFallback(fallback.into())).await;
}

/// Names the provider of the chosen model, because a bare name would follow the conversation to another one.
fn name_provider(session: &mut Session) {
    let name = &mut session.model_settings.name;
    let provider = session.services.client.resolve(name).provider;
    let prefix = format!("{}/", provider.as_str());
    if !name.starts_with(&prefix) && session.models.fallback.stand_in.is_none() {
        name.insert_str(0, &prefix);
    }
}

/// The first line of an error, with its status.
fn reason(error: &ModelError) -> String {
    let line = error.message.lines().find(|line| !line.trim().is_empty()).unwrap_or("no answer");
    let status = error.status.map(|status| format!(" (status {status})")).unwrap_or_default();
    format!("{}{status}", one_line(line).trim_end_matches('.'))
}

/// The parts of the conversation that the target cannot receive.
fn lost(history: &History, from: &ModelInfo, to: &ModelInfo) -> Vec<String> {
    let parts = || history.entries().iter().flat_map(|entry| &entry.content.parts);
    let sealed = from.id != to.id && parts().any(|part| part.seal.is_some() || part.is_sealed_reasoning());
    let mut lost = Vec::new();
    if sealed {
        lost.push("earlier reasoning".to_owned());
    }
    let Capabilities { images, pdf, audio, .. } = to.caps;
    let kinds = [("image/", "images", images), ("application/pdf", "PDFs", pdf), ("audio/", "audio", audio)];
    for (prefix, name, can_read) in kinds {
        let has = parts().any(|part| match &part.body {
            Body::InlineData(blob) => blob.mime_type.starts_with(prefix),
            Body::FileData { mime_type, .. } => mime_type.starts_with(prefix),
            _ => false,
        });
        if has && !can_read {
            lost.push(name.to_owned());
        }
    }
    lost
}

/// Asks the user, if there is a model to propose.
async fn ask(session: &mut Session, error: &ModelError, cancel: &CancellationToken) -> Fallback {
    let Some(to) = proposal(session, error) else { return Fallback::None };
    let delay = error.details.retry_after.unwrap_or(COOL_DOWN);
    let name = session.services.client.resolve(&to).id;
    let once = format!("Use {name} for this turn");
    let always = format!("Use {name} for this session");
    let wait = format!("Wait {} s and try again", delay.as_secs().max(1));
    let stop = "Stop".to_owned();
    let mut labels = vec![once.clone(), always.clone()];
    if waiting_helps(&error.kind) {
        labels.push(wait.clone());
    }
    labels.push(stop.clone());
    let model = session.services.client.resolve(session.model()).id;
    let question = Question {
        header: "Model".to_owned(),
        text: format!("{model} is unavailable: {}. How do you want to continue?", reason(error)),
        form: QuestionForm::Choice {
            options: labels.into_iter().map(|label| Choice { label, description: String::new() }).collect(),
            several: false,
        },
    };
    let questions = Arc::clone(&session.authority.questions);
    let answer = Person::ask(&*questions, "Model", vec![question], cancel).await;
    let ApprovalAnswer::Replies(replies) = answer else { return Fallback::None };
    match replies.first().map(|reply| reply.trim()) {
        Some(reply) if reply == once => switch(session, &to, error, Consent::ThisTurn).await,
        Some(reply) if reply == always => switch(session, &to, error, Consent::Session).await,
        Some(reply) if reply == wait => return Fallback::Wait(delay),
        Some(reply) if reply == stop || reply.is_empty() || reply.contains(char::is_whitespace) => {
            return Fallback::None;
        }
        // Another model, typed by its name.
        Some(typed) => match session.services.client.check(typed) {
            Ok(()) => switch(session, typed, error, Consent::ThisTurn).await,
            Err(unusable) => {
                let line = format!("Cannot use {}: {}.", one_line(typed), reason(&unusable));
                session.notice(Severity::Warning, NoticeCode::Model, line).await;
                return Fallback::None;
            }
        },
        None => return Fallback::None,
    }
    Fallback::Found
}

fn waiting_helps(kind: &ModelErrorKind) -> bool {
    !matches!(kind, ModelErrorKind::NotFound | ModelErrorKind::Billing)
}

/// The model to propose: one of the same provider where that can help, else one of another.
fn proposal(session: &Session, error: &ModelError) -> Option<String> {
    let info = session.services.client.resolve(session.model());
    let other_model_helps = matches!(
        error.kind,
        ModelErrorKind::Overloaded
            | ModelErrorKind::RateLimited
            | ModelErrorKind::QuotaExhausted
            | ModelErrorKind::NotFound
    );
    let own = info.small.clone().filter(|_| other_model_helps);
    let others = session.models.fallback.alternatives.iter().cloned();
    own.into_iter().chain(others).find(|name| {
        let other = session.services.client.resolve(name);
        fits(session, name, false) && (other_model_helps || other.provider != info.provider)
    })
}
