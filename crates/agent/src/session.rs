//! The state of a session, owned by whatever task is working on it.
//!
//! `open.rs` makes one for a front end and `open/life.rs` serves its operations; `turn.rs` works on a prompt. A
//! sub-agent has a session of its own, from `invoke_agent/session.rs`.

pub(crate) mod notes;

use std::error::Error as _;
use std::path::Path;
use std::sync::Arc;

use pollux_config::groups::Model;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::event::{Event, NoticeCode, Severity};
use pollux_domain::id::SessionId;
use pollux_domain::model::{ModelError, ModelInfo, ProviderId, RequestRole};
use pollux_domain::session_observer::SessionObserver;
use pollux_domain::time::Timestamp;
use pollux_extend::context::ContextFiles;
use pollux_session::{RecordError, Recorder, RecorderEvent, SessionModel};

use crate::authority::Authority;
use crate::conversation::{Conversation, Prompted};
use crate::editor_context::EditorContext;
use crate::emitter::Emitter;
use crate::fallback::state::FallbackState;
use crate::services::Services;
use crate::subagent_host::Host;
use crate::toolbox::{ToolOffer, Toolbox};

/// The state of a session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) interactive: bool,
    pub(crate) model_settings: Model,
    pub(crate) models: ModelState,
    pub(crate) services: Arc<Services>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) toolbox: Toolbox,
    pub(crate) conversation: Conversation,
    /// The user's editor; not for sub-agents.
    pub(crate) editor: Option<EditorContext>,
    /// The user ended the turn at a question.
    pub(crate) stopped_by_person: bool,
    pub(crate) context: ContextFiles,
    /// Records the conversation for the memory; not for sub-agents.
    pub(crate) observer: Option<Arc<dyn SessionObserver>>,
    /// What this session shares with sub-agents.
    pub(crate) host: Option<Arc<Host>>,
    // The record is closed before the stream of events ends.
    pub(crate) recorder: Recorder,
    pub(crate) emitter: Emitter,
}

/// What differs from the model settings now.
#[derive(Default)]
pub(crate) struct ModelState {
    /// The model that carries out an approved plan, while there is one and the chosen name leaves the choice open.
    pub(crate) implementer: Option<String>,
    pub(crate) fallback: FallbackState,
    /// Generation settings of every request.
    pub(crate) generation: JsonObject,
}

impl Session {
    /// Shows the model the tools and instructions of the mode and those that fit it, and tools that joined or left,
    /// if that changed.
    pub(crate) fn follow_mode(&mut self) {
        let mode = self.authority.approvals.mode();
        let joined = self.toolbox.follow();
        let info = self.services.client.resolve(&self.model_settings.name);
        let offer = ToolOffer::to(&info);
        self.models.implementer = self.implementer_of(info);
        let offered = self.toolbox.offer(offer);
        if mode == self.conversation.prompt.mode && !joined && !offered {
            return;
        }
        if joined {
            self.conversation.history.describe_tools(self.toolbox.context());
        }
        self.conversation.prompt.mode = mode;
        self.toolbox.look_again(&self.authority.approvals);
        self.conversation.instruct(&self.toolbox);
    }

    /// What the model is to know of the user's editor before a prompt. It is not recorded: a resumed session begins
    /// with what the editor shows then.
    pub(crate) fn editor_news(&mut self) -> Option<Vec<Part>> {
        Some(vec![Part::text(self.editor.as_mut()?.news()?)])
    }

    /// The conversation lost earlier turns, and maybe what was said of the editor.
    pub(crate) fn forget_editor(&mut self) {
        if let Some(editor) = &mut self.editor {
            editor.forget();
        }
    }

    fn implementer_of(&self, chosen: ModelInfo) -> Option<String> {
        let is_wanted = self.model_settings.plan_routing && self.authority.approvals.carries_out_plan();
        let model = chosen.implementer.filter(|_| is_wanted)?;
        Some(match self.model_settings.name.split_once('/') {
            Some((provider, _)) => format!("{provider}/{model}"),
            None => model,
        })
    }

    /// The plan folder, in plan mode.
    pub(crate) fn plans_now(&self) -> Option<&Path> {
        let planning = self.authority.approvals.mode() == ApprovalMode::Plan;
        planning.then_some(self.conversation.prompt.plans_dir.as_path())
    }

    /// Sends an event to the front ends.
    pub(crate) async fn emit(&self, event: Event) {
        self.emitter.emit(event).await;
    }

    pub(crate) async fn notice(&self, severity: Severity, code: NoticeCode, message: impl Into<String>) {
        self.emitter.notice(severity, code, message).await;
    }

    /// The role of requests.
    pub(crate) fn role(&self) -> RequestRole {
        if self.emitter.subagent.is_some() { RequestRole::Subagent } else { RequestRole::Main }
    }

    /// Sets the current prompt, also for changes made by sub-agents.
    pub(crate) fn set_prompted(&mut self, prompted: Prompted) {
        if let Some(host) = &self.host {
            host.set_prompted(prompted.clone());
        }
        self.conversation.prompted = prompted;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// The model to ask: the chosen one, or the one that stands in for it or carries out its plan.
    pub(crate) fn model(&self) -> &str {
        let chosen = self.models.implementer.as_ref().unwrap_or(&self.model_settings.name);
        self.models.fallback.stand_in().unwrap_or(chosen)
    }

    /// The name of the model as people and programs see it.
    pub(crate) fn displayed_model(&self) -> String {
        let name = self.models.fallback.stand_in().unwrap_or(&self.model_settings.name);
        self.services.client.resolve(name).display_name(name)
    }

    /// Asks this model from now on, also in sub-agents.
    pub(crate) fn choose_model(&mut self, name: &str) -> Result<(), ModelError> {
        let client = &self.services.client;
        client.select(name)?;
        // A name with its provider leads to the same model from everywhere. Gemini's names stay as typed, because
        // aliases are resolved with every prompt.
        let info = client.resolve(name);
        let is_full = name.starts_with(&format!("{}/", info.provider.as_str()));
        let name = if is_full || info.provider == ProviderId::GEMINI { name.to_owned() } else { info.id };
        self.model_settings.name.clone_from(&name);
        self.models.implementer = None;
        self.models.fallback.return_to_choice();
        if let Some(host) = &self.host {
            host.set_model(&name);
        }
        Ok(())
    }

    /// Records prompts with the chosen model, so that a resumed session stays with it.
    pub(crate) fn note_chosen_model(&mut self) {
        let info = self.services.client.resolve(&self.model_settings.name);
        let provider = info.provider.as_str().to_owned();
        let name = info.display_name(&self.model_settings.name);
        self.recorder.note_model(Some(SessionModel { provider, name, local: info.local }));
    }

    /// The model's context window.
    pub(crate) fn window(&self) -> u64 {
        let known = self.services.client.resolve(self.model()).context_window;
        match &self.conversation.counters.named_window {
            Some((model, named)) if *model == self.model() => known.min(*named),
            _ => known,
        }
    }

    /// Whether the model's reasoning is bound to all that comes before it, so that nothing of it may change.
    pub(crate) fn is_append_only(&self) -> bool {
        self.services.client.resolve(self.model()).caps.sealed_prefix
    }

    /// Tokens left in the window, as far as is known.
    pub(crate) fn window_left(&self) -> u64 {
        self.window().saturating_sub(self.size())
    }

    /// The size of the next request.
    pub(crate) fn size(&self) -> u64 {
        self.conversation.size()
    }

    /// Handles a recorder's result. A failure is reported once, as is the recovery from it; the conversation continues.
    pub(crate) async fn recorded<T>(&mut self, result: Result<T, RecordError>) -> Option<T> {
        match result {
            Ok(value) => {
                while let Some(event) = self.recorder.take_event() {
                    self.tell_recording(&event).await;
                }
                Some(value)
            }
            Err(error) => {
                let counters = &mut self.conversation.counters;
                let (is_told, code, what) = match error.is_unsynced() {
                    true => (&mut counters.unsynced_reported, NoticeCode::Durability, ""),
                    false => {
                        let what = "the session is no longer recorded: ";
                        (&mut counters.recording_stopped, NoticeCode::RecordingStopped, what)
                    }
                };
                if !std::mem::replace(is_told, true) {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    let message = format!("{what}{error}{cause}");
                    self.notice(Severity::Warning, code, message).await;
                }
                None
            }
        }
    }

    async fn tell_recording(&mut self, event: &RecorderEvent) {
        let counters = &mut self.conversation.counters;
        let code = match event {
            RecorderEvent::Synced => {
                counters.unsynced_reported = false;
                NoticeCode::Durability
            }
            RecorderEvent::Resumed { .. } => {
                counters.recording_stopped = false;
                NoticeCode::RecordingResumed
            }
            RecorderEvent::Restored { .. } | RecorderEvent::Continued { .. } => NoticeCode::SessionFile,
        };
        let severity = if event.is_warning() { Severity::Warning } else { Severity::Info };
        self.notice(severity, code, event.to_string()).await;
    }

    /// The id that all requests of one prompt share.
    pub(crate) fn next_prompt_id(&mut self) -> String {
        let number = self.conversation.counters.prompts;
        self.conversation.counters.prompts += 1;
        if self.interactive { format!("{}########{number}", self.id) } else { self.id.to_string() }
    }
}
