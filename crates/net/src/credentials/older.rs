//! Files of earlier releases and of gemini-cli's default mode. They are read; an entry leaves them only when
//! a newer place is known to hold it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::files::{self, FileLock, Mode};
use serde_json::Value;

use super::file::{EncryptedFile, Owner, remove, restrict};
use super::{
    A2A_SERVICE, CredentialError, CredentialPlace, GOOGLE_ACCOUNT, MCP_SERVICE, OAuthCredentials, account_of,
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
    shared: EncryptedFile,
}

/// An entry of an older file.
pub(super) struct OlderEntry {
    pub(super) name: String,
    pub(super) place: CredentialPlace,
    pub(super) credentials: OAuthCredentials,
}

impl OlderFiles {
    pub(super) fn new(folder: &Path, owner: Arc<Owner>) -> Self {
        let shared = EncryptedFile::new(folder.join(SHARED_FILE), owner);
        Self { folder: folder.to_owned(), shared }
    }

    /// The entry of a service by name, or by the name as a keychain stores it.
    pub(super) fn find(
        &self,
        service: &str,
        account: &str,
    ) -> Result<Option<OAuthCredentials>, CredentialError> {
        let is_it = |name: &str| account_of(name) == account;
        if let Some(path) = self.plain_file(service)
            && let Some((_, found)) = plain_entries(&path)?.into_iter().find(|(name, _)| is_it(name))
        {
            return Ok(Some(found));
        }
        let shared = self.shared.read()?;
        let found = shared.iter().filter(|(name, _)| is_it(name));
        Ok(found.filter_map(|(_, entry)| OAuthCredentials::read(entry)).next())
    }

    /// Takes the entry out of every older file.
    pub(super) fn forget(&self, service: &str, account: &str) -> Result<bool, CredentialError> {
        let mut any = false;
        if let Some(path) = self.plain_file(service) {
            any |= forget_plain(&path, account)?;
        }
        if self.shared.path().exists() {
            any |= self.shared.change(|entries| {
                let before = entries.len();
                entries.retain(|name, _| account_of(name) != account);
                entries.len() != before
            })?;
        }
        Ok(any)
    }

    /// All entries of MCP servers and agents in older files.
    pub(super) fn entries(&self, service: &str) -> Result<Vec<OlderEntry>, CredentialError> {
        let mut all = Vec::new();
        if let Some(path) = self.plain_file(service) {
            let plain = plain_entries(&path)?.into_iter().map(|(name, credentials)| OlderEntry {
                name,
                place: CredentialPlace::PlainFile(path.clone()),
                credentials,
            });
            all.extend(plain);
        }
        if service == MCP_SERVICE {
            for (name, entry) in &self.shared.read()? {
                if let Some(credentials) = OAuthCredentials::read(entry)
                    && credentials.token.token_type != super::record::API_KEY_TYPE
                {
                    let place = CredentialPlace::File(self.shared.path().to_owned());
                    all.push(OlderEntry { name: name.clone(), place, credentials });
                }
            }
        }
        Ok(all)
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
fn plain_entries(path: &Path) -> Result<Vec<(String, OAuthCredentials)>, CredentialError> {
    let read = |entry: &Value| {
        let found = OAuthCredentials::read(entry)?;
        // The Google login has its own account and belongs to no server.
        (found.server_name != GOOGLE_ACCOUNT).then(|| (found.server_name.clone(), found))
    };
    Ok(array(path)?.iter().filter_map(read).collect())
}

fn array(path: &Path) -> Result<Vec<Value>, CredentialError> {
    let Some(text) = files::read_text(path)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|_| CredentialError::Corrupted { path: path.to_owned() })
}

fn forget_plain(path: &Path, account: &str) -> Result<bool, CredentialError> {
    if !path.exists() {
        return Ok(false);
    }
    let _lock = FileLock::acquire(path)?;
    let mut entries = array(path)?;
    let before = entries.len();
    entries.retain(|entry| {
        let name = entry.get("serverName").and_then(Value::as_str).unwrap_or_default();
        account_of(name) != account
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
