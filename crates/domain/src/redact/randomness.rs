//! Values that nobody made up.

/// Shorter ones are words and numbers.
const LEAST: usize = 16;
/// Of a longer one only the beginning is looked at.
const SAMPLE: usize = 256;
/// Bits for each character: words have about 3, keys in base 16 nearly 4, in base 64 more.
const LEAST_BITS: f64 = 3.3;

/// Whether a value is letters and digits in an order that no name or sentence has.
pub(super) fn is_random(value: &[u8]) -> bool {
    let sample = value.get(..SAMPLE).unwrap_or(value);
    let digits = sample.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = sample.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let others = sample.iter().filter(|byte| !matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'+' | b'/' | b'=' | b'-' | b'_')).count();
    sample.len() >= LEAST
        && digits >= 3
        && letters >= 3
        && others * 8 <= sample.len()
        && bits(sample) >= LEAST_BITS
}

/// Shannon's entropy of the bytes.
fn bits(sample: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in sample {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let length = sample.len() as f64;
    let of_one = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(of_one).sum()
}
