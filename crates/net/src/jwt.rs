//! Signed JWT assertions for client authentication (RFC 7523).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pollux_config::groups::Secret;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::random::url_safe;

/// What is wrong with a key. Says nothing of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid private key: {0}")]
pub struct KeyError(pub(crate) &'static str);

/// A key that can sign; what it is decides how.
pub(crate) enum Signer {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Signs claims with a key in PEM.
pub(crate) fn sign(claims: &Value, key: &Secret, key_id: Option<&str>) -> Result<Secret, KeyError> {
    let signer = Signer::read(key)?;
    let mut header = json!({"alg": signer.algorithm(), "typ": "JWT"});
    if let (Some(id), Some(fields)) = (key_id, header.as_object_mut()) {
        fields.insert("kid".to_owned(), id.into());
    }
    let part = |value: &Value| url_safe(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(claims));
    let signature = signer.sign(signed.as_bytes())?;
    Ok(Secret::new(format!("{signed}.{}", url_safe(&signature))))
}

impl Signer {
    pub(crate) fn read(key: &Secret) -> Result<Self, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(key.reveal().trim().as_bytes())
            .map_err(|_| KeyError("not in PEM format"))?;
        match &der {
            PrivateKeyDer::Pkcs8(der) => Self::read_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
            _ => Err(KeyError("only PKCS #8 is supported (convert it with `openssl pkcs8 -topk8 -nocrypt`)")),
        }
    }

    fn read_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Ok(Self::P256(pair));
        }
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random) {
            return Ok(Self::P384(pair));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self::Ed25519(pair));
        }
        rsa(RsaKeyPair::from_pkcs8(der))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = KeyError("signing failed");
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(|_| failed)?;
                Ok(signature)
            }
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&random, text).map(|signature| signature.as_ref().to_vec()).map_err(|_| failed)
            }
            Self::Ed25519(pair) => Ok(pair.sign(text).as_ref().to_vec()),
        }
    }
}

fn rsa<E>(pair: Result<RsaKeyPair, E>) -> Result<Signer, KeyError> {
    let wrong = KeyError("expected an RSA key of 2048 to 4096 bits, or a P-256, P-384 or Ed25519 key");
    pair.map(|pair| Signer::Rsa(Box::new(pair))).map_err(|_| wrong)
}

/// The end of a token that carries its claims, in milliseconds since 1970; nobody vouches for it.
pub(crate) fn expiry_ms(token: &str) -> Option<i64> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("exp")?.as_i64()?.checked_mul(1000)
}
