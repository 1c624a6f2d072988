//! Files of earlier releases and of gemini-cli's default mode. They are read; an entry leaves them only when
//! a newer place is known to hold it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{self, FileLock, Mode};
use serde_json::Value;

use super::file::{EncryptedFile, Owner, remove, restrict};
use super::record::API_KEY_TYPE;
use super::{
    A2A_SERVICE, API_KEY_ACCOUNT, API_KEY_SERVICE, CredentialError, CredentialPlace, GOOGLE_ACCOUNT,
    MCP_SERVICE, OAuthCredentials, account_of,
};

/// Shared by all services, encrypted, entries by name.
const SHARED_FILE: &str = "mcp-oauth-tokens-v2.json";
/// gemini-cli's default for MCP servers: an array in plain text.
const PLAIN_FILE: &str = "mcp-oauth-tokens.json";
const PLAIN_AGENTS_FILE: &str = "a2a-oauth-tokens.json";
/// Its login with Google.
const GOOGLE_FILE: &str = "oauth_creds.json";

pub(super) struct OlderFiles {
    folder: PathBuf,
    pub(super) shared: EncryptedFile,
}

/// An entry of an older file.
pub(super) struct OlderEntry {
    pub(super) name: String,
    pub(super) place: CredentialPlace,
    pub(super) credentials: OAuthCredentials,
}

impl OlderEntry {
    fn is_api_key(&self) -> bool {
        self.name == API_KEY_ACCOUNT || self.credentials.token.token_type == API_KEY_TYPE
    }
}

impl OlderFiles {
    pub(super) fn new(folder: &Path, owner: Arc<Owner>) -> Self {
        let shared = EncryptedFile::new(folder.join(SHARED_FILE), owner);
        Self { folder: folder.to_owned(), shared }
    }

    /// The entry of a service by name, or by the name as a keychain stores it.
    pub(super) fn find(&self, service: &str, name: &str) -> Result<Option<OlderEntry>, CredentialError> {
        let mut found = Vec::new();
        if let Some(path) = self.plain_file(service) {
            found.extend(plain_entries(&path)?);
        }
        found.extend(self.shared_entries()?);
        let account = account_of(name);
        let position = found
            .iter()
            .position(|entry| entry.name == name)
            .or_else(|| found.iter().position(|entry| account_of(&entry.name) == account));
        Ok(position.map(|position| found.swap_remove(position)))
    }

    /// Takes the entry of exactly this name out of every older file.
    pub(super) fn forget(&self, service: &str, name: &str) -> Result<(), CredentialError> {
        for (_, result) in self.remove_where(service, |stored| stored == name) {
            result?;
        }
        Ok(())
    }

    /// Removes what [`Self::find`] could return for a name. Each file with whether it contained any.
    pub(super) fn remove(&self, service: &str, name: &str) -> Vec<(PathBuf, Result<bool, CredentialError>)> {
        let names: Vec<String> = self.names(service);
        let account = account_of(name);
        if names.iter().any(|stored| stored == name) {
            self.remove_where(service, |stored| stored == name)
        } else {
            self.remove_where(service, |stored| account_of(stored) == account)
        }
    }

    /// The names in all files that can be read.
    fn names(&self, service: &str) -> Vec<String> {
        let plain = self.plain_file(service).and_then(|path| plain_entries(&path).ok());
        let shared = self.shared.read().unwrap_or_default();
        let plain = plain.into_iter().flatten().map(|entry| entry.name);
        plain.chain(shared.into_iter().map(|(name, _)| name)).collect()
    }

    fn remove_where(
        &self,
        service: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> Vec<(PathBuf, Result<bool, CredentialError>)> {
        let mut done = Vec::new();
        if let Some(path) = self.plain_file(service) {
            let removed = forget_plain(&path, &is_it);
            done.push((path, removed));
        }
        if self.shared.path().exists() {
            let removed = self.shared.change(|entries| {
                let before = entries.len();
                entries.retain(|name, _| !is_it(name));
                entries.len() != before
            });
            done.push((self.shared.path().to_owned(), removed));
        }
        done
    }

    /// All entries of a service in each older file. Entries of agents in the shared file look like those of servers.
    pub(super) fn entries(&self, service: &str) -> Vec<(PathBuf, Result<Vec<OlderEntry>, CredentialError>)> {
        let mut all = Vec::new();
        if let Some(path) = self.plain_file(service) {
            let entries = plain_entries(&path);
            all.push((path, entries));
        }
        let of_service = |entry: &OlderEntry| match service {
            API_KEY_SERVICE => entry.is_api_key(),
            MCP_SERVICE => !entry.is_api_key(),
            _ => false,
        };
        let shared = self.shared_entries().map(|entries| entries.into_iter().filter(of_service).collect());
        all.push((self.shared.path().to_owned(), shared));
        all
    }

    fn shared_entries(&self) -> Result<Vec<OlderEntry>, CredentialError> {
        let read = |(name, entry): (String, Value)| {
            let place = CredentialPlace::File(self.shared.path().to_owned());
            OAuthCredentials::read(&entry).map(|credentials| OlderEntry { name, place, credentials })
        };
        Ok(self.shared.read()?.into_iter().filter_map(read).collect())
    }

    /// gemini-cli's login with Google, if it is there. It is not opened.
    pub(super) fn google_login(&self) -> Option<PathBuf> {
        Some(self.folder.join(GOOGLE_FILE)).filter(|path| path.is_file())
    }

    pub(super) fn forget_google_login(&self) -> Result<bool, CredentialError> {
        match self.google_login() {
            Some(path) => remove(&path).map(|()| true),
            None => Ok(false),
        }
    }

    fn plain_file(&self, service: &str) -> Option<PathBuf> {
        let name = match service {
            MCP_SERVICE => PLAIN_FILE,
            A2A_SERVICE => PLAIN_AGENTS_FILE,
            _ => return None,
        };
        Some(self.folder.join(name))
    }
}

/// Entries with their names; other values are skipped.
fn plain_entries(path: &Path) -> Result<Vec<OlderEntry>, CredentialError> {
    let read = |entry: &Value| {
        let credentials = OAuthCredentials::read(entry)?;
        let name = credentials.server_name.clone();
        let place = CredentialPlace::PlainFile(path.to_owned());
        // The Google login has its own account and belongs to no server.
        (name != GOOGLE_ACCOUNT).then_some(OlderEntry { name, place, credentials })
    };
    Ok(array(path)?.iter().filter_map(read).collect())
}

fn array(path: &Path) -> Result<Vec<Value>, CredentialError> {
    let Some(text) = files::read_text(path)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|_| CredentialError::NotJson { path: path.to_owned() })
}

fn forget_plain(path: &Path, is_it: impl Fn(&str) -> bool) -> Result<bool, CredentialError> {
    if !path.exists() {
        return Ok(false);
    }
    let _lock = FileLock::acquire(path)?;
    let mut entries = array(path)?;
    let before = entries.len();
    entries.retain(|entry| {
        let name = entry.get("serverName").and_then(Value::as_str).unwrap_or_default();
        !is_it(name)
    });
    if entries.len() == before {
        return Ok(false);
    }
    if entries.is_empty() {
        remove(path)?;
    } else {
        let text = format!("{:#}", Value::Array(entries));
        restrict(path);
        files::replace(path, text.as_bytes(), Mode::Private)?;
    }
    Ok(true)
}
