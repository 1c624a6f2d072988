//! Completions after a slash: commands, subcommands and their arguments.

use std::path::{Path, PathBuf};

use pollux_domain::terminal_text::one_line;
use pollux_front::{SlashCommand, SlashSubcommand, reserved, slash_commands};
use pollux_host::Offers;
use pollux_host::checkpoint;
use pollux_host::custom_commands;
use pollux_session::list_checkpoints_in;
use pollux_tui::composer::Item;

use super::{fuzzy, shell_words};

/// Maximum number of suggestions.
const MOST: usize = 200;

/// A suggestion and its aliases.
struct Candidate {
    item: Item,
    also: Vec<String>,
}

/// Completions for the end of a line that starts with a slash.
pub(super) fn complete(
    line: &str,
    offers: &Offers,
    state: &[PathBuf],
    root: &Path,
    home: &Path,
) -> Vec<Item> {
    let typed = line.strip_prefix('/').unwrap_or(line);
    let Some((before, word)) = typed.rsplit_once(char::is_whitespace) else {
        return fitting(commands(offers), typed);
    };
    let before: Vec<&str> = before.split_whitespace().collect();
    let Some((first, rest)) = before.split_first() else { return Vec::new() };
    let slashed = format!("/{first}");
    let Some(command) = slash_commands().iter().find(|command| command.names.contains(&slashed.as_str()))
    else {
        return Vec::new();
    };
    match rest {
        [] => {
            let mut candidates = subcommands(command);
            candidates.extend(values(command.name(), "", offers, state));
            match candidates.is_empty() && takes_path(command.name(), "") {
                true => shell_words::paths(word, root, home),
                false => fitting(candidates, word),
            }
        }
        [sub] => {
            let known = command.subcommands.iter().find(|known| known.names.contains(sub));
            let name = known.and_then(|known| known.names.first()).copied().unwrap_or_default();
            match takes_path(command.name(), name) {
                true => shell_words::paths(word, root, home),
                false => fitting(values(command.name(), name, offers, state), word),
            }
        }
        _ => Vec::new(),
    }
}

/// The candidates that match a word by name or alias, best first.
fn fitting(candidates: Vec<Candidate>, word: &str) -> Vec<Item> {
    let lower = word.to_lowercase();
    let rank = |candidate: &Candidate| {
        if lower.is_empty() {
            return Some(0);
        }
        let by_alias = candidate.also.iter().filter_map(|name| fuzzy::rank(name, &lower, true));
        // Names rank before aliases.
        let by_alias = by_alias.min().map(|rank| rank.saturating_add(1));
        let by_name = fuzzy::rank(&candidate.item.insert, &lower, true);
        by_name.into_iter().chain(by_alias).min()
    };
    let ranked = candidates.iter().zip(0..).filter_map(|(candidate, at)| Some((rank(candidate)?, at)));
    let best = fuzzy::best(ranked.collect(), MOST);
    best.into_iter().filter_map(|at| candidates.get(at)).map(|candidate| candidate.item.clone()).collect()
}

fn commands(offers: &Offers) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = slash_commands().iter().map(built_in).collect();
    let mut more = |name: &str, about: &str| {
        let taken = all.iter().any(|known| known.item.insert == name);
        if !taken && !name.is_empty() && !name.contains(char::is_whitespace) {
            all.push(Candidate { item: named(name, about), also: Vec::new() });
        }
    };
    for (name, about) in custom_commands::described(&offers.commands, reserved()) {
        more(&name, &about);
    }
    if let Some(shelf) = &offers.skills {
        for skill in shelf.skills().all.iter().filter(|skill| !skill.disabled) {
            more(&skill.name, &skill.description);
        }
    }
    for prompt in offers.servers.iter().flat_map(|servers| servers.prompts()) {
        let about = format!("[{}] {}", prompt.server, prompt.spec.description);
        let clash =
            slash_commands().iter().any(|command| command.name().strip_prefix('/') == Some(&prompt.name));
        match clash {
            true => more(&format!("{}.{}", prompt.server, prompt.name), &about),
            false => more(&prompt.name, &about),
        }
    }
    all
}

fn built_in(command: &SlashCommand) -> Candidate {
    let mut names = command.names.iter().map(|name| name.trim_start_matches('/').to_owned());
    let name = names.next().unwrap_or_default();
    let also: Vec<String> = names.collect();
    let label = if also.is_empty() { name.clone() } else { format!("{name} ({})", also.join(", ")) };
    let item = Item { label, run: command.at_once, ..named(&name, command.about) };
    Candidate { item, also }
}

fn subcommands(command: &SlashCommand) -> Vec<Candidate> {
    let candidate = |sub: &SlashSubcommand| {
        let (name, also) = sub.names.split_first()?;
        let item = Item { run: sub.at_once, ..named(name, sub.about) };
        Some(Candidate { item, also: also.iter().map(|name| (*name).to_owned()).collect() })
    };
    command.subcommands.iter().filter_map(candidate).collect()
}

/// Commands that take a path.
fn takes_path(command: &str, sub: &str) -> bool {
    matches!(
        (command, sub),
        ("/directory", "add")
            | ("/skills", "link")
            | ("/chat" | "/resume", "share")
            | ("/permissions", "trust")
            | ("/export-session", "")
    )
}

/// Arguments for a command and its subcommand.
fn values(command: &str, sub: &str, offers: &Offers, state: &[PathBuf]) -> Vec<Candidate> {
    let of = |names: Vec<(String, String)>| -> Vec<Candidate> {
        let candidate = |(name, about): (String, String)| Candidate {
            item: Item { run: true, ..named(&name, &about) },
            also: Vec::new(),
        };
        names.into_iter().map(candidate).collect()
    };
    let plain = |names: &[String]| of(names.iter().map(|name| (name.clone(), String::new())).collect());
    match (command, sub) {
        ("/model", "set") => of(offers.models.clone()),
        ("/chat" | "/resume", "resume" | "delete") => {
            // Latest first.
            let saved = list_checkpoints_in(state).into_iter().rev();
            of(saved.map(|saved| (saved.tag, saved.modified.to_iso())).collect())
        }
        ("/restore", "") => {
            let folder = offers.checkpoints.as_deref();
            let names = folder.and_then(|folder| checkpoint::list(folder).ok()).unwrap_or_default();
            plain(&names)
        }
        ("/mcp", "enable" | "disable" | "auth") => plain(&offers.server_names),
        ("/skills", "enable" | "disable") => {
            let wanted_off = sub == "enable";
            let all = offers.skills.as_ref().map(|shelf| shelf.skills().all.clone()).unwrap_or_default();
            let fitting = all.into_iter().filter(|skill| skill.disabled == wanted_off);
            of(fitting.map(|skill| (skill.name, skill.description)).collect())
        }
        ("/extensions", "enable" | "disable" | "update" | "uninstall") => plain(&offers.extensions),
        ("/agents", "show" | "enable" | "disable" | "acknowledge") => {
            let entries = offers.agents.entries().iter();
            of(entries
                .map(|entry| (entry.definition.name.clone(), entry.definition.description.clone()))
                .collect())
        }
        _ => Vec::new(),
    }
}

fn named(name: &str, about: &str) -> Item {
    let about = one_line(about.lines().next().unwrap_or_default());
    Item { insert: name.to_owned(), label: name.to_owned(), description: about, ..Item::default() }
}
