//! Fuzzy matching of lines, the last resort of `replace`. The thresholds are upstream's.

use super::distance::bounded;
use super::ladder::{Block, Edit, Lines, Matched};

/// Shorter texts are too easily similar to something.
const MIN_CHARS: usize = 10;
/// Lines of the file times the square of the text's length.
const MAX_WORK: u128 = 400_000_000;
/// A tenth of the text may differ.
const THRESHOLD: f64 = 0.1;
/// Differences in white space count for a tenth.
const WHITE_SPACE_WEIGHT: f64 = 0.1;

struct Candidate {
    start: usize,
    score: f64,
}

/// The best matches that do not overlap; of equal ones the earlier.
pub(super) fn find(lines: &Lines<'_>, block: &Block<'_>) -> Option<Matched> {
    let wanted = trimmed(&block.old);
    let length = wanted.chars().count();
    let work = (lines.texts.len() as u128) * (length as u128) * (length as u128);
    if length < MIN_CHARS || work > MAX_WORK {
        return None;
    }
    let count = block.old.len();
    let target = Target::new(&wanted);
    let mut candidates: Vec<Candidate> = lines
        .texts
        .windows(count)
        .enumerate()
        .filter_map(|(start, window)| Some(Candidate { start, score: target.score(&trimmed(window))? }))
        .collect();
    candidates.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.start.cmp(&b.start)));
    let mut chosen: Vec<usize> = Vec::new();
    for candidate in candidates {
        if chosen.iter().all(|start| start.abs_diff(candidate.start) >= count) {
            chosen.push(candidate.start);
        }
    }
    chosen.sort_unstable();
    let edits: Vec<Edit> = chosen.iter().map(|start| block.edit(lines, *start..start + count)).collect();
    let similar_lines = chosen.iter().map(|start| (start + 1, start + count)).collect();
    (!edits.is_empty()).then_some(Matched { edits, similar_lines })
}

fn trimmed(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

struct Target {
    chars: Vec<char>,
    without_space: Vec<char>,
}

impl Target {
    fn new(text: &str) -> Self {
        Self { chars: text.chars().collect(), without_space: stripped(text) }
    }

    /// How far a window is from the text, relative to its length; `None` if too far.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths are far below 2^52, and the products are positive"
    )]
    fn score(&self, window: &str) -> Option<f64> {
        let chars: Vec<char> = window.chars().collect();
        let length = self.chars.len() as f64;
        if chars.len().abs_diff(self.chars.len()) as f64 / length > THRESHOLD / WHITE_SPACE_WEIGHT {
            return None;
        }
        let allowed = (THRESHOLD * length).floor() as usize;
        let essential = bounded(&stripped(window), &self.without_space, allowed)?;
        // Any greater distance would put the score over the threshold.
        let room = (THRESHOLD * length - essential as f64) / WHITE_SPACE_WEIGHT;
        let raw = bounded(&chars, &self.chars, essential + room.ceil() as usize)?;
        let space = raw.saturating_sub(essential) as f64;
        let score = (essential as f64 + space * WHITE_SPACE_WEIGHT) / length;
        (score <= THRESHOLD).then_some(score)
    }
}

fn stripped(text: &str) -> Vec<char> {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
