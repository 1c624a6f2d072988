//! The learned numbers of an encoder.

use std::thread;

use super::Shape;
use crate::local::ModelError;
use crate::local::safetensors::SafeTensors;

/// All weights except the word embeddings.
#[derive(Debug)]
pub(super) struct Weights {
    positions: Vec<f32>,
    /// Of the first type; texts have no second part here.
    kind: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer>,
}

/// Reading is most of what a single question waits for, and one processor does not use the memory's full speed.
fn in_two_halves<T: Send>(
    count: usize,
    load: impl Fn(usize) -> Result<T, ModelError> + Sync,
) -> Result<Vec<T>, ModelError> {
    thread::scope(|scope| {
        let second = scope.spawn(|| (count / 2..count).map(&load).collect::<Result<Vec<T>, _>>());
        let mut all = (0..count / 2).map(&load).collect::<Result<Vec<T>, _>>()?;
        all.extend(second.join().unwrap_or(Err(ModelError::Gone))?);
        Ok(all)
    })
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) query: Dense,
    pub(super) key: Dense,
    pub(super) value: Dense,
    pub(super) attended: Dense,
    pub(super) attended_norm: Norm,
    pub(super) inner: Dense,
    pub(super) outer: Dense,
    pub(super) outer_norm: Norm,
}

/// A matrix with a row for each output, and the bias.
#[derive(Debug)]
pub(super) struct Dense {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Norm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Weights {
    pub(super) fn load(shape: &Shape, file: &SafeTensors, prefix: &str) -> Result<Self, ModelError> {
        let (width, inner) = (shape.width, shape.inner);
        let norm = |name: &str| {
            let load = |part: &str| file.expect(&format!("{prefix}{name}.LayerNorm.{part}"), &[width]);
            Ok::<_, ModelError>(Norm { weight: load("weight")?, bias: load("bias")? })
        };
        let dense = |name: &str, to: usize, from: usize| {
            Ok::<_, ModelError>(Dense {
                weight: file.expect(&format!("{prefix}{name}.weight"), &[to, from])?,
                bias: file.expect(&format!("{prefix}{name}.bias"), &[to])?,
            })
        };
        let layer = |number: usize| {
            let at = format!("encoder.layer.{number}");
            Ok::<_, ModelError>(Layer {
                query: dense(&format!("{at}.attention.self.query"), width, width)?,
                key: dense(&format!("{at}.attention.self.key"), width, width)?,
                value: dense(&format!("{at}.attention.self.value"), width, width)?,
                attended: dense(&format!("{at}.attention.output.dense"), width, width)?,
                attended_norm: norm(&format!("{at}.attention.output"))?,
                inner: dense(&format!("{at}.intermediate.dense"), inner, width)?,
                outer: dense(&format!("{at}.output.dense"), width, inner)?,
                outer_norm: norm(&format!("{at}.output"))?,
            })
        };
        let table = |name: &str, rows: usize| {
            file.expect(&format!("{prefix}embeddings.{name}_embeddings.weight"), &[rows, width])
        };
        let mut kind = table("token_type", shape.types)?;
        kind.truncate(width);
        Ok(Self {
            positions: table("position", shape.positions)?,
            kind,
            norm: norm("embeddings")?,
            layers: in_two_halves(shape.layers, layer)?,
        })
    }

    /// Adds the position embedding to a word's vector.
    pub(super) fn add_position(&self, shape: &Shape, at: usize, row: &mut [f32]) {
        let position = self.positions.get(at * shape.width..).unwrap_or_default();
        for ((value, position), kind) in row.iter_mut().zip(position).zip(&self.kind) {
            *value += position + kind;
        }
    }
}
