//! `pollux sessions`: reading what is there. Changing it is in `sessions_command/changing.rs`.

#[path = "sessions_command/archive.rs"]
pub(crate) mod archive;
#[path = "sessions_command/changing.rs"]
mod changing;
#[path = "sessions_command/resuming.rs"]
mod resuming;
#[path = "sessions_command/rewinding.rs"]
mod rewinding;

use std::fs;

use pollux_domain::time::{Clock, SystemClock};
use pollux_session::list;
use serde_json::{Value, json};

use crate::scene::{all_files, binary, keys, lines, panicked, parse};
use archive::{CLAUDE_ID, Home, OTHER, agent, user};

/// Two sessions of this project and one of another.
fn three() -> Home {
    let home = Home::new();
    home.session(
        "alpha-0001",
        "2026-01-02T03:04:05.000Z",
        &[user("u1", "fix the database migration"), agent("g1", "Done.")],
    );
    home.session(
        "beta-0002",
        "2026-02-02T03:04:05.000Z",
        &[user("u1", "write a poem"), agent("g1", "Roses are red.")],
    );
    home.session_in(
        OTHER,
        "gamma-0003",
        "2026-03-02T03:04:05.000Z",
        &[user("u1", "deploy the shop"), agent("g1", "Deployed.")],
    );
    home
}

#[test]
fn the_list_has_the_numbers_that_resume_takes_and_needs_nothing() {
    let home = three();
    let run = home.run_without_key(&["sessions", "list"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let shown: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(shown.len(), 2, "{}", run.stdout);
    assert_eq!((shown[0][0], shown[1][0]), ("1", "2"));
    assert!(
        run.stdout.lines().next().unwrap().ends_with("alpha-0001  fix the database migration"),
        "{}",
        run.stdout
    );
    // The index and the plain listing agree.
    let plain = list(&[home.chats()], SystemClock.now());
    let ids: Vec<&str> = plain.sessions.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, ["alpha-0001", "beta-0002"]);
    // The second list comes from the index.
    assert_eq!(home.run(&["sessions", "list"]).stdout, run.stdout);
}

#[test]
fn the_list_for_programs_has_the_documented_fields() {
    let home = three();
    let value = home.json(&["sessions", "list", "--json"]);
    let first = &value[0];
    assert_eq!(
        (&first["number"], &first["source"], &first["sessionId"]),
        (&json!(1), &json!("gemini"), &json!("alpha-0001"))
    );
    for key in [
        "projectHash",
        "projectPath",
        "file",
        "format",
        "kind",
        "startTime",
        "lastUpdated",
        "firstUser",
        "lastUser",
        "userMessages",
        "messages",
        "toolCalls",
        "errors",
        "title",
        // gemini-cli's names for the same.
        "id",
        "index",
        "fileName",
        "displayName",
        "messageCount",
        "firstUserMessage",
        "isCurrentSession",
    ] {
        assert!(first.get(key).is_some(), "{key} in {:?}", keys(first));
    }
    assert_eq!((&first["id"], &first["index"]), (&json!("alpha-0001"), &json!(1)));
    assert_eq!(home.json(&["sessions", "list", "--json", "--all-projects"]).as_array().unwrap().len(), 3);
}

#[test]
fn all_projects_are_grouped_and_other_agents_are_marked() {
    let home = three();
    home.claude("fix the parser");
    let run = home.run(&["sessions", "list", "--all-projects", "--source", "all"]);
    let headings: Vec<&str> =
        run.stdout.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert_eq!(headings, [home.project(), OTHER.to_owned()], "{}", run.stdout);
    let claude = run.stdout.lines().find(|line| line.contains(CLAUDE_ID)).unwrap();
    assert!(claude.contains("  claude ") && claude.ends_with("fix the parser"), "{claude}");
    let own = run.stdout.lines().find(|line| line.contains("gamma-0003")).unwrap();
    assert!(own.contains("  gemini "), "{own}");
    let theirs = home.json(&["sessions", "list", "--source", "claude", "--json"]);
    assert_eq!((theirs.as_array().unwrap().len(), &theirs[0]["number"]), (1, &Value::Null));
}

#[test]
fn sub_agents_are_hidden_until_asked_for_and_then_stand_below_their_parent() {
    let home = three();
    let folder = home.chats().join("alpha-0001");
    fs::create_dir_all(&folder).unwrap();
    let child = archive::record(
        &home.project(),
        "child-77",
        "2026-01-02T03:05:00.000Z",
        &[user("u", "look it up")],
        "subagent",
    );
    fs::write(folder.join("child-77.json"), child.to_string()).unwrap();
    assert!(!home.run(&["sessions", "list"]).stdout.contains("child-77"));
    let run = home.run(&["sessions", "list", "--subagents"]);
    let ids: Vec<&str> =
        ["alpha-0001", "child-77", "beta-0002"].into_iter().filter(|id| run.stdout.contains(id)).collect();
    assert_eq!(ids.len(), 3, "{}", run.stdout);
    assert!(run.stdout.lines().nth(1).unwrap().ends_with("child-77    └ look it up"), "{}", run.stdout);
    let shown = home.run(&["sessions", "show", "1"]).stdout;
    assert!(shown.contains("Sub-agents:\n  look it up"), "{shown}");
    assert!(home.run(&["sessions", "transcript", "child-77"]).stdout.contains("user: look it up"));
}

#[test]
fn reading_makes_nothing_where_there_is_no_home() {
    let home = Home::new();
    for args in [
        &["sessions", "list"][..],
        &["sessions", "list", "--all-projects", "--source", "all"],
        &["sessions", "stats"],
        &["sessions", "verify"],
        &["sessions", "search", "x"],
    ] {
        let run = home.run(args);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{args:?}");
    }
    let run = home.run(&["sessions", "show", "latest"]);
    assert_eq!(run.code, Some(42));
    assert!(
        run.stderr.starts_with("no session matches `latest`: this project has no sessions\n\nhint: "),
        "{}",
        run.stderr
    );
    assert!(!home.test.gemini_dir().exists());
}

#[test]
fn everything_can_be_read_where_no_index_can_be_kept() {
    let home = three();
    home.claude("fix the parser");
    // As in a home that cannot be written, also for the superuser.
    fs::write(home.test.gemini_dir().join("pollux"), "in the way").unwrap();
    let before = all_files(&home.test.home());
    let list = home.run(&["sessions", "list"]);
    assert_eq!(list.stdout.lines().count(), 2, "{}", list.stderr);
    assert!(home.run(&["sessions", "list", "--all-projects", "--source", "all"]).stdout.contains(CLAUDE_ID));
    assert!(home.run(&["sessions", "search", "migration"]).stdout.contains("alpha-0001"));
    assert!(home.run(&["sessions", "stats"]).stdout.starts_with("sessions    4 (gemini 3, claude 1)\n"));
    for args in [
        &["sessions", "show", "1"][..],
        &["sessions", "transcript", "gamma-0003"],
        &["sessions", "verify"],
        &["sessions", "find-project", "shop"],
    ] {
        assert_eq!(home.run(args).code, Some(0), "{args:?}");
    }
    assert_eq!(all_files(&home.test.home()), before);
}

#[test]
fn a_session_is_shown_by_number_id_beginning_and_latest() {
    let home = three();
    for which in ["1", "alpha-0001", "alph"] {
        let run = home.run(&["sessions", "show", which]);
        assert!(
            run.stdout.starts_with("fix the database migration\n  session     alpha-0001\n  number      1\n"),
            "{which}: {}",
            run.stdout
        );
        assert!(run.stdout.ends_with("\nPrompts:\n  1. fix the database migration [u1]\n"), "{}", run.stdout);
    }
    assert!(home.run(&["sessions", "show", "latest"]).stdout.starts_with("write a poem\n"));
    assert!(
        home.run(&["sessions", "show", "latest", "--all-projects"]).stdout.starts_with("deploy the shop\n")
    );
    // An id is found wherever it is.
    assert!(home.run(&["sessions", "show", "gamma"]).stdout.starts_with("deploy the shop\n"));
    let value = home.json(&["sessions", "show", "2", "--json"]);
    assert_eq!(
        value["prompts"],
        json!([{"number": 1, "id": "u1", "text": "write a poem", "timestamp": "2026-02-02T03:04:05.000Z"}])
    );
}

#[test]
fn a_session_that_is_not_meant_clearly_is_exit_42_with_what_to_do() {
    let home = three();
    home.session("alpha-0009", "2026-01-03T03:04:05.000Z", &[user("u1", "x")]);
    let cases = [
        ("7", "no session of this project matches `7`"),
        ("0", "no session of this project matches `0`"),
        ("nope", "no session of this project matches `nope`"),
        ("alpha", "Session identifier \"alpha\" matches several sessions: alpha-0001, alpha-0009."),
        ("\u{1b}[31mred", "no session of this project matches `red`"),
    ];
    for (which, text) in cases {
        let run = home.run(&["sessions", "show", which]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{which}");
        assert!(run.stderr.starts_with(text) && run.stderr.contains("\n\nhint: "), "{which}: {}", run.stderr);
    }
    assert_eq!(home.run(&["sessions", "show", "2", "--all-projects"]).code, Some(42));
    assert_eq!(home.run(&["sessions", "show", "none", "--source", "codex"]).code, Some(42));
}

#[test]
fn titles_and_texts_of_others_cannot_control_the_terminal() {
    let home = Home::new();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J clear \u{202e}txt\u{9b}31m\rgone";
    home.session("evil-0001", "2026-01-02T03:04:05.000Z", &[user("u\u{1b}[1m", evil), agent("g1", evil)]);
    home.claude(evil);
    for args in [
        &["sessions", "list", "--source", "all"][..],
        &["sessions", "list", "--json"],
        &["sessions", "show", "1"],
        &["sessions", "show", "1", "--json"],
        &["sessions", "search", "clear"],
        &["sessions", "search", "clear", "--json"],
        &["sessions", "transcript", "1"],
        &["sessions", "transcript", "latest", "--source", "claude", "--format", "markdown"],
        &["sessions", "transcript", "1", "--format", "jsonl"],
        &["sessions", "delete", "1"],
        &["sessions", "delete", "1", "--yes"],
    ] {
        let run = home.run(args);
        let obeyed = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!run.stdout.contains(obeyed), "{args:?}: {:?}", run.stdout);
        assert!(!run.stderr.contains(obeyed), "{args:?}: {:?}", run.stderr);
        assert!(run.stdout.contains("clear") || run.stderr.contains("clear"), "{args:?}");
    }
}

#[test]
fn a_search_finds_words_in_all_projects_and_agents() {
    let home = three();
    home.claude("fix the parser migration");
    let run = home.run(&["sessions", "search", "migr"]);
    assert!(run.stdout.contains("alpha-0001") && run.stdout.contains(CLAUDE_ID), "{}", run.stdout);
    assert!(run.stdout.contains("): fix the database migration\n"), "{}", run.stdout);
    assert!(!run.stdout.contains('\u{1b}') && !run.stdout.contains("gamma"));
    let here = home.run(&["sessions", "search", "deploy", "--this-project"]);
    assert_eq!(here.stdout, "No results for: deploy\n");
    let hits = home.json(&["sessions", "search", "database", "migration", "--source", "gemini", "--json"]);
    let hit = hits.as_array().unwrap().iter().find(|hit| hit["role"] == "user").unwrap();
    assert_eq!((&hit["messageId"], &hit["snippet"]), (&json!("u1"), &json!("fix the database migration")));
    assert_eq!(hit["matches"], json!([[8, 16], [17, 26]]));
    assert_eq!(hit["session"]["sessionId"], "alpha-0001");
    let limited = home.json(&["sessions", "search", "the", "--limit", "1", "--json"]);
    assert_eq!(limited.as_array().unwrap().len(), 1);
    assert_eq!(home.run(&["sessions", "search", "!!"]).code, Some(42));
    assert_eq!(home.run(&["sessions", "search", "x", "--limit", "0"]).code, Some(1));
}

#[test]
fn transcripts_have_three_forms_also_for_other_agents() {
    let home = three();
    home.claude("fix the parser");
    assert_eq!(
        home.run(&["sessions", "transcript", "1"]).stdout,
        "user: fix the database migration\n\nagent: Done.\n"
    );
    let markdown = home.run(&["sessions", "transcript", "1", "--format", "markdown"]).stdout;
    assert_eq!(markdown, "## User\n\nfix the database migration\n\n## Agent\n\nDone.\n");
    let json = lines(&home.run(&["sessions", "transcript", "1", "--format", "jsonl"]).stdout);
    assert_eq!(
        (&json[1]["role"], &json[1]["text"], &json[1]["n"]),
        (&json!("agent"), &json!("Done."), &json!(2))
    );
    let theirs = home.run(&["sessions", "transcript", CLAUDE_ID]).stdout;
    assert_eq!(theirs, "user: fix the parser\n\nagent: Looking.\n  [Bash] args=make ERROR: no rule\n");
    let by_source = home.run(&["sessions", "transcript", "latest", "--source", "claude"]).stdout;
    assert_eq!(by_source, theirs);
    let wrong = home.run(&["sessions", "transcript", "1", "--format", "pdf"]);
    assert_eq!(wrong.code, Some(1));
}

#[test]
fn a_project_is_found_by_a_part_of_its_name() {
    let home = three();
    let found = home.json(&["sessions", "find-project", "SHO", "--json"]);
    assert_eq!((&found[0]["projectPath"], &found[0]["match"]), (&json!(OTHER), &json!("prefix")));
    assert_eq!(found[0]["sessions"][0]["sessionId"], "gamma-0003");
    assert!(
        home.run(&["sessions", "find-project", "shop"])
            .stdout
            .starts_with(&format!("{OTHER}\n  deploy the shop ("))
    );
    let none = home.run(&["sessions", "find-project", "nowhere"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(42), ""));
}

#[test]
fn no_project_is_found_in_a_home_that_does_not_exist() {
    let home = three();
    let missing = home.test.home().join("none/at/all");
    let args = ["sessions", "find-project", "shop"];
    let run = home.test.command(binary(), args).env("GEMINI_CLI_HOME", missing.to_str().unwrap()).run();
    assert_eq!((run.code, run.stdout.as_str()), (Some(42), ""), "{}", run.stderr);
    assert!(!panicked(&run) && !missing.exists(), "{}", run.stderr);
}

#[test]
fn a_folder_of_sessions_that_cannot_be_listed_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = three();
    let mode = |mode| fs::set_permissions(home.chats(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o000);
    // Nothing is denied to root.
    if fs::read_dir(home.chats()).is_err() {
        let told = format!("could not list the sessions in `{}`: Permission denied", home.chats().display());
        for args in [
            &["--list-sessions"][..],
            &["--delete-session", "1"],
            &["--resume", "latest", "-p", "x"],
            &["sessions", "list"],
            &["sessions", "show", "1"],
        ] {
            let run = home.run(args);
            assert!(run.stderr.contains(&told), "{args:?}: {}", run.stderr);
        }
    }
    mode(0o700);
}

#[test]
fn sums_count_everything() {
    let home = three();
    home.claude("fix the parser");
    let value = home.json(&["sessions", "stats", "--json"]);
    assert_eq!(value["bySource"], json!({"gemini": 3, "claude": 1}));
    assert_eq!((&value["sessions"], &value["projects"]), (&json!(4), &json!(2)));
    assert!(value["bytes"].as_u64().unwrap() > 0 && value["index"]["file"].is_string());
}

#[test]
fn the_command_explains_itself() {
    let home = Home::new();
    let overview = home.run(&["sessions"]);
    assert_eq!((overview.code, overview.stderr.as_str()), (Some(0), ""));
    assert!(overview.stdout.starts_with("List, search, export and rewind sessions\n"));
    for name in [
        "list",
        "show",
        "search",
        "transcript",
        "find-project",
        "export",
        "import",
        "delete",
        "prune",
        "verify",
        "stats",
        "rewind",
    ] {
        assert!(overview.stdout.contains(&format!("\n  {name} ")), "{name}");
        let page = home.run(&["sessions", name, "--help"]);
        assert_eq!(page.code, Some(0), "{name}");
        assert!(
            page.stdout.contains(&format!("Usage: pollux sessions {name}"))
                && page.stdout.contains("\nExamples:\n"),
            "{name}"
        );
    }
    for wrong in [
        &["sessions", "nope"][..],
        &["sessions", "show"],
        &["sessions", "rewind", "1", "--to", "1"],
        &["sessions", "list", "--source", "me"],
    ] {
        assert_eq!(home.run(wrong).code, Some(1), "{wrong:?}");
    }
    assert_eq!(parse(&home.run(&["sessions", "list", "--json"]).stdout), json!([]));
}
