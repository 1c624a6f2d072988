//! `/directory`, `/memory` and `/permissions`: workspace directories, context files and folder trust.

use std::path::Path;

use pollux_domain::terminal_text::{one_line, visible};
use pollux_host::trust::page;

use super::{CommandOutcome, Reopen};
use crate::{Front, start};

impl Front<'_, '_> {
    /// `/directory show`, `/directory add <p1,p2>`.
    pub(super) async fn directory(
        &mut self,
        rest: &str,
        conversation: &pollux_host::Conversation,
    ) -> CommandOutcome {
        let (word, paths) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match word {
            "" | "show" => {
                let lines =
                    conversation.directories().iter().map(|folder| format!("\n  {}", folder.display()));
                self.ui.note(&format!("Workspace directories:{}", lines.collect::<String>()));
                CommandOutcome::Continue
            }
            "add" if !paths.trim().is_empty() => self.add_directories(paths, conversation).await,
            _ => {
                self.ui.note("Usage: /directory show, /directory add <path>[,<path>...]");
                CommandOutcome::Continue
            }
        }
    }

    async fn add_directories(
        &mut self,
        paths: &str,
        conversation: &pollux_host::Conversation,
    ) -> CommandOutcome {
        let mut folders: Vec<String> =
            conversation.directories().iter().skip(1).map(|folder| folder.display().to_string()).collect();
        let mut added = Vec::new();
        for given in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
            let path = self.turn.loaded.place(given);
            let Ok(path) = path.canonicalize() else {
                self.ui.error(&format!("No such directory: `{}`", one_line(given)));
                continue;
            };
            if conversation.directories().contains(&path) || !path.is_dir() {
                self.ui.error(&format!(
                    "`{}` is not a directory or is already in the workspace.",
                    path.display()
                ));
                continue;
            }
            if self.may_use(&path).await {
                added.push(path.display().to_string());
            }
        }
        if added.is_empty() {
            return CommandOutcome::Continue;
        }
        folders.extend(added.iter().cloned());
        if folders.len() > pollux_host::MAX_EXTRA_DIRECTORIES {
            let most = pollux_host::MAX_EXTRA_DIRECTORIES;
            self.ui.error(&format!("A workspace can have at most {most} additional directories."));
            return CommandOutcome::Continue;
        }
        let note = format!("Added to the workspace: {}", added.join(", "));
        self.reopen(Reopen { directories: folders, note, ..Reopen::default() })
    }

    /// Whether a folder is trusted; asks if that is undecided.
    async fn may_use(&mut self, path: &Path) -> bool {
        let folder = match pollux_host::trust::folder(Some(path), self.turn.request, &self.turn.loaded.env) {
            Ok(folder) => folder,
            Err(failure) => {
                self.ui.error(&failure.message());
                return false;
            }
        };
        let trusted = match folder.look() {
            Ok(view) if view.standing.trust.uses_project() => Ok(true),
            Ok(_) => start::trusts(&folder, self.ui).await,
            Err(failure) => Err(failure),
        };
        match trusted {
            Ok(true) => true,
            Ok(false) => {
                self.ui.note(&format!("`{}` is not trusted and was not added.", path.display()));
                false
            }
            Err(failure) => {
                self.ui.error(&failure.message());
                false
            }
        }
    }

    /// `/memory show|list|add|reload|inbox`.
    pub(super) async fn memory(
        &mut self,
        rest: &str,
        conversation: &pollux_host::Conversation,
    ) -> CommandOutcome {
        let (word, fact) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let text = match word {
            "" | "show" => match conversation.memory(self.turn.loaded) {
                text if text.is_empty() => "No context files loaded.".to_owned(),
                text => visible(&text).into_owned(),
            },
            "list" => files(&conversation.memory(self.turn.loaded)),
            "add" if fact.trim().is_empty() => "Usage: /memory add <text>".to_owned(),
            "add" => match pollux_host::remember(fact.trim(), self.turn.loaded).await {
                Ok(file) => {
                    let note = format!("Saved to {}.", file.display());
                    return self.reopen(Reopen { note, ..Reopen::default() });
                }
                Err(problem) => problem,
            },
            "refresh" | "reload" => return self.reopen(Reopen::noting("Context files reloaded.")),
            "inbox" => self.learned(),
            _ => "Usage: /memory [show|list|reload|inbox], /memory add <text>".to_owned(),
        };
        self.ui.note(text.trim_end());
        CommandOutcome::Continue
    }

    /// The learnings that durable memory recorded on its own.
    fn learned(&self) -> String {
        let done = self.subcommand(&["memory", "learnings"]);
        let text = format!("{}{}", done.err, done.out);
        match done.result {
            Ok(()) if text.trim().is_empty() => "No learnings yet.".to_owned(),
            Ok(()) => visible(&text).into_owned(),
            Err(failure) => failure.message(),
        }
    }

    /// `/permissions`, `/permissions trust [folder]`.
    pub(super) async fn permissions(&mut self, rest: &str) -> CommandOutcome {
        let (word, named) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match word {
            "" => {
                let text = self.standing();
                self.ui.note(text.trim_end());
                CommandOutcome::Continue
            }
            "trust" => self.ask_trust(named.trim()).await,
            _ => {
                self.ui.note("Usage: /permissions, /permissions trust [folder]");
                CommandOutcome::Continue
            }
        }
    }

    async fn ask_trust(&mut self, named: &str) -> CommandOutcome {
        let path = (!named.is_empty()).then(|| self.turn.loaded.place(named));
        let asked =
            match pollux_host::trust::folder(path.as_deref(), self.turn.request, &self.turn.loaded.env) {
                Ok(folder) => start::trusts(&folder, self.ui).await,
                Err(failure) => Err(failure),
            };
        match asked {
            Err(failure) => self.ui.error(&failure.message()),
            Ok(trusted) if path.is_none() && trusted != self.turn.loaded.trust.uses_project() => {
                return self.reopen(Reopen::noting("Folder trust changed; settings reloaded."));
            }
            Ok(true) => self.ui.note("The folder is trusted."),
            Ok(false) => self.ui.note("The folder is not trusted."),
        }
        CommandOutcome::Continue
    }

    fn standing(&self) -> String {
        let view = pollux_host::trust::folder(None, self.turn.request, &self.turn.loaded.env)
            .and_then(|folder| folder.look());
        match view {
            Ok(view) => format!("{}\nTo change this: /permissions trust", page::question(&view)),
            Err(failure) => failure.message(),
        }
    }
}

/// The context files that the memory consists of.
fn files(memory: &str) -> String {
    let named = memory.lines().filter_map(|line| {
        line.strip_prefix("--- Context from: ")?
            .strip_suffix(" ---")
            .map(|path| format!("\n  {}", one_line(path)))
    });
    match named.collect::<String>() {
        none if none.is_empty() => "No context files loaded.".to_owned(),
        named => format!("Context files in use:{named}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_memory_are_named() {
        let memory =
            "--- Context from: /a/GEMINI.md ---\nbe brief\n--- End of Context from: /a/GEMINI.md ---";
        assert_eq!(files(memory), "Context files in use:\n  /a/GEMINI.md");
        assert_eq!(files(""), "No context files loaded.");
    }
}
