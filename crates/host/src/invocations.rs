//! Turns a typed custom command into a prompt.
//!
//! The policy decides on a command as a whole before anything runs. Then its files are read, then its shell lines run in
//! order; their output is inserted as plain text.

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::content::Part;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::visible;
use pollux_domain::tool::Effect;
use pollux_exec::shell::{Ending, Finished, ShellCommand, ShellEnd, run};
use pollux_extend::commands::template::Piece;
use pollux_policy::request::{Decision, Request};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::custom_commands::{CommandList, Invocation, split};
use super::prompt::{self, Expanded, PromptText};
use super::services::Services;
use super::{Conversation, Loaded, Prepared, built_in_prompts, checker, policy, skills};

/// Maximum characters of shell output inserted per line.
const MAX_PRINTED: usize = 200_000;

impl Services {
    /// The prompt of a headless run: a command, possibly after piped input, or plain text.
    pub async fn expand_headless(
        &self,
        prompt: &str,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let prompt = PromptText::headless(prompt, turn.request.prompt.as_deref());
        let (piped, command) = (prompt.before_typed(), prompt.command());
        if let Some((word, rest)) = split(command)
            && turn.loaded.reserved.contains(word)
            && let Some(made) = built_in_prompts::headless(word, rest, turn.loaded)
        {
            let text = match made {
                Ok(made) => format!("{piped}{made}"),
                Err(failure) => return Some(Err(failure)),
            };
            let made = PromptText { text: &text, piped: piped.len(), may_be_command: piped.is_empty() };
            return self.expand_text(made, turn.loaded, cancel).await;
        }
        let invocation = match self.invocation(command, turn, turn.permission.approval, false).await {
            None => {
                let mut expanded = self.expand_plain(prompt, turn.loaded, cancel).await?;
                if let Ok((parts, notes)) = &mut expanded {
                    notes.extend(sent_as_text(command, prompt.text, parts, turn.loaded));
                }
                return Some(expanded);
            }
            Some(Err(failure)) => return Some(Err(failure)),
            Some(Ok(invocation)) => invocation,
        };
        let mut expanded = self.carry_out(invocation, turn, cancel).await?;
        if let Ok((parts, _)) = &mut expanded
            && !piped.is_empty()
        {
            parts.insert(0, Part::text(piped));
        }
        Some(expanded)
    }

    /// A headless prompt that is not a command of this program or of the user: a skill, an MCP prompt or plain text.
    pub(crate) async fn expand_plain(
        &self,
        prompt: PromptText<'_>,
        loaded: &Loaded,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let (piped, command) = (prompt.before_typed(), prompt.command());
        if !piped.is_empty() && self.has_prompt(command) {
            let expanded = self.expand(command, loaded, cancel).await?;
            return Some(skills::before(Part::text(piped), expanded));
        }
        self.expand_text(prompt, loaded, cancel).await
    }

    /// Whether a line names a skill or an MCP prompt.
    fn has_prompt(&self, line: &str) -> bool {
        let is_server_prompt =
            |(word, _): (&str, &str)| self.servers.as_ref().is_some_and(|servers| servers.has_prompt(word));
        skills::called(self.skills.as_deref(), line).is_some() || split(line).is_some_and(is_server_prompt)
    }

    /// The custom command in a prompt, if any, after the policy decision and before it runs.
    pub async fn invocation(
        &self,
        typed: &str,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
        interactive: bool,
    ) -> Option<Result<Invocation, Failure>> {
        let mut invocation = match self.commands.called(typed, turn.loaded)? {
            Ok(invocation) => invocation,
            Err(failure) => return Some(Err(failure)),
        };
        Some(self.decide(&mut invocation, turn, mode, interactive).await.map(|()| invocation))
    }

    /// Asks the policy about each shell line, as for tool calls of the model.
    async fn decide(
        &self,
        invocation: &mut Invocation,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
        interactive: bool,
    ) -> Result<(), Failure> {
        let mut lines: Vec<&String> = Vec::new();
        for piece in &invocation.pieces {
            if let Piece::Shell(line) = piece
                && !lines.contains(&line)
                && !self.commands.allows(line)
            {
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let engine = policy::engine(turn.request, turn.loaded, self.workspace.directories());
        let directory = self.workspace.root();
        let checkers = checker::programs(turn.loaded, directory, Arc::clone(&self.background));
        let mut to_confirm = Vec::new();
        for line in lines {
            let args = JsonObject::from_iter([("command".to_owned(), Value::from(line.as_str()))]);
            let effect = Effect::Execute { command: line.clone(), directory: directory.to_path_buf() };
            let request = Request {
                tool: "run_shell_command",
                server: None,
                read_only: false,
                annotations: None,
                args: &args,
                effect: &effect,
                mode,
                interactive,
                subagent: None,
            };
            let verdict = engine.checked(engine.decide(&request), &request, &[], &checkers).await;
            match verdict.decision {
                Decision::Allow => {}
                Decision::Ask => to_confirm.push(line.clone()),
                Decision::Deny => {
                    let name = &invocation.name;
                    let text = format!(
                        "{name} cannot be run. Blocked command: \"{line}\". Reason: Blocked by policy."
                    );
                    // Upstream's exit code.
                    return Err(Failure::new(ExitKind::Failure, text));
                }
            }
        }
        invocation.to_confirm = to_confirm;
        Ok(())
    }

    /// Reads the files and runs the shell lines; `None` if cancelled.
    pub async fn carry_out(
        &self,
        invocation: Invocation,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        let Invocation { name, pieces, .. } = invocation;
        let mut parts: Vec<Part> = Vec::new();
        let mut notes = Vec::new();
        let (mut text, mut injected) = (String::new(), Vec::new());
        // Files first, so that no command can change what is read.
        for piece in &pieces {
            let Piece::File { path, .. } = piece else { continue };
            injected.push(
                prompt::inject(path, &self.workspace, &turn.loaded.groups.context.filtering, cancel).await?,
            );
        }
        let mut injected = injected.into_iter();
        for piece in pieces {
            match piece {
                Piece::Words(words) => text.push_str(&words),
                Piece::Shell(line) => match self.print(&name, &line, turn, cancel).await? {
                    Ok(printed) => text.push_str(&printed),
                    Err(failure) => return Some(Err(failure)),
                },
                Piece::File { path, written } => match injected.next() {
                    Some(Ok(read)) if read.is_empty() => notes.push(format!(
                        "File '@{{{path}}}' was ignored by .gitignore or .geminiignore and was not included in the prompt."
                    )),
                    Some(Ok(read)) => {
                        parts.extend((!text.is_empty()).then(|| Part::text(std::mem::take(&mut text))));
                        parts.extend(read);
                    }
                    Some(Err(why)) => {
                        notes.push(format!("Failed to inject content for '@{{{path}}}': {why}"));
                        text.push_str(&written);
                    }
                    None => text.push_str(&written),
                },
            }
        }
        parts.extend((!text.is_empty()).then(|| Part::text(text)));
        if parts.is_empty() {
            return Some(Err(Failure::new(
                ExitKind::Input,
                format!("the prompt of the command `/{name}` is empty"),
            )));
        }
        Some(Ok((parts, notes)))
    }

    /// Runs one line; returns its output, and how it ended if it failed.
    async fn print(
        &self,
        name: &str,
        line: &str,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<String, Failure>> {
        let tools = &turn.loaded.groups.tools;
        let seconds = u64::try_from(tools.shell_inactivity_seconds).unwrap_or(0);
        let request = ShellCommand {
            text: line.to_owned(),
            directory: self.workspace.root().to_path_buf(),
            environment: turn.loaded.command_env(),
            inactivity: (seconds > 0).then(|| Duration::from_secs(seconds)),
            background_after: None,
            sandbox: turn.sandbox.rights.as_ref().map(|rights| rights.sandbox()),
        };
        let ended = run(&request, &self.background, &|_| (), cancel).await;
        if cancel.is_cancelled() {
            return None;
        }
        Some(match ended {
            Ok(ShellEnd::Finished(finished)) => Ok(printed(line, &finished)),
            Ok(ShellEnd::MovedToBackground { .. }) => Ok(String::new()),
            Err(error) => {
                let what = format!("Failed to start shell command in '{name}': {error}. Command: {line}");
                Err(Failure::new(ExitKind::Input, what))
            }
        })
    }
}

/// The ending in upstream's words.
fn printed(line: &str, finished: &Finished) -> String {
    let mut text = cut(finished.output.text());
    match finished.ending {
        Ending::Exited(0) => {}
        Ending::Exited(code) => text.push_str(&format!("\n[Shell command '{line}' exited with code {code}]")),
        Ending::Signalled(signal) => {
            text.push_str(&format!("\n[Shell command '{line}' terminated by signal {signal}]"));
        }
        Ending::Cancelled | Ending::Inactive => text.push_str(&format!("\n[Shell command '{line}' aborted]")),
    }
    text
}

/// The beginning and the end of an overlong text.
fn cut(text: String) -> String {
    let count = text.chars().count();
    if count <= MAX_PRINTED {
        return text;
    }
    let half = MAX_PRINTED / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n... [{} characters omitted] ...\n{tail}", count - 2 * half)
}

impl Conversation {
    /// The custom command in a prompt, after the policy decision; `None` for other prompts.
    pub async fn invocation(
        &self,
        typed: &str,
        turn: &Prepared<'_>,
        mode: ApprovalMode,
    ) -> Option<Result<Invocation, Failure>> {
        self.services.invocation(typed, turn, mode, true).await
    }

    /// Turns a command into a prompt; `None` if cancelled.
    pub async fn carry_out(
        &self,
        invocation: Invocation,
        turn: &Prepared<'_>,
        cancel: &CancellationToken,
    ) -> Option<Result<Expanded, Failure>> {
        self.services.carry_out(invocation, turn, cancel).await
    }

    /// Allows these shell lines for the rest of the conversation.
    pub fn allow_lines(&self, lines: &[String]) {
        self.services.commands.allow(lines);
    }

    /// Whether a slash command is a custom command.
    pub fn has_command(&self, word: &str, loaded: &Loaded) -> bool {
        self.services.commands.has(word, loaded)
    }

    /// Discards the list, so that the folders are read again on next use.
    pub fn reload_commands(&self) {
        self.services.commands.forget();
    }

    /// Names and descriptions, including MCP prompts; invalid files are marked.
    pub fn commands(&self, loaded: &Loaded) -> CommandList {
        self.services.commands.list(loaded, self.services.servers.as_deref())
    }
}

/// Says that what looks like a command is sent as text, and why.
fn sent_as_text(command: &str, prompt: &str, sent: &[Part], loaded: &Loaded) -> Option<String> {
    let (word, _) = split(command)?;
    if !matches!(sent, [part] if part.spoken_text() == Some(prompt)) {
        return None;
    }
    let name = visible(word);
    Some(if loaded.reserved.contains(word) {
        format!("`/{name}` works only in an interactive session; sent as a plain prompt")
    } else {
        format!("unknown command `/{name}`; sent as a plain prompt")
    })
}
