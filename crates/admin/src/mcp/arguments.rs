//! Arguments of `pollux mcp`.

use std::path::PathBuf;

use clap::{Arg, Args, Command, Subcommand, ValueEnum};

use crate::command_line::{
    Expected, Purpose, RootOptions, SkipTrust, SubcommandArgs, built, count, positions,
};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux mcp list
  pollux mcp add -t http docs https://example.com/mcp
  pollux mcp test docs"
)]
pub struct McpArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    leaf: McpLeaf,
}

/// What to do with MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpCommand {
    Add(Box<NewServer>),
    Remove {
        name: String,
        scope: ServerScope,
    },
    List,
    Switch {
        name: String,
        on: bool,
        /// Only for the session.
        session: bool,
    },
    Test {
        name: String,
    },
    Tools {
        /// All servers if none is named.
        name: Option<String>,
    },
    Auth {
        name: String,
    },
    /// Only on the command line.
    Serve,
}

/// A server to be written into settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewServer {
    pub name: String,
    pub scope: ServerScope,
    pub transport: ServerTransport,
    /// A command or a URL.
    pub target: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub timeout: Option<u64>,
    pub trust: bool,
    pub description: Option<String>,
    pub include_tools: Vec<String>,
    pub exclude_tools: Vec<String>,
}

/// Whose settings; the project's unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ServerScope {
    User,
    #[default]
    Project,
}

impl ServerScope {
    /// The word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// How a new server is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ServerTransport {
    #[default]
    Stdio,
    Sse,
    Http,
}

impl ServerTransport {
    /// The word in settings and messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Sse => "sse",
            Self::Http => "http",
        }
    }
}

#[derive(Debug, Subcommand)]
enum McpLeaf {
    /// Add a server to the settings
    ///
    /// Unknown options after the command, and everything after `--`, are passed to the server.
    #[command(after_help = "Examples:
  pollux mcp add -t http docs https://example.com/mcp
  pollux mcp add -s user files npx -y @modelcontextprotocol/server-filesystem .
  pollux mcp add -e 'GITHUB_TOKEN=$GITHUB_TOKEN' github github-mcp-server stdio")]
    Add(Box<AddArgs>),
    /// Remove a server from the settings
    #[command(after_help = "Examples:
  pollux mcp remove docs
  pollux mcp remove github --scope user")]
    Remove {
        /// Server to remove
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change
        #[arg(short, long, value_name = "scope", value_enum, default_value_t)]
        scope: ServerScope,
    },
    /// List servers and their connection status
    ///
    /// Waits up to 5 seconds for each server to respond. If a server sets its own `timeout`, waits that long instead, up to 30
    /// seconds.
    #[command(after_help = "Examples:
  pollux mcp list")]
    List,
    /// Enable a server
    ///
    /// Changes only your user configuration, even if the server is defined elsewhere.
    #[command(after_help = "Examples:
  pollux mcp enable docs")]
    Enable(SwitchArgs),
    /// Disable a server
    ///
    /// Changes only your user configuration, even if the server is defined elsewhere.
    #[command(after_help = "Examples:
  pollux mcp disable docs")]
    Disable(SwitchArgs),
    /// Connect to a server and show its tools
    ///
    /// If the connection fails, shows the reason and the last lines of the server's stderr.
    #[command(after_help = "Examples:
  pollux mcp test docs")]
    Test {
        /// Server to connect to
        #[arg(value_name = "name")]
        name: String,
    },
    /// List the tools of MCP servers
    ///
    /// Shows each tool under the name that the model and approval rules use.
    #[command(after_help = "Examples:
  pollux mcp tools
  pollux mcp tools docs")]
    Tools {
        /// Server to list (default: all servers)
        #[arg(value_name = "name")]
        name: Option<String>,
    },
    /// Run Pollux as an MCP server
    ///
    /// Other agents send tasks to Pollux with the tools pollux_run and pollux_reply, by default over
    /// standard input and output. Options
    /// before `mcp` apply to every session. The client asks its user for approval.
    #[command(after_help = "Examples:
  pollux mcp serve
  pollux --model flash --approval-mode auto_edit mcp serve
  pollux mcp serve --tools=read_file,glob,write_file
  pollux mcp serve --http --port 8931 --token-file ~/.pollux-token")]
    Serve(McpServeArgs),
    /// Sign in to a server with OAuth
    ///
    /// Opens a browser. If the browser is on another machine, paste the final URL into the terminal.
    #[command(after_help = "Examples:
  pollux mcp auth docs")]
    Auth {
        /// Server to sign in to
        #[arg(value_name = "name")]
        name: String,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Name of the server
    #[arg(value_name = "name")]
    name: String,
    /// Command that starts the server, or its URL
    #[arg(value_name = "commandOrUrl")]
    target: String,
    /// Arguments for the command
    #[arg(value_name = "args")]
    args: Vec<String>,
    /// Settings file to change
    #[arg(short, long, value_name = "scope", value_enum, default_value_t)]
    scope: ServerScope,
    /// Transport to connect with
    #[arg(short, long, visible_alias = "type", value_name = "transport", value_enum, default_value_t)]
    transport: ServerTransport,
    /// Environment variable for the server; `$NAME` in the value is expanded when the server starts; repeatable
    #[arg(short, long, value_name = "KEY=value", value_parser = variable)]
    env: Vec<(String, String)>,
    /// HTTP header for the server; repeatable
    #[arg(short = 'H', long, value_name = "Name: value", value_parser = header)]
    header: Vec<(String, String)>,
    /// Timeout for connecting and for each request, in milliseconds (default: 600000)
    #[arg(long, value_name = "ms", value_parser = count::<u64>)]
    timeout: Option<u64>,
    /// Run the server's tools without approval (requires `--scope user`)
    #[arg(long)]
    trust: bool,
    /// Description of the server
    #[arg(long, value_name = "text")]
    description: Option<String>,
    /// Use only these tools
    #[arg(long, value_name = "list")]
    include_tools: Vec<String>,
    /// Use all tools except these
    #[arg(long, value_name = "list")]
    exclude_tools: Vec<String>,
}

/// How Pollux serves as an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct McpServeArgs {
    /// Offer built-in tools one by one: those that only read files, `all`, or a comma-separated list
    #[arg(
        long, value_name = "list", num_args = 0..=1, require_equals = true, default_missing_value = "read-only"
    )]
    pub tools: Option<String>,
    /// Serve Streamable HTTP on a loopback address instead of standard input and output
    #[arg(long)]
    pub http: bool,
    /// Port to listen on (default: any free port)
    #[arg(long, value_name = "port", requires = "http", value_parser = count::<u16>)]
    pub port: Option<u16>,
    /// File with the token that clients must send (default: a new token, printed to stderr)
    #[arg(long, value_name = "file", requires = "http")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SwitchArgs {
    /// Name of the server
    #[arg(value_name = "name")]
    name: String,
    /// Apply only to the current session (only with `/mcp` in a session)
    #[arg(long)]
    session: bool,
}

impl SubcommandArgs for McpArgs {
    type Command = McpCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<McpCommand, UsageError> {
        self.trust.apply(&mut root.request);
        let switch = |SwitchArgs { name, session }, on| McpCommand::Switch { name, on, session };
        Ok(match self.leaf {
            McpLeaf::Add(args) => McpCommand::Add(Box::new((*args).into())),
            McpLeaf::Remove { name, scope } => McpCommand::Remove { name, scope },
            McpLeaf::List => McpCommand::List,
            McpLeaf::Enable(args) => switch(args, true),
            McpLeaf::Disable(args) => switch(args, false),
            McpLeaf::Test { name } => McpCommand::Test { name },
            McpLeaf::Tools { name } => McpCommand::Tools { name },
            McpLeaf::Auth { name } => McpCommand::Auth { name },
            McpLeaf::Serve(_) => McpCommand::Serve,
        })
    }
}

impl From<AddArgs> for NewServer {
    fn from(args: AddArgs) -> Self {
        let filled = |list: &[String]| {
            let items = list.iter().flat_map(|value| value.split(',')).map(str::trim);
            items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
        };
        Self {
            include_tools: filled(&args.include_tools),
            exclude_tools: filled(&args.exclude_tools),
            name: args.name,
            scope: args.scope,
            transport: args.transport,
            target: args.target,
            args: args.args,
            env: args.env,
            headers: args.header,
            timeout: args.timeout,
            trust: args.trust,
            description: args.description,
        }
    }
}

fn variable(text: &str) -> Result<(String, String), Expected> {
    pair(text, '=').ok_or_else(|| Expected::without_value("`KEY=value`"))
}

fn header(text: &str) -> Result<(String, String), Expected> {
    pair(text, ':').ok_or_else(|| Expected::without_value("`Name: value`"))
}

/// What follows the first sign is the value, whatever it holds.
fn pair(text: &str, sign: char) -> Option<(String, String)> {
    let (name, value) = text.split_once(sign)?;
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), value.trim().to_owned()))
}

/// Rearranges `mcp add`, as gemini-cli reads it: its options may stand anywhere, options that it does not know belong to the
/// server, and so does everything after `--`. clap gets the options first, then `--`, then the rest.
pub fn server_words_last(tree: fn(Purpose) -> Command, mut words: Vec<String>) -> Vec<String> {
    let has = |name: &str| words.iter().any(|word| word == name);
    if !has("mcp") || !has("add") {
        return words;
    }
    let found = positions(&built(tree), &words);
    let names: Vec<&str> =
        found.iter().filter_map(|index| words.get(*index)).map(String::as_str).take(2).collect();
    match (names.as_slice(), found.get(1)) {
        (["mcp", "add"], Some(add)) => {
            let typed = words.split_off(add + 1);
            words.extend(rearranged(typed));
            words
        }
        _ => words,
    }
}

fn rearranged(words: Vec<String>) -> Vec<String> {
    let command = AddArgs::augment_args(Command::new("add"));
    let (mut options, mut loose) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            loose.extend(words.by_ref());
            break;
        }
        let (name, has_value) = match word.split_once('=') {
            Some((name, _)) if name.starts_with("--") => (name, true),
            _ => (word.as_str(), false),
        };
        let known = command.get_arguments().find(|arg| is_named(arg, name));
        // Before the command is named there is nobody else to whom an option could belong.
        let is_ours = known.is_some() || (word.starts_with('-') && word.len() > 1 && loose.len() < 2);
        if !is_ours {
            loose.push(word);
            continue;
        }
        let takes_next = !has_value && known.is_some_and(|arg| arg.get_action().takes_values());
        options.push(word);
        options.extend(takes_next.then(|| words.next()).flatten());
    }
    if !loose.is_empty() {
        options.push("--".to_owned());
        options.extend(loose);
    }
    options
}

fn is_named(arg: &Arg, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
        None => option
            .strip_prefix('-')
            .is_some_and(|short| arg.get_short().is_some_and(|own| short.chars().eq([own]))),
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::command_line::{self, Reading};

    fn tree(purpose: Purpose) -> Command {
        let mcp = purpose.fit(McpArgs::augment_args(Command::new("mcp")));
        Command::new("pollux").no_binary_name(true).subcommand(mcp)
    }

    /// `None` when help is wanted.
    fn read(line: &str) -> Result<Option<NewServer>, String> {
        let typed = line.split(' ').map(|word| word.replace('_', " "));
        let words = ["mcp", "add"].map(str::to_owned).into_iter().chain(typed).collect();
        match command_line::read(tree, &server_words_last(tree, words)).map_err(|error| error.to_string())? {
            Reading::Help(path) => {
                assert_eq!(path, ["mcp", "add"]);
                Ok(None)
            }
            Reading::Matches(matches) => {
                let (_, matches) = matches.subcommand().unwrap();
                match McpArgs::from_arg_matches(matches).unwrap().resolve(&mut RootOptions::default()) {
                    Ok(McpCommand::Add(server)) => Ok(Some(*server)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_of_ours_are_read_wherever_they_stand() {
        let server =
            read("-s user n npx -y @x/srv -e A=b=c --trust -e=B=2 --timeout 500 --include-tools a,b")
                .unwrap()
                .unwrap();
        assert_eq!((server.name.as_str(), server.target.as_str()), ("n", "npx"));
        assert_eq!(server.args, ["-y", "@x/srv", "-e=B=2"]);
        assert_eq!(server.env, pairs(&[("A", "b=c")]));
        assert_eq!((server.scope, server.trust, server.timeout), (ServerScope::User, true, Some(500)));
        assert_eq!(server.include_tools, ["a", "b"]);
        let server = read("n srv -- -e X=1 --trust").unwrap().unwrap();
        assert_eq!((server.args.len(), server.trust, server.env.len()), (3, false, 0));
        let server = read("-t http -H Authorization:_Bearer_x:y n https://e/mcp").unwrap().unwrap();
        assert_eq!(server.headers, pairs(&[("Authorization", "Bearer x:y")]));
        assert_eq!(server.transport, ServerTransport::Http);
        assert_eq!(read("n srv --help").unwrap().unwrap().args, ["--help"]);
        assert_eq!(read("--help"), Ok(None));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (line, expected) in [
            ("n", "missing argument `<commandOrUrl>`"),
            ("--nonsense n srv", "Unknown argument: nonsense"),
            ("n srv -e NOVALUE", "invalid value for `--env`: expected `KEY=value`"),
            ("n srv --timeout soon", "invalid value `soon` for `--timeout`: expected a positive number"),
            ("n srv -e", "missing value for `--env`"),
        ] {
            assert_eq!(read(line).unwrap_err(), expected, "{line}");
        }
        assert!(read("n srv -t carrier").unwrap_err().contains("Choices: \"stdio\", \"sse\", \"http\""));
    }
}
