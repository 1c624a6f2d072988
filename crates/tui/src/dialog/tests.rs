use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyModifiers};
use pollux_domain::JsonObject;
use pollux_domain::approval::{Choice, Offer, Outcome, Question, QuestionForm, Why};

use super::*;

mod fields;
mod lists;
mod screens;

fn press(dialog: &mut Dialog, code: KeyCode) -> Verdict {
    dialog.key(KeyEvent::new(code, KeyModifiers::NONE), &KeyMap::default())
}

fn offers() -> Vec<Offer> {
    let offer = |outcome, covers: &str| Offer { outcome, covers: covers.to_owned() };
    vec![
        offer(Outcome::Once, ""),
        offer(Outcome::Session, "commands that begin with `npm`"),
        offer(Outcome::Refuse, ""),
    ]
}

fn asked(request: &ApprovalRequest) -> Dialog {
    Dialog::approval(request, &PathDisplay::default())
}

fn command(command: &str) -> ApprovalRequest {
    ApprovalRequest {
        call: CallId::from_file("1"),
        tool: "run_shell_command".to_owned(),
        display_name: "Shell".to_owned(),
        args: JsonObject::new(),
        subject: Subject::Command { command: command.to_owned(), directory: PathBuf::from("/p") },
        destroys: None,
        why: Why { reason: "no rule covers it".to_owned(), ..Why::default() },
        offers: offers(),
    }
}

fn shown(dialog: &mut Dialog, width: u16, height: u16) -> String {
    let theme = Theme::no_colour();
    let lines = dialog.lines(Room { theme: &theme, width, height });
    assert!(lines.iter().all(|line| line.width() <= usize::from(width)), "{lines:?}");
    lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

#[test]
fn a_command_is_shown_whole_with_what_each_answer_reaches() {
    let mut dialog = asked(&command("npm test"));
    dialog.set_position(1, 3);
    let text = shown(&mut dialog, 80, 20);
    let wanted = "? Shell  npm test  1 of 3\nnpm test\nin /p\n\nAllow execution of [Shell]?\n● 1. Allow once\n  2. Allow for this \
                  session: commands that begin with `npm`\n  6. No, suggest changes (esc)\n? shows the reason\n";
    assert_eq!(text, wanted);
    press(&mut dialog, KeyCode::Char('?'));
    assert!(shown(&mut dialog, 80, 20).contains("Why: no rule covers it"));
    for (width, height) in [(20, 6), (40, 10), (300, 100)] {
        shown(&mut dialog, width, height);
    }
}

#[test]
fn keys_answer() {
    let id = CallId::from_file("1");
    let answered = |answer| Verdict::Answered { call: id.clone(), answer };
    let with = |keys: &[KeyCode]| {
        let mut dialog = asked(&command("ls"));
        shown(&mut dialog, 80, 20);
        keys.iter().map(|key| press(&mut dialog, *key)).last().expect("a key")
    };
    assert_eq!(with(&[KeyCode::Enter]), answered(ApprovalAnswer::Once));
    assert_eq!(with(&[KeyCode::Char('2')]), answered(ApprovalAnswer::Session));
    assert_eq!(with(&[KeyCode::Down, KeyCode::Enter]), answered(ApprovalAnswer::Session));
    assert_eq!(with(&[KeyCode::Char('y'), KeyCode::Enter]), answered(ApprovalAnswer::Once));
    assert_eq!(with(&[KeyCode::Esc]), answered(ApprovalAnswer::Cancel));
    let refusal = [KeyCode::Char('6'), KeyCode::Char('n'), KeyCode::Char('o'), KeyCode::Enter];
    assert_eq!(with(&refusal), answered(ApprovalAnswer::Refuse("no".to_owned())));
    assert_eq!(with(&[KeyCode::Char('6'), KeyCode::Enter]), answered(ApprovalAnswer::Cancel));
}

#[test]
fn what_was_not_on_the_screen_is_not_agreed_to() {
    let long: String = (1..=60).map(|line| format!("echo {line}\n")).collect();
    let mut dialog = asked(&command(&long));
    let mut presses = 0;
    loop {
        let text = shown(&mut dialog, 60, 20);
        presses += 1;
        assert!(presses < 20, "{text}");
        if press(&mut dialog, KeyCode::Enter) != Verdict::Open {
            assert!(text.contains("echo 60"), "{text}");
            break;
        }
    }
    assert!(presses > 3);
}

#[test]
fn what_could_hide_in_a_command_is_visible() {
    let mut dialog = asked(&command("echo a\u{1b}[8m; rm -rf ~\u{200b}\u{202e}"));
    let text = shown(&mut dialog, 80, 20);
    assert!(text.contains("rm -rf ~"), "{text}");
    assert!(text.chars().all(|character| character == '\n' || !character.is_control()), "{text:?}");
    assert!(!text.contains(['\u{200b}', '\u{202e}']), "{text:?}");
}

#[test]
fn questions_come_one_after_another() {
    let option = |label: &str| Choice { label: label.to_owned(), description: String::new() };
    let question = |form| Question { header: "H".to_owned(), text: "Which?".to_owned(), form };
    let request = ApprovalRequest {
        subject: Subject::Questions(vec![
            question(QuestionForm::Choice { options: vec![option("a"), option("b")], several: false }),
            question(QuestionForm::Choice { options: vec![option("c"), option("d")], several: true }),
            question(QuestionForm::Text { placeholder: "why".to_owned() }),
            question(QuestionForm::YesNo),
        ]),
        ..command("")
    };
    let mut dialog = asked(&request);
    assert!(shown(&mut dialog, 40, 20).contains("H  1 of 4"));
    let keys = "213x".chars().map(KeyCode::Char).collect::<Vec<_>>();
    // b; then c is taken, and the third choice ends it; then a word; then no.
    for key in keys {
        assert_eq!(press(&mut dialog, key), Verdict::Open);
    }
    assert_eq!(press(&mut dialog, KeyCode::Enter), Verdict::Open);
    let replies = ["b", "c", "x", "no"].map(str::to_owned).to_vec();
    let answer = ApprovalAnswer::Replies(replies);
    assert_eq!(press(&mut dialog, KeyCode::Char('2')), Verdict::Answered { call: request.call, answer });
}

#[test]
fn a_picker_searches_scrolls_and_asks_before_it_deletes() {
    let row = |index: usize| PickerRow {
        key: format!("k{index}"),
        columns: vec![index.to_string(), format!("session {index}")],
        preview: vec![format!("begins with {index}")],
        sample: None,
    };
    let picker = Picker::new("Chat Sessions", &["Index", "Name"], (1..=5000).map(row).collect());
    let picker = picker.options(PickerOptions { counted: true, ..PickerOptions::default() });
    let mut dialog = Dialog::Picker(Box::new(picker.letter('x', "delete it", true)));
    let text = shown(&mut dialog, 60, 10);
    assert!(text.starts_with("Chat Sessions (5000 total)\n  Index │ Name\n● 1"), "{text}");
    assert_eq!(text.lines().count(), 10);
    for key in "/session 42".chars() {
        press(&mut dialog, KeyCode::Char(key));
    }
    press(&mut dialog, KeyCode::Down);
    assert_eq!(press(&mut dialog, KeyCode::Enter), Verdict::Picked { key: "k142".to_owned(), with: None });
    press(&mut dialog, KeyCode::Esc);
    assert_eq!(press(&mut dialog, KeyCode::Char('x')), Verdict::Open);
    assert!(shown(&mut dialog, 60, 10).contains("Press x again to delete it"));
    assert!(matches!(press(&mut dialog, KeyCode::Down), Verdict::Marked(_)));
    assert_eq!(press(&mut dialog, KeyCode::Char('x')), Verdict::Open);
    let deleted = press(&mut dialog, KeyCode::Char('x'));
    assert!(matches!(deleted, Verdict::Picked { with: Some('x'), .. }), "{deleted:?}");
    assert_eq!(press(&mut dialog, KeyCode::Char('q')), Verdict::Closed);
}

#[test]
fn a_low_window_shows_what_is_asked_about_before_it_can_be_approved() {
    let lines: String = (1..=5).map(|number| format!("echo {number}\n")).collect();
    for (width, height) in [(40, 10), (40, 6), (24, 5), (80, 4)] {
        let mut dialog = asked(&command(&lines));
        let mut seen = String::new();
        let mut presses = 0;
        loop {
            let text = shown(&mut dialog, width, height);
            assert!(text.lines().count() <= usize::from(height), "{width}x{height}:\n{text}");
            assert!(text.starts_with("? Shell  echo 1") && text.contains("● 1. Allow once"), "{text}");
            seen.push_str(&text);
            presses += 1;
            assert!(presses < 20, "{seen}");
            if !matches!(press(&mut dialog, KeyCode::Char('1')), Verdict::Open) {
                break;
            }
        }
        for line in lines.lines().chain(["in /p"]) {
            assert!(seen.contains(&format!("\n{line}\n")), "{width}x{height}, {line}:\n{seen}");
        }
    }
}

#[test]
fn what_has_no_room_cannot_be_approved() {
    let mut dialog = asked(&command("rm -r src"));
    for _ in 0..20 {
        shown(&mut dialog, 40, 2);
        assert!(matches!(press(&mut dialog, KeyCode::Char('1')), Verdict::Open));
    }
    shown(&mut dialog, 40, 8);
    assert!(matches!(press(&mut dialog, KeyCode::Char('1')), Verdict::Answered { .. }));
}
