//! Custom commands: prompts in TOML files that are called as `/name arguments`.
//!
//! [`find`] walks folders without reading files, [`CommandFile::read`] reads one file when its command is used,
//! and [`template::parse`] parses its prompt once. Inserted text (a file's content, a command's output) is
//! never parsed again. [`names::Names`] maps names to commands.

mod discovery;
pub mod names;
mod quoting;
pub mod template;

use std::path::PathBuf;

use pollux_domain::terminal_text::one_line;
use pollux_domain::text::with_dots;
use serde::Deserialize;

use crate::frontmatter;

pub use discovery::{CommandFolders, FoundCommands, find};

/// Size limit of a command file, far above any handwritten prompt.
const MAX_BYTES: u64 = 1024 * 1024;

/// Most characters of a description; upstream's value.
const DESCRIPTION: usize = 100;

/// The origin of a command.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Project,
    User,
    /// A file of this extension.
    Extension(String),
    /// A skill, of this extension if it is one's.
    Skill(Option<String>),
    /// A prompt of this MCP server.
    Server(String),
}

/// A command file that has not been read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandFile {
    /// Without the slash, as the path makes it: `git/fix.toml` is `git:fix`.
    pub name: String,
    pub origin: Origin,
    pub path: PathBuf,
    /// The path below its folder.
    pub below: PathBuf,
}

/// The content of a command file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub prompt: String,
    /// One line, for lists.
    pub description: String,
}

/// Why a command file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("the command file `{}` {source}", path.display())]
    Read { path: PathBuf, source: frontmatter::FrontMatterError },
    #[error("the command file `{}` is not valid TOML: {why}", path.display())]
    Toml { path: PathBuf, why: String },
    #[error("invalid command file `{}`: {why}", path.display())]
    Invalid { path: PathBuf, why: &'static str },
}

#[derive(Deserialize)]
struct Written {
    prompt: Option<toml::Value>,
    description: Option<toml::Value>,
}

impl CommandFile {
    /// Reads the file.
    pub fn read(&self) -> Result<Definition, CommandError> {
        let path = || self.path.clone();
        let text = frontmatter::read_whole(&self.path, MAX_BYTES)
            .map_err(|source| CommandError::Read { path: path(), source })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let written: Written = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map(|span| text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1);
            let at = line.map(|line| format!(" (line {line})")).unwrap_or_default();
            CommandError::Toml { path: path(), why: format!("{}{at}", error.message()) }
        })?;
        let invalid = |why| CommandError::Invalid { path: path(), why };
        let prompt = match written.prompt {
            Some(toml::Value::String(prompt)) => prompt,
            Some(_) => return Err(invalid("The 'prompt' field must be a string.")),
            None => return Err(invalid("The 'prompt' field is required.")),
        };
        let description = match written.description {
            Some(toml::Value::String(text)) => Some(text),
            Some(_) => return Err(invalid("The 'description' field must be a string.")),
            None => None,
        };
        Ok(Definition { prompt, description: self.describe(description.as_deref()) })
    }

    fn describe(&self, written: Option<&str>) -> String {
        let given = written.map(one_line).filter(|text| !text.is_empty());
        let line = given.unwrap_or_else(|| {
            let file = self.path.file_name().unwrap_or_default().to_string_lossy();
            format!("Custom command from {}", one_line(&file))
        });
        let line = with_dots(&line, DESCRIPTION);
        match &self.origin {
            Origin::Extension(name) => format!("[{}] {line}", one_line(name)),
            _ => line,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    fn file(text: &[u8], origin: Origin) -> (tempfile::TempDir, CommandFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fix it.toml");
        std::fs::write(&path, text).unwrap();
        (dir, CommandFile { name: "fix_it".into(), origin, path, below: "fix it.toml".into() })
    }

    fn read(text: &str) -> Result<Definition, String> {
        file(text.as_bytes(), Origin::User).1.read().map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_file_has_a_prompt_and_an_optional_description() {
        let read_one = read("prompt = 'Do it'\nother = 1\n[more]\nx = 2\n").unwrap();
        assert_eq!(read_one.prompt, "Do it");
        assert_eq!(read_one.description, "Custom command from fix it.toml");
        let described = read("\u{feff}prompt = 'p'\ndescription = \"a\\nb \\u001b[31mred\"\n").unwrap();
        assert_eq!(described.description, "a b red");
        let long = read(&format!("prompt = 'p'\ndescription = '{}'", "x".repeat(200))).unwrap();
        assert_eq!(long.description, format!("{}...", "x".repeat(97)));
        let (_dir, of_extension) = file(b"prompt = 'p'\ndescription = 'd'", Origin::Extension("ext".into()));
        assert_eq!(of_extension.read().unwrap().description, "[ext] d");
    }

    #[test]
    fn an_invalid_command_file_reports_why() {
        for (text, why) in [
            ("description = 'd'", "The 'prompt' field is required."),
            ("prompt = 3", "The 'prompt' field must be a string."),
            ("prompt = 'p'\ndescription = 3", "The 'description' field must be a string."),
            ("prompt = 'a'\nprompt", "is not valid TOML: "),
            ("prompt = 'a'\nprompt", "(line 2)"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && error.contains("fix it.toml"), "{error}");
        }
        let (_dir, bytes) = file(b"prompt = '\xff'", Origin::User);
        assert!(bytes.read().unwrap_err().to_string().contains("UTF-8"));
        let (dir, sparse) = file(b"", Origin::User);
        std::fs::File::options().write(true).open(&sparse.path).unwrap().set_len(1 << 30).unwrap();
        let error = sparse.read().unwrap_err().to_string();
        assert!(error.contains("larger than 1024 KiB"), "{error}");
        let pipe = CommandFile { path: dir.path().to_path_buf(), ..sparse };
        assert!(matches!(pipe.read(), Err(CommandError::Read { .. })));
    }
}
