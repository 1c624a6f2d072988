//! Pastes: paths that were dropped, `@` signs that are only text, and pastes that a terminal does not mark as such.

use std::time::Instant;

use pollux_domain::percent;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind};

use super::buffer::{Buffer, Pos};
use super::completion::escape_reference;
use super::folds::lines;
use super::input::{QUICK, is_line_feed, is_within, typed_char};
use super::{Composer, Expanded, Pastes, Reaction, Toast, VimMode};

/// As many text keys in one read, or in quick succession, are a paste.
pub(super) const BURST: usize = 16;
/// Bytes a prompt may have with all pastes in full.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// A longer text is not a list of paths.
const LONGEST_DROP: usize = 16 * 1024;
const IMAGES: [&str; 9] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "heic", "heif", "svg"];

/// References to the files a paste names, when it is nothing but paths of files that exist.
fn dropped(text: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST_DROP {
        return None;
    }
    let whole = clean(text);
    let paths = if looks_like_path(&whole) && exists(&whole) { vec![whole] } else { words(text) };
    let all = !paths.is_empty() && paths.iter().all(|path| looks_like_path(path) && exists(path));
    all.then(|| paths.iter().map(|path| format!("@{} ", escape_reference(path))).collect())
}

/// Excludes prose: a bare word may also be a file name.
fn looks_like_path(text: &str) -> bool {
    let is_rooted = text.starts_with('/') && !text.starts_with("//");
    let is_relative = ["./", "../", "~/"].iter().any(|start| text.starts_with(start));
    let is_drive = text.get(1..3).is_some_and(|colon| colon == ":\\" || colon == ":/");
    let is_image = text
        .rsplit_once('.')
        .is_some_and(|(_, ending)| IMAGES.iter().any(|image| ending.eq_ignore_ascii_case(image)));
    !text.contains('\n') && (is_rooted || is_relative || is_drive || is_image)
}

/// One path without quotes, `file://` or percent signs.
fn clean(text: &str) -> String {
    let bare = ['"', '\''].iter().find_map(|quote| {
        text.strip_prefix(*quote)?.strip_suffix(*quote).filter(|inner| !inner.contains(*quote))
    });
    let text = bare.unwrap_or(text);
    match text.strip_prefix("file://") {
        Some(path) => {
            String::from_utf8_lossy(&percent::decode(path.strip_prefix("localhost").unwrap_or(path)))
                .into_owned()
        }
        None => text.to_owned(),
    }
}

/// Paths as terminals write several of them: separated by blanks, quoted or escaped.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\', None) => word.extend(chars.next()),
            (c, None) if c.is_whitespace() => words.push(clean(&std::mem::take(&mut word))),
            (c, _) => word.push(c),
        }
    }
    words.push(clean(&word));
    words.retain(|word| !word.is_empty());
    words
}

/// `@` as text: each gets a backslash unless it has one.
fn escape_at(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut backslashes = 0;
    for c in text.chars() {
        if c == '@' && backslashes % 2 == 0 {
            escaped.push('\\');
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        escaped.push(c);
    }
    escaped
}

/// A paste that arrives as keys, in several reads.
#[derive(Debug, Clone)]
pub(crate) struct Burst {
    start: Pos,
    end: Pos,
    revision: u64,
    sign: Option<char>,
    at: Instant,
}

impl Burst {
    /// Puts the first part in.
    pub(crate) fn begin(buffer: &mut Buffer, text: &str, now: Instant) -> Self {
        let start = buffer.cursor();
        let sign = buffer.insert_paste(text);
        Self { start, end: buffer.cursor(), revision: buffer.revision(), sign, at: now }
    }

    /// Whether the next keys belong to it.
    pub(crate) fn goes_on(&self, buffer: &Buffer, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= QUICK
            && buffer.cursor() == self.end
            && buffer.revision() == self.revision
    }

    /// Adds to it, so that it is one paste and one step to undo.
    pub(crate) fn add(&mut self, buffer: &mut Buffer, text: &str, now: Instant) {
        match self.sign {
            Some(sign) => {
                buffer.extend_fold(sign, text);
                self.at = now;
            }
            None => {
                let before = buffer.folds.expand(&buffer.slice(self.start..self.end));
                buffer.undo();
                *self = Self::begin(buffer, &(before + text), now);
            }
        }
    }
}

impl Composer {
    /// All keys one read brought, with what each came to. Many text keys at once are a paste that the terminal did
    /// not mark.
    pub fn keys(&mut self, events: &[KeyEvent], now: Instant) -> Vec<(KeyEvent, Reaction)> {
        let mut reactions = Vec::new();
        let mut rest = events;
        while let Some((first, tail)) = rest.split_first() {
            let ahead = if self.may_burst() { rest } else { &[] };
            let text: String = ahead.iter().map_while(pasted_char).collect();
            let count = text.chars().count();
            let goes_on = self.burst.as_ref().is_some_and(|burst| burst.goes_on(&self.buffer, now));
            if count >= BURST || (goes_on && count > 0) {
                reactions.push((*first, self.burst(&text, goes_on, now)));
                rest = rest.get(count..).unwrap_or_default();
            } else {
                reactions.push((*first, self.key(*first, now)));
                rest = tail;
            }
        }
        reactions
    }

    /// Whether the speed of keys tells pasted text from typed text.
    pub(super) fn may_burst(&self) -> bool {
        let is_unmarked = self.conditions.pastes == Pastes::Unmarked;
        is_unmarked && self.search.is_none() && self.vim_mode() != Some(VimMode::Normal)
    }

    fn burst(&mut self, text: &str, goes_on: bool, now: Instant) -> Reaction {
        self.completion.close();
        (self.taps.text, self.taps.quick) = (Some(now), BURST);
        if self.buffer.size() + text.len() > MOST_BYTES {
            return Reaction::Toast(Toast::PasteTooLong);
        }
        let is_split = is_within(self.taps.line_end.take(), QUICK, now) && text.starts_with('\n');
        self.taps.line_end = text.ends_with('\r').then_some(now);
        let text = lines(if is_split { text.strip_prefix('\n').unwrap_or(text) } else { text });
        match self.burst.take().filter(|_| goes_on) {
            Some(mut burst) => {
                burst.add(&mut self.buffer, &text, now);
                self.burst = Some(burst);
            }
            None => self.burst = Some(Burst::begin(&mut self.buffer, &text, now)),
        }
        Reaction::Changed
    }

    /// A paste the terminal marked. `exists` says whether a path is that of a file.
    pub fn paste(&mut self, text: &str, now: Instant, exists: &dyn Fn(&str) -> bool) -> Reaction {
        self.completion.close();
        (self.taps.text, self.taps.quick) = (Some(now), 0);
        if self.buffer.size() + text.len() > MOST_BYTES {
            return Reaction::Toast(Toast::PasteTooLong);
        }
        if self.search.is_some() {
            self.buffer.insert(text.lines().next().unwrap_or_default());
            return self.searched();
        }
        if let Some(references) = (!self.shell).then(|| dropped(text, exists)).flatten() {
            let blank = if self.joins() { " " } else { "" };
            self.buffer.insert(&format!("{blank}{references}"));
            return Reaction::Changed;
        }
        let text = lines(text);
        let text = if self.conditions.escape_at { escape_at(&text) } else { text };
        match self.buffer.insert_paste(&text) {
            Some(_) => Reaction::Toast(Toast::ExpandPaste),
            None => Reaction::Changed,
        }
    }

    /// Whether inserted text would be joined to a word.
    pub(super) fn joins(&self) -> bool {
        let before = self.buffer.cluster_before(self.buffer.cursor());
        before.is_some_and(|cluster| !cluster.trim().is_empty())
    }

    /// Expands the paste at the cursor, or folds it again.
    pub(super) fn toggle_paste(&mut self) -> Reaction {
        if let Some((sign, range)) = self.buffer.fold_at_cursor() {
            let content = self.buffer.folds.paste_of(sign).unwrap_or_default().to_owned();
            self.buffer.replace(range.clone(), &content);
            let range = range.start..self.buffer.cursor();
            self.expanded = Some(Expanded { range, revision: self.buffer.revision() });
            return self.moved();
        }
        let unchanged = |expanded: &Expanded| expanded.revision == self.buffer.revision();
        if let Some(Expanded { range, .. }) = self.expanded.take().filter(unchanged) {
            let content = self.buffer.folds.expand(&self.buffer.slice(range.clone()));
            if let Some(sign) = self.buffer.fold(content) {
                self.buffer.replace_raw(range, String::from(sign));
                return self.moved();
            }
        }
        if self.buffer.has_fold() { Reaction::Toast(Toast::MoveToPaste) } else { Reaction::Unhandled }
    }
}

/// Whether a key may be part of pasted text.
pub(crate) fn may_be_pasted(event: &KeyEvent) -> bool {
    pasted_char(event).is_some()
}

/// The character of a key in pasted text.
fn pasted_char(event: &KeyEvent) -> Option<char> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match event.code {
        KeyCode::Enter if event.modifiers.is_empty() => Some('\r'),
        KeyCode::Char(_) if is_line_feed(event) => Some('\n'),
        KeyCode::Tab if event.modifiers.is_empty() => Some('\t'),
        _ => typed_char(event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_files_that_exist_become_references() {
        let exists =
            |path: &str| ["/tmp/a b.png", "/tmp/c.txt", "shot.png", "~/x", "notes", "/tmp/ü"].contains(&path);
        for (text, expected) in [
            ("/tmp/a b.png", Some("@/tmp/a\\ b.png ")),
            ("'/tmp/a b.png'\n", Some("@/tmp/a\\ b.png ")),
            ("/tmp/a\\ b.png", Some("@/tmp/a\\ b.png ")),
            ("/tmp/a\\ b.png '/tmp/c.txt'", Some("@/tmp/a\\ b.png @/tmp/c.txt ")),
            ("file:///tmp/a%20b.png", Some("@/tmp/a\\ b.png ")),
            ("file://localhost/tmp/%C3%BC", Some("@/tmp/ü ")),
            ("shot.png", Some("@shot.png ")),
            ("~/x", Some("@~/x ")),
            ("notes", None),
            ("/tmp/missing.png", None),
            ("/tmp/c.txt is wrong", None),
            ("100%", None),
            ("", None),
        ] {
            assert_eq!(dropped(text, &exists).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn at_signs_become_text_once() {
        assert_eq!(escape_at("a@b \\@c \\\\@d"), "a\\@b \\@c \\\\\\@d");
    }
}
