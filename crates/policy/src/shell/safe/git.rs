//! What git shows without changing anything.

use super::{Files, gives};
use crate::shell::{Part, git};

/// Whether a git command only reads, and only here.
pub(super) fn reads(part: &Part, arguments: &[&str], files: &Files<'_>) -> bool {
    let place = git::subcommand_place(&part.words);
    let own = arguments.get(..place.saturating_sub(1).min(arguments.len())).unwrap_or_default();
    let mut globals = own.iter();
    while let Some(option) = globals.next() {
        match *option {
            "--no-pager" | "--no-optional-locks" => {}
            "-C" if globals.next().is_some_and(|path| files.allow(&[path])) => {}
            _ => return false,
        }
    }
    let Some((subcommand, rest)) = arguments.get(own.len()..).and_then(<[&str]>::split_first) else {
        return own.is_empty();
    };
    let wild = [
        "--output",
        "--ext-diff",
        "--textconv",
        "--exec",
        "--no-index",
        "--open-files-in-pager",
        "--upload-pack",
        "--contents",
        "--output-directory",
        "--paginate",
        "--filters",
        "--show-signature",
    ];
    // Where servers' keys are kept.
    let touchy = |a: &&str| {
        let a = a.to_ascii_lowercase();
        ["extraheader", "token", "pass", "secret", "cookie", "credential"].iter().any(|word| a.contains(word))
    };
    let signs = rest.iter().any(|a| a.contains("%G"));
    if signs || gives(rest, &wild, &[]) || rest.iter().any(|a| a.starts_with("-O")) || !files.allow(rest) {
        return false;
    }
    let listing = |flags: &[&str], opening: &[&str]| {
        let opened = rest.iter().any(|a| opening.iter().any(|o| a == o || a.starts_with(&format!("{o}="))));
        rest.iter().all(|a| {
            if a.starts_with('-') {
                [flags, opening].concat().iter().any(|f| a == f || a.starts_with(&format!("{f}=")))
            } else {
                opened
            }
        })
    };
    match *subcommand {
        "status" | "log" | "diff" | "show" | "rev-parse" | "ls-files" | "blame" | "describe" | "shortlog"
        | "rev-list" | "cat-file" | "ls-tree" | "merge-base" | "name-rev" | "for-each-ref" | "grep"
        | "count-objects" | "check-ignore" | "diff-tree" | "show-ref" | "cherry" | "whatchanged"
        | "version" | "diff-index" | "diff-files" | "annotate" | "range-diff" | "check-attr" => true,
        "branch" => listing(
            &[
                "-a",
                "-r",
                "-v",
                "-vv",
                "-av",
                "-avv",
                "-rv",
                "-ra",
                "--all",
                "--remotes",
                "--verbose",
                "--show-current",
                "--sort",
                "--format",
                "--column",
                "--no-color",
                "--color",
                "--no-column",
            ],
            &["-l", "--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"],
        ),
        "tag" => listing(
            &["-n", "--sort", "--format", "--column"],
            &["-l", "--list", "--contains", "--points-at", "--merged", "--no-merged"],
        ),
        "remote" => matches!(rest, [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => matches!(rest.first(), Some(&("list" | "show"))),
        "worktree" => rest.first() == Some(&"list"),
        "reflog" => rest.first().is_none_or(|a| *a == "show" || a.starts_with('-')),
        "config" if rest.iter().any(touchy) => false,
        "config" => {
            matches!(rest, ["--get" | "--get-all" | "get", ..])
                || matches!(rest, [key] if !key.starts_with('-') && key.contains('.'))
        }
        "symbolic-ref" => {
            rest.iter().filter(|a| !a.starts_with('-')).count() == 1 && !gives(rest, &["--delete"], &['d'])
        }
        _ => false,
    }
}
