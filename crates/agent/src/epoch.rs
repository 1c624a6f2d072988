//! What every request begins with, kept as it was where the model's reasoning is bound to it.
//!
//! Some models only accept their earlier reasoning back while instructions, tools and the turns before it are the
//! same. For them a conversation is divided into epochs: within one, requests only ever append. Compression, going
//! back, another mode or another model begin a new epoch.

use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Content;
use pollux_domain::event::{NoticeCode, Severity};
use pollux_domain::tool::ToolSpec;

use crate::session::Session;

/// The beginning of the requests of one epoch.
pub(crate) struct Epoch {
    model: String,
    mode: ApprovalMode,
    /// The state of the history that it began with.
    revision: u64,
    pub(crate) environment: Option<Arc<Content>>,
    pub(crate) system: Arc<str>,
    pub(crate) tools: Arc<[Arc<ToolSpec>]>,
    /// Whether people know that tools wait.
    told: bool,
}

impl Epoch {
    fn begin(session: &Session) -> Self {
        let conversation = &session.conversation;
        Self {
            model: session.model().to_owned(),
            mode: conversation.prompt.mode,
            revision: conversation.history.revision(),
            environment: conversation.history.entries().first().map(|entry| Arc::clone(&entry.content)),
            system: Arc::clone(&conversation.system),
            tools: session.toolbox.declared(),
            told: false,
        }
    }

    fn holds(&self, session: &Session) -> bool {
        let declared = session.toolbox.declared();
        let is_there = |tool: &Arc<ToolSpec>| declared.iter().any(|other| other.name == tool.name);
        self.model == session.model()
            && self.mode == session.conversation.prompt.mode
            && self.revision == session.conversation.history.revision()
            && self.tools.iter().all(is_there)
    }
}

/// Begins, continues or leaves an epoch, as the model and the conversation want it.
pub(crate) fn follow(session: &mut Session) {
    let continues = session.conversation.epoch.as_ref().is_some_and(|epoch| epoch.holds(session));
    if !session.is_append_only() {
        session.conversation.epoch = None;
    } else if !continues {
        session.conversation.epoch = Some(Epoch::begin(session));
    }
}

/// Says once that tools which joined cannot be declared now.
pub(crate) async fn tell_of_waiting_tools(session: &mut Session) {
    let Some(epoch) = session.conversation.epoch.as_ref().filter(|epoch| epoch.holds(session)) else {
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
