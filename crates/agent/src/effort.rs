//! The reasoning effort that the user asked for, as the model in use knows it.

use pollux_domain::event::{NoticeCode, Severity};
use pollux_domain::model::{Effort, Setting};

use crate::session::Session;

/// Where a sub-agent's definition says how much it reasons.
const OWN_WORDS: &str = "thinkingConfig";

/// The effort of the next request. A model without levels of its own gets what was asked for; its client knows best.
pub(crate) fn setting(session: &Session) -> Setting<Effort> {
    let Some(wanted) = wanted(session) else { return Setting::Inherit };
    let levels = session.services.client.resolve(session.model()).caps.efforts;
    Setting::Set(wanted.nearest(&levels).unwrap_or(wanted))
}

/// Says once per model that it lacks the level that was asked for.
pub(crate) async fn tell_nearest(session: &mut Session) {
    let Some(wanted) = wanted(session) else { return };
    if session.conversation.counters.effort_told.as_deref() == Some(session.model()) {
        return;
    }
    session.conversation.counters.effort_told = Some(session.model().to_owned());
    let info = session.services.client.resolve(session.model());
    let level = wanted.as_str();
    let text = match wanted.nearest(&info.caps.efforts) {
        Some(nearest) if nearest != wanted => {
            format!("{} has no effort level `{level}`; using `{}`.", info.id, nearest.as_str())
        }
        None if !info.caps.reasoning => format!("{} has no effort levels; `{level}` is ignored.", info.id),
        Some(_) | None => return,
    };
    session.notice(Severity::Info, NoticeCode::Model, text).await;
}

fn wanted(session: &Session) -> Option<Effort> {
    if session.models.generation.contains_key(OWN_WORDS) {
        return None;
    }
    session.model_settings.effort.as_deref().and_then(Effort::parse)
}
