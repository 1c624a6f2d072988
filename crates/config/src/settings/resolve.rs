//! Builds the setting groups from the merged tree.

use std::path::PathBuf;
use std::str::FromStr;

use pollux_domain::approval::ApprovalMode;
use serde_json::{Map, Value};

use super::lookup;
use crate::credential_variables::ProviderKeys;
use crate::groups::{
    COMPRESSION_THRESHOLD, Context, Dialect, Durability, FileFiltering, General, Groups, ImportFormat, Model,
    OtlpProtocol, Output, OutputFormat, Redaction, Retention, Rewind, Sandbox, Secret, Security,
    SessionFormat, Telemetry, Tools,
};

/// The context file that is always read.
const CONTEXT_FILE: &str = "GEMINI.md";

/// Upstream's limits for `general.maxAttempts`.
const ATTEMPTS: std::ops::RangeInclusive<i64> = 1..=10;

pub(crate) fn groups(tree: &Map<String, Value>) -> Groups {
    let tree = Tree(tree);
    Groups {
        general: general(&tree),
        output: output(&tree),
        model: model(&tree),
        context: context(&tree),
        tools: tools(&tree),
        security: security(&tree),
        telemetry: telemetry(&tree),
    }
}

/// The tree with typed access. Defaults and types are settled, so a miss means unset.
struct Tree<'a>(&'a Map<String, Value>);

impl Tree<'_> {
    fn flag(&self, key: &str) -> bool {
        lookup(self.0, key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn text(&self, key: &str) -> Option<String> {
        lookup(self.0, key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn integer(&self, key: &str) -> Option<i64> {
        lookup(self.0, key).and_then(Value::as_i64)
    }

    fn natural(&self, key: &str) -> u64 {
        self.integer(key).and_then(|value| u64::try_from(value).ok()).unwrap_or_default()
    }

    fn texts(&self, key: &str) -> Option<Vec<String>> {
        match lookup(self.0, key)? {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(items) => Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        }
    }
}

fn general(tree: &Tree<'_>) -> General {
    let mode = tree.text("general.defaultApprovalMode").and_then(|word| ApprovalMode::from_str(&word).ok());
    let attempts = tree.integer("general.maxAttempts").unwrap_or(*ATTEMPTS.end());
    General {
        approval_mode: mode.filter(|mode| *mode != ApprovalMode::Yolo).unwrap_or_default(),
        max_attempts: u32::try_from(attempts.clamp(*ATTEMPTS.start(), *ATTEMPTS.end())).unwrap_or(1),
        retry_fetch_errors: tree.flag("general.retryFetchErrors"),
        session_format: match tree.text("general.sessionFormat").as_deref() {
            Some("jsonl") => SessionFormat::Jsonl,
            Some(_) | None => SessionFormat::Json,
        },
        durability: match tree.text("general.durability").as_deref() {
            Some("process") => Durability::Process,
            Some(_) | None => Durability::Power,
        },
        usage_statistics: tree.flag("privacy.usageStatisticsEnabled"),
        retention: Retention {
            enabled: tree.flag("general.sessionRetention.enabled"),
            max_age: tree.text("general.sessionRetention.maxAge"),
            max_count: tree
                .integer("general.sessionRetention.maxCount")
                .and_then(|count| u32::try_from(count).ok()),
            min_retention: tree.text("general.sessionRetention.minRetention"),
        },
        checkpointing: tree.flag("general.checkpointing.enabled"),
        rewind: Rewind {
            enabled: tree.flag("general.rewind.enabled"),
            shell_commands: tree.flag("general.rewind.shellCommands"),
            max_file: tree.natural("general.rewind.maxFileMB").saturating_mul(1 << 20),
            max_tree: tree.natural("general.rewind.maxTreeMB").saturating_mul(1 << 20),
            max_store: tree.natural("general.rewind.maxStoreMB").saturating_mul(1 << 20),
            max_entries: usize::try_from(tree.natural("general.rewind.maxEntries")).unwrap_or(usize::MAX),
            skip: tree.texts("general.rewind.skip").unwrap_or_default(),
        },
        session_summaries: tree.flag("general.sessionSummaries"),
    }
}

fn output(tree: &Tree<'_>) -> Output {
    Output {
        format: OutputFormat::named(tree.text("output.format").as_deref()),
        dialect: Dialect::named(tree.text("output.dialect").as_deref()),
    }
}

fn model(tree: &Tree<'_>) -> Model {
    let masking = "contextManagement.tools.outputMasking";
    Model {
        name: tree.text("model.name").unwrap_or_else(|| "auto".to_owned()),
        provider: tree.text("model.provider"),
        small: tree.text("model.small"),
        effort: tree.text("model.effort"),
        fallback: tree.texts("model.fallback").unwrap_or_default(),
        providers: tree.0.get("providers").cloned().unwrap_or_default(),
        budget: tree.0.get("budget").cloned().unwrap_or_default(),
        server_command: tree.texts("local.serverCommand").unwrap_or_default(),
        max_session_turns: tree.integer("model.maxSessionTurns").and_then(|turns| u32::try_from(turns).ok()),
        compression_threshold: lookup(tree.0, "model.compressionThreshold")
            .and_then(Value::as_f64)
            .unwrap_or(COMPRESSION_THRESHOLD),
        loop_detection: !tree.flag("model.disableLoopDetection"),
        plan_routing: tree.flag("general.plan.modelRouting"),
        configs: tree.0.get("modelConfigs").cloned().unwrap_or_default(),
        mask_protected_tokens: tree.natural(&format!("{masking}.protectionThresholdTokens")),
        mask_min_prunable_tokens: tree.natural(&format!("{masking}.minPrunableThresholdTokens")),
        mask_protect_latest: tree.flag(&format!("{masking}.protectLatestTurn")),
    }
}

fn context(tree: &Tree<'_>) -> Context {
    let mut file_names: Vec<String> = Vec::new();
    let configured = tree.texts("context.fileName").unwrap_or_default();
    for name in configured.into_iter().chain([CONTEXT_FILE.to_owned()]) {
        let name = name.trim().to_owned();
        if !name.is_empty() && !file_names.contains(&name) {
            file_names.push(name);
        }
    }
    Context {
        file_names,
        import_format: match tree.text("context.importFormat").as_deref() {
            Some("flat") => ImportFormat::Flat,
            Some(_) | None => ImportFormat::Tree,
        },
        include_directory_tree: tree.flag("context.includeDirectoryTree"),
        include_directories: tree.texts("context.includeDirectories").unwrap_or_default(),
        load_memory_from_include_directories: tree.flag("context.loadMemoryFromIncludeDirectories"),
        boundary_markers: tree.texts("context.memoryBoundaryMarkers").unwrap_or_default(),
        filtering: FileFiltering {
            respect_git_ignore: tree.flag("context.fileFiltering.respectGitIgnore"),
            respect_gemini_ignore: tree.flag("context.fileFiltering.respectGeminiIgnore"),
            custom_ignore_files: tree
                .texts("context.fileFiltering.customIgnoreFilePaths")
                .unwrap_or_default(),
        },
    }
}

fn tools(tree: &Tree<'_>) -> Tools {
    let redaction = "security.environmentVariableRedaction";
    Tools {
        core: tree.texts("tools.core"),
        exclude: tree.texts("tools.exclude").unwrap_or_default(),
        allowed: tree.texts("tools.allowed").unwrap_or_default(),
        truncate_threshold: tree.integer("tools.truncateToolOutputThreshold").unwrap_or_default(),
        shell_inactivity_seconds: tree.integer("tools.shell.inactivityTimeout").unwrap_or_default(),
        interactive_shell: tree.flag("tools.shell.enableInteractiveShell"),
        shell_pager: tree.text("tools.shell.pager").unwrap_or_else(|| "cat".to_owned()),
        redaction: Redaction {
            enabled: tree.flag(&format!("{redaction}.enabled")),
            allowed: tree.texts(&format!("{redaction}.allowed")).unwrap_or_default(),
            blocked: tree.texts(&format!("{redaction}.blocked")).unwrap_or_default(),
            provider_keys: tree.0.get("providers").map(ProviderKeys::of_settings).unwrap_or_default(),
        },
        sandbox: sandbox(tree),
    }
}

/// As if nothing was set.
const AUTO: &str = "auto";
/// The same as `false`.
const NONE: &str = "none";

fn sandbox(tree: &Tree<'_>) -> Sandbox {
    let allowed_paths = tree.texts("tools.sandboxAllowedPaths").unwrap_or_default();
    let network = lookup(tree.0, "tools.sandboxNetworkAccess").and_then(Value::as_bool);
    let plain = Sandbox {
        allowed_paths,
        network,
        network_mode: tree.text("tools.sandboxNetwork"),
        profile: tree.text("tools.sandboxProfile"),
        package_downloads: tree.flag("tools.sandboxPackageDownloads"),
        devices: tree.texts("tools.sandboxDevices").unwrap_or_default(),
        ..Sandbox::default()
    };
    match lookup(tree.0, "tools.sandbox") {
        Some(Value::Bool(enabled)) => Sandbox { enabled: Some(*enabled), ..plain },
        Some(Value::String(command)) if command == AUTO => plain,
        Some(Value::String(command)) if command == NONE => Sandbox { enabled: Some(false), ..plain },
        Some(Value::String(command)) if !command.is_empty() => {
            Sandbox { enabled: Some(true), command: Some(command.clone()), ..plain }
        }
        Some(Value::Object(object)) => {
            let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
            let command = text("command").or_else(|| text("type"));
            let is_none = command.as_deref() == Some(NONE);
            let command = command.filter(|command| command != NONE && command != AUTO);
            let mut allowed_paths = plain.allowed_paths.clone();
            allowed_paths.extend(Tree(object).texts("allowedPaths").unwrap_or_default());
            Sandbox {
                enabled: if is_none { Some(false) } else { object.get("enabled").and_then(Value::as_bool) },
                command,
                image: text("image"),
                image_archive: text("imageArchive"),
                scope: text("scope"),
                allowed_paths,
                network: object.get("networkAccess").and_then(Value::as_bool).or(plain.network),
                ..plain
            }
        }
        Some(_) | None => plain,
    }
}

fn security(tree: &Tree<'_>) -> Security {
    Security {
        auth_selected: tree.text("security.auth.selectedType"),
        auth_enforced: tree.text("security.auth.enforcedType"),
        auth_external: tree.flag("security.auth.useExternal"),
        api_key: tree.text("api.key").map(Secret::new),
        disable_yolo: tree.flag("security.disableYoloMode") || tree.flag("admin.secureModeEnabled"),
        folder_trust: tree.flag("security.folderTrust.enabled"),
        refuse_untrusted_headless: tree.text("security.folderTrust.headless").as_deref() == Some("refuse"),
        protect_build_files: tree.flag("security.protectBuildFiles"),
        tool_sandboxing: tree.flag("security.toolSandboxing"),
    }
}

fn telemetry(tree: &Tree<'_>) -> Telemetry {
    Telemetry {
        enabled: tree.flag("telemetry.enabled"),
        target: tree.text("telemetry.target").unwrap_or_else(|| "local".to_owned()),
        outfile: tree.text("telemetry.outfile").map(PathBuf::from),
        // Not `text`: an empty one says that there is none.
        otlp_endpoint: lookup(tree.0, "telemetry.otlpEndpoint").and_then(Value::as_str).map(str::to_owned),
        otlp_protocol: match tree.text("telemetry.otlpProtocol").as_deref() {
            Some("http") => OtlpProtocol::Http,
            _ => OtlpProtocol::Grpc,
        },
        use_collector: tree.flag("telemetry.useCollector"),
        use_cli_auth: tree.flag("telemetry.useCliAuth"),
        log_prompts: tree.flag("telemetry.logPrompts"),
        traces: tree.flag("telemetry.traces"),
    }
}
