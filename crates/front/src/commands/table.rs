//! The commands by name: what reads a line, what `/help` lists, what a completion offers and what is done. A new command is
//! a row here and a file beside this one.

use std::sync::LazyLock;

use pollux_domain::event::Op;
use pollux_host::Conversation;
use pollux_host::request::Reserved;

use super::outcome::{CommandOutcome, NewSession};
use super::pages::not_here;
use crate::Front;
use crate::front_end::Pending;

/// A command of the program's own.
pub struct SlashCommand {
    /// The word with its slash, and other words for it.
    pub names: &'static [&'static str],
    /// What may follow the word; empty where nothing does.
    pub follows: &'static str,
    pub about: &'static str,
    /// Whether it does something useful when nothing follows.
    pub at_once: bool,
    pub subcommands: &'static [SlashSubcommand],
    /// Does it, with what follows the word.
    pub(crate) run: Run,
}

/// What a command does in a conversation.
pub(crate) type Run =
    for<'f, 'a, 'b> fn(&'f mut Front<'a, 'b>, &'f str, &'f mut Conversation) -> Pending<'f, CommandOutcome>;

/// A word that may follow a command.
pub struct SlashSubcommand {
    pub names: &'static [&'static str],
    pub about: &'static str,
    /// Whether nothing need follow it.
    pub at_once: bool,
}

impl SlashCommand {
    /// The word with its slash.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// How it is typed.
    pub(super) fn usage(&self) -> String {
        format!("{} {}", self.name(), self.follows).trim_end().to_owned()
    }
}

/// Every command, in the order of `/help`.
pub fn slash_commands() -> &'static [SlashCommand] {
    COMMANDS
}

/// The names of all these commands without their slashes: no file or server can take them.
pub fn reserved() -> Reserved {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let listed = COMMANDS.iter().flat_map(|command| command.names).chain(UPSTREAM_ONLY);
        listed.filter_map(|name| name.strip_prefix('/')).collect()
    });
    Reserved(&NAMES)
}

/// The command that a word with its slash calls.
pub(super) fn find(word: &str) -> Option<&'static SlashCommand> {
    COMMANDS.iter().find(|command| command.names.contains(&word))
}

/// Commands of gemini-cli that only its makers or its own services have a use for.
pub(super) const UPSTREAM_ONLY: &[&str] =
    &["/bug-memory", "/corgi", "/gemma", "/oncall", "/profile", "/setup-github", "/voice"];

/// A command that says how the conversation goes on.
macro_rules! then {
    (|$front:ident, $rest:ident, $conversation:ident| $then:expr) => {
        |$front, $rest, $conversation| Box::pin(async move { $then })
    };
}

/// A command after which the next prompt follows.
macro_rules! done {
    (|$front:ident, $rest:ident, $conversation:ident| $does:expr) => {
        |$front, $rest, $conversation| {
            Box::pin(async move {
                $does;
                CommandOutcome::Continue
            })
        }
    };
}

/// A command that is a text for the person.
macro_rules! told {
    (|$front:ident, $rest:ident, $conversation:ident| $text:expr) => {
        |$front, $rest, $conversation| {
            Box::pin(async move {
                let text = $text;
                $front.ui.note(text.trim_end());
                CommandOutcome::Continue
            })
        }
    };
}

type Names = &'static [&'static str];

const fn plain(names: Names, about: &'static str, run: Run) -> SlashCommand {
    SlashCommand { names, follows: "", about, at_once: true, subcommands: &[], run }
}

const fn with(
    names: Names,
    follows: &'static str,
    about: &'static str,
    subcommands: &'static [SlashSubcommand],
    run: Run,
) -> SlashCommand {
    SlashCommand { names, follows, about, at_once: true, subcommands, run }
}

/// A command that is of no use alone.
const fn needs(
    names: Names,
    follows: &'static str,
    about: &'static str,
    subcommands: &'static [SlashSubcommand],
    run: Run,
) -> SlashCommand {
    SlashCommand { names, follows, about, at_once: false, subcommands, run }
}

const fn sub(names: Names, about: &'static str) -> SlashSubcommand {
    SlashSubcommand { names, about, at_once: true }
}

/// A word that something follows.
const fn of(names: Names, about: &'static str) -> SlashSubcommand {
    SlashSubcommand { names, about, at_once: false }
}

const CHATS: &[SlashSubcommand] = &[
    sub(&["list"], "the conversations that were saved"),
    of(&["save"], "save the conversation under a name"),
    of(&["resume", "load"], "go on with a saved one"),
    of(&["delete"], "delete a saved one"),
    sub(&["share"], "write the conversation to a file (.md or .json)"),
];

#[rustfmt::skip]
const COMMANDS: &[SlashCommand] = &[
    plain(&["/help", "/?"], "this list", done!(|f, _r, c| f.help(c))),
    plain(&["/about"], "version, model, session and folder", told!(|f, _r, c| f.about(c).await)),
    with(&["/agents"], "[list|show|enable|disable|config <name>]", "helpers that the model may ask", &[
        sub(&["list"], "all of them"),
        of(&["show", "config"], "one of them, with its settings"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["acknowledge"], "let in one that came with the project"),
        sub(&["reload", "refresh"], "look for them anew"),
    ], then!(|f, r, _c| f.agents(r))),
    with(&["/auth"], "[signin|signout]", "how the model is reached; sign in or out", &[
        sub(&["signin", "login"], "choose how, and give a key"),
        sub(&["signout", "logout"], "forget the key that was kept"),
    ], then!(|f, r, _c| f.auth(r).await)),
    with(&["/bug"], "[title]", "report a fault: a page with the facts filled in", &[], done!(|f, r, c| f.bug(r, c).await)),
    with(&["/chat"], "[list|save|resume|delete|share]", "your conversations; save one under a name", CHATS, then!(|f, r, c| f.chats(r, c).await)),
    plain(&["/clear", "/new"], "begin a new conversation; this one stays on disk", then!(|_f, _r, _c| CommandOutcome::NewSession(NewSession { note: "A new conversation begins.".to_owned(), ..NewSession::default() }))),
    needs(&["/commands"], "list|reload", "your custom commands; read their files anew", &[
        sub(&["list"], "all of them"),
        sub(&["reload", "refresh"], "read their files anew"),
    ], done!(|f, r, c| f.custom_commands(r, c))),
    plain(&["/compress", "/summarize", "/compact"], "condense the conversation to a summary", then!(|_f, _r, _c| CommandOutcome::Turn(Op::Compress))),
    plain(&["/copy"], "put the last answer into the clipboard", done!(|f, _r, c| f.copy_answer(c).await)),
    with(&["/directory", "/dir"], "[show|add <paths>]", "the folders of the workspace; add some", &[
        sub(&["show"], "the folders"),
        of(&["add"], "add folders, with commas between them"),
    ], then!(|f, r, c| f.directory(r, c).await)),
    plain(&["/docs"], "where the documentation is", told!(|f, _r, _c| not_here("/docs"))),
    with(&["/editor"], "", "choose the editor for long prompts and proposed changes", &[], done!(|f, _r, _c| f.editor().await)),
    with(&["/export-session"], "[file]", "write this session to a file", &[], done!(|f, r, _c| f.export_session(r))),
    with(&["/extensions"], "[list|enable|disable|update|uninstall] [name]",
        "your extensions; switch one on or off, update or remove it", &[
        sub(&["list"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["update"], "update some, or --all"),
        of(&["uninstall", "delete"], "remove some"),
    ], done!(|f, r, _c| f.extensions(r))),
    plain(&["/footer", "/statusline"], "choose what the last line shows", done!(|f, _r, _c| f.footer().await)),
    with(&["/hooks"], "[enable|disable <name>|enable-all|disable-all]", "your hooks; switch them on or off", &[
        sub(&["list", "panel", "show"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        sub(&["enable-all", "enableall"], "switch all on"),
        sub(&["disable-all", "disableall"], "switch all off"),
    ], told!(|f, r, _c| f.hooks(r))),
    with(&["/ide"], "[status]", "whether an editor is connected", &[sub(&["status"], "whether an editor is connected")], told!(|f, _r, _c| not_here("/ide"))),
    plain(&["/init"], "let the model describe this project in GEMINI.md", then!(|f, _r, c| f.init(c).await)),
    with(&["/mcp"], "[desc|schema|auth|reload|enable|disable] [server]", "MCP servers, how they stand, what they offer", &[
        sub(&["list", "ls", "nodesc", "nodescription"], "the servers and their tools"),
        sub(&["desc", "description"], "with descriptions"),
        sub(&["schema"], "with what each tool takes"),
        sub(&["auth"], "sign in to a server"),
        sub(&["reload", "refresh"], "connect anew"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
    ], then!(|f, r, c| f.mcp(r, c).await)),
    with(&["/memory"], "[show|list|add <text>|reload|inbox]", "what the context files say; remember something", &[
        sub(&["show"], "what the model is told"),
        sub(&["list"], "the files it comes from"),
        of(&["add"], "remember something from now on"),
        sub(&["reload", "refresh"], "read the files anew"),
        sub(&["inbox"], "what was noted and waits for you"),
    ], then!(|f, r, c| f.memory(r, c).await)),
    with(&["/mode"], "[default|auto_edit|plan|yolo]", "show or change the approval mode", &[
        sub(&["default"], "ask before anything is changed or run"),
        sub(&["auto_edit"], "edits without a question"),
        sub(&["plan"], "look and plan; change nothing"),
        sub(&["yolo"], "no questions"),
    ], done!(|f, r, c| f.change_mode(r, c).await)),
    with(&["/model"], "[set <name> [--persist]]", "choose the model", &[
        of(&["set"], "another model from now on; --persist keeps it"),
        sub(&["manage"], "choose from a list"),
    ], done!(|f, r, c| f.model(r, c).await)),
    with(&["/permissions"], "[trust [folder]]", "whether this folder is trusted, and why", &[
        sub(&["trust"], "decide about a folder"),
    ], then!(|f, r, _c| f.permissions(r).await)),
    with(&["/plan"], "[text]", "plan mode; with a text, begin to plan", &[
        sub(&["copy"], "put the plan into the clipboard"),
    ], then!(|f, r, c| f.plan(r, c).await)),
    with(&["/policies"], "[list]", "the rules in force", &[sub(&["list"], "the rules in force")], told!(|f, _r, _c| f.policies())),
    plain(&["/privacy"], "what leaves this machine", told!(|f, _r, _c| not_here("/privacy"))),
    with(&["/quit", "/exit"], "[--delete]", "end the conversation; --delete forgets it", &[
        sub(&["--delete"], "delete the session as well"),
    ], then!(|f, r, _c| { f.forget = r == "--delete"; CommandOutcome::Quit })),
    with(&["/restore"], "[name]", "go back to a checkpoint (`general.checkpointing.enabled`)", &[], then!(|f, r, c| f.restore(r, c).await)),
    with(&["/resume"], "[list|save|resume|delete|share]", "choose an earlier conversation and go on with it", CHATS, then!(|f, r, c| f.chats(r, c).await)),
    plain(&["/rewind"], "go back to before a prompt: conversation, files or both", done!(|f, _r, c| f.rewind(c).await)),
    plain(&["/settings"], "look at the settings and change them", then!(|f, _r, _c| f.settings().await)),
    plain(&["/shortcuts"], "the keys", told!(|f, _r, _c| f.shortcuts())),
    with(&["/skills"], "[list|enable|disable|link|reload]", "your skills; `/name` calls one", &[
        sub(&["list"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["link"], "use one from another folder"),
        sub(&["reload", "refresh"], "look for them anew"),
    ], done!(|f, r, c| f.skills(r, c).await)),
    with(&["/stats", "/usage"], "[session|model|tools]", "requests, tokens, calls and time", &[
        sub(&["session"], "the whole conversation"),
        sub(&["model"], "by model"),
        sub(&["tools"], "by tool"),
    ], done!(|f, r, c| f.stats(r, c).await)),
    plain(&["/tasks", "/bg", "/background", "/shells", "/bashes"], "what runs in the background", done!(|f, _r, c| f.tasks(c).await)),
    plain(&["/terminal-setup"], "a new line with Shift+Enter in VS Code and its kin", told!(|f, _r, _c| not_here("/terminal-setup"))),
    plain(&["/theme"], "choose the colours", done!(|f, _r, _c| f.theme().await)),
    with(&["/tools"], "[desc]", "what the model can call", &[
        sub(&["list", "nodesc"], "names"),
        sub(&["desc", "descriptions"], "with descriptions"),
    ], told!(|f, r, c| f.tools(r, c).await)),
    plain(&["/upgrade"], "what other plans there are", told!(|f, _r, _c| not_here("/upgrade"))),
    plain(&["/vim"], "edit prompts as in vim, or no longer", done!(|f, _r, _c| f.vim())),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_calls_one_command() {
        let mut seen = BTreeSet::new();
        for name in COMMANDS.iter().flat_map(|command| command.names).chain(UPSTREAM_ONLY) {
            assert!(name.starts_with('/') && seen.insert(name), "{name}");
        }
        let reserved = reserved();
        assert!(reserved.contains("new") && reserved.contains("corgi") && !reserved.contains("nosuch"));
    }

    #[test]
    fn words_behind_a_command_are_told_apart() {
        for command in COMMANDS {
            let mut seen = BTreeSet::new();
            for name in command.subcommands.iter().flat_map(|sub| sub.names) {
                assert!(seen.insert(name), "{} {name}", command.name());
            }
        }
    }
}
