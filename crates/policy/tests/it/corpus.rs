//! The corpus of commands, checked against what real bash runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pollux_policy::shell::{CommandAnalysis, Part, analyse, is_dangerous, is_known_safe, program_names};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::lines::{COMMANDS, RUNNABLE, unescape};

struct Line {
    number: usize,
    expectation: String,
    programs: Vec<String>,
    command: String,
}

fn lines() -> Vec<Line> {
    let lines = COMMANDS.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines
        .map(|(i, line)| {
            let fields: Vec<&str> = line.splitn(3, '\t').collect();
            let [expectation, programs, command] = fields[..] else {
                panic!("line {}: three fields expected", i + 1)
            };
            Line {
                number: i + 1,
                expectation: expectation.to_owned(),
                programs: programs.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
                command: unescape(command),
            }
        })
        .collect()
}

fn programs(understood: &CommandAnalysis) -> Vec<&str> {
    understood.parts.iter().flat_map(program_names).collect()
}

fn is_safe(understood: &CommandAnalysis) -> bool {
    understood.doubts.is_empty()
        && !understood.exposes
        && understood.parts.iter().all(is_known_safe)
        && understood
            .redirections
            .iter()
            .all(|r| !r.writes && r.target.as_deref().is_some_and(|t| !t.starts_with(['/', '~'])))
}

/// The mistake in a line, if any.
fn complaint(line: &Line) -> Option<String> {
    let understood = analyse(&line.command);
    let found = programs(&understood);
    if let Some(missing) = line.programs.iter().find(|program| !found.contains(&program.as_str())) {
        return Some(format!("`{missing}` is not found, only {found:?}"));
    }
    let dangers: Vec<String> = understood.parts.iter().filter_map(is_dangerous).collect();
    let doubts = &understood.doubts;
    match line.expectation.as_str() {
        "safe" if !is_safe(&understood) => {
            let unsafe_parts: Vec<&Part> =
                understood.parts.iter().filter(|part| !is_known_safe(part)).collect();
            Some(format!("not safe: {doubts:?} {unsafe_parts:?} {:?}", understood.redirections))
        }
        "safe" | "plain" if !dangers.is_empty() => Some(format!("dangerous: {dangers:?}")),
        "plain" if !doubts.is_empty() => Some(format!("doubted: {doubts:?}")),
        "plain" if is_safe(&understood) => Some("taken for known safe".into()),
        "danger" if dangers.is_empty() => Some(format!("not dangerous: {:?}", understood.parts)),
        "danger" if is_safe(&understood) => Some("taken for known safe".into()),
        "doubt" if doubts.is_empty() => Some(format!("not doubted: {:?}", understood.parts)),
        "asked" | "never" if is_safe(&understood) => Some("taken for known safe".into()),
        "safe" | "plain" | "danger" | "doubt" | "asked" | "never" => None,
        other => Some(format!("unknown expectation `{other}`")),
    }
}

#[test]
fn every_line_of_the_corpus_is_analysed_as_expected() {
    let lines = lines();
    assert!(lines.len() >= 500);
    let wrong: Vec<String> = lines
        .iter()
        .filter_map(|line| complaint(line).map(|why| format!("{}: {:?}: {why}", line.number, line.command)))
        .collect();
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// A directory of programs that only record that they ran.
fn tripwires(directory: &Path) {
    let names = [
        "rm", "curl", "git", "cat", "ls", "sort", "grep", "wc", "tee", "diff", "head", "tripwire", "t1",
        "t2", "t3", "mv", "find", "sed", "awk", "tar",
    ];
    // The path contains only programs that run others and are harmless themselves.
    for name in ["env", "timeout", "nohup", "nice", "xargs", "setsid", "stdbuf", "sh", "bash", "dash"] {
        if let Some(real) =
            ["/usr/bin", "/bin"].iter().map(|d| Path::new(d).join(name)).find(|path| path.exists())
        {
            std::os::unix::fs::symlink(real, directory.join(name)).unwrap();
        }
    }
    let script = "#!/bin/sh\necho \"${0##*/}\" >> \"$TRIPWIRE_LOG\"\n";
    for name in names {
        pollux_test_support::executable(directory.join(name), script);
    }
}

/// The programs that bash really ran.
fn ran(command: &str, bin: &Path) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let work = home.path().join("work");
    fs::create_dir(&work).unwrap();
    let log = home.path().join("log");
    let _ran = Command::new("/bin/bash")
        .args([
            "-c",
            &format!("shopt -u promptvars nullglob extglob nocaseglob dotglob;FUNCNEST=8;{command}\nwait"),
        ])
        .env_clear()
        .env("PATH", bin)
        .env("TRIPWIRE_LOG", &log)
        .env("HOME", &work)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn every_command_bash_runs_is_found_or_doubted() {
    let mut tripped = 0;
    for line in RUNNABLE.lines().filter(|line| !line.starts_with('#')) {
        let command = unescape(line);
        let understood = analyse(&command);
        let found = programs(&understood);
        for program in ran(&command, tripwire_directory()) {
            tripped += 1;
            assert!(
                !understood.doubts.is_empty() || found.contains(&program.as_str()),
                "bash ran `{program}` for {command:?}, found {found:?}"
            );
        }
    }
    assert!(tripped >= 100, "only {tripped} programs ran: the tripwires do not work");
}

/// A command that is known to be found, wrapped and joined at random.
fn composed() -> impl Strategy<Value = (Vec<String>, String)> {
    let leaf = prop::sample::select(vec!["rm", "curl", "git", "ls", "make", "tripwire"])
        .prop_map(|name| (vec![name.to_owned()], format!("{name} -x 'a b'")));
    leaf.prop_recursive(4, 24, 3, |inner| {
        let joined = (
            inner.clone(),
            prop::sample::select(vec![" ; ", " && ", " || ", " | ", " & ", "\n"]),
            inner.clone(),
        )
            .prop_map(|((mut a, left), joint, (b, right))| {
                a.extend(b);
                (a, format!("{left}{joint}{right}"))
            });
        let around = prop::sample::select(vec![
            "echo $(@)",
            "echo \"x $(@) y\"",
            "( @ )",
            "{ @\n}",
            "if true; then @\nfi",
            "while false; do @\ndone",
            "diff <(@) b",
            "f() { @\n}",
            "cat <<EOT\n$(@)\nEOT",
            "for x in a; do @\ndone",
            "echo ${x:-$(@)}",
            "! { @\n}",
            "case a in a) @\nesac",
        ]);
        let surrounded =
            (inner.clone(), around).prop_map(|((names, text), around)| (names, around.replace('@', &text)));
        let quoting = prop::sample::select(vec![
            "sh -c ",
            "bash -lc ",
            "eval ",
            "timeout 5 bash -c ",
            "env A=1 nohup sh -c ",
            "trap -- ",
        ]);
        let quoted = (inner, quoting).prop_map(|((names, text), shell)| {
            let tail = if shell.starts_with("trap") { " EXIT" } else { "" };
            (names, format!("{shell}'{}'{tail}", text.replace('\'', r"'\''")))
        });
        prop_oneof![joined, surrounded, quoted]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_a_decision(text in "\\PC*") {
        analyse(&text);
    }

    #[test]
    fn any_shell_like_text_gets_a_decision(text in "[a-z$(){}<>|&;'\"`\\\\ \n\t=!*?#\\[\\]0-9@-]{0,80}") {
        let understood = analyse(&text);
        understood.parts.iter().for_each(|part| { is_known_safe(part); is_dangerous(part); program_names(part); });
    }

    #[test]
    fn mutated_corpus_lines_are_answered(pick in 0_usize..10_000, cut in 0_usize..200, insert in "[$(){}'\"`\\\\\n<]{0,3}") {
        let lines = lines();
        let command = &lines[pick % lines.len()].command;
        let at = cut % (command.chars().count() + 1);
        let mutated: String = command.chars().take(at).chain(insert.chars()).chain(command.chars().skip(at + 1)).collect();
        let understood = analyse(&mutated);
        understood.parts.iter().for_each(|part| { is_known_safe(part); is_dangerous(part); program_names(part); });
    }

    #[test]
    fn every_program_of_a_composition_is_found_or_doubted((names, command) in composed()) {
        let understood = analyse(&command);
        let found = programs(&understood);
        for name in &names {
            prop_assert!(!understood.doubts.is_empty() || found.contains(&name.as_str()), "{name} in {command:?}");
        }
    }
}

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "t1", "t2 x", "t3", "$", "$\\\n", " ", " ", "\n", "\n", ";", "; ", " && ", " || ", " | ", " & ", "'", "\"", "\"", "`",
    "\\", "\\\n", "$(", "$(", ")", ")", "(", "${x:-", "}", "}", "{ ", "; }", "#", " #", "<<E\n", "<<'E'\n",
    "\nE\n", "\nE\n", "<<<", " > o ", "2>&1", ">&2", "<(", ">(", "$((", "))", "((", "1", "[[ a", " ]]", " =~ ",
    "if ", "then ", " fi", "; then ", "; fi", "for i in a", "; do ", "; done", "case a in ", "a) ", ";;",
    " esac", "f() ", "eval ", "eval '", "sh -c '", "env ", "$'", "\\'", "!", " ! ", "x=", "x=(", "echo ",
    "echo \"", "true", "time ", "command ", "exec ", "$x", "*", "{t1,t2}", "~", "=", "\t", "<<-E\n",
    "function g ", "coproc ", "until ", "while ", "&>", "|&", "${#x}", "${x#", "%", "/", "[", "]", "@", ":",
    "trap t1 EXIT", "nohup ", "$\"", "in", "do", "-",
];

/// The same cases each time, so that a failure is caused by a change; `PROPTEST_CASES=20000` tries others.
fn with_bash() -> ProptestConfig {
    let explores = std::env::var_os("PROPTEST_CASES").is_some();
    let rng_seed = if explores { RngSeed::Random } else { RngSeed::Fixed(1) };
    ProptestConfig { failure_persistence: None, max_shrink_iters: 400, rng_seed, ..ProptestConfig::default() }
}

/// Pieces of shell grammar in random order; most are nonsense.
fn soup() -> impl Strategy<Value = String> {
    let pieces = PIECES.to_vec();
    prop::collection::vec(prop::sample::select(pieces), 1..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(with_bash())]

    #[test]
    fn bash_runs_nothing_in_random_tokens_that_is_neither_found_nor_doubted(command in soup()) {
        let understood = analyse(&command);
        // Loops would not terminate; doubted commands need no proof.
        if understood.doubts.is_empty() && !command.contains("while ") && !command.contains("until ") {
            let bin = tripwire_directory();
            let found = programs(&understood);
            for program in ran(&command, bin) {
                prop_assert!(found.contains(&program.as_str()), "bash ran `{program}` for {command:?}, found {found:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(with_bash())]

    #[test]
    fn bash_runs_nothing_in_a_mutated_line_that_is_neither_found_nor_doubted(
        pick in 0_usize..10_000,
        place in 0_usize..200,
        piece in prop::sample::select(vec![
            "'", "\"", "`", "\\", "$(", ")", "(", ";", "\n", "#", " #", "}", "{", "${x:-", "<<E\n", "\nE\n", "&", "|", " ", "\\\n", "$'", "<(", "$((", "))", "=", "x=", "!", " ! ", "; t1;", "$(t1)",
        ]),
    ) {
        let lines: Vec<&str> = RUNNABLE.lines().filter(|line| !line.starts_with('#') && !line.contains("while") && !line.contains("until")).collect();
        let line = unescape(lines[pick % lines.len()]);
        let at = place % (line.chars().count() + 1);
        let command: String = line.chars().take(at).chain(piece.chars()).chain(line.chars().skip(at)).collect();
        let understood = analyse(&command);
        if understood.doubts.is_empty() {
            let found = programs(&understood);
            for program in ran(&command, tripwire_directory()) {
                prop_assert!(found.contains(&program.as_str()), "bash ran `{program}` for {command:?}, found {found:?}");
            }
        }
    }
}

#[test]
fn previously_missed_commands_are_found_or_doubted() {
    for command in [
        "[[ -\\\nv 'a[$(rm)]' ]]",
        "echo build | xargs -I {}${x:- rm -rf {}",
        "timeout ${x:-5 rm} y",
        "nice -n ${x:-5 rm} y",
        "x='-v a[$(rm)]'; [ $(t1)$x ]",
        "jobs $(t1)-x rm",
        "{\\\nfd}>f rm -rf build",
        "x='a[$(rm)]'; (\\\n( x ))",
    ] {
        let understood = analyse(command);
        assert!(!understood.doubts.is_empty() || programs(&understood).contains(&"rm"), "{command:?}");
    }
}

fn tripwire_directory() -> &'static Path {
    static DIRECTORY: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    DIRECTORY
        .get_or_init(|| {
            let directory = tempfile::tempdir().unwrap();
            tripwires(directory.path());
            directory
        })
        .path()
}

#[test]
fn long_chains_and_deep_nesting_give_a_doubt_or_a_full_list() {
    let chain = vec!["ls"; 10_000].join(";");
    let understood = analyse(&chain);
    assert!(!understood.doubts.is_empty() || understood.parts.len() == 10_000);
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", ";}"),
        ("`", "`"),
        ("${x:-", "}"),
        ("if ", ";then :;fi"),
        ("<(", ")"),
        ("\"$(", ")\""),
        ("eval ", ""),
        ("! ", ""),
        ("a=(", ")"),
        ("[[ ( ", " ) ]]"),
    ] {
        for depth in [39, 200, 20_000] {
            let nested = format!("echo {}rm{}", open.repeat(depth), close.repeat(depth));
            analyse(&nested);
            analyse(&format!("{}rm{}", open.repeat(depth), close.repeat(depth)));
        }
    }
    let deep = format!("{}rm -rf x{}", "$(".repeat(1_000), ")".repeat(1_000));
    assert!(!analyse(&deep).doubts.is_empty());
    assert!(!analyse(&"a".repeat(1_000_000)).doubts.is_empty());
}
