//! A keychain in memory, which forgets everything with its last clone. For tests of whatever uses a keychain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use pollux_domain::sync::Locked as _;

use super::{Keychain, KeychainError, Opener, TIMEOUT, TimedKeychain};
use crate::credentials::{CredentialStore, StoreOptions};

type Entries = BTreeMap<(String, String), String>;

/// Clones are the same keychain.
#[derive(Default, Clone)]
pub struct MemoryKeychain(Arc<Mutex<Entries>>);

impl MemoryKeychain {
    /// A store with this keychain.
    pub fn store(&self, options: StoreOptions) -> CredentialStore {
        CredentialStore::with(options, Ok(TimedKeychain::new(self.opener(), TIMEOUT)))
    }

    pub(crate) fn opener(&self) -> Opener {
        let keychain = self.clone();
        Box::new(|| Ok(Box::new(keychain)))
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.locked()
    }
}

impl Keychain for MemoryKeychain {
    fn get(&mut self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        Ok(self.entries().get(&(service.to_owned(), account.to_owned())).cloned())
    }

    fn set(&mut self, service: &str, account: &str, value: &str) -> Result<(), KeychainError> {
        self.entries().insert((service.to_owned(), account.to_owned()), value.to_owned());
        Ok(())
    }

    fn delete(&mut self, service: &str, account: &str) -> Result<bool, KeychainError> {
        Ok(self.entries().remove(&(service.to_owned(), account.to_owned())).is_some())
    }

    fn accounts(&mut self, service: &str) -> Result<Vec<String>, KeychainError> {
        let entries = self.entries();
        let own = entries.keys().filter(|(known, _)| known == service);
        Ok(own.map(|(_, account)| account.clone()).collect())
    }
}
