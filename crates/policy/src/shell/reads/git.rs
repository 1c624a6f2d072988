//! What git shows without changing anything.

use super::{How, Read, Reads, files, read, subcommand};
use crate::disk::finds_any;
use crate::secrets::samples;
use crate::shell::arguments::Arguments;
use crate::shell::{Part, Pattern, git, programs};

/// The files that a git command reads, if it is read-only and local.
pub(super) fn reads(part: &Part, arguments: &[&str]) -> Option<Reads> {
    if !part.data.is_empty() || part.patterns.iter().any(Pattern::may_be_an_option) {
        return None;
    }
    let place = git::subcommand_place(&part.words).saturating_sub(1).min(arguments.len());
    let (own, rest) = arguments.split_at_checked(place)?;
    let mut all = files("git", programs::program("git")?, &Arguments::read(programs::program("git")?, own)?)?;
    if rest.is_empty() {
        return own.is_empty().then(|| Reads { needs_trust: true, ..Reads::default() });
    }
    // A signature is checked by a program that the folder may name.
    if shows_signatures(rest) {
        return None;
    }
    let (program, rest) = subcommand("git", rest)?;
    all.extend(files("git", program, &Arguments::read(program, rest)?)?);
    Some(Reads { all, needs_trust: true, program: None })
}

/// A commit, a file of one, or a file.
pub(super) fn named(text: &str) -> Option<Read> {
    // Git's own ways to choose files.
    if text.starts_with(':') {
        return None;
    }
    let path = text.rsplit_once(':').map_or(text, |(_, path)| path);
    // Git expands patterns itself.
    let last = path.rsplit('/').next().unwrap_or_default();
    if path.contains(['*', '?', '[']) && samples().any(|name| finds_any(last, &name)) {
/// Whether formats or orders of git may need signatures: `%G?`, `%+GS`, `%(signature:key)`, `--sort=-signature`.
fn shows_signatures(words: &[&str]) -> bool {
    let mut sorts = false;
    words.iter().any(|word| {
        let by_value = std::mem::replace(&mut sorts, word.starts_with("--so"));
        let orders = (by_value || sorts || word.contains("%(")) && word.contains("signature");
        let starts = |text: &str| text.trim_start_matches(['+', '-', ' ']).starts_with('G');
        orders || word.split('%').skip(1).any(starts)
    })
}

        return None;
    }
    read(path, How::Contents)
}

/// Whether a key of the configuration may be shown: servers' keys are kept there.
pub(super) fn is_open_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let touchy = ["extraheader", "token", "pass", "secret", "cookie", "credential"];
    !key.starts_with('-') && key.contains('.') && !touchy.iter().any(|word| key.contains(word))
}
