//! Lists and removes entries. One file that cannot be read or changed does not hide or keep the others.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    API_KEY_ACCOUNT, API_KEY_SERVICE, CredentialEntry, CredentialError, CredentialPlace, CredentialStore,
    FileReason, GOOGLE_ACCOUNT, MCP_SERVICE, OAuthCredentials, SECRET_PREFIX, SIGN_INS, account_of, entry,
    is_sign_in, read_text,
};

/// The result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Whether an entry existed.
    pub removed: bool,
    /// Why the keychain could not be reached, if it may contain a copy.
    pub unreached: Option<FileReason>,
    /// Files that may still contain a copy.
    pub unread: Vec<UnreadFile>,
}

/// Entries that were found or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<CredentialEntry>,
    /// Why the keychain could not be reached, if it may contain more.
    pub unreached: Option<FileReason>,
    /// Files that may contain more.
    pub unread: Vec<UnreadFile>,
}

/// A credentials file that could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    pub path: PathBuf,
    pub message: String,
    pub hint: Option<&'static str>,
}

/// Results of operations on several files.
#[derive(Default)]
struct Problems {
    unread: Vec<UnreadFile>,
    first: Option<CredentialError>,
}

impl Problems {
    /// The result of an operation on a file, or its default.
    fn check<T: Default>(&mut self, path: &Path, result: Result<T, CredentialError>) -> T {
        result.unwrap_or_else(|error| {
            let unread = UnreadFile { path: path.to_owned(), message: error.to_string(), hint: error.hint() };
            if !self.unread.contains(&unread) {
                self.unread.push(unread);
            }
            self.first.get_or_insert(error);
            T::default()
        })
    }
}

impl CredentialStore {
    /// Removes the key from every place.
    pub fn delete_api_key(&self) -> Removal {
        self.delete(API_KEY_SERVICE, API_KEY_ACCOUNT, API_KEY_ACCOUNT, &mut Problems::default())
    }

    /// Removes a sign-in from every place that works.
    pub fn delete_credentials(&self, service: &str, name: &str) -> Removal {
        // A file that cannot be read is reported by the removal.
        let account = self.account_in_use(service, name).unwrap_or_else(|_| account_of(name));
        self.delete(service, &account, name, &mut Problems::default())
    }

    /// Removes a secret from every place before it reports a failure.
    pub fn delete_secret(&self, service: &str, name: &str) -> Result<Removal, CredentialError> {
        let account = format!("{SECRET_PREFIX}{name}");
        let mut problems = Problems::default();
        let removal = self.delete(service, &account, &account, &mut problems);
        problems.first.map_or(Ok(removal), Err)
    }

    /// All keys and sign-ins, without moving any.
    pub fn entries(&self) -> Listing {
        let (mut all, mut problems) = (Vec::new(), Problems::default());
        let mut trouble = None;
        let file = problems.check(self.file.path(), self.file.read());
        for service in SIGN_INS {
            if let Err(error) = self.keychain_entries(service, &mut all) {
                trouble.get_or_insert(error);
            }
            let accounts = file.get(service).and_then(Value::as_object).into_iter().flatten();
            for (account, value) in accounts.filter(|(account, _)| is_sign_in(account)) {
                let place = CredentialPlace::File(self.file.path().to_owned());
                all.push(entry(service, account, place, OAuthCredentials::read(value).as_ref()));
            }
            for (path, entries) in self.older.entries(service) {
                for older in problems.check(&path, entries) {
                    all.push(entry(service, &older.name, older.place, Some(&older.credentials)));
                }
            }
        }
        if let Some(path) = self.older.google_login() {
            all.push(entry(MCP_SERVICE, GOOGLE_ACCOUNT, CredentialPlace::PlainFile(path), None));
        }
        let may_be_more = |reason: &FileReason| match reason {
            FileReason::Keychain(error) if !error.is_absence() => true,
            FileReason::Forced | FileReason::Keychain(_) => self.known.has_any(&SIGN_INS),
        };
        Listing { entries: all, unreached: trouble.filter(may_be_more), unread: problems.unread }
    }

    /// Removes everything that [`Self::entries`] lists, and returns what was removed.
    pub fn delete_all(&self) -> Listing {
        let Listing { mut entries, mut unreached, unread } = self.entries();
        let mut problems = Problems { unread, first: None };
        for entry in &entries {
            let removal =
                self.delete(&entry.service, &account_of(&entry.account), &entry.account, &mut problems);
            unreached = unreached.or(removal.unreached);
        }
        if let Some(path) = self.older.google_login() {
            problems.check(&path, self.older.forget_google_login());
        }
        entries.retain(|entry| match &entry.place {
            CredentialPlace::Keychain => true,
            CredentialPlace::File(path) | CredentialPlace::PlainFile(path) => {
                problems.unread.iter().all(|unread| unread.path != *path)
            }
        });
        Listing { entries, unreached, unread: problems.unread }
    }

    fn keychain_entries(&self, service: &str, all: &mut Vec<CredentialEntry>) -> Result<(), FileReason> {
        let keychain = self.keychain.as_ref().map_err(Clone::clone)?;
        for account in keychain.accounts(service).map_err(FileReason::Keychain)? {
            if is_sign_in(&account) {
                let found = keychain.get(service, &account).map_err(FileReason::Keychain)?;
                let found = found.as_deref().and_then(read_text);
                all.push(entry(service, &account, CredentialPlace::Keychain, found.as_ref()));
            }
        }
        Ok(())
    }

    /// Removes an entry from every place that works. Older files have it under its whole name.
    fn delete(&self, service: &str, account: &str, name: &str, problems: &mut Problems) -> Removal {
        let in_keychain = match &self.keychain {
            Ok(keychain) => keychain.delete(service, account).map_err(FileReason::Keychain),
            Err(reason) => Err(reason.clone()),
        };
        let mut own = Problems::default();
        let mut removed = own.check(self.file.path(), self.remove_from_file(service, account));
        for (path, result) in self.older.remove(service, name) {
            removed |= own.check(&path, result);
        }
        let unreached = match in_keychain {
            Ok(was_there) => {
                self.known.remove(service, account);
                removed |= was_there;
                None
            }
            Err(FileReason::Keychain(error)) if !error.is_absence() => Some(FileReason::Keychain(error)),
            Err(reason) => Some(reason).filter(|_| self.known.has(service, account)),
        };
        for unread in &own.unread {
            if !problems.unread.contains(unread) {
                problems.unread.push(unread.clone());
            }
        }
        problems.first = problems.first.take().or(own.first);
        Removal { removed, unreached, unread: own.unread }
    }
}
