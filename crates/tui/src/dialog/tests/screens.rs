//! Every dialog at three sizes: a small window, the usual one, a large one.

use pollux_domain::tool::{DiffStat, FileDiff};
use serde_json::json;

use super::*;

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (160, 50)];

/// The dialog as it stands at the foot of a window, which cuts what is too high at the top.
fn seen(dialog: &mut Dialog, (width, height): (u16, u16)) -> String {
    let text = shown(dialog, width, height - 1);
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines.len().saturating_sub(usize::from(height - 1));
    lines.iter().skip(cut).map(|line| format!("{line}\n")).collect()
}

/// The text without what breaks a line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn everywhere(mut dialog: Dialog, wanted: &[&str]) {
    for size in SIZES {
        let text = seen(&mut dialog, size);
        for part in wanted {
            assert!(flat(&text).contains(part), "{part} at {size:?}\n{text}");
        }
    }
}

fn request(subject: Subject, outcomes: &[Outcome]) -> ApprovalRequest {
    let offers = outcomes.iter().map(|outcome| Offer { outcome: *outcome, covers: String::new() });
    ApprovalRequest { subject, offers: offers.collect(), ..command("") }
}

const ALL: &[Outcome] = &[Outcome::Once, Outcome::Session, Outcome::Saved, Outcome::Edit, Outcome::Refuse];

fn change() -> FileDiff {
    FileDiff {
        unified: "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n".to_owned(),
        file_name: "a.txt".to_owned(),
        path: PathBuf::from("/p/a.txt"),
        before: Some("one\ntwo\nthree\n".to_owned()),
        after: "one\n2\nthree\n".to_owned(),
        stat: DiffStat::default(),
    }
}

#[test]
fn a_change_to_a_file() {
    let subject = Subject::Edit { path: PathBuf::from("/p/a.txt"), diff: Some(Box::new(change())) };
    let mut request = ApprovalRequest { display_name: "Edit".to_owned(), ..request(subject, ALL) };
    request.args.insert("old_string".to_owned(), json!("two"));
    request.args.insert("new_string".to_owned(), json!("2"));
    let mut dialog = asked(&request);
    let wanted = "\
? Edit  /p/a.txt: two => 2
1   one
2 - two
2 + 2
3   three

Apply this change?
● 1. Allow once
  2. Allow for this session
  4. Allow for this file in all future sessions
  5. Modify with external editor
  6. No, suggest changes (esc)
? shows the reason
";
    assert_eq!(seen(&mut dialog, (80, 24)), wanted);
    everywhere(dialog, &["Apply this change?", "● 1. Allow once", "6. No, suggest changes (esc)"]);
}

#[test]
fn a_command_that_redirects() {
    let subject =
        Subject::Command { command: "cargo test > out.txt".to_owned(), directory: PathBuf::from("/p") };
    let request = request(subject, &[Outcome::Once, Outcome::Session, Outcome::Saved, Outcome::Refuse]);
    let wanted = [
        "Redirection detected.",
        "Allow execution of [Shell]?",
        "2. Allow for this session",
        "4. Allow this command for all future sessions",
        "6. No, suggest changes (esc)",
    ];
    everywhere(asked(&request), &wanted);
    let mut quoted = asked(&command("grep '->' \"a > b\" \\> x"));
    assert!(!seen(&mut quoted, (80, 24)).contains("Redirection"));
}

#[test]
fn pages_to_fetch() {
    let subject = Subject::Fetch(vec!["https://a.example/x".to_owned(), "https://b.example/".to_owned()]);
    let request = request(subject, &[Outcome::Once, Outcome::Session, Outcome::Saved, Outcome::Refuse]);
    let wanted =
        ["Action Required", "URLs to fetch:", "Do you want to proceed?", "4. Allow for all future sessions"];
    let text = seen(&mut asked(&request), (80, 24));
    assert!(text.contains("URLs to fetch:\nhttps://a.example/x\nhttps://b.example/\n"), "{text}");
    everywhere(asked(&request), &wanted);
}

#[test]
fn a_tool_of_a_server() {
    let subject = Subject::Server { server: "github".to_owned(), tool: "search".to_owned() };
    let outcomes = [Outcome::Once, Outcome::Session, Outcome::SessionServer, Outcome::Saved, Outcome::Refuse];
    let mut request = request(subject, &outcomes);
    request.args.insert("query".to_owned(), json!("bugs"));
    let mut dialog = asked(&request);
    let text = seen(&mut dialog, (80, 24));
    assert!(text.contains("MCP Server: github\nTool: search\nArguments: {\"query\":\"bugs\"}\n"), "{text}");
    dialog.key(KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL), &KeyMap::default());
    assert!(seen(&mut dialog, (80, 24)).contains("\n  \"query\": \"bugs\"\n"));
    let wanted = [
        "search (github MCP Server)",
        "2. Allow tool for this session",
        "3. Allow all server tools for this session",
        "4. Allow tool for all future sessions",
    ];
    everywhere(dialog, &wanted);
    let text = flat(&seen(&mut asked(&request), (80, 24)));
    for part in ["Allow execution of MCP tool \"search\" from server \"github\"?", "Ctrl+O arguments"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_plan() {
    let subject =
        Subject::Plan { path: PathBuf::from("/p/plan.md"), text: "# The plan\n\n- one\n- two\n".to_owned() };
    let request = request(subject, &[Outcome::Once, Outcome::Session, Outcome::Refuse]);
    let wanted = ["Execute this plan?", "1. Yes, and ask before each change", "2. Yes, and accept edits"];
    everywhere(asked(&request), &wanted);
    let subject = Subject::EnterPlan { reason: "it is large".to_owned() };
    let request = self::request(subject, &[Outcome::Once, Outcome::Refuse]);
    everywhere(asked(&request), &["it is large", "Enter plan mode?", "1. Yes"]);
}

#[test]
fn why_it_is_asked_and_which_of_several_it_is() {
    let mut dialog = asked(&command("npm test"));
    dialog.set_position(2, 3);
    press(&mut dialog, KeyCode::Char('?'));
    everywhere(dialog, &["2 of 3", "Why: no rule covers it", "? hides the reason"]);
}

#[test]
fn a_question_of_the_models() {
    let option = |label: &str| Choice { label: label.to_owned(), description: "what it is".to_owned() };
    let form = QuestionForm::Choice { options: vec![option("Red"), option("Blue")], several: false };
    let question = Question { header: "Colour".to_owned(), text: "Which colour?".to_owned(), form };
    let dialog = asked(&request(Subject::Questions(vec![question]), &[]));
    everywhere(dialog, &["Colour", "Which colour?", "● 1. Red: what it is", "3. Enter a custom value"]);
}

fn row(key: &str, columns: &[&str], preview: &[&str]) -> PickerRow {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    PickerRow { key: key.to_owned(), columns: texts(columns), preview: texts(preview), sample: None }
}

#[test]
fn the_session_browser() {
    let rows = vec![
        row("a", &["#1", "12", "2 minutes ago", "Fix the login"], &["> fix the login", "✦ done"]),
        row("b", &["#2", "3", "5 days ago", "A very long name of a session that does not fit"], &[]),
    ];
    let picker = Picker::new("Chat Sessions", &["Index", "Msgs", "Age", "Name"], rows)
        .options(PickerOptions { counted: true, ..PickerOptions::default() })
        .note("sorted by date desc")
        .letter('x', "delete the session", true);
    let mut dialog = Dialog::Picker(Box::new(picker));
    let wanted = "\
Chat Sessions (2 total)  sorted by date desc
  Index │ Msgs │ Age           │ Name
● #1    │ 12   │ 2 minutes ago │ Fix the login
  #2    │ 3    │ 5 days ago    │ A very long name of a session that does not fit
  │ > fix the login
  │ ✦ done
↑/↓ move · Enter choose · / search · x delete the session · q close
";
    assert_eq!(seen(&mut dialog, (80, 24)), wanted);
    press(&mut dialog, KeyCode::Char('x'));
    let wanted =
        ["Chat Sessions (2 total)", "sorted by date desc", "● #1", "Press x again to delete the session"];
    everywhere(dialog, &wanted);
}

#[test]
fn the_settings() {
    let rows = (0..100)
        .map(|index| {
            let key = format!("general.key{index}");
            row(
                &key,
                &[&key, "true*", "what it does"],
                &["what it does", "boolean · from /h/settings.json:3"],
            )
        })
        .collect();
    let picker = Picker::new("Settings", &[], rows)
        .options(PickerOptions { type_to_search: true, stays_open: true, ..PickerOptions::default() })
        .letter(TAB, "scope", false)
        .foot(vec!["Apply To (Tab): ● User Settings    Workspace Settings".to_owned()])
        .hint("(Use Enter to select, Ctrl+L to reset, Tab to change focus, Esc to close)");
    let wanted = [
        "Settings",
        "Search to filter",
        "● general.key0",
        "Apply To (Tab): ● User Settings",
        "(Use Enter to select, Ctrl+L to reset, Tab to change focus, Esc to close)",
    ];
    everywhere(Dialog::Picker(Box::new(picker)), &wanted);
}

#[test]
fn themes_are_shown_in_their_colours() {
    let themes = Theme::names().map(|(name, _)| PickerRow {
        sample: Theme::named(name).map(Box::new),
        ..row(name, &[name, "Dark"], &[])
    });
    let picker = Picker::new("Select Theme", &[], themes.collect()).mark("Dracula");
    let mut dialog =
        Dialog::Picker(Box::new(picker.foot(vec!["Apply To (Tab): ● User Settings".to_owned()])));
    let theme = Theme::no_colour();
    let lines = dialog.lines(Room { theme: &theme, width: 80, height: 23 });
    let keyword = lines.iter().flat_map(|line| &line.spans).find(|span| span.content == "def");
    let dracula = Theme::named("Dracula").expect("built in");
    assert_eq!(keyword.and_then(|span| span.style.fg), Some(dracula.code[0]));
    let added = lines.iter().flat_map(|line| &line.spans).any(|span| span.style.bg == Some(dracula.added));
    assert!(added, "a line that is added has the theme's background");
    everywhere(dialog, &["Select Theme", "● Dracula", "Preview", "Apply To"]);
}

#[test]
fn a_short_question_with_much_above_it() {
    let about = vec!["/p would run:".to_owned(), "hook  BeforeTool: ./check.sh".to_owned()];
    let rows = ["Trust folder (p)", "Trust parent folder (/)", "Don't trust"];
    let rows = rows.iter().map(|text| row(text, &[text], &[])).collect();
    let picker = Picker::new("Do you trust the files in this folder?", &[], rows)
        .options(PickerOptions { numbered: true, ..PickerOptions::default() })
        .about(about);
    let wanted = [
        "Do you trust the files in this folder?",
        "hook BeforeTool: ./check.sh",
        "● 1. Trust folder (p)",
        "3. Don't trust",
        "(Use Enter to select, Esc to close)",
    ];
    everywhere(Dialog::Picker(Box::new(picker)), &wanted);
}

#[test]
fn a_line_to_type() {
    let mut entry = Dialog::TextEntry(TextEntry::new("API key", true));
    press(&mut entry, KeyCode::Char('x'));
    everywhere(entry, &["API key", "> *▏", "Enter to confirm"]);
}
