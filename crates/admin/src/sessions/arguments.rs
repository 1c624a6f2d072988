//! Arguments of `pollux sessions`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use pollux_host::sessions::{SessionSource, Wanted, Which};

use crate::command_line::{FilledParser, RootOptions, SubcommandArgs, count};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    after_help = "Refer to a session by its number in `pollux sessions list`, its id, the first four or more characters of its \
                        id, or `latest`. Reading sessions needs no API key or network access.

Examples:
  pollux sessions list
  pollux sessions search database migration
  pollux --resume 3"
)]
pub struct SessionsArgs {
    #[command(subcommand)]
    leaf: SessionsLeaf,
}

/// What to do with sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionsCommand {
    List {
        wanted: Wanted,
        json: bool,
    },
    Show {
        which: Which,
        json: bool,
    },
    Search {
        words: String,
        wanted: Wanted,
        limit: Option<usize>,
        json: bool,
    },
    Transcript {
        which: Which,
        form: TranscriptFormat,
    },
    FindProject {
        name: String,
        json: bool,
    },
    Export {
        which: Which,
        output: PathBuf,
        /// Replace an existing file.
        yes: bool,
        json: bool,
    },
    Import {
        /// A file, or a session.
        what: Which,
        json: bool,
    },
    Delete {
        which: Which,
        yes: bool,
        json: bool,
    },
    Prune {
        dry_run: bool,
        yes: bool,
        json: bool,
    },
    Verify {
        repair: bool,
        /// Compare this receipt with its session instead.
        receipt: Option<PathBuf>,
        json: bool,
    },
    Stats {
        json: bool,
    },
    Rewind {
        which: Which,
        /// The number of a prompt or the id of a message.
        to: String,
        what: RewindWhat,
        /// Restore files that were changed since, too.
        overwrite: bool,
        yes: bool,
        json: bool,
    },
}

/// How a transcript is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TranscriptFormat {
    Text,
    Markdown,
    #[value(name = "jsonl")]
    JsonLines,
}

/// What is rewound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindWhat {
    Conversation,
    Files,
    Both,
}

impl RewindWhat {
    pub fn conversation(self) -> bool {
        self != Self::Files
    }

    pub fn files(self) -> bool {
        self != Self::Conversation
    }
}

#[derive(Debug, Subcommand)]
enum SessionsLeaf {
    /// List sessions
    ///
    /// Shows the sessions in this project, oldest first, with the numbers that `--resume` accepts.
    #[command(after_help = "Examples:
  pollux sessions list
  pollux sessions list --all-projects --source all")]
    List {
        /// List sessions in all projects
        #[arg(long)]
        all_projects: bool,
        /// List only this agent's sessions; `gemini` covers Pollux and gemini-cli
        #[arg(long, value_name = "name", default_value = "gemini", value_parser = any_sources())]
        source: AnySource,
        /// Include sub-agent sessions
        #[arg(long)]
        subagents: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session's details and prompts
    ///
    /// If the session is not in this project, searches other projects and agents. Prompts are
    /// numbered; `rewind --to` accepts these numbers.
    #[command(after_help = "Examples:
  pollux sessions show latest
  pollux sessions show 0f9d --source claude")]
    Show {
        #[command(flatten)]
        session: SessionArg,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Search all sessions
    ///
    /// Finds messages that contain all the words, most relevant first, then most recent. The last word may be a
    /// prefix. To search for a phrase, quote it: '"two words"'. The first search reads every session; later searches read
    /// only new and changed sessions.
    #[command(after_help = "Examples:
  pollux sessions search database migration
  pollux sessions search '\"connection refused\"' --this-project")]
    Search(SearchArgs),
    /// Print a session as a transcript
    ///
    /// Includes messages, tool calls and errors; omits thoughts and tool output.
    #[command(after_help = "Examples:
  pollux sessions transcript latest
  pollux sessions transcript 3 --format markdown > session.md")]
    Transcript {
        #[command(flatten)]
        session: SessionArg,
        /// Output format (default: `text`)
        #[arg(short, long, value_name = "format", value_enum)]
        format: Option<TranscriptFormat>,
        /// Same as `--format jsonl`
        #[arg(long)]
        json: bool,
    },
    /// Find a project by part of its name
    ///
    /// Session files contain only a hash of the project's path. Pollux looks for the matching path among known projects, in the usual folders (~, ~/dev,
    /// ~/projects, ~/src, ~/code, …), and in the arguments of tool calls.
    #[command(after_help = "Examples:
  pollux sessions find-project shop
  pollux sessions find-project shop --json")]
    FindProject {
        /// Part of the project's name
        #[arg(value_name = "name", value_parser = FilledParser)]
        name: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a session to a file
    ///
    /// Writes the whole session as indented JSON, as gemini-cli's /export-session does. `--session-file` and
    /// `pollux sessions import` read such files.
    #[command(after_help = "Examples:
  pollux sessions export latest --output session.json")]
    Export {
        #[command(flatten)]
        session: SessionArg,
        /// File to write
        #[arg(short, long, value_name = "file", value_parser = FilledParser)]
        output: String,
        /// Replace an existing file
        #[arg(short, long)]
        yes: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Import a session into this project
    ///
    /// Copies a session file or another agent's session under a new id, for use with `--resume`. Tool calls from other agents
    /// become text notes. The source is not changed.
    #[command(after_help = "Examples:
  pollux sessions import session.json
  pollux sessions import 0f9d --source claude")]
    #[command(mut_arg("id", |id| id.help("Session number, id, id prefix or `latest`, or a session file")))]
    Import {
        #[command(flatten)]
        session: SessionArg,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a session
    ///
    /// Lists the files to delete and asks for confirmation. Sessions in use and sessions of other agents are never deleted.
    #[command(after_help = "Examples:
  pollux sessions delete 3
  pollux sessions delete latest --yes")]
    Delete {
        #[command(flatten)]
        session: SessionArg,
        /// Skip the confirmation prompt; required without a terminal
        #[arg(short, long)]
        yes: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete old sessions in all projects
    ///
    /// `general.sessionRetention` sets the limits: maxAge, maxCount (per project) and minRetention.
    #[command(after_help = "Examples:
  pollux sessions prune --dry-run")]
    Prune {
        /// List the files that would be deleted and the reasons
        #[arg(long)]
        dry_run: bool,
        /// Skip the confirmation prompt; required without a terminal
        #[arg(short, long)]
        yes: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the session files in all projects
    ///
    /// Exits with code 1 if any file is damaged.
    #[command(after_help = "Examples:
  pollux sessions verify
  pollux sessions verify --repair
  pollux sessions verify --receipt receipt.json")]
    Verify {
        /// Compare a receipt with its session instead
        #[arg(long, value_name = "FILE", conflicts_with_all = ["repair", "json"])]
        receipt: Option<PathBuf>,
        /// Repair truncated files and invalid ids, and remove stale locks, keeping copies of the originals
        #[arg(long)]
        repair: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Show totals across all sessions
    #[command(after_help = "Examples:
  pollux sessions stats
  pollux sessions stats --json")]
    Stats {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Rewind a session to an earlier prompt
    ///
    /// Shows the changes and asks for confirmation. Rewinding the conversation removes the prompt and everything after it.
    /// `pollux sessions show` prints the numbers and ids of the prompts.
    #[command(after_help = "Examples:
  pollux sessions rewind latest --to 2 --conversation
  pollux sessions rewind 3 --to 1 --both --yes")]
    Rewind(RewindArgs),
}

#[derive(Debug, Args)]
struct SessionArg {
    /// Session number, id, id prefix or `latest`
    #[arg(value_name = "id", value_parser = FilledParser)]
    id: String,
    /// Search all projects
    #[arg(long)]
    all_projects: bool,
    /// Agent that the session belongs to (default: any)
    #[arg(long, value_name = "name", value_parser = sources())]
    source: Option<SessionSource>,
}

impl From<SessionArg> for Which {
    fn from(SessionArg { id, all_projects, source }: SessionArg) -> Self {
        Self { id, all_projects, source }
    }
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// Words to search for
    #[arg(value_name = "words", required = true)]
    words: Vec<String>,
    /// Search only this project
    #[arg(long)]
    this_project: bool,
    // All projects are searched anyway.
    #[arg(long, hide = true)]
    all_projects: bool,
    /// Search only this agent's sessions
    #[arg(long, value_name = "name", default_value = "all", value_parser = any_sources())]
    source: AnySource,
    /// Include sub-agent sessions
    #[arg(long)]
    subagents: bool,
    /// Maximum number of results (default: 50)
    #[arg(long, value_name = "n", value_parser = count::<usize>)]
    limit: Option<usize>,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RewindArgs {
    #[command(flatten)]
    session: SessionArg,
    /// Number or message id of the prompt to rewind to
    #[arg(long, value_name = "prompt", value_parser = FilledParser)]
    to: String,
    /// Rewind the conversation
    #[arg(long)]
    conversation: bool,
    /// Restore the project's files
    #[arg(long)]
    files: bool,
    /// Rewind the conversation and restore the files
    #[arg(long)]
    both: bool,
    /// Overwrite files that were changed outside the session
    #[arg(long)]
    overwrite: bool,
    /// Skip the confirmation prompt; required without a terminal
    #[arg(short, long)]
    yes: bool,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

impl RewindArgs {
    fn what(&self) -> Result<RewindWhat, UsageError> {
        match (self.conversation, self.files, self.both) {
            (true, false, false) => Ok(RewindWhat::Conversation),
            (false, true, false) => Ok(RewindWhat::Files),
            (true, true, false) | (false, false, true) => Ok(RewindWhat::Both),
            _ => Err(UsageError::RewindWhat),
        }
    }
}

/// `None` for the sessions of all agents.
#[derive(Debug, Clone, Copy)]
struct AnySource(Option<SessionSource>);

fn sources() -> impl TypedValueParser<Value = SessionSource> {
    PossibleValuesParser::new(["gemini", "claude", "codex", "opencode"])
        .map(|name| named_source(&name).unwrap_or(SessionSource::Gemini))
}

fn any_sources() -> impl TypedValueParser<Value = AnySource> {
    PossibleValuesParser::new(["all", "gemini", "claude", "codex", "opencode"])
        .map(|name| AnySource(named_source(&name)))
}

fn named_source(name: &str) -> Option<SessionSource> {
    match name {
        "gemini" => Some(SessionSource::Gemini),
        "claude" => Some(SessionSource::Claude),
        "codex" => Some(SessionSource::Codex),
        "opencode" => Some(SessionSource::OpenCode),
        _ => None,
    }
}

impl SubcommandArgs for SessionsArgs {
    type Command = SessionsCommand;

    fn resolve(self, _: &mut RootOptions) -> Result<SessionsCommand, UsageError> {
        Ok(match self.leaf {
            SessionsLeaf::List { all_projects, source: AnySource(source), subagents, json } => {
                let wanted = Wanted { all_projects, source, subagents, in_full: json };
                SessionsCommand::List { wanted, json }
            }
            SessionsLeaf::Show { session, json } => SessionsCommand::Show { which: session.into(), json },
            SessionsLeaf::Search(args) => args.into(),
            SessionsLeaf::Transcript { session, format, json } => {
                let otherwise = if json { TranscriptFormat::JsonLines } else { TranscriptFormat::Text };
                SessionsCommand::Transcript { which: session.into(), form: format.unwrap_or(otherwise) }
            }
            SessionsLeaf::FindProject { name, json } => SessionsCommand::FindProject { name, json },
            SessionsLeaf::Export { session, output, yes, json } => {
                SessionsCommand::Export { which: session.into(), output: output.into(), yes, json }
            }
            SessionsLeaf::Import { session, json } => SessionsCommand::Import { what: session.into(), json },
            SessionsLeaf::Delete { session, yes, json } => {
                SessionsCommand::Delete { which: session.into(), yes, json }
            }
            SessionsLeaf::Prune { dry_run, yes, json } => SessionsCommand::Prune { dry_run, yes, json },
            SessionsLeaf::Verify { repair, receipt, json } => {
                SessionsCommand::Verify { repair, receipt, json }
            }
            SessionsLeaf::Stats { json } => SessionsCommand::Stats { json },
            SessionsLeaf::Rewind(args) => SessionsCommand::Rewind {
                what: args.what()?,
                which: args.session.into(),
                to: args.to,
                overwrite: args.overwrite,
                yes: args.yes,
                json: args.json,
            },
        })
    }
}

impl From<SearchArgs> for SessionsCommand {
    fn from(args: SearchArgs) -> Self {
        let wanted = Wanted {
            all_projects: !args.this_project,
            source: args.source.0,
            subagents: args.subagents,
            in_full: args.json,
        };
        Self::Search { words: args.words.join(" "), wanted, limit: args.limit, json: args.json }
    }
}
