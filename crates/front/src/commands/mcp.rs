//! `/mcp`: list MCP servers, sign in, enable and disable them.

use pollux_domain::terminal_text::visible;
use pollux_host::{Detail, ServerLogin};

use super::{CommandOutcome, Reopen};
use crate::Front;

const USAGE: &str =
    "Usage: /mcp [list|desc|schema], /mcp auth [server], /mcp reload, /mcp enable|disable <server>";

impl Front<'_, '_> {
    pub(super) async fn mcp(
        &mut self,
        rest: &str,
        conversation: &mut pollux_host::Conversation,
    ) -> CommandOutcome {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words.as_slice() {
            [] | ["list" | "ls" | "nodesc" | "nodescription"] => {
                self.servers(Detail::Names, conversation).await
            }
            ["desc" | "description"] => self.servers(Detail::Descriptions, conversation).await,
            ["schema"] => self.servers(Detail::Schemas, conversation).await,
            ["reload" | "refresh"] => return self.reopen(Reopen::noting("MCP servers reconnected.")),
            ["auth"] => {
                let names = conversation.servers_to_sign_in();
                self.ui.note(&match names.is_empty() {
                    true => "No MCP server requires sign-in.".to_owned(),
                    false => {
                        format!("Servers to sign in to: {}\nUsage: /mcp auth <server>", names.join(", "))
                    }
                });
            }
            ["auth", name] => return self.sign_in_to(name).await,
            [word @ ("enable" | "disable"), name, rest @ ..] => {
                return self.switch_server(name, *word == "enable", rest);
            }
            _ => self.ui.note(USAGE),
        }
        CommandOutcome::Continue
    }

    async fn servers(&mut self, detail: Detail, conversation: &mut pollux_host::Conversation) {
        let tools = match detail {
            Detail::Schemas => {
                self.view(conversation).await.map(|view| view.tools.clone()).unwrap_or_default()
            }
            Detail::Names | Detail::Descriptions => Vec::new(),
        };
        let lines = conversation.servers(detail, &tools);
        let text = match lines.is_empty() {
            true if !self.turn.loaded.trust.uses_project() => {
                "No MCP servers are enabled: this folder is not trusted (`pollux trust show`).".to_owned()
            }
            true => "No MCP servers configured.".to_owned(),
            false => lines.join("\n"),
        };
        self.ui.note(&visible(&text));
    }

    fn switch_server(&mut self, name: &str, on: bool, rest: &[&str]) -> CommandOutcome {
        if rest.contains(&"--session") {
            self.ui.note("Servers cannot be enabled or disabled for one session only; omit --session.");
            return CommandOutcome::Continue;
        }
        let done = self.subcommand(&["mcp", if on { "enable" } else { "disable" }, name]);
        if let Err(failure) = done.result {
            self.ui.error(&failure.message().replace("'pollux mcp list'", "/mcp list"));
            return CommandOutcome::Continue;
        }
        // On screen the signs are the screen's own.
        let text = done.out.trim_end();
        self.reopen(Reopen::noting(text.strip_prefix("✓ ").unwrap_or(text)))
    }

    /// Signs in with a browser, on this machine or on another.
    async fn sign_in_to(&mut self, name: &str) -> CommandOutcome {
        let mut login = match pollux_host::begin_server_login(name, self.turn.loaded).await {
            Ok(ServerLogin::Done(text)) => return self.reopen(Reopen::noting(&text)),
            Ok(ServerLogin::Asked(login)) => login,
            Err(failure) => {
                self.ui.error(&failure.message());
                return CommandOutcome::Continue;
            }
        };
        self.ui.note(&login.invitation(name));
        let question = "Paste the final browser URL, or wait: ";
        let granted = loop {
            let line = tokio::select! {
                granted = login.browser() => break Some(granted),
                line = self.ui.ask_line(question) => line,
            };
            match line.as_deref().map(str::trim) {
                None => break None,
                Some("") => {}
                Some(pasted) => match login.pasted(pasted) {
                    Ok(granted) => break Some(Ok(granted)),
                    Err(failure) => self.ui.error(&failure.message()),
                },
            }
        };
        self.ui.close_list();
        let done = match granted {
            None => {
                self.ui.note("Sign-in cancelled.");
                return CommandOutcome::Continue;
            }
            Some(Ok(granted)) => login.finish(granted).await,
            Some(Err(failure)) => Err(failure),
        };
        match done {
            Ok(()) => {
                self.reopen(Reopen::noting(&format!("Successfully authenticated with MCP server '{name}'.")))
            }
            Err(failure) => {
                self.ui.error(&failure.message());
                CommandOutcome::Continue
            }
        }
    }
}
