//! Hooks: user-defined commands that run on agent events and can stop or change what happens.
//!
//! Owns: the eleven events with their inputs and outcomes, loading hooks from settings and extensions,
//! selecting the hooks for an event, running them within limits, parsing their answers and combining them.
//! Does not own: when an event occurs, or applying an outcome; the agent does that.
//! Start at [`Registry::load`], then [`Hooks::fire`].
//!
//! Of several answers the strictest wins: stop, deny, ask, allow. A failing hook has no effect unless its
//! definition marks it as `required`.

mod answer;
mod callback;
mod chain;
mod claude;
mod command_line;
mod definition;
mod ending;
mod event;
mod fire;
#[doc(hidden)]
pub mod fuzzing;
mod matcher;
mod merge;
mod model_format;
mod payload;
mod registry;
mod run;
mod sample;
mod scene;

pub use answer::{Decision, HookAnswer};
pub use callback::{CallbackError, CallbackPort, Callbacks};
pub use claude::{Migrated, claude_tool_name, migrate};
pub use definition::{Hook, HookProblem, HookSource, Severity};
pub use ending::HookEnding;
pub use event::{Event, UnknownEvent};
pub use fire::{CombinedAnswer, Fired, Hooks};
pub use model_format::{Candidate, LlmMessage, LlmRequest, LlmResponse, RequestChange};
pub use payload::{
    AfterAgent, AfterAgentOutcome, AfterModel, AfterModelOutcome, AfterTool, AfterToolOutcome, BeforeAgent,
    BeforeAgentOutcome, BeforeModel, BeforeModelOutcome, BeforeTool, BeforeToolOutcome, BeforeToolSelection,
    CallVerdict, CompressTrigger, EndReason, MAX_TAIL_CALLS, McpContext, Notification, Payload,
    PermissionDetails, PreCompress, SessionEnd, SessionStart, SessionStartOutcome, StartSource, TailCall,
    ToolConfig, ToolFailure, ToolMode, ToolResponse, ToolSelectionOutcome, Verdict, hook_context,
};
pub use registry::{ExtensionHooks, LoadRequest, Registry};
pub use run::HookRun;
pub use sample::sample_input;
pub use scene::{HookScene, HookServices};
