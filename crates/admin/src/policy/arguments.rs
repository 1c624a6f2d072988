//! Arguments of `pollux policy`, and the flags that name policy files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use serde_json::{Value, json};

use crate::command_line::{Expected, RootOptions, SkipTrust, SubcommandArgs, approval_modes, items};
use crate::usage::UsageError;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = false,
    after_help = "Examples:
  pollux policy explain --tool run_shell_command --args '{\"command\": \"git push\"}'
  pollux policy lint .gemini/policies"
)]
pub struct PolicyArgs {
    #[command(flatten)]
    trust: SkipTrust,
    #[command(subcommand)]
    leaf: PolicyLeaf,
}

/// What to do with approval rules.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyCommand {
    Explain {
        call: PolicyCall,
        json: bool,
    },
    /// Every rule in force.
    List {
        view: PolicyView,
        json: bool,
    },
    /// The calls of past sessions through the rules.
    Replay {
        /// Without any: all of this project, or of all projects.
        sessions: Vec<String>,
        all_projects: bool,
        view: PolicyView,
        json: bool,
    },
    /// Without files: everything that a run would load.
    Lint {
        files: Vec<PathBuf>,
    },
    Test {
        file: PathBuf,
    },
}

/// A tool call that is judged but not made.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyCall {
    pub tool: String,
    pub args: JsonObject,
    pub view: PolicyView,
}

/// The kind of run that a question about rules is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PolicyView {
    /// `None` for the mode a run would have.
    pub mode: Option<ApprovalMode>,
    /// Approval cannot be asked for.
    pub headless: bool,
}

#[derive(Debug, Subcommand)]
enum PolicyLeaf {
    /// Explain the decision on a tool call
    ///
    /// Prints allow, ask or deny, and why. The call is not made.
    #[command(
        mut_arg("policy", |arg| arg.num_args(1..)),
        mut_arg("admin_policy", |arg| arg.num_args(1..)),
        after_help = "Examples:
  pollux policy explain --tool run_shell_command --args '{\"command\": \"git push\"}'
  pollux policy explain --json --headless --tool glob --args '{\"pattern\": \"*.rs\"}'"
    )]
    Explain {
        /// Name of the tool
        #[arg(long, value_name = "tool")]
        tool: String,
        /// Arguments of the call, as a JSON object
        #[arg(long, value_name = "args", value_parser = json_object)]
        args: JsonObject,
        #[command(flatten)]
        view: ViewArgs,
        /// Output JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: PolicyFlags,
    },
    /// List rules in evaluation order
    #[command(
        mut_arg("policy", |arg| arg.num_args(1..)),
        mut_arg("admin_policy", |arg| arg.num_args(1..)),
        after_help = "Examples:
  pollux policy list
  pollux policy list --approval-mode plan --json"
    )]
    List {
        #[command(flatten)]
        view: ViewArgs,
        /// Output JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: PolicyFlags,
    },
    /// Check past tool calls against the rules
    ///
    /// Shows how many calls would be allowed and lists the rest.
    #[command(after_help = "Examples:
  pollux policy replay
  pollux policy replay --headless --policy team.toml")]
    Replay {
        /// Sessions to replay (default: all sessions in this project)
        #[arg(value_name = "sessions")]
        sessions: Vec<String>,
        /// Replay the sessions in all projects
        #[arg(long)]
        all_projects: bool,
        #[command(flatten)]
        view: ViewArgs,
        /// Output JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: PolicyFlags,
    },
    /// Test rules against a table of calls
    ///
    /// The table lists the expected decision for each call. Exits with code 1 on any mismatch.
    #[command(after_help = "Examples:
  pollux policy test cases.toml")]
    Test {
        /// Table of calls with their expected decisions
        #[arg(value_name = "file")]
        file: PathBuf,
        #[command(flatten)]
        flags: PolicyFlags,
    },
    /// Check policy files for problems
    ///
    /// Without arguments, checks the files that a session would load. Exits with code 1 on errors.
    #[command(after_help = "Examples:
  pollux policy lint
  pollux policy lint .gemini/policies")]
    Lint {
        /// Files or folders to check
        #[arg(value_name = "files")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        flags: PolicyFlags,
    },
}

#[derive(Debug, Args)]
struct ViewArgs {
    /// Approval mode to assume: default, auto_edit, yolo or plan
    #[arg(long, value_name = "mode", value_parser = approval_modes(), hide_possible_values = true)]
    approval_mode: Option<ApprovalMode>,
    /// Assume a headless run, as with `pollux -p`
    #[arg(long)]
    headless: bool,
}

impl ViewArgs {
    fn or_mode(self, otherwise: Option<ApprovalMode>) -> PolicyView {
        PolicyView { mode: self.approval_mode.or(otherwise), headless: self.headless }
    }
}

// The flags about rules that runs and `pollux policy` share. A doc comment would become the command's summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct PolicyFlags {
    /// Tools that need no approval
    #[arg(long, value_name = "list")]
    allowed_tools: Vec<String>,
    /// Policy files or folders, instead of ~/.gemini/policies
    #[arg(long, value_name = "list")]
    policy: Vec<String>,
    /// Policy files or folders with administrator priority
    #[arg(long, value_name = "list")]
    admin_policy: Vec<String>,
    /// Use only these MCP servers
    #[arg(long, value_name = "list")]
    allowed_mcp_server_names: Vec<String>,
}

impl PolicyFlags {
    /// `--allowed-tools`
    pub fn allowed_tools(&self) -> Vec<String> {
        items(&self.allowed_tools)
    }

    /// The settings that the other flags stand for.
    pub fn overrides(&self) -> Vec<(String, Value)> {
        let files = [("policyPaths", &self.policy), ("adminPolicyPaths", &self.admin_policy)];
        let mut set = Vec::new();
        for (key, files) in files {
            let files: Vec<String> = items(files).into_iter().filter(|file| !file.is_empty()).collect();
            if !files.is_empty() {
                set.push((key.to_owned(), json!(files)));
            }
        }
        let servers = items(&self.allowed_mcp_server_names);
        if !servers.is_empty() {
            // As in gemini-cli, the flag replaces both lists.
            set.push(("mcp.allowed".to_owned(), json!(servers)));
            set.push(("mcp.excluded".to_owned(), json!([])));
        }
        set
    }
}

fn json_object(text: &str) -> Result<JsonObject, Expected> {
    match serde_json::from_str(text) {
        Ok(Value::Object(args)) => Ok(args),
        Ok(_) => Err(Expected::new("a JSON object")),
        Err(error) => Err(Expected::without_value(format!("a JSON object: {error}"))),
    }
}

impl SubcommandArgs for PolicyArgs {
    type Command = PolicyCommand;

    fn resolve(self, root: &mut RootOptions) -> Result<PolicyCommand, UsageError> {
        self.trust.apply(&mut root.request);
        let mode = root.approval;
        let (command, flags) = match self.leaf {
            PolicyLeaf::Explain { tool, args, view, json, flags } => {
                let call = PolicyCall { tool, args, view: view.or_mode(mode) };
                (PolicyCommand::Explain { call, json }, flags)
            }
            PolicyLeaf::List { view, json, flags } => {
                (PolicyCommand::List { view: view.or_mode(mode), json }, flags)
            }
            PolicyLeaf::Replay { sessions, all_projects, view, json, flags } => {
                let view = view.or_mode(mode);
                (PolicyCommand::Replay { sessions, all_projects, view, json }, flags)
            }
            PolicyLeaf::Test { file, flags } => (PolicyCommand::Test { file }, flags),
            PolicyLeaf::Lint { files, flags } => (PolicyCommand::Lint { files }, flags),
        };
        let allowed = flags.allowed_tools();
        if !allowed.is_empty() {
            root.request.allowed_tools = allowed;
        }
        for (key, value) in flags.overrides() {
            root.request.overrides.retain(|(known, _)| *known != key);
            root.request.overrides.push((key, value));
        }
        Ok(command)
    }
}
