//! `/skills`: what there is, switching one on or off, linking one, looking anew.

use std::io;

use pollux_admin::run_captured;
use pollux_admin::skills::{SkillScope, SkillSource, SkillsCommand, change, list};
use pollux_domain::terminal_text::one_line;
use pollux_host::prompter::Prompter;
use pollux_host::skills::Row;

use crate::Front;
use pollux_host::{Conversation};

const USAGE: &str = "Usage: /skills [list [nodesc] [all]], /skills enable|disable <name>, /skills link <path> [--scope user|workspace], /skills reload";
/// Most characters of a description in `/help`.
const SHOWN: usize = 80;
const OFF: &str = "Skills are switched off (`skills.enabled`).";
// Upstream's words.
const RELOAD: &str = " You can run \"/skills reload\" to refresh your current instance.";

impl Front<'_, '_> {
    pub(super) async fn skills(&mut self, rest: &str, conversation: &Conversation) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(rows) = conversation.skills() else {
            self.face.note(OFF);
            return;
        };
        let text = match words.as_slice() {
            [] | ["list", ..] => {
                let has = |word: &str| words.iter().any(|given| given.trim_start_matches("--") == word);
                list(&rows, has("all"), !has("nodesc"))
            }
            ["reload" | "refresh"] => self.reload_skills(conversation),
            ["enable", name] => self.switch_skill(SkillsCommand::Enable { name: (*name).to_owned() }),
            ["disable", name] => match rows.iter().any(|row| row.name.eq_ignore_ascii_case(name)) {
                // At home, where both are one file, it is the user's.
                true => self.switch_skill(SkillsCommand::Disable {
                    name: (*name).to_owned(),
                    scope: SkillScope::Workspace,
                }),
                false => format!("Skill \"{name}\" not found."),
            },
            ["link", path] => self.link_skill(path, SkillScope::User, conversation).await,
            ["link", path, "--scope", scope] => self.link_skill(path, scope_of(scope), conversation).await,
            ["link", path, scope] if scope.starts_with("--scope=") => {
                self.link_skill(path, scope_of(scope.trim_start_matches("--scope=")), conversation).await
            }
            _ => USAGE.to_owned(),
        };
        self.face.note(text.trim_end());
    }

    /// Settings and folders are read anew.
    fn reload_skills(&mut self, conversation: &Conversation) -> String {
        let loaded = match pollux_host::load_settings(self.turn.request, &self.turn.loaded.env) {
            Ok(loaded) => loaded,
            Err(failure) => return format!("Failed to reload skills: {}", failure.message()),
        };
        match conversation.reload_skills(&loaded) {
            Some((added, removed, warnings)) => {
                warnings.iter().for_each(|line| self.face.note(line));
                change(added, removed)
            }
            None => OFF.to_owned(),
        }
    }

    fn switch_skill(&self, command: SkillsCommand) -> String {
        match self.run_skills(command) {
            Ok(text) => format!("{}{RELOAD}", text.trim_end()),
            Err(text) => text,
        }
    }

    /// What the command prints, or why it failed.
    fn run_skills(&self, command: SkillsCommand) -> Result<String, String> {
        let done = self.subcommand(command);
        done.result.map(|()| done.out).map_err(|failure| failure.message())
    }

    async fn link_skill(&mut self, path: &str, scope: SkillScope, conversation: &Conversation) -> String {
        let source = |consent| SkillSource { source: path.to_owned(), scope, path: None, consent };
        let mut shown = Vec::new();
        // Shown first, with a no to its question; asked and done afterwards.
        let prompter = Prompter { at_terminal: false, input: &mut io::empty(), screen: &mut shown };
        let command = SkillsCommand::Link(source(false)).into();
        let looked = run_captured(&command, self.turn.request, &self.turn.loaded.env, prompter).result;
        let text = String::from_utf8_lossy(&shown).into_owned();
        let Some((consent, _)) = text.split_once("Do you want to continue?") else {
            let why = looked.err().map(|failure| failure.message()).unwrap_or_default();
            return format!("Failed to link skills: {why}");
        };
        let question = format!("\n{}\n\nDo you want to continue? [Y/n]: ", consent.trim());
        let answer = self.face.line(&question).await.unwrap_or_else(|| "n".to_owned());
        if !matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            return "Failed to link skills: Skill linking cancelled by user.".to_owned();
        }
        match self.run_skills(SkillsCommand::Link(source(true))) {
            Ok(_) => {
                let reloaded = self.reload_skills(conversation);
                format!("Successfully linked skills from \"{path}\" ({}).\n{reloaded}", scope.word())
            }
            Err(why) => format!("Failed to link skills: {why}"),
        }
    }
}

/// What `/help` says of them; nothing where there are none.
pub(super) fn help(rows: &[Row]) -> String {
    let mut shown = rows.iter().filter(|row| row.enabled).peekable();
    if shown.peek().is_none() {
        return String::new();
    }
    let lines = shown.map(|row| {
        let about = row.description.lines().next().unwrap_or_default();
        format!("\n  /{}  {}", one_line(&row.name), one_line(about).chars().take(SHOWN).collect::<String>())
    });
    format!("\n\nSkills:{}", lines.collect::<String>())
}

fn scope_of(word: &str) -> SkillScope {
    if word == "workspace" { SkillScope::Workspace } else { SkillScope::User }
}
