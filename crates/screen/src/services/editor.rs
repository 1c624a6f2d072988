//! Opening a text in an external editor.

use std::io::Read as _;
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
    let file = Lent::new(folder, name, text)?;
    let run =
        Command::new(&call.program).args(&call.arguments).arg(&file.path).current_dir(env.cwd()).status();
    match run {
        Err(error) => Err(format!("Cannot start editor `{}`: {error}", call.name)),
        Ok(status) if !status.success() => {
            Err(format!("The editor `{}` failed ({status}); text unchanged.", call.name))
        }
        Ok(_) => file.read(),
    }
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

/// A private file that is deleted on drop.
struct Lent {
    folder: PathBuf,
    path: PathBuf,
}

impl Lent {
    fn new(parent: &Path, name: &str, text: &str) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("edit-{}-{number}", std::process::id()));
        let own = Path::new(name).file_name().unwrap_or_else(|| "text.md".as_ref());
        let lent = Self { path: folder.join(own), folder };
        let problem = |error: &dyn std::fmt::Display| format!("Cannot write the text to a file: {error}");
        files::create_folder(&lent.folder, Mode::Private).map_err(|error| problem(&error))?;
        files::replace(&lent.path, text.as_bytes(), Mode::Private).map_err(|error| problem(&error))?;
        Ok(lent)
    }

    fn read(&self) -> Result<String, String> {
        let problem = |error: &dyn std::fmt::Display| format!("Cannot read the edited text: {error}");
        let file = std::fs::File::open(&self.path).map_err(|error| problem(&error))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(problem(&"larger than 32 MB"));
        }
        String::from_utf8(bytes).map_err(|_| problem(&"not UTF-8"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Editors leave backup files in the folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
