//! Chance, for pauses between attempts.

/// Random bits that are at hand without another dependency.
pub(crate) fn random_unit() -> f64 {
    let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
}
