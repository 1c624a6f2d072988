//! Cryptographically random bytes and their text forms.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

/// The system gave no random bytes; nothing secret can be made without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's random number generator failed")]
pub struct RandomnessError;

pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], RandomnessError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| RandomnessError)?;
    Ok(bytes)
}

/// `N` random bytes as text for addresses.
pub(crate) fn text<const N: usize>() -> Result<String, RandomnessError> {
    Ok(url_safe(&bytes::<N>()?))
}

/// Base64 as addresses and tokens use it.
pub(crate) fn url_safe(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
