//! Built-in slash commands that produce a prompt (`/init`, `/plan`), for interactive and headless runs.

use std::path::PathBuf;

use pollux_config::files::{self, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use super::{Loaded, Prepared, policy};

/// Largest plan to show, in bytes.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// Commands that open a dialog or end the conversation, and so need an interactive front end.
const FOR_A_PERSON: &[&str] = &[
    "auth",
    "chat",
    "editor",
    "exit",
    "footer",
    "model",
    "permissions",
    "quit",
    "resume",
    "rewind",
    "settings",
    "statusline",
    "theme",
];

/// A newly created context file.
pub struct Begun {
    pub prompt: String,
    pub note: String,
}

/// `/init`: creates an empty context file and returns the prompt that makes the model fill it.
pub fn begin_context_file(loaded: &Loaded) -> Result<Begun, String> {
    let name = loaded.groups.context.file_names.first().map_or("GEMINI.md", String::as_str);
    let file = loaded.project.root().join(name);
    if file.symlink_metadata().is_ok() {
        return Err(format!("{name} already exists in this folder; nothing was changed."));
    }
    files::replace(&file, b"", Mode::Shared).map_err(|error| error.to_string())?;
    Ok(Begun {
        prompt: init_prompt(name),
        note: format!("Created an empty {name}; the model fills it in now."),
    })
}

fn init_prompt(name: &str) -> String {
    format!(
        "Get to know this project and describe it in the file `{name}`, which is empty now and which later sessions \
         will read before anything else.\n\n\
         1. List the folder, then read the files that tell most: the README, manifests and build files, \
         configuration, and a few central source files. Follow what they point to, ten files or so; stop when you \
         can explain the project.\n\
         2. Decide what it is: a program or library with code, or a collection of something else such as documents, \
         notes or data.\n\
         3. Write `{name}` in Markdown. For a code project: what it is for and how it is built up; the commands to \
         build, run and test it (mark what you could not confirm); how its code is written. For anything else: what \
         the folder holds, its most important files, and how it is meant to be used.\n\n\
         Be exact and brief, and put down only what you found in the files."
    )
}

/// A built-in command in a headless run: a prompt or an error; `None` if the text is sent as typed.
pub(super) fn headless(word: &str, rest: &str, loaded: &Loaded) -> Option<Result<String, Failure>> {
    let refused = |text: String| Some(Err(Failure::new(ExitKind::Input, text)));
    match (word, rest) {
        ("init", _) => match begin_context_file(loaded) {
            Ok(begun) => Some(Ok(begun.prompt)),
            Err(text) => refused(text),
        },
        ("plan", text) if !text.is_empty() && text != "copy" => Some(Ok(text.to_owned())),
        (word, "") if FOR_A_PERSON.contains(&word) => {
            refused(format!("`/{word}` requires an interactive terminal"))
        }
        _ => None,
    }
}

/// Whether a headless prompt starts plan mode.
pub(super) fn wants_plan(prompt: &str) -> bool {
    let rest = prompt.trim().strip_prefix("/plan");
    rest.is_some_and(|rest| rest.starts_with(char::is_whitespace) && rest.trim() != "copy")
}

impl Prepared<'_> {
    /// The most recent plan of this session.
    pub fn plan(&self) -> Option<(PathBuf, String)> {
        let folder = policy::session_plans(self.loaded, self.session.id.as_str())?;
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let plans = entries.filter_map(|entry| {
            let path = entry.path();
            let meta = entry.metadata().ok()?;
            let is_plan = path.extension().is_some_and(|suffix| suffix == "md") && meta.is_file();
            (is_plan && meta.len() <= MAX_PLAN_BYTES).then(|| Some((meta.modified().ok()?, path)))?
        });
        let (_, path) = plans.max()?;
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_wanted_when_there_is_something_to_plan() {
        assert!(wants_plan("/plan a tree"));
        for other in ["/plan", "/plan copy", "/planet x", "plan a tree"] {
            assert!(!wants_plan(other), "{other}");
        }
    }
}
