//! Splits a list into batches.

/// Consecutive items share a batch while they fit, at most `most` of them; an oversized item gets its own batch.
pub(crate) fn batches<T>(items: &[T], most: usize, limit: usize, size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let mut all = 0;
        let fitting = rest.iter().take(most).take_while(|item| {
            all += size(item);
            all <= limit
        });
        let (batch, tail) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = tail;
    }
    batches
}
