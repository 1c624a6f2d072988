//! Adds what the user said to a running turn to the conversation, before the next request.

use pollux_domain::event::{Event, OpResult, RefusalCode, TurnEnd};
use pollux_session::UserSource;
use tokio_util::sync::CancellationToken;

use super::begin_prompt;
use crate::hooked::conversation::{Gate, before_agent};
use crate::session::Session;
use crate::steering::{Steer, too_late};

/// Records what was said and adds it to the conversation, as hooks allow; an end if one of them stops the agent.
pub(crate) async fn deliver(
    session: &mut Session,
    prompt_id: &str,
    cancel: &CancellationToken,
) -> Option<TurnEnd> {
    let mut blocked = false;
    while let Some(Steer { id, by, mut parts, typed }) = session.conversation.steering.next() {
        let (gate, halted) = before_agent(&session.services.hooked, &mut parts, cancel).await;
        if let Some(halted) = halted {
            session.emit(halted).await;
        }
        if gate == Gate::Blocked {
            let result = OpResult::refused(RefusalCode::NotAllowed, "blocked by a hook");
            session.authority.questions.acknowledge(id, by, result).await;
            blocked = true;
            continue;
        }
        if cancel.is_cancelled() {
            session.authority.questions.acknowledge(id, by, too_late()).await;
            return Some(TurnEnd::Cancelled);
        }
        let now = session.now();
        let result = session.recorder.user_from(UserSource::DuringTurn, &parts, Some(&typed), now);
        let message = session.recorded(result).await;
        begin_prompt(session, message.as_deref(), prompt_id);
        if let Some(observer) = &session.observer {
            observer.prompt(Some(&typed));
        }
        if let Some(news) = session.editor_news() {
            session.conversation.history.push_during_turn(UserSource::Program, None, news);
        }
        session.conversation.history.push_during_turn(UserSource::DuringTurn, message.clone(), parts);
        session.authority.questions.acknowledge(id.clone(), by.clone(), OpResult::Accepted).await;
        session.emit(Event::Steered { id, typed, message, by }).await;
        if gate == Gate::Stopped {
            return Some(TurnEnd::Finished(None));
        }
    }
    // The model had finished, and nothing new was said to it.
    (blocked && session.conversation.history.ends_with_reply()).then_some(TurnEnd::Finished(None))
}
