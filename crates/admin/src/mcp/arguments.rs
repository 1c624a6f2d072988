//! `pollux mcp …`.

use clap::{Arg, ArgMatches, Command};

use crate::grammar::{Given, Parsed, Root, command, flag, leaf, text};
use crate::usage::UsageError;

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
}

/// A server to be written into settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewServer {
    pub name: String,
    pub scope: ServerScope,
    pub transport: ServerTransport,
    /// A command or an address.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerScope {
    #[default]
    Project,
    User,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

const SCOPES: &[&str] = &["user", "project"];
const TRANSPORTS: &[&str] = &["stdio", "sse", "http"];

pub fn grammar() -> Command {
    let name = || Arg::new("name").required(true);
    // What is a flag of ours and what is the server's is decided word by word.
    let words = Arg::new("words").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    let commands = [
        command("remove").args([name(), text("scope").short('s')]),
        command("list"),
        command("enable").args([name(), flag("session")]),
        command("disable").args([name(), flag("session")]),
        command("test").arg(name()),
        command("tools").arg(Arg::new("name")),
        command("auth").arg(name()),
    ];
    command("mcp")
        .subcommands(commands.map(|command| command.arg(flag("skip-trust"))))
        .subcommand(command("add").arg(words))
}

pub fn parse(root: &Root<'_>, inner: &ArgMatches) -> Result<Parsed<McpCommand>, UsageError> {
    // After the first word of `add` everything is among its words, the flag for help too.
    let Some((name, matches)) = leaf("mcp", inner)? else { return Ok(Parsed::Help("")) };
    let given = Given(matches);
    let mut options = root.request(&given)?;
    let command = if name == "add" {
        let words = matches.get_many::<String>("words").into_iter().flatten().cloned().collect();
        match added(words)? {
            Some(server) => McpCommand::Add(Box::new(server)),
            None => return Ok(Parsed::Help("")),
        }
    } else {
        options.skip_trust |= given.flag("skip-trust")?;
        let session = matches!(name, "enable" | "disable") && given.flag("session")?;
        let word = |name| given.text(name).unwrap_or_default().to_owned();
        let switch = |on| McpCommand::Switch { name: word("name"), on, session };
        match name {
            "remove" => {
                let scope = scope(given.choice("scope", SCOPES)?);
                McpCommand::Remove { name: word("name"), scope }
            }
            "enable" => switch(true),
            "disable" => switch(false),
            "test" => McpCommand::Test { name: word("name") },
            "tools" => McpCommand::Tools { name: given.text("name").map(str::to_owned) },
            "auth" => McpCommand::Auth { name: word("name") },
            _ => McpCommand::List,
        }
    };
    Ok(Parsed::Run(command, Box::new(options)))
}

fn scope(given: Option<&str>) -> ServerScope {
    if given == Some("user") { ServerScope::User } else { ServerScope::Project }
}

/// Reads what follows `mcp add`. Options that we do not know, and everything after `--`, belong to the server,
/// as upstream has it. `None` when help is wanted.
fn added(words: Vec<String>) -> Result<Option<NewServer>, UsageError> {
    let mut server = NewServer::default();
    let mut loose = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--" {
            loose.extend(words.by_ref());
            break;
        }
        // Before the command is named there is nobody else to whom an option could belong.
        if matches!(word.as_str(), "--help" | "-h") && loose.len() < 2 {
            return Ok(None);
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            Some(_) | None => (word.clone(), None),
        };
        let mut value =
            || inline.clone().or_else(|| words.next()).ok_or_else(|| UsageError::MissingValue(name.clone()));
        match name.as_str() {
            "--scope" | "-s" => server.scope = scope(Some(choice("scope", &value()?, SCOPES)?)),
            "--transport" | "--type" | "-t" => {
                server.transport = match choice("transport", &value()?, TRANSPORTS)? {
                    "sse" => ServerTransport::Sse,
                    "http" => ServerTransport::Http,
                    _ => ServerTransport::Stdio,
                };
            }
            "--env" | "-e" => server.env.push(pair(&name, &value()?, '=')?),
            "--header" | "-H" => server.headers.push(pair(&name, &value()?, ':')?),
            "--timeout" => server.timeout = Some(count(&value()?)?),
            "--trust" => server.trust = inline.as_deref() != Some("false"),
            "--description" => server.description = Some(value()?),
            "--include-tools" => server.include_tools.extend(items(&value()?)),
            "--exclude-tools" => server.exclude_tools.extend(items(&value()?)),
            _ if word.starts_with('-') && word.len() > 1 && loose.len() < 2 => {
                return Err(UsageError::UnknownFlag(name.trim_start_matches('-').to_owned()));
            }
            _ => loose.push(word),
        }
    }
    let mut loose = loose.into_iter();
    let missing = |what: &str| UsageError::MissingValue(what.to_owned());
    server.name = loose.next().ok_or_else(|| missing("<name>"))?;
    server.target = loose.next().ok_or_else(|| missing("<commandOrUrl>"))?;
    server.args = loose.collect();
    Ok(Some(server))
}

fn choice(
    argument: &'static str,
    given: &str,
    choices: &'static [&'static str],
) -> Result<&'static str, UsageError> {
    let found = choices.iter().find(|choice| **choice == given);
    found.copied().ok_or_else(|| UsageError::NotAChoice { argument, given: given.to_owned(), choices })
}

/// `NAME=value` or `Name: value`; what follows the first sign is the value, whatever it holds.
fn pair(flag: &str, given: &str, sign: char) -> Result<(String, String), UsageError> {
    match given.split_once(sign) {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => {
            let form = if sign == '=' { "KEY=value" } else { "Name: value" };
            Err(UsageError::Malformed(format!("`{flag}` takes `{form}`")))
        }
    }
}

fn count(given: &str) -> Result<u64, UsageError> {
    let wrong = || UsageError::NotACount { flag: "--timeout", given: given.to_owned() };
    given.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)
}

fn items(given: &str) -> impl Iterator<Item = String> {
    let items: Vec<String> =
        given.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    items.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<NewServer>, String> {
        added(line.split(' ').map(|word| word.replace('_', " ")).collect()).map_err(|error| error.to_string())
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
            ("n srv -e NOVALUE", "`-e` takes `KEY=value`"),
            ("n srv --timeout soon", "`--timeout` takes a number above 0, not `soon`"),
            ("n srv -e", "the option `-e` needs a value"),
        ] {
            assert_eq!(read(line).unwrap_err(), expected, "{line}");
        }
        assert!(read("n srv -t carrier").unwrap_err().contains("Choices: \"stdio\", \"sse\", \"http\""));
    }
}
