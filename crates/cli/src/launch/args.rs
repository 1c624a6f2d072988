//! The flags of a run, and the commands that are not about one noun.
//!
//! Doc comments are the help. What the flags mean together is decided in `request`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Command, Subcommand};
use clap_complete::Shell;
use pollux_admin::TABLE;
use pollux_admin::command_line::{Purpose, approval_modes, full_lists, variable_names};
use pollux_admin::policy::PolicyFlags;
use pollux_domain::approval::ApprovalMode;
use pollux_host::VERSION;

/// Commands of later versions. They are named so that a typed command never becomes a prompt.
pub(super) const LATER_COMMANDS: &[&str] = &["gemma"];

const USAGE: &str = "pollux [OPTIONS] [prompt]...
       pollux [OPTIONS] <COMMAND>";

const AFTER_HELP: &str = r#"Examples:
  pollux -p "why does the test in auth_test.go fail?"
  git diff | pollux -p "write a commit message for this change"
  pollux -p "fix the failing test" --approval-mode auto_edit
  pollux -p "now add a test for it" --resume
  pollux -p "list the public functions" --output-format json

Environment:
  GEMINI_API_KEY         API key for the Gemini API
  GEMINI_MODEL           model to use if --model is not given
  GEMINI_CLI_HOME        folder that contains .gemini, instead of the home directory
  POLLUX_OUTPUT_DIALECT  dialect of stream-json events: pollux or gemini-cli
  NO_COLOR               disable colours

Exit codes:
  0 success   1 failure   41 no credentials   42 invalid input   44 sandbox error
  52 settings error   53 turn or budget limit   54 fatal tool error   55 folder not trusted
  129 terminated by SIGHUP   130 cancelled   143 terminated by SIGTERM"#;

/// The whole command line.
pub(crate) fn tree(purpose: Purpose) -> Command {
    let root = Command::new("pollux")
        .version(VERSION)
        .no_binary_name(true)
        .max_term_width(usize::from(super::PAGE_WIDTH))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true);
    let root = purpose.fit(RootArgs::augment_args(root)).override_usage(USAGE).after_help(AFTER_HELP);
    let root = root.subcommands(TABLE.iter().map(|subcommand| subcommand.command(purpose))).subcommands([
        purpose.fit(CoreArgs::augment_args(Command::new("core"))),
        purpose.fit(PsArgs::augment_args(Command::new("ps"))),
        purpose.fit(AttachArgs::augment_args(Command::new("attach"))),
        purpose.fit(WebArgs::augment_args(Command::new("web"))),
        purpose.fit(AcpArgs::augment_args(Command::new("acp"))),
        purpose.fit(A2aArgs::augment_args(Command::new("a2a"))),
        purpose.fit(DemoArgs::augment_args(Command::new("demo"))),
        purpose.fit(CompletionsArgs::augment_args(Command::new("completions"))),
        purpose.fit(ManArgs::augment_args(Command::new("man"))),
        purpose.fit(SchemaArgs::augment_args(Command::new("schema"))),
    ]);
    match purpose {
        Purpose::Show => root,
        Purpose::Parse => root.subcommands(LATER_COMMANDS.iter().map(|name| {
            Command::new(*name).hide(true).allow_external_subcommands(true).disable_help_flag(true).arg(
                clap::Arg::new("rest")
                    .num_args(0..)
                    .action(ArgAction::Append)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true),
            )
        })),
    }
}

/// A coding agent for the terminal
#[derive(Debug, Args)]
pub(super) struct RootArgs {
    #[command(flatten)]
    pub(super) prompt: PromptArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) approvals: ApprovalArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
    #[command(flatten)]
    pub(super) other: OtherArgs,
    #[command(flatten)]
    pub(super) scripted: ScriptedArgs,
    #[command(flatten)]
    pub(super) global: GlobalArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub(super) struct PromptArgs {
    /// Prompt to send
    #[arg(value_name = "prompt")]
    pub(super) words: Vec<String>,
    /// Run this prompt and exit; piped input is prepended
    #[arg(short, long, value_name = "text")]
    pub(super) prompt: Option<String>,
    /// Start the terminal interface with this prompt
    #[arg(short = 'i', long, value_name = "text")]
    pub(super) prompt_interactive: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model and output")]
pub(super) struct OutputArgs {
    /// Model or alias to use (aliases: auto, pro, flash, flash-lite)
    #[arg(short, long, value_name = "name")]
    pub(super) model: Option<String>,
    /// Reasoning effort: none, minimal, low, medium, high, xhigh or max
    #[arg(long, value_name = "level", hide_possible_values = true)]
    #[arg(value_parser = ["none", "minimal", "low", "medium", "high", "xhigh", "max"])]
    pub(super) effort: Option<String>,
    /// Models to use if the chosen one is unavailable
    #[arg(long, value_name = "list", value_parser = full_lists("models, separated by commas"))]
    pub(super) fallback: Vec<String>,
    /// File for a receipt: files, commands, hosts, calls and cost (JSON; text for .txt and .md)
    #[arg(long, value_name = "file")]
    pub(super) receipt: Option<PathBuf>,
    /// Environment variable that contains the provider's API key
    #[arg(long, value_name = "variable", value_parser = variable_names())]
    pub(super) api_key_env: Option<String>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    #[command(flatten)]
    pub(super) stream: StreamArgs,
    #[command(flatten)]
    pub(super) budget: BudgetArgs,
    /// Keep terminal control sequences in the response
    #[arg(long)]
    pub(super) raw_output: bool,
    /// Same as --raw-output, without the warning
    #[arg(long)]
    pub(super) accept_raw_output_risk: bool,
}

#[derive(Debug, Args)]
pub(super) struct BudgetArgs {
    /// Maximum cost of the session, in USD
    #[arg(long, value_name = "n", allow_hyphen_values = true)]
    pub(super) max_budget_usd: Option<String>,
    /// Maximum number of tokens in the session
    #[arg(long, value_name = "n", allow_hyphen_values = true)]
    pub(super) max_tokens_total: Option<String>,
    /// Maximum number of requests in the session
    #[arg(long, value_name = "n", allow_hyphen_values = true)]
    pub(super) max_requests: Option<String>,
    /// Budget limits, such as usd=5,tokens=200k,day.usd=20
    #[arg(long, value_name = "list", allow_hyphen_values = true)]
    pub(super) budget: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct FormatArgs {
    /// Output format
    #[arg(short, long, value_name = "format", value_parser = ["text", "json", "stream-json"])]
    pub(super) output_format: Option<String>,
    /// Event dialect of stream-json output
    #[arg(long, value_name = "name", value_parser = ["pollux", "gemini-cli", "claude"])]
    pub(super) output_dialect: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct StreamArgs {
    /// Input format; stream-json lets a program drive the session
    #[arg(long, value_name = "format", value_parser = ["text", "stream-json"])]
    pub(super) input_format: Option<String>,
    /// Also send the live output of tool calls (requires --input-format stream-json)
    #[arg(long, alias = "include-partial-messages")]
    pub(super) include_partial: bool,
    /// Deny approval requests not answered within this many seconds (requires --input-format stream-json)
    #[arg(long, value_name = "seconds")]
    pub(super) approval_timeout: Option<u64>,
    // Flags of Claude Code that its SDKs always pass and that change nothing here.
    #[arg(long, hide = true)]
    pub(super) verbose: bool,
    #[arg(long, hide = true, value_name = "tool")]
    pub(super) permission_prompt_tool: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Approval and sandbox")]
pub(super) struct ApprovalArgs {
    /// Approval mode: default, auto_edit, yolo or plan
    #[arg(long, value_name = "mode", value_parser = approval_modes(), hide_possible_values = true)]
    pub(super) approval_mode: Option<ApprovalMode>,
    /// Approve every tool call that no rule denies
    #[arg(short, long)]
    pub(super) yolo: bool,
    #[command(flatten)]
    pub(super) policy: PolicyFlags,
    /// Run commands in a sandbox (`=false` disables it; `=<type>`, such as `=podman`, selects the type)
    #[arg(short, long, value_name = "type", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) sandbox: Option<String>,
    /// Grant sandboxed commands access: write:PATH, read:PATH, host:NAME[:PORT], port:N or socket:PATH; repeatable
    #[arg(long, value_name = "kind:target")]
    pub(super) sandbox_allow: Vec<String>,
    /// File for a JSON report of blocked access attempts
    #[arg(long, value_name = "file")]
    pub(super) sandbox_report: Option<PathBuf>,
    /// Trust this folder for this run
    #[arg(long)]
    pub(super) skip_trust: bool,
    /// Additional workspace folders
    #[arg(long, value_name = "list")]
    pub(super) include_directories: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sessions")]
pub(super) struct SessionArgs {
    /// Resume a session: latest, a number, an id or an id prefix
    #[arg(short, long, value_name = "session", num_args = 0..=1, default_missing_value = "latest")]
    pub(super) resume: Option<String>,
    /// Resume the latest session, or start a new one if there is none
    #[arg(long)]
    pub(super) resume_or_new: bool,
    /// Resume into a new session (requires --resume)
    #[arg(long)]
    pub(super) fork: bool,
    /// Search all projects for the session (requires --resume)
    #[arg(long)]
    pub(super) all_projects: bool,
    /// Start a session with this id
    #[arg(long, value_name = "id")]
    pub(super) session_id: Option<String>,
    /// Continue from a copy of this session file
    #[arg(long, value_name = "path")]
    pub(super) session_file: Option<PathBuf>,
    /// List the sessions that can be resumed
    #[arg(long)]
    pub(super) list_sessions: bool,
    /// Delete a session: a number, an id or an id prefix
    #[arg(long, value_name = "session")]
    pub(super) delete_session: Option<String>,
    /// Run the session in the core (see `pollux core`)
    #[arg(long)]
    pub(super) attach: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Other")]
pub(super) struct OtherArgs {
    /// Extensions to use, or `none`
    #[arg(short, long, value_name = "list")]
    pub(super) extensions: Vec<String>,
    /// List extensions
    #[arg(short, long)]
    pub(super) list_extensions: bool,
    /// Ignore the project's .env files
    #[arg(long)]
    pub(super) ignore_env: bool,
    /// Use plain, linear output
    #[arg(long)]
    pub(super) screen_reader: bool,
    /// Print the version
    #[arg(short = 'v', long)]
    pub(super) version: bool,
    /// Run as an agent for editors (ACP)
    #[arg(long, alias = "experimental-acp")]
    pub(super) acp: bool,
    #[arg(short, long, hide = true, num_args = 0..=1, default_missing_value = "")]
    pub(super) worktree: Option<String>,
    // Flags of earlier releases of gemini-cli whose settings still exist.
    #[arg(long, hide = true)]
    pub(super) checkpointing: bool,
    #[arg(long, hide = true)]
    pub(super) telemetry: bool,
    #[arg(long, hide = true)]
    pub(super) telemetry_log_prompts: bool,
    #[arg(long, hide = true)]
    pub(super) telemetry_outfile: Option<String>,
}

// Hidden flags for tests. A doc comment would become the summary of the program.
#[derive(Debug, Args)]
pub(super) struct ScriptedArgs {
    #[arg(long, hide = true)]
    pub(super) fake_responses: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub(super) fake_responses_non_strict: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub(super) record_responses: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct GlobalArgs {
    /// Print debug output to stderr
    #[arg(short, long, global = true)]
    pub(super) debug: bool,
    /// Print help
    #[arg(short, long, global = true, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Manage the resident core, which keeps sessions running
///
/// Sessions in the core keep running when you close the terminal, and several terminals can use the same session. Start
/// a session with `pollux --attach`, detach from it with Ctrl+\ followed by d, and attach again with `pollux attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux core start
  pollux core status --json
  pollux core restart --force")]
pub(super) struct CoreArgs {
    #[command(subcommand)]
    pub(super) action: Option<CoreAction>,
}

#[derive(Debug, Subcommand)]
pub(super) enum CoreAction {
    /// Start the core
    #[command(after_help = "Examples:
  pollux core start")]
    Start,
    /// Stop the core; its sessions are saved
    #[command(after_help = "Examples:
  pollux core stop --force")]
    Stop {
        /// Cancel running turns
        #[arg(long)]
        force: bool,
    },
    /// Restart the core with the same sessions
    #[command(after_help = "Examples:
  pollux core restart --force")]
    Restart {
        /// Cancel running turns
        #[arg(long)]
        force: bool,
    },
    /// Show the version, uptime and sessions
    #[command(after_help = "Examples:
  pollux core status --json")]
    Status {
        /// Output JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the end of the log
    #[command(after_help = "Examples:
  pollux core logs -n 200")]
    Logs {
        /// Number of lines to print
        #[arg(short = 'n', long, value_name = "n", default_value_t = 50)]
        lines: usize,
    },
    /// Run the core in the foreground
    #[command(after_help = "Examples:
  pollux core run")]
    Run {
        #[arg(long, hide = true)]
        detached: bool,
        #[arg(long, hide = true, value_name = "seconds")]
        idle_exit: Option<u64>,
        #[arg(long, hide = true, value_name = "seconds")]
        unload: Option<u64>,
    },
}

/// List the sessions in the core
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux ps
  pollux ps --json")]
pub(super) struct PsArgs {
    /// Output JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Attach to a session in the core
///
/// Without an id, attaches to the most recently used session in this folder. A saved session is resumed in the core.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux attach
  pollux attach 3f2a
  pollux attach 3f2a -p \"and now the tests\"")]
pub(super) struct AttachArgs {
    /// Session id or id prefix
    #[arg(value_name = "session")]
    pub(super) session: Option<String>,
    /// Run this prompt in the session and exit
    #[arg(short, long, value_name = "text")]
    pub(super) prompt: Option<String>,
}

/// Show the core's sessions in a browser
///
/// Starts the core if it is not running, prints a link that works once, and opens it. The page shows the core's sessions
/// and takes prompts and answers. It is served on this machine only; to use it from another one, forward its port with
/// `ssh -L`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux web
  pollux web --watch
  pollux web --no-open")]
pub(super) struct WebArgs {
    /// Only watch: no prompts and no answers
    #[arg(long)]
    pub(super) watch: bool,
    /// Print the link without opening a browser
    #[arg(long)]
    pub(super) no_open: bool,
}

/// Run as an agent for editors (ACP)
///
/// The editor starts this command and communicates with it over stdin and stdout. Options such as `--model` and
/// `--approval-mode` set the defaults for new sessions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux acp
  pollux acp --model pro --approval-mode auto_edit")]
pub(super) struct AcpArgs {}

/// Run tasks for other agents (A2A)
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux a2a serve --port 41242")]
pub(super) struct A2aArgs {
    #[command(subcommand)]
    pub(super) command: A2aCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum A2aCommand {
    Serve(A2aServeArgs),
}

/// Run the A2A server
///
/// Other agents send tasks over HTTP. Each task has its own workspace and sandbox. Options before `a2a`, such as
/// `--model` and `--approval-mode`, apply to every task. Without `--token-file` and `--oidc-issuer`, the server
/// accepts only requests from this machine that carry the token in `~/.gemini/a2a-server-token`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux a2a serve --port 41242
  pollux a2a serve --store s3://bucket/tasks --token-file tokens
  pollux a2a serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file tokens
  pollux --model pro a2a serve --host 0.0.0.0 --behind-proxy --token-file tokens")]
pub(super) struct A2aServeArgs {
    /// Address to listen on (default: 127.0.0.1)
    #[arg(long, value_name = "address")]
    pub(super) host: Option<String>,
    /// Port to listen on (default: CODER_AGENT_PORT, or any free port)
    #[arg(long, value_name = "number")]
    pub(super) port: Option<u16>,
    /// Task store: memory:, file:DIR, gs://BUCKET/PREFIX or s3://BUCKET/PREFIX (default: memory:)
    #[arg(long, value_name = "url")]
    pub(super) store: Option<String>,
    /// Folder for task workspaces; clients can choose folders inside it (default: ~/.gemini/tmp/a2a-workspaces)
    #[arg(long, value_name = "DIR")]
    pub(super) workspace_root: Option<PathBuf>,
    /// File with one `NAME TOKEN` pair per line
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// OpenID Connect issuer whose access tokens are accepted (default: a2a.auth.issuer)
    #[arg(long, value_name = "url")]
    pub(super) oidc_issuer: Option<String>,
    /// Audience that access tokens must name (default: a2a.auth.audience)
    #[arg(long, value_name = "name")]
    pub(super) oidc_audience: Option<String>,
    /// URL or file with the issuer's keys (default: a2a.auth.jwks, or the URL that the issuer names)
    #[arg(long, value_name = "url")]
    pub(super) jwks: Option<String>,
    /// Accept requests without a token from any program run by this user
    #[arg(long)]
    pub(super) no_token: bool,
    /// Name of this server, recorded with its tasks (default: replica)
    #[arg(long, value_name = "id")]
    pub(super) replica_id: Option<String>,
    /// Certificate file (PEM) to serve HTTPS with; read again when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Private key file (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Allow plain HTTP on non-loopback addresses, for use behind a proxy that terminates TLS
    #[arg(long)]
    pub(super) behind_proxy: bool,
    /// URL that clients use (default: the address and port listened on)
    #[arg(long, value_name = "url")]
    pub(super) public_url: Option<String>,
    /// Audit log file; one JSON line per request
    #[arg(long, value_name = "FILE")]
    pub(super) audit_log: Option<PathBuf>,
    /// Allow sandboxed commands to use the network
    #[arg(long)]
    pub(super) allow_network: bool,
    /// Maximum number of active tasks per client (default: 64)
    #[arg(long, value_name = "number")]
    pub(super) max_tasks: Option<usize>,
    /// Maximum number of tokens per client per day (default: no limit)
    #[arg(long, value_name = "number")]
    pub(super) max_tokens: Option<u64>,
    /// Maximum cost per client per day, in USD (default: no limit)
    #[arg(long, value_name = "n")]
    pub(super) max_usd: Option<String>,
    /// Maximum size of a client's workspaces on this machine, in MiB (default: no limit)
    #[arg(long, value_name = "number")]
    pub(super) max_disk: Option<u64>,
    /// Allow clients to register webhooks (default: a2a.push)
    #[arg(long)]
    pub(super) push: bool,
    /// Private key file (PEM, P-256) that signs the agent card (default: a2a.signing.key)
    #[arg(long, value_name = "FILE")]
    pub(super) signing_key: Option<PathBuf>,
    /// Continue interrupted tasks without waiting for a message
    #[arg(long)]
    pub(super) resume_tasks: bool,
}

/// Try Pollux on a throwaway project
///
/// Model responses are scripted unless `--model` names a local model; the agent, tools, approvals and recorded
/// session are real. Needs no API key or network access and does not touch your files.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux demo
  pollux demo --model local
  pollux demo --output-format stream-json")]
pub(super) struct DemoArgs {
    /// Local model to use: local, gguf//path/model.gguf or ollama/name
    #[arg(short, long, value_name = "name")]
    pub(super) model: Option<String>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
}

/// Print shell completions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux completions bash > ~/.local/share/bash-completion/completions/pollux
  pollux completions zsh > ~/.zfunc/_pollux
  pollux completions fish > ~/.config/fish/completions/pollux.fish")]
pub(super) struct CompletionsArgs {
    /// Shell to generate completions for
    #[arg(value_name = "shell", value_enum)]
    pub(super) shell: Shell,
}

/// Print or write manual pages
///
/// Prints the main page. With DIR, writes a page for every command to that folder.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux man | man -l -
  pollux man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Folder to write the pages to
    #[arg(value_name = "DIR")]
    pub(super) folder: Option<PathBuf>,
}

/// Print the JSON schema of a protocol
///
/// Covers messages in both directions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pollux schema stream-json
  pollux schema stream-json | jq '.\"$defs\".input'")]
pub(super) struct SchemaArgs {
    /// Protocol to describe
    #[arg(value_name = "protocol", value_parser = ["stream-json"])]
    pub(super) protocol: String,
}
