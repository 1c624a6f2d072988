//! Slash commands: one table, from which `/help` is made, and what each one does.

mod agents;
mod chat;
mod custom;
mod extensions;
mod rewind;
mod show;
mod skills;

use std::sync::Arc;

use pollux_domain::content::{Content, Part};
use pollux_domain::event::{ConversationView, Event, Op};
use tokio_util::sync::CancellationToken;

use super::Front;
use crate::wire;

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

/// A line of `/help`.
struct Entry {
    /// The word, and other words for it.
    names: &'static [&'static str],
    usage: &'static str,
    about: &'static str,
}

const fn entry(names: &'static [&'static str], usage: &'static str, about: &'static str) -> Entry {
    Entry { names, usage, about }
}

const COMMANDS: &[Entry] = &[
    entry(&["/help", "/?"], "/help", "this list"),
    entry(&["/about"], "/about", "version, model, session and folder"),
    entry(&["/agents"], "/agents [show|enable|disable <name>]", "helpers that the model may ask"),
    entry(
        &["/chat", "/resume"],
        "/chat save|resume|delete <tag>",
        "save the conversation under a name; go on with it; delete it",
    ),
    entry(&[], "/chat list", "the conversations that were saved"),
    entry(&[], "/chat share [file.md|file.json]", "write the conversation to a file"),
    entry(&["/clear"], "/clear", "begin a new conversation; this one stays on disk"),
    entry(&["/commands"], "/commands list|reload", "your custom commands; read their files anew"),
    entry(&["/compress", "/summarize"], "/compress", "condense the conversation to a summary"),
    entry(&["/directory", "/dir"], "/directory show", "the folders of the workspace"),
    entry(
        &["/extensions"],
        "/extensions [list|enable|disable|update|uninstall] [name]",
        "your extensions; switch one on or off, update or remove it",
    ),
    entry(&["/hooks"], "/hooks [enable|disable <name>]", "your hooks; switch one on or off"),
    entry(&["/mcp"], "/mcp", "MCP servers and how they stand"),
    entry(&["/memory"], "/memory show|refresh", "what the context files say"),
    entry(&["/mode"], "/mode [default|auto_edit|plan|yolo]", "show or change the approval mode"),
    entry(&["/model"], "/model", "the model and how full its window is"),
    entry(&["/permissions"], "/permissions", "whether this folder is trusted, and why"),
    entry(&["/policies"], "/policies", "the rules in force"),
    entry(&["/quit", "/exit"], "/quit", "end the conversation"),
    entry(&["/restore"], "/restore [name]", "go back to a checkpoint (`general.checkpointing.enabled`)"),
    entry(&["/rewind"], "/rewind", "go back to before a prompt: conversation, files or both"),
    entry(&["/skills"], "/skills list|enable|disable|link|reload", "your skills; `/name` calls one"),
    entry(&["/stats", "/usage"], "/stats", "requests, tokens, calls and time"),
    entry(&["/tools"], "/tools", "what the model can call"),
    entry(&[], "!command", "run a command of your own; the model does not see it"),
];

const MORE_HELP: &str = "\
Everything else goes to the model; @path brings a file along, and a \\ at the end of a line continues it.
Ctrl+C stops the model; at an empty prompt it ends the conversation.";

/// Commands of gemini-cli that this version does not have.
#[rustfmt::skip]
const NOT_YET: &[&str] = &[
    "/auth", "/bug", "/copy", "/docs", "/editor", "/export-session",
    "/footer", "/ide", "/init", "/plan", "/privacy", "/profile", "/settings", "/setup-github",
    "/shells", "/shortcuts", "/tasks", "/terminal-setup", "/theme", "/upgrade", "/vim",
];

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

/// Tells commands from prompts. A path with words behind it is a prompt.
pub(super) fn read(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() {
        return Line::Empty;
    }
    if let Some(command) = line.strip_prefix('!') {
        return Line::Shell(command.trim());
    }
    if !line.starts_with('/') {
        return Line::Prompt;
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let known = COMMANDS.iter().find(|entry| entry.names.contains(&word));
    match known.and_then(|entry| entry.names.first()) {
        // `/resume` is another word for `/chat`, which says so in its texts.
        Some(name) => Line::Command(name, rest.trim()),
        None if rest.is_empty() || NOT_YET.contains(&word) => Line::Unknown(word),
        None => Line::Prompt,
    }
}

/// Whether a word, without its slash, is one of these commands.
pub(crate) fn is_built_in(word: &str) -> bool {
    COMMANDS.iter().flat_map(|entry| entry.names).any(|name| name.strip_prefix('/') == Some(word))
}

fn help() -> String {
    let widest = COMMANDS.iter().map(|entry| entry.usage.len()).max().unwrap_or_default();
    let lines = COMMANDS.iter().map(|entry| format!("{:widest$}  {}\n", entry.usage, entry.about));
    format!("{}{MORE_HELP}", lines.collect::<String>())
}

impl Front<'_, '_> {
    /// Does what a command says.
    pub(super) async fn command(
        &mut self,
        name: &str,
        rest: &str,
        conversation: &mut wire::Conversation,
    ) -> Then {
        match name {
            "/quit" => return Then::Quit,
            "/help" => {
                let text = format!("{}{}", help(), custom::help(&conversation.commands(self.turn.loaded)));
                self.face.note(&text);
            }
            "/extensions" => self.extensions(rest),
            "/commands" => self.custom_commands(rest, conversation),
            "/mode" => self.change_mode(rest, conversation).await,
            "/clear" => {
                let note = "A new conversation begins.".to_owned();
                return Then::Anew(Anew { note, ..Anew::default() });
            }
            "/compress" => return Then::Work(Op::Compress),
            "/chat" => return self.chat(rest, conversation).await,
            "/skills" => self.skills(rest, conversation).await,
            "/rewind" => self.rewind(conversation).await,
            "/restore" => return self.restore(rest, conversation).await,
            _ => self.tell_about(name, rest, conversation).await,
        }
        Then::GoOn
    }

    pub(super) fn no_such_command(&mut self, word: &str) {
        self.face.note(&match NOT_YET.contains(&word) {
            true => format!("`{word}` is not part of this version."),
            false => format!("There is no command `{word}`; /help lists them."),
        });
    }

    /// Runs a person's own command; Ctrl+C stops it.
    pub(super) async fn shell(&mut self, command: &str, conversation: &wire::Conversation) {
        if command.is_empty() {
            self.face.note("A command follows the `!`, as in `!ls`.");
            return;
        }
        let cancel = CancellationToken::new();
        let printer = self.face.begin_shell(command);
        let running = conversation.run_shell(command, self.turn.loaded, &cancel, &*printer);
        tokio::pin!(running);
        let said = loop {
            tokio::select! {
                biased;
                () = self.face.interrupted() => cancel.cancel(),
                said = &mut running => break said,
            }
        };
        self.face.end_shell(said.as_deref());
    }

    /// What the conversation is now.
    async fn view(&mut self, conversation: &mut wire::Conversation) -> Option<Arc<ConversationView>> {
        conversation.handle.ops.send(Op::Describe).await.ok()?;
        loop {
            let event = conversation.handle.events.recv().await?;
            if let Event::Conversation(view) = event {
                return Some(view);
            }
            self.take(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_prompts_that_begin_with_a_path() {
        assert!(matches!(read(" /chat  save a b "), Line::Command("/chat", "save a b")));
        assert!(matches!(read("/resume list"), Line::Command("/chat", "list")));
        assert!(matches!(read("/nosuch"), Line::Unknown("/nosuch")));
        assert!(matches!(read("/vim on"), Line::Unknown("/vim")));
        assert!(matches!(read("/etc/hosts is odd"), Line::Prompt));
        assert!(matches!(read("!ls -l"), Line::Shell("ls -l")));
        assert!(matches!(read("  "), Line::Empty));
    }

    #[test]
    fn help_names_every_command_and_none_that_is_missing() {
        let help = help();
        for entry in COMMANDS {
            assert!(help.contains(entry.usage) && !entry.names.iter().any(|name| NOT_YET.contains(name)));
        }
    }
}
