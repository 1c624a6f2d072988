//! Removes secrets from texts that are stored or shown: summaries, notices, logs.
//!
//! A secret is recognised by its format (API keys, tokens, private keys, passwords in URLs) or by the name
//! before it (`token=…`, `--password …`, `"apiKey": "…"`, `Authorization: …`). One pass over the
//! text; no regular expressions, so that nothing has to be compiled when the program starts.

mod format;
mod randomness;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// The replacement for a secret.
pub const MASK: &str = "***";

/// Endings of names whose value is a secret, in lower case and without `-`, `_` and `.`.
const SECRET_NAMES: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];

/// Last parts of names whose value is a secret; as endings they would be parts of other words.
const SECRET_WORDS: &[&str] = &["pass", "pwd", "passcode"];

/// Names with one of these precede a secret if the value looks random.
const TELLING_WORDS: &[&str] = &["key", "token", "secret", "password", "passwd", "credential", "auth"];

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Begins and ends at a character.
    pub range: Range<usize>,
    pub kind: SecretKind,
}

/// How a secret was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// The format of a service's key.
    Key,
    /// A signed token.
    Jwt,
    /// A private key or certificate.
    Block,
    /// A password in an address.
    Password,
    /// The value after `Bearer` or `Basic`.
    Header,
    /// The name before it.
    Named,
}

impl SecretKind {
    /// The word in a mask.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Jwt => "jwt",
            Self::Block => "private-key",
            Self::Password => "password",
            Self::Header => "authorization",
            Self::Named => "value",
        }
    }
}

/// The secrets in a text, in order.
pub fn find(text: &str) -> Vec<Secret> {
    secrets(text, Look::ForFormatsAndNames)
}

/// The text without its secrets.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let found = find(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for Secret { range: secret, .. } in found {
        clean.push_str(text.get(from..secret.start).unwrap_or_default());
        clean.push_str(MASK);
        from = secret.end;
    }
    clean.push_str(text.get(from..).unwrap_or_default());
    clean.into()
}

/// Every text inside of a value without its secrets.
pub fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = redacted(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value {
                    Value::String(text) if is_secret_name(name) && !text.is_empty() => MASK.clone_into(text),
                    other => redact_value(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a value holds a secret of a known format.
pub fn holds_secret(value: &str) -> bool {
    !secrets(value, Look::ForFormats).is_empty()
}

/// Whether the value of this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase()).collect();
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or_default();
    SECRET_NAMES.iter().any(|ending| plain.ends_with(ending))
        || SECRET_WORDS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

/// Whether the value of this name may be a secret.
fn is_telling_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase()).collect();
    TELLING_WORDS.iter().any(|word| plain.contains(word)) && !plain.contains("public")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    ForFormats,
    ForFormatsAndNames,
}

/// Where the secrets are, in order. Every range begins and ends at a character.
fn secrets(text: &str, look: Look) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let before = at.checked_sub(1).and_then(|index| bytes.get(index)).copied();
        let starts_word = !before.is_some_and(format::is_word);
        let starts_name = !before.is_some_and(is_name);
        let secret = format::at(bytes, at, starts_word).or_else(|| {
            let by_name = look == Look::ForFormatsAndNames && starts_name;
            by_name.then(|| behind_name(bytes, at)).flatten()
        });
        match secret {
            Some(secret) => {
                at = secret.range.end.max(at + 1);
                found.push(secret);
            }
            None => at += 1,
        }
    }
    found
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The value behind a name that begins here, if the name says that it is a secret.
fn behind_name(bytes: &[u8], at: usize) -> Option<Secret> {
    let end = at + length_of(bytes, at, is_name);
    // Longer than any name; a text without blanks must not be taken apart again and again.
    let name =
        std::str::from_utf8(bytes.get(at..end)?).ok().filter(|name| (5..=128).contains(&name.len()))?;
    let closed = end + length_of(bytes, end, |byte| matches!(byte, b'"' | b'\'' | b'\\')).min(2);
    let mut next = closed + length_of(bytes, closed, |byte| byte == b' ').min(3);
    let sign = match bytes.get(next..).unwrap_or_default() {
        [b'=', b'=' | b'>', ..] => return None,
        [b':', b'/', ..] => return None,
        [b':', b'=', ..] => {
            next += 2;
            b'='
        }
        [sign @ (b'=' | b':'), ..] => {
            next += 1;
            *sign
        }
        // `--password x`
        _ if name.starts_with('-') && next > end => b'=',
        _ => return None,
    };
    // After the sign, which most words are not followed by.
    let is_certain = is_secret_name(name);
    if !is_certain && !is_telling_name(name) {
        return None;
    }
    next += length_of(bytes, next, |byte| byte == b' ').min(3);
    let is_header = name.to_ascii_lowercase().ends_with("authorization");
    let range = value(bytes, next, sign, is_header)?;
    let is_secret = is_certain || randomness::is_random(bytes.get(range.clone())?);
    is_secret.then_some(Secret { range, kind: SecretKind::Named })
}

fn value(bytes: &[u8], at: usize, sign: u8, is_header: bool) -> Option<Range<usize>> {
    let (start, quote): (usize, &[u8]) = match bytes.get(at..).unwrap_or_default() {
        [b'\\', b'"', ..] => (at + 2, b"\\\""),
        [b'"', ..] => (at + 1, b"\""),
        [b'\'', ..] => (at + 1, b"'"),
        _ => (at, b""),
    };
    let rest = bytes.get(start..).unwrap_or_default();
    let length = if quote.is_empty() {
        length_of(bytes, start, is_bare)
    } else {
        let end =
            rest.windows(quote.len()).position(|window| window == quote || window.first() == Some(&b'\n'));
        end.unwrap_or(rest.len())
    };
    let text = rest.get(..length).unwrap_or_default();
    if is_header && quote.is_empty() && is_scheme(text) {
        let word = start + length + length_of(bytes, start + length, |byte| byte == b' ');
        return value(bytes, word, b'=', false);
    }
    // A variable, a placeholder, or a call in some code.
    let stands_for_another = matches!(text.first(), None | Some(b'$' | b'<' | b'%' | b'*' | b'-' | b'{'));
    let is_code = quote.is_empty() && text.contains(&b'(');
    // `token: word` is a sentence more often than a secret.
    let is_prose = quote.is_empty()
        && sign == b':'
        && !is_header
        && text.len() < 20
        && !text.iter().any(u8::is_ascii_digit);
    (!stands_for_another && !is_code && !is_prose).then(|| start..start + length)
}

fn is_scheme(text: &[u8]) -> bool {
    ["bearer", "basic", "token", "digest"].iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_bare(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !matches!(
            byte,
            b',' | b';' | b'&' | b')' | b'}' | b']' | b'\'' | b'"' | b'`' | b'|' | b'>' | b'\\'
        )
}

fn length_of(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    bytes.get(from..).unwrap_or_default().iter().take_while(|byte| belongs(**byte)).count()
}

#[cfg(test)]
mod tests;
