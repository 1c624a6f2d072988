//! How fast a model is.

use std::time::Instant;

use pollux_domain::embedding::Embedder as _;
use pollux_embed::LocalModel;

/// About 256 tokens of plain English.
const CHUNK: &str = "The agent remembers what it was told and where it was said. ";

pub(crate) fn print(model: &LocalModel) {
    let name = &model.origin().model;
    let question = ["where did we write down how the staging server is reached?".to_owned()];
    let started = Instant::now();
    model.embed_now(&question).unwrap();
    let first = started.elapsed();
    let mut each: Vec<f64> = (0..50)
        .map(|_| {
            let started = Instant::now();
            model.embed_now(&question).unwrap();
            started.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    each.sort_by(f64::total_cmp);
    // Thirteen tokens and a full stop each; two more stand around the text.
    let chunks: Vec<String> = (0..48).map(|_| CHUNK.repeat(18)).collect();
    model.embed_now(&chunks[..8]).unwrap();
    let started = Instant::now();
    model.embed_now(&chunks).unwrap();
    let rate = chunks.len() as f64 / started.elapsed().as_secs_f64();
    println!(
        "{name}: first question {:.1} ms, then {:.2} ms (p95 {:.2}); {rate:.1} chunks of 256 tokens in a second",
        first.as_secs_f64() * 1000.0,
        each[25],
        each[47]
    );
}
