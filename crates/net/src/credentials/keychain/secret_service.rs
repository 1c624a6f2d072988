//! The Secret Service of Linux desktops (GNOME Keyring, KWallet, KeePassXC), with keytar's attributes, so that
//! gemini-cli and this program find each other's entries.
//!
//! Never prompts: a locked collection is reported instead of opened, because the dialog may appear on a
//! screen that is not in use.

use std::collections::HashMap;

use secret_service::{EncryptionType, Error, Item, SecretService};
use tokio::runtime::{Builder, Runtime};

use super::{Keychain, KeychainError};

/// The attribute that libsecret adds to every item of keytar's and searches for.
const SCHEMA: (&str, &str) = ("xdg:schema", "org.freedesktop.Secret.Generic");

struct Session {
    runtime: Runtime,
    service: SecretService<'static>,
}

/// Connects to the bus and opens a session whose secrets travel encrypted.
pub(super) fn open(address: &str) -> Result<Box<dyn Keychain>, KeychainError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| KeychainError::Failed(error.to_string()))?;
    let unreachable = |error: zbus::Error| KeychainError::Unreachable(error.to_string());
    let service = runtime.block_on(async {
        let bus = zbus::connection::Builder::address(address).map_err(unreachable)?;
        let bus = bus.build().await.map_err(unreachable)?;
        SecretService::connect_with_existing(EncryptionType::Dh, bus).await.map_err(failed)
    })?;
    Ok(Box::new(Session { runtime, service }))
}

impl Keychain for Session {
    fn get(&mut self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        self.runtime.block_on(async {
            let found = self.service.search_items(attributes(service, account)).await.map_err(failed)?;
            let Some(item) = found.unlocked.first() else {
                return if found.locked.is_empty() { Ok(None) } else { Err(KeychainError::Locked) };
            };
            let secret = item.get_secret().await.map_err(failed)?;
            let text = String::from_utf8(secret);
            text.map(Some).map_err(|_| KeychainError::Failed("an entry is not text".to_owned()))
        })
    }

    fn set(&mut self, service: &str, account: &str, value: &str) -> Result<(), KeychainError> {
        self.runtime.block_on(async {
            let collection = self.service.get_default_collection().await.map_err(failed)?;
            if collection.is_locked().await.map_err(failed)? {
                return Err(KeychainError::Locked);
            }
            let mut attributes = attributes(service, account);
            attributes.insert(SCHEMA.0, SCHEMA.1);
            // keytar's label.
            let label = format!("{service}/{account}");
            collection
                .create_item(&label, attributes, value.as_bytes(), true, "text/plain")
                .await
                .map(drop)
                .map_err(failed)
        })
    }

    fn delete(&mut self, service: &str, account: &str) -> Result<bool, KeychainError> {
        self.runtime.block_on(async {
            let found = self.service.search_items(attributes(service, account)).await.map_err(failed)?;
            if found.unlocked.is_empty() && !found.locked.is_empty() {
                return Err(KeychainError::Locked);
            }
            for item in &found.unlocked {
                item.delete().await.map_err(failed)?;
            }
            Ok(!found.unlocked.is_empty())
        })
    }

    fn accounts(&mut self, service: &str) -> Result<Vec<String>, KeychainError> {
        self.runtime.block_on(async {
            let wanted = HashMap::from([("service", service)]);
            let found = self.service.search_items(wanted).await.map_err(failed)?;
            let mut accounts = Vec::new();
            for item in found.unlocked.iter().chain(&found.locked) {
                accounts.extend(account(item).await?);
            }
            Ok(accounts)
        })
    }
}

async fn account(item: &Item<'_>) -> Result<Option<String>, KeychainError> {
    Ok(item.get_attributes().await.map_err(failed)?.remove("account"))
}

fn attributes<'a>(service: &'a str, account: &'a str) -> HashMap<&'a str, &'a str> {
    HashMap::from([("service", service), ("account", account)])
}

fn failed(error: Error) -> KeychainError {
    match error {
        Error::Locked | Error::Prompt | Error::PromptDisconnected => KeychainError::Locked,
        Error::Unavailable => KeychainError::Unreachable("no Secret Service is running".to_owned()),
        Error::NoResult => KeychainError::Failed("it has no default collection".to_owned()),
        other => KeychainError::Failed(other.to_string()),
    }
}
