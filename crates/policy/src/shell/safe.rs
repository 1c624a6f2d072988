//! Commands that only read, with arguments that keep them so.

mod git;

use super::scripts::{awk_is_tame, sed_script_is_tame};
use super::{Part, names, variables};

/// Programs that print without opening any file.
#[rustfmt::skip]
const TALKERS: &[&str] = &[
    ":", "true", "false", "echo", "expr", "id", "pwd", "seq", "uname", "which", "whoami", "basename", "dirname",
    "test", "[", "[[", "type", "uptime", "arch", "nproc", "free", "sleep", "cal", "tty", "groups", "exit", "return",
    "break", "continue", "shift", "times", "logname", "locale", "jobs", "dirs", "wait", "lscpu", "getconf", "whereis", "clear", "yes",
];

/// Programs that read the files they are given, whatever their options.
#[rustfmt::skip]
const READERS: &[&str] = &[
    "cat", "cut", "grep", "egrep", "fgrep", "head", "ls", "nl", "paste", "rev", "stat", "tail", "tr", "wc", "numfmt",
    "tac", "diff", "cmp", "comm", "du", "df", "realpath", "readlink", "column", "fold", "od", "md5sum", "sha1sum",
    "sha224sum", "sha256sum", "sha384sum", "sha512sum", "cksum", "b2sum", "sum", "strings", "hexdump", "join",
    "expand", "unexpand", "fmt", "zcat", "base32", "cd", "pushd", "popd", "lsblk", "pgrep", "pidof", "look", "tsort",
    "dir", "vdir", "pr", "bc",
];

/// Programs that read, but have options or operands that do not.
#[rustfmt::skip]
const CAREFUL: &[&str] = &[
    "sort", "uniq", "date", "tree", "xxd", "file", "hostname", "ps", "jq", "printf", "base64", "find", "rg", "fd",
    "sed", "awk", "gawk", "mawk", "git", "command", "set", "export", "declare", "local", "readonly", "typeset",
    "read", "tar", "unzip", "printenv", "npm", "tee", "tee",
];

/// Tools that may be asked for their version.
#[rustfmt::skip]
const VERSIONED: &[&str] = &[
    "node", "npm", "npx", "yarn", "pnpm", "bun", "deno", "cargo", "rustc", "rustup", "rustfmt", "go", "python",
    "python3", "pip", "pip3", "uv", "java", "javac", "mvn", "gradle", "gcc", "g++", "clang", "make", "cmake", "ninja",
    "docker", "kubectl", "ruby", "gem", "perl", "php", "tsc", "git", "bash", "zsh", "curl", "wget", "gh", "terraform",
    "helm", "sqlite3", "psql", "dotnet", "swift", "zig", "jq", "rg", "sed", "awk", "tar", "ssh", "rustdoc", "nextest",
    "eslint", "prettier", "jest", "vitest", "pytest", "ruff", "mypy", "black", "poetry", "pipenv", "composer",
    "bundle", "rake", "kotlin", "scala", "sbt", "ghc", "stack", "cabal", "elixir", "mix", "erl", "julia", "R", "lua",
    "ffmpeg", "openssl", "nginx", "redis-server", "mysql", "mongod", "ansible", "vagrant", "packer", "aws", "gcloud",
    "az", "code", "vim", "nvim", "emacs", "tmux", "less", "grep", "find", "ls", "cat", "head", "tail", "sort", "fd",
    "tree", "gmake", "ld", "clang++", "cc", "c++", "rust-analyzer", "cross", "wasm-pack", "trunk", "just", "task",
    "act", "hugo", "lld", "bat", "delta", "fzf", "parallel", "rsync", "zip", "unzip", "gzip", "xz", "zstd", "bzip2",
    "diff", "patch", "file", "date", "bc", "dc",
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
    if part.behind.iter().any(|w| matches!(w.as_str(), "sudo" | "doas" | "pkexec" | "chroot")) {
        return false;
    }
    let Some(words) = spelled(part) else { return false };
    let reads = words.first() == Some(&"read");
    if part
        .assignments
        .iter()
        .any(|(name, value)| variables::is_risky(name, value.as_deref()) && !(reads && name == "IFS"))
    {
        return false;
    }
    let Some((program, arguments)) = words.split_first() else { return !part.assignments.is_empty() };
    let name = names::base(program);
    if name != *program
        && !matches!(*program, p if p == format!("/bin/{name}") || p == format!("/usr/bin/{name}"))
    {
        return false;
    }
    let files = Files { may_read };
    if !part.data.is_empty() {
        return takes_data(name, arguments, part);
    }
    if asks_version(name, arguments) {
        return true;
    }
    let careful = CAREFUL.contains(&name);
    if careful && part.patterns.iter().any(|(_, pattern)| pattern.starts_with(['*', '?', '['])) {
        return false;
    }
    if TALKERS.contains(&name) {
        return name == "[[" || part.patterns.iter().all(|(_, pattern)| files.allow(&[pattern]));
    }
    if READERS.contains(&name) {
        return reader(name, arguments, &files);
    }
    careful && self::careful(name, arguments, part, &files)
}

fn asks_version(name: &str, arguments: &[&str]) -> bool {
    match arguments {
        ["--version"] => VERSIONED.contains(&name),
        ["-V"] => matches!(name, "python" | "python3" | "cargo" | "rustc" | "rustup"),
        ["-v"] => matches!(name, "node" | "npm" | "ruby" | "php" | "yarn" | "pnpm" | "tsc" | "git"),
        ["-version"] => matches!(name, "java" | "javac"),
        ["version"] => matches!(name, "go" | "terraform" | "npm" | "helm"),
        ["toolchain", "list"] => name == "rustup",
        _ => false,
    }
}

/// Whether a program may be given words that can be anything but a secret.
fn takes_data(name: &str, arguments: &[&str], part: &Part) -> bool {
    match name {
        // `-v` computes a subscript, and what is not quoted may bring it.
        "test" | "[" => {
            let adjacent = part.data.windows(2).any(|pair| matches!(pair, [a, b] if a.at + 1 == b.at));
            part.data.iter().all(|datum| datum.single)
                && !adjacent
                && !arguments.iter().any(|a| a.contains('[') || a.contains(['$', '`']))
        }
        "printf" => {
            part.data.iter().all(|datum| datum.at > 1)
                && !arguments.first().is_some_and(|a| a.starts_with("-v"))
        }
        "wait" => !arguments.iter().any(|a| a.starts_with("-p")),
        "[[" => true,
        _ => TALKERS.contains(&name) && part.patterns.is_empty(),
    }
}

/// The words, with patterns standing for themselves and nothing for data; `None` if run time decides.
fn spelled(part: &Part) -> Option<Vec<&str>> {
    part.words
        .iter()
        .enumerate()
        .map(|(i, word)| match word {
            Some(word) => Some(word.as_str()),
            None if part.data.iter().any(|datum| datum.at == i && i > 0) => Some(""),
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

/// Whether a file name pattern may find `..`.
fn finds_parent(pattern: &str) -> bool {
    pattern.split('/').any(|component| {
        let rest = component.trim_start_matches('.');
        rest.len() < component.len() && !rest.is_empty() && rest.chars().all(|c| "*?[].!^@()".contains(c))
    })
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
            let expands = value.starts_with('~') || value.contains(['$', '`']) || finds_parent(value);
            matches!(value, "/dev/null" | "/dev/fd/63") || !expands && (self.may_read)(value)
        })
    }

    /// As `allow`, without the first operand, which is a pattern or script. `texts` are the letters of options whose
    /// value is no file, `files` of those whose value is one; a long option that stands apart may have a value too, so
    /// that after it nothing counts as the script.
    fn allow_after_script(&self, arguments: &[&str], texts: &[char], long_texts: &[&str]) -> bool {
        let mut script_seen = false;
        let mut unsure = false;
        let mut rest = Vec::new();
        let mut words = arguments.iter().copied().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                unsure = false;
            } else if let Some(long) = word.strip_prefix("--") {
                rest.push(word);
                if long_texts.contains(&long) {
                    script_seen |= matches!(long, "regexp" | "file" | "from-file");
                    words.next();
                } else if !long.contains('=') {
                    unsure |= !LONG_FLAGS.contains(&long);
                } else {
                    script_seen |= long.starts_with("regexp=") || long.starts_with("file=");
                }
            } else if word.len() > 1
                && let Some(cluster) = word.strip_prefix('-')
            {
                rest.push(word);
                let valued = cluster.char_indices().find(|(_, c)| texts.contains(c) || *c == 'f');
                if let Some((place, letter)) = valued {
                    script_seen |= matches!(letter, 'e' | 'f');
                    let apart = place + letter.len_utf8() == cluster.len();
                    if apart && let Some(value) = words.next().filter(|_| letter == 'f') {
                        rest.push(value);
                    }
                }
            } else if script_seen || unsure {
                rest.push(word);
            } else {
                script_seen = true;
            }
        }
        self.allow(&rest)
    }
}

/// Long options of the searching programs that stand alone.
#[rustfmt::skip]
const LONG_FLAGS: &[&str] = &[
    "color", "colour", "count", "ignore-case", "invert-match", "word-regexp", "line-regexp", "line-number", "files-with-matches",
    "files-without-match", "recursive", "extended-regexp", "fixed-strings", "perl-regexp", "only-matching", "quiet", "silent",
    "no-messages", "with-filename", "no-filename", "hidden", "no-ignore", "no-ignore-vcs", "heading", "no-heading", "vimgrep",
    "json", "stats", "trim", "multiline", "smart-case", "pretty", "unrestricted", "follow", "text", "binary", "raw-output",
    "compact-output", "slurp", "null-input", "sort-keys", "tab", "exit-status", "raw-input", "join-output", "ascii-output",
    "monochrome-output", "color-output", "absolute-path", "full-path", "glob", "count-matches", "null", "null-data", "sort-files",
    "column", "no-column", "no-color", "no-line-number", "case-sensitive", "files", "type-list", "list-details", "seq",
];

fn reader(name: &str, arguments: &[&str], files: &Files<'_>) -> bool {
    // These name files that name the files to read.
    if matches!(name, "wc" | "du" | "sort") && arguments.iter().any(|a| a.starts_with("--f")) {
        return false;
    }
    match name {
        "cd" | "pushd" => matches!(arguments, [path] if *path != "-" && files.allow(&[path])),
        "grep" | "egrep" | "fgrep" => files.allow_after_script(
            arguments,
            &['e', 'A', 'B', 'C', 'm', 'd', 'D'],
            &[
                "regexp",
                "after-context",
                "before-context",
                "context",
                "max-count",
                "include",
                "exclude",
                "exclude-dir",
            ],
        ),
        "tr" => true,
        "diff" => {
            !gives(arguments, &["--paginate"], &['l'])
                && files.allow(&without_values(arguments, &["-x", "-I", "-U", "-C", "-W"]))
        }
        "cut" => files.allow(&without_values(arguments, &["-d", "-f", "-c", "-b"])),
        "paste" => files.allow(&without_values(arguments, &["-d"])),
        "column" => files.allow(&without_values(arguments, &["-s", "-c", "-o", "-N", "-R", "-H"])),
        "hexdump" => files.allow(&without_values(arguments, &["-e", "-n", "-s"])),
        "join" => files.allow(&without_values(arguments, &["-t", "-e", "-o", "-j", "-1", "-2", "-a", "-v"])),
        "numfmt" => files.allow(&without_values(arguments, &["-d"])),
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
                && !arguments.iter().any(|a| a.starts_with("--fil"))
                && files.allow(&without_values(arguments, &["-t", "-k"]))
        }
        "uniq" => {
            without_values(arguments, &["-f", "-s", "-w"]).iter().filter(|a| !a.starts_with('-')).count() <= 1
                && files.allow(arguments)
        }
        "date" => {
            let rest = without_values(arguments, &["-d", "--date"]);
            let others: Vec<&str> = arguments.iter().copied().filter(|a| !a.starts_with("-I")).collect();
            !gives(&others, &["--set", "--file", "--reference"], &['s', 'f', 'r'])
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
        "ps" => ps(arguments),
        "jq" => jq(arguments, files),
        "printf" => !arguments.first().is_some_and(|a| a.starts_with("-v")),
        "base64" => !gives(arguments, &["--output"], &['o']) && files.allow(arguments),
        "find" => find(arguments, files),
        "rg" => {
            !gives(arguments, &["--pre", "--hostname-bin", "--search-zip"], &['z', 'f'])
                && if arguments.iter().any(|a| a.starts_with("--file") || *a == "--type-list") {
                    files.allow(&without_values(arguments, &["-g", "-t", "-T", "--glob", "--type"]))
                } else {
                    files.allow_after_script(
                        arguments,
                        &['e', 'A', 'B', 'C', 'm', 'g', 't', 'T', 'E', 'M', 'j', 'r', 'd'],
                        &[
                            "regexp",
                            "after-context",
                            "before-context",
                            "context",
                            "max-count",
                            "glob",
                            "type",
                            "max-depth",
                            "sort",
                            "color",
                        ],
                    )
                }
        }
        "fd" => {
            !gives(arguments, &["--exec", "--exec-batch"], &['x', 'X'])
                && files.allow_after_script(
                    arguments,
                    &['e', 't', 'd', 'E', 'S', 'c', 'j'],
                    &["extension", "type", "max-depth", "exclude", "color"],
                )
        }
        "sed" => sed(arguments, files),
        "awk" | "gawk" | "mawk" => awk(arguments, files),
        "git" => git::reads(part, arguments, files),
        "tee" => arguments.iter().all(|a| matches!(*a, "-a" | "/dev/null" | "/dev/stderr" | "/dev/stdout")),
        "tar" => {
            let lists = |a: &str| {
                let letters = a.trim_start_matches('-');
                letters.contains('t') && letters.chars().all(|c| "tvzjJf".contains(c))
            };
            matches!(arguments, [mode, rest @ ..] if lists(mode) && rest.iter().all(|a| !a.starts_with('-')) && files.allow(rest))
        }
        "unzip" => {
            matches!(arguments, ["-l", rest @ ..] if rest.iter().all(|a| !a.starts_with('-')) && files.allow(rest))
        }
        "printenv" => !arguments.is_empty() && arguments.iter().all(|a| super::value::is_public(a)),
        "npm" => matches!(arguments, ["ls" | "list", rest @ ..] if rest.iter().all(|a| {
            !a.starts_with('-') || a.starts_with("--depth=") || matches!(*a, "--all" | "--json" | "--prod")
        })),
        "read" => arguments.iter().all(|a| !a.starts_with("-e") && !a.starts_with("-i")),
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

/// Leaves out `--arg name value` of jq.
fn without_named<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if matches!(*word, "--arg" | "--argjson") {
            words.next();
            words.next();
        } else {
            kept.push(*word);
        }
    }
    kept
}

/// Whether a jq filter calls `env`.
fn names_env(filter: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    filter.match_indices("env").any(|(at, word)| {
        let (before, after) =
            (filter.get(..at).unwrap_or_default(), filter.get(at + word.len()..).unwrap_or_default());
        !before.ends_with(|c: char| is_part(c) || c == '.') && !after.starts_with(is_part)
    })
}

fn jq(arguments: &[&str], files: &Files<'_>) -> bool {
    let rest = without_named(arguments);
    let wild = rest
        .iter()
        .any(|a| names_env(a) || a.contains("$ENV") || a.contains("import") || a.contains("include"));
    !wild && !gives(&rest, &["--from-file"], &['f', 'L']) && files.allow_after_script(&rest, &[], &["indent"])
}

fn ps(arguments: &[&str]) -> bool {
    let rest =
        without_values(arguments, &["-o", "-p", "-u", "-U", "-C", "--sort", "-t", "-g", "--pid", "--ppid"]);
    !rest.iter().any(|a| !a.starts_with('-') && a.contains('e'))
        && !arguments.iter().any(|a| a.contains("env"))
        && !gives(arguments, &["--environment"], &['E'])
}

fn find(arguments: &[&str], files: &Files<'_>) -> bool {
    let acts = arguments.iter().any(|a| {
        matches!(*a, "-D" | "-exec" | "-execdir" | "-ok" | "-okdir" | "-delete" | "-fls" | "-files0-from")
            || a.starts_with("-fprint")
    });
    let places: Vec<&str> = arguments
        .iter()
        .copied()
        .skip_while(|a| matches!(*a, "-L" | "-P" | "-H") || a.starts_with("-O"))
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
