//! The sandbox that commands start in, which may change while a session runs.

use std::sync::{Arc, RwLock};

use pollux_domain::approval::Person;
use pollux_domain::sync::SharedLocked as _;
use pollux_rights::SessionRights;
use pollux_sandbox::Sandbox;

/// Shared by everything that starts commands for the model; a change applies from the next command on.
#[derive(Clone, Default)]
pub struct SandboxSlot(Arc<RwLock<Slot>>);

#[derive(Default)]
struct Slot {
    rights: Option<Arc<SessionRights>>,
    person: Option<Arc<dyn Person>>,
}

impl SandboxSlot {
    pub fn new(rights: Option<Arc<SessionRights>>) -> Self {
        Self(Arc::new(RwLock::new(Slot { rights, person: None })))
    }

    /// The sandbox of a command that starts now.
    pub fn get(&self) -> Option<Arc<Sandbox>> {
        self.rights().map(|rights| rights.sandbox())
    }

    /// The rights that commands have from now on; `None` without a sandbox.
    pub fn rights(&self) -> Option<Arc<SessionRights>> {
        self.0.read_locked().rights.clone()
    }

    /// Every command that starts from now on has these rights.
    pub fn set(&self, rights: Option<Arc<SessionRights>>) {
        let mut slot = self.0.write_locked();
        if let Some(rights) = &rights {
            rights.introduce(slot.person.clone());
        }
        slot.rights = rights;
    }

    /// The person to ask for more rights, whichever sandbox is in use.
    pub fn introduce(&self, person: Option<Arc<dyn Person>>) {
        let mut slot = self.0.write_locked();
        if let Some(rights) = &slot.rights {
            rights.introduce(person.clone());
        }
        slot.person = person;
    }
}
