//! Titles and groups of settings, for people who do not know the keys.

use pollux_config::settings::schema::Key;

/// Keys that are accepted and kept for gemini-cli, and that nothing acts upon.
const WITHOUT_EFFECT: &[&str] = include!("settings_without_effect.in");

/// Settings that are accepted and that nothing acts upon, sorted by path.
pub fn without_effect() -> &'static [&'static str] {
    WITHOUT_EFFECT
}

/// Whether this program acts upon a setting. The list shows the others apart, because a setting that silently does
/// nothing wastes an afternoon.
pub fn has_effect(key: &Key) -> bool {
    WITHOUT_EFFECT.binary_search(&key.path).is_err()
}

/// A group of settings, in the order in which they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Group {
    Appearance,
    General,
    Model,
    Context,
    Tools,
    Security,
    Servers,
    Memory,
    Hooks,
    Advanced,
    /// Accepted for gemini-cli, without effect here.
    Compatibility,
}

impl Group {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Appearance => "Appearance",
            Self::General => "General",
            Self::Model => "Model",
            Self::Context => "Context",
            Self::Tools => "Tools",
            Self::Security => "Security",
            Self::Servers => "MCP and agents",
            Self::Memory => "Memory",
            Self::Hooks => "Hooks",
            Self::Advanced => "Advanced",
            Self::Compatibility => "Compatibility (no effect)",
        }
    }
}

/// The group of a key.
pub(super) fn group(key: &Key) -> Group {
    if !has_effect(key) {
        return Group::Compatibility;
    }
    match key.path.split('.').next().unwrap_or_default() {
        "ui" => Group::Appearance,
        "general" | "output" => Group::General,
        "model" | "modelConfigs" | "providers" | "budget" | "local" => Group::Model,
        "context" | "contextManagement" => Group::Context,
        "tools" | "useWriteTodos" => Group::Tools,
        "security" | "policyPaths" | "adminPolicyPaths" => Group::Security,
        "mcp" | "mcpServers" | "agents" | "skills" | "extensions" => Group::Servers,
        "memory" => Group::Memory,
        "hooks" | "hooksConfig" => Group::Hooks,
        _ => Group::Advanced,
    }
}

/// Settings that people change most, with their titles.
const COMMON: &[(&str, &str)] = &[
    ("ui.theme", "Colour theme"),
    ("general.vimMode", "Vim mode"),
    ("general.preferredEditor", "Preferred editor"),
    ("general.defaultApprovalMode", "Approval mode at start"),
    ("model.name", "Model"),
    ("tools.sandbox", "Sandbox"),
    ("general.enableNotifications", "Desktop notifications"),
    ("ui.useAlternateBuffer", "Full-screen mode"),
    ("ui.inlineThinkingMode", "Show the model's thoughts"),
    ("ui.compactToolOutput", "Compact tool output"),
    ("ui.hideTips", "Hide tips"),
    ("ui.hideFooter", "Hide footer"),
    ("general.sessionSummaries", "Name sessions automatically"),
    ("memory.enabled", "Memory across sessions"),
];

/// The place among the common settings.
pub(super) fn is_common(key: &Key) -> Option<usize> {
    COMMON.iter().position(|(path, _)| *path == key.path)
}

/// The title of a key: a given one, or the words of its path.
pub(super) fn title(key: &Key) -> String {
    if let Some((_, title)) = COMMON.iter().find(|(path, _)| *path == key.path) {
        return (*title).to_owned();
    }
    // The group says where these belong; others share a group, and need their first word.
    let of_group = ["ui.", "general.", "model.", "context.", "tools.", "security.", "memory.", "hooks."];
    let rest = of_group.iter().find_map(|prefix| key.path.strip_prefix(prefix)).unwrap_or(key.path);
    let parts: Vec<String> = rest.split('.').map(words).collect();
    let mut title = parts.join(": ");
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    title
}

/// `enableFuzzySearch` → `enable fuzzy search`; abbreviations stay as they are.
fn words(part: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in part.chars() {
        let begins = letter.is_uppercase() && !before.is_uppercase();
        match words.last_mut() {
            Some(word) if !begins => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        before = letter;
    }
    let spelled = words.iter().map(|word| match word.to_lowercase().as_str() {
        "mcp" | "api" | "id" | "url" | "ide" | "json" | "cwd" | "yolo" | "mb" => word.to_uppercase(),
        "git" => "Git".to_owned(),
        "gemini" => "Gemini".to_owned(),
        lower => lower.to_owned(),
    });
    spelled.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use pollux_config::settings::schema::{KEYS, find};

    use super::*;

    #[test]
    fn titles_read_like_words() {
        let title = |path| title(find(path).expect("a setting"));
        assert_eq!(title("ui.theme"), "Colour theme");
        assert_eq!(title("context.fileFiltering.respectGitIgnore"), "File filtering: respect Git ignore");
        assert_eq!(title("general.rewind.maxFileMB"), "Rewind: max file MB");
        assert_eq!(title("mcp.clientMetadataUrl"), "MCP: client metadata URL");
        assert_eq!(title("telemetry.enabled"), "Telemetry: enabled");
        assert_eq!(title("hooks.BeforeTool"), "Before tool");
        assert_eq!(title("budget"), "Budget");
    }

    #[test]
    fn every_title_is_unlike_every_other_one_of_its_group() {
        let mut seen = std::collections::HashSet::new();
        for key in KEYS {
            assert!(
                seen.insert((group(key), title(key))) || group(key) == Group::Compatibility,
                "{}",
                key.path
            );
        }
    }

    #[test]
    fn common_settings_exist() {
        for (path, _) in COMMON {
            assert!(find(path).is_some(), "{path}");
        }
    }
}
