//! Opening a text in an external editor.

use std::fs::{self, File, Permissions};
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_front::editors::{editors, find_program};
use pollux_host::split_words;

/// Maximum size of the edited text.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// An editor's command line, without the file name.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    program: PathBuf,
    arguments: Vec<String>,
    /// Its display name.
    name: String,
}

/// Opens a text in an editor. `name` sets the file type; `folder` holds the private file.
pub(super) fn edit(
    text: &str,
    name: &str,
    preferred: Option<&str>,
    env: &Env,
    folder: &Path,
) -> Result<String, String> {
    let call = call(preferred, env)?;
    let mut file = Lent::new(folder, name, text)?;
    let had_terminal = std::io::stdin().is_terminal();
    let run =
        Command::new(&call.program).args(&call.arguments).arg(&file.path).current_dir(env.cwd()).status();
    let edited = match run {
        Err(error) => Err(format!("Cannot start editor `{}`: {error}", call.name)),
        Ok(status) if !status.success() => {
            Err(format!("The editor `{}` failed ({status}); text unchanged.", call.name))
        }
        Ok(_) => file.read(),
    };
    // A text for a terminal that is closed reaches nobody.
    file.is_returned = edited.is_ok() && (!had_terminal || std::io::stdin().is_terminal());
    edited.map_err(|problem| match file.work() {
        Some(path) => format!("{problem} What the editor wrote is in `{}`.", path.display()),
        None => problem,
    })
}

/// The preferred editor, else `VISUAL`, else `EDITOR`, else vi.
fn call(preferred: Option<&str>, env: &Env) -> Result<Call, String> {
    let preferred = preferred.map(str::trim).filter(|id| !id.is_empty());
    if let Some(id) = preferred {
        if let Some(editor) = editors().iter().find(|editor| editor.id == id) {
            let program = editor.program(env).ok_or_else(|| {
                let program = editor.programs.first().copied().unwrap_or_default();
                format!("{} (`{program}`) not found; choose another with /editor.", editor.name)
            })?;
            let arguments = editor.flags.iter().map(|flag| (*flag).to_owned()).collect();
            return Ok(Call { program, arguments, name: editor.name.to_owned() });
        }
        let known: Vec<&str> = editors().iter().map(|editor| editor.id).collect();
        return Err(format!(
            "unknown editor `{id}` in `general.preferredEditor`; expected one of {}.",
            known.join(", ")
        ));
    }
    let from = ["VISUAL", "EDITOR"].into_iter().find_map(|key| Some((key, env.non_empty(key)?)));
    let (origin, line) = from.unwrap_or(("", "vi"));
    let mut words = split_words(line).into_iter();
    let name = words.next().unwrap_or_else(|| "vi".to_owned());
    let program = find_program(&name, env).ok_or_else(|| match origin {
        "" => "No editor found; choose one with /editor or set EDITOR.".to_owned(),
        key => format!("Editor `{name}` (from `{key}`) not found."),
    })?;
    let mut arguments: Vec<String> = words.collect();
    if returns_at_once(&program) && !arguments.iter().any(|word| word == "--wait" || word == "-w") {
        arguments.push("--wait".to_owned());
    }
    Ok(Call { program, arguments, name })
}

/// Whether a program returns before its window is closed.
fn returns_at_once(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    editors().iter().any(|editor| editor.flags == ["--wait"] && editor.programs.contains(&name))
}

/// A private file that is deleted on drop, unless it holds work that was not returned.
struct Lent<'a> {
    folder: PathBuf,
    path: PathBuf,
    text: &'a str,
    is_returned: bool,
}

impl<'a> Lent<'a> {
    fn new(parent: &Path, name: &str, text: &'a str) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let own = Path::new(name).file_name().unwrap_or_else(|| "text.md".as_ref());
        let folder = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = parent.join(format!("edit-{}-{number}", std::process::id()));
            // An earlier process with this id may have kept one.
            if folder.symlink_metadata().is_err() {
                break folder;
            }
        };
        let lent = Self { path: folder.join(own), folder, text, is_returned: false };
        let problem = |error: &dyn std::fmt::Display| format!("Cannot write the text to a file: {error}");
        files::create_folder(&lent.folder, Mode::Private).map_err(|error| problem(&error))?;
        files::replace(&lent.path, text.as_bytes(), Mode::Private).map_err(|error| problem(&error))?;
        Ok(lent)
    }

    fn read(&self) -> Result<String, String> {
        let problem = |error: &dyn std::fmt::Display| format!("Cannot read the edited text: {error}.");
        let file = File::open(&self.path).map_err(|error| problem(&error))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(problem(&"larger than 32 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| problem(&"not UTF-8"))
    }

    /// Where the editor's work is: the file if it was changed, or the folder if only other files are in it, such as
    /// vim's swap file.
    fn work(&self) -> Option<&Path> {
        let is_same = match File::open(&self.path) {
            Ok(file) => holds(file, self.text.as_bytes()),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_same {
            return Some(&self.path);
        }
        let others = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let has_others = others.into_iter().any(|entry| entry.path() != self.path);
        has_others.then_some(&self.folder)
    }
}

/// Whether a file has exactly this content.
fn holds(file: File, text: &[u8]) -> bool {
    let mut bytes = Vec::new();
    let most = u64::try_from(text.len()).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).is_ok() && bytes == text
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.is_returned && self.work().is_some() {
            // The editor may have written a new file with another mode.
            if self.path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                let _ = fs::set_permissions(&self.path, Permissions::from_mode(0o600));
            }
            return;
        }
        // Editors leave backup files in the folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
