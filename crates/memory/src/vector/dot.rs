//! Products of one vector with many, in whole numbers.
//!
//! The compiler finds the instruction for it only in some builds, so it is named here.

/// A vector that others are multiplied with.
pub(super) struct Dot {
    /// Wider than the others, so that products need no conversion of it.
    values: Vec<i16>,
    #[cfg(target_arch = "x86_64")]
    is_wide: bool,
}

impl Dot {
    pub(super) fn with(values: &[i8]) -> Self {
        Self {
            values: values.iter().map(|value| i16::from(*value)).collect(),
            #[cfg(target_arch = "x86_64")]
            is_wide: is_x86_feature_detected!("avx2"),
        }
    }

    pub(super) fn dims(&self) -> usize {
        self.values.len()
    }

    /// The products with vectors that lie one behind the other.
    pub(super) fn each(&self, vectors: &[i8], products: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            #[expect(unsafe_code, reason = "a function for a newer processor cannot be called otherwise")]
            // SAFETY: the processor has said that it has these instructions.
            return unsafe { each_wide(&self.values, vectors, products) };
        }
        for (vector, product) in vectors.chunks_exact(self.values.len()).zip(products) {
            *product = plain(vector, &self.values);
        }
    }
}

fn plain(vector: &[i8], query: &[i16]) -> i32 {
    vector.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn each_wide(query: &[i16], vectors: &[i8], products: &mut [i32]) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_setzero_si256, _mm256_storeu_si256,
    };
    let (queries, query_rest) = query.as_chunks::<16>();
    for (at, product) in products.iter_mut().enumerate() {
        let Some(vector) = vectors.get(at * query.len()..(at + 1) * query.len()) else { break };
        let (parts, rest) = vector.as_chunks::<16>();
        // Two sums, so that one addition does not wait for the other.
        let mut sums = [_mm256_setzero_si256(); 2];
        // By numbers: adapters of iterators are calls where nothing is inlined across parts of a crate.
        for k in 0..queries.len().min(parts.len()) {
            let (part, query) = (&parts[k], &queries[k]);
            #[expect(unsafe_code, reason = "reading into a register takes a pointer")]
            // SAFETY: both arrays are as long as what is read, which may begin anywhere.
            let (part, query) =
                unsafe { (_mm_loadu_si128(part.as_ptr().cast()), _mm256_loadu_si256(query.as_ptr().cast())) };
            let sum = &mut sums[k % 2];
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_cvtepi8_epi16(part), query));
        }
        let mut lanes = [0_i32; 8];
        #[expect(unsafe_code, reason = "writing from a register takes a pointer")]
        // SAFETY: the array is as long as what is written.
        unsafe {
            _mm256_storeu_si256(lanes.as_mut_ptr().cast(), _mm256_add_epi32(sums[0], sums[1]));
        }
        let [a, b, c, d, e, f, g, h] = lanes;
        *product = a + b + c + d + e + f + g + h;
        for k in 0..query_rest.len().min(rest.len()) {
            *product += i32::from(rest[k]) * i32::from(query_rest[k]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_the_same_with_every_instruction() {
        for dims in [1, 15, 16, 33, 384] {
            let value = |at: usize| ((at * 7919 + dims) % 255) as i32 - 127;
            let query: Vec<i8> = (0..dims).map(|at| value(at) as i8).collect();
            let vectors: Vec<i8> = (0..dims * 3).map(|at| value(at * 31 + 5) as i8).collect();
            let mut products = [0; 4];
            Dot::with(&query).each(&vectors, &mut products);
            for (vector, product) in vectors.chunks(dims).zip(products) {
                let expected: i32 =
                    vector.iter().zip(&query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                assert_eq!(product, expected, "{dims}");
            }
            assert_eq!(products[3], 0);
        }
    }
}
