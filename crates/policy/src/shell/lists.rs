//! The lists of `commands/names.table` and `commands/covers.table`: what is known of variables, launchers, git's settings,
//! and subcommands.
//!
//! Knowledge about programs is data, not code; [`super::programs`] has the table of their arguments.

use std::collections::HashMap;
use std::sync::OnceLock;

const TABLE: &str =
    concat!(include_str!("../../commands/names.table"), include_str!("../../commands/covers.table"));

/// The words of a section; none if there is no such section.
pub(crate) fn list(section: &str) -> &'static [&'static str] {
    static READ: OnceLock<HashMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    READ.get_or_init(|| read(TABLE)).get(section).map_or(&[], Vec::as_slice)
}

pub(super) fn holds(section: &str, word: &str) -> bool {
    list(section).contains(&word)
}

/// The same, where `*` in a word of the list stands for any text.
pub(super) fn matches(section: &str, word: &str) -> bool {
    list(section).iter().any(|known| {
        let mut pieces = known.split('*');
        let start = pieces.next().unwrap_or_default();
        let Some(end) = pieces.next_back() else { return *known == word };
        let mut rest = word.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        for piece in pieces {
            rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, rest)| rest);
        }
        rest.is_some()
    })
}

fn read(text: &'static str) -> HashMap<&'static str, Vec<&'static str>> {
    let mut sections: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(words) => sections.entry(current).or_default().extend(words.split_whitespace()),
            None => current = line.trim_end_matches(':'),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_that_decisions_rest_on_is_read() {
        for (section, word) in [
            ("variable/risky", "BASH_ENV"),
            ("variable/risky-prefix", "LD_"),
            ("variable/harmless", "GIT_OPTIONAL_LOCKS"),
            ("variable/quiet", "RUST_BACKTRACE"),
            ("shell/names", "eval"),
            ("launcher/opaque", "ssh"),
            ("runs/tar", "--to-command"),
            ("git/known", "status"),
            ("git/runs", "difftool"),
            ("git/tame-key", "core.abbrev"),
            ("git/tame-section", "user."),
            ("git/text-option", "--message"),
            ("git/file-option", "--git-dir"),
            ("type/rust", "rs"),
            ("starts/zcat", "gzip"),
            ("verbs/npm", "test"),
            ("passed/gcc", "--as-needed"),
        ] {
            assert!(holds(section, word), "{section}: {word}");
        }
    }

    #[test]
    fn the_file_has_a_header_or_words_on_every_line_and_no_section_twice() {
        let mut seen = Vec::new();
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ' '])) {
            assert!(line.ends_with(':') && line.contains('/'), "{line}");
            assert!(!seen.contains(&line), "{line} twice");
            seen.push(line);
        }
    }
}
