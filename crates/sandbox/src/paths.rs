//! The paths that a sandboxed command may write, must not see or must not change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::SandboxRequest;

/// Below a home: keys, tokens, browsers, mail. `.npmrc` because it contains publishing tokens.
const SECRETS: &[&str] = &[
    ".aws",
    ".azure",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".colima",
    ".config/1Password",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hcloud",
    ".config/hub",
    ".config/microsoft-edge",
    ".config/op",
    ".config/opera",
    ".config/rclone",
    ".config/sops",
    ".config/vivaldi",
    ".databrickscfg",
    ".docker",
    ".fly",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".oci",
    ".orbstack",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".rd",
    ".s3cfg",
    ".ssh",
    ".terraform.d/credentials.tfrc.json",
    ".thunderbird",
    ".var/app",
    ".vault-token",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Microsoft Edge",
    "Library/Cookies",
    "Library/Keychains",
    "Library/Mail",
    "Library/Messages",
    "Library/Safari",
    "snap/chromium",
    "snap/firefox",
];

/// In the user's `.gemini`; settings may contain keys.
const GEMINI_SECRETS: &[&str] = &[
    ".env",
    "a2a-oauth-tokens.json",
    "gemini-credentials.json",
    "google_accounts.json",
    "mcp-oauth-tokens-v2.json",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
    "settings.json",
];

/// Sockets of daemons outside `/run` and homes.
const SOCKETS: &[&str] = &[
    "/var/lib/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/run/user",
];

/// Folders below a home that package managers must be able to write.
const CACHES: &[&str] = &[
    ".bun/install/cache",
    ".cache",
    ".cargo/.global-cache",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".gradle/caches",
    ".gradle/wrapper",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".pnpm-store",
    ".yarn/berry/cache",
    "Library/Caches",
    "go/pkg/mod",
];

/// At the top of each workspace directory: files that configure other programs.
const PROTECTED: &[&str] = &[".gemini", ".vscode", ".envrc"];
/// The same in a repository's own folder.
const PROTECTED_IN_GIT: &[&str] = &["hooks", "config"];

/// A directory that sandboxed commands must not get.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("`{}` contains the home directory; a sandbox with write access to it would protect nothing", .0.display())]
    TooBroad(PathBuf),
    #[error("`{}` may contain secrets, so the sandbox hides it", .0.display())]
    Secret(PathBuf),
}

/// All relevant paths; real paths, except for those that do not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SandboxPaths {
    /// Trees and files that can be written, the workspace first.
    pub(crate) writable: Vec<PathBuf>,
    /// Folders for temporary files.
    pub(crate) temp: Vec<PathBuf>,
    /// Not to be read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Not to be changed, and not to be created if they do not exist.
    pub(crate) protected: Vec<PathBuf>,
    /// Folders that contain protected files and must not be renamed.
    pub(crate) pinned: Vec<PathBuf>,
    pub(crate) homes: Vec<PathBuf>,
}

impl SandboxPaths {
    pub(crate) fn survey(request: &SandboxRequest) -> Result<Self, RootError> {
        let homes: Vec<PathBuf> = distinct(request.homes.iter().map(|home| real(home)));
        let roots = distinct(request.roots.iter().map(|root| real(root)));
        let allowed = distinct(request.allowed.iter().map(|path| real(path)));
        let mut hidden = hidden(&homes, &request.gemini_dir);
        for path in roots.iter().chain(&allowed) {
            refuse_broad(path, &homes)?;
        }
        let own = real(&request.gemini_dir);
        let is_secret =
            |root: &Path| root.starts_with(&own) || hidden.iter().any(|path| root.starts_with(path));
        if let Some(secret) = roots.iter().find(|root| is_secret(root)) {
            return Err(RootError::Secret(secret.clone()));
        }
        hidden.retain(|path| !allowed.iter().any(|open| path.starts_with(open)));
        let mut places = Self { temp: temp(&request.temp, &homes), hidden, ..Self::default() };
        for root in &roots {
            places.add_root(root, &homes);
        }
        let caches = homes.iter().flat_map(|home| CACHES.iter().map(|cache| real_below(home, cache)));
        let caches = caches.filter(|cache| cache.exists() && refuse_broad(cache, &homes).is_ok());
        places.writable.extend(allowed.into_iter().chain(caches));
        places.writable = distinct(places.writable.drain(..));
        places.homes = homes;
        Ok(places)
    }

    fn add_root(&mut self, root: &Path, homes: &[PathBuf]) {
        self.writable.push(root.to_owned());
        self.protected.extend(PROTECTED.iter().map(|name| root.join(name)));
        let entry = root.join(".git");
        if entry.is_file() {
            self.protected.push(entry);
        }
        let Some(git) = repository(root, homes) else { return };
        if !git.starts_with(root) {
            self.writable.push(git.clone());
        }
        self.protected.extend(PROTECTED_IN_GIT.iter().map(|name| git.join(name)));
        self.pinned.push(git);
    }
}

/// A home, or a folder that contains one, is not a valid workspace.
pub(crate) fn refuse_broad(path: &Path, homes: &[PathBuf]) -> Result<(), RootError> {
    if path.parent().is_none() || homes.iter().any(|home| home.starts_with(path)) {
        return Err(RootError::TooBroad(path.to_owned()));
    }
    Ok(())
}

/// The folders for temporary files. A bad value of `TMPDIR` must not open a home.
fn temp(own: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    let own = Some(real(own)).filter(|path| refuse_broad(path, homes).is_ok());
    let all = own.into_iter().chain(["/tmp", "/var/tmp"].map(|path| real(Path::new(path))));
    distinct(all.filter(|path| path.is_dir()))
}

fn hidden(homes: &[PathBuf], gemini_dir: &Path) -> Vec<PathBuf> {
    let of_homes = homes.iter().flat_map(|home| SECRETS.iter().map(|name| real_below(home, name)));
    let gemini_dir = real(gemini_dir);
    let own = GEMINI_SECRETS.iter().map(|name| real_below(&gemini_dir, name));
    let sockets = SOCKETS.iter().map(|path| real(Path::new(path)));
    distinct(of_homes.chain(own).chain(sockets))
}

/// The folder of the repository that a directory belongs to. Git must write it to commit, even if the
/// directory is only a part of the repository or one of its work trees.
fn repository(root: &Path, homes: &[PathBuf]) -> Option<PathBuf> {
    let inside = root.ancestors().take_while(|folder| refuse_broad(folder, homes).is_ok());
    let entry = inside.map(|folder| folder.join(".git")).find(|entry| entry.exists())?;
    if entry.is_dir() {
        return (entry.starts_with(root) || entry.join("HEAD").is_file()).then(|| real(&entry));
    }
    let pointer = fs::read_to_string(&entry).ok()?;
    let folder = real(&entry.parent()?.join(pointer.strip_prefix("gitdir:")?.trim()));
    // A `.git` file could name any folder; the folder of a real work tree links back to it.
    let back = fs::read_to_string(folder.join("gitdir")).ok()?;
    if real(&folder.join(back.trim())) != real(&entry) {
        return None;
    }
    let common = fs::read_to_string(folder.join("commondir")).ok()?;
    let common = real(&folder.join(common.trim()));
    (common.join("HEAD").is_file() && refuse_broad(&common, homes).is_ok()).then_some(common)
}

/// The path without symlinks, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

/// The same for a name below a folder that is a real path. Most of these names do not exist, which one lookup
/// shows.
fn real_below(folder: &Path, name: &str) -> PathBuf {
    let whole = folder.join(name);
    let mut path = folder.to_owned();
    for part in Path::new(name) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => return real(&whole),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    whole
}

fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        if path.is_absolute() && !seen.contains(&path) {
            seen.push(path);
        }
    }
    seen
}
