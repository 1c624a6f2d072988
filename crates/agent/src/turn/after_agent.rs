//! Hooks after the model's final reply: they can send another prompt or clear the context.

use std::ops::ControlFlow;

use pollux_domain::event::{NoticeCode, Severity, TurnEnd};
use pollux_hooks::{AfterAgent, Verdict};
use tokio_util::sync::CancellationToken;

use crate::session::Session;

/// What the model sees where a hook made it forget.
const CLEARED: &str = "[The conversation before this point was cleared.]";

/// The model is done; a hook may send another prompt.
pub(crate) async fn after_agent(
    session: &mut Session,
    end: TurnEnd,
    again: bool,
    cancel: &CancellationToken,
) -> ControlFlow<TurnEnd, String> {
    if !matches!(end, TurnEnd::Finished(Some(_))) {
        return ControlFlow::Break(end);
    }
    let payload = || AfterAgent {
        prompt: session.conversation.dialogue.prompt.clone(),
        prompt_response: session.conversation.dialogue.replies.join("\n"),
        stop_hook_active: again,
    };
    let heard = session.services.hooked.fire(payload, cancel).await;
    if cancel.is_cancelled() {
        return ControlFlow::Break(TurnEnd::Cancelled);
    }
    if !session.services.hooked.halts(&heard.outcome.verdict, heard.message.as_deref()).await {
        return ControlFlow::Break(end);
    }
    if heard.outcome.clear_context {
        clear_context(session).await;
    }
    match heard.outcome.verdict {
        Verdict::Block { reason } => ControlFlow::Continue(reason),
        Verdict::Stop { .. } | Verdict::Proceed => ControlFlow::Break(end),
    }
}

/// Clears the conversation for the model; the session file keeps it.
async fn clear_context(session: &mut Session) {
    const TOLD: &str = "Conversation context has been cleared.";
    session.conversation.history.replace(Vec::new());
    session.conversation.counters.last_request = None;
    let now = session.now();
    let result = session.recorder.compressed(TOLD, None, CLEARED, now);
    session.recorded(result).await;
    session.notice(Severity::Info, NoticeCode::Hook, TOLD).await;
}
