use std::os::unix::fs::symlink;
use std::process::Command;

use proptest::prelude::*;

use super::*;

fn scene() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    for folder in ["src/deep", ".hidden", ".git", "a b"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    for file in
        ["a.rs", "b.rs", ".env", "src/lib.rs", "src/deep/x.rs", "src/.env", ".hidden/y", "-n", "[x]", "a b/c"]
    {
        #[expect(clippy::disallowed_methods, reason = "a test file")]
        fs::write(at(file), "x").unwrap();
    }
    symlink("/etc", at("out")).unwrap();
    root
}

fn words(root: &Path, pattern: &str) -> Vec<String> {
    let mut words: Vec<String> = BoundedDisk::new(&LocalDisk)
        .expand(root, pattern)
        .unwrap()
        .into_iter()
        .map(|found| found.word)
        .collect();
    words.sort();
    words
}

#[test]
fn patterns_find_at_least_what_bash_finds() {
    let root = scene();
    for (pattern, expected) in [
        ("*.rs", &["a.rs", "b.rs"][..]),
        (".e*", &[".env"]),
        (".[e]nv", &[".env"]),
        ("[.]env", &[]),
        ("src/*", &["src/deep", "src/lib.rs"]),
        ("*/lib.rs", &["src/lib.rs"]),
        ("out/passw*", &["out/passwd"]),
        ("./-*", &["./-n"]),
        ("\u{3}/\u{2}.rs", &["a.rs", "b.rs", "src/deep/x.rs", "src/lib.rs"]),
        ("src/\u{3}", &["src/.env", "src/deep", "src/deep/x.rs", "src/lib.rs"]),
        ("src/**", &["src/deep", "src/deep/x.rs", "src/lib.rs"]),
        ("a.rs/\u{3}", &["a.rs"]),
        ("nothing*", &[]),
    ] {
        let found = words(root.path(), pattern);
        assert!(expected.iter().all(|word| found.contains(&(*word).to_owned())), "{pattern:?}: {found:?}");
        if !pattern.starts_with("out") {
            assert_eq!(found, expected, "{pattern:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn every_bash_expansion_of_a_pattern_is_found(pattern in "[ab.\\-n\\[\\]*?!xrs/e]{1,8}") {
        let root = scene();
        let output = Command::new("/bin/bash")
            .args(["-c", &format!("shopt -s nullglob; printf '%s\\n' {pattern}")])
            .current_dir(root.path())
            .output()
            .unwrap();
        let special = pattern.contains(['*', '?', '[']);
        let found = words(root.path(), &pattern);
        for word in String::from_utf8_lossy(&output.stdout).lines().filter(|line| special && !line.is_empty() && *line != pattern) {
            // Patterns that find `.` and `..` are refused before.
            if word.split('/').any(|part| part == "." || part == "..") || word.starts_with('/') {
                continue;
            }
            let word = word.trim_end_matches('/').replace("//", "/");
            prop_assert!(found.contains(&word), "{pattern}: bash finds {word}, we {found:?}");
        }
    }
}
