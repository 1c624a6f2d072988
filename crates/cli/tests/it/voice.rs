//! Phrases that read translated do not come back: not in help, messages, documents or comments.
//!
//! `docs/src/style.md` explains what to write instead.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// A phrase, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    (r"\banew\b", "again"),
    (r"\bbeside\b", "next to, in the background"),
    (r"\bwhoever\b", "anyone who, the caller"),
    (r"\bsomebody\b", "someone, another process"),
    (r"\bfor ever\b", "permanently"),
    (r"\bsign(s|ed|ing)? in at\b", "sign in to"),
    (r"\bgone on with\b", "resumed, continued"),
    (r"\b(is|are) to be (had|asked|told)\b", "is available, needs approval"),
    (r"\bcan(not)? be had\b", "is (not) available"),
    (r"\btakes? stock\b", "rebuild"),
    (r"\b(bring|brings|brought) along\b", "contain, add"),
    (r"\b(this|that|it) is no (key|file|value|archive|session|number|such|setting)\b", "invalid X, not an X"),
    (r"\bno rule speaks of\b", "no rule matches"),
    (r"\bsays something else of itself\b", "has changed"),
    (r"\bto be asked for\b", "requires approval"),
    (r"\bthe option .* needs a value\b", "missing argument"),
    (r"\bwhat holds\b", "settings, values in use"),
    (r"\bwaits for your word\b", "asks for approval"),
    (r"\bunasked\b", "without approval"),
    (r"\bof no use\b", "unusable"),
    (r"\berrands?\b", "task, request"),
];

/// Type names too general to be used outside their module.
const GENERAL_NAMES: &str =
    r"\bpub(\([a-z]+\))? (struct|enum) (Call|State|Row|Entry|Place|Line|Found|Answer|Places|Manner|Desk)\b";

/// Where a listed phrase is right: quotations, and data that only looks like prose.
const EXCEPTIONS: &[&str] = &["docs/src/style.md", "crates/cli/tests/it/voice.rs"];

#[test]
fn phrases_that_read_translated_do_not_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let phrases: Vec<(Regex, &str)> = PHRASES
        .iter()
        .map(|(phrase, instead)| (Regex::new(&format!("(?i){phrase}")).unwrap(), *instead))
        .collect();
    let mut files = Vec::new();
    for folder in ["crates", "docs/src"] {
        collect(&root.join(folder), &mut files);
    }
    collect_flat(&root, &mut files);
    let mut found = String::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        // Tests may quote anything that a person or a model could say.
        if EXCEPTIONS.contains(&name.as_str()) || name.contains("tests") || name.contains("/benches/") {
            continue;
        }
        let text = fs::read_to_string(file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            let prose = if name.ends_with(".rs") { prose(line) } else { line.to_owned() };
            for (phrase, instead) in phrases.iter().filter(|(phrase, _)| phrase.is_match(&prose)) {
                writeln!(found, "{name}:{}: `{phrase}` (write: {instead}): {}", number + 1, line.trim())
                    .unwrap();
            }
        }
    }
    assert!(files.len() > 500, "{} files", files.len());
    assert!(found.is_empty(), "{found}");
}

#[test]
fn public_types_carry_their_owners_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let general = Regex::new(GENERAL_NAMES).unwrap();
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    let found: Vec<String> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .flat_map(|file| {
            let text = fs::read_to_string(file).unwrap();
            text.lines()
                .filter(|line| general.is_match(line))
                .map(|line| format!("{}: {}", file.display(), line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The comment or the string literals of a line of code.
fn prose(line: &str) -> String {
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") {
        return trimmed.to_owned();
    }
    line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "md" || end == "in") {
            files.push(path);
        }
    }
}

fn collect_flat(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
}
