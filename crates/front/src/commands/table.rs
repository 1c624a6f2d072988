//! The table of commands: parsing, `/help` and completion come from it. To add a command, add a row here and a module
//! next to this one.

use std::sync::LazyLock;

use pollux_domain::event::Op;
use pollux_host::Conversation;
use pollux_host::request::Reserved;

use super::outcome::{CommandOutcome, NewSession};
use super::pages::not_here;
use crate::Front;
use crate::front_end::Pending;

/// A built-in slash command.
pub struct SlashCommand {
    /// The name with its slash, and aliases.
    pub names: &'static [&'static str],
    /// The arguments, as in usage lines; may be empty.
    pub follows: &'static str,
    pub about: &'static str,
    /// Whether it can run without arguments.
    pub at_once: bool,
    pub subcommands: &'static [SlashSubcommand],
    /// Runs it with its arguments.
    pub(crate) run: Run,
}

/// The function of a command.
pub(crate) type Run =
    for<'f, 'a, 'b> fn(&'f mut Front<'a, 'b>, &'f str, &'f mut Conversation) -> Pending<'f, CommandOutcome>;

/// A subcommand of a slash command.
pub struct SlashSubcommand {
    pub names: &'static [&'static str],
    pub about: &'static str,
    /// Whether it can run without arguments.
    pub at_once: bool,
}

impl SlashCommand {
    /// The name with its slash.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// Whether it is about the terminal or ends the program, and so has no use in an editor.
    pub fn needs_terminal(&self) -> bool {
        TERMINAL_ONLY.contains(&self.name())
    }

    /// Whether it uses parts of the session that only its own process has: processes, servers, sandbox, journal.
    pub(crate) fn needs_own_process(&self, rest: &str) -> bool {
        OWN_PROCESS.contains(&self.name()) || (self.name() == "/quit" && !rest.is_empty())
    }

    /// The usage line.
    pub(super) fn usage(&self) -> String {
        format!("{} {}", self.name(), self.follows).trim_end().to_owned()
    }
}

/// Every command, in the order of `/help`.
pub fn slash_commands() -> &'static [SlashCommand] {
    COMMANDS
}

/// The names of all commands without slashes; custom commands and servers cannot use them.
pub fn reserved() -> Reserved {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let listed = COMMANDS.iter().flat_map(|command| command.names).chain(UPSTREAM_ONLY);
        listed.filter_map(|name| name.strip_prefix('/')).collect()
    });
    Reserved(&NAMES)
}

/// The command with this name or alias.
pub(super) fn find(word: &str) -> Option<&'static SlashCommand> {
    COMMANDS.iter().find(|command| command.names.contains(&word))
}

/// Commands of gemini-cli that need its own services.
pub(super) const UPSTREAM_ONLY: &[&str] =
    &["/bug-memory", "/corgi", "/gemma", "/oncall", "/profile", "/voice"];

/// Commands about the screen, the keyboard or the program's own window.
const TERMINAL_ONLY: &[&str] = &[
    "/clear",
    "/copy",
    "/docs",
    "/editor",
    "/footer",
    "/ide",
    "/privacy",
    "/quit",
    "/shortcuts",
    "/terminal-setup",
    "/theme",
    "/upgrade",
    "/vim",
];

/// Commands about what only the process of a session has.
const OWN_PROCESS: &[&str] = &["/ide", "/mcp", "/restore", "/sandbox", "/tasks"];

/// A command that returns its outcome.
macro_rules! then {
    (|$front:ident, $rest:ident, $conversation:ident| $then:expr) => {
        |$front, $rest, $conversation| Box::pin(async move { $then })
    };
}

/// A command that continues with the next prompt.
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

/// A command that shows a text.
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

/// A command that needs arguments.
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

/// A subcommand that needs arguments.
const fn of(names: Names, about: &'static str) -> SlashSubcommand {
    SlashSubcommand { names, about, at_once: false }
}

const CHATS: &[SlashSubcommand] = &[
    sub(&["list"], "List saved conversations"),
    of(&["save"], "Save the conversation under a tag"),
    of(&["resume", "load"], "Resume a saved conversation"),
    of(&["delete"], "Delete a saved conversation"),
    sub(&["share"], "Write the conversation to a file (.md, .json)"),
];

#[rustfmt::skip]
const COMMANDS: &[SlashCommand] = &[
    plain(&["/help", "/?"], "List commands", done!(|f, _r, c| f.help(c))),
    plain(&["/about"], "Show version, model, session and folder", told!(|f, _r, c| f.about(c).await)),
    with(&["/agents"], "[list|show|enable|disable|config <name>]", "Manage sub-agents", &[
        sub(&["list"], "List all"),
        of(&["show", "config"], "Show a sub-agent and its settings"),
        of(&["enable"], "Enable one"),
        of(&["disable"], "Disable one"),
        of(&["acknowledge"], "Approve a project sub-agent"),
        sub(&["reload", "refresh"], "Reload sub-agents"),
    ], then!(|f, r, _c| f.agents(r))),
    with(&["/auth"], "[signin|signout]", "Show authentication; sign in or out", &[
        sub(&["signin", "login"], "Choose a method and enter a key"),
        sub(&["signout", "logout"], "Delete the stored key"),
    ], then!(|f, r, _c| f.auth(r).await)),
    with(&["/budget"], "[+<amount> [unit]|off]", "Show spending; raise or remove the session's limits", &[
        sub(&["off"], "Remove the limits of turn and session"),
    ], done!(|f, r, c| f.budget(r, c).await)),
    with(&["/bug"], "[title]", "Report a bug", &[], done!(|f, r, c| f.bug(r, c).await)),
    with(&["/chat"], "[list|save|resume|delete|share]", "Browse, save and resume conversations", CHATS, then!(|f, r, c| f.chats(r, c).await)),
    plain(&["/clear", "/new"], "Start a new session; this one is kept", then!(|_f, _r, _c| CommandOutcome::NewSession(NewSession { note: "New session.".to_owned(), ..NewSession::default() }))),
    needs(&["/commands"], "list|reload", "List or reload custom commands", &[
        sub(&["list"], "List all"),
        sub(&["reload", "refresh"], "Reload custom commands"),
    ], done!(|f, r, c| f.custom_commands(r, c))),
    plain(&["/compress", "/summarize", "/compact"], "Replace the conversation with a summary", then!(|_f, _r, _c| CommandOutcome::Turn(Op::Compress))),
    plain(&["/context"], "Show context window usage", told!(|f, _r, c| f.context(c).await)),
    plain(&["/copy"], "Copy the last answer to the clipboard", done!(|f, _r, c| f.copy_answer(c).await)),
    with(&["/directory", "/dir"], "[show|add <paths>]", "Show or add workspace directories", &[
        sub(&["show"], "List workspace directories"),
        of(&["add"], "Add directories, separated by commas"),
    ], then!(|f, r, c| f.directory(r, c).await)),
    plain(&["/docs"], "Show how to read the documentation", told!(|f, _r, _c| not_here("/docs"))),
    with(&["/editor"], "", "Choose the external editor", &[], done!(|f, _r, _c| f.editor().await)),
    with(&["/export-session"], "[file]", "Export this session to a file", &[], done!(|f, r, _c| f.export_session(r))),
    with(&["/extensions"], "[list|enable|disable|update|uninstall] [name]",
        "Manage extensions", &[
        sub(&["list"], "List all"),
        of(&["enable"], "Enable one"),
        of(&["disable"], "Disable one"),
        of(&["update"], "Update extensions (`--all` for all of them)"),
        of(&["uninstall", "delete"], "Uninstall extensions"),
    ], done!(|f, r, _c| f.extensions(r))),
    plain(&["/footer", "/statusline"], "Configure the footer", done!(|f, _r, _c| f.footer().await)),
    with(&["/hooks"], "[enable|disable <name>|enable-all|disable-all]", "Manage hooks (commands run on agent events)", &[
        sub(&["list", "panel", "show"], "List all"),
        of(&["enable"], "Enable one"),
        of(&["disable"], "Disable one"),
        sub(&["enable-all", "enableall"], "Enable all hooks"),
        sub(&["disable-all", "disableall"], "Disable all hooks"),
    ], told!(|f, r, _c| f.hooks(r))),
    with(&["/ide"], "[status|install|enable|disable|switch]", "Connect to your editor", &[
        sub(&["status"], "Show the connection and open files"),
        sub(&["install"], "Show how to install the extension"),
        sub(&["enable"], "Connect now and in later sessions"),
        sub(&["disable"], "Disconnect and stay disconnected"),
        sub(&["switch"], "Choose among several editors"),
    ], done!(|f, r, c| f.ide(r, c).await)),
    plain(&["/init"], "Let the model write GEMINI.md", then!(|f, _r, c| f.init(c).await)),
    with(&["/mcp"], "[desc|schema|auth|reload|enable|disable] [server]", "Manage MCP servers", &[
        sub(&["list", "ls", "nodesc", "nodescription"], "List servers and their tools"),
        sub(&["desc", "description"], "Include descriptions"),
        sub(&["schema"], "Include tool schemas"),
        sub(&["auth"], "Sign in to a server"),
        sub(&["reload", "refresh"], "Reconnect all servers"),
        of(&["enable"], "Enable one"),
        of(&["disable"], "Disable one"),
    ], then!(|f, r, c| f.mcp(r, c).await)),
    with(&["/memory"], "[show|list|add <text>|reload|inbox]", "Show context files; remember facts", &[
        sub(&["show"], "Show the loaded context"),
        sub(&["list"], "List context files"),
        of(&["add"], "Remember a fact"),
        sub(&["reload", "refresh"], "Reload context files"),
        sub(&["inbox"], "Show learnings"),
    ], then!(|f, r, c| f.memory(r, c).await)),
    with(&["/mode"], "[default|auto_edit|plan|yolo]", "Show or change the approval mode", &[
        sub(&["default"], "Ask before edits and commands"),
        sub(&["auto_edit"], "Approve edits automatically"),
        sub(&["plan"], "Plan without changing anything"),
        sub(&["yolo"], "Approve everything"),
    ], done!(|f, r, c| f.change_mode(r, c).await)),
    with(&["/model"], "[<name> [--persist]]", "Choose the model", &[
        of(&["set"], "Set the model (`--persist` to save it)"),
        sub(&["manage"], "Choose from a list"),
    ], done!(|f, r, c| f.model(r, c).await)),
    with(&["/permissions"], "[trust [folder]]", "Show and change folder trust", &[
        sub(&["trust"], "Trust or distrust a folder"),
    ], then!(|f, r, _c| f.permissions(r).await)),
    with(&["/plan"], "[text]", "Enter plan mode; show the plan", &[
        sub(&["copy"], "Copy the plan to the clipboard"),
    ], then!(|f, r, c| f.plan(r, c).await)),
    with(&["/policies"], "[list]", "List active policy rules", &[sub(&["list"], "List active policy rules")], told!(|f, _r, _c| f.policies())),
    plain(&["/privacy"], "Show which data leaves this machine", told!(|f, _r, _c| not_here("/privacy"))),
    with(&["/provider"], "[id]", "Switch the model provider", &[], done!(|f, r, c| f.provider(r, c).await)),
    with(&["/quit", "/exit"], "[--delete]", "End the session (`--delete` to delete it)", &[
        sub(&["--delete"], "Delete the session"),
    ], then!(|f, r, _c| { f.forget = r == "--delete"; CommandOutcome::Quit })),
    with(&["/receipt"], "[file]", "Show what this session did", &[], done!(|f, r, _c| f.receipt(r))),
    with(&["/restore"], "[name]", "Restore a checkpoint", &[], then!(|f, r, c| f.restore(r, c).await)),
    with(&["/resume"], "[list|save|resume|delete|share]", "Browse and resume earlier sessions", CHATS, then!(|f, r, c| f.chats(r, c).await)),
    plain(&["/rewind"], "Rewind conversation, files or both", done!(|f, _r, c| f.rewind(c).await)),
    with(&["/sandbox"], "[log|publish|revoke]", "Show the sandbox, its grants and denials", &[
        sub(&["log"], "Show the last connections"),
        of(&["publish"], "Publish a port of sandboxed commands"),
        of(&["revoke"], "Revoke a granted right"),
    ], told!(|f, r, _c| f.sandbox(r))),
    plain(&["/settings"], "Show and change settings", then!(|f, _r, _c| f.settings().await)),
    plain(&["/setup-github"], "Write workflows for GitHub Actions", done!(|f, _r, _c| f.set_up_github().await)),
    plain(&["/shortcuts"], "List keyboard shortcuts", told!(|f, _r, _c| f.shortcuts())),
    with(&["/skills"], "[list|enable|disable|link|reload]", "Manage skills (`/name` activates one)", &[
        sub(&["list"], "List all"),
        of(&["enable"], "Enable one"),
        of(&["disable"], "Disable one"),
        of(&["link"], "Link a skill from another folder"),
        sub(&["reload", "refresh"], "Reload skills"),
    ], done!(|f, r, c| f.skills(r, c).await)),
    with(&["/stats", "/usage"], "[session|model|tools]", "Show session statistics", &[
        sub(&["session"], "Show session totals"),
        sub(&["model"], "Show statistics by model"),
        sub(&["tools"], "Show statistics by tool"),
    ], done!(|f, r, c| f.stats(r, c).await)),
    plain(&["/tasks", "/bg", "/background", "/shells", "/bashes"], "List background processes", done!(|f, _r, c| f.tasks(c).await)),
    plain(&["/terminal-setup"], "Show how to enable Shift+Enter", told!(|f, _r, _c| not_here("/terminal-setup"))),
    plain(&["/theme"], "Choose the theme", done!(|f, _r, _c| f.theme().await)),
    with(&["/tools"], "[desc]", "List available tools", &[
        sub(&["list", "nodesc"], "List tool names"),
        sub(&["desc", "descriptions"], "Include descriptions"),
    ], told!(|f, r, c| f.tools(r, c).await)),
    plain(&["/upgrade"], "Show how to upgrade your plan", told!(|f, _r, _c| not_here("/upgrade"))),
    plain(&["/vim"], "Toggle vim mode", done!(|f, _r, _c| f.vim())),
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
