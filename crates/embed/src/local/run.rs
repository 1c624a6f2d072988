//! Runs many texts through one model in windows, batches and threads.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::encoder::Encoder;
use super::lanes::LANES;
use super::table::Table;
use super::tokenizer::{Memo, Tokenizer};
use super::{ModelError, to_unit};
use crate::batches::batches;

/// Tokens that neighbouring windows share at least.
const OVERLAP: usize = 32;
/// Of a text longer than this the rest is not seen. A chunk of notes has one to three windows.
const MAX_WINDOWS: usize = 64;
/// Groups of lanes that pass through the network together: enough to use each weight often while it is near.
const BATCH_GROUPS: usize = 32;
const MAX_THREADS: usize = 8;

/// Signals workers to stop.
#[derive(Debug, Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

/// Stops when it is dropped.
pub(super) struct StopGuard(Stop);

impl Stop {
    pub(super) fn guard(&self) -> StopGuard {
        StopGuard(self.clone())
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Vectors from a static table.
pub(super) fn look_up(
    table: &Table,
    tokenizer: &Tokenizer,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, ModelError> {
    let mut memo = Memo::new();
    let tokens: Vec<Vec<u32>> = texts
        .iter()
        .map(|text| {
            let mut ids = Vec::new();
            tokenizer.encode(text, &mut memo, &mut ids);
            ids
        })
        .collect();
    table.embed(&tokens)
}

/// A part of a text that fits into the encoder.
struct Window {
    text: usize,
    ids: Vec<u32>,
}

/// Vectors from an encoder. A text that is too long is read in overlapping windows; its vector is their mean.
pub(super) fn encode(
    encoder: &Encoder,
    tokenizer: &Tokenizer,
    limit: usize,
    texts: &[String],
    stop: &Stop,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let windows = windows(tokenizer, limit, texts);
    let batches = batches(&windows, usize::MAX, BATCH_GROUPS, |window| window.ids.len().div_ceil(LANES));
    let results: Vec<Mutex<Result<Vec<Vec<f32>>, ModelError>>> =
        batches.iter().map(|_| Mutex::new(Ok(Vec::new()))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while !stop.is_set() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(batch), Some(result)) = (batches.get(at), results.get(at)) else { break };
            let ids: Vec<&[u32]> = batch.iter().map(|window| window.ids.as_slice()).collect();
            let vectors = encoder.embed(&ids);
            if let Ok(mut result) = result.lock() {
                *result = vectors;
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(batches.len());
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut sums: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
    for (batch, result) in batches.iter().zip(results) {
        let vectors = result.into_inner().unwrap_or(Err(ModelError::Gone))?;
        for (window, vector) in batch.iter().zip(vectors) {
            add(&mut sums[window.text], vector);
        }
    }
    sums.iter_mut().for_each(|sum| to_unit(sum));
    Ok(sums)
}

fn add(sum: &mut Vec<f32>, vector: Vec<f32>) {
    if sum.is_empty() {
        *sum = vector;
    } else {
        sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
    }
}

fn windows(tokenizer: &Tokenizer, limit: usize, texts: &[String]) -> Vec<Window> {
    let room = limit.saturating_sub(tokenizer.before.len() + tokenizer.after.len()).max(1);
    let mut memo = Memo::new();
    let mut windows = Vec::new();
    for (text, content) in texts.iter().enumerate() {
        let mut ids = Vec::new();
        tokenizer.encode(content, &mut memo, &mut ids);
        for (from, to) in spread(ids.len(), room) {
            let inside = ids.get(from..to).unwrap_or_default();
            windows.push(Window { text, ids: [&tokenizer.before, inside, &tokenizer.after].concat() });
        }
    }
    windows
}

/// Cuts a length into the fewest windows that overlap enough, evenly spread.
fn spread(length: usize, room: usize) -> Vec<(usize, usize)> {
    let step = room.saturating_sub(OVERLAP).max(1);
    let count = length.saturating_sub(room).div_ceil(step).min(MAX_WINDOWS - 1) + 1;
    let length = length.min(room + (count - 1) * step);
    let last = length.saturating_sub(room);
    (0..count)
        .map(|at| {
            let from = if count == 1 { 0 } else { last * at / (count - 1) };
            (from, (from + room).min(length))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_text_and_overlap() {
        assert_eq!(spread(0, 254), [(0, 0)]);
        assert_eq!(spread(254, 254), [(0, 254)]);
        assert_eq!(spread(255, 254), [(0, 254), (1, 255)]);
        assert_eq!(spread(476, 254), [(0, 254), (222, 476)]);
        assert_eq!(spread(477, 254).len(), 3);
        for (length, room) in [(1_000, 254), (5_000, 254), (700, 40), (90, 10), (1_000_000, 254)] {
            let windows = spread(length, room);
            assert!(windows.len() <= MAX_WINDOWS, "{length}");
            for pair in windows.windows(2) {
                assert!(pair[0].1 - pair[0].0 == room && pair[1].0 <= pair[0].1, "{length} {pair:?}");
            }
            if windows.len() < MAX_WINDOWS {
                assert_eq!(windows.last().unwrap().1, length);
            }
        }
    }
}
