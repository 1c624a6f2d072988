//! Searches files in parallel, with results in the same order as a sequential search.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use regex::Regex;
use tokio_util::sync::CancellationToken;

use crate::file_scope::FileScope;
use crate::ignore_rules::Respect;
use crate::walk::{Walk, exclude_set};
use crate::withheld::names_secret;
use crate::workspace::Workspace;

/// Folders that upstream tells ripgrep to skip, in addition to those that every search skips.
const EXCLUDES: &[&str] = &[".vscode", ".idea", "dist", "build", "coverage", "__pycache__", "*.log", "*.tmp"];
/// Upstream's timeout.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Upstream cuts lines here.
const MAX_LINE_CHARS: usize = 2000;
/// A line longer than this ends the search of its file; memory is bounded by it.
const MAX_LINE_BYTES: usize = 64 << 20;
const MAX_THREADS: usize = 8;

/// A search query.
pub(super) struct Query {
    pub(super) pattern: String,
    pub(super) matcher: RegexMatcher,
    pub(super) exclude: Option<Regex>,
    pub(super) include: Option<String>,
    pub(super) per_file: Option<u64>,
    pub(super) total: u64,
    pub(super) context: Context,
    pub(super) no_ignore: bool,
}

/// How many lines to show around a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// Much for a single match, some for two or three, else none.
    Automatic,
    Lines {
        before: usize,
        after: usize,
    },
}

impl Context {
    pub(super) const NONE: Self = Self::Lines { before: 0, after: 0 };
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileLine {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) is_match: bool,
}

/// A file with matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileMatches {
    pub(super) path: PathBuf,
    pub(super) lines: Vec<FileLine>,
}

impl FileMatches {
    pub(super) fn count(&self) -> u64 {
        self.lines.iter().filter(|line| line.is_match).count() as u64
    }
}

pub(super) enum SearchEnd {
    /// The matches, and the files that were not searched because they may contain secrets.
    Found(Vec<FileMatches>, Vec<PathBuf>),
    Cancelled,
    TimedOut {
        millis: u128,
    },
}

/// A search that could not be done.
#[derive(Debug, thiserror::Error)]
pub(super) enum SearchError {
    #[error("invalid `include_pattern`: {0}")]
    Include(#[source] ignore::Error),
    #[error("invalid exclude patterns: {0}")]
    Exclude(#[source] globset::Error),
}

/// Searches a folder or a single file.
pub(super) fn search(
    scope: &FileScope,
    start: &Path,
    query: &Query,
    cancel: &CancellationToken,
) -> Result<SearchEnd, SearchError> {
    let deadline = Instant::now() + TIMEOUT;
    let Candidates { files, withheld } = if start.is_dir() {
        match candidates(scope, start, query, cancel)? {
            Some(found) => found,
            None => return Ok(SearchEnd::Cancelled),
        }
    } else if scope.rules.is_ignored(start, false, respect(scope, query)) {
        Candidates::default()
    } else {
        Candidates { files: vec![start.to_owned()], withheld: Vec::new() }
    };
    let plain = match query.context {
        Context::Automatic => (0, 0),
        Context::Lines { before, after } => (before, after),
    };
    let stop = || cancel.is_cancelled() || Instant::now() >= deadline;
    let mut found = search_files(&scope.workspace, &files, query, plain, &stop);
    cut_to_total(&mut found, query.total);
    if query.context == Context::Automatic {
        let around = match found.iter().map(FileMatches::count).sum() {
            1 => 50,
            2..=3 => 15,
            _ => 0,
        };
        if around > 0 {
            let files: Vec<PathBuf> = found.iter().map(|file| file.path.clone()).collect();
            found = search_files(&scope.workspace, &files, query, (around, around), &stop);
            cut_to_total(&mut found, query.total);
        }
    }
    if cancel.is_cancelled() {
        return Ok(SearchEnd::Cancelled);
    }
    if Instant::now() >= deadline {
        return Ok(SearchEnd::TimedOut { millis: TIMEOUT.as_millis() });
    }
    Ok(SearchEnd::Found(found, withheld))
}

/// `no_ignore` includes files that are merely uninteresting; `.geminiignore` names files that must not be
/// read.
fn respect(scope: &FileScope, query: &Query) -> Respect {
    Respect { git: scope.respect.git && !query.no_ignore, ..scope.respect }
}

/// The files below a folder that match, in order of the walk.
#[derive(Default)]
struct Candidates {
    files: Vec<PathBuf>,
    /// Not searched, because they may contain secrets.
    withheld: Vec<PathBuf>,
}

/// `None` if it was cancelled.
fn candidates(
    scope: &FileScope,
    start: &Path,
    query: &Query,
    cancel: &CancellationToken,
) -> Result<Option<Candidates>, SearchError> {
    let include = included(start, query.include.as_deref()).map_err(SearchError::Include)?;
    let more = if query.no_ignore { &[] } else { EXCLUDES };
    let excludes = exclude_set(more).map_err(SearchError::Exclude)?;
    let walk = Walk {
        workspace: &scope.workspace,
        rules: &scope.rules,
        respect: respect(scope, query),
        start,
        excludes: &excludes,
        prefix: Path::new(""),
        reports_ignored: false,
        cancel,
    };
    let is_asked_for = query.include.as_deref().is_some_and(names_secret);
    let mut candidates = Candidates::default();
    let walked = walk.run(&mut |found| {
        if include.is_empty() || include.matched(found.path, false).is_whitelist() {
            let is_withheld = found.is_secret && !is_asked_for;
            let list = if is_withheld { &mut candidates.withheld } else { &mut candidates.files };
            list.push(found.path.to_owned());
        }
    });
    Ok(walked.is_ok().then_some(candidates))
}

fn included(start: &Path, pattern: Option<&str>) -> Result<Override, ignore::Error> {
    let mut builder = OverrideBuilder::new(start);
    if let Some(pattern) = pattern {
        builder.add(pattern.trim_start_matches("./"))?;
    }
    builder.build()
}

/// Files are handed out in order and each is finished, so the searched files are always a prefix of the list:
/// cutting it to the limit gives the same result however the threads are scheduled.
fn search_files(
    workspace: &Workspace,
    files: &[PathBuf],
    query: &Query,
    context: (usize, usize),
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<FileMatches> {
    let next = AtomicUsize::new(0);
    let matches = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        let mut searcher = searcher(query, context);
        while matches.load(Ordering::Relaxed) < query.total && !stop() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(index) else { return };
            let lines = search_file(workspace, &mut searcher, path, query, stop);
            let file = FileMatches { path: path.clone(), lines };
            let count = file.count();
            if count > 0 {
                matches.fetch_add(count, Ordering::Relaxed);
                if let Ok(mut found) = found.lock() {
                    found.push((index, file));
                }
            }
        }
    };
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(files.len());
    if threads <= 1 || files.len() < 16 {
        work();
    } else {
        std::thread::scope(|threads_scope| {
            for _ in 0..threads {
                threads_scope.spawn(work);
            }
        });
    }
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_unstable_by_key(|(index, _)| *index);
    found.into_iter().map(|(_, file)| file).collect()
}

fn searcher(query: &Query, (before, after): (usize, usize)) -> Searcher {
    // Lines that `exclude` drops must not use up the limit.
    let limit = query.per_file.unwrap_or(u64::MAX).min(query.total);
    SearcherBuilder::new()
        .line_number(true)
        .before_context(before)
        .after_context(after)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .max_matches(query.exclude.is_none().then_some(limit))
        .build()
}

fn search_file(
    workspace: &Workspace,
    searcher: &mut Searcher,
    path: &Path,
    query: &Query,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<FileLine> {
    // Unless it has become a link, is behind one, or is a file that blocks.
    let Ok(opened) = workspace.open_found(path) else { return Vec::new() };
    let limit = query.per_file.unwrap_or(u64::MAX).min(query.total);
    let mut gathered =
        Gathered { lines: Vec::new(), matches: 0, limit, exclude: query.exclude.as_ref(), stop };
    // A file that cannot be read to its end still has the matches found so far.
    let _ = searcher.search_file(&query.matcher, &opened.file, &mut gathered);
    gathered.lines
}

struct Gathered<'a> {
    lines: Vec<FileLine>,
    matches: u64,
    limit: u64,
    exclude: Option<&'a Regex>,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Gathered<'_> {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let text = match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((cut, _)) => format!("{}... [truncated]", text.get(..cut).unwrap_or_default()),
            None => text.to_owned(),
        };
        self.lines.push(FileLine { number: number.unwrap_or_default(), text, is_match });
    }
}

impl Sink for Gathered<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let excluded =
            self.exclude.is_some_and(|regex| regex.is_match(&String::from_utf8_lossy(found.bytes())));
        if !excluded {
            self.matches += 1;
            self.push(found.line_number(), found.bytes(), true);
        }
        Ok((self.exclude.is_none() || self.matches < self.limit) && !(self.stop)())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(found.line_number(), found.bytes(), false);
        Ok(true)
    }
}

/// Keeps the first matches, with the context that belongs to them.
fn cut_to_total(found: &mut Vec<FileMatches>, total: u64) {
    let mut left = total;
    for file in found.iter_mut() {
        let mut seen = 0;
        let keep = file.lines.iter().position(|line| {
            seen += u64::from(line.is_match);
            seen > left
        });
        if let Some(keep) = keep {
            file.lines.truncate(keep);
        }
        left = left.saturating_sub(file.count());
    }
    found.retain(|file| file.count() > 0);
}
