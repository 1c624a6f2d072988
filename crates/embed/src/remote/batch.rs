//! Cutting many texts into requests.

use crate::batches::batches;

/// Of one request, in UTF-16 units: safely below every provider's limit of tokens.
const MAX_UNITS: usize = 8_000;
/// Limits of the providers for one request.
pub(super) const GEMINI_ITEMS: usize = 100;
pub(super) const OPENAI_ITEMS: usize = 2_048;

/// The texts of each request.
pub(super) fn cut(texts: &[String], max_items: usize) -> Vec<&[String]> {
    batches(texts, max_items, MAX_UNITS, |text| text.encode_utf16().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_limited_in_size_and_number() {
        let sizes = |lengths: &[usize], items: usize| -> Vec<usize> {
            let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            cut(&texts, items).iter().map(|batch| batch.len()).collect()
        };
        assert_eq!(sizes(&[], 10), [0; 0]);
        assert_eq!(sizes(&[1600; 12], 100), [5, 5, 2]);
        assert_eq!(sizes(&[8000, 1, 8001, 9000, 10, 10], 100), [1, 1, 1, 1, 2]);
        assert_eq!(sizes(&[0; 250], 100), [100, 100, 50]);
        let wide = vec!["𝔘".repeat(4000), "x".to_owned()];
        assert_eq!(cut(&wide, 10).len(), 2);
    }
}
