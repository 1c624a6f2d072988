//! Checks the owner and permissions of the `.gemini` folder.
//!
//! Its content decides which commands run, so a file of another user would be a privilege escalation. A folder
//! of another user is refused; permissions that are too wide are restricted where possible.

use std::path::{Path, PathBuf};

use crate::paths::Home;

/// Files that decide which commands run, what the model sees and where requests go.
const DECIDING: &[&str] = &[
    "settings.json",
    ".env",
    "hooks",
    "policies",
    "commands",
    "skills",
    "agents",
    "extensions",
    "GEMINI.md",
    "memory.md",
    "system.md",
    "trustedFolders.json",
    "trusted_hooks.json",
    "trusted_content",
    "mcp-server-enablement.json",
    "gemini-credentials.json",
];

/// Folders in which each file decides.
const DECIDING_FOLDERS: &[&str] = &["hooks", "policies"];

/// Files that only their owner may read.
const SECRET: &[&str] = &[
    ".env",
    "a2a-oauth-tokens.json",
    "a2a-server-key",
    "a2a-server-token",
    "extension_content.json",
    "extension_integrity.json",
    "gemini-credentials.json",
    "google_accounts.json",
    "integrity.key",
    "keychain_entries.json",
    "mcp-oauth-tokens-v2.json",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
    "trustedFolders.json",
];

/// More files than this in a folder are not looked at one by one.
const MAX_FILES: usize = 1000;

/// Something in the home belongs to another user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub path: PathBuf,
    /// The number of the user it belongs to.
    pub owner: u32,
}

/// Everything in the home that decides something and exists.
fn deciding(home: &Home) -> Vec<PathBuf> {
    let folder = home.gemini_dir();
    let mut all = vec![folder.to_owned(), home.user_home().join(".env")];
    all.extend(DECIDING.iter().map(|name| folder.join(name)));
    for name in DECIDING_FOLDERS {
        let entries = std::fs::read_dir(folder.join(name)).into_iter().flatten().flatten();
        all.extend(entries.take(MAX_FILES).map(|entry| entry.path()));
    }
    all
}

/// Finds the first thing that belongs neither to this user nor to root, a link or what it leads to.
#[cfg(unix)]
pub(crate) fn foreign(home: &Home, uid: u32) -> Option<Foreign> {
    use std::os::unix::fs::MetadataExt;
    deciding(home).into_iter().find_map(|path| {
        let own = path.symlink_metadata().ok()?;
        let target = if own.is_symlink() { path.metadata().ok() } else { None };
        let mut owners = [Some(own), target].into_iter().flatten().map(|meta| meta.uid());
        let owner = owners.find(|owner| *owner != uid && *owner != 0)?;
        Some(Foreign { path, owner })
    })
}

#[cfg(not(unix))]
pub(crate) fn foreign(home: &Home, _uid: u32) -> Option<Foreign> {
    let _ = deciding(home);
    None
}

/// Takes rights back that others should not have; lines about what people should know.
#[cfg(unix)]
pub(crate) fn tighten(home: &Home) -> Vec<String> {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// Others may delete only what is theirs in such a folder.
    const STICKY: u32 = 0o1000;
    let mut notes = Vec::new();
    // What a link leads to outside of the home, such as `/dev/null`, is not changed.
    let real_home = home.user_home().canonicalize().ok();
    let is_outside = |path: &Path| {
        let place = path.canonicalize().ok();
        path.is_symlink()
            && !place.zip(real_home.as_ref()).is_some_and(|(place, home)| place.starts_with(home))
    };
    let mut narrow = |path: &PathBuf, unwanted: u32, done: Option<&str>, failed: &str| {
        let Ok(meta) = fs::metadata(path) else { return };
        let mode = meta.mode() & 0o7777;
        let is_harmless = mode & unwanted == 0 || (meta.is_dir() && mode & STICKY != 0);
        if is_harmless || !(meta.is_file() || meta.is_dir()) || is_outside(path) {
            return;
        }
        match (fs::set_permissions(path, fs::Permissions::from_mode(mode & !unwanted)), done) {
            (Ok(()), None) => {}
            (Ok(()), Some(done)) => notes.push(format!("Warning: `{}` {done}", path.display())),
            (Err(error), _) => {
                notes.push(format!("Warning: `{}` {failed}: {error}", path.display()));
            }
        }
    };
    for path in deciding(home) {
        narrow(
            &path,
            0o002,
            Some("was writable by every user; it no longer is. Check what it contains."),
            "is writable by every user, and that could not be changed",
        );
    }
    for name in SECRET {
        let path = home.gemini_dir().join(name);
        if path.is_file() {
            narrow(&path, 0o077, None, "can be read by other users, and that could not be changed");
        }
    }
    notes
}

#[cfg(not(unix))]
pub(crate) fn tighten(_home: &Home) -> Vec<String> {
    let _ = (SECRET, Path::new(""));
    Vec::new()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;
    use crate::scratch::Scratch;

    const SOMEBODY: u32 = 12_345;

    /// Makes a file another user's, or the user another: only root can give files away.
    fn give_away(path: &Path) -> u32 {
        let own = fs::symlink_metadata(path).unwrap().uid();
        match std::os::unix::fs::lchown(path, Some(SOMEBODY), None) {
            Ok(()) => own,
            Err(_) => SOMEBODY,
        }
    }

    #[test]
    fn what_another_user_made_is_found_wherever_it_decides() {
        for name in [
            "home/.gemini",
            "home/.gemini/settings.json",
            "home/.gemini/.env",
            "home/.gemini/hooks",
            "home/.gemini/hooks/start.sh",
            "home/.gemini/policies",
            "home/.gemini/policies/mine.toml",
            "home/.gemini/GEMINI.md",
            "home/.env",
        ] {
            let scratch = Scratch::new();
            for file in ["settings.json", ".env", "hooks/start.sh", "policies/mine.toml", "GEMINI.md"] {
                scratch.write(&format!("home/.gemini/{file}"), "");
            }
            scratch.write("home/.env", "");
            let own = fs::metadata(scratch.path("home")).unwrap().uid();
            assert_eq!(foreign(&scratch.home(), own), None);
            let uid = give_away(&scratch.path(name));
            let found = foreign(&scratch.home(), uid).unwrap_or_else(|| panic!("{name}"));
            if uid != SOMEBODY {
                assert_eq!((found.path, found.owner), (scratch.path(name), SOMEBODY));
            }
        }
    }

    #[test]
    fn a_link_is_as_foreign_as_its_target_and_root_is_trusted() {
        let scratch = Scratch::new();
        let theirs = scratch.write("theirs.json", "{}");
        fs::create_dir(scratch.path("home/.gemini")).unwrap();
        symlink(&theirs, scratch.path("home/.gemini/settings.json")).unwrap();
        let own = fs::metadata(scratch.path("home")).unwrap().uid();
        assert_eq!(foreign(&scratch.home(), own), None);
        if chown(&theirs, Some(SOMEBODY), None).is_ok() {
            assert_eq!(foreign(&scratch.home(), own).unwrap().owner, SOMEBODY);
            chown(&theirs, Some(0), None).unwrap();
            let link = scratch.path("home/.gemini/settings.json");
            assert_eq!(foreign(&scratch.home(), own), None, "owned by root");
            give_away(&link);
            assert_eq!(foreign(&scratch.home(), own).unwrap().path, link);
            fs::remove_file(&link).unwrap();
            // Files of root, with the program run by another user.
            assert_eq!(foreign(&scratch.home(), 4242), None);
        }
    }

    #[test]
    fn rights_of_others_are_taken_back() {
        let scratch = Scratch::new();
        let mode_of = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        for name in SECRET {
            set(&scratch.write(&format!("home/.gemini/{name}"), "x"), 0o644);
        }
        let settings = scratch.write("home/.gemini/settings.json", "{}");
        set(&settings, 0o644);
        assert_eq!(tighten(&scratch.home()), Vec::<String>::new());
        for name in SECRET {
            assert_eq!(mode_of(&scratch.path(&format!("home/.gemini/{name}"))), 0o600, "{name}");
        }
        assert_eq!(mode_of(&settings), 0o644, "no secret");
        let folder = scratch.path("home/.gemini");
        set(&settings, 0o666);
        set(&folder, 0o777);
        let notes = tighten(&scratch.home());
        assert_eq!((mode_of(&folder), mode_of(&settings)), (0o775, 0o664));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes.iter().all(|note| note.contains("was writable by every user")), "{notes:?}");
        set(&folder, 0o1777);
        assert_eq!(tighten(&scratch.home()), Vec::<String>::new());
        // Nothing outside the home is changed through a link.
        let outside = scratch.write("outside", "x");
        set(&outside, 0o666);
        let links = [("GEMINI.md", outside.as_path()), ("memory.md", Path::new("/dev/null"))];
        for (name, target) in links {
            symlink(target, folder.join(name)).unwrap();
        }
        let null = mode_of(Path::new("/dev/null"));
        assert_eq!(tighten(&scratch.home()), Vec::<String>::new());
        assert_eq!((mode_of(&outside), mode_of(Path::new("/dev/null"))), (0o666, null));
        let kept = scratch.path("home/.gemini/.env");
        set(&kept, 0o400);
        tighten(&scratch.home());
        assert_eq!(mode_of(&kept), 0o400, "a mode that is narrow enough stays");
    }
}
