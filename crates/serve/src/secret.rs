//! Secrets that clients show, and what a server keeps of them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The largest file with secrets.
const MAX_FILE: u64 = 1024 * 1024;

/// The digest of a secret. Comparing two takes the same time whether they are equal or not.
#[derive(Debug, Clone, Copy, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for SecretDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
    }
}

/// A new secret of 244 random bits, as 64 letters and digits.
pub fn random_secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Reads a file that only its owner can read; `what` names it in errors.
pub fn read_secret_file(file: &Path, what: &str) -> Result<String, Failure> {
    let shown = format!("{what} `{}`", file.display());
    let unreadable =
        |error: io::Error| Failure::new(ExitKind::Config, format!("could not read {shown}")).because(&error);
    let opened = File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.permissions().mode() & 0o077 != 0 {
        let text = format!("cannot use {shown}: other users can read it");
        return Err(Failure::new(ExitKind::Config, text).hint(format!("run `chmod 600 {}`", file.display())));
    }
    let mut text = String::new();
    opened.take(MAX_FILE).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_equal_for_equal_secrets_only() {
        let (one, other) = (random_secret(), random_secret());
        assert!(one.len() == 64 && one != other);
        assert!(SecretDigest::of(&one) == SecretDigest::of(&one));
        assert!(SecretDigest::of(&one) != SecretDigest::of(&other));
    }
}
