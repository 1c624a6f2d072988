use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pollux_admin::Command;
use pollux_admin::auth::AuthCommand;
use pollux_admin::config::ConfigCommand;
use pollux_admin::memory::{Forgettable, Lines, MemoryCommand, Question, Reach};
use pollux_admin::policy::{PolicyCommand, PolicyView};
use pollux_admin::sessions::{RewindWhat, SessionsCommand};
use pollux_domain::approval::ApprovalMode;
use pollux_host::request::{RawOutput, Replies, ReplyOrder, Resumed, Scope, SessionChoice};
use pollux_host::sessions::{SessionSource, Wanted};
use serde_json::json;

use super::*;

const PIPED: Terminal = Terminal { stdin_tty: false, stdout_tty: false };
const AT_TERMINAL: Terminal = Terminal { stdin_tty: true, stdout_tty: true };

fn env(vars: &[(&str, &str)]) -> Env {
    Env::new(vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), PathBuf::from("/"))
}

fn planned(args: &[&str], facts: Terminal) -> Result<Launch, UsageError> {
    plan(args.iter().map(OsString::from), &facts, &env(&[]))
}

fn headless(args: &[&str]) -> Request {
    match planned(args, PIPED).unwrap() {
        Launch::Headless(options) => *options,
        other => panic!("{args:?} gave {other:?}"),
    }
}

fn help(path: &[&str]) -> Launch {
    Launch::Help(path.iter().map(|&name| name.to_owned()).collect())
}

fn refused(args: &[&str]) -> UsageError {
    planned(args, PIPED).unwrap_err()
}

const SEVERAL_ACTIONS: &str = "The flags --list-extensions, --list-sessions, and --delete-session are mutually exclusive. Please provide only one.";

#[test]
fn refused_combinations_have_upstreams_texts() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["-r", "--session-id", "a"],
            "The flags --resume, --session-id, and --session-file are mutually exclusive. Please provide only one.",
        ),
        (&["--list-sessions", "--delete-session", "1"], SEVERAL_ACTIONS),
        (&["--delete-session", "1", "-l"], SEVERAL_ACTIONS),
        (&["--list-extensions", "--list-sessions"], SEVERAL_ACTIONS),
        (&["hi", "-p", "there"], "Cannot use both a positional prompt and the --prompt (-p) flag together"),
        (&["-p", "a", "-i", "b"], "Cannot use both --prompt (-p) and --prompt-interactive (-i) together"),
        (
            &["-y", "--approval-mode", "plan"],
            "Cannot use both --yolo (-y) and --approval-mode together. Use --approval-mode=yolo instead.",
        ),
        (
            &["-o", "xml"],
            "Invalid values:\n  Argument: output-format, Given: \"xml\", Choices: \"text\", \"json\", \"stream-json\"",
        ),
        (
            &["--approval-mode=all"],
            "Invalid values:\n  Argument: approval-mode, Given: \"all\", Choices: \"default\", \"auto_edit\", \"yolo\", \"plan\"",
        ),
        (&["--nope"], "Unknown argument: nope"),
        (&["-p", "x", "-q"], "Unknown argument: q"),
        (&["--nope=3"], "Unknown argument: nope"),
        (&["--session-id", ""], "The --session-id option cannot be empty."),
        (
            &["--session-id", "a/b"],
            "Invalid session ID \"a/b\": Only alphanumeric characters, dashes, and underscores are allowed.",
        ),
        (&["-p"], "missing value for `--prompt`"),
        (&["-p", "--yolo"], "missing value for `--prompt`"),
        (&["config"], "`config` needs a subcommand"),
        (&["config", "frob"], "unknown command `config frob`"),
        (&["config", "get"], "missing argument `<key>`"),
        (&["config", "set"], "missing arguments `<key>` and `<value>`"),
        (&["policy", "explain"], "missing arguments `--tool <tool>` and `--args <args>`"),
        (&["sessions", "show"], "missing argument `<id>`"),
    ];
    for (args, text) in cases {
        let error = refused(args);
        assert_eq!(&error.to_string(), text, "{args:?}");
        let is_about_commands =
            matches!(error, UsageError::MissingSubcommand(_) | UsageError::UnknownSubcommand { .. });
        assert_eq!(error.shows_help(), is_about_commands, "{args:?}");
        assert_eq!(error.exit().code(), 1, "{args:?}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_answered_without_the_help() {
    for (args, text) in [
        (&["--yolo=maybe"][..], "invalid value `maybe` for `--yolo`: expected `true` or `false`"),
        (
            &["sessions", "search", "x", "--limit", "0"],
            "invalid value `0` for `--limit`: expected a positive number",
        ),
        (
            &["policy", "explain", "--tool", "t", "--args", "[]"],
            "invalid value `[]` for `--args`: expected a JSON object",
        ),
    ] {
        let error = refused(args);
        assert_eq!(error.to_string(), text);
        assert!(!error.shows_help());
    }
}

/// Every command that the help shows, with the words that lead to it.
fn shown() -> Vec<(Vec<String>, clap::Command)> {
    fn walk(command: &clap::Command, path: &[String], found: &mut Vec<(Vec<String>, clap::Command)>) {
        found.push((path.to_vec(), command.clone()));
        for inner in command.get_subcommands() {
            walk(inner, &[path, &[inner.get_name().to_owned()]].concat(), found);
        }
    }
    let mut found = Vec::new();
    walk(&crate::command_line(), &[], &mut found);
    found
}

#[test]
fn every_command_has_a_summary_a_usage_line_and_an_example() {
    let all = shown();
    assert!(all.len() > 80, "{}", all.len());
    for (path, command) in &all {
        let summary = command.get_about().map(ToString::to_string).unwrap_or_default();
        let words = summary.split_whitespace().count();
        assert!((2..=8).contains(&words), "{path:?}: `{summary}` has {words} words");
        assert!(summary.starts_with(char::is_uppercase) && !summary.ends_with('.'), "{path:?}: {summary}");
        let verb = summary.split(' ').next().unwrap_or_default().trim_end_matches(',');
        assert!(path.is_empty() || VERBS.contains(&verb), "{path:?}: `{verb}` is not a known imperative");
        let page = help_page(path);
        let name =
            std::iter::once("pollux").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        assert!(page.starts_with(&summary), "{page}");
        assert!(page.contains(&format!("\nUsage: {name}")), "{page}");
        let (_, examples) = page.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{page}"));
        assert!(examples.contains(&name), "{page}");
        let typed = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, typed) = typed.split_once("Examples:\n").unwrap_or_default();
        assert!(
            typed.lines().all(|line| line.chars().count() <= 100),
            "an example of {path:?} would be wrapped"
        );
    }
}

/// What summaries begin with.
const VERBS: &[&str] = &[
    "Add", "Adopt", "Approve", "Attach", "Change", "Check", "Connect", "Convert", "Create", "Delete",
    "Disable", "Enable", "Explain", "Find", "Go", "Import", "Install", "Judge", "Keep", "Let", "Link",
    "List", "Manage", "Mark", "Never", "Print", "Reload", "Remove", "Restart", "Review", "Rewind", "Run",
    "Search", "Serve", "Show", "Sign", "Start", "Stop", "Store", "Take", "Test", "Trust", "Try", "Turn",
    "Update", "Use", "Write",
];

#[test]
fn every_option_is_described() {
    for (path, command) in shown() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty() && !help.ends_with('.'), "{path:?} {}: {help}", arg.get_id());
        }
    }
}

#[test]
fn the_main_help_leads_to_every_command() {
    for (path, command) in shown() {
        let page = help_page(&path);
        for inner in command.get_subcommands() {
            let listed =
                page.lines().any(|line| line.trim_start().starts_with(&format!("{} ", inner.get_name())));
            assert!(listed, "{path:?} does not list {}", inner.get_name());
        }
    }
}

#[test]
fn every_command_explains_itself_when_asked() {
    for (path, command) in shown() {
        let mut spellings = vec![path.clone()];
        if let Some((_, parents)) = path.split_last() {
            let aliases = command.get_all_aliases().map(|alias| [parents, &[alias.to_owned()]].concat());
            spellings.extend(aliases);
        }
        for words in &spellings {
            for flag in ["--help", "-h"] {
                let typed: Vec<&str> = words.iter().map(String::as_str).chain([flag]).collect();
                assert_eq!(planned(&typed, PIPED), Ok(Launch::Help(path.clone())), "{typed:?}");
            }
            let typed: Vec<&str> = ["help"].into_iter().chain(words.iter().map(String::as_str)).collect();
            assert_eq!(planned(&typed, PIPED), Ok(Launch::Help(path.clone())), "{typed:?}");
        }
    }
    for words in [&["config", "set", "key", "--help"][..], &["--help", "mcp", "remove"], &["-h", "demo"]] {
        assert!(matches!(planned(words, PIPED), Ok(Launch::Help(_))), "{words:?}");
    }
    // What follows the server's command is the server's.
    assert!(matches!(
        planned(&["mcp", "add", "n", "srv", "--help"], PIPED),
        Ok(Launch::Admin { command: Command::Mcp(_), .. })
    ));
    assert_eq!(headless(&["help", "me", "with", "mcp"]).prompt.unwrap(), "help me with mcp");
}

#[test]
fn every_command_with_a_required_argument_has_a_usage_line() {
    for (path, _) in shown() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        if let Err(error) = planned(&words, PIPED)
            && error.shows_usage_line()
        {
            let line = usage_line(&path);
            assert!(line.starts_with(&format!("Usage: pollux {}", path.join(" "))), "{words:?}: {line}");
        }
    }
}

#[test]
fn mistyped_words_are_answered_with_the_nearest_one() {
    for (args, expected) in [
        (&["sesions", "list"][..], "`pollux sessions`"),
        (&["sesions"], "`pollux sessions`"),
        (&["sesions", "list", "--all-projets"], "`pollux sessions`"),
        (&["-m", "x", "extnsions"], "`pollux extensions`"),
        (&["polcy", "explain", "--tool", "x"], "`pollux policy`"),
        (&["complettions", "bash"], "`pollux completions`"),
        (&["mcp", "ad", "x"], "`pollux mcp add`"),
        (&["memory", "serch"], "`pollux memory search`"),
        (&["memory", "model", "instal", "x"], "`pollux memory model install`"),
        (&["hook", "lst"], "`pollux hooks list`"),
        (&["auht", "status"], "`pollux auth`"),
        (&["--modle", "x"], "`--model`"),
        (&["--outputformat", "json"], "`--output-format`"),
        (&["--outputFormat=json", "-p", "x"], "`--output-format`"),
        (&["sessions", "list", "--all-project"], "`--all-projects`"),
        (&["mcp", "list", "--debgu"], "`--debug`"),
    ] {
        let error = refused(args);
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains(expected), "{args:?}: {error}: {hint}");
        assert!(!error.shows_help() && !error.shows_usage_line(), "{args:?}");
        assert_eq!(error.exit().code(), 1);
    }
}

#[test]
fn commands_of_similar_programs_are_not_sent_to_the_model() {
    for (args, expected) in [
        (&["update"][..], "the way you installed this one"),
        (&["Upgrade"], "the way you installed this one"),
        (&["login", "--yolo"], "`pollux auth login`"),
        (&["serve"], "`pollux acp`"),
        (&["a2a-server", "--port", "41242"], "`pollux a2a serve`"),
        (&["diagnose"], "`pollux doctor`"),
    ] {
        let error = refused(args);
        assert!(matches!(error, UsageError::ForeignCommand { .. }), "{args:?}: {error}");
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains(expected) && hint.contains("pollux -p"), "{args:?}: {hint}");
    }
    assert_eq!(headless(&["update", "readme", "--yolo"]).prompt.unwrap(), "update readme");
}

#[test]
fn words_that_are_no_command_are_a_prompt() {
    for words in [
        &["hello"][..],
        &["explain"],
        &["sessions are slow, why"],
        &["sesions", "of", "the", "parliament"],
        &["--", "sesions"],
        &["-p", "sesions"],
        &["rust", "or", "go"],
    ] {
        let prompt = headless(words).prompt.unwrap();
        assert!(words.join(" ").ends_with(&prompt), "{words:?}: {prompt}");
    }
}

#[test]
fn completions_and_manual_pages_are_commands() {
    assert_eq!(planned(&["completions", "zsh"], PIPED), Ok(Launch::Completions(Shell::Zsh)));
    assert_eq!(planned(&["man"], PIPED), Ok(Launch::Man(None)));
    assert_eq!(planned(&["man", "pages"], PIPED), Ok(Launch::Man(Some("pages".into()))));
    assert!(matches!(refused(&["completions", "tcsh"]), UsageError::NotAChoice { .. }));
    assert_eq!(refused(&["completions"]), UsageError::MissingArgument("<shell>".into()));
}

#[test]
fn commands_and_flags_of_later_versions_are_refused_by_name() {
    let error = refused(&["gemma", "list", "--whatever"]);
    assert_eq!(error, UsageError::CommandUnavailable { name: "gemma".to_owned() });
    assert!(!error.shows_help());
    for args in [&["-w"][..], &["-w", "x"]] {
        assert!(matches!(refused(args), UsageError::FlagUnavailable { .. }), "{args:?}");
    }
}

#[test]
fn an_editor_can_start_the_server_in_three_ways_with_the_flags_of_a_run() {
    for args in [
        &["--acp", "-m", "x"][..],
        &["--experimental-acp", "-m", "x"],
        &["acp", "-m", "x"],
        &["-m", "x", "acp"],
    ] {
        let Ok(Launch::Acp(options)) = planned(args, PIPED) else { panic!("{args:?}") };
        assert_eq!(options.overrides, [("model.name".to_owned(), json!("x"))]);
    }
    assert_eq!(planned(&["acp", "--help"], PIPED), Ok(Launch::Help(vec!["acp".to_owned()])));
    assert!(planned(&["--acp", "-p", "hello"], PIPED).is_err());
}

#[test]
fn auth_takes_its_commands_and_never_a_key() {
    let command = |args: &[&str]| match planned(args, PIPED).unwrap() {
        Launch::Admin { command: Command::Auth(command), .. } => command,
        other => panic!("{other:?}"),
    };
    assert_eq!(command(&["auth", "login"]), AuthCommand::Login { stdin: false });
    assert_eq!(command(&["auth", "login", "--api-key-stdin"]), AuthCommand::Login { stdin: true });
    assert_eq!(command(&["auth", "logout", "--all"]), AuthCommand::Logout { all: true });
    assert_eq!(command(&["auth", "status", "--json"]), AuthCommand::Status { json: true });
    assert_eq!(command(&["auth", "list"]), AuthCommand::List { json: false });
    let error = refused(&["auth", "login", "AIza-a-key"]);
    assert_eq!(error, UsageError::KeyAsArgument);
    assert!(!format!("{error} {:?} {:?}", error, error.hint()).contains("AIza"));
    assert_eq!(refused(&["auth"]), UsageError::MissingSubcommand("auth".into()));
}

#[test]
fn a_command_word_later_in_the_prompt_is_just_a_word() {
    assert_eq!(headless(&["fix", "the", "config", "and", "mcp"]).prompt.unwrap(), "fix the config and mcp");
    assert_eq!(headless(&["--", "mcp"]).prompt.unwrap(), "mcp");
    assert_eq!(headless(&["-p", "config"]).prompt.unwrap(), "config");
}

#[test]
fn resume_takes_its_value_only_when_one_follows() {
    let cases: &[(&[&str], &str, Option<&str>)] = &[
        (&["-r"], "latest", None),
        (&["--resume", "-p", "hi"], "latest", Some("hi")),
        (&["-p", "hi", "--resume"], "latest", Some("hi")),
        (&["--resume", "latest"], "latest", None),
        (&["-r", "3", "hi"], "3", Some("hi")),
        (&["-r", "hi"], "hi", None),
        (&["--resume=", "hi"], "latest", Some("hi")),
        (&["-r", " 2 "], "2", None),
    ];
    for (args, which, prompt) in cases {
        let options = headless(args);
        assert_eq!(
            options.session,
            SessionChoice::Resume(Resumed { which: (*which).to_owned(), ..Resumed::default() }),
            "{args:?}"
        );
        assert_eq!(options.prompt.as_deref(), *prompt, "{args:?}");
    }
}

#[test]
fn flags_of_earlier_releases_set_their_settings() {
    let options = headless(&["-p", "x", "--checkpointing", "--telemetry", "--telemetry-outfile", "t.log"]);
    for (key, value) in [
        ("general.checkpointing.enabled", true.into()),
        ("telemetry.enabled", true.into()),
        ("telemetry.outfile", serde_json::Value::from("t.log")),
    ] {
        assert!(options.overrides.contains(&(key.to_owned(), value)), "{key}");
    }
    assert!(headless(&["-p", "x"]).overrides.is_empty());
}

#[test]
fn a_session_is_resumed_or_begun() {
    let latest = |or_new| Resumed { which: "latest".to_owned(), or_new, ..Resumed::default() };
    assert_eq!(headless(&["--resume-or-new", "hi"]).session, SessionChoice::Resume(latest(true)));
    assert_eq!(headless(&["--resume", "-p", "hi"]).session, SessionChoice::Resume(latest(false)));
    assert_eq!(
        headless(&["--resume-or-new", "--resume", "latest", "hi"]).session,
        SessionChoice::Resume(latest(true))
    );
    assert_eq!(refused(&["--resume-or-new", "--session-id", "x"]), UsageError::SeveralSessions);
}

#[test]
fn a_sessions_command_says_which_sessions_are_meant() {
    let command = |args: &[&str]| match planned(args, PIPED) {
        Ok(Launch::Admin { command: Command::Sessions(command), .. }) => command,
        other => panic!("{args:?} gave {other:?}"),
    };
    let own = Some(SessionSource::Gemini);
    let wanted = Wanted { all_projects: false, source: own, subagents: false, in_full: false };
    assert_eq!(command(&["sessions", "list"]), SessionsCommand::List { wanted, json: false });
    let all = Wanted { all_projects: true, source: None, subagents: true, in_full: true };
    let args = ["sessions", "list", "--all-projects", "--source=all", "--subagents", "--json"];
    assert_eq!(command(&args), SessionsCommand::List { wanted: all, json: true });
    let SessionsCommand::Search { words, wanted, .. } = command(&["sessions", "search", "two", "words"])
    else {
        panic!("not a search");
    };
    assert_eq!((words.as_str(), wanted.all_projects, wanted.source), ("two words", true, None));
    let rewind = |flags: &[&str]| {
        let args: Vec<&str> =
            ["sessions", "rewind", " 3 ", "--to", "2"].iter().chain(flags).copied().collect();
        planned(&args, PIPED)
    };
    for (flags, expected) in [
        (&["--conversation"][..], RewindWhat::Conversation),
        (&["--files"], RewindWhat::Files),
        (&["--both"], RewindWhat::Both),
        (&["--files", "--conversation"], RewindWhat::Both),
    ] {
        let Ok(Launch::Admin {
            command: Command::Sessions(SessionsCommand::Rewind { which, what, .. }), ..
        }) = rewind(flags)
        else {
            panic!("{flags:?}");
        };
        assert_eq!((which.id.as_str(), what), ("3", expected));
    }
    assert_eq!(rewind(&[]), Err(UsageError::RewindWhat));
    assert_eq!(planned(&["sessions", "delete"], PIPED), Err(UsageError::MissingArgument("<id>".into())));
    assert_eq!(planned(&["sessions", "delete", " "], PIPED), Err(UsageError::MissingArgument("<id>".into())));
}

#[test]
fn flags_become_settings_overrides_and_options() {
    let options = headless(&[
        "-m",
        "a",
        "--model=b",
        "-o",
        "json",
        "--output-dialect",
        "gemini-cli",
        "-y",
        "--allowed-tools",
        "glob, ls,,",
        "--allowed-tools",
        "x",
        "--include-directories",
        "../a",
        "--sandbox=false",
        "-p",
        "- one",
        "--fake-responses",
        "f.jsonl",
        "--accept-raw-output-risk",
        "--ignore-env",
        "-d",
    ]);
    assert_eq!(
        options.overrides,
        [
            ("model.name".to_owned(), json!("b")),
            ("output.format".to_owned(), json!("json")),
            ("output.dialect".to_owned(), json!("gemini-cli")),
        ]
    );
    assert_eq!(options.approval, Some(ApprovalMode::Yolo));
    assert_eq!(options.allowed_tools, ["glob", "ls", "x"]);
    assert_eq!(options.include_directories, ["../a"]);
    assert_eq!(options.sandbox.as_deref(), Some("false"));
    assert_eq!(options.prompt.as_deref(), Some("- one"));
    assert_eq!(options.raw_output, RawOutput::RawAccepted);
    let file = PathBuf::from("f.jsonl");
    assert_eq!(options.script.replies, Some(Replies { file, order: ReplyOrder::Strict }));
    assert!(options.ignore_env && options.debug && !options.skip_trust);
    assert_eq!(headless(&["--allowed-tools", ""]).allowed_tools, [""]);
}

#[test]
fn short_flags_may_be_joined() {
    let options = headless(&["-yd", "-p", "x"]);
    assert!(options.debug);
    assert_eq!(options.approval, Some(ApprovalMode::Yolo));
}

#[test]
fn the_surroundings_decide_between_interactive_and_headless() {
    type Case<'a> = (&'a [&'a str], Terminal, &'a [(&'a str, &'a str)], bool);
    let cases: &[Case<'_>] = &[
        (&[], AT_TERMINAL, &[], true),
        (&["hello"], AT_TERMINAL, &[], true),
        (&["-p", "x"], AT_TERMINAL, &[], false),
        (&["-i", "x"], AT_TERMINAL, &[("CI", "true")], true),
        (&[], Terminal { stdin_tty: false, stdout_tty: true }, &[], false),
        (&["hello"], Terminal { stdin_tty: true, stdout_tty: false }, &[], false),
        (&[], AT_TERMINAL, &[("CI", "true")], false),
        (&[], AT_TERMINAL, &[("GITHUB_ACTIONS", "true")], false),
        (&[], AT_TERMINAL, &[("CI", "true"), ("GEMINI_CLI_INTEGRATION_TEST", "true")], true),
    ];
    for (args, facts, vars, interactive) in cases {
        let launch = plan(args.iter().map(OsString::from), facts, &env(vars)).unwrap();
        assert_eq!(matches!(launch, Launch::Interactive(_)), *interactive, "{args:?} {vars:?}");
    }
}

#[test]
fn an_interactive_prompt_with_piped_stdin_is_an_input_error() {
    let error = refused(&["-i", "x"]);
    assert_eq!(
        error.to_string(),
        "Error: The --prompt-interactive flag cannot be used when input is piped from stdin."
    );
    assert_eq!(error.exit().code(), 42);
    assert!(!error.shows_help());
}

#[test]
fn questions_about_the_program_are_recognised() {
    assert_eq!(planned(&["--version"], PIPED), Ok(Launch::Version));
    assert_eq!(planned(&["-p", "x", "-v"], PIPED), Ok(Launch::Version));
    assert_eq!(planned(&["-h"], PIPED), Ok(help(&[])));
    assert_eq!(planned(&["-p", "x", "--help"], PIPED), Ok(help(&[])));
    assert_eq!(planned(&["config", "--help"], PIPED), Ok(help(&["config"])));
    assert_eq!(planned(&["config", "get", "-h", "x"], PIPED), Ok(help(&["config", "get"])));
    assert_eq!(planned(&["demo", "-h"], PIPED), Ok(help(&["demo"])));
    let listed = planned(&["--list-extensions", "-e", "a,b"], PIPED);
    let Ok(Launch::Admin { command: Command::Extensions(ExtensionsCommand::Names), options }) = listed else {
        panic!("{listed:?}")
    };
    assert_eq!(options.extensions, ["a", "b"]);
}

#[test]
fn subcommands_carry_their_arguments() {
    let config = |args: &[&str]| match planned(args, PIPED).unwrap() {
        Launch::Admin { command: Command::Config(command), .. } => command,
        other => panic!("{other:?}"),
    };
    assert_eq!(config(&["config", "show", "--origin"]), ConfigCommand::Show { origin: true, json: false });
    assert_eq!(config(&["config", "get", "model.name"]), ConfigCommand::Get { key: "model.name".into() });
    assert_eq!(
        config(&["config", "set", "model.maxSessionTurns", "-1", "--scope", "project"]),
        ConfigCommand::Set { key: "model.maxSessionTurns".into(), value: "-1".into(), scope: Scope::Project }
    );
    let Ok(Launch::Demo(options)) = planned(&["demo", "-o", "stream-json"], PIPED) else { panic!() };
    assert_eq!(options.overrides, [("output.format".to_owned(), json!("stream-json"))]);
    let Ok(Launch::DeleteSession { which }) = planned(&["--delete-session", " 2 "], PIPED) else { panic!() };
    assert_eq!(which, "2");
}

#[test]
fn an_argument_that_is_no_text_is_named_by_its_place() {
    let args = ["-p".into(), OsString::from_vec(vec![b'a', 0xff])];
    let error = plan(args.into_iter(), &PIPED, &env(&[])).unwrap_err();
    assert_eq!(error.to_string(), "argument 2 is not valid UTF-8: `a\u{fffd}`");
    assert_eq!(error.exit().code(), 1);
}

#[test]
fn only_flags_for_tests_later_versions_and_other_programs_are_hidden() {
    let hidden: Vec<String> = tree(Purpose::Parse)
        .get_arguments()
        .filter(|arg| arg.is_hide_set())
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect();
    let expected = [
        "verbose",
        "permission-prompt-tool",
        "worktree",
        "checkpointing",
        "telemetry",
        "telemetry-log-prompts",
        "telemetry-outfile",
        "fake-responses",
        "fake-responses-non-strict",
        "record-responses",
    ];
    assert_eq!(hidden, expected);
}

#[test]
fn policy_flags_are_settings_and_a_subcommands_own_win() {
    let run = headless(&["-p", "x", "--policy", "a.toml, b.toml", "--policy=c", "--admin-policy", "d"]);
    let expected = [
        ("policyPaths".to_owned(), json!(["a.toml", "b.toml", "c"])),
        ("adminPolicyPaths".to_owned(), json!(["d"])),
    ];
    assert_eq!(run.overrides, expected);
    let words =
        ["--policy", "a", "-y", "policy", "explain", "--tool", "t", "--args", "{}", "--policy", "b", "c"];
    let Ok(Launch::Admin { command: Command::Policy(command), options }) = planned(&words, PIPED) else {
        panic!("{words:?}")
    };
    assert_eq!(options.overrides, [("policyPaths".to_owned(), json!(["b", "c"]))]);
    let PolicyCommand::Explain { call, json: false } = command else { panic!("{command:?}") };
    let view = PolicyView { mode: Some(ApprovalMode::Yolo), headless: false };
    assert_eq!((call.tool.as_str(), call.view), ("t", view));
    let words = ["policy", "replay", "--policy", "b", "one", "two", "--headless", "--all-projects"];
    let Ok(Launch::Admin { command: Command::Policy(command), options }) = planned(&words, PIPED) else {
        panic!("{words:?}")
    };
    assert_eq!(options.overrides, [("policyPaths".to_owned(), json!(["b"]))]);
    let view = PolicyView { mode: None, headless: true };
    let sessions = vec!["one".to_owned(), "two".to_owned()];
    assert_eq!(command, PolicyCommand::Replay { sessions, all_projects: true, view, json: false });
    let words = ["policy", "list", "--allowed-mcp-server-names", "a,b", "--allowed-tools", "glob"];
    let Ok(Launch::Admin { options, .. }) = planned(&words, PIPED) else { panic!("{words:?}") };
    assert_eq!(options.allowed_tools, ["glob"]);
    let servers = [("mcp.allowed".to_owned(), json!(["a", "b"])), ("mcp.excluded".to_owned(), json!([]))];
    assert_eq!(options.overrides, servers);
}

#[test]
fn memory_is_asked_as_it_was_typed() {
    let asked = |args: &[&str]| match planned(args, PIPED).unwrap() {
        Launch::Admin { command: Command::Memory(command), .. } => command,
        other => panic!("{other:?}"),
    };
    let search =
        asked(&["memory", "search", "why", "not", "--mode", "seed", "--source", "sessions", "--limit", "3"]);
    let question = Question {
        query: "why not".into(),
        source: Some("sessions"),
        mode: Some("seed"),
        limit: Some(3),
        reach: Reach::Workspace,
    };
    assert_eq!(search, MemoryCommand::Search { question, explain: false, json: false });
    for (given, first, last) in [("3-9", 3, 9), ("3-", 3, usize::MAX), ("3", 3, 3)] {
        let MemoryCommand::Get { lines, .. } = asked(&["memory", "get", "a.md", "--lines", given]) else {
            panic!()
        };
        assert_eq!(lines, Some(Lines { first, last }), "{given}");
    }
    let forget = asked(&["memory", "forget", "--path", "a.md", "-y"]);
    assert_eq!(
        forget,
        MemoryCommand::Forget {
            what: Forgettable::Path("a.md".into()),
            reach: Reach::Workspace,
            yes: true,
            json: false
        }
    );
    for (flag, expected) in [("--all-workspaces", Reach::AllWorkspaces), ("--unassigned", Reach::Unassigned)]
    {
        let MemoryCommand::Forget { reach, .. } = asked(&["memory", "forget", "--query", "x", flag]) else {
            panic!()
        };
        assert_eq!(reach, expected);
    }
    assert_eq!(
        asked(&["memory", "export", "--unassigned"]),
        MemoryCommand::Export { reach: Reach::Unassigned }
    );
    assert_eq!(asked(&["memory", "adopt", "/old"]), MemoryCommand::Adopt { folder: "/old".into() });
    let Launch::Admin { options, .. } = planned(&["memory", "status", "--agent", "work"], PIPED).unwrap()
    else {
        panic!()
    };
    assert_eq!(options.overrides, [("memory.agent".to_owned(), json!("work"))]);
    assert_eq!(planned(&["memory"], PIPED), Ok(help(&["memory"])));
    assert_eq!(planned(&["memory", "model"], PIPED), Ok(help(&["memory", "model"])));
    assert_eq!(refused(&["memory", "forget"]), UsageError::ForgetWhat);
    assert_eq!(refused(&["memory", "get"]), UsageError::MissingArgument("<path>".into()));
    assert!(matches!(refused(&["memory", "search", "x", "--mode", "v3"]), UsageError::NotAChoice { .. }));
}
