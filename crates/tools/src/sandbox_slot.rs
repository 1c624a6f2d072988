//! The sandbox that commands start in, which may change while a session runs.

use std::sync::{Arc, RwLock};

use pollux_domain::sync::SharedLocked as _;
use pollux_sandbox::Sandbox;

/// Shared by everything that starts commands for the model; a change applies from the next command on.
#[derive(Clone, Default)]
pub struct SandboxSlot(Arc<RwLock<Option<Arc<Sandbox>>>>);

impl SandboxSlot {
    pub fn new(sandbox: Option<Arc<Sandbox>>) -> Self {
        Self(Arc::new(RwLock::new(sandbox)))
    }

    /// The sandbox of a command that starts now.
    pub fn get(&self) -> Option<Arc<Sandbox>> {
        self.0.read_locked().clone()
    }

    /// Every command that starts from now on runs in this one.
    pub fn set(&self, sandbox: Option<Arc<Sandbox>>) {
        *self.0.write_locked() = sandbox;
    }
}
