//! Hooks around a session, a prompt and a compression.

use std::time::Duration;

use pollux_domain::content::Part;
use pollux_domain::event::Event;
use pollux_hooks::{
    BeforeAgent, CompressTrigger, EndReason, PreCompress, SessionEnd, SessionStart, StartSource, Verdict,
    hook_context,
};
use tokio_util::sync::CancellationToken;

use super::{Hooked, halt_notice};
use crate::history::History;

/// How often hooks may send a prompt back to the model; upstream's budget of turns.
pub(crate) const MAX_TURNS: usize = 100;

/// Time limit for hooks after a cancel.
const HURRIED: Duration = Duration::from_secs(5);

/// What happens to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// It is added to the conversation but not processed.
    Stopped,
    /// It is dropped.
    Blocked,
}

/// The session starts; hook context is added to the environment description.
pub(crate) async fn start_hooks(hooked: &Hooked, history: &mut History, cancel: &CancellationToken) {
    let source = hooked.port.as_ref().map_or(StartSource::Startup, |port| port.source);
    let heard = hooked.fire(|| SessionStart { source }, cancel).await;
    if let Some(context) = heard.outcome.context {
        history.add_to_environment(Part::text(hook_context(&context)));
    }
}

/// The session ends.
pub(crate) async fn end_hooks(
    hooked: &Hooked,
    reason: EndReason,
    cancelled: bool,
    cancel: &CancellationToken,
) {
    let farewell = hooked.fire(|| SessionEnd { reason }, cancel);
    if !cancelled {
        farewell.await;
        return;
    }
    tokio::pin!(farewell);
    tokio::select! {
        biased;
        _ = &mut farewell => return,
        () = tokio::time::sleep(HURRIED) => cancel.cancel(),
    }
    farewell.await;
}

/// A prompt is about to be worked on; hooks may add to it. The event says why they stop it, and is for the caller to
/// emit after the prompt.
pub(crate) async fn before_agent(
    hooked: &Hooked,
    parts: &mut Vec<Part>,
    cancel: &CancellationToken,
) -> (Gate, Option<Event>) {
    let heard = hooked.fire(|| BeforeAgent { prompt: spoken(parts) }, cancel).await;
    if cancel.is_cancelled() {
        return (Gate::Stopped, None);
    }
    let notice = halt_notice(&heard.outcome.verdict, heard.message.as_deref());
    match heard.outcome.verdict {
        Verdict::Stop { .. } => return (Gate::Stopped, notice),
        Verdict::Block { .. } => return (Gate::Blocked, notice),
        Verdict::Proceed => {}
    }
    parts.extend(heard.outcome.context.map(|context| Part::text(hook_context(&context))));
    (Gate::Open, None)
}

/// The history is about to be compressed.
pub(crate) async fn before_compression(
    hooked: &Hooked,
    trigger: CompressTrigger,
    cancel: &CancellationToken,
) {
    hooked.fire(|| PreCompress { trigger }, cancel).await;
}

/// The words of a prompt.
pub(crate) fn spoken(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::spoken_text).collect()
}
