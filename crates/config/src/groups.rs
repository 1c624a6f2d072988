//! Settings as the program uses them: plain values in groups, so that a crate receives only its own.

use std::path::PathBuf;

use pollux_domain::approval::ApprovalMode;
use serde_json::Value;

use crate::credential_variables::ProviderKeys;

/// All groups.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    pub general: General,
    pub output: Output,
    pub model: Model,
    pub context: Context,
    pub tools: Tools,
    pub security: Security,
    pub telemetry: Telemetry,
}

/// `general.*`
#[derive(Debug, Clone, Default)]
pub struct General {
    /// `general.defaultApprovalMode` (also read as `tools.approvalMode`); never `yolo`.
    pub approval_mode: ApprovalMode,
    /// `general.maxAttempts`, 1 to 10.
    pub max_attempts: u32,
    /// `general.retryFetchErrors`
    pub retry_fetch_errors: bool,
    /// `general.sessionFormat`
    pub session_format: SessionFormat,
    /// `general.durability`
    pub durability: Durability,
    /// `privacy.usageStatisticsEnabled`; kept for compatibility, nothing is sent.
    pub usage_statistics: bool,
    /// `general.sessionRetention.*`
    pub retention: Retention,
    /// `general.checkpointing.enabled`
    pub checkpointing: bool,
    /// `general.rewind.*`
    pub rewind: Rewind,
    /// `general.sessionSummaries`
    pub session_summaries: bool,
}

/// What is kept so that changes can be taken back; the defaults are those of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewind {
    pub enabled: bool,
    /// Whether the whole workspace is looked at around commands.
    pub shell_commands: bool,
    /// Bytes of one file.
    pub max_file: u64,
    /// Bytes of the workspace.
    pub max_tree: u64,
    /// Bytes of all old contents of a project.
    pub max_store: u64,
    pub max_entries: usize,
    /// Left out next tos the usual caches.
    pub skip: Vec<String>,
}

impl Default for Rewind {
    fn default() -> Self {
        Self {
            enabled: true,
            shell_commands: true,
            max_file: 10 << 20,
            max_tree: 500 << 20,
            max_store: 1 << 30,
            max_entries: 50_000,
            skip: Vec::new(),
        }
    }
}

/// Which old sessions are deleted; ages are texts such as `30d`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    pub enabled: bool,
    pub max_age: Option<String>,
    pub max_count: Option<u32>,
    pub min_retention: Option<String>,
}

/// Which form new session files have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionFormat {
    #[default]
    Json,
    Jsonl,
}

/// What recorded messages survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power failure: they are synced in the background.
    #[default]
    Power,
    /// The end of the process, but not of the system.
    Process,
}

/// `output.*`
#[derive(Debug, Clone, Default)]
pub struct Output {
    pub format: OutputFormat,
    pub dialect: Dialect,
}

/// `text`, `json` or `stream-json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
    StreamJson,
}

impl OutputFormat {
    /// The format of this name; any other name means `text`.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("json") => Self::Json,
            Some("stream-json") => Self::StreamJson,
            Some(_) | None => Self::Text,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::StreamJson => "stream-json",
        }
    }
}

/// The dialect of machine-readable output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Upper-case event types and camelCase keys.
    #[default]
    Pollux,
    /// What gemini-cli prints (`gemini-cli`, also accepted: `upstream`).
    GeminiCli,
}

impl Dialect {
    /// The dialect of this name; any other name means ours.
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("gemini-cli" | "upstream") => Self::GeminiCli,
            Some(_) | None => Self::Pollux,
        }
    }
}

/// `model.compressionThreshold` where nobody sets it.
pub const COMPRESSION_THRESHOLD: f64 = 0.5;

/// `model.*`, `modelConfigs`, `contextManagement.tools.outputMasking.*`
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// `--model`, `POLLUX_MODEL`, `GEMINI_MODEL`, `model.name`, else `auto`.
    pub name: String,
    /// `model.provider`
    pub provider: Option<String>,
    /// `model.small`
    pub small: Option<String>,
    /// `model.effort`
    pub effort: Option<String>,
    /// `model.fallback`
    pub fallback: Vec<String>,
    /// `providers` as written.
    pub providers: Value,
    /// `budget` as written.
    pub budget: Value,
    /// `local.serverCommand`; never a project's.
    pub server_command: Vec<String>,
    /// `model.maxSessionTurns`; `None` for -1 (no limit).
    pub max_session_turns: Option<u32>,
    /// `model.compressionThreshold`, a fraction of the window.
    pub compression_threshold: f64,
    /// `model.disableLoopDetection` inverted.
    pub loop_detection: bool,
    /// `general.plan.modelRouting`
    pub plan_routing: bool,
    /// `modelConfigs` as written.
    pub configs: Value,
    /// `contextManagement.tools.outputMasking.protectionThresholdTokens`
    pub mask_protected_tokens: u64,
    /// `contextManagement.tools.outputMasking.minPrunableThresholdTokens`
    pub mask_min_prunable_tokens: u64,
    /// `contextManagement.tools.outputMasking.protectLatestTurn`
    pub mask_protect_latest: bool,
}

/// `context.*`
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Configured names first, then `GEMINI.md`; no duplicates.
    pub file_names: Vec<String>,
    pub import_format: ImportFormat,
    pub include_directory_tree: bool,
    /// `context.includeDirectories` and `--include-directories`, as given.
    pub include_directories: Vec<String>,
    pub load_memory_from_include_directories: bool,
    /// `context.memoryBoundaryMarkers`
    pub boundary_markers: Vec<String>,
    pub filtering: FileFiltering,
}

/// How imported context files are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImportFormat {
    #[default]
    Tree,
    Flat,
}

/// `context.fileFiltering.*`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFiltering {
    pub respect_git_ignore: bool,
    pub respect_gemini_ignore: bool,
    /// `customIgnoreFilePaths`, as given; earlier ones win.
    pub custom_ignore_files: Vec<String>,
}

/// `tools.*`
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// `tools.core`: if set, only these tools exist.
    pub core: Option<Vec<String>>,
    /// `tools.exclude`
    pub exclude: Vec<String>,
    /// `tools.allowed` and `--allowed-tools`
    pub allowed: Vec<String>,
    /// `tools.truncateToolOutputThreshold` in characters; 0 or less means never.
    pub truncate_threshold: i64,
    /// `tools.shell.inactivityTimeout` in seconds; 0 or less means never.
    pub shell_inactivity_seconds: i64,
    /// `tools.shell.enableInteractiveShell`
    pub interactive_shell: bool,
    /// `tools.shell.pager`
    pub shell_pager: String,
    /// `security.environmentVariableRedaction.*`
    pub redaction: Redaction,
    /// `tools.sandbox*` and `GEMINI_SANDBOX`
    pub sandbox: Sandbox,
}

/// Which sandbox was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// `None` if unset.
    pub enabled: Option<bool>,
    /// `namespaces`, `bwrap`, `landlock`, `sandbox-exec`, `docker`, `podman`; `None` for whatever works.
    pub command: Option<String>,
    /// The image of a container.
    pub image: Option<String>,
    /// A file to load the image from.
    pub image_archive: Option<String>,
    /// `command` or `process`: what a container confines.
    pub scope: Option<String>,
    /// Further paths that may be written.
    pub allowed_paths: Vec<String>,
    /// `None` if unset.
    pub network: Option<bool>,
    /// `none`, `proxy`, `public` or `open`; beats `network`.
    pub network_mode: Option<String>,
    /// `read-only`, `workspace`, `workspace-open` or `strict`.
    pub profile: Option<String>,
    pub package_downloads: bool,
    /// Devices that commands get, such as `/dev/dri`.
    pub devices: Vec<String>,
}

/// Which environment variables a child process may see.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    pub enabled: bool,
    pub allowed: Vec<String>,
    pub blocked: Vec<String>,
    /// Variables of model providers, whatever their names look like.
    pub provider_keys: ProviderKeys,
}

/// `security.*` and `api.*`
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// `security.auth.selectedType`
    pub auth_selected: Option<String>,
    /// `security.auth.enforcedType`
    pub auth_enforced: Option<String>,
    /// `security.auth.useExternal`
    pub auth_external: bool,
    /// `api.key`, the last resort. Never printed.
    pub api_key: Option<Secret>,
    /// `security.disableYoloMode`
    pub disable_yolo: bool,
    /// `security.folderTrust.enabled`
    pub folder_trust: bool,
    /// `security.folderTrust.headless` is `refuse`: an untrusted folder ends a headless run.
    pub refuse_untrusted_headless: bool,
    /// `security.protectBuildFiles`
    pub protect_build_files: bool,
    /// `security.toolSandboxing`
    pub tool_sandboxing: bool,
}

/// A secret; `Debug` and `Display` show nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// `telemetry.*`; off unless switched on.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    pub enabled: bool,
    /// `local` or `gcp`
    pub target: String,
    /// A file beats a collector.
    pub outfile: Option<PathBuf>,
    /// The collector; empty for none, `None` for the usual one.
    pub otlp_endpoint: Option<String>,
    pub otlp_protocol: OtlpProtocol,
    pub use_collector: bool,
    pub use_cli_auth: bool,
    pub log_prompts: bool,
    pub traces: bool,
}

/// `telemetry.otlpProtocol`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtlpProtocol {
    #[default]
    Grpc,
    Http,
}
