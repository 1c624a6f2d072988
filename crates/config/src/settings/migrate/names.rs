//! The table of renamed keys.

use serde_json::Value;

/// What happens to the value next tos the move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Keep,
    /// `disable…` became `enable…`.
    Invert,
    /// Only this field of the old object.
    Field(&'static str),
    /// The old settings of one agent became an override of it.
    Investigator,
}

impl Change {
    /// Whether the value is one that the old key could have.
    pub(super) fn applies(self, value: &Value) -> bool {
        match self {
            Self::Keep | Self::Field(_) => !value.is_null(),
            Self::Invert => value.is_boolean(),
            Self::Investigator => value.is_object(),
        }
    }
}

/// Top-level keys of the flat form. `model` comes first: as long as it is a text, nothing fits below it.
pub(super) const FLAT: &[(&str, &str)] = &[
    ("model", "model.name"),
    ("modelName", "model.name"),
    ("accessibility", "ui.accessibility"),
    ("allowedTools", "tools.allowed"),
    ("allowMCPServers", "mcp.allowed"),
    ("autoAccept", "tools.autoAccept"),
    ("autoConfigureMaxOldSpaceSize", "advanced.autoConfigureMemory"),
    ("bugCommand", "advanced.bugCommand"),
    ("chatCompression", "model.compressionThreshold"),
    ("checkpointing", "general.checkpointing"),
    ("contextFileName", "context.fileName"),
    ("coreTools", "tools.core"),
    ("customThemes", "ui.customThemes"),
    ("customWittyPhrases", "ui.customWittyPhrases"),
    ("debugKeystrokeLogging", "general.debugKeystrokeLogging"),
    ("disableAutoUpdate", "general.disableAutoUpdate"),
    ("disableUpdateNag", "general.disableUpdateNag"),
    ("dnsResolutionOrder", "advanced.dnsResolutionOrder"),
    ("editor", "general.preferredEditor"),
    ("enableHooks", "tools.enableHooks"),
    ("enableInteractiveShell", "tools.shell.enableInteractiveShell"),
    ("enableMessageBusIntegration", "tools.enableMessageBusIntegration"),
    ("enablePromptCompletion", "general.enablePromptCompletion"),
    ("enforcedAuthType", "security.auth.enforcedType"),
    ("excludeMCPServers", "mcp.excluded"),
    ("excludeTools", "tools.exclude"),
    ("excludedProjectEnvVars", "advanced.excludedEnvVars"),
    ("extensionManagement", "experimental.extensionManagement"),
    ("fileFiltering", "context.fileFiltering"),
    ("folderTrust", "security.folderTrust.enabled"),
    ("folderTrustFeature", "security.folderTrust.featureEnabled"),
    ("hasSeenIdeIntegrationNudge", "ide.hasSeenNudge"),
    ("hideBanner", "ui.hideBanner"),
    ("hideCWD", "ui.footer.hideCWD"),
    ("hideContextSummary", "ui.hideContextSummary"),
    ("hideFooter", "ui.hideFooter"),
    ("hideModelInfo", "ui.footer.hideModelInfo"),
    ("hideSandboxStatus", "ui.footer.hideSandboxStatus"),
    ("hideTips", "ui.hideTips"),
    ("hideWindowTitle", "ui.hideWindowTitle"),
    ("ideMode", "ide.enabled"),
    ("includeDirectories", "context.includeDirectories"),
    ("loadMemoryFromIncludeDirectories", "context.loadMemoryFromIncludeDirectories"),
    ("maxSessionTurns", "model.maxSessionTurns"),
    ("mcpServerCommand", "mcp.serverCommand"),
    ("memoryDiscoveryMaxDirs", "context.discoveryMaxDirs"),
    ("memoryImportFormat", "context.importFormat"),
    ("preferredEditor", "general.preferredEditor"),
    ("retryFetchErrors", "general.retryFetchErrors"),
    ("sandbox", "tools.sandbox"),
    ("selectedAuthType", "security.auth.selectedType"),
    ("shellInactivityTimeout", "tools.shell.inactivityTimeout"),
    ("shellPager", "tools.shell.pager"),
    ("shellShowColor", "tools.shell.showColor"),
    ("showCitations", "ui.showCitations"),
    ("showLineNumbers", "ui.showLineNumbers"),
    ("showMemoryUsage", "ui.showMemoryUsage"),
    ("showStatusInTitle", "ui.showStatusInTitle"),
    ("skipNextSpeakerCheck", "model.skipNextSpeakerCheck"),
    ("summarizeToolOutput", "model.summarizeToolOutput"),
    ("theme", "ui.theme"),
    ("toolCallCommand", "tools.callCommand"),
    ("toolDiscoveryCommand", "tools.discoveryCommand"),
    ("usageStatisticsEnabled", "privacy.usageStatisticsEnabled"),
    ("useExternalAuth", "security.auth.useExternal"),
    ("useRipgrep", "tools.useRipgrep"),
    ("vimMode", "general.vimMode"),
];

/// Later renames. Other `disable…` keys were never inverted and stay what they are.
pub(super) const RENAMED: &[(&str, &str, Change)] = &[
    ("general.disableAutoUpdate", "general.enableAutoUpdate", Change::Invert),
    ("general.disableUpdateNag", "general.enableAutoUpdateNotification", Change::Invert),
    ("ui.accessibility.disableLoadingPhrases", "ui.accessibility.enableLoadingPhrases", Change::Invert),
    ("context.fileFiltering.disableFuzzySearch", "context.fileFiltering.enableFuzzySearch", Change::Invert),
    ("context.loadFromIncludeDirectories", "context.loadMemoryFromIncludeDirectories", Change::Keep),
    ("tools.approvalMode", "general.defaultApprovalMode", Change::Keep),
    ("experimental.plan", "general.plan.enabled", Change::Keep),
    ("experimental.cliHelpAgentSettings", "agents.overrides.cli_help", Change::Keep),
    (
        "experimental.codebaseInvestigatorSettings",
        "agents.overrides.codebase_investigator",
        Change::Investigator,
    ),
];
