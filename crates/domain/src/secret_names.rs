//! Names of files and folders that usually contain secrets. Reading them for the model needs approval; searches, mentions
//! and imports leave them out. Some stay closed even so, see [`crate::closed_names`].

use std::borrow::Cow;
use std::path::{Component, Path};

/// Complete names, apart from `.env` and its variants.
const NAMES: &[&str] = &[
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".vault-token",
    ".git-credentials",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
    "id_dsa",
];
/// Files below a home in which agents keep credentials.
const SIGN_INS: &[&str] = &[
    "oauth_creds.json",
    "gemini-credentials.json",
    "mcp-oauth-tokens.json",
    "mcp-oauth-tokens-v2.json",
    "a2a-oauth-tokens.json",
    "a2a-server-key",
    "a2a-server-token",
];
/// Endings of keys.
const ENDINGS: &[&str] = &[".pem", ".key", ".p12", ".pfx", ".keystore", ".jks", ".ppk", ".kdbx"];

/// Folders below a home in which everything is private: keys and cloud credentials.
const FOLDERS: &[&str] = &[".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"];

/// Whether this file name usually contains secrets.
pub fn is_secret_name(name: &str) -> bool {
    // A colon begins a stream on Windows, and follows a commit or a host elsewhere.
    let folded = folded(name);
    is_listed(&folded) || matches!(folded, Cow::Owned(_)) && is_listed(&name.to_lowercase())
}

fn is_listed(name: &str) -> bool {
    let kind = name.strip_prefix(".env.");
    // Examples are meant to be read.
    let is_example = kind.is_some_and(|kind| {
        ["example", "sample", "template", "dist", "defaults"].iter().any(|word| kind.contains(word))
    });
    let is_variables = name == ".envrc" || (kind.is_some() && !is_example);
    let is_credentials = NAMES.contains(&name) || SIGN_INS.contains(&name);
    let is_key = ENDINGS.iter().any(|end| name.ends_with(end));
    is_variables || is_credentials || is_key || is_closed_secret(name)
}

/// Whether no tool opens a file of this folded name, not even with approval.
pub(crate) fn is_closed_secret(name: &str) -> bool {
    name == ".env" || (name.starts_with("gha-creds-") && name.ends_with(".json"))
}

/// Whether everything in a folder of this name is private.
pub fn is_private_folder(name: &str) -> bool {
    let name = folded(name);
    FOLDERS.contains(&&*name)
}

/// The first part of a path that makes it a secret: its own name, or that of a folder that contains it.
pub fn secret_part(below: &Path) -> Option<String> {
    below.components().find_map(|part| match part {
        Component::Normal(name) => {
            let name = name.to_string_lossy();
            (is_secret_name(&name) || is_private_folder(&name)).then(|| name.into_owned())
        }
        _ => None,
    })
}

/// A name as file systems may compare it: some take names for the same that differ in case, or in characters that are not
/// drawn, and Windows ignores trailing characters.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    // Searches ask for every file, and most names are plain.
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    if name.bytes().all(is_plain) && !name.ends_with('.') {
        return Cow::Borrowed(name);
    }
    let mut name: String = name.to_lowercase().chars().filter_map(folded_char).collect();
    name.truncate(name.find(':').unwrap_or(name.len()));
    name.truncate(name.trim_end_matches(['.', ' ']).len());
    Cow::Owned(name)
}

fn folded_char(c: char) -> Option<char> {
    match c {
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => None,
        'ſ' => Some('s'),
        other => Some(other),
    }
}

/// Typical names of secret files, to test a pattern against.
pub fn samples() -> impl Iterator<Item = String> {
    let named = [".env", ".env.local", ".envrc"].iter().chain(NAMES).map(|name| (*name).to_owned());
    named.chain(ENDINGS.iter().map(|end| format!("a{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_names::closed_part;

    #[test]
    fn secrets_are_recognised_in_every_spelling_and_in_private_folders() {
        for name in [
            ".ENV.LOCAL",
            ".npmrc.",
            ".npmrc::$DATA",
            "a/.ssh/config",
            "keys/\u{feff}id_rsa",
            ".Aws/x",
            "x.pem ",
        ] {
            assert!(secret_part(Path::new(name)).is_some(), "{name}");
        }
        for name in [".env.example", "ssh/config", "id_rsa.pub", "keys.md"] {
            assert_eq!(secret_part(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn a_closed_secret_is_a_secret() {
        for name in [".env", "gha-creds-1.json"] {
            assert!(is_secret_name(name) && closed_part(Path::new(name)).is_some(), "{name}");
        }
    }
}
