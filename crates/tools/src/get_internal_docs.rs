//! The tool `get_internal_docs`: pages of the embedded documentation.

use std::sync::Arc;

use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

use crate::arguments::Arguments;

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../docs/src/", $name)))),*]
    };
}

/// Every page by its path in the book.
const PAGES: &[(&str, &str)] = pages![
    "SUMMARY.md",
    "a2a-deploy.md",
    "a2a-server.md",
    "acp.md",
    "agents.md",
    "approvals.md",
    "authentication.md",
    "benchmarks.md",
    "budgets.md",
    "bug-reports.md",
    "checkpoints.md",
    "command-line.md",
    "commands.md",
    "configuration.md",
    "context-files.md",
    "core.md",
    "custom-commands.md",
    "editor-emacs.md",
    "editor-jetbrains.md",
    "editor-neovim.md",
    "editor-zed.md",
    "exit-codes.md",
    "extensions.md",
    "faq.md",
    "from-claude-code.md",
    "from-codex.md",
    "from-gemini-cli.md",
    "getting-started.md",
    "glossary.md",
    "guarantees.md",
    "guide-ci.md",
    "guide-fix-a-bug.md",
    "guide-hook.md",
    "guide-mcp.md",
    "guide-plan.md",
    "guide-review.md",
    "guide-skill.md",
    "guide-team-policy.md",
    "headless.md",
    "hooks.md",
    "ide.md",
    "inside.md",
    "install.md",
    "introduction.md",
    "keys.md",
    "local-models.md",
    "mcp.md",
    "memory.md",
    "output.md",
    "policy.md",
    "provider-anthropic.md",
    "provider-compatible.md",
    "provider-gemini.md",
    "provider-openai.md",
    "providers.md",
    "receipts.md",
    "sandbox.md",
    "scripted-models.md",
    "scripting.md",
    "sessions.md",
    "settings.md",
    "skills.md",
    "stream-json.md",
    "style.md",
    "telemetry.md",
    "terminal.md",
    "tools.md",
    "troubleshooting.md",
    "trust.md",
    "web.md",
];

/// The tool.
pub(crate) struct GetInternalDocs {
    spec: Arc<ToolSpec>,
}

struct Call {
    path: Option<String>,
}

impl GetInternalDocs {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "get_internal_docs".to_owned(),
            display_name: "GetInternalDocs".to_owned(),
            description:
                "Returns a page of this program's own documentation, or, without a path, the list of \
                pages. For questions about how the program itself works."
                    .to_owned(),
            kind: ToolKind::Think,
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "A page from the list, such as 'settings.md'."}
                }
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec) }
    }
}

impl Tool for GetInternalDocs {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let path = Arguments(args).text("path")?.filter(|path| !path.trim().is_empty());
        Ok(Box::new(Call { path: path.map(str::to_owned) }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        match &self.path {
            Some(path) => format!("Reading internal documentation: {path}"),
            None => "Listing all available internal documentation".to_owned(),
        }
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            match self.path.as_deref().map(page) {
                None => ToolOutcome::text(
                    list(),
                    Display::Text(format!("Found {} documentation files.", PAGES.len())),
                ),
                Some(Ok((name, text))) => {
                    ToolOutcome::text(text, Display::Text(format!("Successfully read documentation: {name}")))
                }
                Some(Err(message)) => ToolOutcome::failed(ToolErrorKind::ExecutionFailed, message),
            }
        })
    }
}

fn list() -> String {
    let names: Vec<String> = PAGES.iter().map(|(name, _)| format!("- {name}")).collect();
    // Upstream's words.
    format!("Available Gemini CLI documentation files:\n\n{}", names.join("\n"))
}

fn page(path: &str) -> Result<(&'static str, &'static str), String> {
    let outside = || "Access denied: Requested path is outside the documentation directory.".to_owned();
    if path.starts_with(['/', '\\', '~']) {
        return Err(outside());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.trim().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(outside)?;
            }
            part => parts.push(part),
        }
    }
    let wanted = parts.join("/");
    let is_wanted = |name: &str| name == wanted || name.strip_suffix(".md") == Some(wanted.as_str());
    let found = PAGES.iter().find(|(name, _)| is_wanted(name));
    found.copied().ok_or_else(|| format!("No documentation page `{wanted}`. Call without a path for a list."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_is_embedded_whole() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".md"))
            .collect();
        names.sort();
        let embedded: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(embedded, names, "add the page to PAGES");
    }

    #[test]
    fn only_documentation_pages_are_found() {
        assert_eq!(page("settings.md").unwrap().0, "settings.md");
        assert_eq!(page("./a/../settings").unwrap().0, "settings.md");
        for path in ["../Cargo.toml", "/etc/passwd", "a/../../x", "~/x", "\\x"] {
            assert!(page(path).unwrap_err().starts_with("Access denied"), "{path}");
        }
        assert!(page("nothing.md").unwrap_err().contains("`nothing.md`"));
        assert!(list().contains("\n- settings.md\n"));
    }
}
