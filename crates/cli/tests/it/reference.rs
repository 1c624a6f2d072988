//! The reference of the command line in the documents, generated from the program's own definition.
//!
//! `UPDATE_DOCS=1 cargo test -p pollux-cli --test it docs` rewrites it.

use std::fmt::Write;

use clap::{Arg, Command};

/// The page's generated part: a section for each command, in the order of the help.
pub(crate) fn command_line() -> String {
    let mut text = String::new();
    section(&pollux_cli::command_line(), &[], &mut text);
    text
}

fn section(command: &Command, path: &[&str], text: &mut String) {
    let name = std::iter::once("pollux").chain(path.iter().copied()).collect::<Vec<_>>().join(" ");
    let level = "#".repeat(if path.len() < 2 { 2 } else { 3 });
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    // The summary has no full stop; in the page a text may follow it.
    let about = about.replacen("\n\n", ".\n\n", 1);
    let about = if about.ends_with('.') { about } else { format!("{about}.") };
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").replace("\n       ", "\n");
    let _ = write!(text, "\n{level} `{name}`\n\n{}\n\n```text\n{usage}\n```\n", prose(&about));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlias: {}\n", aliases.join(", "));
    }
    if command.has_subcommands() {
        text.push_str("\n| Command | Description |\n|---|---|\n");
        for inner in command.get_subcommands() {
            let words = format!("{name} {}", inner.get_name());
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(
                text,
                "| [`{}`](#{}) | {} |",
                inner.get_name(),
                words.replace(' ', "-"),
                cell(&about)
            );
        }
    }
    arguments(command, path.is_empty(), text);
    if let Some(after) = command.get_after_help() {
        let _ = write!(text, "\n```text\n{after}\n```\n");
    }
    for inner in command.get_subcommands() {
        let path: Vec<&str> = path.iter().copied().chain([inner.get_name()]).collect();
        section(inner, &path, text);
    }
}

/// A table of arguments and options. Those that every command has stand only with the program itself.
fn arguments(command: &Command, is_root: bool, text: &mut String) {
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && (is_root || arg.get_help_heading() != Some("Global options"));
    let mut heading = None;
    for arg in command.get_arguments().filter(is_shown) {
        let own = arg.get_help_heading().unwrap_or("Option");
        if heading != Some(own) {
            heading = Some(own);
            let _ = write!(text, "\n| {own} | Description |\n|---|---|\n");
        }
        let _ = writeln!(text, "| {} | {} |", spelling(arg), description(arg));
    }
}

fn spelling(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    // clap writes `--name <value>` and `<value>`.
    let name = cell(&arg.to_string());
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let aliases: String = aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
    format!("{}`{name}`{aliases}", short.unwrap_or_default())
}

fn description(arg: &Arg) -> String {
    let mut text = prose(&cell(&arg.get_help().map(ToString::to_string).unwrap_or_default()));
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values() && !arg.is_hide_possible_values_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        let _ = write!(text, " (values: {})", values.join(", "));
    }
    if let [default] = arg.get_default_values()
        && arg.get_action().takes_values()
    {
        let _ = write!(text, " (default: `{}`)", default.to_string_lossy());
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Escapes what would be read as markup, outside of code.
fn prose(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(index, piece)| match index % 2 {
        0 => piece.replace('<', "&lt;").replace("**", "\\*\\*").replace('~', "\\~"),
        _ => piece.to_owned(),
    });
    pieces.collect::<Vec<_>>().join("`")
}
