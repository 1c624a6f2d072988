//! `/skills`: list, enable, disable, link and reload skills.

use pollux_domain::terminal_text::one_line;
use pollux_domain::text::shortened;
use pollux_host::Conversation;
use pollux_host::skills::{SkillRow, change, list};

use super::columns;
use crate::Front;

const USAGE: &str = "Usage: /skills [list [nodesc] [all]], /skills enable|disable <name>, /skills link <path> [--scope user|workspace], /skills reload";
/// Characters of a description in `/help`.
const SHOWN: usize = 120;
const OFF: &str = "Skills are disabled (`skills.enabled`).";
// Upstream's text.
const RELOAD: &str = " You can run \"/skills reload\" to refresh your current instance.";

impl Front<'_, '_> {
    pub(super) async fn skills(&mut self, rest: &str, conversation: &Conversation) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some(rows) = conversation.skills() else {
            self.ui.note(OFF);
            return;
        };
        let text = match words.as_slice() {
            [] | ["list", ..] => {
                let has = |word: &str| words.iter().any(|given| given.trim_start_matches("--") == word);
                list(&rows, has("all"), !has("nodesc"))
            }
            ["reload" | "refresh"] => self.reload_skills(conversation),
            ["enable", name] => self.switch_skill(&["skills", "enable", name]),
            ["disable", name] => match rows.iter().any(|row| row.name.eq_ignore_ascii_case(name)) {
                // In the home directory, where both scopes are one file, this is the user's.
                true => self.switch_skill(&["skills", "disable", name, "--scope", "workspace"]),
                false => format!("Skill \"{name}\" not found."),
            },
            ["link", path] => self.link_skill(path, "user", conversation).await,
            ["link", path, "--scope", scope] => self.link_skill(path, scope_of(scope), conversation).await,
            ["link", path, scope] if scope.starts_with("--scope=") => {
                self.link_skill(path, scope_of(scope.trim_start_matches("--scope=")), conversation).await
            }
            _ => USAGE.to_owned(),
        };
        self.ui.note(text.trim_end());
    }

    /// Reads settings and skill folders again.
    fn reload_skills(&mut self, conversation: &Conversation) -> String {
        let loaded = match pollux_host::load_settings(self.turn.request, &self.turn.loaded.env) {
            Ok(loaded) => loaded,
            Err(failure) => return format!("Failed to reload skills: {}", failure.message()),
        };
        match conversation.reload_skills(&loaded) {
            Some((added, removed, warnings)) => {
                warnings.iter().for_each(|line| self.ui.note(line));
                change(added, removed)
            }
            None => OFF.to_owned(),
        }
    }

    fn switch_skill(&self, words: &[&str]) -> String {
        match self.run_skills(words) {
            Ok(text) => format!("{}{RELOAD}", text.trim_end()),
            Err(text) => text,
        }
    }

    /// The output of a subcommand, or the reason of its failure.
    fn run_skills(&self, words: &[&str]) -> Result<String, String> {
        let done = self.subcommand(words);
        done.result.map(|()| done.out).map_err(|failure| failure.message())
    }

    async fn link_skill(&mut self, path: &str, scope: &str, conversation: &Conversation) -> String {
        let mut shown = Vec::new();
        // The first run only shows the question and answers no.
        let looked = self.subcommand_shown(&["skills", "link", path, "--scope", scope], &mut shown).result;
        let text = String::from_utf8_lossy(&shown).into_owned();
        let Some((consent, _)) = text.split_once("Do you want to continue?") else {
            let why = looked.err().map(|failure| failure.message()).unwrap_or_default();
            return format!("Failed to link skills: {why}");
        };
        let question = format!("\n{}\n\nDo you want to continue? [Y/n]: ", consent.trim());
        let answer = self.ui.ask_line(&question).await.unwrap_or_else(|| "n".to_owned());
        if !matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            return "Failed to link skills: Skill linking cancelled by user.".to_owned();
        }
        match self.run_skills(&["skills", "link", path, "--scope", scope, "--consent"]) {
            Ok(_) => {
                let reloaded = self.reload_skills(conversation);
                format!("Successfully linked skills from \"{path}\" ({}).\n{reloaded}", scope)
            }
            Err(why) => format!("Failed to link skills: {why}"),
        }
    }
}

/// Their section of `/help`; empty if there are none.
pub(super) fn help(rows: &[SkillRow]) -> String {
    let mut shown = rows.iter().filter(|row| row.enabled).peekable();
    if shown.peek().is_none() {
        return String::new();
    }
    let lines = shown.map(|row| {
        let about = row.description.lines().next().unwrap_or_default();
        let about = shortened(&one_line(about), SHOWN);
        columns::row(&format!("  /{}", one_line(&row.name)), &about, columns::SECOND)
    });
    format!("\n\nSkills:\n{}", lines.collect::<String>().trim_end())
}

fn scope_of(word: &str) -> &'static str {
    if word == "workspace" { "workspace" } else { "user" }
}
