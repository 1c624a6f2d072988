//! Commands that only read, with arguments that keep them so.

use super::scripts::{awk_is_tame, sed_script_is_tame};
use super::{Part, git, names, variables};

/// Programs that print without opening any file.
const TALKERS: &[&str] = &[
    ":", "true", "false", "echo", "expr", "id", "pwd", "seq", "uname", "which", "whoami", "basename",
    "dirname", "test", "[", "[[", "type", "uptime", "arch", "nproc", "free", "sleep", "cal", "tty", "groups",
    "exit", "return", "break", "continue", "shift", "times",
];

/// Programs that read the files they are given, whatever their options.
const READERS: &[&str] = &[
    "cat",
    "cut",
    "grep",
    "egrep",
    "fgrep",
    "head",
    "ls",
    "nl",
    "paste",
    "rev",
    "stat",
    "tail",
    "tr",
    "wc",
    "numfmt",
    "tac",
    "diff",
    "cmp",
    "comm",
    "du",
    "df",
    "realpath",
    "readlink",
    "column",
    "fold",
    "od",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
    "cksum",
    "b2sum",
    "sum",
    "strings",
    "hexdump",
    "join",
    "expand",
    "unexpand",
    "fmt",
    "zcat",
    "base32",
    "cd",
    "pushd",
    "popd",
    "lsblk",
    "pgrep",
    "pidof",
    "look",
    "tsort",
    "dir",
    "vdir",
];

/// Programs that read, but have options or operands that do not.
const CAREFUL: &[&str] = &[
    "sort", "uniq", "date", "tree", "xxd", "file", "hostname", "ps", "jq", "printf", "base64", "find", "rg",
    "fd", "sed", "awk", "gawk", "mawk", "git", "command", "set", "export", "declare", "local", "readonly",
    "typeset",
];

/// Tools that may be asked for their version.
const VERSIONED: &[&str] = &[
    "node",
    "npm",
    "npx",
    "yarn",
    "pnpm",
    "bun",
    "deno",
    "cargo",
    "rustc",
    "rustup",
    "rustfmt",
    "go",
    "python",
    "python3",
    "pip",
    "pip3",
    "uv",
    "java",
    "javac",
    "mvn",
    "gradle",
    "gcc",
    "g++",
    "clang",
    "make",
    "cmake",
    "ninja",
    "docker",
    "kubectl",
    "ruby",
    "gem",
    "perl",
    "php",
    "tsc",
    "git",
    "bash",
    "zsh",
    "curl",
    "wget",
    "gh",
    "terraform",
    "helm",
    "sqlite3",
    "psql",
    "dotnet",
    "swift",
    "zig",
    "jq",
    "rg",
    "sed",
    "awk",
    "tar",
    "ssh",
];

pub(super) fn is_listed(name: &str) -> bool {
    TALKERS.contains(&name) || READERS.contains(&name) || CAREFUL.contains(&name)
}

/// Whether a command only reads, and only files below where it runs. The command's doubts and redirections are the
/// caller's to judge.
pub fn is_known_safe(part: &Part) -> bool {
    is_known_safe_within(part, &|path| is_below(path))
}

/// As [`is_known_safe`], with the caller's idea of which files may be read.
pub fn is_known_safe_within(part: &Part, may_read: &dyn Fn(&str) -> bool) -> bool {
    if part.behind.iter().any(|w| matches!(w.as_str(), "sudo" | "doas" | "pkexec" | "chroot" | "xargs")) {
        return false;
    }
    if part.assignments.iter().any(|(name, value)| variables::is_risky(name, value.as_deref())) {
        return false;
    }
    let Some(words) = spelled(part) else { return false };
    let Some((program, arguments)) = words.split_first() else { return !part.assignments.is_empty() };
    let name = names::base(program);
    if name != *program
        && !matches!(*program, p if p == format!("/bin/{name}") || p == format!("/usr/bin/{name}"))
    {
        return false;
    }
    if arguments == ["--version"] && VERSIONED.contains(&name) {
        return true;
    }
    if CAREFUL.contains(&name)
        && part.patterns.iter().any(|(_, pattern)| pattern.starts_with(['*', '?', '[']))
    {
        return false;
    }
    let files = Files { may_read };
    if TALKERS.contains(&name) {
        return true;
    }
    if READERS.contains(&name) {
        return reader(name, arguments, &files);
    }
    careful(name, arguments, part, &files)
}

/// The words, with patterns standing for themselves; `None` if run time decides.
fn spelled(part: &Part) -> Option<Vec<&str>> {
    part.words
        .iter()
        .enumerate()
        .map(|(i, word)| match word {
            Some(word) => Some(word.as_str()),
            None => {
                part.patterns.iter().find(|(at, _)| *at == i && i > 0).map(|(_, pattern)| pattern.as_str())
            }
        })
        .collect()
}

/// A path that stays below the working directory, as far as its text tells.
fn is_below(path: &str) -> bool {
    !path.starts_with(['/', '\\']) && !path.split('/').any(|component| component == "..")
}

struct Files<'a> {
    may_read: &'a dyn Fn(&str) -> bool,
}

impl Files<'_> {
    /// Whether every argument that may be a file may be read. Option values count as files.
    fn allow(&self, arguments: &[&str]) -> bool {
        arguments.iter().all(|argument| {
            let value = match argument.strip_prefix('-') {
                Some("" | "-") => return true,
                Some(option) => match option.split_once('=') {
                    Some((_, value)) => value,
                    // `-f/etc/passwd`
                    None => match option.find(['/', '~']) {
                        Some(place) => option.split_at(place).1,
                        None => return !option.contains(".."),
                    },
                },
                None => argument,
            };
            let expands = value.starts_with('~') || value.contains(['$', '`']);
            matches!(value, "/dev/null" | "/dev/fd/63") || !expands && (self.may_read)(value)
        })
    }

    /// As `allow`, without the first operand, which is a pattern or script.
    fn allow_after_script(&self, arguments: &[&str]) -> bool {
        let script = arguments.iter().position(|a| !a.starts_with('-'));
        let rest: Vec<&str> =
            arguments.iter().enumerate().filter(|(i, _)| Some(*i) != script).map(|(_, a)| *a).collect();
        self.allow(&rest)
    }
}

fn reader(name: &str, arguments: &[&str], files: &Files<'_>) -> bool {
    match name {
        "cd" | "pushd" => matches!(arguments, [path] if *path != "-" && files.allow(&[path])),
        "grep" | "egrep" | "fgrep" => {
            let names_pattern = arguments.iter().any(|a| {
                a.starts_with("--regexp")
                    || a.starts_with("--file")
                    || a.starts_with('-') && !a.starts_with("--") && a.contains(['e', 'f'])
            });
            if names_pattern { files.allow(arguments) } else { files.allow_after_script(arguments) }
        }
        "tr" => true,
        "hexdump" | "cut" | "numfmt" | "paste" | "column" | "join" => {
            files.allow(&without_values(arguments, &["-e", "-d", "-s", "-f", "-c", "-t"]))
        }
        "df" | "pgrep" | "pidof" | "popd" => true,
        _ => files.allow(arguments),
    }
}

/// Leaves out options that stand apart from their values.
fn without_values<'a>(arguments: &[&'a str], options: &[&str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut skip = false;
    for argument in arguments {
        if skip {
            skip = false;
        } else if options.contains(argument) {
            skip = true;
        } else {
            kept.push(*argument);
        }
    }
    kept
}

/// Whether an option is given; long ones may be shortened, short ones clustered.
fn gives(arguments: &[&str], long: &[&str], short: &[char]) -> bool {
    arguments.iter().take_while(|a| **a != "--").any(|argument| {
        if argument.starts_with("--") {
            let given = argument.split('=').next().unwrap_or_default();
            return given.len() > 3 && long.iter().any(|l| l.starts_with(given));
        }
        argument.starts_with('-') && argument.contains(short)
    })
}

fn careful(name: &str, arguments: &[&str], part: &Part, files: &Files<'_>) -> bool {
    let operands = || arguments.iter().filter(|a| !a.starts_with('-') || **a == "-").count();
    match name {
        "sort" => {
            !gives(arguments, &["--output", "--compress-program", "--temporary-directory"], &['o', 'T'])
                && files.allow(&without_values(arguments, &["-t", "-k"]))
        }
        "uniq" => {
            without_values(arguments, &["-f", "-s", "-w"]).iter().filter(|a| !a.starts_with('-')).count() <= 1
                && files.allow(arguments)
        }
        "date" => {
            let rest = without_values(arguments, &["-d", "--date"]);
            !gives(arguments, &["--set", "--file", "--reference"], &['s', 'f', 'r'])
                && rest.iter().all(|a| a.starts_with(['-', '+']))
        }
        "tree" => !gives(arguments, &["--output"], &['o', 'R']) && files.allow(arguments),
        "xxd" => {
            let rest = without_values(arguments, &["-l", "-s", "-c", "-g", "-o"]);
            !gives(arguments, &["--revert"], &['r'])
                && rest.iter().filter(|a| !a.starts_with('-')).count() <= 1
                && files.allow(&rest)
        }
        "file" => {
            !gives(
                arguments,
                &["--compile", "--magic-file", "--files-from", "--uncompress"],
                &['C', 'm', 'f', 'z', 'Z'],
            ) && files.allow(arguments)
        }
        "hostname" => arguments.is_empty(),
        "ps" => {
            !arguments.iter().any(|a| !a.starts_with('-') && a.contains('e'))
                && !gives(arguments, &["--environment"], &['E'])
        }
        "jq" => {
            let wild = arguments.iter().any(|a| {
                a.contains("env") || a.contains("$ENV") || a.contains("import") || a.contains("include")
            });
            !wild && !gives(arguments, &["--from-file"], &['f', 'L']) && files.allow_after_script(arguments)
        }
        "printf" => !arguments.first().is_some_and(|a| a.starts_with("-v")),
        "base64" => !gives(arguments, &["--output"], &['o']) && files.allow(arguments),
        "find" => find(arguments, files),
        "rg" => {
            !gives(arguments, &["--pre", "--hostname-bin", "--search-zip"], &['z', 'f'])
                && if gives(arguments, &["--regexp", "--files"], &['e']) {
                    files.allow(arguments)
                } else {
                    files.allow_after_script(arguments)
                }
        }
        "fd" => {
            !gives(arguments, &["--exec", "--exec-batch"], &['x', 'X']) && files.allow_after_script(arguments)
        }
        "sed" => sed(arguments, files),
        "awk" | "gawk" | "mawk" => awk(arguments, files),
        "git" => git_reads(part, arguments, files),
        "command" => matches!(arguments.first(), Some(&("-v" | "-V"))),
        "set" => {
            arguments.first().is_some_and(|a| a.starts_with(['-', '+']) && *a != "--") && operands() <= 1
        }
        "export" | "declare" | "local" | "readonly" | "typeset" => {
            !arguments.is_empty()
                && arguments.iter().all(|a| {
                    a.split_once('=')
                        .is_some_and(|(n, v)| super::word::is_name(n) && !variables::is_risky(n, Some(v)))
                })
        }
        _ => false,
    }
}

fn find(arguments: &[&str], files: &Files<'_>) -> bool {
    let acts = arguments.iter().any(|a| {
        matches!(*a, "-exec" | "-execdir" | "-ok" | "-okdir" | "-delete" | "-fls" | "-files0-from")
            || a.starts_with("-fprint")
    });
    let places: Vec<&str> = arguments
        .iter()
        .copied()
        .skip_while(|a| matches!(*a, "-L" | "-P" | "-H"))
        .take_while(|a| !a.starts_with('-') && *a != "(" && *a != "!")
        .collect();
    let references: Vec<&str> = arguments
        .windows(2)
        .filter(|pair| pair.first().is_some_and(|a| a.starts_with("-newer") || *a == "-samefile"))
        .filter_map(|pair| pair.get(1).copied())
        .collect();
    !acts && files.allow(&places) && files.allow(&references)
}

fn sed(arguments: &[&str], files: &Files<'_>) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "-e" | "--expression" => scripts.extend(words.next()),
            "--quiet" | "--silent" | "--regexp-extended" | "--null-data" => {}
            w if w.starts_with('-') && w.len() > 1 => {
                if !w.chars().skip(1).all(|c| matches!(c, 'n' | 'E' | 'r' | 's' | 'u' | 'z')) {
                    return false;
                }
            }
            _ => rest.push(*word),
        }
    }
    if scripts.is_empty() && !rest.is_empty() {
        let script = rest.remove(0);
        return sed_script_is_tame(script) && files.allow(&rest);
    }
    !scripts.is_empty() && scripts.iter().all(|s| sed_script_is_tame(s)) && files.allow(&rest)
}

fn awk(arguments: &[&str], files: &Files<'_>) -> bool {
    let rest = without_values(arguments, &["-F", "-v"]);
    let mut operands = rest.iter().filter(|a| !a.starts_with("-F") && !a.starts_with("-v"));
    let Some(program) = operands.next() else { return false };
    let others: Vec<&str> = operands.copied().collect();
    let reads_more = program.contains("ENVIRON") || program.contains("ARG") || program.contains("PROCINFO");
    !program.starts_with('-') && awk_is_tame(program) && !reads_more && files.allow(&others)
}

fn git_reads(part: &Part, arguments: &[&str], files: &Files<'_>) -> bool {
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
    ];
    if gives(rest, &wild, &[]) || rest.iter().any(|a| a.starts_with("-O")) || !files.allow(rest) {
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
        "config" => matches!(rest.first(), Some(&("--get" | "--get-all" | "get"))),
        "symbolic-ref" => {
            rest.iter().filter(|a| !a.starts_with('-')).count() == 1 && !gives(rest, &["--delete"], &['d'])
        }
        _ => false,
    }
}
