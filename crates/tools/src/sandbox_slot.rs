//! The sandbox that commands start in, which may change while a session runs.

use std::sync::{Arc, RwLock};

use pollux_domain::sync::SharedLocked as _;
use pollux_rights::SessionRights;
use pollux_sandbox::Sandbox;

/// Shared by everything that starts commands for the model; a change applies from the next command on.
#[derive(Clone, Default)]
pub struct SandboxSlot(Arc<RwLock<Option<Arc<SessionRights>>>>);

impl SandboxSlot {
    pub fn new(rights: Option<Arc<SessionRights>>) -> Self {
        Self(Arc::new(RwLock::new(rights)))
    }

    /// The sandbox of a command that starts now.
    pub fn get(&self) -> Option<Arc<Sandbox>> {
        self.rights().map(|rights| rights.sandbox())
    }

    /// The rights that commands have from now on; `None` without a sandbox.
    pub fn rights(&self) -> Option<Arc<SessionRights>> {
        self.0.read_locked().clone()
    }

    /// Every command that starts from now on has these rights.
    pub fn set(&self, rights: Option<Arc<SessionRights>>) {
        *self.0.write_locked() = rights;
    }
}
