//! Splits documents into chunks, the unit of embedding, search and citation.

use pollux_config::paths::sha256_hex;

use crate::dates;
use crate::scripts::is_cjk;
use crate::settings::{ChunkMode, Chunking};
use crate::source::{Document, Provenance, Source, SourceLine};

/// Characters for each token.
const PER_TOKEN: usize = 4;
const LEAST_CHARS: usize = 32;

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start_line: usize,
    pub(crate) end_line: usize,
    pub(crate) text: String,
    pub(crate) hash: String,
    /// The headings above it, joined.
    pub(crate) trail: String,
    /// `2026-01-31`, if the note has a date.
    pub(crate) date: Option<String>,
    pub(crate) provenance: Provenance,
}

impl Chunk {
    /// The documented identity.
    pub(crate) fn id(&self, source: Source, path: &str, model: &str) -> String {
        let Self { start_line, end_line, hash, .. } = self;
        sha256_hex(format!("{}:{path}:{start_line}:{end_line}:{hash}:{model}", source.as_str()).as_bytes())
    }

    /// The text to embed. The stored text stays as in the file.
    pub(crate) fn embedded(&self, mode: ChunkMode) -> String {
        let date = self.date.as_deref().unwrap_or_default();
        match mode {
            ChunkMode::V2 if !self.trail.is_empty() || !date.is_empty() => {
                let head: Vec<&str> =
                    [date, &self.trail].into_iter().filter(|part| !part.is_empty()).collect();
                format!("{}\n{}", head.join(" "), self.text)
            }
            ChunkMode::V2 | ChunkMode::Seed => self.text.clone(),
        }
    }

    /// The cache key of its embedding.
    pub(crate) fn vector_hash(&self, mode: ChunkMode) -> String {
        match mode {
            ChunkMode::Seed => self.hash.clone(),
            ChunkMode::V2 => sha256_hex(self.embedded(mode).as_bytes()),
        }
    }
}

/// Splits a document.
pub(crate) fn chunks(document: &Document, path: &str, source: Source, chunking: Chunking) -> Vec<Chunk> {
    let max = (chunking.tokens * PER_TOKEN).max(LEAST_CHARS);
    let overlap = chunking.overlap * PER_TOKEN;
    let rules = Rules { mode: chunking.mode, source, curated: is_curated(path), max, overlap };
    let mut cutter = Cutter { rules, held: Vec::new(), cost: 0, carried: 0, pieces: Vec::new() };
    for line in &document.lines {
        cutter.line(line);
    }
    cutter.flush();
    let trails = Trails::of(document, path);
    let of_file = dates::of_path(path).or_else(|| document.date.clone());
    cutter.pieces.into_iter().map(|piece| piece.chunk(&trails, of_file.as_deref())).collect()
}

/// Notes that are lists of facts.
fn is_curated(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("MEMORY.md" | "memory.md" | "LEARNINGS.md"))
}

struct Rules {
    mode: ChunkMode,
    source: Source,
    curated: bool,
    max: usize,
    overlap: usize,
}

impl Rules {
    /// Whether a line begins something new.
    fn begins(&self, text: &str) -> bool {
        match (self.mode, self.source) {
            (ChunkMode::Seed, _) => false,
            (ChunkMode::V2, Source::Sessions) => text.starts_with("User: "),
            (ChunkMode::V2, Source::Memory) => {
                heading(text).is_some() || (self.curated && text.starts_with("- "))
            }
        }
    }

    fn cost(&self, text: &str) -> usize {
        match self.mode {
            ChunkMode::Seed => utf16(text) + 1,
            // Each such character is a token.
            ChunkMode::V2 => utf16(text) + 1 + (PER_TOKEN - 1) * text.chars().filter(|c| is_cjk(*c)).count(),
        }
    }
}

#[derive(Clone)]
struct Segment {
    line: usize,
    text: String,
    cost: usize,
    provenance: Provenance,
}

struct Piece {
    segments: Vec<Segment>,
}

struct Cutter {
    rules: Rules,
    held: Vec<Segment>,
    cost: usize,
    /// How many of those held stand in the chunk before too.
    carried: usize,
    pieces: Vec<Piece>,
}

impl Cutter {
    fn line(&mut self, line: &SourceLine) {
        if self.rules.begins(&line.text) && self.held.len() > self.carried {
            self.flush();
            self.held.clear();
            (self.cost, self.carried) = (0, 0);
        }
        for text in segments(&line.text, self.rules.max) {
            let cost = self.rules.cost(text);
            if self.cost + cost > self.rules.max && !self.held.is_empty() {
                self.flush();
                self.carry(cost);
            }
            self.cost += cost;
            self.held.push(Segment {
                line: line.number,
                text: text.to_owned(),
                cost,
                provenance: line.provenance,
            });
        }
    }

    fn flush(&mut self) {
        if self.held.len() > self.carried && self.held.iter().any(|segment| !segment.text.trim().is_empty()) {
            self.pieces.push(Piece { segments: self.held.clone() });
        }
    }

    /// Keeps the last lines for the next chunk, whole ones only.
    fn carry(&mut self, next: usize) {
        let room = match self.rules.mode {
            ChunkMode::Seed => usize::MAX,
            ChunkMode::V2 => self.rules.max.saturating_sub(next),
        };
        let (mut sum, mut from) = (0, self.held.len());
        while sum < self.rules.overlap
            && let Some(segment) = from.checked_sub(1).and_then(|index| self.held.get(index))
            && sum + segment.cost <= room
        {
            sum += segment.cost;
            from -= 1;
        }
        self.held.drain(..from);
        (self.cost, self.carried) = (sum, self.held.len());
    }
}

impl Piece {
    fn chunk(self, trails: &Trails, of_file: Option<&str>) -> Chunk {
        let first = self.segments.first().map_or(1, |segment| segment.line);
        let last = self.segments.last().map_or(first, |segment| segment.line);
        let provenance = self.segments.iter().map(|segment| segment.provenance).max();
        let texts: Vec<&str> = self.segments.iter().map(|segment| segment.text.as_str()).collect();
        let text = texts.join("\n");
        let trail = trails.at(first);
        let date =
            dates::of_item(&text).or_else(|| dates::in_text(&trail)).or_else(|| of_file.map(str::to_owned));
        Chunk {
            start_line: first,
            end_line: last,
            hash: sha256_hex(text.as_bytes()),
            text,
            trail,
            date,
            provenance: provenance.unwrap_or(Provenance::Untrusted),
        }
    }
}

/// The headings above every place of a note.
struct Trails {
    /// Where a heading stands, and the trail from there on.
    changes: Vec<(usize, String)>,
}

impl Trails {
    fn of(document: &Document, path: &str) -> Self {
        let mut open: Vec<(usize, String)> = Vec::new();
        let mut changes = Vec::new();
        let mut fenced = false;
        let is_note = !path.starts_with("sessions/");
        for line in document.lines.iter().filter(|_| is_note) {
            if line.text.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            let Some((level, title)) = heading(&line.text).filter(|_| !fenced) else { continue };
            open.retain(|(other, _)| *other < level);
            open.push((level, title.to_owned()));
            let titles: Vec<&str> = open.iter().map(|(_, title)| title.as_str()).collect();
            changes.push((line.number, titles.join(" > ")));
        }
        Self { changes }
    }

    fn at(&self, line: usize) -> String {
        let after = self.changes.partition_point(|(number, _)| *number <= line);
        after
            .checked_sub(1)
            .and_then(|index| self.changes.get(index))
            .map_or_else(String::new, |(_, trail)| trail.clone())
    }
}

fn heading(text: &str) -> Option<(usize, &str)> {
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let title = text.get(level..)?.strip_prefix(' ')?.trim();
    ((1..=6).contains(&level) && !title.is_empty()).then_some((level, title))
}

/// A line in pieces of at most `max` units of UTF-16, as its writers count. An empty line is one piece.
fn segments(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if text.len() <= max {
            return Some(text);
        }
        let mut units = 0;
        let cut = text.char_indices().find(|(_, c)| {
            units += c.len_utf16();
            units > max
        });
        let Some((at, _)) = cut else { return Some(text) };
        let (piece, after) = text.split_at_checked(at)?;
        rest = Some(after);
        Some(piece)
    })
}

pub(crate) fn utf16(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

#[cfg(test)]
mod tests;
