//! Commands that only show something: `/about`, `/tools`, `/hooks`, `/export-session`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use pollux_domain::event::Op;
use pollux_domain::redact::redacted;
use pollux_domain::terminal_text::{one_line, visible};
use pollux_host::{COMMIT, VERSION};
use serde_json::Value;

use crate::Front;
use crate::front_end::SessionFacts;
use crate::input::Input;

/// Hooks are loaded when a session starts.
const NEXT_TIME: &str = "The change applies to new sessions.";

impl Front<'_, '_> {
    /// Handles a line typed while a turn runs: some commands run at once, the rest waits. Returns what the session is
    /// asked.
    pub(crate) fn during_turn(&mut self, typed: String) -> Option<Op> {
        match typed.trim() {
            line if line == "/budget" || line.starts_with("/budget ") => {
                return self.budget_during_turn(line.trim_start_matches("/budget"));
            }
            "/stats" | "/usage" => self.show_stats(""),
            "/help" | "/?" => self.ui.note(&super::help()),
            "/vim" => self.vim(),
            line => {
                if !self.ui.is_screen() && matches!(super::read(line), super::TypedLine::Prompt) {
                    self.log_prompt(&typed);
                    self.logged.push(typed.clone());
                }
                self.ui.defer(Input::Said(typed));
            }
        }
        None
    }

    /// Shows facts about a new session on the screen.
    pub(crate) async fn show_session_facts(&mut self, conversation: &mut pollux_host::Conversation) {
        self.ui.set_offers(conversation, self.turn.loaded);
        if !self.ui.is_screen() {
            return;
        }
        // While a turn runs, the session answers when it has ended.
        let window = match self.joins {
            true => 0,
            false => self.view(conversation).await.map_or(0, |view| view.window),
        };
        let names = &self.turn.loaded.groups.context.file_names;
        let name = names.first().map_or("context", String::as_str);
        let [files, servers, skills] = conversation.counts(self.turn.loaded);
        let counted = [
            (files, format!("{name} file")),
            (servers, "MCP server".to_owned()),
            (skills, "skill".to_owned()),
        ];
        let parts = counted.into_iter().filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
        let facts = SessionFacts {
            context: parts.collect::<Vec<_>>().join(" · "),
            window,
            session: self.turn.session.id.to_string(),
            auth: self.turn.auth_method(&self.model).unwrap_or_default(),
            detaches: self.remote.is_some(),
        };
        self.ui.show_facts(facts);
    }

    /// `/about`
    pub(super) async fn about(&mut self, conversation: &mut pollux_host::Conversation) -> String {
        let model = self.model_line(conversation).await;
        let file = conversation.session_file.as_ref().map(|path| path.display().to_string());
        let sandbox = self.turn.sandbox.in_force(&self.turn.loaded.env).summary();
        let editor = conversation.services.editor.as_ref().and_then(|companion| companion.editor());
        let editor = editor.map(|editor| format!("\nIDE Client: {}", one_line(&editor.name)));
        let commit = COMMIT.map(|commit| format!("\nGit Commit: {commit}"));
        format!(
            "CLI Version: {VERSION}{}\n{model}\nApproval mode: {}\nSandbox: {sandbox}\nOS: {} {}\nAuth Method: {}{}\nSession: {}\nSession file: {}\nFolder: {}",
            commit.unwrap_or_default(),
            self.mode,
            std::env::consts::OS,
            std::env::consts::ARCH,
            self.turn.auth_method(&self.model).as_deref().unwrap_or("none"),
            editor.unwrap_or_default(),
            self.turn.session.id,
            file.as_deref().unwrap_or("none"),
            self.turn.loaded.project.root().display(),
        )
    }

    pub(super) async fn tools(&mut self, rest: &str, conversation: &mut pollux_host::Conversation) -> String {
        let described = match rest {
            "" | "list" | "nodesc" => false,
            "desc" | "descriptions" => true,
            _ => return "Usage: /tools [list|desc]".to_owned(),
        };
        let Some(view) = self.view(conversation).await else { return String::new() };
        let lines = view.tools.iter().map(|tool| {
            let about = match described {
                true => {
                    tool.description.trim().lines().map(|line| format!("    {}\n", one_line(line))).collect()
                }
                false => String::new(),
            };
            format!("- {} ({})\n{about}", one_line(&tool.display_name), one_line(&tool.name))
        });
        format!("Available tools in this mode:\n{}", lines.collect::<String>())
    }

    /// `/export-session [file]`
    pub(super) fn export_session(&mut self, file: &str) {
        let id = self.turn.session.id.to_string();
        let output = match file {
            "" => PathBuf::from(format!("session-{id}.json")),
            given => self.turn.loaded.place(given),
        };
        let output = output.to_string_lossy();
        let done = self.subcommand(&["sessions", "export", &id, "--source", "gemini", "--output", &output]);
        match done.result {
            Ok(()) => self.ui.note(done.out.trim_end()),
            Err(failure) => self.ui.error(&failure.message()),
        }
    }

    /// `/hooks`, and `/hooks enable|disable <name>`.
    pub(super) fn hooks(&self, rest: &str) -> String {
        let (word, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let names = match (word, name.trim()) {
            ("" | "list" | "show" | "panel", _) => return self.subcommand(&["hooks", "list"]).text(),
            ("enable" | "disable", "") => return format!("Usage: /hooks {word} <hook-name>"),
            ("enable" | "disable", name) => vec![name.to_owned()],
            ("enable-all" | "enableall" | "disable-all" | "disableall", _) => {
                let listed = self.subcommand(&["hooks", "list", "--json"]).out;
                hook_names(&listed).into_iter().collect()
            }
            _ => {
                return "Usage: /hooks [list], /hooks enable|disable <hook-name>, /hooks enable-all|disable-all".to_owned();
            }
        };
        if names.is_empty() {
            return "No hooks configured.".to_owned();
        }
        let switch = if word.starts_with("enable") { "enable" } else { "disable" };
        let mut text = String::new();
        for name in names {
            let done = self.subcommand(&["hooks", switch, &name, "--scope", "user"]);
            let said = match done.result {
                Ok(()) => done.out,
                Err(failure) => format!("{}\n", failure.message()),
            };
            text.push_str(&redacted(&visible(&said)));
        }
        format!("{text}{NEXT_TIME}")
    }
}

/// The hook names in the output of `hooks list --json`; a hook without a name is identified by its command.
fn hook_names(listed: &str) -> BTreeSet<String> {
    let listed: Value = serde_json::from_str(listed).unwrap_or_default();
    let hooks = listed.get("hooks").and_then(Value::as_array).into_iter().flatten();
    let named = |hook: &Value| hook.get("name").and_then(Value::as_str).map(str::to_owned);
    let command = |hook: &Value| hook.get("command").and_then(Value::as_str).map(str::to_owned);
    hooks.filter_map(|hook| named(hook).or_else(|| command(hook))).collect()
}
