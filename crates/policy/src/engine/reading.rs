//! Decides whether a read-only command may read its files without approval.
//!
//! Looks for secrets, files outside the workspace and links; does not handle commands that write.

use std::path::{Path, PathBuf};

use super::tree_search::TreeSearch;
use super::working_dirs::WorkingDirs;
use super::{Engine, PolicyCall};
use crate::checker::{CheckAnswer, place};
use crate::disk::{BoundedDisk, EntryKind, GIT_SETTINGS, Match, Unresolved};
use crate::request::Decision;
use crate::secrets::{is_private_folder, is_secret_name};
use crate::shell::{self, ANY_FOLDERS, ANY_NAME, CommandAnalysis, How, Part, Pattern, Read};

/// Characters that make a word a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', ANY_NAME, ANY_FOLDERS];

/// The file that `nohup` writes.
pub(super) const NOHUP_FILE: &str = "nohup.out";

/// Whether a command runs behind a `nohup` that writes its output to a file.
pub(super) fn is_behind_nohup(part: &Part) -> bool {
    part.writes_nohup
}

/// Whether a command only reads files that need no approval.
pub(super) enum ReadVerdict {
    /// It may do more than read, or its files are unknown.
    Unknown,
    Open,
    /// It is read-only, but reads a file that needs approval.
    Closed(String),
}

impl Engine {
    /// Checks the files that a command would read, for every directory it may start in.
    pub(super) fn reading(&self, part: &Part, places: &WorkingDirs) -> ReadVerdict {
        // Git runs the commands it is given at the top of its tree or in another repository, wherever it was started.
        if part.behind.iter().any(|name| name == "git") {
            return ReadVerdict::Unknown;
        }
        let Some(disk) = self.options.disk.as_deref() else { return self.reading_unseen(part, places) };
        let mut look = BoundedDisk::new(disk);
        let mut understood = false;
        for from in &places.all {
            // A folder that a link leads to is judged by its own name.
            let from = place(from, "", self.options.resolve.as_ref());
            match self.reading_from(part, places, &from, &mut look) {
                Ok(()) => understood = true,
                Err(Some(why)) => return ReadVerdict::Closed(why),
                Err(None) => return ReadVerdict::Unknown,
            }
        }
        if understood { ReadVerdict::Open } else { ReadVerdict::Unknown }
    }

    /// Why `nohup` may write outside the workspace, if it may. On a terminal it appends the output to `nohup.out`, and where
    /// it cannot, to the file of that name in the home directory.
    pub(super) fn writes_nohup_file(&self, part: &Part, places: &WorkingDirs) -> Option<String> {
        if !is_behind_nohup(part) {
            return None;
        }
        if !places.holds(self, NOHUP_FILE) {
            return Some(format!("it writes to `{NOHUP_FILE}`: {}", places.why_not_held(NOHUP_FILE)));
        }
        let disk = self.options.disk.as_deref()?;
        places.all.iter().find_map(|from| {
            let folder = place(from, "", self.options.resolve.as_ref());
            let file = folder.join(NOHUP_FILE);
            match disk.kind(&file) {
                Some(EntryKind::Link) => {
                    Some(format!("`nohup` may write to the file that the link `{NOHUP_FILE}` points to"))
                }
                Some(EntryKind::File) if disk.is_writable(&file) => None,
                None if disk.is_writable(&folder) => None,
                _ => Some(format!("`nohup` may write to `{NOHUP_FILE}` in the home directory")),
            }
        })
    }

    /// Without the disk, only commands that name all their files can be judged.
    fn reading_unseen(&self, part: &Part, places: &WorkingDirs) -> ReadVerdict {
        let Some(reads) = shell::reads(part).filter(|_| part.patterns.is_empty()) else {
            return ReadVerdict::Unknown;
        };
        let is_tree = |read: &Read| matches!(read.how, How::Tree(_));
        if reads.all.iter().any(is_tree) || reads.needs_trust && !self.options.trusted {
            return ReadVerdict::Unknown;
        }
        let closed = |from: &PathBuf| {
            reads.all.iter().find_map(|read| self.closed(places, from, &read.path, &read.how))
        };
        places.all.iter().find_map(closed).map_or(ReadVerdict::Open, ReadVerdict::Closed)
    }

    /// `Err(None)` if the command is not known to be read-only, `Err(Some)` if it reads a file that needs
    /// approval.
    fn reading_from(
        &self,
        part: &Part,
        places: &WorkingDirs,
        from: &Path,
        look: &mut BoundedDisk<'_>,
    ) -> Result<(), Option<String>> {
        let found = self.expand(part, places, from, look)?;
        // A list may be empty, and some programs then read other files.
        if found.iter().any(|(pattern, _)| pattern.relayed)
            && let Some(without) = substituted(part, &found, true)
        {
            self.reading_words(&without, &[], places, from, look)?;
        }
        let with = substituted(part, &found, false);
        self.reading_words(with.as_ref().unwrap_or(part), &found, places, from, look)
    }

    /// Checks a command whose patterns were replaced; patterns that are arguments still mean their matches.
    fn reading_words(
        &self,
        part: &Part,
        found: &[(&Pattern, Vec<Match>)],
        places: &WorkingDirs,
        from: &Path,
        look: &mut BoundedDisk<'_>,
    ) -> Result<(), Option<String>> {
        let reads = shell::reads(part).ok_or(None)?;
        if reads.needs_trust && !self.options.trusted {
            return Err(Some("it uses this folder's configuration, but the folder is not trusted".into()));
        }
        if let Some(why) = self.steered(part, from, look) {
            return Err(Some(why));
        }
        if let Some(path) = &self.options.search_path {
            let wrappers = part.behind.iter().map(String::as_str);
            let helpers = reads.program.as_deref().map(shell::started_by).unwrap_or_default();
            let mut names = wrappers.chain(reads.program.as_deref()).chain(helpers.iter().copied());
            if let Some((name, file)) = names.find_map(|name| Some((name, path.impostor(name)?))) {
                return Err(Some(format!(
                    "`{name}` would run `{}`, which others can change",
                    file.display()
                )));
            }
        }
        for read in &reads.all {
            let matched = found.iter().filter(|(pattern, _)| pattern.text == read.path);
            let mut is_pattern = false;
            for (_, matches) in matched {
                is_pattern |= !matches.is_empty();
                for one in matches {
                    self.weigh_match(places, from, one, &read.how, look)?;
                }
            }
            if !is_pattern {
                self.weigh(places, from, read, look)?;
            }
        }
        Ok(())
    }

    /// The files that each pattern of a command matches.
    fn expand<'p>(
        &self,
        part: &'p Part,
        places: &WorkingDirs,
        from: &Path,
        look: &mut BoundedDisk<'_>,
    ) -> Result<Vec<(&'p Pattern, Vec<Match>)>, Option<String>> {
        let mut all = Vec::new();
        // The words of `[[` are compared, not expanded.
        let compares = matches!(part.words.first(), Some(Some(program)) if program == "[[");
        for pattern in part.patterns.iter().filter(|_| !compares) {
            if pattern.text.starts_with("/dev/fd/") {
                continue;
            }
            if !places.holds(self, fixed_start(&pattern.text)) {
                let text = shown(&pattern.text);
                return Err(Some(places.why_not_held(&text)));
            }
            let matches = look.expand(from, &pattern.text).map_err(|why| Some(untold(why, &pattern.text)))?;
            for one in &matches {
                if let Some(why) = odd(one, pattern) {
                    return Err(Some(why));
                }
                // Matches are explicitly named, so only a link can lead to another file.
                if self.is_beyond(places, one) {
                    return Err(Some(format!("`{}` points outside the workspace", one.word)));
                }
            }
            all.push((pattern, matches));
        }
        Ok(all)
    }

    /// Why a pattern of a command reaches beyond the workspace: bash lists folders, and follows links on the way. What a
    /// match is itself a link to counts as well, because the command may write to it.
    pub(super) fn leaves_by_pattern(&self, part: &Part, places: &WorkingDirs) -> Option<String> {
        let mut look = BoundedDisk::new(self.options.disk.as_deref()?);
        let leaves =
            |one: &Match| self.is_beyond(places, one) || one.linked && !places.holds(self, &one.word);
        let patterns = part.patterns.iter().filter(|pattern| !pattern.text.starts_with("/dev/fd/"));
        for pattern in patterns {
            let text = shown(&pattern.text);
            if !places.holds(self, fixed_start(&pattern.text)) {
                return Some(places.why_not_held(&text));
            }
            for from in &places.all {
                match look.expand(from, &pattern.text) {
                    Ok(matches) if matches.iter().any(leaves) => {
                        return Some(format!("`{text}` leads outside the workspace"));
                    }
                    Ok(_) => {}
                    Err(why) => return Some(untold(why, &pattern.text)),
                }
            }
        }
        None
    }

    /// Why a command may not write to what a pattern matches.
    pub(super) fn protected_match(
        &self,
        call: &PolicyCall<'_>,
        part: &Part,
        places: &WorkingDirs,
        path: &str,
    ) -> Option<String> {
        let mut look = BoundedDisk::new(self.options.disk.as_deref()?);
        let pattern = part.patterns.iter().find(|pattern| pattern.text == path)?;
        places.all.iter().find_map(|from| match look.expand(from, &pattern.text) {
            Err(why) => Some(untold(why, &pattern.text)),
            Ok(matches) => matches.iter().find_map(|one| {
                let source = self.protected(call, from, &one.word)?;
                Some(format!("it writes to `{}`, protected by {}", one.word, super::named(source)))
            }),
        })
    }

    /// Whether a link on the way to a match leads outside.
    fn is_beyond(&self, places: &WorkingDirs, found: &Match) -> bool {
        let way = found.word.rsplit_once('/').map_or("", |(folders, _)| folders);
        found.linked && !way.is_empty() && !places.holds(self, way)
    }

    /// A matched file that is already known to be inside.
    fn weigh_match(
        &self,
        places: &WorkingDirs,
        from: &Path,
        found: &Match,
        how: &How,
        look: &mut BoundedDisk<'_>,
    ) -> Result<(), Option<String>> {
        match how {
            How::Facts | How::Remotes if !found.linked => Ok(()),
            // A folder has no contents by itself.
            How::Contents if found.linked && self.is_folder(&found.path, look) => Ok(()),
            // The only files of a repository that listings show.
            How::Contents if !found.linked && is_git_settings(&found.path) => {
                self.weigh_config(look, &found.path)
            }
            How::Contents if !found.linked => match closed_name(&found.path, &self.options.workspaces) {
                Some(why) => Err(Some(why)),
                None => Ok(()),
            },
            _ => {
                let read = Read { path: found.word.clone(), how: how.clone() };
                self.weigh(places, from, &read, look)
            }
        }
    }

    pub(super) fn is_folder(&self, path: &Path, look: &BoundedDisk<'_>) -> bool {
        let real = place(path, "", self.options.resolve.as_ref());
        look.disk.kind(&real) == Some(EntryKind::Folder)
    }

    fn weigh(
        &self,
        places: &WorkingDirs,
        from: &Path,
        read: &Read,
        look: &mut BoundedDisk<'_>,
    ) -> Result<(), Option<String>> {
        if let Some(why) = self.closed(places, from, &read.path, &read.how) {
            return Err(Some(why));
        }
        match &read.how {
            How::Facts | How::Contents => Ok(()),
            How::Remotes => self.weigh_remotes(&place(from, &read.path, self.options.resolve.as_ref()), look),
            How::Tree(tree) => {
                let root = place(from, &read.path, self.options.resolve.as_ref());
                if root.file_name().is_some_and(|name| is_private_folder(&name.to_string_lossy()))
                    && !self.options.workspaces.contains(&root)
                {
                    return Err(Some(format!("it would read `{}`, which may contain secrets", read.path)));
                }
                TreeSearch::new(self, places, tree, &root, look).folder(&root, look)
            }
        }
    }

    /// Why a path needs approval, because of its name or its target.
    pub(super) fn closed(&self, places: &WorkingDirs, from: &Path, path: &str, how: &How) -> Option<String> {
        if !places.holds(self, path) {
            return Some(places.why_not_held(path));
        }
        if matches!(how, How::Facts | How::Remotes) {
            return None;
        }
        let spelt = place(from, path, None);
        let real = place(from, path, self.options.resolve.as_ref());
        [spelt, real].iter().find_map(|path| closed_name(path, &self.options.workspaces))
    }

    /// Whether a file, or each match of a pattern, may be passed to a command by redirection.
    pub(super) fn may_feed(&self, places: &WorkingDirs, target: &str) -> bool {
        if !target.contains(SPECIAL) {
            return places.all.iter().all(|from| self.closed(places, from, target, &How::Contents).is_none());
        }
        let reader = Part {
            words: vec![Some("cat".to_owned()), None],
            patterns: vec![Pattern { at: 1, text: target.to_owned(), relayed: true }],
            ..Part::default()
        };
        matches!(self.reading(&reader, places), ReadVerdict::Open)
    }

    /// The checker `allowed-path` for a command: every file that it touches must be in the workspace, and known.
    pub(super) fn touched_paths(&self, call: &PolicyCall<'_>, understood: &CommandAnalysis) -> CheckAnswer {
        let places = WorkingDirs::new(self, call, understood);
        let outside = |path: &str| CheckAnswer {
            decision: Decision::Deny,
            reason: format!(
                "Path \"{path}\" in the command is outside of the allowed workspace directories."
            ),
        };
        let unknown = |what: &str| CheckAnswer {
            decision: Decision::Ask,
            reason: format!("`{what}` may touch files that cannot be determined from the command line"),
        };
        let mut answer = CheckAnswer { decision: Decision::Allow, reason: String::new() };
        for redirection in &understood.redirections {
            match redirection.target.as_deref() {
                Some(target) if places.holds(self, target) => {}
                Some(target) if places.is_undetermined(target) => answer = unknown(target),
                Some(target) => return outside(target),
                None => answer = unknown("a redirection"),
            }
        }
        for part in &understood.parts {
            let reads = shell::reads(part);
            let (touches, unsure) = shell::touches(part);
            let read = reads.iter().flat_map(|reads| &reads.all).map(|read| read.path.as_str());
            let touched = read.chain(touches.iter().map(|touch| touch.path));
            let mut beyond = touched.filter(|path| !places.holds(self, fixed_start_of(path)));
            match beyond.next() {
                Some(path) if places.is_undetermined(path) => {
                    answer = unknown(path);
                    continue;
                }
                Some(path) => return outside(path),
                None => {}
            }
            match self.reading(part, &places) {
                ReadVerdict::Open => {}
                ReadVerdict::Closed(reason) => answer = CheckAnswer { decision: Decision::Ask, reason },
                ReadVerdict::Unknown
                    if !touches.is_empty() && unsure.is_none() && part.patterns.is_empty() => {}
                ReadVerdict::Unknown => answer = unknown(&part.text),
            }
        }
        if let Some(doubt) = understood.doubts.first() {
            answer = unknown(doubt);
        }
        answer
    }
}

/// Whether a file contains settings of a repository in a folder `.git`.
fn is_git_settings(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| GIT_SETTINGS.iter().any(|known| name == *known));
    named && path.components().any(|component| component.as_os_str() == ".git")
}

/// Why a path is protected by its own name or by a folder in it, relative to the workspace.
pub(super) fn closed_name(path: &Path, workspaces: &[PathBuf]) -> Option<String> {
    let below = workspaces.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
    let mut names = below.components().map(|component| component.as_os_str().to_string_lossy()).peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        if name.eq_ignore_ascii_case(".git") {
            return Some(format!("`{}` is inside a repository's `.git` folder", below.display()));
        }
        if is_secret_name(&name) || is_private_folder(&name) && !is_last {
            return Some(format!("it would read `{}`, which may contain secrets", below.display()));
        }
    }
    None
}

/// Whether a matched file name would be misinterpreted.
fn odd(found: &Match, pattern: &Pattern) -> Option<String> {
    if found.word.starts_with('-') {
        return Some(format!("the file name `{}` would be taken as an option", found.word));
    }
    let falls_apart = |c: char| c.is_whitespace() || "*?[]\\'\"".contains(c);
    if pattern.relayed && found.word.contains(falls_apart) {
        return Some(format!("the file name `{}` may be split into several words", shown(&found.word)));
    }
    None
}

/// The command with up to three words in place of each matching pattern, so that a second operand is seen; or
/// with none in place of lists.
fn substituted(part: &Part, found: &[(&Pattern, Vec<Match>)], empty: bool) -> Option<Part> {
    if found.is_empty() || !part.data.is_empty() {
        return None;
    }
    let mut judged = part.clone();
    judged.words = Vec::with_capacity(part.words.len());
    judged.patterns.clear();
    for (at, word) in part.words.iter().enumerate() {
        let Some(pattern) = part.patterns.iter().find(|pattern| pattern.at == at) else {
            judged.words.push(word.clone());
            continue;
        };
        let count = found.iter().find(|(one, _)| one.at == at).map_or(1, |(_, matches)| matches.len());
        let count = if empty && pattern.relayed { 0 } else { count.clamp(1, 3) };
        for _ in 0..count {
            judged.words.push(Some(pattern.text.clone()));
        }
    }
    Some(judged)
}

/// A path, or the folder that a pattern starts in.
fn fixed_start_of(path: &str) -> &str {
    if path.contains(SPECIAL) { fixed_start(path) } else { path }
}

/// The part of a pattern before its first special character.
fn fixed_start(pattern: &str) -> &str {
    let end = pattern.find(SPECIAL).unwrap_or(pattern.len());
    let fixed = pattern.get(..end).unwrap_or_default();
    let folder = fixed.rfind('/').map_or("", |slash| fixed.get(..=slash).unwrap_or_default());
    if folder.is_empty() { "." } else { folder }
}

pub(super) fn untold(why: Unresolved, what: &str) -> String {
    match why {
        Unresolved::TooMany => format!("`{}` covers too many files to check", shown(what)),
        Unresolved::Name => format!("`{}` matches a file whose name is not valid UTF-8", shown(what)),
    }
}

/// A pattern in the notation that users write.
fn shown(pattern: &str) -> String {
    pattern.replace(ANY_FOLDERS, "**").replace(ANY_NAME, "*")
}
