//! Signed claims: how a service account proves itself (RFC 7523, RS256).

use pollux_config::groups::Secret;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::GoogleError;
use crate::random::url_safe;

/// Signs claims with a key in PEM.
pub(super) fn sign(claims: &Value, key: &Secret, key_id: Option<&str>) -> Result<Secret, GoogleError> {
    let pair = key_pair(key)?;
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let (Some(id), Some(fields)) = (key_id, header.as_object_mut()) {
        fields.insert("kid".to_owned(), id.into());
    }
    let part = |value: &Value| url_safe(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(claims));
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .map_err(|_| GoogleError::Key("it could not sign"))?;
    Ok(Secret::new(format!("{signed}.{}", url_safe(&signature))))
}

fn key_pair(key: &Secret) -> Result<RsaKeyPair, GoogleError> {
    let der = PrivateKeyDer::from_pem_slice(key.reveal().as_bytes())
        .map_err(|_| GoogleError::Key("it is not in PEM"))?;
    let pair = match &der {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(GoogleError::Key("it is no RSA key")),
    };
    pair.map_err(|_| GoogleError::Key("it is no RSA key of 2048 to 4096 bits"))
}

/// The end of a token that carries its claims, in milliseconds since 1970; nobody vouches for it.
pub(super) fn expiry_ms(token: &str) -> Option<i64> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims.get("exp")?.as_i64()?.checked_mul(1000)
}
