//! The key of a provider: where it is looked for, in which order.

use pollux_config::groups::Secret;

use super::{Provider, Providers};

/// A key and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey {
    pub key: Secret,
    pub source: KeyPlace,
}

/// Where a key was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPlace {
    Variable(String),
    /// The credential store.
    Stored,
    /// The program in `keyCommand`.
    Command,
}

impl Providers<'_> {
    /// The key in the environment. `named` is the variable that the command line names, if it names one.
    pub fn key_in_environment(&self, provider: &Provider<'_>, named: Option<&str>) -> Option<FoundKey> {
        let names = named.map(str::to_owned).into_iter().chain(provider.key_variables());
        names.into_iter().find_map(|name| {
            let key = self.env().get(&name).map(str::trim).filter(|key| !key.is_empty())?;
            Some(FoundKey { key: Secret::new(key), source: KeyPlace::Variable(name) })
        })
    }

    /// The key in the environment, else the stored one. `stored` is asked only if it is needed, because opening
    /// the store is slow.
    pub fn find_key<E>(
        &self,
        provider: &Provider<'_>,
        named: Option<&str>,
        stored: impl FnOnce() -> Result<Option<Secret>, E>,
    ) -> Result<Option<FoundKey>, E> {
        if let Some(found) = self.key_in_environment(provider, named) {
            return Ok(Some(found));
        }
        Ok(stored()?.map(|key| FoundKey { key, source: KeyPlace::Stored }))
    }
}
