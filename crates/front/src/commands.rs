//! Slash commands: the table (`table.rs`), and one module per command.

mod agents;
mod auth;
mod browser;
mod budget;
mod chat;
mod columns;
mod context;
mod copy;
mod custom;
mod editor;
mod extensions;
mod failed_turn;
mod footer;
mod github;
mod ide;
mod mcp;
mod model;
mod offered;
mod outcome;
mod pages;
mod plan;
mod policies;
mod rewind;
mod sandbox;
mod setting_titles;
mod settings;
mod show;
mod skills;
mod stats;
mod subcommand;
mod table;
mod tasks;
mod theme;
mod vim;
mod workspace;

use std::sync::Arc;

use pollux_domain::event::{ConversationView, Event, Op, OpResult};

use self::pages::not_here;
use self::table::{UPSTREAM_ONLY, find};
use super::Front;

pub(crate) use self::auth::{SignedIn, settle_provider, sign_in};
pub(crate) use self::budget::page as budget_page;
pub(crate) use self::ide::ENABLED as EDITOR_ENABLED;
pub use self::offered::{OfferedCommand, offered_commands};
pub use self::setting_titles::{has_effect as setting_has_effect, without_effect as settings_without_effect};
pub use self::subcommand::{Captured, Subcommands};
pub use self::table::{SlashCommand, SlashSubcommand, reserved, slash_commands};

pub(crate) use self::outcome::{CommandOutcome, NewSession, Reopen, resume_line, use_model};

/// The lines below the list of `/help`.
const MORE_HELP: &str = "\
Everything else is a prompt. @path adds a file.
A \\ at the end of a line continues it.
Ctrl+C cancels the turn; twice at the prompt it ends the session.";

/// A typed line by its kind.
pub(super) enum TypedLine<'a> {
    Empty,
    Prompt,
    Shell(&'a str),
    /// A command and its arguments.
    Command(&'static SlashCommand, &'a str),
    /// A word with a slash that names no built-in command.
    Unknown(&'a str),
}

/// Distinguishes commands from prompts. A path is a prompt, and so is a comment.
pub(super) fn read(line: &str) -> TypedLine<'_> {
    let line = line.trim();
    if line.is_empty() {
        return TypedLine::Empty;
    }
    if let Some(command) = line.strip_prefix('!') {
        return TypedLine::Shell(command.trim());
    }
    if !line.starts_with('/') || line.starts_with("//") || line.starts_with("/*") {
        return TypedLine::Prompt;
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match find(word) {
        Some(command) => TypedLine::Command(command, rest.trim()),
        None if rest.is_empty() || is_command_name(word) => TypedLine::Unknown(word),
        None => TypedLine::Prompt,
    }
}

/// Whether a word can only be a command: no path has a single part of letters and hyphens, except folders at the root.
fn is_command_name(word: &str) -> bool {
    let name = word.strip_prefix('/').unwrap_or(word);
    let looks_like_one = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'));
    UPSTREAM_ONLY.contains(&word) || (looks_like_one && !std::path::Path::new(word).exists())
}

fn help() -> String {
    let own = ("!command".to_owned(), "Run a shell command and share its output");
    let lines = slash_commands().iter().map(|command| (command.usage(), command.about)).chain([own]);
    let lines = lines.map(|(usage, about)| columns::row(&usage, about, columns::SECOND));
    format!("{}{MORE_HELP}", lines.collect::<String>())
}

impl Front<'_, '_> {
    /// `/help`
    fn help(&mut self, conversation: &pollux_host::Conversation) {
        let others = custom::help(&conversation.commands(self.turn.loaded));
        let skills = conversation.skills().map(|rows| skills::help(&rows)).unwrap_or_default();
        self.ui.note(&format!("{}{others}{skills}", help()));
    }

    pub(super) fn no_such_command(&mut self, word: &str) {
        self.ui.note(&match UPSTREAM_ONLY.contains(&word) {
            true => not_here(word),
            false => format!("Unknown command `{word}`. Run /help to list all commands."),
        });
    }

    /// Runs a `!` command. Ctrl+C cancels it, and the model gets its output with the next prompt.
    pub(super) fn shell(&mut self, command: &str) -> CommandOutcome {
        if command.is_empty() {
            self.ui.note("Usage: !<command>, as in `!ls`");
            return CommandOutcome::Continue;
        }
        CommandOutcome::Turn(Op::Shell { command: command.to_owned() })
    }

    /// `/quit --delete`: deletes the session after it has ended.
    pub(super) fn forget_session(&mut self) {
        let id = self.turn.session.id.to_string();
        let (Ok(text) | Err(text)) =
            pollux_host::delete_session(&id, &self.turn.loaded.env).map_err(|failure| failure.message());
        self.ui.note(text.trim_end());
    }

    /// The current state of the conversation.
    async fn view(&mut self, conversation: &mut pollux_host::Conversation) -> Option<Arc<ConversationView>> {
        match self.ask(Op::Describe, conversation).await? {
            OpResult::Conversation(view) => Some(view),
            _ => None,
        }
    }

    /// Sends an operation and waits for its result; `None` if the session has ended.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_prompts_that_begin_with_a_path() {
        for (line, name, rest) in [
            (" /chat  save a b ", "/chat", "save a b"),
            ("/resume list", "/resume", "list"),
            ("/statusline", "/footer", ""),
        ] {
            let TypedLine::Command(command, follows) = read(line) else { panic!("{line}") };
            assert_eq!((command.name(), follows), (name, rest));
        }
        assert!(matches!(read("/nosuch"), TypedLine::Unknown("/nosuch")));
        assert!(matches!(read("/corgi on"), TypedLine::Unknown("/corgi")));
        assert!(matches!(read("/etc/hosts is odd"), TypedLine::Prompt));
        assert!(matches!(read("// a comment"), TypedLine::Prompt));
        assert!(matches!(read("/* another"), TypedLine::Prompt));
        assert!(matches!(read("!ls -l"), TypedLine::Shell("ls -l")));
        assert!(matches!(read("  "), TypedLine::Empty));
    }

    #[test]
    fn help_names_every_command() {
        let help = help();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for command in slash_commands() {
            assert!(words.contains(&format!("{} {}", command.usage(), command.about)), "{}", command.name());
        }
        assert!(help.lines().all(|line| line.chars().count() <= 78), "{help}");
    }
}
