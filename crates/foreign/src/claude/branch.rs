//! Selects the records on the branch of the last message.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;

use crate::json::{self, Field};
use crate::lines;

use super::Line;

/// The lines of a file to use.
pub(super) struct Kept {
    /// By the number of the line; lines beyond the end count.
    lines: Vec<bool>,
}

impl Kept {
    pub(super) fn everything() -> Self {
        Self { lines: Vec::new() }
    }

    pub(super) fn has(&self, line: usize) -> bool {
        self.lines.get(line).copied().unwrap_or(true)
    }
}

/// A number for a `uuid`; texts are too large to keep one for each line.
pub(super) fn mark(uuid: Field<'_>) -> Option<u64> {
    let text = json::text(uuid)?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Some(hasher.finish())
}

#[derive(Clone, Copy)]
struct Step {
    line: usize,
    parent: Option<u64>,
}

/// Walks from the last message of the session back to its beginning.
pub(super) fn last(path: &Path) -> io::Result<Kept> {
    let mut steps: HashMap<u64, Step> = HashMap::new();
    let mut is_step = Vec::new();
    let mut end = None;
    lines::each(path, &mut |text| {
        let number = is_step.len();
        is_step.push(false);
        let Ok(line) = serde_json::from_str::<Line<'_>>(text) else { return };
        let Some(uuid) = mark(line.uuid).filter(|_| !json::is_true(line.is_sidechain)) else { return };
        // After a compaction the tree starts again, but the conversation continues.
        let parent = mark(line.parent_uuid).or_else(|| mark(line.logical_parent_uuid));
        steps.insert(uuid, Step { line: number, parent });
        if let Some(last) = is_step.last_mut() {
            *last = true;
        }
        if matches!(json::text(line.kind).as_deref(), Some("user" | "assistant")) {
            end = Some(uuid);
        }
    })?;
    let Some(end) = end else { return Ok(Kept::everything()) };
    // Lines outside of the tree are kept, those in it when the walk reaches them.
    let mut lines: Vec<bool> = is_step.iter().map(|is_step| !is_step).collect();
    let mut next = Some(end);
    let mut oldest = usize::MAX;
    while let Some(uuid) = next {
        let Some(step) = steps.get(&uuid) else {
            // The parent is missing: everything before counts.
            lines.iter_mut().take(oldest).for_each(|line| *line = true);
            break;
        };
        let Some(line) = lines.get_mut(step.line).filter(|line| !**line) else { break };
        *line = true;
        oldest = oldest.min(step.line);
        next = step.parent;
    }
    Ok(Kept { lines })
}
