//! What every request begins with, kept as it was where the model's reasoning is bound to it.
//!
//! Some models only accept their earlier reasoning back while instructions, tools and the turns before it are the
//! same. For them a conversation is divided into epochs: within one, requests only ever append. Compression, going
//! back, another mode or another model begin a new epoch.

use pollux_domain::event::{NoticeCode, Severity};

use crate::conversation::epoch::Epoch;
use crate::session::Session;

/// Begins, continues or leaves an epoch, as the model and the conversation want it.
pub(crate) fn follow(session: &mut Session) {
    let continues = session.conversation.epoch.as_ref().is_some_and(|epoch| is_continued(epoch, session));
    if !session.is_append_only() {
        session.conversation.epoch = None;
    } else if !continues {
        session.conversation.epoch =
            Some(Epoch::begin(session.model(), &session.conversation, session.toolbox.declared()));
    }
}

/// Says once that tools which joined cannot be declared now.
pub(crate) async fn tell_of_waiting_tools(session: &mut Session) {
    let Some(epoch) = session.conversation.epoch.as_ref().filter(|epoch| is_continued(epoch, session)) else {
        return;
    };
    let declared = session.toolbox.declared();
    let waiting = declared.iter().filter(|tool| !epoch.tools.iter().any(|known| known.name == tool.name));
    let count = waiting.count();
    if count == 0 || epoch.told {
        return;
    }
    let tools = if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") };
    let text = format!("{tools} became available; {} can call them after /compress.", session.model());
    if let Some(epoch) = &mut session.conversation.epoch {
        epoch.told = true;
    }
    session.notice(Severity::Info, NoticeCode::Model, text).await;
}

fn is_continued(epoch: &Epoch, session: &Session) -> bool {
    epoch.continues(session.model(), &session.conversation, &session.toolbox.declared())
}
