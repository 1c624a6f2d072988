//! `pollux skills`: what it prints, what it writes, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pollux_test_support::{Run, TestHome, git};
use serde_json::{Value, json};

use crate::scene::binary;

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}\n---\nInstructions of {name}.\n")
}

fn run(home: &TestHome, args: &[&str]) -> Run {
    let args: Vec<&str> = ["skills"].into_iter().chain(args.iter().copied()).collect();
    home.command(binary(), args).env("GEMINI_CLI_TRUST_WORKSPACE", "true").run()
}

fn said(home: &TestHome, args: &[&str]) -> String {
    let run = run(home, args);
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    run.stdout
}

fn failed(home: &TestHome, args: &[&str]) -> String {
    let run = run(home, args);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{args:?}: {}", run.stderr);
    run.stderr
}

fn installed(home: &TestHome) -> Vec<String> {
    let entries = fs::read_dir(home.gemini_dir().join("skills")).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_list_has_upstreams_form_and_conflicts_are_told() {
    let home = TestHome::new();
    let none = said(&home, &["list"]);
    assert!(none.starts_with("No skills discovered besides the built-in ones: "), "{none}");
    let home = home
        .home_file(".gemini/skills/a/SKILL.md", &skill("same"))
        .home_file(".agents/skills/b/SKILL.md", &skill("other"))
        .file(".gemini/skills/c/SKILL.md", &skill("same"));
    let listed = run(&home, &["list"]);
    let project = home.project().join(".gemini/skills/c/SKILL.md");
    let old = home.gemini_dir().join("skills/a/SKILL.md");
    let other = home.home().join(".agents/skills/b/SKILL.md");
    assert_eq!(
        listed.stdout,
        format!(
            "Discovered Agent Skills:\n\nother [Enabled]\n  Description: Does other\n  Location:    {}\n\n\
             same [Enabled]\n  Description: Does same\n  Location:    {}\n\n",
            other.display(),
            project.display()
        )
    );
    assert_eq!(
        listed.stderr,
        format!(
            "Skill conflict detected: \"same\" from \"{}\" is overriding the same skill from \"{}\".\n",
            project.display(),
            old.display()
        )
    );
    let all = said(&home, &["list", "--all"]);
    assert!(all.contains("review-change [Enabled] [Built-in]\n"), "{all}");
    let rows: Value = serde_json::from_str(&said(&home, &["list", "--json"])).unwrap();
    assert_eq!((rows[1]["name"].as_str(), rows[1]["origin"].as_str()), (Some("same"), Some("workspace")));
    assert!(said(&home, &["show", "SAME"]).ends_with("\n\nInstructions of same.\n"));
    assert!(failed(&home, &["show", "sane"]).contains("did you mean \"same\"?"));
    let untrusted =
        home.command(binary(), ["skill", "list"]).env("GEMINI_CLI_TRUST_WORKSPACE", "false").run();
    assert!(!untrusted.stdout.contains(&project.display().to_string()), "{}", untrusted.stdout);
}

#[test]
fn switching_off_and_on_writes_lists_and_says_where() {
    let home = TestHome::new().home_file(".gemini/skills/a/SKILL.md", &skill("one"));
    let user = home.gemini_dir().join("settings.json").display().to_string();
    let work = home.project().join(".gemini/settings.json").display().to_string();
    let by = "by adding it to the disabled list in";
    assert_eq!(
        said(&home, &["disable", "one"]),
        format!("Skill \"one\" disabled {by} workspace ({work}) settings.\n")
    );
    assert_eq!(said(&home, &["disable", "ONE"]), "Skill \"ONE\" is already disabled.\n");
    assert!(said(&home, &["list"]).contains("one [Disabled]\n"));
    assert_eq!(
        said(&home, &["disable", "one", "--scope", "user"]),
        format!("Skill \"one\" is now disabled in both user ({user}) and workspace ({work}) settings.\n")
    );
    assert_eq!(
        said(&home, &["enable", "one"]),
        format!(
            "Skill \"one\" enabled by removing it from the disabled list in user ({user}) and workspace ({work}) settings.\n"
        )
    );
    assert_eq!(said(&home, &["enable", "one"]), "Skill \"one\" is already enabled.\n");
    assert!(said(&home, &["list"]).contains("one [Enabled]\n"));
    assert!(
        failed(&home, &["disable", "one", "--scope", "galaxy"]).contains("Choices: \"user\", \"workspace\"")
    );
}

#[test]
fn an_unknown_skill_is_not_switched_and_nothing_is_written() {
    let home = TestHome::new().home_file(".gemini/skills/a/SKILL.md", &skill("one"));
    for word in ["disable", "enable"] {
        let text = failed(&home, &[word, "ones"]);
        assert!(
            text.contains("Skill \"ones\" not found.") && text.contains("did you mean \"one\"?"),
            "{text}"
        );
    }
    assert!(!home.project().join(".gemini").exists());
}

#[test]
fn in_an_untrusted_folder_a_skill_is_disabled_for_the_user() {
    let home = TestHome::new().home_file(".gemini/skills/a/SKILL.md", &skill("one"));
    let untrusted = |args: &[&str]| {
        let args: Vec<&str> = ["skills"].into_iter().chain(args.iter().copied()).collect();
        home.command(binary(), args).env("GEMINI_CLI_TRUST_WORKSPACE", "false").run()
    };
    let run = untrusted(&["disable", "one"]);
    assert!(run.stdout.contains("disabled list in user ("), "{} {}", run.stdout, run.stderr);
    assert!(!home.project().join(".gemini").exists());
    assert!(untrusted(&["list"]).stdout.contains("one [Disabled]"));
}

#[test]
fn a_folder_is_installed_after_consent_and_removed_by_name() {
    let home = TestHome::new().file("src/one/SKILL.md", &skill("one")).file("src/one/run.sh", "x");
    let place = home.gemini_dir().join("skills/one");
    let asked = home.command(binary(), ["skills", "install", "src"]).stdin("n\n").run();
    assert_eq!(asked.code, Some(1));
    assert!(
        asked.stderr.contains("Do you want to continue? [Y/n]: Skill installation cancelled by user."),
        "{}",
        asked.stderr
    );
    assert!(installed(&home).is_empty());
    let asked = home.command(binary(), ["skills", "install", "src"]).stdin("\n").run();
    assert_eq!(
        asked.stdout,
        format!("Successfully installed skill: one (scope: user, location: {})\n", place.display())
    );
    for wanted in [
        "Searching for skills in ",
        "Installing agent skill(s) from \"src\".\n\nThe following agent skill(s) will be installing:\n\n  * one: Does one\n    (Source: ",
        "(2 items in directory)\n\nInstall Destination: ",
        "The model follows the instructions of a skill",
    ] {
        assert!(asked.stderr.contains(wanted), "{} should have {wanted}", asked.stderr);
    }
    assert!(place.join("run.sh").exists());
    let again = run(&home, &["install", "src", "--consent"]);
    assert!(again.stderr.contains("You have consented to the following:\n"), "{}", again.stderr);
    assert!(again.stderr.contains("Skill \"one\" already exists. Overwriting..."));
    assert_eq!(
        said(&home, &["uninstall", "one"]),
        format!("Successfully uninstalled skill: one (scope: user, location: {})\n", place.display())
    );
    assert_eq!(failed(&home, &["uninstall", "one"]), "Skill \"one\" is not installed in the user scope.\n");
    assert_eq!(
        said(&home, &["link", "src/one", "--scope", "workspace", "--consent"]),
        "\nSuccessfully linked skills.\n"
    );
    assert!(home.project().join(".gemini/skills/one").symlink_metadata().unwrap().file_type().is_symlink());
    said(&home, &["uninstall", "one", "--scope", "workspace"]);
    assert!(home.project().join("src/one/SKILL.md").exists());
    assert!(failed(&home, &["install", "nowhere", "--consent"]).starts_with("Install source not found.\n"));
}

#[test]
fn a_name_that_is_never_found_is_refused_and_of_two_skills_the_used_one_is_named() {
    let home = TestHome::new()
        .file("hidden/SKILL.md", &skill(".x"))
        .file("src/SKILL.md", &skill("one"))
        .home_file(".agents/skills/other/SKILL.md", &skill("one"));
    let refused = failed(&home, &["install", "hidden", "--consent"]);
    assert!(
        refused.contains("the skill \".x\" (`") && refused.contains("change `name` in its SKILL.md"),
        "{refused}"
    );
    assert!(installed(&home).is_empty());
    let (own, other) = (home.gemini_dir().join("skills/one"), home.home().join(".agents/skills/other"));
    let conflict = format!(
        "Skill conflict detected: \"one\" from \"{}\" is overriding the same skill from \"{}\".\n",
        other.join("SKILL.md").display(),
        own.join("SKILL.md").display()
    );
    for action in ["install", "link"] {
        let done = run(&home, &[action, "src", "--consent"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stderr.contains(&conflict), "{action}: {}", done.stderr);
    }
}

#[test]
fn a_repository_is_cloned_and_a_folder_of_it_installed() {
    let home = TestHome::new().file("repo/skills/one/SKILL.md", &skill("one"));
    let repo = home.project().join("repo");
    let git = |args: &[&str]| assert!(git(&repo).args(args).status().unwrap().success());
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let url = format!("file://{}", repo.display());
    let missed = failed(&home, &["install", &url, "--consent"]);
    assert!(
        missed.contains(&format!("No valid skills found in {url}. Ensure a SKILL.md file exists")),
        "{missed}"
    );
    assert!(missed.contains("--path skills"), "{missed}");
    let escaped = failed(&home, &["install", &url, "--path", "../..", "--consent"]);
    assert!(escaped.contains("Invalid path: Directory traversal not allowed."), "{escaped}");
    let done = run(&home, &["install", &url, "--path", "skills", "--consent"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("Cloning skill from {url}...\n")), "{}", done.stderr);
    assert_eq!(installed(&home), ["one"]);
}

/// A zip file with files that are stored as they are.
fn zip(path: &Path, files: &[(&str, &str)]) {
    fn crc(bytes: &[u8]) -> u32 {
        let step = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
            })
        };
        !bytes.iter().fold(!0, step)
    }
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in files {
        let offset = u32::try_from(archive.len()).unwrap();
        let (size, length) = (u32::try_from(text.len()).unwrap(), u16::try_from(name.len()).unwrap());
        let mut common = vec![10, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc(text.as_bytes()).to_le_bytes());
        common.extend([size.to_le_bytes(), size.to_le_bytes()].concat());
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        archive.extend(b"PK\x03\x04".iter().chain(&common));
        archive.extend(name.bytes().chain(text.bytes()));
        directory.extend(b"PK\x01\x02\x0a\x00".iter().chain(&common));
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.bytes());
    }
    let (start, size) = (u32::try_from(archive.len()).unwrap(), u32::try_from(directory.len()).unwrap());
    let count = u16::try_from(files.len()).unwrap();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    archive.extend([size.to_le_bytes(), start.to_le_bytes()].concat());
    archive.extend([0, 0]);
    fs::write(path, archive).unwrap();
}

#[test]
fn a_skill_file_is_unpacked_and_a_hostile_one_refused_by_name() {
    let home = TestHome::new();
    let text = skill("packed");
    zip(&home.project().join("good.skill"), &[("packed/SKILL.md", &text), ("packed/scripts/a.sh", "x")]);
    let done = run(&home, &["install", "good.skill", "--consent"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("Extracting skill from good.skill...\n"));
    assert!(home.gemini_dir().join("skills/packed/scripts/a.sh").exists());
    for (name, wanted) in [
        ("../../evil", "its entry `../../evil` points outside the folder"),
        ("/evil", "its entry `/evil` has an absolute path"),
        ("a\u{1b}[2J", "its entry `a\\u{1b}[2J` has control characters"),
    ] {
        zip(&home.project().join("bad.skill"), &[("x/SKILL.md", &text), (name, "x")]);
        let refused = failed(&home, &["install", "bad.skill", "--consent"]);
        assert!(refused.contains("refused the archive") && refused.contains(wanted), "{refused}");
    }
    fs::write(home.project().join("no.skill"), "hello").unwrap();
    assert!(failed(&home, &["install", "no.skill", "--consent"]).contains("expected zip or tar.gz"));
    assert_eq!(installed(&home), ["packed"]);
}

#[test]
fn hostile_skills_are_left_out_with_a_reason_and_the_rest_is_listed() {
    let bomb: String = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let all = vec![format!("*a{}", n - 1); 9].join(", ");
        format!("{text}a{n}: &a{n} [{all}]\n")
    });
    let home = TestHome::new()
        .home_file(".gemini/skills/good/SKILL.md", &skill("good"))
        .home_file(".gemini/skills/bomb/SKILL.md", &format!("---\n{bomb}name: bomb\ndescription: d\n---\n"))
        .home_file(".gemini/skills/name/SKILL.md", "---\nname: \"a\\e[31mb\"\ndescription: d\n---\n")
        .home_file(".gemini/skills/huge/SKILL.md", "---\nname: huge\n");
    let huge = home.gemini_dir().join("skills/huge/SKILL.md");
    fs::OpenOptions::new().write(true).open(huge).unwrap().set_len(1 << 30).unwrap();
    let listed = run(&home, &["list"]);
    assert_eq!((listed.code, listed.stdout.matches(" [Enabled]").count()), (Some(0), 1), "{}", listed.stdout);
    for wanted in [
        "bomb/SKILL.md`: the front matter expands beyond the limit",
        "name/SKILL.md`: the name contains control characters",
        "huge/SKILL.md`: the front matter is longer than 64 KiB",
    ] {
        assert!(listed.stderr.contains(wanted), "{} should have {wanted}", listed.stderr);
    }
}

#[test]
fn a_file_does_not_play_the_administrator() {
    let home = TestHome::new();
    let system = home.home().join("system.json");
    fs::write(&system, json!({"admin": {"skills": {"enabled": false}}}).to_string()).unwrap();
    let listed = home
        .command(binary(), ["skills", "list"])
        .env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", &system.display().to_string())
        .run();
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
}

/// The reference implementation of the specification, if `scripts/python-peers.sh` has installed it.
fn reference() -> Option<PathBuf> {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agent-skills/python/bin/agentskills");
    if !program.exists() {
        use std::io::Write as _;
        let _ =
            writeln!(std::io::stderr(), "skipped: scripts/python-peers.sh has not installed the validator");
    }
    program.exists().then_some(program)
}

#[test]
fn what_is_shipped_and_what_is_installed_is_valid_for_the_reference_implementation() {
    let Some(program) = reference() else { return };
    let home = TestHome::new().file("src/one/SKILL.md", &skill("one"));
    said(&home, &["install", "src", "--consent"]);
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../extend/skills");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(shipped).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.push(home.gemini_dir().join("skills/one"));
    for folder in folders {
        let output = Command::new(&program).arg("validate").arg(&folder).output().unwrap();
        assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn our_validation_agrees_with_the_reference_implementation() {
    let Some(program) = reference() else { return };
    let home = TestHome::new();
    let texts = [
        ("good", "---\nname: good\ndescription: d\nlicense: MIT\nmetadata:\n  author: me\n---\nx"),
        ("other", "---\nname: good\ndescription: d\n---\nx"),
        ("Loud", "---\nname: Loud\ndescription: d\n---\nx"),
        ("a_b", "---\nname: a_b\ndescription: d\n---\nx"),
        ("a--b", "---\nname: a--b\ndescription: d\n---\nx"),
        ("-a", "---\nname: -a\ndescription: d\n---\nx"),
        ("bare", "---\nname: bare\n---\nx"),
        ("keys", "---\nname: keys\ndescription: d\nversion: 1\n---\nx"),
        ("none", "x"),
        ("open", "---\nname: open\ndescription: d\n"),
        ("count1", "---\nname: count1\ndescription: 12\ncompatibility: any\n---\nx"),
        ("straße", "---\nname: straße\ndescription: d\n---\nx"),
    ];
    for (folder, text) in texts {
        let place = home.project().join(folder);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("SKILL.md"), text).unwrap();
        let theirs = Command::new(&program).arg("validate").arg(&place).output().unwrap().status.success();
        let ours = run(&home, &["validate", &format!("./{folder}"), "--json"]);
        let told: Value = serde_json::from_str(&ours.stdout).unwrap();
        assert_eq!(
            (told["valid"].as_bool(), ours.code == Some(0)),
            (Some(theirs), theirs),
            "{folder}: {}",
            ours.stdout
        );
    }
}
