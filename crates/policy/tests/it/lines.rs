//! The corpus files.

pub(crate) const COMMANDS: &str = include_str!("../../corpus/commands.tsv");
pub(crate) const RUNNABLE: &str = include_str!("../../corpus/runnable.tsv");
pub(crate) const HOSTILE: &str = include_str!("../../corpus/hostile.tsv");
pub(crate) const RULED: &str = include_str!("../../corpus/ruled.tsv");
pub(crate) const TRACKED: &str = include_str!("../../corpus/tracked.tsv");
pub(crate) const EVERYDAY: &str = include_str!("../../corpus/everyday.tsv");

/// The lines of a table with their numbers, split at tabs.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = table.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines.map(|(i, line)| (i + 1, line.split('\t').collect()))
}

/// A command as the tables write it.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('0') => plain.push('\0'),
            Some('u') => {
                let code: String = characters.by_ref().take(4).collect();
                plain.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}
