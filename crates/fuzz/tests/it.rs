//! Every target with its corpus and a fixed number of mutations of it. `scripts/fuzz.sh` searches longer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a finding is shown with its input")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use pollux_fuzz::mutation::{Mutator, dictionary};
use pollux_fuzz::{TARGETS, Target, find};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

fn run(target: &Target, bytes: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
        println!("{} fails with {what}: b\"{}\"", target.name, bytes.escape_ascii());
        resume_unwind(panic);
    }
}

/// How many mutations of a target are tried; `POLLUX_FUZZ_CASES` overrides it.
#[expect(clippy::disallowed_methods, reason = "how long to search is up to who runs the tests")]
fn cases(target: &Target) -> u32 {
    std::env::var("POLLUX_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(target.cases)
}

fn check(name: &str) {
    let target = find(name).unwrap();
    let paths = files(&folder("corpus").join(name));
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, seed) in paths.iter().zip(&seeds) {
        run(target, seed, &path.display().to_string());
    }
    let words = fs::read_to_string(folder("dictionaries").join(name)).unwrap_or_default();
    let words = dictionary(&words);
    for case in 0..cases(target) {
        let bytes = Mutator::new(u64::from(case)).next(&seeds, &words);
        run(target, &bytes, &format!("case {case}"));
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    a2a archive chat dotenv events frontmatter gemini hooks host http mcp messages painting pattern responses rules
    session settings shell socks sse
}

#[cfg(feature = "clients")]
#[test]
fn rpc() {
    check("rpc");
}

#[test]
fn every_target_has_a_test_a_corpus_and_a_row_in_the_readme() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let tested: Vec<&str> =
        TESTED.iter().copied().chain(cfg!(feature = "clients").then_some("rpc")).collect();
    assert!(names.iter().all(|name| tested.contains(name)) && names.len() == tested.len(), "{names:?}");
    let readme = fs::read_to_string(folder("README.md")).unwrap();
    for name in &names {
        assert!(!files(&folder("corpus").join(name)).is_empty(), "{name}");
        assert!(readme.contains(&format!("\n| `{name}` | ")), "{name}");
    }
    let folders = fs::read_dir(folder("corpus")).unwrap();
    for entry in folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(names.contains(&entry.as_str()) || entry == "rpc", "{entry}");
    }
    for path in files(&folder("dictionaries")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(names.contains(&name) || name == "rpc", "{name}");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(dictionary(&text).len(), text.lines().count(), "{}", path.display());
    }
}

#[test]
fn the_corpus_is_small() {
    let size = |target: &Target| {
        let paths = files(&folder("corpus").join(target.name));
        paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum::<u64>()
    };
    let total: u64 = TARGETS.iter().map(size).sum();
    assert!(total < 300 * 1024, "{total} bytes: keep what is worth it");
}

#[test]
fn mutations_are_the_same_for_the_same_seed() {
    let seeds = [b"one".to_vec(), b"two and more".to_vec()];
    let words = dictionary("\"a\\\"\\x00b\"");
    assert_eq!(words, [b"a\"\0b".to_vec()]);
    let some =
        |seed: u64| (0..50).map(|case| Mutator::new(seed + case).next(&seeds, &words)).collect::<Vec<_>>();
    assert_eq!(some(1), some(1));
    assert_ne!(some(1), some(1000));
}
