//! Arguments of `pollux skills`.

use clap::{Args, Subcommand, ValueEnum};

use crate::command_line::{RootOptions, SkipTrust, SubcommandArgs};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "A skill is a folder with a SKILL.md file. Skills are loaded from extensions, ~/.gemini/skills, ~/.agents/skills, and, in a \
                  trusted folder, .gemini/skills and .agents/skills, in that order. If two skills share a name, the one loaded last takes \
                  precedence. In a session, `/name` runs a skill.

Examples:
  pollux skills list --all
  pollux skills install https://github.com/anthropics/skills --path skills/pdf
  git diff | pollux -p \"/review-change\""
)]
pub struct SkillsArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    leaf: SkillsLeaf,
}

/// What to do with skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillsCommand {
    List {
        /// Built-in skills, too.
        all: bool,
        json: bool,
    },
    Show {
        name: String,
        json: bool,
    },
    Enable {
        name: String,
    },
    Disable {
        name: String,
        /// Without one, the workspace of a trusted folder, else the user's.
        scope: Option<SkillScope>,
    },
    Install(SkillSource),
    Link(SkillSource),
    Uninstall {
        name: String,
        scope: SkillScope,
    },
    Validate {
        path: String,
        json: bool,
    },
    Reload,
}

/// What is installed or linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSource {
    pub source: String,
    pub scope: SkillScope,
    /// A folder in it.
    pub path: Option<String>,
    /// Do not ask.
    pub consent: bool,
}

/// Whose skills, or whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SkillScope {
    User,
    Workspace,
}

impl SkillScope {
    /// The word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Workspace => "workspace",
        }
    }
}

#[derive(Debug, Subcommand)]
enum SkillsLeaf {
    /// List skills
    ///
    /// Shows each skill's description and location.
    #[command(after_help = "Examples:
  pollux skills list
  pollux skills list --all --json")]
    List {
        /// Include built-in skills
        #[arg(long)]
        all: bool,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a skill and its instructions
    #[command(after_help = "Examples:
  pollux skills show review-change")]
    Show {
        /// Skill to show
        #[arg(value_name = "name")]
        name: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable a skill
    #[command(after_help = "Examples:
  pollux skills enable review-change")]
    Enable {
        /// Skill to enable
        #[arg(value_name = "name")]
        name: String,
    },
    /// Disable a skill
    #[command(after_help = "Examples:
  pollux skills disable review-change
  pollux skills disable review-change --scope user")]
    Disable {
        /// Skill to disable
        #[arg(value_name = "name")]
        name: String,
        /// Settings file to change (default: `workspace`, or `user` if the folder is not trusted)
        #[arg(short, long, value_name = "scope", value_enum)]
        scope: Option<SkillScope>,
    },
    /// Install skills
    ///
    /// Copies skills from a folder, a .skill, .zip or .tar.gz file, a git URL, or a GitHub repository (owner/repo).
    /// Lists the skills to install and asks for confirmation.
    #[command(after_help = "Examples:
  pollux skills install https://github.com/anthropics/skills --path skills/pdf
  pollux skills install ./my-skill --scope workspace")]
    Install {
        #[command(flatten)]
        source: SourceArgs,
        /// Folder inside the source
        #[arg(long, value_name = "folder")]
        path: Option<String>,
    },
    /// Link skills instead of copying them
    ///
    /// For development: changes take effect immediately.
    #[command(after_help = "Examples:
  pollux skills link ./my-skill --scope workspace")]
    #[command(mut_arg("source", |source| source.help("Folder with one or more skills")))]
    Link {
        #[command(flatten)]
        source: SourceArgs,
    },
    /// Remove an installed or linked skill
    ///
    /// For a linked skill, removes only the link.
    #[command(after_help = "Examples:
  pollux skills uninstall pdf")]
    Uninstall {
        /// Skill to remove
        #[arg(value_name = "name")]
        name: String,
        /// Where the skill is installed: ~/.gemini or the project's .gemini
        #[arg(short, long, value_name = "scope", value_enum, default_value_t = SkillScope::User)]
        scope: SkillScope,
    },
    /// Check a folder against the Agent Skills specification
    ///
    /// Exits with code 1 if the folder does not conform.
    #[command(after_help = "Examples:
  pollux skills validate ./my-skill")]
    Validate {
        /// Folder to check
        #[arg(value_name = "folder")]
        path: String,
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Reload skills and report problems
    ///
    /// Same as `/skills reload` in a session.
    #[command(
        alias = "refresh",
        after_help = "Examples:
  pollux skills reload"
    )]
    Reload,
}

#[derive(Debug, Args)]
struct SourceArgs {
    /// Folder, archive or repository
    #[arg(value_name = "source")]
    source: String,
    /// Where to install: ~/.gemini or the project's .gemini
    #[arg(short, long, value_name = "scope", value_enum, default_value_t = SkillScope::User)]
    scope: SkillScope,
    /// Skip the confirmation prompt; required without a terminal
    #[arg(long)]
    consent: bool,
}

impl SourceArgs {
    fn with_path(self, path: Option<String>) -> SkillSource {
        let path = path.filter(|path| !path.is_empty());
        SkillSource { source: self.source, scope: self.scope, path, consent: self.consent }
    }
}

impl SubcommandArgs for SkillsArgs {
    type Command = SkillsCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<SkillsCommand, UsageError> {
        self.trust.apply(&mut root.request);
        Ok(match self.leaf {
            SkillsLeaf::List { all, json } => SkillsCommand::List { all, json },
            SkillsLeaf::Show { name, json } => SkillsCommand::Show { name, json },
            SkillsLeaf::Enable { name } => SkillsCommand::Enable { name },
            SkillsLeaf::Disable { name, scope } => SkillsCommand::Disable { name, scope },
            SkillsLeaf::Install { source, path } => SkillsCommand::Install(source.with_path(path)),
            SkillsLeaf::Link { source } => SkillsCommand::Link(source.with_path(None)),
            SkillsLeaf::Uninstall { name, scope } => SkillsCommand::Uninstall { name, scope },
            SkillsLeaf::Validate { path, json } => SkillsCommand::Validate { path, json },
            SkillsLeaf::Reload => SkillsCommand::Reload,
        })
    }
}
