//! File names that usually contain secrets: reading them for the model needs approval, and context files do not import
//! them.

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

/// Whether this file name, or a folder in its path, usually contains secrets.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let kind = name.strip_prefix(".env.");
    // Examples are meant to be read.
    let is_example = kind.is_some_and(|kind| {
        ["example", "sample", "template", "dist", "defaults"].iter().any(|word| kind.contains(word))
    });
    let is_variables = matches!(name.as_str(), ".env" | ".envrc") || (kind.is_some() && !is_example);
    let is_credentials = NAMES.contains(&name.as_str()) || SIGN_INS.contains(&name.as_str());
    let is_key = ENDINGS.iter().any(|end| name.ends_with(end));
    is_variables || is_credentials || is_key || (name.starts_with("gha-creds-") && name.ends_with(".json"))
}

/// Typical names of secret files, to test a pattern against.
pub fn samples() -> impl Iterator<Item = String> {
    let named = [".env", ".env.local", ".envrc"].iter().chain(NAMES).map(|name| (*name).to_owned());
    named.chain(ENDINGS.iter().map(|end| format!("a{end}")))
}
