use std::fs;
use std::time::{Duration, SystemTime};

use pollux_domain::tool::Display;
use serde_json::json;

use crate::bench::{Bench, put, shown, text_of};

fn age(path: &std::path::Path, seconds: u64) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[tokio::test]
async fn glob_puts_recent_files_first_and_counts_ignored_ones() {
    let bench = Bench::new();
    bench.write(".git/HEAD", "");
    bench.write(".gitignore", "*.gen.rs\nout/\n");
    let [old_b, old_a, young, younger] =
        ["b.rs", "src/a.rs", "src/deep/young.rs", ".hidden/younger.rs"].map(|name| bench.write(name, ""));
    for name in ["x.gen.rs", "out/y.rs", "node_modules/z.rs", "readme.md"] {
        bench.write(name, "");
    }
    for (path, seconds) in [(&old_b, 200_000), (&old_a, 100_000), (&young, 100), (&younger, 50)] {
        age(path, seconds);
    }
    let output = bench.done("glob", json!({"pattern": "**/*.RS"})).await;
    let root = bench.path("a").parent().unwrap().display().to_string();
    let paths = [&younger, &young, &old_b, &old_a].map(|path| path.display().to_string()).join("\n");
    assert_eq!(
        text_of(&output.parts),
        format!(
            "Found 4 file(s) matching \"**/*.RS\" within {root} (2 additional files were ignored), sorted by \
             modification time (newest first):\n{paths}"
        )
    );
    assert_eq!(shown(&output.display), "Found 4 matching file(s)");
    let exact = bench.text("glob", json!({"pattern": "**/*.RS", "case_sensitive": true})).await;
    assert_eq!(exact, format!("No files found matching pattern \"**/*.RS\" within {root}"));
    let all = bench.text("glob", json!({"pattern": "**/*.rs", "respect_git_ignore": false})).await;
    assert!(all.starts_with("Found 6 file(s)"), "{all}");
}

#[tokio::test]
async fn glob_takes_existing_names_literally_and_folders_as_given() {
    let bench = Bench::new();
    let page = bench.write("app/[id]/page.tsx", "");
    bench.write("app/i/page.tsx", "");
    let found = bench.text("glob", json!({"pattern": "app/[id]/page.tsx"})).await;
    assert!(found.ends_with(&page.display().to_string()) && found.starts_with("Found 1 "), "{found}");
    let within =
        bench.text("glob", json!({"pattern": "*/page.tsx", "dir_path": "app", "case_sensitive": true})).await;
    assert!(within.starts_with("Found 2 file(s)"), "{within}");
    let call = bench.prepare("glob", json!({"pattern": "*", "dir_path": "app"})).unwrap();
    assert_eq!(call.describe(), "'*' within app");
    assert_eq!(bench.refusal("glob", json!({"pattern": " "})), "The 'pattern' parameter cannot be empty.");
    let missing = bench.refusal("glob", json!({"pattern": "*", "dir_path": "no"}));
    assert_eq!(missing, format!("Search path does not exist {}", bench.path("no").display()));
    let file = bench.refusal("glob", json!({"pattern": "*", "dir_path": "app/i/page.tsx"}));
    assert!(file.starts_with("Search path is not a directory: "), "{file}");
}

#[tokio::test]
async fn glob_searches_every_workspace_directory() {
    let bench = Bench::with(|setup| setup.include_directories = vec!["../outside".to_owned()]);
    bench.write("a.txt", "");
    put(&bench.base().join("outside/b.txt"), "");
    let found = bench.text("glob", json!({"pattern": "*.txt"})).await;
    assert!(
        found.starts_with("Found 2 file(s) matching \"*.txt\" across 2 workspace directories, sorted"),
        "{found}"
    );
}

#[tokio::test]
async fn program_state_is_searched_only_when_named() {
    let bench = Bench::with(|setup| setup.root = setup.user_home.clone());
    let base = bench.base();
    let log = base.join("home/.gemini/tmp/p/chats/session.json");
    put(&log, "needle");
    put(&base.join("home/notes.txt"), "needle");
    let found = bench.text("grep_search", json!({"pattern": "needle"})).await;
    assert!(found.starts_with("Found 1 match ") && found.contains("File: notes.txt"), "{found}");
    let globbed = bench.text("glob", json!({"pattern": "**/*"})).await;
    assert!(!globbed.contains("session.json"), "{globbed}");
    let named = bench.text("grep_search", json!({"pattern": "needle", "dir_path": ".gemini/tmp/p"})).await;
    assert!(named.contains("session.json"), "{named}");
}

#[tokio::test]
async fn grep_shows_lines_with_numbers_in_order_of_files() {
    let bench = Bench::new();
    bench.write("b.txt", "no\nNEEDLE two\n");
    bench.write("a.txt", "needle one\nneedle again\nneedle third\n");
    let output = bench.done("grep_search", json!({"pattern": "needle"})).await;
    assert_eq!(
        text_of(&output.parts),
        "Found 4 matches for pattern \"needle\" in path \".\":\n---\nFile: a.txt\nL1: needle one\nL2: needle again\n\
         L3: needle third\n---\nFile: b.txt\nL2: NEEDLE two\n---"
    );
    let Display::List { summary, items } = output.display else { panic!() };
    assert_eq!((summary.as_str(), items[3].as_str()), ("Found 4 matches", "b.txt:2: NEEDLE two"));
    let sensitive = bench.text("grep_search", json!({"pattern": "NEEDLE", "case_sensitive": true})).await;
    assert!(sensitive.starts_with("Found 1 match for"), "{sensitive}");
}

#[tokio::test]
async fn few_matches_come_with_context_lines() {
    let bench = Bench::new();
    let mut lines: Vec<String> = (1..=200).map(|n| format!("line {n}")).collect();
    lines[99] = "the needle".to_owned();
    bench.write("a.txt", lines.join("\n"));
    let found = bench.text("grep_search", json!({"pattern": "needle"})).await;
    assert!(found.contains("L50- line 50\n") && found.contains("L100: the needle\n"), "{found}");
    assert!(
        found.contains("L150- line 150") && !found.contains("L151") && !found.contains("L49-"),
        "{found}"
    );
    let none = bench.text("grep_search", json!({"pattern": "needle", "context": 0})).await;
    assert!(none.ends_with("File: a.txt\nL100: the needle\n---"), "{none}");
    let one = bench.text("grep_search", json!({"pattern": "needle", "before": 1})).await;
    assert!(one.ends_with("L99- line 99\nL100: the needle\n---"), "{one}");
}

#[tokio::test]
async fn limits_cut_the_same_matches_every_time() {
    let bench = Bench::new();
    for file in 0..60 {
        bench.write(&format!("f{file:02}.txt"), "needle\n".repeat(5));
    }
    let capped = bench.text("grep_search", json!({"pattern": "needle"})).await;
    assert!(capped.starts_with(
        "Found 100 matches for pattern \"needle\" in path \".\" (results limited to 100 matches for performance):"
    ));
    assert!(capped.contains("File: f19.txt") && !capped.contains("File: f20.txt"), "{capped}");
    for _ in 0..5 {
        assert_eq!(bench.text("grep_search", json!({"pattern": "needle"})).await, capped);
    }
    let few = json!({"pattern": "needle", "max_matches_per_file": 1, "total_max_matches": 7, "context": 0});
    let few = bench.text("grep_search", few).await;
    assert!(few.starts_with("Found 7 matches") && few.contains("File: f06.txt"), "{few}");
    let names = bench.text("grep_search", json!({"pattern": "needle", "names_only": true})).await;
    assert!(
        names.starts_with(
            "Found 60 files with matches for pattern \"needle\" in path \".\":\nf00.txt\nf01.txt"
        )
    );
    let some = json!({"pattern": "needle", "names_only": true, "total_max_matches": 2});
    assert_eq!(
        bench.text("grep_search", some).await,
        "Found 2 files with matches for pattern \"needle\" in path \".\" (results limited to 2 matches for \
         performance):\nf00.txt\nf01.txt"
    );
}

#[tokio::test]
async fn filters_choose_files_and_lines() {
    let bench = Bench::new();
    bench.write(".git/HEAD", "");
    bench.write(".gitignore", "ignored.txt\n");
    for name in ["a.rs", "src/b.rs", "src/c.txt", "ignored.txt", "build/d.rs", "e.log"] {
        bench.write(name, "needle a\nneedle b\n");
    }
    bench.write("binary.dat", b"needle\0");
    let names = |args| bench.text("grep_search", args);
    let all = names(json!({"pattern": "needle", "names_only": true})).await;
    assert!(all.ends_with(":\na.rs\nsrc/b.rs\nsrc/c.txt"), "{all}");
    let rust = names(json!({"pattern": "needle", "names_only": true, "include": "*.rs"})).await;
    assert!(rust.ends_with("in path \".\" (filter: \"*.rs\"):\na.rs\nsrc/b.rs"), "{rust}");
    let every = names(json!({"pattern": "needle", "names_only": true, "no_ignore": true})).await;
    assert!(every.starts_with("Found 6 files"), "{every}");
    let excluded = names(
        json!({"pattern": "needle", "exclude_pattern": "needle A", "dir_path": "src/b.rs", "context": 0}),
    )
    .await;
    assert_eq!(
        excluded,
        "Found 1 match for pattern \"needle\" in path \"src/b.rs\":\n---\nFile: src/b.rs\nL2: needle b\n---"
    );
    let fixed = names(json!({"pattern": "needle.", "fixed_strings": true})).await;
    assert_eq!(fixed, "No matches found for pattern \"needle.\" in path \".\".");
}

#[tokio::test]
async fn geminiignored_files_stay_closed_for_every_path_spelling() {
    let bench = Bench::new();
    bench.write(".geminiignore", "private/\n");
    bench.write("private/a.txt", "needle");
    for args in [
        json!({"pattern": "needle", "no_ignore": true}),
        json!({"pattern": "needle", "dir_path": "private"}),
        json!({"pattern": "needle", "dir_path": "private/a.txt", "no_ignore": true}),
    ] {
        let text = bench.text("grep_search", args.clone()).await;
        assert!(text.starts_with("No matches found"), "{args}: {text}");
    }
}

#[tokio::test]
async fn patterns_that_cannot_work_are_refused() {
    let bench = Bench::new();
    let refusal = bench.refusal("grep_search", json!({"pattern": "a("}));
    assert!(refusal.starts_with("Invalid regular expression pattern provided: a(. Error: "), "{refusal}");
    let missing = bench.refusal("grep_search", json!({"pattern": "a", "dir_path": "no"}));
    assert_eq!(missing, format!("Path does not exist: {}", bench.path("no").display()));
}

#[tokio::test]
async fn a_catastrophic_pattern_finishes_immediately() {
    let bench = Bench::new();
    bench.write("a.txt", "a".repeat(50_000));
    let found = bench.text("grep_search", json!({"pattern": "(a+)+$x"})).await;
    assert!(found.starts_with("No matches found"), "{found}");
}

#[tokio::test]
async fn a_cancelled_search_says_so() {
    let bench = Bench::new();
    bench.write("a.txt", "x");
    bench.cancel.cancel();
    for (tool, args) in [("glob", json!({"pattern": "*"})), ("grep_search", json!({"pattern": "x"}))] {
        let outcome = bench.call(tool, args).await;
        assert!(matches!(outcome, pollux_domain::tool::ToolOutcome::Cancelled { .. }), "{tool}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_search_of_a_folder_leaves_out_secrets_and_says_so() {
    let bench = Bench::new();
    bench.write("a.txt", "needle");
    bench.write("docs/.env.example", "needle");
    for name in [".env.local", "conf/.npmrc", "keys/server.pem", "sub/.ssh/config"] {
        bench.write(name, "needle TOP-SECRET");
    }
    for args in [
        json!({"pattern": "needle"}),
        json!({"pattern": "needle", "context": 2}),
        json!({"pattern": "needle", "include_pattern": "*"}),
        json!({"pattern": "needle", "include_pattern": ".*"}),
        json!({"pattern": "needle", "include_pattern": "{.env.local,conf/*}"}),
        json!({"pattern": "needle", "include_pattern": "config"}),
        json!({"pattern": "needle", "names_only": true, "no_ignore": true}),
    ] {
        let found = bench.text("grep_search", args.clone()).await;
        assert!(!found.contains("TOP-SECRET"), "{args}: {found}");
        assert!(found.contains("(Left out, because they may contain secrets: `"), "{args}: {found}");
    }
    let found = bench.text("grep_search", json!({"pattern": "needle", "names_only": true})).await;
    assert_eq!(
        found,
        "Found 2 files with matches for pattern \"needle\" in path \".\":\na.txt\ndocs/.env.example\n\
         (Left out, because they may contain secrets: `.env.local`, `conf/.npmrc`, `keys/server.pem` and 1 more. \
         Name a file to ask for approval.)"
    );
    // What a call names needed approval before it came here.
    for (args, name) in [
        (json!({"pattern": "needle", "dir_path": ".env.local"}), ".env.local"),
        (json!({"pattern": "needle", "include_pattern": ".npmrc"}), "conf/.npmrc"),
        (json!({"pattern": "needle", "include_pattern": "*.pem"}), "keys/server.pem"),
        (json!({"pattern": "needle", "dir_path": "sub/.ssh"}), "sub/.ssh/config"),
    ] {
        let found = bench.text("grep_search", args.clone()).await;
        assert!(found.contains(name) && found.contains("TOP-SECRET"), "{args}: {found}");
        assert!(!found.contains("Left out"), "{args}: {found}");
    }
}

#[tokio::test]
async fn read_many_files_leaves_out_secrets_that_no_pattern_names() {
    let bench = Bench::new();
    for name in ["a.txt", ".env.example"] {
        bench.write(name, "plain text");
    }
    for name in [".env.local", "conf/.npmrc", "keys/server.pem", "keys/a[1].pem", ".ssh/config"] {
        bench.write(name, "TOP-SECRET");
    }
    for include in [
        json!(["**/*"]),
        json!(["*", "conf/*"]),
        json!(["{.env.local,a.txt}"]),
        json!(["**/config", "a.txt"]),
        json!(["*.txt", ".e*"]),
    ] {
        for defaults in [true, false] {
            let args = json!({"include": include, "useDefaultExcludes": defaults});
            let read = bench.text("read_many_files", args.clone()).await;
            assert!(read.contains("plain text") && !read.contains("TOP-SECRET"), "{args}: {read}");
            assert!(read.contains("(Left out, because they may contain secrets: `"), "{args}: {read}");
        }
    }
    for include in [".env.local", ".env.*", "conf/.npmrc", "**/*.pem", "keys/a[1].pem", ".ssh/*"] {
        for defaults in [true, false] {
            let args = json!({"include": [include], "useDefaultExcludes": defaults});
            let read = bench.text("read_many_files", args.clone()).await;
            assert!(read.contains("TOP-SECRET"), "{args}: {read}");
        }
    }
    let mixed = bench.text("read_many_files", json!({"include": ["conf/*", "**/*.pem"]})).await;
    assert!(mixed.contains("server.pem ---") && !mixed.contains(".npmrc ---"), "{mixed}");
}
