//! The Keychain of macOS: generic passwords by service and account, as keytar stores them.

use security_framework::base::Error;
use security_framework::item::{ItemClass, ItemSearchOptions, Limit};
use security_framework::passwords::{delete_generic_password, get_generic_password, set_generic_password};

use super::{Keychain, KeychainError};

/// errSecItemNotFound
const NOT_FOUND: i32 = -25300;
/// errSecInteractionNotAllowed: it is locked, and no one can be asked.
const NO_INTERACTION: i32 = -25308;

struct Login;

pub(super) fn open() -> Result<Box<dyn Keychain>, KeychainError> {
    Ok(Box::new(Login))
}

impl Keychain for Login {
    fn get(&mut self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        match get_generic_password(service, account) {
            Ok(secret) => {
                let text = String::from_utf8(secret);
                text.map(Some).map_err(|_| KeychainError::Failed("an entry is not text".to_owned()))
            }
            Err(error) if error.code() == NOT_FOUND => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    fn set(&mut self, service: &str, account: &str, value: &str) -> Result<(), KeychainError> {
        set_generic_password(service, account, value.as_bytes()).map_err(|error| failed(&error))
    }

    fn delete(&mut self, service: &str, account: &str) -> Result<bool, KeychainError> {
        match delete_generic_password(service, account) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == NOT_FOUND => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }

    fn accounts(&mut self, service: &str) -> Result<Vec<String>, KeychainError> {
        let found = ItemSearchOptions::new()
            .class(ItemClass::generic_password())
            .service(service)
            .load_attributes(true)
            .limit(Limit::All)
            .search();
        match found {
            Ok(items) => {
                let accounts = items.iter().filter_map(|item| item.simplify_dict()?.remove("acct"));
                Ok(accounts.collect())
            }
            Err(error) if error.code() == NOT_FOUND => Ok(Vec::new()),
            Err(error) => Err(failed(&error)),
        }
    }
}

fn failed(error: &Error) -> KeychainError {
    match error.code() {
        NO_INTERACTION => KeychainError::Locked,
        _ => KeychainError::Failed(error.to_string()),
    }
}
