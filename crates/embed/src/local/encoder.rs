//! A small BERT encoder (all-MiniLM and its like): tokens in, one vector for the text out.

mod forward;
mod weights;

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::safetensors::{SafeTensors, Tensor};
use super::{ModelError, to_unit};
use forward::{Batch, forward};
use weights::Weights;

/// Tokens that are read together. The model was trained on no more, though it has more positions.
const MAX_WINDOW: usize = 256;
/// Sides of a network that anything this small has; keeps sizes far from overflow.
const MAX_SIDE: usize = 16_384;

/// An encoder with its weights in memory; the table of words stays in the file.
#[derive(Debug)]
pub(super) struct Encoder {
    shape: Shape,
    weights: Weights,
    file: SafeTensors,
    words: Tensor,
}

/// The measures of the network.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Shape {
    #[serde(rename = "hidden_size")]
    width: usize,
    #[serde(rename = "num_attention_heads")]
    heads: usize,
    #[serde(rename = "num_hidden_layers")]
    layers: usize,
    #[serde(rename = "intermediate_size")]
    inner: usize,
    #[serde(rename = "layer_norm_eps")]
    epsilon: f32,
    #[serde(rename = "max_position_embeddings")]
    positions: usize,
    #[serde(rename = "type_vocab_size")]
    types: usize,
    #[serde(rename = "vocab_size")]
    vocabulary: usize,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    /// Whether the first token represents the text, instead of the mean of all tokens.
    #[serde(skip)]
    first_token: bool,
}

impl Shape {
    /// Reads `config.json` and, if it is there, how the tokens become one vector.
    pub(super) fn read(config: &Path) -> Result<Self, ModelError> {
        let bad = |reason: String| ModelError::Content { path: config.to_owned(), reason };
        let text = pollux_config::files::read_text(config).map_err(|error| bad(error.to_string()))?;
        let text = text.ok_or_else(|| bad("the file is missing, and an encoder requires it".to_owned()))?;
        let mut shape: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if shape.hidden_act != "gelu" {
            return Err(bad(format!("the activation `{}` is not supported, only `gelu`", shape.hidden_act)));
        }
        if shape.position_embedding_type.as_deref().is_some_and(|kind| kind != "absolute") {
            return Err(bad("only absolute positions are supported".to_owned()));
        }
        let sides = [shape.width, shape.heads, shape.layers, shape.inner, shape.positions];
        let small = sides.iter().all(|side| (1..=MAX_SIDE).contains(side));
        if !small || !shape.width.is_multiple_of(shape.heads) || shape.positions < 8 {
            return Err(bad("its layer sizes are inconsistent".to_owned()));
        }
        shape.first_token = takes_first_token(config);
        Ok(shape)
    }

    /// Tokens that one pass may read, those around the text included.
    pub(super) fn window(&self) -> usize {
        self.positions.min(MAX_WINDOW)
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    fn head_width(&self) -> usize {
        self.width / self.heads
    }
}

fn takes_first_token(config: &Path) -> bool {
    let pooling = config.with_file_name("1_Pooling").join("config.json");
    let text = pollux_config::files::read_text(&pooling).ok().flatten().unwrap_or_default();
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    value["pooling_mode_cls_token"] == true
}

impl Encoder {
    pub(super) fn load(shape: Shape, file: SafeTensors) -> Result<Self, ModelError> {
        let prefix = if file.get("bert.embeddings.word_embeddings.weight").is_some() { "bert." } else { "" };
        let weights = Weights::load(&shape, &file, prefix)?;
        let name = format!("{prefix}embeddings.word_embeddings.weight");
        let words = file.tensor(&name, &[shape.vocabulary, shape.width])?.clone();
        Ok(Self { shape, weights, file, words })
    }

    /// One vector of length 1 for each list of tokens, none longer than [`Shape::window`].
    pub(super) fn embed(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut batch = Batch::new(self.shape.width, texts.iter().map(|ids| ids.len()));
        let mut row = Vec::new();
        for (text, ids) in texts.iter().enumerate() {
            for (at, id) in ids.iter().enumerate() {
                row.clear();
                self.file.read_row(&self.words, *id as usize, &mut row)?;
                self.weights.add_position(&self.shape, at, &mut row);
                batch.set(text, at, &row);
            }
        }
        forward(&self.shape, &self.weights, &mut batch);
        let vectors = (0..texts.len()).map(|text| {
            let mut vector = batch.pooled(text, self.shape.first_token);
            to_unit(&mut vector);
            vector
        });
        Ok(vectors.collect())
    }
}
