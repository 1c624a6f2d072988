//! Vectors: encoding, quantisation and nearest-neighbour search.

mod dot;

use dot::Dot;

/// A vector in whole numbers of eight bits. Off by less than a hundredth, and a quarter of the size.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantised {
    pub(crate) scale: f32,
    pub(crate) values: Vec<i8>,
}

impl Quantised {
    pub(crate) fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        Self { scale, values: vector.iter().map(|value| (value / scale).round() as i8).collect() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.values.iter().map(|value| value.cast_unsigned()).collect()
    }
}

/// Little-endian numbers of 32 bits, as the vector table takes them.
pub(crate) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Whether a vector says anything: it is not all zero, and every number is one.
pub(crate) fn has_direction(vector: &[f32]) -> bool {
    vector.iter().all(|value| value.is_finite()) && vector.iter().any(|value| *value != 0.0)
}

/// The cosine of two vectors; of different lengths or without a direction, zero.
pub(crate) fn cosine(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let dot: f64 = one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    let length = |vector: &[f32]| vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let product = length(one) * length(other);
    if product > 0.0 { dot / product } else { 0.0 }
}

/// Many small copies in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    dims: usize,
    values: Vec<i8>,
    rows: Vec<Row>,
}

/// Copies that are compared before their scores are looked at.
const BLOCK: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Row {
    number: i64,
    scale: f32,
    source: u8,
}

/// One thread looks at so many; starting another costs as much.
const PER_THREAD: usize = 20_000;

impl Collection {
    /// Adds a copy; one of another length is left out.
    pub(crate) fn push(&mut self, number: i64, source: u8, scale: f32, bytes: &[u8]) {
        if self.rows.is_empty() {
            self.dims = bytes.len();
        }
        if bytes.len() == self.dims && self.dims > 0 {
            self.rows.push(Row { number, scale, source });
            self.values.extend(bytes.iter().map(|byte| byte.cast_signed()));
        }
    }

    pub(crate) fn reserve(&mut self, rows: usize, dims: usize) {
        self.values.reserve_exact(rows * dims);
        self.rows.reserve_exact(rows);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The largest number in it.
    pub(crate) fn last(&self) -> i64 {
        self.rows.last().map_or(0, |row| row.number)
    }

    /// The nearest with their cosine, best first; of one source or of all. On as many threads as there are
    /// processors but one, which is for the words.
    pub(crate) fn nearest(&self, query: &[f32], count: usize, source: Option<u8>) -> Vec<(i64, f64)> {
        let small = Quantised::of(query);
        if small.values.len() != self.dims || self.rows.is_empty() {
            return Vec::new();
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (self.rows.len() / PER_THREAD).clamp(1, processors.saturating_sub(1).max(1));
        let share = self.rows.len().div_ceil(threads);
        let parts = self.rows.chunks(share).zip(self.values.chunks(share * self.dims));
        let query = Query { dot: Dot::with(&small.values), scale: small.scale, count, source };
        let query = &query;
        let near = move |rows: &[Row], values: &[i8]| nearest_of(rows, values, query);
        let mut found: Vec<(i64, f64)> = std::thread::scope(|scope| {
            let mut parts = parts;
            let first = parts.next();
            let others: Vec<_> =
                parts.map(|(rows, values)| scope.spawn(move || near(rows, values))).collect();
            let mut found = first.map_or_else(Vec::new, |(rows, values)| near(rows, values));
            // A panicked thread contributes no results.
            found.extend(others.into_iter().filter_map(|worker| worker.join().ok()).flatten());
            found
        });
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(count);
        found
    }
}

/// What is looked for.
struct Query {
    dot: Dot,
    scale: f32,
    count: usize,
    source: Option<u8>,
}

fn nearest_of(rows: &[Row], values: &[i8], query: &Query) -> Vec<(i64, f64)> {
    // The worst of the best stands where it is quickly compared; the list is cut whenever it is twice as long.
    let mut best: Vec<(f32, i64)> = Vec::with_capacity(2 * query.count);
    let mut least = f32::MIN;
    let cut = |best: &mut Vec<(f32, i64)>| {
        best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(query.count);
        best.last().map_or(f32::MIN, |(score, _)| *score)
    };
    let mut dots = [0_i32; BLOCK];
    let blocks = rows.chunks(BLOCK).zip(values.chunks(BLOCK * query.dot.dims()));
    for (rows, values) in blocks {
        query.dot.each(values, &mut dots);
        for (row, dot) in rows.iter().zip(dots) {
            let score = dot as f32 * row.scale;
            if score > least && query.source.is_none_or(|source| source == row.source) {
                best.push((score, row.number));
                if best.len() >= 2 * query.count {
                    least = cut(&mut best);
                }
            }
        }
    }
    cut(&mut best);
    best.into_iter().map(|(score, number)| (number, f64::from(score * query.scale))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64, dims: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let vector: Vec<f32> = (0..dims).map(|_| next() + next() + next()).collect();
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        vector.into_iter().map(|value| value / length).collect()
    }

    #[test]
    fn quantised_vectors_find_the_same_neighbours() {
        let vectors: Vec<Vec<f32>> = (0..3000).map(|seed| random(seed + 1, 100)).collect();
        let mut collection = Collection::default();
        for (number, vector) in vectors.iter().enumerate() {
            let small = Quantised::of(vector);
            collection.push(number as i64, (number % 2) as u8, small.scale, &small.bytes());
        }
        let mut same = 0;
        for seed in 0..20 {
            let query = random(90_000 + seed, 100);
            let mut exact: Vec<(usize, f64)> =
                vectors.iter().map(|vector| cosine(vector, &query)).enumerate().collect();
            exact.sort_by(|a, b| b.1.total_cmp(&a.1));
            let found = collection.nearest(&query, 24, None);
            assert!((found[0].1 - exact[0].1).abs() < 0.02);
            same += exact[..10]
                .iter()
                .filter(|(number, _)| found.iter().any(|(other, _)| *other == *number as i64))
                .count();
        }
        assert!(same >= 196, "{same} of 200 among the 24 that are looked at exactly");
        assert!(collection.nearest(&vectors[7], 5, Some(0)).iter().all(|(number, _)| number % 2 == 0));
        assert_eq!(collection.nearest(&vectors[7], 1, Some(1))[0].0, 7);
        assert!(collection.nearest(&[1.0], 5, None).is_empty());
    }

    #[test]
    fn odd_vectors_have_no_direction() {
        assert_eq!((cosine(&[0.0, 0.0], &[1.0, 0.0]), cosine(&[1.0], &[1.0, 0.0])), (0.0, 0.0));
        assert!((cosine(&[3.0, 4.0], &[3.0, 4.0]) - 1.0).abs() < 1e-12);
        assert_eq!(Quantised::of(&[0.0, 0.0]).values, [0, 0]);
        assert_eq!(to_bytes(&[1.0]), [0, 0, 128, 63]);
    }
}
