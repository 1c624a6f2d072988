//! A static table: one vector for each token; a text is their mean.

use std::sync::OnceLock;

use super::safetensors::{SafeTensors, Tensor};
use super::{ModelError, to_unit};

/// With more tokens than this in one call the whole table is read; fewer rows are read one by one.
const WORTH_ALL: usize = 2_000;
/// How the table is named: by WordLlama and by Model2Vec.
const NAMES: [&str; 2] = ["embedding.weight", "embeddings"];

#[derive(Debug)]
pub(super) struct Table {
    file: SafeTensors,
    table: Tensor,
    /// The importance of each token (Model2Vec), if it differs.
    weights: Option<Vec<f32>>,
    /// Which row each token has, if not its own (Model2Vec with shared rows).
    rows: Option<Vec<f32>>,
    all: OnceLock<Vec<f32>>,
    /// Not counted in the mean (Model2Vec leaves the unknown token out).
    skipped: Option<u32>,
}

impl Table {
    /// `None` if the file contains no static embedding table.
    pub(super) fn open(file: SafeTensors, unknown: Option<u32>) -> Result<Option<Self>, ModelError> {
        let found = NAMES.iter().find_map(|name| Some((*name, file.get(name)?.clone())));
        let Some((name, table)) = found.filter(|(_, table)| table.shape.len() == 2) else { return Ok(None) };
        let optional = |name: &str| file.get(name).map(|tensor| file.read(tensor)).transpose();
        let (weights, rows) = (optional("weights")?, optional("mapping")?);
        let skipped = unknown.filter(|_| name == NAMES[1]);
        Ok(Some(Self { table, weights, rows, all: OnceLock::new(), skipped, file }))
    }

    pub(super) fn width(&self) -> usize {
        self.table.shape.get(1).copied().unwrap_or_default()
    }

    /// One vector for each list of tokens.
    pub(super) fn embed(&self, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, ModelError> {
        let tokens: usize = texts.iter().map(Vec::len).sum();
        if tokens > WORTH_ALL && self.all.get().is_none() {
            let _ = self.all.set(self.file.read(&self.table)?);
        }
        texts.iter().map(|ids| self.mean(ids)).collect()
    }

    fn mean(&self, ids: &[u32]) -> Result<Vec<f32>, ModelError> {
        let width = self.width();
        let mut sum = vec![0.0_f32; width];
        let mut row = Vec::with_capacity(width);
        for id in ids.iter().filter(|id| Some(**id) != self.skipped) {
            let at = self.row_of(*id);
            let weight = self.weights.as_ref().and_then(|all| all.get(*id as usize)).copied().unwrap_or(1.0);
            let known = self.all.get().and_then(|all| all.get(at * width..(at + 1) * width));
            let values = if let Some(values) = known {
                values
            } else {
                row.clear();
                self.file.read_row(&self.table, at, &mut row)?;
                &row
            };
            for (sum, value) in sum.iter_mut().zip(values) {
                *sum += weight * value;
            }
        }
        to_unit(&mut sum);
        Ok(sum)
    }

    fn row_of(&self, id: u32) -> usize {
        match &self.rows {
            // Whole numbers below 2^24 are exact.
            Some(rows) => rows.get(id as usize).map_or(u32::MAX as usize, |row| *row as usize),
            None => id as usize,
        }
    }
}
