//! Which editor the terminal belongs to, by its environment variables. The names are upstream's.

use pollux_config::env::Env;
use pollux_domain::terminal_text::one_line;

/// An editor, as people call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorName {
    pub name: String,
    /// Whether the companion extension can be installed from its marketplace.
    pub has_companion: bool,
}

impl EditorName {
    /// A name that a companion gave.
    pub(crate) fn given(name: &str) -> Option<Self> {
        let name: String = one_line(name).chars().take(60).collect();
        (!name.is_empty()).then_some(Self { name, has_companion: true })
    }

    fn known(name: &str, has_companion: bool) -> Self {
        Self { name: name.to_owned(), has_companion }
    }
}

/// The editor in whose terminal the program runs.
pub fn detect(env: &Env) -> Option<EditorName> {
    let has = |name: &str| env.non_empty(name).is_some();
    let is = |name: &str, value: &str| env.get(name) == Some(value);
    let is_jetbrains =
        env.get("TERMINAL_EMULATOR").is_some_and(|terminal| terminal.to_lowercase().contains("jetbrains"));
    if is("TERM_PROGRAM", "vscode") {
        let variants: [(&str, bool); 8] = [
            ("Antigravity", has("ANTIGRAVITY_CLI_ALIAS")),
            ("Devin", has("__COG_BASHRC_SOURCED")),
            ("Cursor", has("CURSOR_TRACE_ID")),
            ("GitHub Codespaces", has("CODESPACES")),
            ("Cloud Shell", has("EDITOR_IN_CLOUD_SHELL") || has("CLOUD_SHELL")),
            ("Trae", is("TERM_PRODUCT", "Trae")),
            ("Firebase Studio", has("MONOSPACE_ENV")),
            ("Positron", is("POSITRON", "1")),
        ];
        let name = variants.into_iter().find(|(_, found)| *found).map_or("VS Code", |(name, _)| name);
        return Some(EditorName::known(name, true));
    }
    let others = [
        ("Sublime Text", is("TERM_PROGRAM", "sublime")),
        ("Zed", has("ZED_SESSION_ID") || is("TERM_PROGRAM", "Zed")),
        ("Xcode", has("XCODE_VERSION_ACTUAL")),
        ("JetBrains IDE", is_jetbrains),
    ];
    let (name, _) = others.into_iter().find(|(_, found)| *found)?;
    Some(EditorName::known(name, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(vars: &[(&str, &str)]) -> Option<(String, bool)> {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        detect(&Env::new(vars, "/".into())).map(|editor| (editor.name, editor.has_companion))
    }

    #[test]
    fn an_editor_is_known_by_its_terminal() {
        let some = |name: &str, has: bool| Some((name.to_owned(), has));
        assert_eq!(named(&[("TERM_PROGRAM", "vscode")]), some("VS Code", true));
        assert_eq!(named(&[("TERM_PROGRAM", "vscode"), ("CURSOR_TRACE_ID", "1")]), some("Cursor", true));
        assert_eq!(named(&[("TERMINAL_EMULATOR", "JetBrains-JediTerm")]), some("JetBrains IDE", false));
        assert_eq!(named(&[("TERM_PROGRAM", "iTerm.app"), ("CURSOR_TRACE_ID", "1")]), None);
        assert_eq!(EditorName::given("VS\u{1b}[2J\nCode").unwrap().name, "VS Code");
        assert_eq!(EditorName::given(" \n"), None);
    }
}
