//! Arithmetic on sixteen tokens at a time.
//!
//! A value of the network exists once for each token. Here sixteen tokens lie next to each other, so that every
//! operation (products, sums over features, exponentials) is the same step on sixteen numbers, which the compiler
//! turns into vector instructions. Weights are used as they lie in the file: nothing is packed or transposed.
//!
//! Everything is inlined into its caller, which chooses the instruction set ([`super::encoder`]); `FUSED` says
//! whether that set multiplies and adds in one step, `ROWS` how many results it can keep in registers.

#![expect(clippy::needless_range_loop, reason = "the same lane of several arrays reads best by its number")]

/// Tokens that are computed together.
pub(super) const LANES: usize = 16;

/// One number for each of sixteen tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(super) struct Lanes(pub(super) [f32; LANES]);

impl Lanes {
    pub(super) const ZERO: Self = Self([0.0; LANES]);
}

#[inline(always)]
fn multiply_add<const FUSED: bool>(a: f32, b: f32, sum: f32) -> f32 {
    // Without the instruction `mul_add` is a slow function.
    if FUSED { a.mul_add(b, sum) } else { a * b + sum }
}

/// `out[r] = weights[r] · x`, where `weights` holds rows as long as `x`.
#[inline(always)]
pub(super) fn product<const FUSED: bool, const ROWS: usize>(weights: &[f32], x: &[Lanes], out: &mut [Lanes]) {
    let width = x.len();
    let mut blocks = weights.chunks_exact(width * ROWS);
    let mut results = out.chunks_exact_mut(ROWS);
    for (rows, out) in blocks.by_ref().zip(results.by_ref()) {
        block::<FUSED, ROWS>(rows, x, out);
    }
    let rest = results.into_remainder();
    for (row, out) in blocks.remainder().chunks_exact(width).zip(rest.chunks_exact_mut(1)) {
        block::<FUSED, 1>(row, x, out);
    }
}

#[inline(always)]
fn block<const FUSED: bool, const ROWS: usize>(rows: &[f32], x: &[Lanes], out: &mut [Lanes]) {
    let width = x.len();
    let mut sums = [[0.0_f32; LANES]; ROWS];
    let rows: [&[f32]; ROWS] =
        std::array::from_fn(|r| rows.get(r * width..(r + 1) * width).unwrap_or_default());
    if rows.iter().any(|row| row.len() != width) {
        return;
    }
    for (k, x) in x.iter().enumerate() {
        for r in 0..ROWS {
            let weight = rows[r][k];
            for lane in 0..LANES {
                sums[r][lane] = multiply_add::<FUSED>(weight, x.0[lane], sums[r][lane]);
            }
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        out.0 = sum;
    }
}

/// Scales the features of each token to mean 0 and variance 1, then by learned factors.
#[inline(always)]
pub(super) fn normalize(x: &mut [Lanes], weight: &[f32], bias: &[f32], epsilon: f32) {
    let count = x.len() as f32;
    let mut mean = [0.0_f32; LANES];
    for value in x.iter() {
        for lane in 0..LANES {
            mean[lane] += value.0[lane];
        }
    }
    mean = mean.map(|sum| sum / count);
    let mut scale = [0.0_f32; LANES];
    for value in x.iter() {
        for lane in 0..LANES {
            let away = value.0[lane] - mean[lane];
            scale[lane] += away * away;
        }
    }
    scale = scale.map(|sum| 1.0 / (sum / count + epsilon).sqrt());
    for ((value, weight), bias) in x.iter_mut().zip(weight).zip(bias) {
        for lane in 0..LANES {
            value.0[lane] = (value.0[lane] - mean[lane]) * scale[lane] * weight + bias;
        }
    }
}

/// Turns scores into shares that sum to 1 for each token.
#[inline(always)]
pub(super) fn softmax(scores: &mut [Lanes], factor: f32) {
    let mut highest = [f32::MIN; LANES];
    for score in scores.iter_mut() {
        for lane in 0..LANES {
            score.0[lane] *= factor;
            highest[lane] = highest[lane].max(score.0[lane]);
        }
    }
    let mut total = [0.0_f32; LANES];
    for score in scores.iter_mut() {
        for lane in 0..LANES {
            score.0[lane] = exponential(score.0[lane] - highest[lane]);
            total[lane] += score.0[lane];
        }
    }
    let share = total.map(|total| 1.0 / total);
    for score in scores.iter_mut() {
        for lane in 0..LANES {
            score.0[lane] *= share[lane];
        }
    }
}

/// `x · Φ(x)`, the exact form with the error function.
#[inline(always)]
pub(super) fn gelu(x: &mut Lanes) {
    for value in &mut x.0 {
        *value = 0.5 * *value * (1.0 + error_function(*value * std::f32::consts::FRAC_1_SQRT_2));
    }
}

/// Abramowitz and Stegun 7.1.26: at most 1.5e-7 away.
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let polynomial =
        ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_7) * t - 0.284_496_74) * t + 0.254_829_6) * t;
    (1.0 - polynomial * exponential(-size * size)).copysign(x)
}

/// `e^x` within two units in the last place, without branches.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    /// Adding it leaves a whole number in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = (x - whole * 0.693_359_4) - whole * -2.121_944_4e-4;
    let polynomial = ((((1.987_569_1e-4 * r + 1.398_2e-3) * r + 8.333_452e-3) * r + 4.166_579_6e-2) * r
        + 1.666_666_5e-1)
        * r
        + 0.5;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    (polynomial * r * r + r + 1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, from -1 to 1.
    fn noise(count: usize) -> Vec<f32> {
        (0..count).map(|at| ((at as f32 * 12.9898).sin() * 43_758.547).fract()).collect()
    }

    #[test]
    fn every_variant_of_the_product_gives_the_same() {
        for (rows, width) in [(1, 1), (4, 8), (7, 5), (13, 32), (48, 3)] {
            let weights = noise(rows * width);
            let x: Vec<Lanes> =
                noise(width * LANES).as_chunks().0.iter().map(|values| Lanes(*values)).collect();
            let mut variants = vec![vec![Lanes::ZERO; rows]; 4];
            product::<true, 4>(&weights, &x, &mut variants[0]);
            product::<false, 2>(&weights, &x, &mut variants[1]);
            product::<false, 4>(&weights, &x, &mut variants[2]);
            product::<true, 8>(&weights, &x, &mut variants[3]);
            for row in 0..rows {
                for lane in 0..LANES {
                    let expected: f64 = (0..width)
                        .map(|k| f64::from(weights[row * width + k]) * f64::from(x[k].0[lane]))
                        .sum();
                    for variant in &variants {
                        assert!((f64::from(variant[row].0[lane]) - expected).abs() < 1e-5);
                    }
                }
            }
        }
    }

    #[test]
    fn exponential_and_error_function_are_exact_enough() {
        for step in -8_700..=880 {
            let x = step as f32 / 100.0;
            let expected = f64::from(x).exp();
            assert!((f64::from(exponential(x)) / expected - 1.0).abs() < 3e-7, "{x}");
        }
        assert!(exponential(-1e30) < 1e-37 && exponential(1e30).is_finite());
        let known = [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (5.0, 1.0)];
        for (x, expected) in known {
            assert!((error_function(x) - expected).abs() < 4e-7, "{x}");
            assert!((error_function(-x) + expected).abs() < 4e-7, "-{x}");
        }
    }

    #[test]
    fn shares_sum_to_one_and_normal_features_have_mean_zero() {
        let mut scores: Vec<Lanes> =
            noise(40 * LANES).as_chunks().0.iter().map(|values| Lanes(values.map(|v| v * 90.0))).collect();
        softmax(&mut scores, 1.5);
        let mut features = scores.clone();
        normalize(&mut features, &[1.0; 40], &[0.0; 40], 1e-12);
        for lane in 0..LANES {
            let total: f32 = scores.iter().map(|score| score.0[lane]).sum();
            assert!((total - 1.0).abs() < 1e-5);
            let mean: f32 = features.iter().map(|feature| feature.0[lane]).sum();
            let variance: f32 = features.iter().map(|feature| feature.0[lane].powi(2)).sum::<f32>() / 40.0;
            assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
        }
    }
}
