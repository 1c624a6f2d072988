//! Custom commands of a conversation: finding and listing them, and filling in the words of one that was typed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use pollux_config::paths::same_place;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_text::visible;
use pollux_extend::commands::names::{Candidate, Names};
use pollux_extend::commands::template::{Piece, parse};
use pollux_extend::commands::{CommandFile, Found, Origin, Places, find};
use pollux_mcp::Servers;

use super::{Loaded, extensions};
use crate::request::Reserved;

/// What is known of commands in one conversation.
#[derive(Default)]
pub struct Commands {
    known: Mutex<Option<Arc<Known>>>,
    /// Lines for the shell that a person allowed for the session.
    allowed: Mutex<BTreeSet<String>>,
}

/// Names and files, as a look at the folders found them.
struct Known {
    files: Vec<CommandFile>,
    names: Names,
    problems: Vec<String>,
}

/// A command that may be carried out, perhaps after a question.
pub struct Invocation {
    pub(crate) name: String,
    pub(crate) pieces: Vec<Piece>,
    /// Lines for the shell that a person has to agree to first.
    pub to_confirm: Vec<String>,
}

impl Commands {
    fn known(&self, loaded: &Loaded) -> Arc<Known> {
        let mut known = self.known.locked();
        Arc::clone(known.get_or_insert_with(|| Arc::new(Known::look(&places(loaded), loaded.reserved))))
    }

    /// The command that was typed, if there is one of that name, with its words filled in; nothing is decided.
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

    /// Whether a word with a slash is a custom command.
    pub(crate) fn has(&self, word: &str, loaded: &Loaded) -> bool {
        split(word).is_some_and(|(word, _)| self.known(loaded).file(word).is_some())
    }

    /// Looks at the folders again when they are needed next.
    pub(crate) fn forget(&self) {
        *self.known.locked() = None;
    }

    /// A person allows these lines for the rest of the conversation.
    pub(crate) fn allow(&self, lines: &[String]) {
        self.allowed.locked().extend(lines.iter().cloned());
    }

    /// Whether a person allowed this line.
    pub(crate) fn allows(&self, line: &str) -> bool {
        self.allowed.locked().contains(line)
    }

    /// Names and descriptions, prompts of servers too; files that cannot be used are said to be so.
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
    fn look(places: &Places, reserved: Reserved) -> Self {
        let Found { files, problems } = find(places);
        let candidates: Vec<Candidate> = files
            .iter()
            .map(|file| Candidate { name: file.name.clone(), origin: file.origin.clone() })
            .collect();
        Self { names: Names::resolve(&candidates, |word| reserved.contains(word)), files, problems }
    }

    fn file(&self, word: &str) -> Option<&CommandFile> {
        self.files.get(self.names.find(word)?)
    }

    /// Prompts of servers that are connected; a command of the same name goes first.
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

/// Where commands are. A folder without trust has none, not even the user's: what they bring in is the folder's.
pub fn places(loaded: &Loaded) -> Places {
    if !loaded.trust.uses_project() {
        return Places::default();
    }
    let (user, project) =
        (loaded.home.gemini_dir().join("commands"), loaded.project.gemini_dir().join("commands"));
    let is_home = same_place(loaded.project.root(), loaded.home.user_home()) || same_place(&user, &project);
    Places {
        user: Some(user),
        project: (!is_home).then_some(project),
        extensions: extensions::parts(loaded, "commands"),
    }
}

/// The commands in these folders by name, each with what its file says about it. Files that cannot be used are left out.
pub fn described(places: &Places, reserved: Reserved) -> Vec<(String, String)> {
    let known = Known::look(places, reserved);
    let of = |(at, file): (usize, &CommandFile)| {
        Some((known.names.shown(at).to_owned(), file.read().ok()?.description))
    };
    known.files.iter().enumerate().filter_map(of).collect()
}

/// The word and the words behind it, of a line that could be a command; a path and a comment are none.
pub(crate) fn split(typed: &str) -> Option<(&str, &str)> {
    let line = typed.trim().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!word.is_empty() && !word.contains(['/', '*'])).then_some((word, rest.trim()))
}

/// Custom commands for people: headings with names and descriptions.
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
