//! Recognises destructive commands and describes what they would destroy.
//!
//! Used for the warning in approval prompts and to limit what a rule covers; it does not allow or deny by
//! itself. The table `commands/dangers.table` lists the commands; this module
//! handles those that the words alone do not identify.

mod table;

use self::table::Harm;
use super::reach::subcommand;
use super::{ANY_FOLDERS, ANY_NAME, Part, Pattern, git, names};

/// Names of lost files that are listed in one sentence.
const NAMED: usize = 3;
/// Placeholder where the words do not name the files.
const BY_INPUT: &str = "the files named in its input";
const AT_RUN_TIME: &str = "files only known at run time";
/// Characters of a command that are quoted after a sentence.
const SHOWN: usize = 60;

/// Why a command is irreversibly destructive, if it is. The text is the same for every command of this kind.
pub fn is_dangerous(part: &Part) -> Option<String> {
    harm(part).map(|harm| harm.reason.to_owned())
}

/// What `git checkout` is given alone: a branch, or files of that name.
pub(crate) fn checked_out(part: &Part) -> Option<&str> {
    if part.words.first()?.as_deref().map(names::base) != Some("git") {
        return None;
    }
    let place = git::subcommand_place(&part.words);
    let mut rest = part.words.get(place..)?.iter().flatten().map(String::as_str);
    if rest.next() != Some("checkout") {
        return None;
    }
    let rest: Vec<&str> = rest.collect();
    let creates = |word: &&str| word.starts_with("-b") || word.starts_with("--orph");
    let mut operands = rest.iter().filter(|word| !word.starts_with('-'));
    operands.next().copied().filter(|_| !rest.iter().any(creates))
}

impl Part {
    /// What the command would destroy, as a sentence that names it; also for a plain `rm`, which is left to
    /// the rules.
    pub fn destruction(&self) -> Option<String> {
        let program = self.words.first().and_then(Option::as_deref).map(names::base);
        let harm = harm(self).or_else(|| match program {
            Some("rm" | "unlink") => Some(Harm::named("deletes files", "deletes {}")),
            _ => None,
        })?;
        let names = self.lost(program.unwrap_or_default());
        let told = match harm.told.filter(|_| !names.is_empty()) {
            Some(told) => {
                let unknown = [BY_INPUT, AT_RUN_TIME];
                let is_one = matches!(names.as_slice(), [one] if !unknown.contains(&one.as_str()));
                let is_one = is_one && self.patterns.is_empty();
                let it = if is_one { "it" } else { "them" };
                told.replace("{it}", it).replace("{}", &listed(&names))
            }
            None => {
                let shown: String = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
                let cut = if shown.chars().nth(SHOWN).is_some() { "…" } else { "" };
                // A reset to another commit loses those after it as well.
                let resets =
                    program == Some("git") && self.words.iter().flatten().any(|word| word == "reset");
                let elsewhere = resets
                    && self.words.last().is_some_and(|word| {
                        word.as_deref()
                            .is_none_or(|word| !word.starts_with('-') && word != "HEAD" && word != "reset")
                    });
                let more = if elsewhere { " and later commits" } else { "" };
                format!("{}{more} ({}{cut})", harm.reason, shown.chars().take(SHOWN).collect::<String>())
            }
        };
        Some(told)
    }

    /// The names of the targets in the words.
    fn lost(&self, program: &str) -> Vec<String> {
        let first = if program == "git" { git::subcommand_place(&self.words) + 1 } else { 1 };
        if self.words.is_empty() {
            let target = self.text.rsplit('>').next().map(str::trim).filter(|target| !target.is_empty());
            return target.map(str::to_owned).into_iter().collect();
        }
        let mut named = Vec::new();
        let mut options = true;
        for (place, word) in self.words.iter().enumerate().skip(first) {
            match word.as_deref() {
                Some("--") => options = false,
                Some(word) if program == "dd" => named.extend(word.strip_prefix("of=").map(str::to_owned)),
                Some(word) if options && word.starts_with('-') && word.len() > 1 => {}
                Some("delete") if program == "kubectl" => named.clear(),
                Some(word) => named.push(word.to_owned()),
                None => {
                    let pattern = self.patterns.iter().find(|pattern| pattern.at == place);
                    named.push(pattern.map_or_else(|| AT_RUN_TIME.to_owned(), in_stars));
                }
            }
        }
        match program {
            // The rest is the source.
            "mv" | "rsync" => named.split_off(named.len().saturating_sub(1)),
            // The mode or the owner comes first.
            "chmod" | "chown" | "chgrp" if named.len() > 1 => named.split_off(1),
            // `xargs rm`: the targets are in its input.
            "rm" | "unlink" if named.is_empty() => vec![BY_INPUT.to_owned()],
            _ => named,
        }
    }
}

/// A pattern in the notation that users write.
fn in_stars(pattern: &Pattern) -> String {
    pattern.text.replace(ANY_FOLDERS, "**").replace(ANY_NAME, "*")
}

/// `a, b and c`, or the first of many.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if names.len() <= NAMED => format!("{} and {last}", first.join(", ")),
        _ => {
            let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
            format!("{} and {} more", first.join(", "), names.len() - NAMED)
        }
    }
}

impl Harm {
    fn plain(reason: &'static str) -> Self {
        Self { reason, told: None }
    }

    fn named(reason: &'static str, told: &'static str) -> Self {
        Self { reason, told: Some(told) }
    }
}

fn harm(part: &Part) -> Option<Harm> {
    let text = &part.text;
    let devices = ["/dev/sd", "/dev/nvme", "/dev/hd", "/dev/vd", "/dev/disk", "/dev/mapper", "/dev/mem"];
    if text.contains('>') && devices.iter().any(|device| text.contains(device)) {
        return Some(Harm::plain("overwrites a disk device"));
    }
    let Some(first) = part.words.first() else {
        return text.contains('>').then(|| Harm::named("empties or creates a file", "empties or creates {}"));
    };
    let Some(program) = first else { return None };
    let name = names::base(program);
    let arguments: Vec<Option<&str>> = part.words.iter().skip(1).map(Option::as_deref).collect();
    let known: Vec<&str> = arguments.iter().copied().flatten().collect();
    let call = Invocation { known: &known, any_unknown: known.len() != arguments.len(), part };
    call.harm(name)
}

struct Invocation<'a> {
    known: &'a [&'a str],
    any_unknown: bool,
    part: &'a Part,
}

impl Invocation<'_> {
    fn long(&self, options: &[&str]) -> bool {
        // Long options may be abbreviated.
        self.known.iter().any(|a| {
            let given = a.split('=').next().unwrap_or_default();
            given.len() > 2 && given.starts_with("--") && options.iter().any(|o| o.starts_with(given))
        })
    }

    fn short(&self, letters: &[char]) -> bool {
        self.known.iter().any(|a| a.starts_with('-') && !a.starts_with("--") && a.contains(letters))
    }

    fn harm(&self, name: &str) -> Option<Harm> {
        if let Some(harm) = table::harm(name, self.known) {
            return Some(harm);
        }
        let harm = match name {
            // `rm` with words known only at run time may be anything.
            "rm" if self.any_unknown && self.part.patterns.is_empty() => {
                Harm::named("deletes files that are only known at run time", "deletes {}")
            }
            "rm" if !self.part.patterns.is_empty() => {
                Harm::named("deletes files by pattern", "deletes every file that matches {}")
            }
            ":" | "true" if self.part.text.contains('>') => Harm::plain("empties a file"),
            "kill" | "pkill" | "killall" if self.known.contains(&"-1") && self.known.len() > 1 => {
                Harm::plain("kills all of your processes")
            }
            "git" => return self.git(),
            _ => {
                let verb = subcommand(self.part)
                    .or_else(|| self.known.iter().copied().find(|a| !a.starts_with(['-', '+'])))?;
                return table::harm(&format!("{name}/{verb}"), self.known);
            }
        };
        Some(harm)
    }

    /// Whether `git checkout` is given files instead of a branch.
    fn overwrites(&self) -> bool {
        let operands: Vec<&&str> = self.known.iter().filter(|a| !a.starts_with('-') || **a == "-").collect();
        let creates = self.short(&['b', 't']) || self.long(&["--orphan", "--track", "--detach"]);
        let is_file = |text: &str| {
            let name = text.rsplit('/').next().unwrap_or_default();
            let end = name.rsplit_once('.').map(|(_, end)| end).unwrap_or_default();
            text == "."
                || text.starts_with(':')
                || text.contains(['*', '?', '['])
                || text.ends_with('/')
                || !end.is_empty() && end.len() < 6 && end.chars().all(|c| c.is_ascii_alphabetic())
        };
        self.any_unknown && operands.is_empty()
            || self.short(&['p'])
            || self.long(&["--pathspec-from-file", "--patch"])
            || !creates && (operands.len() > 1 || operands.iter().any(|operand| is_file(operand)))
    }

    fn git(&self) -> Option<Harm> {
        let place = git::subcommand_place(&self.part.words);
        let subcommand = self.part.words.get(place)?.as_deref()?;
        let rest: Vec<&str> = self.part.words.iter().skip(place + 1).flatten().map(String::as_str).collect();
        let call = Invocation { known: &rest, any_unknown: self.any_unknown, part: self.part };
        let harm = table::harm(&format!("git/{subcommand}"), &rest);
        harm.or_else(|| match subcommand {
            "push" if rest.iter().skip(1).any(|a| a.starts_with(['+', ':'])) => {
                Some(Harm::plain("rewrites or deletes published commits"))
            }
            "checkout" if call.overwrites() => Some(Harm::plain("discards uncommitted changes")),
            _ => None,
        })
    }
}
