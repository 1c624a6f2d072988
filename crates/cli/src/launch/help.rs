//! The help texts.

use std::borrow::Cow;
use std::ffi::OsString;

use pollux_admin::{TABLE, row};

/// Which help is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Main,
    Demo,
    /// A page of a subcommand's help.
    Subcommand {
        name: &'static str,
        page: &'static str,
    },
}

impl Topic {
    /// The help that a command line with a mistake in it needs.
    pub(crate) fn of(args: &[OsString]) -> Self {
        match args.first().and_then(|word| word.to_str()) {
            Some("demo") => Self::Demo,
            name => match name.and_then(row) {
                Some(row) => Self::Subcommand { name: row.name, page: "" },
                None => Self::Main,
            },
        }
    }
}

/// The line of a command's help that shows how it is written.
pub(crate) fn usage_line(args: &[OsString]) -> Option<&'static str> {
    let leaf = args.get(1)?.to_str()?;
    let Cow::Borrowed(text) = text(Topic::of(args)) else { return None };
    text.lines().map_while(|line| Some(line.trim_start())).find_map(|line| {
        let line = line.strip_prefix("Usage: ").unwrap_or(line);
        let names = line.strip_prefix("pollux ")?.split(' ').nth(1)?;
        names.split('|').any(|name| name == leaf).then_some(line)
    })
}

pub(crate) fn text(topic: Topic) -> Cow<'static, str> {
    match topic {
        Topic::Main => Cow::Owned(main()),
        Topic::Demo => Cow::Borrowed(DEMO),
        Topic::Subcommand { name, page } => Cow::Borrowed(row(name).map_or("", |row| (row.help)(page))),
    }
}

/// The help on everything, with a line for each subcommand.
fn main() -> String {
    let line = |name: &str, summary: &str| {
        format!(
            "  {name:<23}  {summary}
"
        )
    };
    let rows = TABLE.iter().map(|row| line(&format!("{} {}", row.name, row.actions), row.summary));
    let demo = line("demo", "a tour on a throw-away project, without a key or a network");
    format!("{INTRODUCTION}{}{demo}{FLAGS}", rows.collect::<String>())
}

const INTRODUCTION: &str = r#"Pollux: a coding agent for the terminal

Usage: pollux [options] [prompt..]
       pollux <command> [options]

Commands:
"#;

const FLAGS: &str = r#"
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

const DEMO: &str = r#"A tour on a throw-away project

Usage: pollux demo [--output-format text|json|stream-json] [--output-dialect pollux|gemini-cli]

The model's lines come from a script; the agent, its tools, the approvals and the recorded session are
the real ones. Needs no key and no network, and leaves your own files alone.
"#;
