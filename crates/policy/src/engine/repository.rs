//! Repositories that are not what the user trusted.
//!
//! Git takes any folder with `HEAD`, `objects` and `refs` for a repository and runs what its `config` says. Such a folder
//! is made of ordinary files: a clone can bring it, and edits can create it, while a `.git` folder is protected. The trust
//! in a workspace covers the repository at its top; one in a folder below must not start programs.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::git_config::{Setting, settings};
use super::git_repository::{Repository, common, git_folder_of, is_git_folder, settings_files};
use super::git_shows::MAX_INDEX;
use super::working_dirs::WorkingDirs;
use super::{Engine, program_base};
use crate::checker::place;
use crate::disk::{BoundedDisk, Disk, EntryKind, MAX_BYTES};
use crate::git_index::each_path;
use crate::shell::{
    CommandAnalysis, Part, git_contacts, git_directory, git_fetches_submodules, git_subcommand, touches,
};

impl Engine {
    /// Why a command may use a repository made of ordinary files, if it may.
    pub(super) fn embedded_repository(&self, parts: &[Part], places: &WorkingDirs) -> Option<String> {
        let disk = self.options.disk.as_deref()?;
        let resolve = self.options.resolve.as_ref();
        let real = |folder: &Path| place(folder, "", resolve);
        let roots: Vec<PathBuf> = self.options.workspaces.iter().map(|root| real(root)).collect();
        let search = RepositorySearch { disk, roots, real: &real };
        let mut git = parts.iter().filter(|part| runs_git(part)).peekable();
        if places.unknown && git.peek().is_some() {
            return Some("the folder that `git` runs in is not known until the command runs".to_owned());
        }
        git.find_map(|part| {
            places.all.iter().find_map(|from| {
                let Some(folder) = git_directory(part, from, real) else {
                    return Some(
                        "the directory that `git` uses is not known until the command runs".to_owned(),
                    );
                };
                search.around(&folder).or_else(|| search.contacted(part, &folder))
            })
        })
    }

    /// Why a line may make the repository that it uses, if it may: no file of it has to exist before.
    pub(super) fn made_repository(
        &self,
        understood: &CommandAnalysis,
        places: &WorkingDirs,
    ) -> Option<String> {
        if !understood.parts.iter().any(runs_git) {
            return None;
        }
        // Unpacking `HEAD.gz` creates `HEAD`, so the name without its suffix counts.
        let named = |path: &Path| {
            let packed = path.extension().is_some_and(|end| PACKED.iter().any(|known| end == *known));
            let name = if packed { path.file_stem() } else { path.file_name() };
            name.is_some_and(|name| REPOSITORY_FILES.iter().any(|file| name.eq_ignore_ascii_case(file)))
        };
        let makes = |target: &&str| {
            let real = |from: &PathBuf| place(from, target, self.options.resolve.as_ref());
            named(Path::new(target)) || places.all.iter().any(|from| named(&real(from)))
        };
        let redirected = understood.redirections.iter().filter(|found| found.writes);
        // As an operand of git, `HEAD` is a commit, not a file.
        let written = |part| {
            let is_git = runs_git(part);
            let touches = touches(part).0.into_iter().filter(|touch| touch.writes).map(|touch| touch.path);
            touches.filter(move |path| !is_git || *path != "HEAD")
        };
        let touched: Vec<&str> = understood.parts.iter().flat_map(written).collect();
        let target = redirected.filter_map(|found| found.target.as_deref()).chain(touched).find(makes)?;
        Some(format!("it writes to `{target}`, which may change which repositories `git` uses"))
    }
}

/// Whether a command runs git.
pub(super) fn runs_git(part: &Part) -> bool {
    matches!(part.words.first(), Some(Some(program)) if program_base(program) == "git")
}

/// Suffixes that decompressors remove.
const PACKED: [&str; 6] = ["gz", "xz", "bz2", "zst", "lzma", "Z"];
/// Files that make a folder a repository, or name one.
const REPOSITORY_FILES: [&str; 6] = ["HEAD", "config", "commondir", "gitdir", ".git", MODULES];
/// The file with the addresses of submodules.
const MODULES: &str = ".gitmodules";

/// Ends of names with which git looks for the repository that a path stands for.
const ENDS: [&str; 4] = ["", "/.git", ".git", ".git/.git"];

/// Finds repositories in the workspace that the trust in it does not cover.
struct RepositorySearch<'s> {
    disk: &'s dyn Disk,
    /// The folders of the workspace.
    roots: Vec<PathBuf>,
    real: &'s dyn Fn(&Path) -> PathBuf,
}

impl RepositorySearch<'_> {
    fn root_of(&self, folder: &Path) -> Option<&PathBuf> {
        self.roots.iter().find(|root| folder.starts_with(root))
    }

    /// Why git may not work in a folder.
    fn around(&self, folder: &Path) -> Option<String> {
        let root = self.root_of(folder)?;
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(root)) {
            // Git passes over a `.git` that is not a repository.
            if let Some(git) = git_folder_of(self.disk, folder) {
                let is_certain = is_git_folder(self.disk, &git);
                let why = if self.roots.iter().any(|root| root == folder) { None } else { self.runs(&git) };
                if is_certain || why.is_some() {
                    return why;
                }
            }
            if folder.ends_with(".git") && is_git_folder(self.disk, folder) {
                return self.runs(folder);
            }
            if self.may_be_bare(folder) {
                return Some(bare(folder));
            }
        }
        None
    }

    fn may_be_bare(&self, folder: &Path) -> bool {
        let has = |name: &str| self.disk.kind(&folder.join(name)).is_some();
        has("HEAD") && (has("objects") || has("commondir"))
    }

    /// Why git may not contact the repositories that a command names, or those that are set as remotes: hooks run there.
    fn contacted(&self, part: &Part, folder: &Path) -> Option<String> {
        let at = git_subcommand(&part.words);
        let subcommand = part.words.get(at)?.as_deref()?;
        if !git_contacts(subcommand) {
            return None;
        }
        let words = part.words.iter().enumerate().skip(at + 1);
        let mut look = BoundedDisk::new(self.disk);
        let mut names: Vec<String> = Vec::new();
        for (at, word) in words {
            match (word, part.patterns.iter().find(|pattern| pattern.at == at)) {
                (Some(word), _) => {
                    names.extend(word.split_once('=').map(|(_, value)| value.to_owned()));
                    names.push(word.clone());
                }
                (None, Some(pattern)) => {
                    let found = look.expand(folder, &pattern.text).unwrap_or_default();
                    names.extend(found.into_iter().map(|one| one.word));
                }
                (None, None) => {}
            }
        }
        let mut set = Vec::new();
        for repository in Repository::candidates(self.disk, folder) {
            let files = repository.settings_files(self.disk);
            let texts = files.iter().filter_map(|file| self.disk.text(file));
            set.extend(texts.flat_map(|text| settings(&text).unwrap_or_default()));
        }
        names.extend(set.iter().filter_map(|one| one.address().map(str::to_owned)));
        // Some subcommands change to the top first.
        let root = self.root_of(folder)?;
        let folders: Vec<&Path> = folder.ancestors().take_while(|one| one.starts_with(root)).collect();
        if git_fetches_submodules(part)
            && let Some(why) = folders.iter().find_map(|top| self.submodules(top, &set))
        {
            return Some(why);
        }
        names.iter().find_map(|name| folders.iter().find_map(|folder| self.target(folder, name)))
    }

    /// Why git may not fetch the submodules that a project declares: every file of it may come from others.
    fn submodules(&self, top: &Path, set: &[Setting]) -> Option<String> {
        let file = top.join(MODULES);
        if self.disk.kind(&file).is_none() && !self.tracks_modules(top) {
            return None;
        }
        let text = self.disk.text(&file).filter(|text| (text.len() as u64) < MAX_BYTES);
        let Some(all) = text.and_then(|text| settings(&text)) else {
            return Some(format!("the submodules in `{}` cannot be determined", file.display()));
        };
        let mut remotes = set.iter().filter(|one| one.section == "remote" && one.key == "url").peekable();
        // Relative addresses start from that of the repository.
        let is_remote = remotes.peek().is_some() && remotes.all(|one| is_network_address(&one.value));
        let is_open = |one: &&Setting| match one.key.as_str() {
            "url" if one.value.starts_with("./") || one.value.starts_with("../") => {
                is_remote && !one.value.contains("::")
            }
            "url" => is_network_address(&one.value),
            "update" => matches!(one.value.as_str(), "checkout" | "rebase" | "merge" | "none"),
            _ => true,
        };
        let one = all.iter().find(|one| !is_open(one))?;
        let what = format!("`.gitmodules` sets `{}` to `{}`", one.name(), one.value);
        Some(format!("{what}, which may run a program or read another repository of this machine"))
    }

    /// Whether git may read the tracked version of a file that is missing.
    fn tracks_modules(&self, top: &Path) -> bool {
        let Some(git) = git_folder_of(self.disk, top) else { return false };
        let index = git.join("index");
        let mut found = false;
        let read = self.disk.bytes(&index, MAX_INDEX).and_then(|bytes| {
            each_path(&bytes, |path, _| {
                found = path == MODULES.as_bytes();
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        self.disk.kind(&index).is_some() && (found || read.is_none())
    }

    /// Why git may not contact the repository at a path.
    fn target(&self, from: &Path, name: &str) -> Option<String> {
        let name = name.strip_prefix("file://").unwrap_or(name).trim_end_matches('/');
        if name.is_empty() || name.starts_with('-') {
            return None;
        }
        ENDS.iter().find_map(|end| {
            let git = (self.real)(&place(from, &format!("{name}{end}"), None));
            let root = self.root_of(&git)?;
            let top = git.parent()?;
            if git == root.join(".git") {
                return None;
            }
            match self.disk.kind(&git)? {
                EntryKind::Folder if !self.may_be_bare(&git) => None,
                EntryKind::Folder if git.ends_with(".git") => self.runs(&git),
                EntryKind::Folder => Some(bare(&git)),
                _ if git.ends_with(".git") => self.runs(&git_folder_of(self.disk, top)?),
                _ => None,
            }
        })
    }

    /// Why a repository may start programs.
    fn runs(&self, git: &Path) -> Option<String> {
        let shared = common(self.disk, git);
        let is_own = |folder: &Path| self.roots.iter().any(|root| (self.real)(folder) == root.join(".git"));
        // A working tree of the repository at the top.
        let trusted = is_own(&shared).then(|| (self.real)(&shared));
        let files = settings_files(self.disk, git);
        let mut files = files.iter().filter(|file| file.parent().map(self.real) != trusted);
        if let Some(why) = files.find_map(|file| self.starts(file)) {
            return Some(why);
        }
        let hooks = self.disk.list(&shared.join("hooks")).filter(|_| trusted.is_none()).unwrap_or_default();
        let hook = hooks.iter().find(|hook| !hook.name.to_string_lossy().ends_with(".sample"))?;
        let file = shared.join("hooks").join(&hook.name);
        Some(format!("git may run `{}`, a hook of a repository below the workspace", file.display()))
    }

    /// Why a file with settings may start programs.
    fn starts(&self, file: &Path) -> Option<String> {
        self.disk.kind(file)?;
        let text = self.disk.text(file).filter(|text| (text.len() as u64) < MAX_BYTES);
        let Some(all) = text.and_then(|text| settings(&text)) else {
            return Some(format!("the settings in `{}` cannot be read", file.display()));
        };
        let started = all.into_iter().find(|one| !Setting::is_calm(one))?;
        Some(format!("`{}` sets `{}`, which may run a program", file.display(), started.name()))
    }
}

/// Whether a URL leads to another machine, by a protocol that is part of git.
fn is_network_address(url: &str) -> bool {
    if url.contains("::") || url.starts_with('-') {
        return false;
    }
    match url.split_once("://") {
        Some((scheme, _)) => matches!(scheme, "https" | "http" | "ssh" | "git"),
        // `host:path`; a slash before the colon makes it a path.
        None => url.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/')),
    }
}

fn bare(folder: &Path) -> String {
    let folder = folder.display();
    format!("`{folder}` is a bare Git repository in the workspace, whose config can run programs")
}
