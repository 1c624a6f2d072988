//! Slash commands: one table (`table.rs`), and what each one does.

mod agents;
mod auth;
mod browser;
mod chat;
mod copy;
mod custom;
mod editor;
mod extensions;
mod footer;
mod mcp;
mod model;
mod pages;
mod places;
mod plan;
mod rewind;
mod settings;
mod show;
mod skills;
mod stats;
mod subcommand;
mod table;
mod tasks;
mod theme;
mod vim;

use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::{Content, Part};
use pollux_domain::event::{ConversationView, Event, Op, OpResult};
use pollux_host::request::{Request, Resumed, SessionChoice};

use self::table::{ELSEWHERE, find};
use super::Front;

pub(crate) use self::auth::sign_in;
pub use self::subcommand::{Captured, Subcommands};
pub use self::table::reserved;
pub(crate) use self::table::{Command, Subcommand, listing};

/// How a conversation goes on after a command.
pub(super) enum Then {
    /// The next prompt.
    GoOn,
    /// Nothing more.
    Quit,
    /// A turn that the command began.
    Work(Op),
    /// Another session.
    Anew(Anew),
    /// This session or an earlier one, opened again.
    Reopen(Reopen),
}

/// A conversation that is opened again, so that settings, keys, servers and files are read anew.
#[derive(Default)]
pub(super) struct Reopen {
    /// The session to go on with; without one, this one.
    pub(super) session: Option<Resumed>,
    /// The folders of the workspace beside the project's; empty where they stay as they are.
    pub(super) directories: Vec<String>,
    /// A line about it.
    pub(super) note: String,
}

impl Reopen {
    /// The same session; a line about why.
    fn noting(note: &str) -> Self {
        Self { note: note.to_owned(), ..Self::default() }
    }

    /// What it is opened with; `said` if there is something on disk to go on with.
    pub(super) fn options(
        &self,
        turn: &pollux_host::Prepared<'_>,
        mode: ApprovalMode,
        said: bool,
    ) -> Request {
        let mut options = turn.request.clone();
        let id = &turn.session.id;
        options.session = match &self.session {
            Some(session) => SessionChoice::Resume(session.clone()),
            None if said => SessionChoice::Resume(Resumed { which: id.to_string(), ..Resumed::default() }),
            None => SessionChoice::NewWithId(id.clone()),
        };
        options.approval = Some(mode);
        if !self.directories.is_empty() {
            options.include_directories.clone_from(&self.directories);
        }
        options
    }
}

/// What another session begins with.
#[derive(Default)]
pub(super) struct Anew {
    pub(super) turns: Vec<Content>,
    /// Calls to be proposed at once.
    pub(super) proposal: Vec<Part>,
    /// A line about it.
    pub(super) note: String,
}

/// What `/help` says below its list.
const MORE_HELP: &str = "\
Everything else goes to the model; @path brings a file along, and a \\ at the end of a line continues it.
Ctrl+C stops the model; at an empty prompt it ends the conversation.";

/// What a line is, before anything is done about it.
pub(super) enum Line<'a> {
    Empty,
    Prompt,
    Shell(&'a str),
    /// The command's first name, and the rest.
    Command(&'static str, &'a str),
    /// A word with a slash that is no command here.
    Unknown(&'a str),
}

/// Tells commands from prompts. A path with words behind it is a prompt, and so is a comment.
pub(super) fn read(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Line::Empty;
    }
    if let Some(command) = line.strip_prefix('!') {
        return Line::Shell(command.trim());
    }
    if !line.starts_with('/') || line.starts_with("//") || line.starts_with("/*") {
        return Line::Prompt;
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match find(word) {
        Some(command) => Line::Command(command.name(), rest.trim()),
        None if rest.is_empty() || ELSEWHERE.contains(&word) => Line::Unknown(word),
        None => Line::Prompt,
    }
}

fn help() -> String {
    let own = ("!command".to_owned(), "run a command of your own; the model learns what came of it");
    let lines: Vec<_> =
        listing().iter().map(|command| (command.usage(), command.about)).chain([own]).collect();
    let widest = lines.iter().map(|(usage, _)| usage.len()).max().unwrap_or_default();
    let lines = lines.iter().map(|(usage, about)| format!("{usage:widest$}  {about}\n"));
    format!("{}{MORE_HELP}", lines.collect::<String>())
}

impl Front<'_, '_> {
    /// Does what a command says.
    pub(super) async fn command(
        &mut self,
        name: &str,
        rest: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> Then {
        match name {
            "/quit" => {
                self.forget = rest == "--delete";
                return Then::Quit;
            }
            "/auth" => return self.auth(rest).await,
            "/help" => {
                let others = custom::help(&conversation.commands(self.turn.loaded));
                let skills = conversation.skills().map(|rows| skills::help(&rows)).unwrap_or_default();
                self.face.note(&format!("{}{others}{skills}", help()));
            }
            "/extensions" => self.extensions(rest),
            "/commands" => self.custom_commands(rest, conversation),
            "/mode" => self.change_mode(rest, conversation).await,
            "/clear" => {
                let note = "A new conversation begins.".to_owned();
                return Then::Anew(Anew { note, ..Anew::default() });
            }
            "/compress" => return Then::Work(Op::Compress),
            "/chat" | "/resume" if rest.is_empty() => return self.browse().await,
            "/chat" | "/resume" => return self.chat(rest, conversation).await,
            "/editor" => self.editor().await,
            "/footer" => self.footer().await,
            "/model" => self.model(rest, conversation).await,
            "/settings" => return self.settings().await,
            "/stats" => self.stats(rest, conversation).await,
            "/theme" => self.theme().await,
            "/skills" => self.skills(rest, conversation).await,
            "/bug" => self.bug(rest, conversation).await,
            "/copy" => self.copy_answer(conversation).await,
            "/directory" => return self.directory(rest, conversation).await,
            "/export-session" => self.export_session(rest),
            "/init" => return self.init(conversation).await,
            "/mcp" => return self.mcp(rest, conversation).await,
            "/memory" => return self.memory(rest, conversation).await,
            "/permissions" => return self.permissions(rest).await,
            "/plan" => return self.plan(rest, conversation).await,
            "/tasks" => self.tasks(conversation).await,
            "/vim" => self.vim(),
            "/agents" if matches!(rest, "reload" | "refresh") => {
                return self.reopen(Reopen::noting("Agents are looked for anew."));
            }
            "/rewind" => self.rewind(conversation).await,
            "/restore" => return self.restore(rest, conversation).await,
            _ => self.tell_about(name, rest, conversation).await,
        }
        Then::GoOn
    }

    pub(super) fn no_such_command(&mut self, word: &str) {
        self.face.note(&match ELSEWHERE.contains(&word) {
            true => not_here(word),
            false => format!("There is no command `{word}`; /help lists them."),
        });
    }

    /// What a person's own command asks for; Ctrl+C stops it, and the model learns of it with the next prompt.
    pub(super) fn shell(&mut self, command: &str) -> Then {
        if command.is_empty() {
            self.face.note("A command follows the `!`, as in `!ls`.");
            return Then::GoOn;
        }
        Then::Work(Op::Shell { command: command.to_owned() })
    }

    /// `/quit --delete`: what was said is deleted when the conversation has ended.
    pub(super) fn forget_session(&mut self) {
        let id = self.turn.session.id.to_string();
        let (Ok(text) | Err(text)) =
            pollux_host::delete_session(&id, &self.turn.loaded.env).map_err(|failure| failure.message());
        self.face.note(text.trim_end());
    }

    /// What the conversation is now.
    async fn view(&mut self, conversation: &mut pollux_host::Conversation) -> Option<Arc<ConversationView>> {
        match self.ask(Op::Describe, conversation).await? {
            OpResult::Conversation(view) => Some(view),
            _ => None,
        }
    }

    /// Asks something of the session and waits for what comes of it; `None` if the session is over.
    async fn ask(&mut self, op: Op, conversation: &mut pollux_host::Conversation) -> Option<OpResult> {
        let asked = conversation.ask(op).ok()?;
        loop {
            let event = conversation.next().await?;
            match &*event {
                Event::Acknowledged { id, result, .. } if *id == asked => return Some(result.clone()),
                event => self.take(event),
            }
        }
    }
}

fn not_here(word: &str) -> String {
    pages::page(word).map_or_else(|| format!("`{word}` is not part of this version."), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_prompts_that_begin_with_a_path() {
        assert!(matches!(read(" /chat  save a b "), Line::Command("/chat", "save a b")));
        assert!(matches!(read("/resume list"), Line::Command("/resume", "list")));
        assert!(matches!(read("/statusline"), Line::Command("/footer", "")));
        assert!(matches!(read("/nosuch"), Line::Unknown("/nosuch")));
        assert!(matches!(read("/corgi on"), Line::Unknown("/corgi")));
        assert!(matches!(read("/etc/hosts is odd"), Line::Prompt));
        assert!(matches!(read("// a comment"), Line::Prompt));
        assert!(matches!(read("/* another"), Line::Prompt));
        assert!(matches!(read("!ls -l"), Line::Shell("ls -l")));
        assert!(matches!(read("  "), Line::Empty));
    }

    #[test]
    fn help_names_every_command() {
        let help = help();
        for command in listing() {
            assert!(help.contains(&command.usage()) && help.contains(command.about));
        }
    }
}
