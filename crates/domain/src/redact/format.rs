//! Secrets that are known by their looks.

use std::ops::Range;

use super::{Secret, SecretKind, length_of};

/// How a token begins, and how many characters must follow at least.
const TOKENS: &[(&str, usize)] = &[
    ("AIza", 30),
    ("github_pat_", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("glpat-", 16),
    ("gldt-", 16),
    ("glrt-", 16),
    ("glptt-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("rk_test_", 16),
    ("sk-", 20),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("xoxe-", 10),
    ("xapp-", 10),
    ("ya29.", 20),
    ("GOCSPX-", 20),
    ("npm_", 30),
    ("hf_", 30),
    ("pypi-", 30),
    ("rubygems_", 30),
    ("dop_v1_", 30),
    ("dckr_pat_", 20),
    ("shpat_", 20),
    ("lin_api_", 20),
    ("whsec_", 20),
    ("sbp_", 30),
    ("figd_", 20),
    ("xkeysib-", 30),
    ("ATATT3x", 20),
    ("AGE-SECRET-KEY-1", 30),
    ("SG.", 20),
];
/// Access keys of a cloud: capitals and digits only.
const CAPITALS: &[&str] = &["AKIA", "ASIA"];
const CAPITALS_LENGTH: usize = 16;

/// What these words stand before is a credential when it is as long as one.
const SCHEMES: &[&str] = &["bearer ", "basic "];
const CREDENTIAL: usize = 16;
/// A webhook URL, which lets anyone post.
const WEBHOOK: &str = "hooks.slack.com/services/";

/// So much of a token tells whether it is a key.
const SAMPLE: usize = 64;
/// How much of a block's first line is looked at.
const HEADING: usize = 64;

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_token(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

/// The secret that begins here, or whose address does.
pub(super) fn at(bytes: &[u8], at: usize, starts_word: bool) -> Option<Secret> {
    let (range, kind) = match bytes.get(at)? {
        b'-' => (block(bytes, at)?, SecretKind::Block),
        b':' => (password(bytes, at)?, SecretKind::Password),
        first if starts_word && first.is_ascii_alphabetic() => {
            return key(bytes, at)
                .map(|range| Secret { range, kind: SecretKind::Key })
                .or_else(|| token(bytes, at).map(|range| Secret { range, kind: SecretKind::Jwt }))
                .or_else(|| header(bytes, at).map(|range| Secret { range, kind: SecretKind::Header }));
        }
        _ => return None,
    };
    Some(Secret { range, kind })
}

fn key(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at..)?;
    for (beginning, least) in TOKENS {
        if rest.starts_with(beginning.as_bytes()) {
            let from = at + beginning.len();
            // Words joined by dashes are no key. Only a key is followed to its end, or the time would grow
            // with the square of the text.
            let has_dots = *beginning == "SG.";
            let belongs = |byte: u8| is_token(byte) || (has_dots && byte == b'.');
            let sample = bytes.get(from..)?.iter().take(SAMPLE).take_while(|byte| belongs(**byte));
            let is_key = sample.clone().count() >= *least && sample.clone().any(u8::is_ascii_digit);
            return is_key.then(|| at..from + length_of(bytes, from, belongs));
        }
    }
    if CAPITALS.iter().any(|beginning| rest.starts_with(beginning.as_bytes())) {
        let from = at + 4;
        let length = length_of(bytes, from, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        return (length >= CAPITALS_LENGTH).then_some(at..from + length);
    }
    if rest.starts_with(WEBHOOK.as_bytes()) {
        let from = at + WEBHOOK.len();
        let length = length_of(bytes, from, |byte| is_token(byte) || byte == b'/');
        return (length >= CREDENTIAL).then_some(from..from + length);
    }
    None
}

/// A signed token: three parts of which the first is a JSON object.
fn token(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at..)?;
    let follows_dash = at > 0 && bytes.get(at - 1) == Some(&b'-');
    if rest.starts_with(b"eyJ") && !follows_dash {
        let length = length_of(bytes, at, |byte| is_token(byte) || byte == b'.');
        let dots = rest.iter().take(length).filter(|byte| **byte == b'.').count();
        return (dots >= 2 && length >= 20).then_some(at..at + length);
    }
    None
}

/// What stands behind `Bearer` or `Basic`, wherever it is said.
fn header(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = bytes.get(at..)?;
    let scheme = SCHEMES.iter().find(|scheme| {
        rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    })?;
    let from = at + scheme.len();
    let length =
        length_of(bytes, from, |byte| is_token(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'='));
    let value = bytes.get(from..from + length)?;
    (length >= CREDENTIAL && value.iter().any(u8::is_ascii_digit)).then_some(from..from + length)
}

/// A private key or certificate, up to its end or that of the text.
fn block(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const END: &[u8] = b"-----END ";
    let rest = bytes.get(at..)?;
    if !rest.starts_with(BEGIN) {
        return None;
    }
    let heading = rest.get(BEGIN.len()..).unwrap_or_default();
    let heading = heading.get(..HEADING).unwrap_or(heading);
    let until = heading.windows(5).position(|window| window == b"-----")?;
    let title = heading.get(..until)?;
    let names = |word: &[u8]| title.windows(word.len()).any(|window| window == word);
    if !names(b"PRIVATE KEY") && !names(b"CERTIFICATE") {
        return None;
    }
    let end = rest.windows(END.len()).position(|window| window == END).and_then(|end| {
        let from = end + END.len();
        let tail = rest.get(from..)?;
        tail.windows(5).take(HEADING).position(|window| window == b"-----").map(|dashes| from + dashes + 5)
    });
    Some(at..end.map_or(bytes.len(), |end| at + end))
}

/// The password in `://user:password@`.
fn password(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    if !bytes.get(at..)?.starts_with(b"://") {
        return None;
    }
    let start = at + 3;
    let length = length_of(bytes, start, |byte| {
        !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'"' | b'\'' | b'`' | b'<' | b'>')
    });
    let authority = bytes.get(start..start + length)?;
    let end = authority.iter().rposition(|byte| *byte == b'@')?;
    let user = authority.get(..end)?;
    let from = user.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
    let secret = user.get(from..)?;
    // A lone name is a secret only if it is as long as one.
    let is_secret = !matches!(secret.first(), None | Some(b'$' | b'*')) && (from > 0 || secret.len() >= 20);
    is_secret.then_some(start + from..start + end)
}
