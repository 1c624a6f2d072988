//! The repositories that git may use in a folder, and which words name a commit in them.
//!
//! Reads references, but no objects: a word that is not certain to name a commit may name the content of any file.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, EntryKind, GIT_SETTINGS};

/// How much of a file `HEAD` git reads, in bytes.
const MAX_HEAD: usize = 255;
/// Size limit for the list of packed references, in bytes.
const MAX_REFS: u64 = 16 * 1024 * 1024;
/// How many references may lead to one another.
const MAX_STEPS: usize = 5;
/// References that git sets to commits only.
const COMMITS: [&str; 6] =
    ["HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"];

/// A repository, by its top folder and the folder with its index.
pub(super) struct Repository {
    pub(super) top: PathBuf,
    pub(super) git: PathBuf,
    /// Whether git certainly takes it for one. It passes over a `.git` folder that is none.
    pub(super) is_certain: bool,
}

impl Repository {
    /// The repositories that git may use in a folder: the nearest, and those around it as long as it is not certain.
    pub(super) fn candidates(disk: &dyn Disk, folder: &Path) -> Vec<Self> {
        let mut found = Vec::new();
        for top in folder.ancestors() {
            let git = top.join(".git");
            let at = |git: PathBuf, is_certain| Self { top: top.to_owned(), git, is_certain };
            if disk.kind(&git.join("HEAD")).is_some() {
                let is_certain = is_git_folder(disk, &git);
                found.push(at(git, is_certain));
            } else if let Some(linked) = linked(disk, top, &git) {
                let is_certain = is_git_folder(disk, &linked);
                found.push(at(linked, is_certain));
            }
            if found.last().is_none_or(|one| !one.is_certain) && is_git_folder(disk, top) {
                found.push(at(top.to_owned(), true));
            }
            if found.last().is_some_and(|one| one.is_certain) {
                break;
            }
        }
        found
    }

    /// The files with its settings, whether they exist or not.
    pub(super) fn settings_files(&self, disk: &dyn Disk) -> Vec<PathBuf> {
        settings_files(disk, &self.git)
    }

    /// Whether a folder belongs to git itself.
    pub(super) fn is_inside(&self, folder: &Path) -> bool {
        folder.starts_with(&self.git)
    }

    /// Whether the configuration lets git show files of submodules.
    pub(super) fn enters_submodules(&self, disk: &dyn Disk) -> bool {
        let text = disk.text(&common(disk, &self.git).join("config")).unwrap_or_default().to_lowercase();
        let words: String = text.chars().filter(|letter| !letter.is_whitespace() && *letter != '"').collect();
        words.contains("submodule=diff") || words.contains("recurse=") || words.contains("[include")
    }

    /// Whether a word certainly names commits.
    pub(super) fn is_commit(&self, disk: &dyn Disk, word: &str) -> bool {
        let word = word.strip_prefix('^').unwrap_or(word);
        match word.split_once("..") {
            Some((from, to)) => {
                let to = to.strip_prefix('.').unwrap_or(to);
                (from.is_empty() || self.is_one_commit(disk, from))
                    && (to.is_empty() || self.is_one_commit(disk, to))
            }
            None => self.is_one_commit(disk, word),
        }
    }

    fn is_one_commit(&self, disk: &dyn Disk, word: &str) -> bool {
        let end = word
            .char_indices()
            .find(|(at, letter)| {
                matches!(letter, '~' | '^') || word.get(*at..).is_some_and(|rest| rest.starts_with("@{"))
            })
            .map_or(word.len(), |(at, _)| at);
        let (name, mut rest) = word.split_at_checked(end).unwrap_or((word, ""));
        let is_named = (name.is_empty() && rest.starts_with("@{")) || self.is_branch(disk, name);
        // Git follows these only from commits.
        let mut is_followed = false;
        while let Some((mark, behind)) = rest.split_at_checked(1) {
            let braced = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            rest = match (mark, braced) {
                ("~" | "^", None) => {
                    is_followed = true;
                    let behind = behind.strip_prefix(['!', '@', '-']).unwrap_or(behind);
                    behind.trim_start_matches(|letter: char| letter.is_ascii_digit())
                }
                ("^", Some((inner, behind))) if inner == "commit" || inner.starts_with('/') => {
                    is_followed = true;
                    behind
                }
                // The folder of a commit starts at the top.
                ("^", Some(("tree", behind))) if is_named || is_followed => behind,
                // A number or a date, not `@{upstream}`, which the configuration sets.
                ("@", Some((inner, behind))) if inner.starts_with(|letter: char| letter.is_ascii_digit()) => {
                    behind
                }
                _ => return false,
            };
        }
        is_named || is_followed
    }

    /// Whether a name is that of a branch or of another reference that git sets to commits only.
    fn is_branch(&self, disk: &dyn Disk, name: &str) -> bool {
        let is_hash = (4..=64).contains(&name.len()) && name.chars().all(|letter| letter.is_ascii_hexdigit());
        let is_path = !name.starts_with('/') && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if name == "@" {
            return self.leads_to_branch(disk, "HEAD", MAX_STEPS);
        }
        if is_hash || !is_path {
            return false;
        }
        let places = [
            name.to_owned(),
            format!("refs/{name}"),
            format!("refs/tags/{name}"),
            format!("refs/heads/{name}"),
            format!("refs/remotes/{name}"),
            format!("refs/remotes/{name}/HEAD"),
        ];
        places
            .iter()
            .find(|place| self.reference(disk, place).is_some())
            .is_some_and(|place| self.leads_to_branch(disk, place, MAX_STEPS))
    }

    /// Whether a reference is set to commits only. Tags and fetched objects may be anything.
    fn leads_to_branch(&self, disk: &dyn Disk, reference: &str, steps: usize) -> bool {
        let is_known = COMMITS.contains(&reference)
            || reference == "refs/stash"
            || reference.starts_with("refs/heads/")
            || reference.starts_with("refs/remotes/");
        let text = self.reference(disk, reference).unwrap_or_default();
        is_known
            && text.trim().strip_prefix("ref:").is_none_or(|next| {
                steps > 0
                    && next.trim().starts_with("refs/")
                    && self.leads_to_branch(disk, next.trim(), steps - 1)
            })
    }

    /// The text of a reference; empty if it is a packed one.
    fn reference(&self, disk: &dyn Disk, name: &str) -> Option<String> {
        let common = common(disk, &self.git);
        for folder in [&self.git, &common] {
            let file = folder.join(name);
            if disk.kind(&file).is_some_and(|kind| kind != EntryKind::Folder) {
                return Some(disk.text(&file).unwrap_or_default());
            }
        }
        let packed = disk.bytes(&common.join("packed-refs"), MAX_REFS)?;
        let is_it = |line: &[u8]| {
            let mut words = line.split(|byte| *byte == b' ').skip(1);
            words.next() == Some(name.as_bytes())
        };
        packed.split(|byte| *byte == b'\n').any(is_it).then(String::new)
    }
}

/// Where a `.git` file leads. Git accepts no other form of it.
fn linked(disk: &dyn Disk, top: &Path, git: &Path) -> Option<PathBuf> {
    if matches!(disk.kind(git)?, EntryKind::Folder | EntryKind::Other) {
        return None;
    }
    let text = disk.text(git)?;
    Some(top.join(text.strip_prefix("gitdir: ")?.trim_end_matches(['\n', '\r'])))
}

/// The folder that a `.git` folder, link or file in another folder stands for, if it is one.
pub(super) fn git_folder_of(disk: &dyn Disk, top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    let is_folder = disk.kind(&git)? == EntryKind::Folder || disk.kind(&git.join("HEAD")).is_some();
    if is_folder { Some(git) } else { linked(disk, top, &git) }
}

/// Whether git takes a folder for that of a repository. `true` is certain.
pub(super) fn is_git_folder(disk: &dyn Disk, folder: &Path) -> bool {
    let is_folder = |path: PathBuf| disk.kind(&path) == Some(EntryKind::Folder);
    let head = folder.join("HEAD");
    let common = common(disk, folder);
    disk.kind(&head) == Some(EntryKind::File)
        && disk.text(&head).is_some_and(|text| is_head(&text))
        && is_folder(common.join("objects"))
        && is_folder(common.join("refs"))
}

/// Whether git accepts the content of a file `HEAD`. It reads the beginning only, and skips blanks only behind `ref:`.
fn is_head(text: &str) -> bool {
    let blanks = [' ', '\t', '\n', '\r'];
    if text.len() > MAX_HEAD {
        return false;
    }
    match text.strip_prefix("ref:") {
        Some(name) => name.trim_start_matches(blanks).starts_with("refs/"),
        None => {
            let hash = text.trim_end_matches(blanks);
            matches!(hash.len(), 40 | 64) && hash.chars().all(|letter| letter.is_ascii_hexdigit())
        }
    }
}

/// The folder with the references, which working trees share.
pub(super) fn common(disk: &dyn Disk, git: &Path) -> PathBuf {
    let file = git.join("commondir");
    if !matches!(disk.kind(&file), Some(EntryKind::File | EntryKind::Link)) {
        return git.to_owned();
    }
    disk.text(&file)
        .map_or_else(|| git.to_owned(), |text| git.join(text.trim_end_matches([' ', '\t', '\n', '\r'])))
}

/// The files with the settings of a repository, whether they exist or not.
pub(super) fn settings_files(disk: &dyn Disk, git: &Path) -> Vec<PathBuf> {
    let common = common(disk, git);
    let mut files: Vec<PathBuf> = GIT_SETTINGS.iter().map(|name| common.join(name)).collect();
    if common != git {
        files.push(git.join("config.worktree"));
    }
    files
}
