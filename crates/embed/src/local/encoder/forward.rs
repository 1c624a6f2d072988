//! The pass through the network.

use super::Shape;
use super::weights::{Dense, Layer, Weights};
use crate::local::lanes::{LANES, Lanes, gelu, normalize, product, softmax};

/// Rows of a matrix that stay in the cache while all tokens pass by.
const BLOCK: usize = 48;

/// A batch of texts during inference. Each text starts in its own lanes.
pub(super) struct Batch {
    width: usize,
    spans: Vec<Span>,
    /// For each group of sixteen tokens all features in turn.
    values: Vec<Lanes>,
}

/// The place of one text.
#[derive(Clone, Copy)]
struct Span {
    first_group: usize,
    groups: usize,
    tokens: usize,
}

impl Batch {
    pub(super) fn new(width: usize, lengths: impl Iterator<Item = usize>) -> Self {
        let mut next = 0;
        let spans: Vec<Span> = lengths
            .map(|tokens| {
                let groups = tokens.div_ceil(LANES);
                next += groups;
                Span { first_group: next - groups, groups, tokens }
            })
            .collect();
        Self { width, spans, values: vec![Lanes::ZERO; next * width] }
    }

    /// Sets the features of one token.
    pub(super) fn set(&mut self, text: usize, token: usize, features: &[f32]) {
        let group = self.spans[text].first_group + token / LANES;
        let values = &mut self.values[group * self.width..];
        for (value, feature) in values.iter_mut().zip(features) {
            value.0[token % LANES] = *feature;
        }
    }

    /// The mean of a text's tokens, or its first.
    pub(super) fn pooled(&self, text: usize, first_token: bool) -> Vec<f32> {
        let span = self.spans[text];
        let tokens = if first_token { span.tokens.min(1) } else { span.tokens };
        let mut sum = vec![0.0; self.width];
        for token in 0..tokens {
            let group = span.first_group + token / LANES;
            for (sum, value) in sum.iter_mut().zip(&self.values[group * self.width..]) {
                *sum += value.0[token % LANES];
            }
        }
        sum
    }
}

/// Runs all layers with the best instructions that this processor has.
pub(super) fn forward(shape: &Shape, weights: &Weights, batch: &mut Batch) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        #[expect(unsafe_code, reason = "a function for a newer processor cannot be called otherwise")]
        // SAFETY: support for these instruction sets has just been detected.
        return unsafe { forward_avx512(shape, weights, batch) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        #[expect(unsafe_code, reason = "a function for a newer processor cannot be called otherwise")]
        // SAFETY: support for both instruction sets has just been detected.
        return unsafe { forward_avx2(shape, weights, batch) };
    }
    // Four rows at a time would use up all sixteen registers.
    #[cfg(target_arch = "x86_64")]
    run::<false, 2>(shape, weights, batch);
    #[cfg(not(target_arch = "x86_64"))]
    run::<{ cfg!(target_arch = "aarch64") }, 4>(shape, weights, batch);
}

/// All sixteen tokens are in one register, so that twice as many rows fit.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
fn forward_avx512(shape: &Shape, weights: &Weights, batch: &mut Batch) {
    run::<true, 8>(shape, weights, batch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn forward_avx2(shape: &Shape, weights: &Weights, batch: &mut Batch) {
    run::<true, 4>(shape, weights, batch);
}

#[inline(always)]
fn run<const FUSED: bool, const ROWS: usize>(shape: &Shape, weights: &Weights, batch: &mut Batch) {
    let Batch { width, spans, values } = batch;
    for group in values.chunks_exact_mut(*width) {
        normalize(group, &weights.norm.weight, &weights.norm.bias, shape.epsilon);
    }
    let groups = values.len() / *width;
    let mut scratch = Scratch {
        query: vec![Lanes::ZERO; values.len()],
        key: vec![Lanes::ZERO; values.len()],
        value: vec![Lanes::ZERO; values.len()],
        attended: vec![Lanes::ZERO; values.len()],
        inner: vec![Lanes::ZERO; groups * shape.inner],
        head: Vec::new(),
        scores: Vec::new(),
    };
    for layer in &weights.layers {
        run_layer::<FUSED, ROWS>(shape, layer, spans, values, &mut scratch);
    }
}

/// Buffers of a layer, reused by the next one.
struct Scratch {
    query: Vec<Lanes>,
    key: Vec<Lanes>,
    value: Vec<Lanes>,
    attended: Vec<Lanes>,
    inner: Vec<Lanes>,
    head: Vec<f32>,
    scores: Vec<Lanes>,
}

#[inline(always)]
fn run_layer<const FUSED: bool, const ROWS: usize>(
    shape: &Shape,
    layer: &Layer,
    spans: &[Span],
    values: &mut [Lanes],
    scratch: &mut Scratch,
) {
    let (width, epsilon) = (shape.width, shape.epsilon);
    dense::<FUSED, ROWS>(&layer.query, width, values, &mut scratch.query);
    dense::<FUSED, ROWS>(&layer.key, width, values, &mut scratch.key);
    dense::<FUSED, ROWS>(&layer.value, width, values, &mut scratch.value);
    for span in spans {
        for head in 0..shape.heads {
            attend::<FUSED, ROWS>(shape, *span, head, scratch);
        }
    }
    dense::<FUSED, ROWS>(&layer.attended, width, &scratch.attended, &mut scratch.query);
    add(values, &scratch.query);
    for group in values.chunks_exact_mut(width) {
        normalize(group, &layer.attended_norm.weight, &layer.attended_norm.bias, epsilon);
    }
    dense::<FUSED, ROWS>(&layer.inner, width, values, &mut scratch.inner);
    scratch.inner.iter_mut().for_each(gelu);
    dense::<FUSED, ROWS>(&layer.outer, shape.inner, &scratch.inner, &mut scratch.query);
    add(values, &scratch.query);
    for group in values.chunks_exact_mut(width) {
        normalize(group, &layer.outer_norm.weight, &layer.outer_norm.bias, epsilon);
    }
}

/// A matrix applied to every token.
#[inline(always)]
fn dense<const FUSED: bool, const ROWS: usize>(
    matrix: &Dense,
    from: usize,
    values: &[Lanes],
    out: &mut [Lanes],
) {
    let to = matrix.bias.len();
    for (number, block) in matrix.weight.chunks(BLOCK * from).enumerate() {
        let rows = number * BLOCK..number * BLOCK + block.len() / from;
        for (values, out) in values.chunks_exact(from).zip(out.chunks_exact_mut(to)) {
            let out = &mut out[rows.clone()];
            product::<FUSED, ROWS>(block, values, out);
            for (out, bias) in out.iter_mut().zip(&matrix.bias[rows.clone()]) {
                out.0.iter_mut().for_each(|value| *value += bias);
            }
        }
    }
}

#[inline(always)]
fn add(values: &mut [Lanes], more: &[Lanes]) {
    for (value, more) in values.iter_mut().zip(more) {
        for lane in 0..LANES {
            value.0[lane] += more.0[lane];
        }
    }
}

/// One head's attention inside of one text. Keys and values become the matrix of a product, so that only tokens
/// that exist take part.
#[inline(always)]
fn attend<const FUSED: bool, const ROWS: usize>(
    shape: &Shape,
    span: Span,
    head: usize,
    scratch: &mut Scratch,
) {
    let (width, head_width) = (shape.width, shape.head_width());
    let features = |token: usize| (span.first_group + token / LANES) * width + head * head_width;
    let factor = 1.0 / (head_width as f32).sqrt();
    let (keys, values) = split_head(&mut scratch.head, span.tokens * head_width);
    for token in 0..span.tokens {
        let from = features(token);
        for feature in 0..head_width {
            keys[token * head_width + feature] = scratch.key[from + feature].0[token % LANES];
            values[feature * span.tokens + token] = scratch.value[from + feature].0[token % LANES];
        }
    }
    scratch.scores.clear();
    scratch.scores.resize(span.tokens, Lanes::ZERO);
    for group in 0..span.groups {
        let at = features(group * LANES);
        product::<FUSED, ROWS>(keys, &scratch.query[at..at + head_width], &mut scratch.scores);
        softmax(&mut scratch.scores, factor);
        product::<FUSED, ROWS>(values, &scratch.scores, &mut scratch.attended[at..at + head_width]);
    }
}

#[inline(always)]
fn split_head(buffer: &mut Vec<f32>, half: usize) -> (&mut [f32], &mut [f32]) {
    buffer.resize(half * 2, 0.0);
    buffer.split_at_mut(half)
}
