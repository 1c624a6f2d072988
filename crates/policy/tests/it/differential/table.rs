//! Lines made from the policy's own table of programs: every row with its options, in every way to write them, and
//! with options that it does not list. What the table says of a program is thereby compared with the program.

use std::sync::OnceLock;

use super::words;
use pollux_test_support::chance::Chance;

const TABLE: &str = include_str!("../../../commands/programs.table");

struct Row {
    name: String,
    operands: Vec<&'static str>,
    options: Vec<&'static str>,
    /// Options are whole words behind one dash.
    words: bool,
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut rows: Vec<Row> = Vec::new();
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        let (mut first, mut in_group) = (0, false);
        for line in TABLE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if let Some(options) = line.strip_prefix("  ") {
                let options: Vec<&str> = match options.trim().strip_prefix("use ") {
                    Some(group) => groups
                        .iter()
                        .filter(|(name, _)| *name == group)
                        .flat_map(|(_, all)| all.clone())
                        .collect(),
                    None => options.split_whitespace().collect(),
                };
                if in_group {
                    groups.last_mut().unwrap().1.extend(options);
                } else {
                    rows[first..].iter_mut().for_each(|row| row.options.extend(&options));
                }
                continue;
            }
            first = rows.len();
            in_group = line.starts_with('[') && line.ends_with(']');
            if in_group {
                groups.push((line.trim_matches(['[', ']']), Vec::new()));
                continue;
            }
            let Some((names, rest)) = line.rsplit_once(": ") else { continue };
            let (kinds, traits) = rest.split_once(';').unwrap_or((rest, ""));
            if names.starts_with("ask ") || traits.contains("loose") || names == "tee" {
                continue;
            }
            rows.extend(names.split_whitespace().map(|name| {
                Row {
                    name: name
                        .replace('/', " ")
                        .replace("reflog-", "reflog ")
                        .replace("stash-", "stash ")
                        .replace("remote-", "remote "),
                    operands: kinds.split_whitespace().filter(|kind| *kind != "none").collect(),
                    options: Vec::new(),
                    words: traits.contains("words"),
                }
            }));
        }
        rows
    })
}

/// A command of the table.
pub(super) fn command(chance: &mut Chance) -> String {
    let row = chance.pick(rows());
    let mut arguments: Vec<String> = Vec::new();
    for _ in 0..chance.below(3) {
        arguments.extend(option(row, chance));
    }
    if chance.one_in(12) {
        arguments.push((*chance.pick(words::OPTIONS)).to_owned());
    }
    for operand in &row.operands {
        let (kind, count) = match (operand.strip_suffix('*'), operand.strip_suffix('?')) {
            (Some(kind), _) => (kind, chance.below(3)),
            (_, Some(kind)) => (kind, chance.below(2)),
            _ => (*operand, 1),
        };
        for _ in 0..count {
            let value = value(kind, chance);
            let at = if chance.one_in(6) { chance.below(arguments.len() + 1) } else { arguments.len() };
            arguments.insert(at, value);
        }
    }
    if arguments.is_empty() {
        return row.name.clone();
    }
    format!("{} {}", row.name, arguments.join(" "))
}

/// An option in one of the ways in which it can be written.
fn option(row: &Row, chance: &mut Chance) -> Option<String> {
    if row.options.is_empty() {
        return None;
    }
    let token = *chance.pick(&row.options);
    if token == "-#" {
        return Some("-3".to_owned());
    }
    let token = token.trim_end_matches('!');
    let token = token.split_once('=').map_or(token, |(name, _)| name);
    let (name, kind) = token.split_once(':').unwrap_or((token, ""));
    if kind.is_empty() {
        let is_cluster = !name.starts_with("--") && !row.words;
        let letters: Vec<char> = name.trim_start_matches('-').chars().collect();
        return Some(match is_cluster {
            true if chance.one_in(3) => format!("-{}{}", chance.pick(&letters), chance.pick(&letters)),
            true => format!("-{}", chance.pick(&letters)),
            // Programs complete the beginnings of long options.
            false if name.len() > 6 && chance.one_in(6) => name.chars().take(name.len() - 2).collect(),
            false => name.to_owned(),
        });
    }
    let value = value(kind.trim_end_matches('?'), chance);
    let joint = match (kind.ends_with('?'), name.starts_with("--"), row.words) {
        (_, _, true) => " ",
        (true, true, _) => "=",
        (true, false, _) => "",
        (false, true, _) => chance.pick(&["=", " "]),
        (false, false, _) => chance.pick(&["", " "]),
    };
    if kind.ends_with('?') && chance.one_in(2) {
        return Some(name.to_owned());
    }
    Some(format!("{name}{joint}{value}"))
}

fn value(kind: &str, chance: &mut Chance) -> String {
    let among = match kind {
        "number" => words::NUMBERS,
        "sed" => words::SED,
        "awk" => words::AWK,
        "jq" => words::JQ,
        "glob" | "skip" | "skipdir" | "type" => words::GLOBS,
        "key" => words::KEYS,
        "given" => words::ENVIRONMENT,
        "command" => words::INNER,
        "out" => words::OUTPUTS,
        "text" | "+text" | "pair" | "bsd" | "shown" | "listing" => words::TEXTS,
        _ => return words::operand(chance).to_owned(),
    };
    (*chance.pick(among)).to_owned()
}
