#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pollux_domain::id::SessionId;
use pollux_domain::time::Timestamp;
use pollux_host::{Workspace, WorkspaceSetup};
use pollux_session::{add_shell_command, log_prompt};
use tempfile::TempDir;

use super::*;

/// A machine with a project, a folder for programs and nothing else.
struct Scene {
    scratch: TempDir,
    vars: Vec<(String, String)>,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for folder in ["project/.git", "home", "temp", "bin"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        let bin = scratch.path().join("bin").display().to_string();
        Self { scratch, vars: vec![("PATH".to_owned(), format!("{bin}:/usr/bin:/bin"))] }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.scratch.path().join(below)
    }

    fn file(&self, below: &str, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        // Another process writes it: a file that a child of another test has open for writing cannot be run.
        let write = r##"mkdir -p "${1%/*}" && printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""##;
        let file = self.path(&format!("bin/{name}"));
        let written = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(file).arg(script).status();
        assert!(written.unwrap().success());
    }

    fn var(&mut self, key: &str, value: &str) {
        self.vars.push((key.to_owned(), value.to_owned()));
    }

    fn services(&self) -> ComposerServices {
        let workspace = Workspace::open(&WorkspaceSetup {
            root: self.path("project"),
            include_directories: Vec::new(),
            project_temp: self.path("temp"),
            gemini_dir: self.path("home/.gemini"),
            user_home: self.path("home"),
        });
        let filtering = FileFiltering {
            respect_git_ignore: true,
            respect_gemini_ignore: true,
            ..FileFiltering::default()
        };
        let commands = pollux_extend::commands::CommandFolders {
            user: Some(self.path("home/.gemini/commands")),
            ..pollux_extend::commands::CommandFolders::default()
        };
        let offers = Offers {
            workspace: Some(Arc::new(workspace.unwrap())),
            commands,
            server_names: vec!["files".to_owned(), "search".to_owned()],
            extensions: vec!["paint".to_owned()],
            models: vec![
                ("auto".to_owned(), "pro-1".to_owned()),
                ("flash-1".to_owned(), "flash-1".to_owned()),
            ],
            ..Offers::default()
        };
        ComposerServices {
            root: self.path("project"),
            home: self.path("home"),
            temp: self.path("temp"),
            state: vec![self.path("temp"), self.path("before")],
            session: Mutex::new(SessionId::from_file("first")),
            queued: Arc::default(),
            env: Env::new(self.vars.clone(), self.path("project")),
            filtering,
            loose: true,
            deep: true,
            preferred_editor: Mutex::default(),
            offers: Mutex::new(offers),
            offered: Condvar::new(),
            paths: Arc::default(),
            latest: AtomicU64::new(0),
        }
    }
}

/// The last answer to a question, as what would be put in.
fn asked(services: &ComposerServices, kind: Kind, text: &str) -> Vec<String> {
    let id = services.latest.load(Ordering::Relaxed) + 1;
    let mut last = Vec::new();
    services.complete(&Wanted { id, kind, text: text.to_owned(), range: 0..0 }, &mut |items, _| last = items);
    last.into_iter().map(|item| item.insert).collect()
}

#[test]
fn files_of_the_workspace_follow_an_at_sign() {
    let scene = Scene::new();
    scene.file("project/.gitignore", "*.log\n");
    scene.file("project/.geminiignore", "private/\n");
    for file in ["src/main.rs", "src/other.rs", "debug.log", "private/key.txt", "my notes.md"] {
        scene.file(&format!("project/{file}"), "");
    }
    let services = scene.services();
    assert_eq!(asked(&services, Kind::At, "mainrs"), ["src/main.rs"]);
    assert_eq!(asked(&services, Kind::At, "src/"), ["src/", "src/main.rs", "src/other.rs"]);
    assert_eq!(asked(&services, Kind::At, "notes"), ["my notes.md"]);
    for hidden in ["debug", "key"] {
        assert!(asked(&services, Kind::At, hidden).is_empty(), "{hidden}");
    }
}

#[test]
fn a_changed_ignore_file_counts_for_the_next_answer() {
    let scene = Scene::new();
    scene.file("project/.geminiignore", "private/\n");
    scene.file("project/private/key.txt", "");
    scene.file("project/plans.md", "");
    let services = scene.services();
    assert_eq!(asked(&services, Kind::At, "plans"), ["plans.md"]);
    scene.file("project/.geminiignore", "plans.md\n");
    assert!(asked(&services, Kind::At, "plans").is_empty());
    assert_eq!(asked(&services, Kind::At, "key.txt"), ["private/key.txt"]);
}

#[test]
fn commands_follow_a_slash_with_their_words_and_names() {
    let scene = Scene::new();
    scene.file("home/.gemini/commands/git/tidy.toml", "description = \"Tidy up\"\nprompt = \"x\"\n");
    scene.file("home/.gemini/commands/broken.toml", "description = 1\n");
    for tag in ["first", "second"] {
        let saved = pollux_session::Checkpoint { history: Vec::new(), auth_type: None };
        let folder = if tag == "first" { "before" } else { "temp" };
        pollux_session::save_checkpoint(&scene.path(folder), tag, &saved).unwrap();
    }
    scene.file("project/src/main.rs", "");
    let services = scene.services();
    let slash = |line: &str| asked(&services, Kind::Slash, line);
    assert_eq!(slash("/qui"), ["quit"]);
    assert_eq!(slash("/exit"), ["quit"]);
    assert_eq!(slash("/tidy"), ["git:tidy"]);
    assert!(slash("/").len() > 30 && !slash("/").contains(&"broken".to_owned()));
    assert_eq!(slash("/chat res"), ["resume"]);
    let mut tags = slash("/chat resume ");
    tags.sort();
    assert_eq!(tags, ["first", "second"]);
    assert_eq!(slash("/resume delete sec"), ["second"]);
    assert_eq!(slash("/mcp enable fi"), ["files"]);
    assert_eq!(slash("/extensions disable "), ["paint"]);
    assert_eq!(slash("/model set fla"), ["flash-1"]);
    assert_eq!(slash("/directory add s"), ["src/"]);
    assert!(slash("/nosuch x").is_empty() && slash("/quit a b c").is_empty());
    let mut run = Vec::new();
    services.complete(
        &Wanted { id: 999, kind: Kind::Slash, text: "/".to_owned(), range: 0..0 },
        &mut |items, _| run = items,
    );
    let item = |name: &str| run.iter().find(|item| item.insert == name).unwrap();
    assert!(item("help").run && !item("git:tidy").run);
    assert_eq!(
        (item("git:tidy").description.as_str(), item("quit").label.as_str()),
        ("Tidy up", "quit (exit)")
    );
}

#[test]
fn programs_and_paths_stand_in_a_shell_command() {
    let scene = Scene::new();
    scene.program("zz-paint", "");
    scene.file("bin/zz-plain", "no program");
    for file in ["src/main.rs", ".hidden", "sun.txt"] {
        scene.file(&format!("project/{file}"), "");
    }
    scene.file("home/letter.txt", "");
    let services = scene.services();
    assert_eq!(asked(&services, Kind::Shell { command: true }, "zz-p"), ["zz-paint"]);
    let path = |word: &str| asked(&services, Kind::Shell { command: false }, word);
    assert_eq!(path("s"), ["src/", "sun.txt"]);
    assert_eq!(path("src/m"), ["src/main.rs"]);
    assert_eq!(path("~/let"), ["~/letter.txt"]);
    assert_eq!(path(".hid"), [".hidden"]);
    assert!(!path("").contains(&".hidden".to_owned()) && path("nowhere/").is_empty());
    assert_eq!(asked(&services, Kind::Shell { command: true }, "./su"), ["./sun.txt"]);
}

#[test]
fn earlier_prompts_come_once_and_in_their_order() {
    let scene = Scene::new();
    let session = SessionId::from_file("a");
    for (prompt, time) in [("one", 1), ("two", 2), ("one", 3), ("  ", 4)] {
        log_prompt(&scene.path("temp"), &session, prompt, Timestamp::from_millis(time)).unwrap();
    }
    // The project had another name before.
    log_prompt(&scene.path("before"), &session, "zero", Timestamp::from_millis(0)).unwrap();
    for (folder, command) in [("before", "pwd"), ("before", "ls"), ("before", "id"), ("temp", "ls")] {
        add_shell_command(&scene.path(folder), command).unwrap();
    }
    let (prompts, commands) = scene.services().history();
    assert_eq!(
        (prompts, commands),
        (vec!["zero".into(), "two".into(), "one".into()], ["pwd", "id", "ls"].map(String::from).to_vec())
    );
}

#[test]
fn what_was_not_sent_is_found_in_the_next_session() {
    let scene = Scene::new();
    let services = scene.services();
    services.set_session(SessionId::from_file("second"));
    assert!(services.save_unsent("a follow-up\nof two lines", false));
    assert!(services.save_unsent("ls -la", true));
    let log = fs::read_to_string(scene.path("temp/logs.json")).unwrap();
    assert!(log.contains("\"sessionId\": \"second\""), "{log}");
    let (prompts, commands) = scene.services().history();
    assert_eq!(prompts, ["a follow-up\nof two lines"]);
    assert_eq!(commands, ["ls -la"]);
    // Where it cannot be saved, the caller shows all of it.
    fs::remove_dir_all(scene.path("temp")).unwrap();
    fs::write(scene.path("temp"), "no folder").unwrap();
    assert!(!services.save_unsent("more", false));
}

#[test]
fn queued_prompts_are_logged_before_they_are_sent_and_not_again() {
    let scene = Scene::new();
    let services = scene.services();
    services.add_queued(vec!["then test".to_owned(), "then commit".to_owned()]);
    services.log_queued();
    // Killed here, the next session finds them.
    assert_eq!(scene.services().history().0, ["then test", "then commit"]);
    assert!(services.has_logged("then test\n\nthen commit"));
    services.add_queued(vec!["not sent".to_owned()]);
    assert!(services.save_unsent("not sent", false));
    let log = fs::read_to_string(scene.path("temp/logs.json")).unwrap();
    assert_eq!(log.matches("\"message\"").count(), 3, "{log}");
}

fn left_behind(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn an_editor_gets_a_private_file_that_is_gone_afterwards() {
    let mut scene = Scene::new();
    scene.program("ed1", "stat -c %a \"$2\" > \"$1\"; echo more >> \"$2\"; touch \"$2~\"");
    let report = scene.path("report").display().to_string();
    scene.var("EDITOR", &format!("ed1 {report}"));
    let services = scene.services();
    assert_eq!(services.edit("text\n", "../prompt.md").unwrap(), "text\nmore\n");
    assert_eq!(fs::read_to_string(&report).unwrap(), "600\n");
    assert!(left_behind(&scene.path("temp")).is_empty());
}

#[test]
fn what_an_editor_saved_is_kept_if_it_cannot_be_returned() {
    let mut scene = Scene::new();
    scene.program("latin", "printf 'gr\\366\\337e' > \"$1\"; chmod 644 \"$1\"");
    scene.program("killed", "echo saved > \"$1\"; kill -9 $$");
    scene.program("swaps", "touch \"$(dirname \"$1\")/.p.md.swp\"; exit 1");
    scene.program("removes", "rm \"$1\"");
    let temp = scene.path("temp");
    let cases = [
        ("latin", "not UTF-8", Some(("p.md", "gr\u{f6}\u{df}e"))),
        ("killed", "signal: 9", Some(("p.md", "saved\n"))),
        ("swaps", "failed", Some((".p.md.swp", ""))),
        ("removes", "No such file", None),
    ];
    for (editor, problem, kept) in cases {
        scene.var("EDITOR", editor);
        let said = scene.services().edit("x", "p.md").unwrap_err();
        assert!(said.contains(problem), "{said}");
        let Some((name, content)) = kept else {
            assert!(left_behind(&temp).is_empty() && !said.contains('`'), "{said}");
            continue;
        };
        let [folder] = left_behind(&temp).try_into().unwrap();
        let bytes = fs::read(folder.join(name)).unwrap();
        let latin: String = bytes.into_iter().map(char::from).collect();
        assert_eq!(latin, content, "{editor}");
        let named = if name == "p.md" { folder.join(name) } else { folder.clone() };
        assert!(said.ends_with(&format!(" What the editor wrote is in `{}`.", named.display())), "{said}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("p.md"))), (0o700, 0o600), "{editor}");
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn the_preferred_editor_goes_first_and_what_is_wrong_is_said() {
    let mut scene = Scene::new();
    scene.program("fails", "exit 3");
    scene.program("codium", "for last; do :; done; echo \"$1\" > \"$last\"");
    scene.var("EDITOR", "fails");
    let services = scene.services();
    let failed = services.edit("x", "p.md").unwrap_err();
    assert!(failed.contains("`fails` failed") && failed.contains('3'), "{failed}");
    services.prefer_editor(Some("vscodium"));
    assert_eq!(services.edit("x", "p.md").unwrap(), "--wait\n");
    services.prefer_editor(Some("bbedit"));
    assert!(services.edit("x", "p.md").unwrap_err().contains("BBEdit (`bbedit`) not found"));
    services.prefer_editor(Some("notepad"));
    assert!(services.edit("x", "p.md").unwrap_err().contains("expected one of vscode, "));
    assert!(left_behind(&scene.path("temp")).is_empty());
    let mut scene = Scene::new();
    scene.var("VISUAL", "gone --now");
    assert!(scene.services().edit("x", "p.md").unwrap_err().contains("`gone` (from `VISUAL`) not found"));
    assert_eq!(pollux_front::editors::editors().len(), 16);
}

#[test]
fn the_clipboard_gives_a_picture_else_a_text_else_a_reason() {
    let mut scene = Scene::new();
    assert!(matches!(scene.services().clipboard(), Clip::Nothing(_)));
    scene.program("wl-paste", "case \"$3\" in image/png) exit 1;; *) printf 'some text';; esac");
    scene.var("WAYLAND_DISPLAY", "wayland-0");
    assert_eq!(scene.services().clipboard(), Clip::Text("some text".to_owned()));
    scene.program("wl-paste", "printf '\\211PNG\\r\\n\\032\\n-rest'");
    let Clip::Picture(path) = scene.services().clipboard() else { panic!("no picture") };
    assert!(fs::read(&path).unwrap().ends_with(b"-rest"));
    assert!(Path::new(&path).starts_with(scene.path("temp/images").canonicalize().unwrap()));
    scene.program("wl-paste", "exit 1");
    let Clip::Nothing(why) = scene.services().clipboard() else { panic!("something") };
    assert!(why.contains("neither text nor an image"), "{why}");
    scene.program("wl-paste", "exec sleep 600");
    let services = scene.services();
    let soon = Duration::from_millis(50);
    let Clip::Nothing(why) = clipboard::look_within(soon, &services.env, &scene.path("temp")) else {
        panic!("something")
    };
    assert!(why.contains("did not answer"), "{why}");
}

#[test]
fn an_at_sign_without_a_match_says_so() {
    let scene = Scene::new();
    scene.file("project/a.txt", "");
    let services = scene.services();
    let mut notes = Vec::new();
    let wanted = Wanted { id: 1, kind: Kind::At, text: "zzzq".to_owned(), range: 0..0 };
    services.complete(&wanted, &mut |items, note| notes.push((items.len(), note)));
    assert_eq!(notes.last(), Some(&(0, "No file matches")), "{notes:?}");
}

#[test]
fn a_path_is_sought_until_the_session_is_open_and_its_files_are_listed() {
    let scene = Scene::new();
    scene.file("project/src/greet.rs", "");
    let services = scene.services();
    let offers = std::mem::take(&mut *services.offers.locked());
    let (notes, answers) = std::sync::mpsc::channel();
    let wanted = Wanted { id: 1, kind: Kind::At, text: "src/greet.rs".to_owned(), range: 0..0 };
    std::thread::scope(|scope| {
        let services = &services;
        scope.spawn(move || {
            services.complete(&wanted, &mut |items, note| notes.send((items, note)).unwrap());
        });
        assert_eq!(answers.recv().unwrap(), (Vec::new(), READING));
        services.set_offers(offers);
        let (mut items, note) = answers.iter().last().unwrap();
        assert_eq!((items.remove(0).insert.as_str(), note), ("src/greet.rs", ""));
    });
}

#[test]
fn a_file_that_is_newer_than_the_list_is_found() {
    let scene = Scene::new();
    scene.file("project/a.txt", "");
    let services = scene.services();
    assert_eq!(asked(&services, Kind::At, "a.txt"), ["a.txt"]);
    scene.file("project/src/greet.rs", "");
    assert_eq!(asked(&services, Kind::At, "greet"), ["src/greet.rs"]);
}

#[test]
fn files_of_this_name_come_before_agents_that_only_contain_its_letters() {
    let item = |name: &str| Item { insert: name.to_owned(), ..Item::default() };
    let agents = ["codebase_investigator", "cat_herder"].map(item);
    let found = |sought: &str| -> Vec<String> {
        let paths = ["src/cat", "concat.py"].map(item).into_iter();
        mentions(sought, &agents, paths, &[item("github:cat")]).into_iter().map(|item| item.insert).collect()
    };
    assert_eq!(found("cat"), ["src/cat", "cat_herder", "concat.py", "codebase_investigator", "github:cat"]);
    assert_eq!(found(""), ["codebase_investigator", "cat_herder", "src/cat", "concat.py", "github:cat"]);
}
