//! Editors of the person's: which are known, which one is meant, and lending a text to it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_front::editors::{editors, find_program};
use pollux_host::split_words;

/// Bytes that are taken back from an editor.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// A program with the words before the file's name.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    program: PathBuf,
    arguments: Vec<String>,
    /// What the person knows it by.
    name: String,
}

/// Lets the person change a text. `name` is that of the file they see, for its colours; `folder` is private.
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
        Err(error) => Err(format!("The editor `{}` could not be started: {error}", call.name)),
        Ok(status) if !status.success() => {
            Err(format!("The editor `{}` failed ({status}); the text is as it was.", call.name))
        }
        Ok(_) => file.read(),
    }
}

/// The preferred editor, else what `VISUAL` or `EDITOR` says, else vi.
fn call(preferred: Option<&str>, env: &Env) -> Result<Call, String> {
    let preferred = preferred.map(str::trim).filter(|id| !id.is_empty());
    if let Some(id) = preferred {
        if let Some(editor) = editors().iter().find(|editor| editor.id == id) {
            let program = editor.program(env).ok_or_else(|| {
                let program = editor.programs.first().copied().unwrap_or_default();
                format!("{} (`{program}`) was not found; `/editor` chooses another.", editor.name)
            })?;
            let arguments = editor.flags.iter().map(|flag| (*flag).to_owned()).collect();
            return Ok(Call { program, arguments, name: editor.name.to_owned() });
        }
        let known: Vec<&str> = editors().iter().map(|editor| editor.id).collect();
        return Err(format!(
            "`general.preferredEditor` names `{id}`, which is none of {}.",
            known.join(", ")
        ));
    }
    let from = ["VISUAL", "EDITOR"].into_iter().find_map(|key| Some((key, env.non_empty(key)?)));
    let (origin, line) = from.unwrap_or(("", "vi"));
    let mut words = split_words(line).into_iter();
    let name = words.next().unwrap_or_else(|| "vi".to_owned());
    let program = find_program(&name, env).ok_or_else(|| match origin {
        "" => "No editor was found; `/editor` or the variable `EDITOR` names one.".to_owned(),
        key => format!("The editor `{name}`, which `{key}` names, was not found."),
    })?;
    let mut arguments: Vec<String> = words.collect();
    if returns_at_once(&program) && !arguments.iter().any(|word| word == "--wait" || word == "-w") {
        arguments.push("--wait".to_owned());
    }
    Ok(Call { program, arguments, name })
}

/// Whether a program is one of those that leave a window behind and end.
fn returns_at_once(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    editors().iter().any(|editor| editor.flags == ["--wait"] && editor.programs.contains(&name))
}

/// A text in a private file that is gone when this is dropped.
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
        let problem =
            |error: &dyn std::fmt::Display| format!("The text could not be put into a file: {error}");
        files::create_folder(&lent.folder, Mode::Private).map_err(|error| problem(&error))?;
        files::replace(&lent.path, text.as_bytes(), Mode::Private).map_err(|error| problem(&error))?;
        Ok(lent)
    }

    fn read(&self) -> Result<String, String> {
        let problem =
            |error: &dyn std::fmt::Display| format!("What the editor wrote could not be read: {error}");
        let file = std::fs::File::open(&self.path).map_err(|error| problem(&error))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(problem(&"it is longer than 32 MB"));
        }
        String::from_utf8(bytes).map_err(|_| problem(&"it is no UTF-8 text"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Editors leave backups beside a file.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
