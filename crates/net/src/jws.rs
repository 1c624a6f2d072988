//! Signatures of documents with a P-256 key (RFC 7515), and the key as others verify with it (RFC 7517).

use pollux_config::groups::Secret;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::jwt::{KeyError, Signer};
use crate::random::url_safe;

/// Why a document cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("invalid private key: expected a P-256 key")]
    OtherKey,
    #[error("signing failed")]
    Failed,
}

/// A key that signs documents.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    id: String,
}

/// A signature without the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachedSignature {
    /// The protected header, encoded.
    pub protected: String,
    pub signature: String,
}

impl SigningKey {
    /// Reads a key in PEM.
    pub fn read(pem: &Secret) -> Result<Self, SigningError> {
        let Signer::P256(pair) = Signer::read(pem)? else { return Err(SigningError::OtherKey) };
        let mut key = Self { pair, id: String::new() };
        let [x, y] = key.point();
        // The thumbprint of RFC 7638: these members, in this order.
        let members = json!({"crv": "P-256", "kty": "EC", "x": x, "y": y}).to_string();
        key.id = url_safe(digest(&SHA256, members.as_bytes()).as_ref());
        Ok(key)
    }

    fn point(&self) -> [String; 2] {
        // The first byte says that both coordinates follow.
        let point = self.pair.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        [url_safe(x), url_safe(y)]
    }

    /// The public half, as a set of keys.
    pub fn public_keys(&self) -> Value {
        let [x, y] = self.point();
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, "x": x, "y": y,
        }]})
    }

    /// Signs a document; `keys_url` says where the public half is.
    pub fn sign(&self, document: &[u8], keys_url: &str) -> Result<DetachedSignature, SigningError> {
        let header = json!({"alg": "ES256", "typ": "JOSE", "kid": self.id, "jku": keys_url});
        let protected = url_safe(header.to_string().as_bytes());
        let text = format!("{protected}.{}", url_safe(document));
        let signed = self.pair.sign(&SystemRandom::new(), text.as_bytes());
        let signature = signed.map_err(|_| SigningError::Failed)?;
        Ok(DetachedSignature { protected, signature: url_safe(signature.as_ref()) })
    }
}
