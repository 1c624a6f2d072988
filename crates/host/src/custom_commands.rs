//! Custom commands of a conversation: discovers and lists them, and fills in the arguments of one that was typed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pollux_config::paths::same_place;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::visible;
use pollux_extend::commands::names::{Candidate, Names};
use pollux_extend::commands::template::{Piece, parse};
use pollux_extend::commands::{CommandFile, CommandFolders, FoundCommands, Origin, find};
use pollux_mcp::Servers;

use super::{Loaded, extensions};
use crate::request::Reserved;

/// The custom commands known in one conversation.
#[derive(Default)]
pub struct Commands {
    known: Mutex<Option<Arc<Known>>>,
    /// Shell lines that the user allowed for the session.
    allowed: Mutex<BTreeSet<String>>,
}

/// Names and files found in the command folders.
struct Known {
    files: Vec<CommandFile>,
    names: Names,
    problems: Vec<String>,
}

/// A command that may run, possibly after approval.
pub struct Invocation {
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
    /// Shell lines that require approval first.
    pub to_confirm: Vec<String>,
}

impl Commands {
    fn known(&self, loaded: &Loaded) -> Arc<Known> {
        let mut known = self.known.locked();
        Arc::clone(known.get_or_insert_with(|| Arc::new(Known::look(&places(loaded), loaded.reserved))))
    }

    /// The command that was typed, with its arguments filled in, if it exists. Policy is not consulted yet.
    pub(crate) fn called(&self, typed: &str, loaded: &Loaded) -> Option<Result<Invocation, Failure>> {
        let (word, args) = split(typed)?;
        let known = self.known(loaded);
        let file = known.file(word)?;
        let filled = file.read().map_err(|error| Failure::from_error(ExitKind::Input, &error)).and_then(
            |definition| {
                parse(&file.name, &definition.prompt)
                    .and_then(|template| template.filled(args, typed.trim()))
                    .map_err(|error| Failure::from_error(ExitKind::Input, &error))
            },
        );
        Some(filled.map(|pieces| Invocation { name: file.name.clone(), pieces, to_confirm: Vec::new() }))
    }

    /// Whether a slash command is a custom command.
    pub(crate) fn has(&self, word: &str, loaded: &Loaded) -> bool {
        split(word).is_some_and(|(word, _)| self.known(loaded).file(word).is_some())
    }

    /// Discards the list, so that the folders are read again on next use.
    pub(crate) fn forget(&self) {
        *self.known.locked() = None;
    }

    /// Allows these shell lines for the rest of the conversation.
    pub(crate) fn allow(&self, lines: &[String]) {
        self.allowed.locked().extend(lines.iter().cloned());
    }

    /// Whether the user allowed this line.
    pub(crate) fn allows(&self, line: &str) -> bool {
        self.allowed.locked().contains(line)
    }

    /// Names and descriptions, including MCP prompts; invalid files are marked.
    pub(crate) fn list(&self, loaded: &Loaded, servers: Option<&Servers>) -> CommandList {
        let known = self.known(loaded);
        let mut list = CommandList { groups: Vec::new(), problems: known.problems.clone() };
        let mut last = None;
        for (at, file) in known.files.iter().enumerate() {
            if last != Some(&file.origin) {
                list.groups.push((heading(file), Vec::new()));
                last = Some(&file.origin);
            }
            match file.read() {
                Ok(definition) => {
                    let also =
                        known.names.full(at).map(|name| format!(" (also /{name})")).unwrap_or_default();
                    let line =
                        (format!("/{}", known.names.shown(at)), format!("{}{also}", definition.description));
                    list.groups.iter_mut().last().into_iter().for_each(|(_, lines)| lines.push(line.clone()));
                }
                Err(error) => list.problems.push(visible(&error.to_string()).into_owned()),
            }
        }
        list.groups.extend(servers.and_then(|servers| known.prompts(servers, loaded.reserved)));
        list
    }
}

impl Known {
    fn look(places: &CommandFolders, reserved: Reserved) -> Self {
        let FoundCommands { files, problems } = find(places);
        let candidates: Vec<Candidate> = files
            .iter()
            .map(|file| Candidate { name: file.name.clone(), origin: file.origin.clone() })
            .collect();
        Self { names: Names::resolve(&candidates, |word| reserved.contains(word)), files, problems }
    }

    fn file(&self, word: &str) -> Option<&CommandFile> {
        self.files.get(self.names.find(word)?)
    }

    /// Prompts of connected MCP servers; a custom command of the same name takes precedence.
    fn prompts(&self, servers: &Servers, reserved: Reserved) -> Option<(String, Vec<(String, String)>)> {
        let prompts = servers.prompts();
        let lines = prompts.iter().map(|prompt| {
            let taken = reserved.contains(&prompt.name) || self.names.find(&prompt.name).is_some();
            let name = if taken {
                format!("/{}.{}", prompt.server, prompt.name)
            } else {
                format!("/{}", prompt.name)
            };
            (visible(&name).into_owned(), visible(&prompt.spec.description).chars().take(100).collect())
        });
        let lines: Vec<_> = lines.collect();
        (!lines.is_empty()).then(|| ("Prompts of MCP servers".to_owned(), lines))
    }
}

/// The command folders. In an untrusted folder there are none, since even the user's commands inject project files.
pub fn places(loaded: &Loaded) -> CommandFolders {
    if !loaded.trust.uses_project() {
        return CommandFolders::default();
    }
    let (user, project) =
        (loaded.home.gemini_dir().join("commands"), loaded.project.gemini_dir().join("commands"));
    let is_home = same_place(loaded.project.root(), loaded.home.user_home()) || same_place(&user, &project);
    CommandFolders {
        user: Some(user),
        project: (!is_home).then_some(project),
        extensions: extensions::parts(loaded, "commands"),
    }
}

/// The commands in these folders by name, with their descriptions. Invalid files are left out.
pub fn described(places: &CommandFolders, reserved: Reserved) -> Vec<(String, String)> {
    let known = Known::look(places, reserved);
    let of = |(at, file): (usize, &CommandFile)| {
        Some((known.names.shown(at).to_owned(), file.read().ok()?.description))
    };
    known.files.iter().enumerate().filter_map(of).collect()
}

/// The commands of this folder and of the user; invalid files are among the problems.
pub fn list(loaded: &Loaded) -> CommandList {
    Commands::default().list(loaded, None)
}

/// Splits a line into command name and arguments; `None` for paths and comments.
pub(crate) fn split(typed: &str) -> Option<(&str, &str)> {
    let line = typed.trim().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!word.is_empty() && !word.contains(['/', '*'])).then_some((word, rest.trim()))
}

/// Custom commands as text: headings with names and descriptions.
pub struct CommandList {
    pub groups: Vec<(String, Vec<(String, String)>)>,
    pub problems: Vec<String>,
}

fn heading(file: &CommandFile) -> String {
    let depth = file.below.components().count();
    let folder = file.path.ancestors().nth(depth).unwrap_or(&file.path).display().to_string();
    let whose = match &file.origin {
        Origin::User => "User".to_owned(),
        Origin::Project => "Project".to_owned(),
        Origin::Extension(name) => format!("Extension {name}"),
        Origin::Skill(_) | Origin::Server(_) => "More".to_owned(),
    };
    visible(&format!("{whose} commands ({folder})")).into_owned()
}
