//! The public keys of an issuer (RFC 7517), and tokens signed with them (RFC 7519).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pollux_domain::time::Timestamp;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::{Claims, TokenError, TokenRules};

/// The longest token, and the longest subject.
const MAX_TOKEN: usize = 16 * 1024;
const MAX_SUBJECT: usize = 1024;
/// How many keys of a set are used.
const MAX_KEYS: usize = 100;
/// How far clocks may differ, in seconds.
const LEEWAY: f64 = 60.0;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<PublicKey>);

/// A key that checks signatures. What it is decides which algorithm it is for; a token cannot choose another.
#[derive(Debug)]
struct PublicKey {
    id: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a set; keys for other purposes and of other kinds are left out.
    pub(super) fn read(document: &Value) -> Self {
        let keys = document.get("keys").and_then(Value::as_array).into_iter().flatten();
        Self(keys.filter_map(PublicKey::read).take(MAX_KEYS).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a token says, if one of the keys signed it and it is for us at this moment.
    pub(super) fn verify(
        &self,
        token: &str,
        rules: &TokenRules,
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN {
            return Err(TokenError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header = part(header)?;
        let algorithm = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        // An extension that must be understood is one that is not understood here.
        if !["RS256", "ES256", "EdDSA"].contains(&algorithm) || header.get("crit").is_some() {
            return Err(TokenError::Algorithm);
        }
        let id = header.get("kid").and_then(Value::as_str);
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        let mut candidates = self.candidates(algorithm, id)?.into_iter();
        if !candidates.any(|key| key.material.has_signed(signed.as_bytes(), &signature)) {
            return Err(TokenError::Signature);
        }
        check(&part(claims)?, rules, now)
    }

    /// The keys that a token may be signed with.
    fn candidates(&self, algorithm: &str, id: Option<&str>) -> Result<Vec<&PublicKey>, TokenError> {
        let fits = |key: &&PublicKey| key.material.algorithm() == algorithm;
        let Some(id) = id else {
            let keys: Vec<&PublicKey> = self.0.iter().filter(fits).collect();
            return if keys.len() == 1 { Ok(keys) } else { Err(TokenError::UnknownKey) };
        };
        let named: Vec<&PublicKey> = self.0.iter().filter(|key| key.id.as_deref() == Some(id)).collect();
        if named.is_empty() {
            return Err(TokenError::UnknownKey);
        }
        let fitting: Vec<&PublicKey> = named.into_iter().filter(fits).collect();
        if fitting.is_empty() { Err(TokenError::Algorithm) } else { Ok(fitting) }
    }
}

impl PublicKey {
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| text(name).and_then(decode);
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let uses = key.get("key_ops").and_then(Value::as_array);
        if uses.is_some_and(|uses| !uses.iter().any(|use_| use_ == "verify")) {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { modulus: bytes("n")?, exponent: bytes("e")? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                // An uncompressed point.
                Material::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        if text("alg").is_some_and(|algorithm| algorithm != material.algorithm()) {
            return None;
        }
        Some(Self { id: text("kid").map(str::to_owned), material })
    }
}

impl Material {
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, text, signature)
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(text, signature)
            }
            Self::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(text, signature),
        };
        verified.is_ok()
    }
}

/// Checks what a token says about itself.
fn check(claims: &Value, rules: &TokenRules, now: Timestamp) -> Result<Claims, TokenError> {
    let now = now.millis() as f64 / 1000.0;
    let number = |name: &str| claims.get(name).and_then(Value::as_f64);
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if number("exp").ok_or(TokenError::Malformed)? + LEEWAY <= now {
        return Err(TokenError::Expired);
    }
    match claims.get("nbf") {
        Some(_) if number("nbf").ok_or(TokenError::Malformed)? - LEEWAY > now => {
            return Err(TokenError::NotYet);
        }
        _ => {}
    }
    if text("iss") != Some(&rules.issuer) {
        return Err(TokenError::Issuer);
    }
    let is_ours = match claims.get("aud") {
        Some(Value::String(audience)) => *audience == rules.audience,
        Some(Value::Array(all)) => all.iter().any(|audience| audience == rules.audience.as_str()),
        _ => false,
    };
    if !is_ours {
        return Err(TokenError::Audience);
    }
    let subject = text("sub").filter(|subject| (1..=MAX_SUBJECT).contains(&subject.len()));
    Ok(Claims { subject: subject.ok_or(TokenError::Subject)?.to_owned() })
}

fn part(text: &str) -> Result<Value, TokenError> {
    let bytes = decode(text).ok_or(TokenError::Malformed)?;
    let value: Option<Value> = serde_json::from_slice(&bytes).ok();
    value.filter(Value::is_object).ok_or(TokenError::Malformed)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
