//! Custom commands of a conversation: finding them, and making a prompt of one that was typed.
//!
//! A command is decided on as a whole before anything of it happens. Then its files are read, then its commands run, in
//! the order in which they stand; what they bring is text and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pollux_config::paths::same_place;
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::visible;
use pollux_domain::tool::Effect;
use pollux_exec::environment::for_command;
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, run};
use pollux_extend::commands::names::{Candidate, Names};
use pollux_extend::commands::template::{Piece, parse};
use pollux_extend::commands::{CommandFile, Found, Origin, Places, find};
use pollux_policy::request::{Decision, Request};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::turn::{Expanded, Outside};
use super::{Conversation, Loaded, Prepared, built_in_prompts, checker, extensions, policy, prompt, skills};
use crate::request::Reserved;

/// Most characters that one command puts into a prompt.
const MOST_PRINTED: usize = 200_000;

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
    name: String,
    pieces: Vec<Piece>,
    /// Lines for the shell that a person has to agree to first.
    pub to_confirm: Vec<String>,
}

impl Commands {
    fn known(&self, loaded: &Loaded) -> Arc<Known> {
        let mut known = lock(&self.known);
        Arc::clone(known.get_or_insert_with(|| Arc::new(Known::look(&places(loaded), loaded.reserved))))
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
fn split(typed: &str) -> Option<(&str, &str)> {
    let line = typed.trim().strip_prefix('/')?;
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (!word.is_empty() && !word.contains(['/', '*'])).then_some((word, rest.trim()))
}

impl Outside {
    /// The prompt of a run that nobody watches: a command, perhaps with what was piped in before it, or words.
    pub async fn expand_headless(
        &self,
        prompt: &str,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let typed = turn.request.prompt.as_deref().unwrap_or_default();
        let (piped, command) = match prompt.strip_suffix(typed) {
            Some(piped) if split(typed).is_some() => (piped, typed),
            _ => ("", prompt),
        };
        if let Some((word, rest)) = split(command)
            && turn.loaded.reserved.contains(word)
            && let Some(made) = built_in_prompts::headless(word, rest, turn.loaded)
        {
            let made = match made {
                Ok(made) => made,
                Err(failure) => return Some(Err(failure)),
            };
            return self.expand(&format!("{piped}{made}"), turn.loaded, cancel).await;
        }
        let invocation = match self.invocation(command, turn, turn.permission.approval, false).await {
            None if !piped.is_empty() && skills::called(self.skills.as_deref(), command).is_some() => {
                let expanded = self.expand(command, turn.loaded, cancel).await?;
                return Some(skills::before(Part::text(piped), expanded));
            }
            None => return self.expand(prompt, turn.loaded, cancel).await,
            Some(Err(failure)) => return Some(Err(failure)),
            Some(Ok(invocation)) => invocation,
        };
        let mut expanded = self.carry_out(invocation, turn, cancel).await?;
        if let Ok((parts, _)) = &mut expanded
            && !piped.is_empty()
        {
            parts.insert(0, Part::text(piped));
        }
        Some(expanded)
    }

    /// A prompt that is a command, if there is one of that name; decided on, nothing of it done.
    pub async fn invocation(
        &self,
        typed: &str,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
        interactive: bool,
    ) -> Option<Result<Invocation, Failure>> {
        let (word, args) = split(typed)?;
        let known = self.commands.known(turn.loaded);
        let file = known.file(word)?;
        let filled = file.read().map_err(|error| Failure::from_error(ExitKind::Input, &error)).and_then(
            |definition| {
                parse(&file.name, &definition.prompt)
                    .and_then(|template| template.filled(args, typed.trim()))
                    .map_err(|error| Failure::from_error(ExitKind::Input, &error))
            },
        );
        let pieces = match filled {
            Ok(pieces) => pieces,
            Err(failure) => return Some(Err(failure)),
        };
        let mut invocation = Invocation { name: file.name.clone(), pieces, to_confirm: Vec::new() };
        Some(self.decide(&mut invocation, turn, mode, interactive).await.map(|()| invocation))
    }

    /// Asks the policy about every line for the shell, as about calls of the model's.
    async fn decide(
        &self,
        invocation: &mut Invocation,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
        interactive: bool,
    ) -> Result<(), Failure> {
        let mut lines: Vec<&String> = Vec::new();
        for piece in &invocation.pieces {
            if let Piece::Shell(line) = piece
                && !lines.contains(&line)
                && !lock(&self.commands.allowed).contains(line)
            {
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let engine = policy::engine(turn.request, turn.loaded, self.workspace.directories());
        let directory = self.workspace.root();
        let checkers = checker::programs(turn.loaded, directory, Arc::clone(&self.background));
        let mut to_confirm = Vec::new();
        for line in lines {
            let args = JsonObject::from_iter([("command".to_owned(), Value::from(line.as_str()))]);
            let effect = Effect::Execute { command: line.clone(), directory: directory.to_path_buf() };
            let request = Request {
                tool: "run_shell_command",
                server: None,
                read_only: false,
                annotations: None,
                args: &args,
                effect: &effect,
                mode,
                interactive,
                subagent: None,
            };
            let verdict = engine.checked(engine.decide(&request), &request, &[], &checkers).await;
            match verdict.decision {
                Decision::Allow => {}
                Decision::Ask => to_confirm.push(line.clone()),
                Decision::Deny => {
                    let name = &invocation.name;
                    let text = format!(
                        "{name} cannot be run. Blocked command: \"{line}\". Reason: Blocked by policy."
                    );
                    return Err(Failure::new(ExitKind::Input, text));
                }
            }
        }
        invocation.to_confirm = to_confirm;
        Ok(())
    }

    /// Reads the files and runs the commands; `None` when it was cancelled.
    pub async fn carry_out(
        &self,
        invocation: Invocation,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let Invocation { name, pieces, .. } = invocation;
        let mut parts: Vec<Part> = Vec::new();
        let mut notes = Vec::new();
        let (mut text, mut injected) = (String::new(), Vec::new());
        // Files first: nothing that runs may change what is read.
        for piece in &pieces {
            let Piece::File { path, .. } = piece else { continue };
            injected.push(
                prompt::inject(path, &self.workspace, &turn.loaded.groups.context.filtering, cancel).await?,
            );
        }
        let mut injected = injected.into_iter();
        for piece in pieces {
            match piece {
                Piece::Words(words) => text.push_str(&words),
                Piece::Shell(line) => match self.print(&name, &line, turn, cancel).await? {
                    Ok(printed) => text.push_str(&printed),
                    Err(failure) => return Some(Err(failure)),
                },
                Piece::File { path, written } => match injected.next() {
                    Some(Ok(read)) if read.is_empty() => notes.push(format!(
                        "File '@{{{path}}}' was ignored by .gitignore or .geminiignore and was not included in the prompt."
                    )),
                    Some(Ok(read)) => {
                        parts.extend((!text.is_empty()).then(|| Part::text(std::mem::take(&mut text))));
                        parts.extend(read);
                    }
                    Some(Err(why)) => {
                        notes.push(format!("Failed to inject content for '@{{{path}}}': {why}"));
                        text.push_str(&written);
                    }
                    None => text.push_str(&written),
                },
            }
        }
        parts.extend((!text.is_empty()).then(|| Part::text(text)));
        if parts.is_empty() {
            return Some(Err(Failure::new(
                ExitKind::Input,
                format!("the prompt of the command `/{name}` is empty"),
            )));
        }
        Some(Ok((parts, notes)))
    }

    /// Runs one line; what it prints, and how it ended if that was not well.
    async fn print(
        &self,
        name: &str,
        line: &str,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<String, Failure>> {
        let tools = &turn.loaded.groups.tools;
        let seconds = u64::try_from(tools.shell_inactivity_seconds).unwrap_or(0);
        let request = ShellCommand {
            text: line.to_owned(),
            directory: self.workspace.root().to_path_buf(),
            environment: for_command(&turn.loaded.env, &tools.redaction, &tools.shell_pager),
            inactivity: (seconds > 0).then(|| Duration::from_secs(seconds)),
            background_after: None,
            sandbox: turn.sandbox.borders.clone(),
        };
        let ended = run(&request, &self.background, &|_| (), cancel).await;
        if cancel.is_cancelled() {
            return None;
        }
        Some(match ended {
            Ok(ShellEnd::Finished(finished)) => Ok(printed(line, &finished)),
            Ok(ShellEnd::MovedToBackground { .. }) => Ok(String::new()),
            Err(error) => {
                let what = format!("Failed to start shell command in '{name}': {error}. Command: {line}");
                Err(Failure::new(ExitKind::Input, what))
            }
        })
    }
}

/// Upstream's words about how it ended.
fn printed(line: &str, finished: &Finished) -> String {
    let mut text = cut(finished.output.text());
    match finished.ending {
        Ending::Exited(0) => {}
        Ending::Exited(code) => text.push_str(&format!("\n[Shell command '{line}' exited with code {code}]")),
        Ending::Signalled(signal) => {
            text.push_str(&format!("\n[Shell command '{line}' terminated by signal {signal}]"));
        }
        Ending::Cancelled | Ending::Inactive => text.push_str(&format!("\n[Shell command '{line}' aborted]")),
    }
    text
}

/// The beginning and the end of a text that is too long.
fn cut(text: String) -> String {
    let count = text.chars().count();
    if count <= MOST_PRINTED {
        return text;
    }
    let half = MOST_PRINTED / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n... [{} characters omitted] ...\n{tail}", count - 2 * half)
}

impl Conversation {
    /// A prompt that is a custom command, decided on; `None` for every other prompt.
    pub async fn invocation(
        &self,
        typed: &str,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
    ) -> Option<Result<Invocation, Failure>> {
        self.outside.invocation(typed, turn, mode, true).await
    }

    /// Makes a prompt of a command; `None` when it was cancelled.
    pub async fn carry_out(
        &self,
        invocation: Invocation,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.outside.carry_out(invocation, turn, cancel).await
    }

    /// A person allows these lines for the rest of the conversation.
    pub fn allow_lines(&self, lines: &[String]) {
        lock(&self.outside.commands.allowed).extend(lines.iter().cloned());
    }

    /// Whether a word with a slash is a custom command.
    pub fn has_command(&self, word: &str, loaded: &Loaded) -> bool {
        split(word).is_some_and(|(word, _)| self.outside.commands.known(loaded).file(word).is_some())
    }

    /// Looks at the folders again when they are needed next.
    pub fn reload_commands(&self) {
        *lock(&self.outside.commands.known) = None;
    }

    /// Names and descriptions, prompts of servers too; files that cannot be used are said to be so.
    pub fn commands(&self, loaded: &Loaded) -> CommandList {
        let known = self.outside.commands.known(loaded);
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
        list.groups.extend(self.prompts(&known, loaded.reserved));
        list
    }

    /// Prompts of servers that are connected; a command of the same name goes first.
    fn prompts(&self, known: &Known, reserved: Reserved) -> Option<(String, Vec<(String, String)>)> {
        let prompts = self.outside.servers.as_ref()?.prompts();
        let lines = prompts.iter().map(|prompt| {
            let taken = reserved.contains(&prompt.name) || known.names.find(&prompt.name).is_some();
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
