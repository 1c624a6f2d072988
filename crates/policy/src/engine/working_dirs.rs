//! The folders in which the commands of a line may run.
//!
//! Follows `cd` and its relatives by name; does not run anything.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Engine, PolicyCall};
use crate::checker::place;
use crate::disk::EntryKind;
use crate::shell::{self, CommandAnalysis, Part, Repeats, Touch};

/// Files that discard or echo what is written to them.
pub(super) const HARMLESS_TARGETS: &[&str] =
    &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"];

/// The possible working directories of a command: its start directory and every directory it changes to.
pub(super) struct WorkingDirs {
    pub(super) all: Vec<PathBuf>,
    /// Whether it changes to a directory that cannot be determined.
    pub(super) unknown: bool,
    pub(super) starts_outside: bool,
}

impl WorkingDirs {
    pub(super) fn new(engine: &Engine, call: &PolicyCall<'_>, understood: &CommandAnalysis) -> Self {
        let root = engine.options.workspaces.first().map_or(Path::new("/"), PathBuf::as_path);
        let given = call.request.args.get("dir_path").and_then(Value::as_str).unwrap_or_default();
        let start = call.directory.map_or_else(|| place(root, given, None), Path::to_owned);
        let starts_outside = !engine.options.workspaces.is_empty() && !engine.inside(&start, "");
        let mut places = Self { all: vec![start], unknown: false, starts_outside };
        for part in &understood.parts {
            places.follow(engine, part);
        }
        if let Some(only) = places.moved_at_first(engine, call, understood) {
            places.all = vec![only];
        }
        // For programs, `..` leads out of the folder that a link leads to.
        let resolve = engine.options.resolve.as_ref();
        places.all = places.all.iter().map(|dir| place(dir, "", resolve)).collect();
        places
    }

    /// The single working directory, if a command begins with `cd` into an existing folder and stays there.
    fn moved_at_first(
        &self,
        engine: &Engine,
        call: &PolicyCall<'_>,
        understood: &CommandAnalysis,
    ) -> Option<PathBuf> {
        let (first, rest) = understood.parts.split_first()?;
        let [Some(program), Some(target)] = first.words.as_slice() else { return None };
        let after = call.command?.trim_start().strip_prefix(first.text.as_str())?.trim_start();
        let leads = opens_no_file(&first.text) && after.starts_with("&&") && runs_only_behind_first(after);
        let stays = !rest.iter().any(|part| matches!(part.words.first(), Some(Some(name)) if matches!(name.as_str(), "cd" | "chdir" | "pushd" | "popd")));
        let moves = program == "cd" && first.behind.is_empty() && self.all.len() == 2 && !self.unknown;
        let folder = place(self.all.first()?, target, None);
        let exists = || {
            let real = place(&folder, "", engine.options.resolve.as_ref());
            engine.options.disk.as_ref()?.kind(&real).filter(|kind| *kind == EntryKind::Folder)
        };
        (moves && leads && stays).then(exists)?.map(|_| folder)
    }

    fn follow(&mut self, engine: &Engine, part: &Part) {
        let Some(Some(program)) = part.words.first() else {
            return;
        };
        match program.as_str() {
            "cd" | "chdir" | "pushd" => {}
            "popd" => {
                self.unknown = true;
                return;
            }
            _ => return,
        }
        let target = match part.words.get(1..).unwrap_or_default() {
            [Some(target)] if !target.starts_with(['-', '~', '+']) && !target.is_empty() => target,
            _ => {
                self.unknown = true;
                return;
            }
        };
        // Each run of a repeated command leads on from the folder of the last one.
        let leads_on = part.repeats >= Repeats::Loop && !Path::new(target).is_absolute();
        if self.all.len() > 8 || leads_on {
            self.unknown = true;
            return;
        }
        // `cd ..` follows names, but in some modes, and at the start of a shell, it follows real folders.
        let resolve = engine.options.resolve.as_ref();
        let ways = |from: &PathBuf| [from.clone(), place(from, "", resolve)];
        let next: Vec<PathBuf> =
            self.all.iter().flat_map(ways).map(|from| place(&from, target, None)).collect();
        for dir in next {
            if !self.all.contains(&dir) {
                self.all.push(dir);
            }
        }
    }

    /// Why a path that [`Self::holds`] does not accept needs approval.
    pub(super) fn why_not_held(&self, path: &str) -> String {
        match self.is_undetermined(path) {
            true => format!("the folder of `{path}` is not known until the command runs"),
            false => format!("`{path}` is outside the workspace"),
        }
    }

    /// Whether the folder that a path starts in is not known.
    pub(super) fn is_undetermined(&self, path: &str) -> bool {
        self.unknown && !path.starts_with('~') && !Path::new(path).is_absolute()
    }

    /// Whether a path stays in the workspace for every possible working directory.
    pub(super) fn holds(&self, engine: &Engine, path: &str) -> bool {
        let descriptor = path.strip_prefix("/dev/fd/").is_some_and(|n| n.parse::<u16>().is_ok());
        if descriptor || HARMLESS_TARGETS.contains(&path) {
            return true;
        }
        if path.starts_with('~') || self.is_undetermined(path) {
            return false;
        }
        !engine.options.workspaces.is_empty()
            && self.all.iter().all(|dir| engine.inside(dir, path) && goes_straight(engine, dir, path))
    }
}

impl Engine {
    /// The target of the symbolic link that a command makes, as seen from the working directory instead of the link's folder.
    pub(super) fn link_target(
        &self,
        part: &Part,
        touches: &[Touch<'_>],
        places: &WorkingDirs,
    ) -> Option<String> {
        let [from, to] = touches else { return None };
        let is_link = shell::links_soft(part) && !shell::links_from_here(part) && !shell::names_target(part);
        if !is_link
            || from.writes
            || !to.writes
            || !part.patterns.is_empty()
            || from.path.starts_with(['/', '~'])
        {
            return None;
        }
        let disk = self.options.disk.as_deref()?;
        let is_folder = |dir: &PathBuf| {
            disk.kind(&place(dir, to.path, self.options.resolve.as_ref())) == Some(EntryKind::Folder)
        };
        let folder = match to.path.trim_end_matches('/').rsplit_once('/') {
            _ if to.path.ends_with('/') || places.all.iter().any(is_folder) => {
                places.all.iter().all(is_folder).then_some(to.path)?
            }
            Some((folder, _)) => folder,
            None => ".",
        };
        Some(format!("{folder}/{}", from.path))
    }
}

/// The same files with the target of a link as seen from the working directory.
pub(super) fn with_target<'t>(touches: &[Touch<'t>], target: Option<&'t str>) -> Vec<Touch<'t>> {
    let mut touches = touches.to_vec();
    if let (Some(target), Some(first)) = (target, touches.first_mut()) {
        first.path = target;
    }
    touches
}

/// Whether no link makes `..` lead to another folder than its text suggests.
fn goes_straight(engine: &Engine, directory: &Path, path: &str) -> bool {
    let Some(resolve) = engine.options.resolve.as_ref().filter(|_| path.contains("..")) else { return true };
    let mut before = String::new();
    for component in path.split('/') {
        let is_start = before.split('/').all(|name| matches!(name, "" | "." | ".."));
        if component == ".." && !is_start {
            let root = place(directory, "", Some(resolve));
            if place(&root, &before, Some(resolve)) != place(&root, &before, None) {
                return false;
            }
        }
        before.push_str(component);
        before.push('/');
    }
    true
}

/// Whether a command opens no file by redirection, judging by its text. Bash opens files before it changes the folder, and
/// does not change it if that fails.
fn opens_no_file(text: &str) -> bool {
    let is_harmless = |word: &str| matches!(word, ">/dev/null" | "2>/dev/null" | "&>/dev/null" | "2>&1");
    text.split_whitespace().all(|word| !word.contains(['<', '>']) || is_harmless(word))
}

/// Whether every command of a line runs only if the first one succeeded, judging by its text: nothing behind it starts a
/// new list or runs in the background. Operators inside quotes count as well, which only makes the answer stricter.
fn runs_only_behind_first(after: &str) -> bool {
    !after.contains([';', '\n']) && !after.contains("||") && !has_lone_ampersand(after)
}

/// Whether a `&` is not a part of `&&`, `>&`, `<&` or `&>`. An escaped operator is none.
pub(super) fn has_lone_ampersand(text: &str) -> bool {
    if ["\\&", "\\<", "\\>"].iter().any(|escaped| text.contains(escaped)) {
        return text.contains('&');
    }
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '&'
            && !matches!(before, Some('<' | '>'))
            && rest.next_if(|next| matches!(next, '&' | '>')).is_none()
        {
            return true;
        }
        before = Some(c);
    }
    false
}
