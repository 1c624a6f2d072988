//! Help, completions, manual pages, and answers to typing mistakes, as the program gives them.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::scene::Scene;

/// The program in an empty home, without a terminal and without a key.
fn pollux(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pollux"));
    command.env_clear().env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    command.args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Every command with the words that lead to it, from the main help down.
fn paths(command: &clap::Command, path: &[String]) -> Vec<Vec<String>> {
    let below = command.get_subcommands().flat_map(|inner| {
        let path = [path, &[inner.get_name().to_owned()]].concat();
        paths(inner, &path)
    });
    std::iter::once(path.to_vec()).chain(below).collect()
}

/// Whether a program is installed; a line says so where a test is skipped. In CI scripts install them all.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: `{program}` is not installed (scripts/install-test-services.sh)"
        );
    }
    found.is_ok()
}

#[test]
fn every_command_prints_its_help_with_both_flags_and_exits_with_0() {
    let paths = paths(&pollux_cli::command_line(), &[]);
    assert!(paths.len() > 80, "{}", paths.len());
    for path in paths {
        let mut pages = Vec::new();
        for flag in ["--help", "-h"] {
            let args: Vec<&str> = path.iter().map(String::as_str).chain([flag]).collect();
            let run = pollux(&args);
            assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), ""), "{args:?}");
            pages.push(text(&run.stdout).to_owned());
        }
        assert_eq!(pages[0], pages[1], "{path:?}");
        assert!(pages[0].contains("\nUsage: pollux") && pages[0].contains("\nExamples:\n"), "{}", pages[0]);
    }
}

#[test]
fn typing_mistakes_are_answered_in_short_and_nothing_is_sent() {
    let cases: &[(&[&str], &str)] = &[
        (&["sesions", "list"], "pollux sessions"),
        (&["sesions"], "pollux sessions"),
        (&["mcp", "ad", "x"], "pollux mcp add"),
        (&["--modle", "x"], "--model"),
        (&["--outputformat", "json"], "--output-format"),
        (&["sandbox", "stat"], "pollux sandbox status"),
        (&["sess", "list"], "pollux sessions"),
        (&["memory", "serch"], "pollux memory search"),
        (&["extnsions"], "pollux extensions"),
        (&["hook", "lst"], "pollux hooks list"),
    ];
    // A request would find no reply, and the scene would say so.
    let scene = Scene::new([]);
    for (args, expected) in cases {
        let run = scene.prepare(args).run();
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("did you mean `{expected}`?")), "{args:?}: {}", run.stderr);
        assert!(run.stderr.lines().count() <= 6, "{args:?}: {}", run.stderr);
    }
    assert_eq!(scene.server.requests().len(), 0);
}

fn completions(shell: &str, folder: &Path) -> std::path::PathBuf {
    let run = pollux(&["completions", shell]);
    assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), ""), "{shell}");
    let script = text(&run.stdout);
    for word in ["find-project", "output-format", "completions"] {
        assert!(script.contains(word), "{shell}: {word}");
    }
    let file = folder.join(format!("pollux.{shell}"));
    fs::write(&file, script).unwrap();
    file
}

#[test]
fn completions_are_loaded_by_their_shells() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, arguments) in
        [("bash", &["-n"][..]), ("zsh", &["-f", "-n"]), ("fish", &["--no-config", "-n"])]
    {
        let file = completions(shell, folder.path());
        if !installed(shell) {
            continue;
        }
        let run = Command::new(shell).args(arguments).arg(&file).env("HOME", folder.path()).output().unwrap();
        assert!(
            run.status.success() && run.stderr.is_empty(),
            "{shell}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
    }
    for shell in ["powershell", "elvish"] {
        completions(shell, folder.path());
    }
}

#[test]
fn bash_completes_commands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let file = completions("bash", folder.path());
    for (words, expected) in
        [("pollux sess", "sessions"), ("pollux mcp ad", "add"), ("pollux --output-f", "--output-format")]
    {
        let count = words.split(' ').count() - 1;
        let last = words.split(' ').next_back().unwrap();
        let script = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD={count}; _pollux pollux '{last}' x; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let run = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert_eq!(text(&run.stdout).trim(), expected, "{words}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

fn manual() -> (TempDir, Vec<std::path::PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("man/man1");
    let run = pollux(&["man", target.to_str().unwrap()]);
    assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), ""));
    let mut pages: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let said = format!("Wrote {} manual pages to {}\n", pages.len(), target.display());
    assert_eq!(text(&run.stdout), said);
    (folder, pages)
}

#[test]
fn every_command_has_a_manual_page() {
    let (_folder, pages) = manual();
    let names: Vec<String> =
        pages.iter().map(|page| page.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    for path in paths(&pollux_cli::command_line(), &[]) {
        let name =
            std::iter::once("pollux").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let main = fs::read_to_string(pages.iter().find(|page| page.ends_with("pollux.1")).unwrap()).unwrap();
    assert_eq!(text(&pollux(&["man"]).stdout), main);
}

#[test]
fn manual_pages_render_without_a_warning() {
    if !installed("man") {
        return;
    }
    let (_folder, pages) = manual();
    for page in pages {
        let run = Command::new("man")
            .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANROFFSEQ", "")
            .env("MANWIDTH", "80")
            .output()
            .unwrap();
        assert!(
            run.status.success() && run.stderr.is_empty(),
            "{}: {}",
            page.display(),
            String::from_utf8_lossy(&run.stderr)
        );
    }
}

#[test]
fn a_folder_for_manual_pages_that_cannot_be_written_is_a_failure() {
    let run = pollux(&["man", "/dev/null/pages"]);
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(1), ""));
    assert!(text(&run.stderr).starts_with("could not write manual pages\n"), "{}", text(&run.stderr));
}
