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
