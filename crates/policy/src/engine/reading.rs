//! Judges what commands that only read would read.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::shell_call::Places;
use super::{Call, Engine};
use crate::checker::{CheckAnswer, place};
use crate::disk::{EntryKind, Look, Match, Untold, finds_any};
use crate::request::Decision;
use crate::secrets::{config_holds_credentials, is_private_folder, is_secret_name};
use crate::shell::{self, ANY_FOLDERS, ANY_NAME, How, Part, Pattern, Read, Tree, Understanding};

/// More folders than this between a file and the top of its repository are not climbed.
const MOST_PARENTS: usize = 64;
/// Files in which a folder says what searching programs leave out, or do not.
const IGNORE_FILES: &[&str] = &[".gitignore", ".ignore", ".rgignore", ".fdignore", ".git/info/exclude"];

/// Characters that make a word a pattern.
const SPECIAL: [char; 5] = ['*', '?', '[', ANY_NAME, ANY_FOLDERS];

/// Whether a command only reads what may be read unasked.
pub(super) enum Reading {
    /// It may do more than read, or it is not known what it reads.
    Unknown,
    Open,
    /// It only reads, but something that the person should be asked about.
    Closed(String),
}

impl Engine {
    /// Judges a command by what it would read from every place it may start in.
    pub(super) fn reading(&self, part: &Part, places: &Places) -> Reading {
        let Some(disk) = self.options.disk.as_deref() else { return self.reading_unseen(part, places) };
        let mut look = Look::new(disk);
        let mut understood = false;
        for from in &places.all {
            // A folder that a link leads to is judged by its own name.
            let from = place(from, "", self.options.resolve.as_ref());
            match self.reading_from(part, places, &from, &mut look) {
                Ok(()) => understood = true,
                Err(Some(why)) => return Reading::Closed(why),
                Err(None) => return Reading::Unknown,
            }
        }
        if understood { Reading::Open } else { Reading::Unknown }
    }

    /// Without the disk only commands whose files are all named can be judged.
    fn reading_unseen(&self, part: &Part, places: &Places) -> Reading {
        let Some(reads) = shell::reads(part).filter(|_| part.patterns.is_empty()) else {
            return Reading::Unknown;
        };
        let is_tree = |read: &Read| matches!(read.how, How::Tree(_));
        if reads.all.iter().any(is_tree) || reads.needs_trust && !self.options.trusted {
            return Reading::Unknown;
        }
        let closed = |from: &PathBuf| {
            reads.all.iter().find_map(|read| self.closed(places, from, &read.path, &read.how))
        };
        places.all.iter().find_map(closed).map_or(Reading::Open, Reading::Closed)
    }

    /// `Err(None)` if the command is not known to read only, `Err(Some)` if it reads what is closed.
    fn reading_from(
        &self,
        part: &Part,
        places: &Places,
        from: &Path,
        look: &mut Look<'_>,
    ) -> Result<(), Option<String>> {
        let found = self.expand(part, places, from, look)?;
        // A list may turn out to be empty, and some programs then read what they were not told to.
        if found.iter().any(|(pattern, _)| pattern.relayed)
            && let Some(without) = substituted(part, &found, true)
        {
            self.reading_words(&without, &[], places, from, look)?;
        }
        let with = substituted(part, &found, false);
        self.reading_words(with.as_ref().unwrap_or(part), &found, places, from, look)
    }

    /// Judges a command whose patterns were replaced; those that are its words still stand for what they find.
    fn reading_words(
        &self,
        part: &Part,
        found: &[(&Pattern, Vec<Match>)],
        places: &Places,
        from: &Path,
        look: &mut Look<'_>,
    ) -> Result<(), Option<String>> {
        let reads = shell::reads(part).ok_or(None)?;
        if reads.needs_trust && !self.options.trusted {
            return Err(Some("it uses this folder's configuration, but the folder is not trusted".into()));
        }
        if let Some(path) = &self.options.search_path {
            let wrappers = part.behind.iter().map(String::as_str);
            let helpers = reads.program.as_deref().map(started_by).unwrap_or_default();
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

    /// The files that each pattern of a command finds.
    fn expand<'p>(
        &self,
        part: &'p Part,
        places: &Places,
        from: &Path,
        look: &mut Look<'_>,
    ) -> Result<Vec<(&'p Pattern, Vec<Match>)>, Option<String>> {
        let mut all = Vec::new();
        // The words of `[[` are compared, not expanded.
        let compares = matches!(part.words.first(), Some(Some(program)) if program == "[[");
        for pattern in part.patterns.iter().filter(|_| !compares) {
            if pattern.text.starts_with("/dev/fd/") {
                continue;
            }
            if !places.holds(self, fixed_start(&pattern.text)) {
                return Err(Some(format!("`{}` is outside the workspace", shown(&pattern.text))));
            }
            let matches = look.expand(from, &pattern.text).map_err(|why| Some(untold(why, &pattern.text)))?;
            for one in &matches {
                if let Some(why) = odd(one, pattern) {
                    return Err(Some(why));
                }
                // What is found is named at least; only a link can have led elsewhere.
                let way = one.word.rsplit_once('/').map_or("", |(folders, _)| folders);
                if one.linked && !way.is_empty() && !places.holds(self, way) {
                    return Err(Some(format!("`{}` points outside the workspace", one.word)));
                }
            }
            all.push((pattern, matches));
        }
        Ok(all)
    }

    /// A file that a pattern found; whether it is inside is known already.
    fn weigh_match(
        &self,
        places: &Places,
        from: &Path,
        found: &Match,
        how: &How,
        look: &mut Look<'_>,
    ) -> Result<(), Option<String>> {
        match how {
            How::Facts | How::Remotes if !found.linked => Ok(()),
            // A folder has no contents of its own.
            How::Contents if found.linked && self.is_folder(&found.path, look) => Ok(()),
            // The one file of a repository that lists show.
            How::Contents if found.word.ends_with(".git/config") => self.weigh_config(look, &found.path),
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

    fn is_folder(&self, path: &Path, look: &Look<'_>) -> bool {
        let real = place(path, "", self.options.resolve.as_ref());
        look.disk.kind(&real) == Some(EntryKind::Folder)
    }

    fn weigh(
        &self,
        places: &Places,
        from: &Path,
        read: &Read,
        look: &mut Look<'_>,
    ) -> Result<(), Option<String>> {
        if let Some(why) = self.closed(places, from, &read.path, &read.how) {
            return Err(Some(why));
        }
        match &read.how {
            How::Facts | How::Contents => Ok(()),
            How::Remotes => self.weigh_remotes(from, look),
            How::Tree(tree) => {
                let root = place(from, &read.path, self.options.resolve.as_ref());
                let mut walk = Walk { engine: self, places, tree, revealed: Vec::new() };
                walk.parents(&root, look);
                walk.folder(&root, look)
            }
        }
    }

    /// Why a path must not be read unasked by its name and by where it leads.
    pub(super) fn closed(&self, places: &Places, from: &Path, path: &str, how: &How) -> Option<String> {
        if !places.holds(self, path) {
            return Some(format!("`{path}` is outside the workspace"));
        }
        if matches!(how, How::Facts | How::Remotes) {
            return None;
        }
        let spelt = place(from, path, None);
        let real = place(from, path, self.options.resolve.as_ref());
        [spelt, real].iter().find_map(|path| closed_name(path, &self.options.workspaces))
    }

    /// Whether a file, or each that a pattern finds, may be given to a command by redirection.
    pub(super) fn may_feed(&self, places: &Places, target: &str) -> bool {
        if !target.contains(SPECIAL) {
            return places.all.iter().all(|from| self.closed(places, from, target, &How::Contents).is_none());
        }
        let reader = Part {
            words: vec![Some("cat".to_owned()), None],
            patterns: vec![Pattern { at: 1, text: target.to_owned(), relayed: true }],
            ..Part::default()
        };
        matches!(self.reading(&reader, places), Reading::Open)
    }

    /// The checker `allowed-path` for a command: every file that it touches must be in the workspace, and known.
    pub(super) fn touched_paths(&self, call: &Call<'_>, understood: &Understanding) -> CheckAnswer {
        let places = Places::new(self, call, understood);
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
                Some(target) => return outside(target),
                None => answer = unknown("a redirection"),
            }
        }
        for part in &understood.parts {
            let reads = shell::reads(part);
            let (touches, unsure) = shell::touches(part);
            let read = reads.iter().flat_map(|reads| &reads.all).map(|read| read.path.as_str());
            let touched = read.chain(touches.iter().map(|touch| touch.path));
            if let Some(path) = touched.into_iter().find(|path| !places.holds(self, fixed_start_of(path))) {
                return outside(path);
            }
            match self.reading(part, &places) {
                Reading::Open => {}
                Reading::Closed(reason) => answer = CheckAnswer { decision: Decision::Ask, reason },
                Reading::Unknown if !touches.is_empty() && unsure.is_none() && part.patterns.is_empty() => {}
                Reading::Unknown => answer = unknown(&part.text),
            }
        }
        if let Some(doubt) = understood.doubts.first() {
            answer = unknown(doubt);
        }
        answer
    }

    fn weigh_config(&self, look: &Look<'_>, config: &Path) -> Result<(), Option<String>> {
        match look.disk.text(config) {
            Some(text) if config_holds_credentials(&text) => {
                Err(Some("the repository's configuration contains credentials".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The configuration of the repository around a folder.
    fn weigh_remotes(&self, from: &Path, look: &Look<'_>) -> Result<(), Option<String>> {
        for folder in from.ancestors().take(MOST_PARENTS) {
            let git = folder.join(".git");
            match look.disk.kind(&git) {
                Some(EntryKind::Folder) => return self.weigh_config(look, &git.join("config")),
                Some(_) => {
                    let link = look.disk.text(&git).unwrap_or_default();
                    let common = link.trim().strip_prefix("gitdir:").map(|path| folder.join(path.trim()));
                    let config =
                        common.and_then(|path| path.parent()?.parent().map(|root| root.join("config")));
                    return config.map_or(Ok(()), |config| self.weigh_config(look, &config));
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Looks through a folder for files that must not be read unasked.
struct Walk<'e> {
    engine: &'e Engine,
    places: &'e Places,
    tree: &'e Tree,
    /// Patterns of hidden names that the folder tells searching programs to read.
    revealed: Vec<String>,
}

impl Walk<'_> {
    fn parents(&mut self, root: &Path, look: &Look<'_>) {
        if !self.tree.hidden {
            for folder in root.ancestors().skip(1).take(MOST_PARENTS) {
                self.reveal(folder, look);
            }
        }
    }

    fn reveal(&mut self, folder: &Path, look: &Look<'_>) {
        for name in IGNORE_FILES {
            let Some(text) = look.disk.text(&folder.join(name)) else { continue };
            let shown = text.lines().filter_map(|line| line.trim().strip_prefix('!'));
            let last = shown.filter_map(|pattern| pattern.trim_end_matches('/').rsplit('/').next());
            self.revealed
                .extend(last.filter(|name| name.starts_with(['.', '*', '?', '['])).map(str::to_owned));
        }
    }

    fn is_passed_over(&self, name: &str) -> bool {
        let hidden = name.starts_with('.') && !self.tree.hidden;
        let revealed = |pattern: &String| finds_any(pattern, name);
        hidden && !self.revealed.iter().any(revealed)
    }

    /// Whether a name is left out; patterns and those that end in a slash are not followed.
    fn is_left_out(&self, name: &str, kind: EntryKind) -> bool {
        let without = if kind == EntryKind::Folder { &self.tree.without_folders } else { &self.tree.without };
        without.iter().any(|not| not == name)
    }

    fn is_wanted(&self, name: &str) -> bool {
        let last = |pattern: &String| {
            let last = pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            last.contains(['{', '\\']) || finds_any(last, name)
        };
        self.tree.only.is_empty() || self.tree.only.iter().any(last)
    }

    fn folder(&mut self, folder: &Path, look: &mut Look<'_>) -> Result<(), Option<String>> {
        if look.disk.kind(folder) != Some(EntryKind::Folder) {
            return Ok(());
        }
        let entries = look.list(folder).map_err(|why| Some(untold(why, &folder.to_string_lossy())))?;
        let tells = |name: &OsStr| name == ".git" || IGNORE_FILES.iter().any(|file| name == *file);
        if !self.tree.hidden && entries.iter().any(|entry| tells(&entry.name)) {
            self.reveal(folder, look);
        }
        for entry in entries {
            let name = entry.name.to_string_lossy();
            if self.is_passed_over(&name) || self.is_left_out(&name, entry.kind) {
                continue;
            }
            let path = folder.join(&entry.name);
            match entry.kind {
                EntryKind::Folder if name == ".git" => {
                    if self.is_wanted("config") {
                        self.engine.weigh_config(look, &path.join("config"))?;
                    }
                }
                EntryKind::Folder if is_private_folder(&name) => {
                    return Err(Some(format!(
                        "it would read `{}`, which may contain secrets",
                        path.display()
                    )));
                }
                EntryKind::Folder => self.folder(&path, look)?,
                EntryKind::Link if self.tree.follows && self.is_wanted(&name) => self.link(&path, look)?,
                EntryKind::File if self.is_wanted(&name) && is_secret_name(&name) => {
                    return Err(Some(format!(
                        "it would read `{}`, which may contain secrets",
                        path.display()
                    )));
                }
                EntryKind::File | EntryKind::Link | EntryKind::Other => {}
            }
        }
        Ok(())
    }

    /// A link that is followed must lead to a file that may be read.
    fn link(&self, path: &Path, look: &Look<'_>) -> Result<(), Option<String>> {
        let text = path.to_string_lossy();
        let closed = self.engine.closed(self.places, Path::new("/"), &text, &How::Contents);
        match closed {
            Some(why) => Err(Some(why)),
            None if self.engine.is_folder(path, look) => {
                Err(Some(format!("it follows the link `{text}` into another folder")))
            }
            None => Ok(()),
        }
    }
}

/// Programs that a program starts by name.
fn started_by(program: &str) -> &'static [&'static str] {
    match program {
        "egrep" | "fgrep" => &["grep"],
        "zcat" => &["gzip", "gunzip"],
        "tar" | "gtar" | "bsdtar" => &["gzip", "bzip2", "xz", "zstd", "lzma", "compress"],
        "fd" | "fdfind" => &["ls"],
        _ => &[],
    }
}

/// Why a path is closed by its own name or a folder on its way, below the workspace.
fn closed_name(path: &Path, workspaces: &[PathBuf]) -> Option<String> {
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

/// Whether a name that a pattern found would be taken for something else.
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

/// The command with up to three words in the place of each pattern that finds files, so that a second operand is seen;
/// or with none in the place of lists.
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

fn untold(why: Untold, what: &str) -> String {
    match why {
        Untold::TooMany => format!("`{}` covers too many files to check", shown(what)),
        Untold::Name => format!("`{}` matches a file whose name is not valid UTF-8", shown(what)),
    }
}

/// A pattern as a person would write it.
fn shown(pattern: &str) -> String {
    pattern.replace(ANY_FOLDERS, "**").replace(ANY_NAME, "*")
}
