//! Commands of the user's that run at certain moments and may stop or change what happens.
//!
//! Owns: the eleven events with one input and one outcome each, reading hooks out of settings and extensions,
//! which of them an event concerns, running them within limits, reading their answers and combining them.
//! Does not own: when an event happens, or carrying an outcome out; that is the agent's.
//! Start at [`Registry::load`], then [`Hooks::fire`].
//!
//! Of several answers the strictest counts, whoever gave it: stop, deny, ask, allow. A hook that fails says
//! nothing, unless its definition calls it `required`.

mod answer;
mod chain;
mod claude;
mod command_line;
mod definition;
mod ending;
mod event;
mod fire;
mod matcher;
mod merge;
mod model_format;
mod payload;
mod registry;
mod run;
mod sample;
mod scene;

pub use answer::{Answer, Decision};
pub use claude::{Migrated, migrate};
pub use definition::{Hook, Problem, Severity, Source};
pub use ending::Ending;
pub use event::{Event, UnknownEvent};
pub use fire::{Combined, Fired, Hooks};
pub use model_format::{Candidate, LlmMessage, LlmRequest, LlmResponse, RequestChange};
pub use payload::{
    AfterAgent, AfterAgentOutcome, AfterModel, AfterModelOutcome, AfterTool, AfterToolOutcome, BeforeAgent,
    BeforeAgentOutcome, BeforeModel, BeforeModelOutcome, BeforeTool, BeforeToolOutcome, BeforeToolSelection,
    CallVerdict, CompressTrigger, EndReason, MAX_TAIL_CALLS, McpContext, Notification, Payload,
    PermissionDetails, PreCompress, SessionEnd, SessionStart, SessionStartOutcome, StartSource, TailCall,
    ToolConfig, ToolFailure, ToolMode, ToolResponse, ToolSelectionOutcome, Verdict, hook_context,
};
pub use registry::{ExtensionHooks, LoadRequest, Registry};
pub use run::Run;
pub use sample::sample_input;
pub use scene::{Scene, Surroundings};
