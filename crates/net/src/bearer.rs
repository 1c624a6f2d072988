//! The bearer authorization header.

use pollux_config::groups::Secret;
use reqwest::header::HeaderValue;

/// A sensitive header, hidden in logs.
pub fn bearer(token: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The token that such a header carries.
pub fn token_of(value: &HeaderValue) -> Option<Secret> {
    value.to_str().ok()?.strip_prefix("Bearer ").map(Secret::new)
}
