//! Cutting many texts into requests.

/// Of one request, in UTF-16 units: safely below every provider's limit of tokens.
const MAX_UNITS: usize = 8_000;
/// What the providers allow in one request.
pub(super) const GEMINI_ITEMS: usize = 100;
pub(super) const OPENAI_ITEMS: usize = 2_048;

/// Neighbours go together while they fit; a text that is too long goes alone.
pub(super) fn cut(texts: &[String], max_items: usize) -> Vec<&[String]> {
    let mut batches = Vec::new();
    let mut rest = texts;
    while !rest.is_empty() {
        let mut units = 0;
        let fitting = rest.iter().take(max_items).take_while(|text| {
            units += text.encode_utf16().count();
            units <= MAX_UNITS
        });
        let (batch, tail) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = tail;
    }
    batches
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
