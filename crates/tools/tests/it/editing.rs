use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use pollux_domain::tool::{Display, LineDelta, ToolErrorKind, ToolOutcome};
use serde_json::{Value, json};

use crate::bench::{Bench, put, shown, text_of};

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "instruction": "why", "old_string": old, "new_string": new})
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders() {
    let bench = Bench::new();
    let output = bench.done("write_file", json!({"file_path": "a/b/c.txt", "content": "one\ntwo\n"})).await;
    let path = bench.path("a/b/c.txt");
    assert_eq!(
        text_of(&output.parts),
        format!(
            "Successfully created and wrote to new file: {}. Here is the updated code:\none\ntwo\n",
            path.display()
        )
    );
    assert_eq!(output.lines, LineDelta { added: 2, removed: 0 });
    let Display::Diff(diff) = output.display else { panic!() };
    assert_eq!((diff.before, diff.after.as_str(), diff.file_name.as_str()), (None, "one\ntwo\n", "c.txt"));
    let call = bench.prepare("write_file", json!({"file_path": "a/b/c.txt", "content": ""})).unwrap();
    assert_eq!(call.describe(), "Writing to a/b/c.txt");
}

#[tokio::test]
async fn overwriting_keeps_mode_marks_and_line_ends() {
    let bench = Bench::new();
    let path = bench.write("run.sh", b"\xef\xbb\xbfone\r\ntwo\r\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let text = bench.text("write_file", json!({"file_path": "run.sh", "content": "one\nthree\n"})).await;
    assert!(text.starts_with(&format!("Successfully overwrote file: {}. ", path.display())), "{text}");
    assert_eq!(bench.bytes("run.sh"), b"\xef\xbb\xbfone\r\nthree\r\n");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o750);
    let leftovers: Vec<_> = fs::read_dir(bench.path("")).unwrap().collect();
    assert_eq!(leftovers.len(), 1);
}

#[tokio::test]
async fn a_utf16_file_stays_utf16_and_hard_links_keep_the_old_content() {
    let bench = Bench::new();
    let encode = |text: &str| -> Vec<u8> {
        [0xfeff_u16].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    bench.write("w.txt", encode("grün\r\nrot\r\n"));
    bench.done("replace", edit("w.txt", "rot", "blau")).await;
    assert_eq!(bench.bytes("w.txt"), encode("grün\r\nblau\r\n"));

    let first = bench.write("first", "a longer text");
    fs::hard_link(&first, bench.path("second")).unwrap();
    bench.done("write_file", json!({"file_path": "first", "content": "short"})).await;
    assert_eq!((bench.bytes("first"), bench.bytes("second")), (b"short".to_vec(), b"a longer text".to_vec()));
}

#[tokio::test]
async fn write_file_refuses_invalid_targets() {
    let bench = Bench::new();
    fs::create_dir(bench.path("dir")).unwrap();
    let refusal = |path: &str, content: &str| {
        bench.refusal("write_file", json!({"file_path": path, "content": content}))
    };
    assert_eq!(refusal("", "x"), "Missing or empty \"file_path\"");
    assert_eq!(
        refusal("dir", "x"),
        format!("Path is a directory, not a file: {}", bench.path("dir").display())
    );
    assert_eq!(
        refusal("a.js", "function a() {}\n// rest of methods ...\n"),
        "`content` contains an omission placeholder (for example 'rest of methods ...'). Provide complete file content."
    );
    bench.write("file", "x");
    let (kind, message) =
        bench.failure("write_file", json!({"file_path": "file/below", "content": "x"})).await;
    assert_eq!(kind, ToolErrorKind::FileWriteFailure);
    let start = format!("Error checking existing file '{}': ", bench.path("file/below").display());
    assert!(message.starts_with(&start) && message.ends_with("(ENOTDIR)"), "{message}");
}

#[tokio::test]
async fn an_exact_replacement_reports_count_and_region() {
    let bench = Bench::new();
    let path = bench.write("a.rs", "fn a() {}\nfn b() {}\n");
    let output = bench.done("replace", edit("a.rs", "fn b()", "fn c()")).await;
    assert_eq!(
        text_of(&output.parts),
        format!(
            "Successfully modified file: {} (1 replacements). Here is the updated code:\nfn a() {{}}\nfn c() {{}}\n",
            path.display()
        )
    );
    assert_eq!(output.lines, LineDelta { added: 1, removed: 1 });
    let Display::Diff(diff) = output.display else { panic!() };
    assert!(diff.unified.contains("-fn b() {}\n+fn c() {}\n"), "{}", diff.unified);
    assert_eq!(bench.bytes("a.rs"), b"fn a() {}\nfn c() {}\n");
}

#[tokio::test]
async fn a_file_created_by_replace_gets_its_content_as_given() {
    let bench = Bench::new();
    bench.done("replace", edit("new.txt", "", "one\r\ntwo\n")).await;
    assert_eq!(bench.bytes("new.txt"), b"one\r\ntwo\n");
}

#[tokio::test]
async fn several_matches_need_permission() {
    let bench = Bench::new();
    bench.write("a.txt", "x y x\n");
    let (kind, message) = bench.failure("replace", edit("a.txt", "x", "z")).await;
    assert_eq!(kind, ToolErrorKind::EditExpectedOccurrenceMismatch);
    assert_eq!(
        message,
        "Failed to edit, Expected 1 occurrence but found 2 for old_string in file: a.txt. If you intended to replace \
         multiple occurrences, set 'allow_multiple' to true."
    );
    let with = |name: &str, value: Value| {
        let mut args = edit("a.txt", "x", "z");
        args.as_object_mut().unwrap().insert(name.to_owned(), value);
        args
    };
    let (kind, _) = bench.failure("replace", with("expected_replacements", json!(3))).await;
    assert_eq!(kind, ToolErrorKind::EditExpectedOccurrenceMismatch);
    bench.done("replace", with("expected_replacements", json!(2))).await;
    assert_eq!(bench.bytes("a.txt"), b"z y z\n");
    bench.write("a.txt", "x y x\n");
    bench.done("replace", with("allow_multiple", json!(true))).await;
    assert_eq!(bench.bytes("a.txt"), b"z y z\n");
}

#[tokio::test]
async fn a_missing_text_is_reported_with_the_nearest_lines() {
    let bench = Bench::new();
    bench.write("a.rs", "fn start() {\n    let total = compute(items);\n    finish(total);\n}\n");
    let args = edit("a.rs", "    let total = compute(items);\n    return something_else_entirely(now);", "x");
    let (kind, message) = bench.failure("replace", args).await;
    assert_eq!(kind, ToolErrorKind::EditNoOccurrenceFound);
    assert_eq!(
        message,
        "Could not find an exact match for 'old_string' in 'a.rs'. If previous edits modified the file or you are \
         modifying lines outside your recent read window, please use ReadFile to inspect the target lines before \
         retrying with an exact 'old_string'.\n\nThe nearest text in the file is at lines 2-3:\n\
         2:     let total = compute(items);\n3:     finish(total);"
    );
}

#[tokio::test]
async fn replace_creates_files_only_with_an_empty_old_string() {
    let bench = Bench::new();
    let created = bench.done("replace", edit("new.txt", "", "hello\n")).await;
    let expected = format!("Created new file: {} with provided content. ", bench.path("new.txt").display());
    assert!(text_of(&created.parts).starts_with(&expected));
    assert_eq!(shown(&created.display), "Created new.txt");
    let again = bench.failure("replace", edit("new.txt", "", "x")).await;
    assert_eq!(again.0, ToolErrorKind::AttemptToCreateExistingFile);
    assert_eq!(again.1, format!("File already exists, cannot create: {}", bench.path("new.txt").display()));
    let missing = bench.failure("replace", edit("no.txt", "a", "b")).await;
    assert_eq!(missing.0, ToolErrorKind::FileNotFound);
    let same = bench.failure("replace", edit("new.txt", "hello", "hello")).await;
    assert_eq!(same.0, ToolErrorKind::EditNoChange);
    assert_eq!(same.1, "No changes to apply. The old_string and new_string are identical in file: new.txt");
}

#[tokio::test]
async fn placeholders_are_refused_unless_they_are_in_the_file_already() {
    let bench = Bench::new();
    bench.write("a.js", "a\n// rest of code ...\n");
    assert_eq!(
        bench.refusal("replace", edit("a.js", "a", "b\n// unchanged code ...")),
        "`new_string` contains an omission placeholder (for example 'rest of methods ...'). Provide exact literal \
         replacement text."
    );
    bench.done("replace", edit("a.js", "a\n// rest of code ...", "b\n// rest of code ...")).await;
}

#[tokio::test]
async fn a_file_that_is_not_valid_text_keeps_its_other_bytes() {
    let bench = Bench::new();
    bench.write("latin.txt", b"name = caf\xe9\nsize = 1\n");
    bench.done("replace", edit("latin.txt", "size = 1", "size = 2")).await;
    assert_eq!(bench.bytes("latin.txt"), b"name = caf\xe9\nsize = 2\n");
    let (kind, message) = bench.failure("replace", edit("latin.txt", "name = café", "name = tea")).await;
    assert_eq!(kind, ToolErrorKind::EditNoOccurrenceFound);
    assert!(message.contains("not valid in its encoding"), "{message}");
    assert_eq!(bench.bytes("latin.txt"), b"name = caf\xe9\nsize = 2\n");
}

#[tokio::test]
async fn a_path_suffix_is_found_if_it_is_unique() {
    let bench = Bench::new();
    bench.write("packages/core/src/a.ts", "one");
    bench.done("replace", edit("src/a.ts", "one", "two")).await;
    assert_eq!(bench.bytes("packages/core/src/a.ts"), b"two");
    bench.write("packages/other/src/a.ts", "two");
    let (kind, _) = bench.failure("replace", edit("src/a.ts", "two", "three")).await;
    assert_eq!(kind, ToolErrorKind::FileNotFound);
}

#[tokio::test]
async fn titles_describe_the_edit() {
    let bench = Bench::new();
    let title = |old: &str, new: &str| bench.prepare("replace", edit("a.txt", old, new)).unwrap().describe();
    assert_eq!(title("", "x"), "Create a.txt");
    assert_eq!(title("x", "x"), "No file changes to a.txt");
    let long = "a line that is longer than thirty characters";
    assert_eq!(title(long, "short\nmore"), "a.txt: a line that is longer than thi... => short");
}

#[tokio::test]
async fn the_preview_matches_the_edit() {
    let bench = Bench::new();
    let file = bench.path("a.txt");
    put(&file, "one\r\ntwo\r\n");
    for (name, args) in [
        (
            "replace",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2", "instruction": "i"}),
        ),
        ("write_file", json!({"file_path": "a.txt", "content": "one\n3\n"})),
        ("write_file", json!({"file_path": "new.txt", "content": "x\n"})),
    ] {
        let call = bench.prepare(name, args).unwrap();
        let shown = call.preview().await.unwrap().unwrap();
        match bench.run(call).await {
            ToolOutcome::Done(output) => match output.display {
                Display::Diff(done) => assert_eq!(*done, shown),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\r\n3\r\n");
}

#[tokio::test]
async fn the_preview_of_an_edit_that_cannot_be_made_fails_as_the_edit_does() {
    let bench = Bench::new();
    put(&bench.path("a.txt"), "one\none\n");
    for (file, old) in [("a.txt", "three"), ("a.txt", "one"), ("a.txt", ""), ("missing.txt", "one")] {
        let call = bench.prepare("replace", edit(file, old, "2")).unwrap();
        let told = call.preview().await.unwrap_err();
        match bench.run(call).await {
            ToolOutcome::Failed(failure) => assert_eq!(failure, told),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_edit_is_rejected_if_the_file_changed_after_its_preview() {
    let bench = Bench::new();
    let file = bench.path("a.txt");
    for (name, args) in [
        (
            "replace",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2", "instruction": "i"}),
        ),
        ("write_file", json!({"file_path": "a.txt", "content": "one\n3\n"})),
    ] {
        put(&file, "one\ntwo\n");
        let call = bench.prepare(name, args).unwrap();
        assert!(call.preview().await.unwrap().is_some());
        put(&file, "one\ntwo\nthree\n");
        match bench.run(call).await {
            ToolOutcome::Failed(failure) => assert!(failure.message.contains("changed after"), "{failure:?}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n");
    }
}
