//! Encrypted texts: `<iv>:<tag>:<ciphertext>`, each in hex. The format is upstream's.

use pollux_config::groups::Secret;
use pollux_domain::hex;
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::random;

use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};

const PASSWORD: &[u8] = b"gemini-cli-oauth";
const TAG_BYTES: usize = 16;

/// A key that seals and opens texts.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// The key of this user on this machine. It is made of public values (host and user name), which hides a file from a
    /// casual look and from other machines, and no more.
    ///
    /// N = 16384, r = 8, p = 1: the defaults of Node's scrypt, which upstream uses. About 50 ms.
    pub(crate) fn derive(host: &str, user: &str) -> Option<Self> {
        let salt = format!("{host}-{user}-gemini-cli");
        let params = scrypt::Params::new(14, 8, 1).ok()?;
        let mut key = [0u8; 32];
        scrypt::scrypt(PASSWORD, salt.as_bytes(), &params, &mut key).ok()?;
        Some(Self(key))
    }

    /// A key made of a secret, which nobody should be able to guess. Each purpose has another one.
    pub fn of_secret(secret: &Secret, purpose: &str) -> Option<Self> {
        let mut key = [0u8; 32];
        let extracted = Salt::new(HKDF_SHA256, b"pollux").extract(secret.reveal().as_bytes());
        extracted.expand(&[purpose.as_bytes()], HKDF_SHA256).ok()?.fill(&mut key).ok()?;
        Some(Self(key))
    }

    /// Encrypts; `None` if the system gives no random bytes.
    pub fn seal(&self, plain: &[u8]) -> Option<String> {
        seal(plain, self, random::bytes().ok()?)
    }

    /// The decrypted text, or `None` for another key or for text that is not encrypted.
    pub fn open(&self, text: &str) -> Option<Vec<u8>> {
        open(text, self)
    }
}

/// The decrypted text, or `None` for another key or for text that is not encrypted.
///
/// Writers use an IV of 12 bytes today and used 16 before.
pub(crate) fn open(text: &str, key: &SealKey) -> Option<Vec<u8>> {
    let mut fields = text.trim().split(':');
    let (iv, tag, cipher) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let iv = hex::decode(iv)?;
    let mut sealed = hex::decode(cipher)?;
    sealed.extend(hex::decode(tag).filter(|tag| tag.len() == TAG_BYTES)?);
    if let Ok(iv) = <[u8; 12]>::try_from(iv.as_slice()) {
        return AesGcm::<Aes256, U12>::new(&key.0.into()).decrypt(&Nonce::from(iv), sealed.as_slice()).ok();
    }
    let iv = <[u8; 16]>::try_from(iv.as_slice()).ok()?;
    AesGcm::<Aes256, U16>::new(&key.0.into()).decrypt(&Nonce::from(iv), sealed.as_slice()).ok()
}

/// Encrypts with a fresh IV.
pub(crate) fn seal(plain: &[u8], key: &SealKey, iv: [u8; 12]) -> Option<String> {
    let sealed = AesGcm::<Aes256, U12>::new(&key.0.into()).encrypt(&Nonce::from(iv), plain).ok()?;
    let (cipher, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_BYTES)?)?;
    Some(format!("{}:{}:{}", hex::encode(&iv), hex::encode(tag), hex::encode(cipher)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_data_opens_only_with_its_key() {
        let key = SealKey::derive("build-host", "alice").unwrap();
        let text = seal("{\"a\": \"é\"}".as_bytes(), &key, [7; 12]).unwrap();
        assert_eq!(open(&text, &key).unwrap(), "{\"a\": \"é\"}".as_bytes());
        assert_eq!(open(&text, &SealKey::derive("build-host", "bob").unwrap()), None);
        let cut: String = text.chars().take(text.len() - 2).collect();
        assert_eq!(open(&cut, &key), None);
    }

    #[test]
    fn a_secret_has_another_key_for_each_purpose() {
        let key = |secret: &str, purpose| SealKey::of_secret(&Secret::new(secret), purpose).unwrap();
        let text = key("one", "a").seal(b"plain").unwrap();
        assert_eq!(key("one", "a").open(&text).unwrap(), b"plain");
        assert_ne!(key("one", "a").seal(b"plain").unwrap(), text, "the same text looks different each time");
        for other in [key("one", "b"), key("two", "a")] {
            assert_eq!(other.open(&text), None);
        }
    }

    #[test]
    fn hostile_text_opens_nothing() {
        let key = SealKey([0; 32]);
        for text in ["", ":", "zz:zz:zz", "07:07:07", "a:b:c:d", "070707070707070707070707::", "é:é:é"] {
            assert_eq!(open(text, &key), None, "{text:?}");
        }
    }
}
