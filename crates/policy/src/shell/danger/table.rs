//! The table `commands/dangers.table`: which commands destroy something, and what it says about them.

use std::sync::OnceLock;

const TABLE: &str = include_str!("../../../commands/dangers.table");

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Harm {
    pub reason: &'static str,
    /// The same with `{}` for the names of the targets, where the words name them.
    pub told: Option<&'static str>,
}

struct Row {
    names: Vec<&'static str>,
    conditions: Vec<&'static str>,
    harm: Harm,
}

fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| lines().filter_map(row).collect())
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn row(line: &'static str) -> Option<Row> {
    let (names, rest) = line.split_once(": ")?;
    let (conditions, harm) = rest.split_once(" => ")?;
    let (reason, told) = harm.split_once(" | ").map_or((harm, None), |(reason, told)| (reason, Some(told)));
    Some(Row {
        names: names.split_whitespace().collect(),
        conditions: conditions.split_whitespace().collect(),
        harm: Harm { reason, told },
    })
}

/// The damage that a program, or `program/subcommand`, does with these arguments.
pub(super) fn harm(name: &str, arguments: &[&str]) -> Option<Harm> {
    let is_named = |known: &&str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *known == name,
    };
    let fits = |row: &&Row| row.names.iter().any(is_named) && row.applies(arguments);
    rows().iter().find(fits).map(|row| row.harm)
}

impl Row {
    fn applies(&self, arguments: &[&str]) -> bool {
        let mut arguments = arguments.to_vec();
        for option in self.conditions.iter().filter_map(|condition| condition.strip_prefix('~')) {
            arguments = without_value(option, &arguments);
        }
        let arguments = arguments.as_slice();
        // An option behind `--` is none.
        let options = arguments.split(|word| *word == "--").next().unwrap_or_default();
        let mut wanted =
            self.conditions.iter().filter(|condition| !condition.starts_with(['!', '~'])).peekable();
        let mut excluded = self.conditions.iter().filter_map(|condition| condition.strip_prefix('!'));
        (wanted.peek().is_none() || wanted.any(|condition| is_met(condition, arguments)))
            && !excluded.any(|condition| is_met(condition, options))
    }
}

/// The arguments without the value of an option: `-e x`, `-ex`, `-fde x`, `--exclude x`.
fn without_value<'a>(option: &str, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let letter = option.strip_prefix('-').filter(|letter| !letter.starts_with('-'));
        let place = letter.filter(|_| word.starts_with('-') && !word.starts_with("--"));
        if let Some(place) = place.and_then(|letter| word.find(letter)) {
            let (before, after) = word.split_at(place);
            kept.push(before);
            if after.len() == 1 {
                rest.next();
            }
            continue;
        }
        kept.push(*word);
        if word.len() > 2 && word.starts_with("--") && option.starts_with(word) {
            rest.next();
        }
    }
    kept
}

fn is_met(condition: &str, arguments: &[&str]) -> bool {
    condition == "always" || condition.split('&').all(|one| arguments.iter().any(|word| is_given(one, word)))
}

fn is_given(condition: &str, word: &str) -> bool {
    if let Some(exact) = condition.strip_prefix('=') {
        return match exact.strip_suffix('*') {
            Some(start) => word.starts_with(start),
            None => word == exact,
        };
    }
    if condition.starts_with("--") {
        // Long options may be abbreviated.
        let given = word.split('=').next().unwrap_or_default();
        return given.len() > 2 && given.starts_with("--") && condition.starts_with(given);
    }
    let letters: Vec<char> = condition.chars().skip(1).collect();
    word.starts_with('-') && !word.starts_with("--") && word.contains(letters.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_of_dangers_is_read() {
        let unread: Vec<&str> = lines().filter(|line| row(line).is_none()).collect();
        assert_eq!(unread, [""; 0]);
        let is_condition = |word: &&str| {
            let word = word.trim_start_matches(['!', '~']);
            *word == *"always" || word.split('&').all(|one| one.starts_with(['-', '=']))
        };
        let odd: Vec<&str> = rows()
            .iter()
            .flat_map(|row| &row.conditions)
            .filter(|word| !is_condition(word))
            .copied()
            .collect();
        assert_eq!(odd, [""; 0]);
        assert!(rows().len() > 45);
    }

    #[test]
    fn conditions_mean_what_the_table_says() {
        let reason = |name: &str, arguments: &[&str]| harm(name, arguments).map(|harm| harm.reason);
        assert_eq!(reason("rm", &["-vr", "x"]), Some("deletes files without asking"));
        assert_eq!(reason("rm", &["--recurs", "x"]), Some("deletes files without asking"));
        assert_eq!(reason("rm", &["x"]), None);
        assert_eq!(reason("git/clean", &["-d"]), Some("deletes untracked files"));
        assert_eq!(reason("git/clean", &["-dn"]), None);
        assert_eq!(reason("git/restore", &["--staged", "a"]), None);
        assert_eq!(reason("git/restore", &["--staged", "-W", "a"]), Some("discards uncommitted changes"));
        assert_eq!(reason("docker", &["rm", "x"]), None);
        assert_eq!(reason("docker", &["rm", "-f", "x"]), Some("deletes containers, images or volumes"));
        assert_eq!(reason("mkfs.ext4", &["/dev/sda"]), Some("formats a disk"));
        assert_eq!(reason("dd", &["of=x"]), Some("overwrites a file or device"));
    }
}
