//! What git shows without changing anything.

use super::{How, Read, Reads, files, read, subcommand};
use crate::disk::finds_any;
use crate::secrets::samples;
use crate::shell::arguments::Arguments;
use crate::shell::{Part, Pattern, git, lists, programs};

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
    // The settings are those of the repository that git uses.
    let folders = own.windows(2).filter(|pair| pair.first() == Some(&"-C")).filter_map(|pair| pair.get(1));
    let folder = folders.fold(String::from("."), |folder, next| match next.starts_with('/') {
        true => (*next).to_owned(),
        false => format!("{folder}/{next}"),
    });
    let shown = files("git", program, &Arguments::read(program, rest)?)?;
    all.extend(shown.into_iter().map(|read| match read.how {
        How::Remotes => Read { path: folder.clone(), how: How::Remotes },
        _ => read,
    }));
    Some(Reads { all, needs_trust: true, program: None })
}

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

/// A commit, a file of one, or a file.
pub(super) fn named(text: &str) -> Option<Read> {
    // Git's own ways to choose files.
    if text.starts_with(':') || may_be_untracked(text) {
        return None;
    }
    let path = text.rsplit_once(':').map_or(text, |(_, path)| path);
    // Git expands patterns itself.
    let last = path.rsplit('/').next().unwrap_or_default();
    if path.contains(['*', '?', '[']) && samples().any(|name| finds_any(last, &name)) {
        return None;
    }
    read(path, How::Contents)
}

/// Whether a revision may be the files that a stash keeps besides the tracked ones: its third parent.
pub(crate) fn may_be_untracked(text: &str) -> bool {
    let parent = |rest: &str| {
        let digits: String = rest.trim_start_matches('-').chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().map_or(!digits.is_empty(), |number| number > 2)
    };
    let is_stash = text.contains("stash");
    text.match_indices('^')
        .filter_map(|(at, _)| text.get(at + 1..))
        .any(|rest| parent(rest) || is_stash && (rest.starts_with('@') || rest.starts_with("{/")))
        || text.starts_with(":/untracked")
}

/// Whether a key of the configuration may be shown. Others may hold a password, such as that of a proxy.
pub(crate) fn is_open_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let last = key.rsplit('.').next().unwrap_or_default();
    let is_remote =
        (key.starts_with("remote.") || key.starts_with("submodule.")) && lists::holds("git/open-part", last);
    let touchy = ["extraheader", "token", "pass", "secret", "cookie", "credential"];
    let is_open = is_remote
        || lists::holds("git/open-key", &key)
        || lists::list("git/open-section").iter().any(|section| key.starts_with(*section));
    is_open && (is_remote || !touchy.iter().any(|word| key.contains(word)))
}
