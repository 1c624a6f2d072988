//! The documents say what the program does.
//!
//! `UPDATE_DOCS=1 cargo test -p pollux-cli --test it docs` writes the generated parts again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_admin::command_line::help_page;
use pollux_config::files;
use pollux_config::groups::{FileFiltering, Tools};
use pollux_config::settings::schema::{KEYS, Key, Merge};
use pollux_domain::exit::ExitKind;
use pollux_domain::time::SystemClock;
use pollux_domain::tool::Tool;
use pollux_exec::background::Background;
use pollux_test_support::TestHome;
use pollux_tools::{ToolSetup, Workspace, WorkspaceSetup, builtin};

/// Flags for tests, which the help leaves out.
const HIDDEN_FLAGS: &[&str] = &["--fake-responses", "--fake-responses-non-strict", "--record-responses"];

const TABLE_BEGINS: &str = "<!-- generated: begin -->\n";
const TABLE_ENDS: &str = "<!-- generated: end -->\n";

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page(name: &str) -> String {
    read(&root().join("docs/src").join(name))
}

/// The pages of the book by their file names, without the table of contents.
fn pages() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("docs/src")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect()
}

/// The targets of links in running text; code is left out.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in prose.split("](").skip(1) {
            found.extend(rest.split(')').next().map(str::to_owned));
        }
    }
    found
}

/// Every `--flag` in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let is_flag = |word: &&str| {
        word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    words.filter(is_flag).map(|word| word.trim_end_matches('-').to_owned()).collect()
}

#[test]
fn the_table_of_contents_and_the_pages_agree() {
    let listed: BTreeSet<String> = links(&page("SUMMARY.md")).into_iter().collect();
    assert_eq!(listed, pages());
}

#[test]
fn relative_links_lead_somewhere() {
    let book = root().join("docs/src");
    let mut files: Vec<PathBuf> = pages().iter().map(|name| book.join(name)).collect();
    let front = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    files.extend(front.map(|name| root().join(name)));
    for file in files {
        for link in links(&read(&file)) {
            let target = link.split('#').next().unwrap_or_default();
            if link.contains("://") || link.starts_with("mailto:") || target.is_empty() {
                continue;
            }
            let leads_to = file.parent().unwrap().join(target);
            assert!(leads_to.exists(), "`{}` links to `{link}`, which is not there", file.display());
        }
    }
}

#[test]
fn every_flag_is_explained_and_no_flag_is_invented() {
    let home = TestHome::new();
    let help = home.command(Path::new(env!("CARGO_BIN_EXE_pollux")), ["--help"]).run().stdout;
    let known = flags(&help);
    assert!(known.len() > 20, "{known:?}");
    let explained = flags(&page("headless.md"));
    for flag in &known {
        assert!(explained.contains(flag), "`{flag}` is not explained in docs/src/headless.md");
    }
    for flag in &explained {
        let hidden = HIDDEN_FLAGS.contains(&flag.as_str());
        assert!(
            known.contains(flag) || hidden,
            "docs/src/headless.md explains `{flag}`, `--help` has no such flag"
        );
    }
}

#[test]
fn the_page_on_exit_codes_has_every_code_and_no_other() {
    // Exhaustive, so that a new kind of exit has to be added here and on the page.
    let next = |kind: Option<ExitKind>| match kind {
        None => Some(ExitKind::Success),
        Some(ExitKind::Success) => Some(ExitKind::Failure),
        Some(ExitKind::Failure) => Some(ExitKind::Auth),
        Some(ExitKind::Auth) => Some(ExitKind::Input),
        Some(ExitKind::Input) => Some(ExitKind::Sandbox),
        Some(ExitKind::Sandbox) => Some(ExitKind::Config),
        Some(ExitKind::Config) => Some(ExitKind::TurnLimit),
        Some(ExitKind::TurnLimit) => Some(ExitKind::Tool),
        Some(ExitKind::Tool) => Some(ExitKind::Untrusted),
        Some(ExitKind::Untrusted) => Some(ExitKind::Cancelled),
        Some(ExitKind::Cancelled) => Some(ExitKind::Signal(15)),
        Some(ExitKind::Signal(15)) => Some(ExitKind::Signal(1)),
        Some(ExitKind::Signal(_) | ExitKind::Program(_) | ExitKind::NotStarted(_)) => None,
    };
    let mut codes = BTreeSet::new();
    let mut kind = next(None);
    while let Some(known) = kind {
        codes.insert(known.code());
        kind = next(kind);
    }
    let text = page("exit-codes.md");
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let listed: BTreeSet<u8> =
        cells.flat_map(|cell| cell.split(',')).filter_map(|code| code.trim().parse().ok()).collect();
    assert_eq!(listed, codes);
}

/// Keys that are read by their group, so that their whole path stands nowhere in the source.
const READ_BY_GROUP: &[&str] = &[
    "contextManagement.tools.outputMasking.",
    "hooks.",
    "memory.",
    "modelConfigs.",
    "security.environmentVariableRedaction.",
    "tools.approvalMode",
];

/// Settings that the program reads, keeps or shows without acting on them.
const READ_WITHOUT_EFFECT: &[&str] = &["privacy.usageStatisticsEnabled"];

#[test]
fn settings_in_effect_are_those_that_the_source_reads() {
    let mut source = String::new();
    for file in rust_files(&root().join("crates")) {
        let path = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let tables = ["settings/migrate", "settings/validate", "settings/project.rs", "settings/layers.rs"];
        if path.contains("/src/")
            && !path.contains("tests")
            && !tables.iter().any(|table| path.contains(table))
        {
            source.push_str(read(&file).split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
        }
    }
    for key in KEYS {
        let read = source.contains(&format!("\"{}\"", key.path)) && !READ_WITHOUT_EFFECT.contains(&key.path);
        let by_group = READ_BY_GROUP.iter().any(|group| key.path.starts_with(group));
        let listed = pollux_front::setting_has_effect(key);
        assert!(
            by_group || read == listed,
            "`{}`: read by the source: {read}, absent from settings_without_effect.in: {listed}",
            key.path
        );
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let page = page("guarantees.md");
    let commands = page.split('`').filter_map(|code| code.strip_prefix("cargo test -p pollux-"));
    let mut count = 0;
    for command in commands {
        let (name, rest) = command.split_once(' ').unwrap();
        let folder = root().join("crates").join(name);
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (binary, filter) = match words.as_slice() {
            ["--test", binary] => (Some(*binary), None),
            ["--test", binary, filter] => (Some(*binary), Some(*filter)),
            [filter] => (None, Some(*filter)),
            _ => panic!("`{command}` is in an unknown form"),
        };
        if let Some(binary) = binary {
            assert!(folder.join(format!("tests/{binary}.rs")).exists(), "`{command}`: no such tests");
        }
        let below = binary.map_or_else(|| folder.join("src"), |binary| folder.join("tests").join(binary));
        let is_there = match filter.map(|filter| filter.strip_suffix("::").ok_or(filter)) {
            None => true,
            Some(Ok(module)) => below.join(format!("{module}.rs")).exists(),
            Some(Err(test)) => {
                let is_in = |file: &PathBuf| read(file).contains(&format!("fn {test}("));
                let main = binary.map(|binary| folder.join(format!("tests/{binary}.rs")));
                rust_files(&below).iter().chain(&main).any(is_in)
            }
        };
        assert!(is_there, "`{command}` runs no test");
        count += 1;
    }
    assert!(count > 25, "{count}");
}

#[test]
fn the_main_help_has_every_exit_code_of_the_page() {
    let help = help_page(pollux_cli::command_line(), &[]);
    let (_, own) = help.split_once("\nExit codes:\n").unwrap();
    let in_help: BTreeSet<u8> = own.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let text = page("exit-codes.md");
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let listed: BTreeSet<u8> =
        cells.flat_map(|cell| cell.split(',')).filter_map(|code| code.trim().parse().ok()).collect();
    assert_eq!(in_help, listed);
}

#[test]
fn the_page_on_slash_commands_names_every_command_and_no_other() {
    let text = page("commands.md");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '/' | '_'));
    let named: BTreeSet<&str> = words
        .filter_map(|word| word.strip_prefix('/'))
        .filter(|word| word.starts_with(|c: char| c.is_alphanumeric()))
        .collect();
    let known: BTreeSet<&str> =
        pollux_front::reserved().0.iter().copied().filter(|name| *name != "?").collect();
    let missing: Vec<_> = known.difference(&named).collect();
    assert!(missing.is_empty(), "docs/src/commands.md does not name {missing:?}");
    let invented: Vec<_> = named.difference(&known).collect();
    assert!(invented.is_empty(), "docs/src/commands.md names {invented:?}, which the program does not have");
}

#[test]
fn the_page_on_settings_is_in_step_with_the_schema() {
    let without = pollux_front::settings_without_effect();
    assert!(without.is_sorted(), "settings_without_effect.in is sorted");
    for key in without {
        assert!(KEYS.iter().any(|known| known.path == *key), "unknown setting `{key}`");
    }
    assert_generated("settings.md", &settings_tables());
}

#[test]
fn the_page_on_the_command_line_is_generated_from_the_program() {
    assert_generated("command-line.md", &crate::reference::command_line());
}

#[test]
fn the_page_on_messages_is_generated_from_their_types() {
    assert_generated("stream-json.md", &pollux_stream::reference());
}

#[test]
fn the_main_help_page_is_kept_as_it_is_rendered() {
    let file = root().join("crates/cli/src/launch/main_help.txt");
    let rendered = help_page(pollux_cli::command_line().term_width(100), &[]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        files::replace(&file, rendered.as_bytes(), files::Mode::Shared).unwrap();
        return;
    }
    assert!(
        read(&file) == rendered,
        "{} is out of step; run `UPDATE_DOCS=1 cargo test -p pollux-cli --test it docs`",
        file.display()
    );
}

/// The generated part of a page is this text; `UPDATE_DOCS` writes it.
fn assert_generated(name: &str, expected: &str) {
    let file = root().join("docs/src").join(name);
    let text = read(&file);
    let (before, rest) = text.split_once(TABLE_BEGINS).unwrap();
    let (table, after) = rest.split_once(TABLE_ENDS).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let text = format!("{before}{TABLE_BEGINS}{expected}{TABLE_ENDS}{after}");
        files::replace(&file, text.as_bytes(), files::Mode::Shared).unwrap();
        return;
    }
    assert!(
        table == expected,
        "docs/src/{name} is out of step; run `UPDATE_DOCS=1 cargo test -p pollux-cli --test it docs`"
    );
}

/// One table for each group, in the order of the schema.
fn settings_tables() -> String {
    let mut text = String::new();
    let mut group = "";
    for key in KEYS {
        let own = key.path.split('.').next().unwrap_or(key.path);
        if own != group {
            group = own;
            text.push_str(&format!(
                "\n## `{group}`\n\n| Key | Type | Default | Description |\n|---|---|---|---|\n"
            ));
        }
        text.push_str(&settings_row(key));
    }
    text.push('\n');
    text
}

fn settings_row(key: &Key) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let default =
        key.default.value().map_or_else(String::new, |value| format!("`{}`", cell(&value.to_string())));
    let mut about = cell(key.about);
    about.push_str(match key.merge {
        Merge::Replace => "",
        Merge::Concat | Merge::Union => ". Merged across layers",
        Merge::Shallow => ". Merged across layers, entry by entry",
        Merge::Intersect => ". Intersected across layers",
    });
    let path = if pollux_front::setting_has_effect(key) {
        format!("**`{}`**", key.path)
    } else {
        format!("`{}`", key.path)
    };
    let kind = key.kind.name().split('|').map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let kind = if key.kind.name().contains('|') { kind } else { key.kind.name() };
    format!("| {path} | {kind} | {default} | {about} |\n")
}

#[test]
fn the_page_on_tools_names_every_tool_and_every_parameter() {
    let text = page("tools.md");
    for tool in built_in_tools() {
        let spec = tool.spec();
        let heading = format!("### `{}`", spec.name);
        let Some((_, after)) = text.split_once(&heading) else {
            panic!("docs/src/tools.md has no `{heading}`");
        };
        let own = after.split("\n#").next().unwrap_or_default();
        let parameters = spec.parameters["properties"].as_object().unwrap();
        for parameter in parameters.keys() {
            assert!(
                own.contains(&format!("`{parameter}`")),
                "docs/src/tools.md does not explain `{parameter}` of `{}`",
                spec.name
            );
        }
    }
}

fn built_in_tools() -> Vec<Arc<dyn Tool>> {
    let home = TestHome::new();
    let setup = WorkspaceSetup {
        root: home.project(),
        include_directories: Vec::new(),
        project_temp: home.home().join("temp"),
        gemini_dir: home.gemini_dir(),
        user_home: home.home(),
    };
    builtin(ToolSetup {
        workspace: Arc::new(Workspace::open(&setup).unwrap()),
        filtering: FileFiltering::default(),
        tools: Tools::default(),
        child_env: Vec::new(),
        background: Arc::new(Background::new(home.home().join("background"))),
        sandbox: Default::default(),
        clock: Arc::new(SystemClock),
        client_terminals: None,
    })
}

/// A command in a document, and what it is said to print.
#[derive(Debug)]
struct Example {
    command: String,
    output: String,
    exit: i32,
}

/// The examples of each block that is marked as runnable.
///
/// A line `$ …` is a command, the lines after it are its output (`…` stands for anything), and a last line
/// `[exit 42]` its exit code, which is 0 otherwise.
fn runnable(text: &str) -> Vec<Vec<Example>> {
    let mut blocks = Vec::new();
    for block in text.split("\n```console,run\n").skip(1) {
        let mut examples: Vec<Example> = Vec::new();
        for line in block.split("\n```").next().unwrap_or_default().lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.push(Example { command: command.to_owned(), output: String::new(), exit: 0 });
                continue;
            }
            let example = examples.last_mut().unwrap();
            match line.strip_prefix("[exit ").and_then(|rest| rest.strip_suffix(']')) {
                Some(code) => example.exit = code.parse().unwrap(),
                None => {
                    example.output.push_str(line);
                    example.output.push('\n');
                }
            }
        }
        blocks.push(examples);
    }
    blocks
}

/// Whether a text is what a pattern says, `…` standing for anything.
fn fits(text: &str, pattern: &str) -> bool {
    let mut pieces = pattern.trim().split('…').peekable();
    let mut rest = text.trim();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let at = match (is_first, is_last) {
            (true, true) => (rest == piece).then_some(0),
            (true, false) => rest.starts_with(piece).then_some(0),
            (false, true) => rest.ends_with(piece).then(|| rest.len() - piece.len()),
            (false, false) => rest.find(piece),
        };
        let Some(at) = at else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
        is_first = false;
    }
    true
}

/// A scratch home in which the examples' scripts lie beside the project's files.
fn example_home() -> TestHome {
    let mut home = TestHome::new();
    for entry in fs::read_dir(root().join("docs/src/examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        home = home.file(&name, &read(&path));
    }
    home
}

#[test]
fn runnable_examples_print_what_the_documents_say() {
    let programs = Path::new(env!("CARGO_BIN_EXE_pollux")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let mut count = 0;
    for name in pages() {
        for block in runnable(&page(&name)) {
            let home = example_home();
            for example in block {
                count += 1;
                let script = format!("exec 2>&1\n{}", example.command);
                let run = home.command(Path::new("/bin/sh"), ["-c", &script]).env("PATH", &path).run();
                let printed = run
                    .stdout
                    .replace(&home.project().display().to_string(), "/home/ada/project")
                    .replace(&home.home().display().to_string(), "/home/ada");
                let Example { command, output, exit } = &example;
                assert_eq!(run.code, Some(*exit), "{name}: `{command}` printed:\n{printed}");
                assert!(
                    fits(&printed, output),
                    "{name}: `{command}` printed:\n{printed}\ninstead of:\n{output}"
                );
            }
        }
    }
    assert!(count >= 6, "only {count} examples are runnable");
}

#[test]
fn examples_are_compared_with_gaps() {
    for (text, pattern, fit) in [
        ("a\n", "a", true),
        ("abc", "ab", false),
        ("one 17 two", "one … two", true),
        ("one 17 two three", "one … two", false),
        ("x one two", "one …", false),
        ("anything", "…", true),
    ] {
        assert_eq!(fits(text, pattern), fit, "{text:?} {pattern:?}");
    }
}

#[test]
fn links_and_flags_are_found_in_prose() {
    let text = "See [a](b.md#c), `[x](y)` and `--flag-one=2`.\n```\n[no](no.md)\n```\n--two, ---, -- x";
    assert_eq!(links(text), ["b.md#c"]);
    assert_eq!(flags(text), BTreeSet::from(["--flag-one".to_owned(), "--two".to_owned()]));
}
