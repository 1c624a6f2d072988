//! The context in which hooks run, and the services they share.

use std::path::PathBuf;
use std::sync::Arc;

use pollux_domain::time::Clock;
use pollux_exec::background::Background;
use serde_json::Value;

/// The services that all hooks of a run share.
#[derive(Clone)]
pub struct HookServices {
    /// The environment without secrets: `exec::environment::sanitised`.
    pub environment: Vec<(String, String)>,
    /// Knows every process that must not outlive the program.
    pub background: Arc<Background>,
    pub clock: Arc<dyn Clock>,
}

/// Where an event happens.
#[derive(Debug, Clone, Default)]
pub struct HookScene {
    pub session_id: String,
    /// The session's file.
    pub transcript_path: Option<PathBuf>,
    pub cwd: PathBuf,
    pub plans_dir: Option<PathBuf>,
    /// What was spent and may be, if anything is limited.
    pub budget: Option<Value>,
}
