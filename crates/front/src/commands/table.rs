//! The commands by name: what reads a line, what `/help` lists and what a completion offers.

use std::sync::LazyLock;

use pollux_host::request::Reserved;

/// A command of the program's own.
pub(crate) struct Command {
    /// The word with its slash, and other words for it.
    pub(crate) names: &'static [&'static str],
    /// What may follow the word; empty where nothing does.
    pub(crate) follows: &'static str,
    pub(crate) about: &'static str,
    /// Whether it does something useful when nothing follows.
    pub(crate) at_once: bool,
    pub(crate) subcommands: &'static [Subcommand],
}

/// A word that may follow a command.
pub(crate) struct Subcommand {
    pub(crate) names: &'static [&'static str],
    pub(crate) about: &'static str,
    /// Whether nothing need follow it.
    pub(crate) at_once: bool,
}

impl Command {
    /// The word with its slash.
    pub(crate) fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// How it is typed.
    pub(super) fn usage(&self) -> String {
        format!("{} {}", self.name(), self.follows).trim_end().to_owned()
    }
}

/// Every command, in the order of `/help`.
pub(crate) fn listing() -> &'static [Command] {
    COMMANDS
}

/// The names of all these commands without their slashes: no file or server can take them.
pub fn reserved() -> Reserved {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let listed = COMMANDS.iter().flat_map(|command| command.names).chain(ELSEWHERE);
        listed.filter_map(|name| name.strip_prefix('/')).collect()
    });
    Reserved(&NAMES)
}

/// The command that a word with its slash calls.
pub(super) fn find(word: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&word))
}

/// Commands of gemini-cli that only its makers or its own services have a use for.
pub(super) const ELSEWHERE: &[&str] =
    &["/bug-memory", "/corgi", "/gemma", "/oncall", "/profile", "/setup-github", "/voice"];

type Names = &'static [&'static str];

const fn plain(names: Names, about: &'static str) -> Command {
    Command { names, follows: "", about, at_once: true, subcommands: &[] }
}

const fn with(
    names: Names,
    follows: &'static str,
    about: &'static str,
    subcommands: &'static [Subcommand],
) -> Command {
    Command { names, follows, about, at_once: true, subcommands }
}

/// A command that is of no use alone.
const fn needs(
    names: Names,
    follows: &'static str,
    about: &'static str,
    subcommands: &'static [Subcommand],
) -> Command {
    Command { names, follows, about, at_once: false, subcommands }
}

const fn sub(names: Names, about: &'static str) -> Subcommand {
    Subcommand { names, about, at_once: true }
}

/// A word that something follows.
const fn of(names: Names, about: &'static str) -> Subcommand {
    Subcommand { names, about, at_once: false }
}

const CHATS: &[Subcommand] = &[
    sub(&["list"], "the conversations that were saved"),
    of(&["save"], "save the conversation under a name"),
    of(&["resume", "load"], "go on with a saved one"),
    of(&["delete"], "delete a saved one"),
    sub(&["share"], "write the conversation to a file (.md or .json)"),
];

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    plain(&["/help", "/?"], "this list"),
    plain(&["/about"], "version, model, session and folder"),
    with(&["/agents"], "[list|show|enable|disable|config <name>]", "helpers that the model may ask", &[
        sub(&["list"], "all of them"),
        of(&["show", "config"], "one of them, with its settings"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["acknowledge"], "let in one that came with the project"),
        sub(&["reload", "refresh"], "look for them anew"),
    ]),
    with(&["/auth"], "[signin|signout]", "how the model is reached; sign in or out", &[
        sub(&["signin", "login"], "choose how, and give a key"),
        sub(&["signout", "logout"], "forget the key that was kept"),
    ]),
    with(&["/bug"], "[title]", "report a fault: a page with the facts filled in", &[]),
    with(&["/chat"], "[list|save|resume|delete|share]", "your conversations; save one under a name", CHATS),
    plain(&["/clear", "/new"], "begin a new conversation; this one stays on disk"),
    needs(&["/commands"], "list|reload", "your custom commands; read their files anew", &[
        sub(&["list"], "all of them"),
        sub(&["reload", "refresh"], "read their files anew"),
    ]),
    plain(&["/compress", "/summarize", "/compact"], "condense the conversation to a summary"),
    plain(&["/copy"], "put the last answer into the clipboard"),
    with(&["/directory", "/dir"], "[show|add <paths>]", "the folders of the workspace; add some", &[
        sub(&["show"], "the folders"),
        of(&["add"], "add folders, with commas between them"),
    ]),
    plain(&["/docs"], "where the documentation is"),
    with(&["/editor"], "", "choose the editor for long prompts and proposed changes", &[]),
    with(&["/export-session"], "[file]", "write this session to a file", &[]),
    with(&["/extensions"], "[list|enable|disable|update|uninstall] [name]",
        "your extensions; switch one on or off, update or remove it", &[
        sub(&["list"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["update"], "update some, or --all"),
        of(&["uninstall", "delete"], "remove some"),
    ]),
    plain(&["/footer", "/statusline"], "choose what the last line shows"),
    with(&["/hooks"], "[enable|disable <name>|enable-all|disable-all]", "your hooks; switch them on or off", &[
        sub(&["list", "panel", "show"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        sub(&["enable-all", "enableall"], "switch all on"),
        sub(&["disable-all", "disableall"], "switch all off"),
    ]),
    with(&["/ide"], "[status]", "whether an editor is connected", &[sub(&["status"], "whether an editor is connected")]),
    plain(&["/init"], "let the model describe this project in GEMINI.md"),
    with(&["/mcp"], "[desc|schema|auth|reload|enable|disable] [server]", "MCP servers, how they stand, what they offer", &[
        sub(&["list", "ls", "nodesc", "nodescription"], "the servers and their tools"),
        sub(&["desc", "description"], "with descriptions"),
        sub(&["schema"], "with what each tool takes"),
        sub(&["auth"], "sign in to a server"),
        sub(&["reload", "refresh"], "connect anew"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
    ]),
    with(&["/memory"], "[show|list|add <text>|reload|inbox]", "what the context files say; remember something", &[
        sub(&["show"], "what the model is told"),
        sub(&["list"], "the files it comes from"),
        of(&["add"], "remember something from now on"),
        sub(&["reload", "refresh"], "read the files anew"),
        sub(&["inbox"], "what was noted and waits for you"),
    ]),
    with(&["/mode"], "[default|auto_edit|plan|yolo]", "show or change the approval mode", &[
        sub(&["default"], "ask before anything is changed or run"),
        sub(&["auto_edit"], "edits without a question"),
        sub(&["plan"], "look and plan; change nothing"),
        sub(&["yolo"], "no questions"),
    ]),
    with(&["/model"], "[set <name> [--persist]]", "choose the model", &[
        of(&["set"], "another model from now on; --persist keeps it"),
        sub(&["manage"], "choose from a list"),
    ]),
    with(&["/permissions"], "[trust [folder]]", "whether this folder is trusted, and why", &[
        sub(&["trust"], "decide about a folder"),
    ]),
    with(&["/plan"], "[text]", "plan mode; with a text, begin to plan", &[
        sub(&["copy"], "put the plan into the clipboard"),
    ]),
    with(&["/policies"], "[list]", "the rules in force", &[sub(&["list"], "the rules in force")]),
    plain(&["/privacy"], "what leaves this machine"),
    with(&["/quit", "/exit"], "[--delete]", "end the conversation; --delete forgets it", &[
        sub(&["--delete"], "delete the session as well"),
    ]),
    with(&["/restore"], "[name]", "go back to a checkpoint (`general.checkpointing.enabled`)", &[]),
    with(&["/resume"], "[list|save|resume|delete|share]", "choose an earlier conversation and go on with it", CHATS),
    plain(&["/rewind"], "go back to before a prompt: conversation, files or both"),
    plain(&["/settings"], "look at the settings and change them"),
    plain(&["/shortcuts"], "the keys"),
    with(&["/skills"], "[list|enable|disable|link|reload]", "your skills; `/name` calls one", &[
        sub(&["list"], "all of them"),
        of(&["enable"], "switch one on"),
        of(&["disable"], "switch one off"),
        of(&["link"], "use one from another folder"),
        sub(&["reload", "refresh"], "look for them anew"),
    ]),
    with(&["/stats", "/usage"], "[session|model|tools]", "requests, tokens, calls and time", &[
        sub(&["session"], "the whole conversation"),
        sub(&["model"], "by model"),
        sub(&["tools"], "by tool"),
    ]),
    plain(&["/tasks", "/bg", "/background", "/shells", "/bashes"], "what runs in the background"),
    plain(&["/terminal-setup"], "a new line with Shift+Enter in VS Code and its kin"),
    plain(&["/theme"], "choose the colours"),
    with(&["/tools"], "[desc]", "what the model can call", &[
        sub(&["list", "nodesc"], "names"),
        sub(&["desc", "descriptions"], "with descriptions"),
    ]),
    plain(&["/upgrade"], "what other plans there are"),
    plain(&["/vim"], "edit prompts as in vim, or no longer"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_calls_one_command() {
        let mut seen = BTreeSet::new();
        for name in COMMANDS.iter().flat_map(|command| command.names).chain(ELSEWHERE) {
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
