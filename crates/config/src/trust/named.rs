//! The files of a folder that a command names, wherever in the folder it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Variables that hooks and servers get with the folder in them.
const FOLDER_VARIABLES: &[&str] = &["GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR", "PWD"];
/// Programs that complete the names of scripts.
const COMPLETING: &[&str] = &["bun", "deno", "electron", "node", "nodejs", "npx", "ts-node", "tsx"];
const SUFFIXES: &[&str] = &[".js", ".mjs", ".cjs", ".ts", ".node"];
/// What such programs, and Python, run if they are given a folder.
const MAIN_FILES: &[&str] = &["index.js", "index.mjs", "index.cjs", "index.ts", "__main__.py"];

/// Paths that may still be looked up; there is nothing more to say once it is spent.
pub(super) struct Lookups(pub(super) usize);

impl Lookups {
    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        self.0 = self.0.checked_sub(1)?;
        fs::canonicalize(path).ok()
    }
}

/// The regular files below a folder (links resolved) that a command names. What it writes to is no such file.
pub(super) fn files(
    root: &Path,
    command: &str,
    cwd: Option<&str>,
    lookups: &mut Lookups,
) -> BTreeSet<PathBuf> {
    let command = without_variables(command);
    let mut words = words(&command);
    words.extend(cwd.map(without_variables));
    // Any of them may be where a part of the command runs, whichever way it gets there.
    let mut folders = vec![root.to_owned()];
    // The server's own folder comes last, and the others may be relative to it.
    for word in words.iter().rev().take(usize::from(cwd.is_some())).chain(&words) {
        for folder in folders.clone() {
            let found = lookups.real(&folder.join(word)).filter(|found| found.is_dir());
            let inside = found.filter(|found| found.starts_with(root) && !folders.contains(found));
            folders.extend(inside);
        }
    }
    let completes = words.iter().any(|word| is_one_of(word, COMPLETING));
    let mut found = BTreeSet::new();
    let mut runs_folders = false;
    for word in &words {
        for folder in &folders {
            for name in names(word, completes) {
                let Some(real) = lookups.real(&folder.join(&name)) else { continue };
                let of_folder = MAIN_FILES.iter().filter(|_| runs_folders && real.is_dir());
                let inner: Vec<PathBuf> =
                    of_folder.filter_map(|name| lookups.real(&real.join(name))).collect();
                found.extend(
                    [real].into_iter().chain(inner).filter(|real| real.starts_with(root) && real.is_file()),
                );
            }
        }
        if !word.starts_with('-') {
            runs_folders = is_one_of(word, COMPLETING) || base(word).starts_with("py");
        }
    }
    found
}

/// The names that a program may make of a word.
fn names(word: &str, completes: bool) -> Vec<String> {
    let mut names = vec![word.to_owned()];
    if completes && !word.starts_with('-') {
        names.extend(SUFFIXES.iter().map(|suffix| format!("{word}{suffix}")));
    }
    // `-fscript`
    let attached = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    names.extend(attached.and_then(|rest| rest.get(1..)).filter(|rest| !rest.is_empty()).map(str::to_owned));
    // A module of Python: `-m tools.server`
    if word.contains('.') && !word.contains('/') {
        let path = word.replace('.', "/");
        names.extend([format!("{path}.py"), format!("{path}/__main__.py")]);
    }
    names
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_one_of(word: &str, programs: &[&str]) -> bool {
    programs.contains(&base(word))
}

fn without_variables(text: &str) -> String {
    let mut text = text.to_owned();
    for name in FOLDER_VARIABLES {
        for form in [format!("${{{name}}}"), format!("${name}")] {
            text = text.replace(&format!("{form}/"), "./").replace(&format!("{form}\"/"), "\"./");
        }
    }
    text
}

/// The words of a command, also those within quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = pieces(command, true);
    words.extend(pieces(command, false));
    for quote in ['\'', '"'] {
        let quoted = command.split(quote).skip(1).step_by(2);
        words.extend(quoted.filter(|text| text.contains(char::is_whitespace)).map(str::to_owned));
    }
    words.dedup();
    words
}

/// The pieces between what separates words and commands.
fn pieces(command: &str, splits_at_quotes: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let (mut before, mut is_output) = (' ', false);
    for char in command.chars().chain([' ']) {
        let is_quote = matches!(char, '\'' | '"');
        let is_escaped = before == '\\' && char == ' ' && !word.is_empty();
        let is_end = (char.is_whitespace() || "`;|&()<>=".contains(char) || is_quote && splits_at_quotes)
            && !(is_escaped && word.pop().is_some());
        if !is_end {
            if !is_quote {
                word.push(char);
            }
        } else if !word.is_empty() {
            let word = std::mem::take(&mut word);
            if !is_output {
                found.push(word);
            }
            is_output = false;
        }
        match char {
            '>' => is_output = before != '<',
            '`' | ';' | '|' | '(' | '<' => is_output = false,
            _ => {}
        }
        before = char;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_within_quotes_and_what_is_written_is_left_out() {
        for (command, expected) in [
            ("bash scripts/guard", vec!["bash", "scripts/guard"]),
            ("cd scripts && sh ./g2.sh>log 2> err.txt", vec!["cd", "scripts", "sh", "./g2.sh", "2"]),
            ("x > \"log\"; sh y", vec!["x", "sh", "y"]),
            ("x <in <>both >(sh z)", vec!["x", "in", "both", "sh", "z"]),
            ("sh -c 'sh a'", vec!["sh", "-c", "sh", "a"]),
            ("A=b sh my\\ script", vec!["A", "b", "sh", "my script"]),
        ] {
            assert_eq!(pieces(command, true), expected, "{command}");
        }
        assert_eq!(pieces("sh \"a\"/'b'", false), ["sh", "a/b"]);
        assert!(words("python3 'my server.py'").contains(&"my server.py".to_owned()));
        assert_eq!(without_variables("\"$PWD\"/a ${GEMINI_PROJECT_DIR}/b $PWDX/c"), "\"\"./a ./b $PWDX/c");
    }
}
