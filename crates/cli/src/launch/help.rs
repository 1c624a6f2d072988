//! The help texts.

mod agents;
mod extensions;
mod mcp;
mod memory;
mod sessions;
mod skills;

use std::ffi::OsString;

pub(crate) use sessions::SessionsPage;

/// Which help is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Main,
    Config,
    Policy,
    Agents,
    Hooks,
    Extensions,
    Mcp,
    Skills,
    Trust,
    Memory,
    Sessions(SessionsPage),
    Auth,
    Demo,
}

impl Topic {
    /// The help that a command line with a mistake in it needs.
    pub(crate) fn of(args: &[OsString]) -> Self {
        match args.first().and_then(|word| word.to_str()) {
            Some("config") => Self::Config,
            Some("policy") => Self::Policy,
            Some("agent" | "agents") => Self::Agents,
            Some("hook" | "hooks") => Self::Hooks,
            Some("extension" | "extensions") => Self::Extensions,
            Some("mcp") => Self::Mcp,
            Some("skill" | "skills") => Self::Skills,
            Some("trust") => Self::Trust,
            Some("memory") => Self::Memory,
            Some("sessions") => Self::Sessions(SessionsPage::Overview),
            Some("auth") => Self::Auth,
            Some("demo") => Self::Demo,
            _ => Self::Main,
        }
    }
}

/// The line of a command's help that shows how it is written.
pub(crate) fn usage_line(args: &[OsString]) -> Option<&'static str> {
    let leaf = args.get(1)?.to_str()?;
    text(Topic::of(args)).lines().map_while(|line| Some(line.trim_start())).find_map(|line| {
        let line = line.strip_prefix("Usage: ").unwrap_or(line);
        let names = line.strip_prefix("pollux ")?.split(' ').nth(1)?;
        names.split('|').any(|name| name == leaf).then_some(line)
    })
}

pub(crate) fn text(topic: Topic) -> &'static str {
    match topic {
        Topic::Main => MAIN,
        Topic::Config => CONFIG,
        Topic::Policy => POLICY,
        Topic::Agents => agents::AGENTS,
        Topic::Hooks => HOOKS,
        Topic::Extensions => extensions::EXTENSIONS,
        Topic::Mcp => mcp::MCP,
        Topic::Skills => skills::SKILLS,
        Topic::Trust => TRUST,
        Topic::Memory => memory::MEMORY,
        Topic::Sessions(page) => sessions::text(page),
        Topic::Auth => AUTH,
        Topic::Demo => DEMO,
    }
}

const MAIN: &str = r#"Pollux: a coding agent for the terminal

Usage: pollux [options] [prompt..]
       pollux <command> [options]

Commands:
  config show|get|set      what is set, and where it comes from
  policy explain|list|replay|test|lint  what the rules say about calls, and whether they are sound
  agents list|show|enable|disable  helpers that the model may hand a task to
  hooks list|enable|disable|migrate|run  your own commands at certain moments, and what they would do
  mcp add|remove|list|…    servers whose tools the model may call; `pollux mcp --help` explains
  extensions install|list|…  bundles of servers, commands, hooks, skills; `pollux extensions --help` explains
  skills list|install|…    instructions that the model takes when a task calls for them; `pollux skills --help`
  trust show|allow|deny|diff  what a folder would run, and whether it may
  sessions list|show|search|…  past conversations: find, read, export, delete, go back; `pollux sessions`
                           explains
  auth login|logout|status|list  keys and sign-ins: store, remove, and which of them is in effect
  memory enable|search|…   what earlier sessions said and taught, found again; `pollux memory` explains
  demo                     a tour on a throw-away project, without a key or a network

Prompt:
  -p, --prompt <text>            run this prompt and exit; piped input is put before it
  -i, --prompt-interactive <text>  start the terminal interface with this prompt
  [prompt..]                     words without a flag are the prompt

Model and output:
  -m, --model <name>             the model, or auto, pro, flash, flash-lite
  -o, --output-format <format>   text, json or stream-json
      --output-dialect <name>    pollux, or gemini-cli for the events gemini-cli prints
      --raw-output               do not remove terminal control sequences from the answer
      --accept-raw-output-risk   the same, without the warning

What it may do:
      --approval-mode <mode>     default, auto_edit, yolo or plan
  -y, --yolo                     approve everything that no rule denies
      --allowed-tools <list>     tools that need no approval
      --policy <list>            policy files or folders instead of ~/.gemini/policies
      --admin-policy <list>      the same with the rank of the administrator
  -s, --sandbox[=false]          run commands in a sandbox, or not
      --skip-trust               trust this folder for this run
      --include-directories <list>  further folders of the workspace
      --allowed-mcp-server-names <list>  only these MCP servers

Sessions:
  -r, --resume [which]           latest, an index, an id or its beginning
      --fork                     with --resume: go on in a copy, as when the session is in use
      --all-projects             with --resume: look in all projects
      --session-id <id>          start a session under this id
      --session-file <path>      go on from a copy of this session file
      --list-sessions            show what can be resumed
      --delete-session <which>   delete one, by index, id or its beginning

Other:
      --ignore-env               do not read the project's .env files
  -l, --list-extensions          list extensions and exit
  -e, --extensions <list>        extensions to use; `none` for none
      --screen-reader            plain, linear output
  -d, --debug                    explain on stderr what happens
  -v, --version                  print the version
  -h, --help                     print this help

Examples:
  pollux -p "why does the test in auth_test.go fail?"
  git diff | pollux -p "write a commit message for this change"
  pollux -p "fix the failing test" --approval-mode auto_edit
  pollux -p "now add a test for it" --resume
  pollux -p "list the public functions" --output-format json

Environment:
  GEMINI_API_KEY           the key for the Gemini API
  GEMINI_MODEL             the model, unless --model is given
  GEMINI_CLI_HOME          where .gemini is kept, instead of the home directory
  POLLUX_OUTPUT_DIALECT    pollux or gemini-cli
  NO_COLOR                 no colours

Exit codes:
  0 done   1 failed   41 no usable credentials   42 no usable input   44 sandbox
  52 settings   53 turn limit   54 a tool cannot go on   55 folder not trusted
  130 cancelled (143 and 129 when ended by SIGTERM and SIGHUP)
"#;

const CONFIG: &str = r#"Settings: what holds, and where it comes from

Usage: pollux config show [--origin] [--json]
       pollux config get <key>
       pollux config set <key> <value> [--scope user|project]

  show     every setting as `key = value`; --origin adds the file, variable or flag it comes from
  get      one value, bare; an object as JSON
  set      change a settings file and keep its comments; the user's file unless --scope project

Examples:
  pollux config show --origin
  pollux config get model.name
  pollux config set model.name gemini-2.5-pro
"#;

const POLICY: &str = r#"Policy: what the rules say about calls, and whether they are sound

Usage: pollux policy explain [--json] --tool NAME --args JSON [--approval-mode MODE] [--headless]
       pollux policy list [--json] [--approval-mode MODE] [--headless]
       pollux policy replay [--json] [--all-projects] [sessions..] [--approval-mode MODE] [--headless]
       pollux policy test <file>
       pollux policy lint [files..]

  explain  the final outcome of one call, which is not made: allow, ask or deny, and why
  list     every rule in force, in the order in which they are tried
  replay   the calls of past sessions through the rules: how many pass, and which do not
  test     a table of calls with what is expected of each; exit 1 if one turns out otherwise
  lint     what is wrong with policy files, those of a run unless some are named; exit 1 on errors

Options:
      --approval-mode <mode>     default, auto_edit, yolo or plan
      --headless                 nobody can be asked, as in `pollux -p`
      --all-projects             sessions of all projects, not only of this folder
      --allowed-tools <list>     tools that need no approval
      --policy <list>            policy files or folders instead of ~/.gemini/policies
      --admin-policy <list>      the same with the rank of the administrator
      --skip-trust               trust this folder for this question

Examples:
  pollux policy explain --tool run_shell_command --args '{"command": "git push"}'
  pollux policy explain --json --tool write_file --args '{"file_path": "a", "content": ""}' --headless
  pollux policy replay --headless --policy team.toml
  pollux policy lint .gemini/policies
"#;

const HOOKS: &str = r#"Hooks: your own commands at certain moments, and what they would do

Usage: pollux hooks list [--json]
       pollux hooks enable <name> [--scope user|project]
       pollux hooks disable <name> [--scope user|project]
       pollux hooks migrate --from-claude
       pollux hooks run <event> [--input FILE|-] [--json]

  list     every hook with its event, its command and where it is configured
  enable   take a hook off the list of those that are switched off
  disable  put a hook on that list, by its name, or by its command if it has none; in your own settings unless
           --scope project, which is for hooks of the project alone
  migrate  write the hooks of Claude Code (.claude/settings.json) into .gemini/settings.json
  run      run the hooks of one event for real, with a sample of its input, and tell what each answered and
           what would come of it

Options:
      --input <file>             the event's own keys as a JSON object, laid over the sample; `-` for stdin
      --json                     for programs
      --scope <user|project>     which settings file is changed
      --skip-trust               trust this folder for this run

Events:
  SessionStart SessionEnd BeforeAgent AfterAgent BeforeModel AfterModel BeforeToolSelection BeforeTool
  AfterTool PreCompress Notification

Examples:
  pollux hooks list
  pollux hooks run BeforeTool
  echo '{"tool_name": "write_file", "tool_input": {"file_path": "a"}}' | pollux hooks run BeforeTool --input -
"#;

const TRUST: &str = r#"Trust: what a folder would run, and whether it may

Usage: pollux trust show [--json] [folder]
       pollux trust allow [--parent] [--yes] [folder]
       pollux trust deny [folder]
       pollux trust diff [--json] [folder]

  show     where the folder stands and why, and every command, setting and variable that it would bring;
           nothing is run
  allow    trust it with what it holds now, after a question; a later change has to be allowed again
  deny     never trust it, whatever is said about the folders above
  diff     what changed since it was trusted

Options:
      --parent                   trust the folder above, too, with all that is in it
  -y, --yes                      do not ask; needed where there is no terminal
      --json                     for programs

The folder is the working directory unless one is named.

Examples:
  pollux trust show
  pollux trust allow
  pollux trust diff ~/src/project
"#;

const AUTH: &str = r#"Auth: keys and sign-ins

Usage: pollux auth login [--api-key-stdin]
       pollux auth logout [--all]
       pollux auth status [--json]
       pollux auth list [--json]

  login    asks for an API key of the Gemini API and keeps it in the keychain, or in an encrypted file where
           there is no keychain
  logout   removes the stored key; exit code 1 if one may be left in a keychain that cannot be reached
  status   who is signed in and why: variables, stored key, settings, in the order in which they count;
           exit code 41 if nobody is
  list     everything that is stored, without the secrets

Options:
      --api-key-stdin            the key comes on standard input
      --all                      sign-ins at MCP servers and gemini-cli's login with Google, too
      --json                     for programs

Examples:
  pollux auth login
  pass show gemini | pollux auth login --api-key-stdin
  pollux auth status
"#;

const DEMO: &str = r#"A tour on a throw-away project

Usage: pollux demo [--output-format text|json|stream-json] [--output-dialect pollux|gemini-cli]

The model's lines come from a script; the agent, its tools, the approvals and the recorded session are
the real ones. Needs no key and no network, and leaves your own files alone.
"#;
