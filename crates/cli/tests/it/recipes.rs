//! The recipes for continuous integration: their shell steps, run as the services run them.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_test_support::{Run, TestHome, executable, git, reply};

use crate::scene::{Scene, binary};

fn recipe(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines below the first `run: |` (or `- |`) after the marker, without their indentation.
fn step(recipe: &str, marker: &str) -> String {
    let (_, after) = recipe.split_once(marker).unwrap_or_else(|| panic!("no {marker}"));
    let mut lines = after.lines().skip_while(|line| !line.trim_end().ends_with('|'));
    let start = lines.next().unwrap();
    let depth = start.len() - start.trim_start().len();
    let is_inside = |line: &&str| line.trim().is_empty() || line.len() - line.trim_start().len() > depth;
    let body: Vec<&str> = lines.take_while(is_inside).collect();
    let own = body.iter().find(|line| !line.trim().is_empty()).unwrap();
    let indent = own.len() - own.trim_start().len();
    body.iter().map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect()
}

/// A repository with one commit and a change in a second one; programs in `bin` come first in `PATH`.
struct Checkout {
    scene: Scene,
    base: String,
}

impl Checkout {
    fn new(answer: &str) -> Self {
        let home = TestHome::new().file("greeting.txt", "hello\n");
        let scene = Scene::untrusted(home, [reply().text(answer)]);
        for folder in ["bin", "runner", "pollux/bin"] {
            fs::create_dir_all(scene.home.home().join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(binary(), scene.home.home().join("pollux/bin/pollux")).unwrap();
        let checkout = Self { scene, base: String::new() };
        checkout.program(
            "gh",
            "printf '%s\\n' \"$*\" >> \"$HOME/gh.log\"\ncase \"$1\" in label) printf 'bug\\ndocs\\n' ;; esac",
        );
        checkout.git(&["init", "-q", "-b", "main"]);
        checkout.git(&["add", "greeting.txt"]);
        checkout.git(&["commit", "-q", "-m", "begin"]);
        let base = checkout.git(&["rev-parse", "HEAD"]);
        fs::write(checkout.project().join("greeting.txt"), "goodbye\n").unwrap();
        checkout.git(&["add", "greeting.txt"]);
        Self { base, ..checkout }
    }

    fn project(&self) -> PathBuf {
        self.scene.home.project()
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.scene.home.home().join("bin").join(name);
        executable(path, &format!("#!/bin/sh\n{script}\n"));
    }

    fn git(&self, args: &[&str]) -> String {
        let done = git(self.project()).args(args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Runs a script as a runner does, with these variables.
    fn run(&self, shell: &str, script: &str, variables: &[(&str, &str)]) -> Run {
        let home = self.scene.home.home();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}", home.join("bin").display(), home.join("pollux/bin").display());
        let run = self.scene.home.command(Path::new(shell), ["-c", script]).against(&self.scene.server);
        let run = run.env("PATH", &path).env("RUNNER_TEMP", &home.join("runner").display().to_string());
        let run = run.env("GEMINI_MODEL", crate::scene::MODEL).env("TMPDIR", &home.display().to_string());
        variables.iter().fold(run, |run, (name, value)| run.env(name, value)).run()
    }

    fn temp(&self, name: &str) -> String {
        fs::read_to_string(self.scene.home.home().join("runner").join(name)).unwrap()
    }

    fn gh(&self) -> String {
        fs::read_to_string(self.scene.home.home().join("gh.log")).unwrap_or_default()
    }

    fn asked(&self) -> String {
        self.scene.server.request(0).last_texts().join("\n")
    }
}

const BASH: &str = "/bin/bash";

#[test]
fn the_review_workflow_sends_the_change_and_comments_with_the_answer() {
    let checkout = Checkout::new("Looks *fine*.");
    checkout.git(&["commit", "-q", "-m", "change"]);
    let recipe = recipe("github/pollux-review.yml");
    let run = checkout.run(BASH, &step(&recipe, "name: Review\n"), &[("BASE_SHA", &checkout.base)]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(checkout.asked().contains("+goodbye"), "{}", checkout.asked());
    assert_eq!(checkout.temp("review.md").trim(), "Looks *fine*.");
    let names = checkout.scene.server.request(0).tool_names();
    assert!(names.iter().all(|name| name != "run_shell_command" && name != "write_file"), "{names:?}");
    let run = checkout.run(BASH, &step(&recipe, "name: Comment\n"), &[("NUMBER", "7")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let file = checkout.scene.home.home().join("runner/review.md");
    assert_eq!(checkout.gh(), format!("pr comment 7 --body-file {}\n", file.display()));
}

#[test]
fn the_triage_workflow_adds_only_labels_that_exist() {
    let checkout = Checkout::new("bug\n--repo=other\ninvented\ndocs");
    let recipe = recipe("github/pollux-triage.yml");
    let run = checkout.run(BASH, &step(&recipe, "name: Read the labels\n"), &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let hostile = "crash $(touch owned) `touch owned` %s";
    let issue = [("TITLE", hostile), ("BODY", "It \"breaks\".")];
    let run = checkout.run(BASH, &step(&recipe, "name: Choose\n"), &issue);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(checkout.asked().contains(hostile) && checkout.asked().contains("It \"breaks\"."));
    assert!(!checkout.project().join("owned").exists());
    let run = checkout.run(BASH, &step(&recipe, "name: Label\n"), &[("NUMBER", "3")]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let gh = checkout.gh();
    let added: Vec<&str> = gh.lines().filter(|line| line.starts_with("issue")).collect();
    assert_eq!(added, ["issue edit 3 --add-label bug", "issue edit 3 --add-label docs"]);
}

#[test]
fn the_action_keeps_the_answer_and_names_its_file() {
    let checkout = Checkout::new("Forty-two.");
    let outputs = checkout.scene.home.home().join("outputs").display().to_string();
    let variables = [
        ("PROMPT", "What is $HOME?"),
        ("MODE", "default"),
        ("FORMAT", "text"),
        ("GITHUB_OUTPUT", outputs.as_str()),
    ];
    let run =
        checkout.run(BASH, &step(&recipe("github-action/action.yml"), "name: Run\n      id"), &variables);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(checkout.asked().contains("What is $HOME?"));
    assert_eq!(checkout.temp("pollux-answer").trim(), "Forty-two.");
    assert!(fs::read_to_string(outputs).unwrap().starts_with("answer-file="));
}

#[test]
fn the_gitlab_job_leaves_the_review_as_an_artifact() {
    let checkout = Checkout::new("Two remarks.");
    checkout.git(&["commit", "-q", "-m", "change"]);
    let project = checkout.project().display().to_string();
    let variables =
        [("CI_MERGE_REQUEST_DIFF_BASE_SHA", checkout.base.as_str()), ("CI_PROJECT_DIR", project.as_str())];
    let run = checkout.run("/bin/sh", &step(&recipe("gitlab.yml"), "  script:\n"), &variables);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(checkout.asked().contains("+goodbye") && run.stdout.contains("Two remarks."));
    assert_eq!(checkout.scene.home.read("review.md").trim(), "Two remarks.");
}

#[test]
fn the_hook_stops_a_commit_only_when_told_to() {
    for (answer, code) in [("BLOCK\nThere is a key in it.", 1), ("OK\nFine.", 0)] {
        let checkout = Checkout::new(answer);
        let run = checkout.run("/bin/sh", &recipe("pre-commit"), &[]);
        assert_eq!(run.code, Some(code), "{answer}: {}", run.stderr);
        assert_eq!(run.stderr.contains("There is a key in it."), code == 1, "{}", run.stderr);
        assert!(checkout.asked().contains("+goodbye"));
    }
    let unstaged = Checkout::new("BLOCK");
    unstaged.git(&["reset", "-q"]);
    assert_eq!(unstaged.run("/bin/sh", &recipe("pre-commit"), &[]).code, Some(0), "nothing is staged");
    assert_eq!(unstaged.scene.server.requests().len(), 0);
    let broken = Checkout::new("BLOCK");
    broken.program("pollux", "exit 41");
    let run = broken.run("/bin/sh", &recipe("pre-commit"), &[]);
    assert!(run.code == Some(0) && run.stderr.contains("was not reviewed"), "{}", run.stderr);
}

#[test]
fn recipes_build_this_version_and_paste_nothing_into_scripts() {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    for name in
        ["github/pollux-review.yml", "github/pollux-triage.yml", "github-action/action.yml", "gitlab.yml"]
    {
        let text = recipe(name);
        assert!(text.contains(version), "{name}");
        for script in text.split("run: |\n").skip(1) {
            let script = script.split("\n\n").next().unwrap();
            assert!(!script.contains("${{"), "{name}: expressions are pasted as source:\n{script}");
        }
    }
}
