//! Commands that only tell.

use pollux_domain::terminal_text::{one_line, visible};

use super::super::Front;
use super::super::face::Input;
use crate::launch::{HooksCommand, PolicyCommand, PolicyView, Scope, TrustCommand};
use crate::run::VERSION;
use crate::trust_command::{self, Person};
use crate::{hooks_command, policy_command, wire};

fn servers(conversation: &wire::Conversation) -> String {
    match conversation.servers() {
        lines if lines.is_empty() => "No MCP servers configured.".to_owned(),
        lines => lines.join("\n"),
    }
}

/// The hooks of a conversation are those that it began with.
const NEXT_TIME: &str = "This counts from the next conversation on.";

/// Most characters of a tool's description.
const SHOWN: usize = 80;

impl Front<'_, '_> {
    /// What was typed while a turn runs. Some commands need nothing of it; the rest waits.
    pub(in crate::interactive) fn beside(&mut self, typed: String) {
        match typed.trim() {
            "/stats" | "/usage" => self.face.note(&self.stats_text()),
            "/help" | "/?" => self.face.note(&super::help()),
            _ => self.face.put_back(Input::Said(typed)),
        }
    }

    /// A conversation has begun: the screen learns what there is.
    pub(in crate::interactive) async fn settle_in(&mut self, _conversation: &mut wire::Conversation) {}

    pub(super) async fn tell_about(&mut self, name: &str, rest: &str, conversation: &mut wire::Conversation) {
        let text = match name {
            "/about" => self.about(conversation).await,
            "/tools" => self.tools(conversation).await,
            "/directory" => folders(rest, conversation),
            "/memory" => memory(rest, self.turn, conversation),
            "/policies" => self.policies(),
            "/agents" => self.agents(rest),
            "/hooks" => self.hooks(rest),
            "/permissions" => self.trust(),
            "/mcp" => servers(conversation),
            other => super::not_here(other),
        };
        self.face.note(text.trim_end());
    }

    async fn about(&mut self, conversation: &mut wire::Conversation) -> String {
        let model = self.model_line(conversation).await;
        let file = conversation.session_file.as_ref().map(|path| path.display().to_string());
        let auth = self.turn.credentials.auth_type.as_deref().unwrap_or("none");
        format!(
            "Pollux {VERSION} on {} {}\n{model}\nAuthentication: {auth}\nSession: {}\nSession file: {}\nFolder: {}",
            std::env::consts::OS,
            std::env::consts::ARCH,
            self.turn.session.id,
            file.as_deref().unwrap_or("none"),
            self.turn.loaded.project.root().display(),
        )
    }

    async fn tools(&mut self, conversation: &mut wire::Conversation) -> String {
        let Some(view) = self.view(conversation).await else { return String::new() };
        let lines = view.tools.iter().map(|tool| {
            let about = one_line(tool.description.lines().next().unwrap_or_default());
            let about: String = about.chars().take(SHOWN).collect();
            format!("  {}: {about}\n", one_line(&tool.name))
        });
        format!("Available tools in this mode:\n{}", lines.collect::<String>())
    }

    /// `/hooks`, and `/hooks enable|disable <name>`.
    fn hooks(&self, rest: &str) -> String {
        let (word, name) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (name, scope) = (name.trim().to_owned(), Scope::User);
        let (command, then) = match word {
            "" | "list" | "show" | "panel" => (HooksCommand::List { json: false }, ""),
            "enable" | "disable" if name.is_empty() => return format!("Usage: /hooks {word} <hook-name>"),
            "enable" => (HooksCommand::Enable { name, scope }, NEXT_TIME),
            "disable" => (HooksCommand::Disable { name, scope }, NEXT_TIME),
            _ => {
                return "Usage: /hooks [list], /hooks enable <hook-name>, /hooks disable <hook-name>"
                    .to_owned();
            }
        };
        let loaded = self.turn.loaded;
        let mut text = Vec::new();
        let done = wire::hook_set(self.turn.options, &loaded.env)
            .and_then(|mut hooks| hooks_command::run(&command, &mut *hooks, loaded.env.cwd(), &mut text));
        match done {
            Ok(()) => format!("{}{then}", String::from_utf8_lossy(&text)),
            Err(failure) => failure.message(),
        }
    }

    fn policies(&self) -> String {
        let view = PolicyView { mode: Some(self.mode), headless: false };
        let loaded = self.turn.loaded;
        let mut text = Vec::new();
        let listed = wire::rules(self.turn.options, &loaded.env).and_then(|rules| {
            let command = PolicyCommand::List { view, json: false };
            policy_command::run(&command, &*rules, loaded.env.cwd(), &mut text)
        });
        match listed {
            Ok(()) => {
                let shown = String::from_utf8_lossy(&text).into_owned();
                format!("{shown}Answers given for this session are not in this list.")
            }
            Err(failure) => failure.message(),
        }
    }

    fn trust(&self) -> String {
        let mut text = Vec::new();
        let (mut input, mut screen) = (std::io::empty(), std::io::sink());
        let mut person = Person { at_terminal: false, input: &mut input, screen: &mut screen };
        let shown = wire::folder(None, self.turn.options, &self.turn.loaded.env).and_then(|folder| {
            trust_command::run(&TrustCommand::Show { json: false }, &*folder, &mut person, &mut text)
        });
        match shown {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(failure) => failure.message(),
        }
    }
}

fn folders(rest: &str, conversation: &wire::Conversation) -> String {
    if !matches!(rest, "" | "show") {
        return "Folders are added with `--include-directories` or `context.includeDirectories`.".to_owned();
    }
    let lines = conversation.directories().iter().map(|folder| format!("  {}\n", folder.display()));
    format!("The workspace:\n{}", lines.collect::<String>())
}

fn memory(rest: &str, turn: &wire::Turn<'_>, conversation: &wire::Conversation) -> String {
    let text = conversation.memory(turn.loaded);
    match rest {
        "" | "show" | "list" if text.is_empty() => "No context file says anything.".to_owned(),
        "" | "show" | "list" => visible(&text).into_owned(),
        "refresh" | "reload" => format!(
            "Context files are read when a conversation begins; now they hold {} characters. /clear begins one.",
            text.chars().count()
        ),
        _ => "Usage: /memory show|refresh".to_owned(),
    }
}
