use std::fs::File;

use pollux_domain::tool::{Display, Effect, ToolErrorKind};
use pollux_tools::{ReadManyRequest, read_many};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, mime_of, shown, text_of};

#[tokio::test]
async fn a_small_file_is_returned_unchanged_without_a_display_text() {
    let bench = Bench::new();
    let path = bench.write("src/a.rs", "one\r\ntwo\n");
    let call = bench.prepare("read_file", json!({"file_path": "src/a.rs"})).unwrap();
    assert_eq!(call.describe(), "src/a.rs");
    assert_eq!(call.effect(), Effect::Read(vec![path]));
    let output = bench.done("read_file", json!({"file_path": "src/a.rs"})).await;
    assert_eq!((text_of(&output.parts).as_str(), &output.display), ("one\ntwo\n", &Display::Nothing));
}

#[tokio::test]
async fn a_range_is_announced_in_upstreams_words() {
    let bench = Bench::new();
    bench.write("a.txt", "1\n2\n3\n4\n5");
    let output = bench.done("read_file", json!({"file_path": "a.txt", "start_line": 2, "end_line": 3})).await;
    assert_eq!(
        text_of(&output.parts),
        "\nIMPORTANT: The file content has been truncated.\nStatus: Showing lines 2-3 of 5 total lines.\n\
         Action: To read more of the file, you can use the 'start_line' and 'end_line' parameters in a subsequent \
         'read_file' call. For example, to read the next section of the file, use start_line: 4.\n\n\
         --- FILE CONTENT (truncated) ---\n2\n3"
    );
    assert_eq!(shown(&output.display), "Read lines 2-3 of 5 from a.txt");
    let old_names = bench.text("read_file", json!({"file_path": "a.txt", "offset": 1, "limit": 2})).await;
    assert_eq!(old_names, text_of(&output.parts));
}

#[tokio::test]
async fn every_encoding_with_a_mark_is_read_as_text() {
    let bench = Bench::new();
    let utf16: Vec<u8> =
        [0xfeff_u16].into_iter().chain("grün\n".encode_utf16()).flat_map(u16::to_be_bytes).collect();
    bench.write("a.txt", utf16);
    assert_eq!(bench.text("read_file", json!({"file_path": "a.txt"})).await, "grün\n");
    bench.write("b.txt", b"\xef\xbb\xbfx");
    assert_eq!(bench.text("read_file", json!({"file_path": "b.txt"})).await, "x");
    bench.write("c.txt", b"mostly plain ascii text with one \xff byte");
    assert!(bench.text("read_file", json!({"file_path": "c.txt"})).await.contains('\u{fffd}'));
}

#[tokio::test]
async fn images_and_documents_are_sent_as_data_and_binaries_are_not() {
    let bench = Bench::new();
    bench.write("a.png", b"\x89PNG\0");
    bench.write("a.pdf", b"%PDF-1.4\0");
    bench.write("a.wasm", b"\0asm");
    bench.write("big.svg", vec![b' '; (1 << 20) + 1]);
    let image = bench.done("read_file", json!({"file_path": "a.png"})).await;
    assert_eq!((mime_of(&image.parts[0]), shown(&image.display)), ("image/png", "Read image file: a.png"));
    let document = bench.done("read_file", json!({"file_path": "a.pdf"})).await;
    assert_eq!(
        (mime_of(&document.parts[0]), shown(&document.display)),
        ("application/pdf", "Read pdf file: a.pdf")
    );
    let binary = bench.done("read_file", json!({"file_path": "a.wasm"})).await;
    assert_eq!(text_of(&binary.parts), "Cannot display content of binary file: a.wasm");
    assert_eq!(shown(&binary.display), "Skipped binary file: a.wasm");
    let svg = bench.text("read_file", json!({"file_path": "big.svg"})).await;
    assert_eq!(svg, "Cannot display content of SVG file larger than 1MB: big.svg");
}

#[tokio::test]
async fn unreadable_files_are_named() {
    let bench = Bench::new();
    bench.write("dir/x", "");
    let missing = bench.failure("read_file", json!({"file_path": "no.txt"})).await;
    assert_eq!(
        missing,
        (ToolErrorKind::FileNotFound, format!("File not found: {}", bench.path("no.txt").display()))
    );
    let folder = bench.failure("read_file", json!({"file_path": "dir"})).await;
    let expected = format!("Path is a directory, not a file: {}", bench.path("dir").display());
    assert_eq!(folder, (ToolErrorKind::TargetIsDirectory, expected));
    let root = bench.failure("read_file", json!({"file_path": "."})).await;
    assert_eq!(root.0, ToolErrorKind::TargetIsDirectory);
    // A sparse file of 3 GB is refused without being read.
    File::create(bench.path("huge.txt")).unwrap().set_len(3 << 30).unwrap();
    let huge =
        bench.failure("read_file", json!({"file_path": "huge.txt", "start_line": 1, "end_line": 2})).await;
    let expected =
        format!("File size exceeds the 20MB limit: {} (3072.00MB)", bench.path("huge.txt").display());
    assert_eq!(huge, (ToolErrorKind::FileTooLarge, expected));
}

#[tokio::test]
async fn bad_arguments_are_refused_before_anything_runs() {
    let bench = Bench::new();
    assert_eq!(
        bench.refusal("read_file", json!({"file_path": " "})),
        "The 'file_path' parameter must be non-empty."
    );
    assert_eq!(bench.refusal("read_file", json!({})), "params must have required property 'file_path'");
    let backwards = json!({"file_path": "a", "start_line": 3, "end_line": 2});
    assert_eq!(bench.refusal("read_file", backwards), "start_line cannot be greater than end_line");
    assert_eq!(
        bench.refusal("read_file", json!({"file_path": "a", "start_line": 0})),
        "params/start_line must be >= 1"
    );
}

#[tokio::test]
async fn ignored_files_are_not_read_and_negations_work_across_files() {
    let bench = Bench::new();
    bench.write(".git/HEAD", "");
    bench.write(".gitignore", "*.key\nbuilt/\n");
    bench.write(".geminiignore", "!public.key\nprivate.txt\n");
    bench.write("sub/.gitignore", "local.txt\n");
    for name in ["a.key", "public.key", "private.txt", "built/x.txt", "sub/local.txt", "local.txt"] {
        bench.write(name, "content");
    }
    for name in ["a.key", "private.txt", "built/x.txt", "sub/local.txt"] {
        let expected =
            format!("File path '{}' is ignored by configured ignore patterns.", bench.path(name).display());
        assert_eq!(bench.refusal("read_file", json!({"file_path": name})), expected);
    }
    for name in ["public.key", "local.txt"] {
        assert_eq!(bench.text("read_file", json!({"file_path": name})).await, "content", "{name}");
    }
    std::os::unix::fs::symlink("private.txt", bench.path("link.txt")).unwrap();
    assert!(bench.refusal("read_file", json!({"file_path": "link.txt"})).contains("ignored"));
}

#[tokio::test]
async fn gitignore_is_not_applied_outside_a_repository() {
    let bench = Bench::new();
    bench.write(".gitignore", "a.txt\n");
    bench.write("a.txt", "content");
    assert_eq!(bench.text("read_file", json!({"file_path": "a.txt"})).await, "content");
}

#[tokio::test]
async fn many_files_come_in_order_with_their_paths() {
    let bench = Bench::new();
    bench.write("b.md", "bee");
    bench.write("a.md", "x\n".repeat(2500));
    bench.write("a.png", b"\x89PNG\0");
    bench.write("node_modules/c.md", "no");
    let parts = bench.done("read_many_files", json!({"include": ["**/*"]})).await;
    let text = text_of(&parts.parts);
    let a = bench.path("a.md");
    assert!(
        text.starts_with(&format!("--- {} ---\n\n[WARNING: This file was truncated.", a.display())),
        "{text}"
    );
    assert!(text.contains(&format!("--- {} ---\n\nbee\n\n", bench.path("b.md").display())));
    assert!(text.ends_with("\n--- End of content ---"));
    assert!(!text.contains("node_modules"));
    assert!(shown(&parts.display).contains("asset file (image/pdf/audio) was not explicitly requested"));

    let named = bench.done("read_many_files", json!({"include": ["*.png"]})).await;
    assert_eq!(mime_of(&named.parts[0]), "image/png");
    let nothing = bench.text("read_many_files", json!({"include": ["*.zig"]})).await;
    assert_eq!(nothing, "No files matching the criteria were found or all were skipped.");
}

#[tokio::test]
async fn a_front_end_can_read_many_files_itself() {
    let bench = Bench::new();
    bench.write("odd [1].txt", "literal");
    let request = ReadManyRequest { include: vec!["odd [1].txt".to_owned()], ..ReadManyRequest::default() };
    let setup = &bench.setup;
    let result = read_many(&setup.workspace, &setup.filtering, &request, &CancellationToken::new()).unwrap();
    assert_eq!(result.files, ["odd [1].txt"]);
    assert!(text_of(&result.parts).contains("literal"));
}

#[tokio::test]
async fn a_folder_is_listed_folders_first_without_protected_names() {
    let bench = Bench::new();
    bench.write(".git/HEAD", "");
    bench.write(".gitignore", "*.log\n");
    for (name, content) in
        [("b.txt", "12345"), ("A.txt", ""), ("x.log", ""), (".env", "S=1"), ("z/q", ""), ("m/q", "")]
    {
        bench.write(name, content);
    }
    std::os::unix::fs::symlink(bench.base().join("outside"), bench.path("leak")).unwrap();
    let output = bench.done("list_directory", json!({"dir_path": "."})).await;
    let expected = format!(
        "Directory listing for {}:\n[DIR] m\n[DIR] z\n.gitignore (6 bytes)\nA.txt (0 bytes)\nb.txt (5 bytes)\n\n(1 ignored)",
        bench.path("").display().to_string().trim_end_matches('/')
    );
    assert_eq!(text_of(&output.parts), expected);
    let Display::List { summary, items } = &output.display else { panic!() };
    assert_eq!((summary.as_str(), items.len()), ("Found 5 item(s). (1 ignored)", 5));

    let picked = bench.text("list_directory", json!({"dir_path": ".", "ignore": ["*.txt", "?"]})).await;
    assert!(picked.ends_with(":\n.gitignore (6 bytes)\n\n(1 ignored)"), "{picked}");
    let all = json!({"dir_path": ".", "file_filtering_options": {"respect_git_ignore": false}});
    assert!(bench.text("list_directory", all).await.contains("x.log"));
}

#[tokio::test]
async fn listing_a_file_fails() {
    let bench = Bench::new();
    bench.write("a.txt", "");
    std::fs::create_dir(bench.path("empty")).unwrap();
    let empty = bench.text("list_directory", json!({"dir_path": "empty"})).await;
    assert_eq!(empty, format!("Directory {} is empty.", bench.path("empty").display()));
    let file = bench.failure("list_directory", json!({"dir_path": "a.txt"})).await;
    assert_eq!(file.0, ToolErrorKind::PathIsNotADirectory);
    let missing = bench.failure("list_directory", json!({"dir_path": "no"})).await;
    assert_eq!(missing.0, ToolErrorKind::LsExecutionError);
    let start = format!("Error listing directory: {}: ", bench.path("no").display());
    assert!(missing.1.starts_with(&start), "{}", missing.1);
}

#[tokio::test]
async fn a_listing_uses_the_requested_name_and_calls_only_empty_folders_empty() {
    let bench = Bench::new();
    bench.write("dir/a.txt", "");
    std::os::unix::fs::symlink("dir", bench.path("link")).unwrap();
    let link = bench.path("link");
    let listed = bench.text("list_directory", json!({"dir_path": "link"})).await;
    assert_eq!(listed, format!("Directory listing for {}:\na.txt (0 bytes)", link.display()));
    let nothing = bench.text("list_directory", json!({"dir_path": "link", "ignore": ["*"]})).await;
    assert_eq!(nothing, format!("Directory listing for {}:\n", link.display()));
}
