//! The user's folder: its rights, the files in it, and the space around it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pollux_config::paths::Home;
use pollux_config::settings::read_object;
use rustix::fs::{Access, access, statvfs};

use super::Patient;
use super::finding::{Finding, or_ok};
use super::repair::Repair;

/// Files that nobody else may read.
const SECRET_FILES: [&str; 6] = [
    ".env",
    "a2a-server-token",
    "gemini-credentials.json",
    "mcp-oauth-tokens.json",
    "mcp-oauth-tokens-v2.json",
    "oauth_creds.json",
];
/// Files that are objects in JSON; settings are checked elsewhere.
const JSON_FILES: [&str; 6] = [
    "google_accounts.json",
    "keybindings.json",
    "mcp-server-enablement.json",
    "projects.json",
    "state.json",
    "trustedFolders.json",
];

/// Less free space is a problem, or a warning.
const TOO_LITTLE: u64 = 100 << 20;
const LITTLE: u64 = 1 << 30;

pub(super) fn home(patient: &Patient) -> Vec<Finding> {
    let home = match Home::locate(&patient.env) {
        Ok(home) => home,
        Err(error) => return vec![Finding::problem(error.to_string()).hint(error.hint())],
    };
    let folder = home.gemini_dir();
    let Ok(metadata) = fs::metadata(folder) else {
        let text = format!("`{}` does not exist yet", folder.display());
        return vec![Finding::ok(text).hint("it is created when something is stored")];
    };
    if !metadata.is_dir() {
        let text = format!("`{}` is not a folder", folder.display());
        return vec![Finding::problem(text).hint("move the file away")];
    }
    let mut findings = Vec::new();
    if access(folder, Access::WRITE_OK).is_err() {
        findings.push(
            Finding::problem(format!("`{}` is not writable; sessions cannot be saved", folder.display()))
                .hint(format!(
                    "run `chmod u+rwx {}`, or choose another place with GEMINI_CLI_HOME",
                    folder.display()
                )),
        );
    }
    findings.extend(open_to_write(folder, &metadata));
    for name in ["policies", "commands", "skills", "agents", "extensions", "hooks"] {
        let path = folder.join(name);
        if let Ok(metadata) = fs::metadata(&path) {
            findings.extend(open_to_write(&path, &metadata));
        }
    }
    findings.extend(SECRET_FILES.iter().filter_map(|name| readable_secret(&folder.join(name))));
    findings.extend(JSON_FILES.iter().filter_map(|name| invalid_json(&folder.join(name))));
    let tmp = home.tmp_dir();
    if tmp.exists() && access(&tmp, Access::WRITE_OK).is_err() {
        findings.push(
            Finding::problem(format!("`{}` is not writable; sessions cannot be saved", tmp.display()))
                .hint(format!("run `chmod u+rwx {}`", tmp.display())),
        );
    }
    or_ok(findings, folder.display().to_string())
}

/// Other users could put hooks, servers or rules into it.
fn open_to_write(folder: &Path, metadata: &fs::Metadata) -> Option<Finding> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o022 == 0 {
        return None;
    }
    let text = format!("other users can write to `{}` (mode {mode:o})", folder.display());
    let repair = Repair::Rights(folder.to_path_buf(), mode & !0o022);
    Some(Finding::problem(text).hint(format!("run `chmod go-w {}`", folder.display())).repair(repair))
}

fn readable_secret(path: &Path) -> Option<Finding> {
    let metadata = fs::metadata(path).ok()?;
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_file() || mode & 0o077 == 0 {
        return None;
    }
    let text = format!("other users can read `{}` (mode {mode:o})", path.display());
    let repair = Repair::Rights(path.to_path_buf(), 0o600);
    Some(Finding::problem(text).hint(format!("run `chmod 600 {}`", path.display())).repair(repair))
}

fn invalid_json(path: &Path) -> Option<Finding> {
    let error = read_object(path).err()?;
    let reason = error.files.first().map_or_else(|| error.to_string(), |file| file.reason.clone());
    let text = format!("`{}` cannot be read: {reason}", path.display());
    Some(Finding::problem(text).hint("fix the file, or move it away to start with a new one"))
}

pub(super) fn disk(patient: &Patient) -> Vec<Finding> {
    let mut places: Vec<(&str, PathBuf)> = Vec::new();
    if let Ok(home) = Home::locate(&patient.env) {
        places.push(("home", home.user_home().to_path_buf()));
    }
    let temporary = patient.env.non_empty("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let mut findings = Vec::new();
    if !temporary.is_dir() {
        findings.push(
            Finding::problem(format!(
                "the folder for temporary files, `{}`, does not exist",
                temporary.display()
            ))
            .hint("create it, or set TMPDIR to another folder"),
        );
    } else if access(&temporary, Access::WRITE_OK).is_err() {
        findings.push(
            Finding::problem(format!(
                "the folder for temporary files, `{}`, is not writable",
                temporary.display()
            ))
            .hint("set TMPDIR to another folder"),
        );
    } else {
        places.push(("temporary files", temporary));
    }
    let mut seen = Vec::new();
    for (name, path) in places {
        let (Ok(space), Ok(metadata)) = (statvfs(&path), fs::metadata(&path)) else { continue };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let text = format!("{} free for {name} (`{}`)", megabytes(free), path.display());
        let hint = "delete files; `pollux sessions prune` removes old sessions";
        match free {
            ..TOO_LITTLE => findings.push(Finding::problem(text).hint(hint)),
            TOO_LITTLE..LITTLE => findings.push(Finding::warning(text).hint(hint)),
            // One line per file system.
            _ if seen.contains(&metadata.dev()) => {}
            _ => findings.push(Finding::ok(text)),
        }
        seen.push(metadata.dev());
    }
    findings
}

fn megabytes(bytes: u64) -> String {
    match bytes >> 20 {
        mega @ 0..10_000 => format!("{mega} MiB"),
        mega => format!("{} GiB", mega >> 10),
    }
}
