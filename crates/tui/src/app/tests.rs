mod clipboard;
mod commands;
mod hostile;
mod questions;
mod replay;
mod typing;
mod unsent;
mod views;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::event::{FrontId, OpResult, RefusalCode, TurnEnd};
use pollux_domain::model::{ModelError, ModelErrorKind};

use super::*;
use crate::screen::Screen;

/// An app on a terminal that can be looked at.
struct Stage {
    app: App,
    screen: Screen<Vec<u8>>,
    terminal: vt100::Parser,
    now: Instant,
    size: (u16, u16),
}

impl Stage {
    fn new(columns: u16, rows: u16) -> Self {
        let show = Show { tips: false, ..Show::default() };
        let settings = Settings { show, line_numbers: false, ..Settings::default() };
        Self::with(settings, columns, rows)
    }

    fn with(settings: Settings, columns: u16, rows: u16) -> Self {
        let header = Header { version: "1.2.3".to_owned(), ..Header::default() };
        let footer = Footer { workspace: "~/p".to_owned(), model: "gemini".to_owned(), ..Footer::default() };
        let alternate = settings.alternate;
        let mut stage = Self {
            app: App::new(settings, header, footer, ApprovalMode::Default),
            screen: if alternate {
                Screen::whole(Vec::new(), columns, true)
            } else {
                Screen::new(Vec::new(), columns, true)
            },
            terminal: vt100::Parser::new(rows, columns, 1000),
            now: Instant::now(),
            size: (columns, rows),
        };
        stage.draw();
        stage
    }

    fn draw(&mut self) {
        let frame = self.app.frame(self.size.0, self.size.1, self.now);
        self.screen.paint(&frame).expect("memory can be written");
        let bytes = std::mem::take(self.screen.out());
        self.terminal.process(&bytes);
    }

    fn shown(&mut self) -> String {
        self.draw();
        let rows = self.terminal.screen().rows(0, self.size.0).map(|row| row.trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Action> {
        // People type slowly enough not to be taken for a paste.
        self.now += Duration::from_millis(100);
        let actions = self.app.key(KeyEvent::new(code, modifiers), self.now);
        self.draw();
        actions
    }

    fn write(&mut self, text: &str) -> Vec<Action> {
        text.chars().flat_map(|character| self.press(KeyCode::Char(character), KeyModifiers::NONE)).collect()
    }

    fn enter(&mut self) -> Vec<Action> {
        self.press(KeyCode::Enter, KeyModifiers::NONE)
    }

    fn event(&mut self, event: Event) {
        self.app.event(&event, self.now);
        self.draw();
    }
}

fn wanted(command: &str) -> Event {
    let offer = |outcome| Offer { outcome, covers: String::new() };
    Event::ApprovalWanted(Arc::new(ApprovalRequest {
        call: CallId::from_file("1"),
        tool: "run_shell_command".to_owned(),
        display_name: "Shell".to_owned(),
        args: JsonObject::new(),
        subject: Subject::Command { command: command.to_owned(), directory: PathBuf::from("/p") },
        destroys: None,
        why: Why::default(),
        offers: vec![offer(Outcome::Once), offer(Outcome::Refuse)],
    }))
}

#[test]
fn the_first_screen_has_a_place_to_type() {
    for size in [(20, 6), (80, 24), (300, 100)] {
        let mut stage = Stage::new(size.0, size.1);
        let shown = stage.shown();
        assert!(shown.contains("Type your"), "{size:?}\n{shown}");
        assert!(shown.ends_with("gemini") || size.0 < 40, "{shown}");
    }
    let mut stage = Stage::new(80, 24);
    assert!(stage.shown().contains(">   Type your message or @path/to/file"), "{}", stage.shown());
}

#[test]
fn the_smallest_terminal_is_no_reason_to_fail() {
    for size in [(1, 1), (2, 2), (3, 1), (1, 9)] {
        let mut stage = Stage::new(size.0, size.1);
        stage.write("hello");
        stage.event(Event::Text("a long answer with 日本語".to_owned()));
        stage.event(wanted("ls"));
        stage.enter();
        stage.shown();
    }
}

#[test]
fn a_prompt_is_sent_and_its_answer_stays() {
    let mut stage = Stage::new(60, 20);
    assert_eq!(stage.write("hi"), []);
    let sent = stage.enter();
    assert_eq!(sent, [Action::Submit { text: "hi".to_owned(), shell: false }]);
    let now = stage.now;
    stage.app.begin_turn("hi", false, now);
    stage.now += Duration::from_secs(12);
    assert!(stage.shown().contains("Thinking... (esc to cancel, 12s)"), "{}", stage.shown());
    stage.event(Event::Text("Hello **there**".to_owned()));
    stage.event(Event::StepCommitted);
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    let shown = stage.shown();
    assert!(shown.contains("▌> hi\n\n✦ Hello there\n"), "{shown}");
    assert!(!shown.contains("Thinking"), "{shown}");
    assert!(!stage.app.is_busy());
    assert_eq!(stage.app.answer(), "Hello **there**");
}

#[test]
fn what_is_typed_meanwhile_waits_and_can_be_taken_back() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("first", false, now);
    stage.write("second");
    let steered = stage.enter();
    let [Action::Steer { id, text }] = steered.as_slice() else { panic!("{steered:?}") };
    assert_eq!(text, "second");
    stage.write("third");
    assert!(stage.shown().contains("Enter sends · Tab queues"), "{}", stage.shown());
    assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), []);
    stage.write("/compress");
    assert_eq!(stage.enter(), []);
    let shown = stage.shown();
    assert!(shown.contains("Sent with the next request (press ↑ to edit):\n    second\n"), "{shown}");
    assert!(
        shown.contains("Queued until the turn ends (press ↑ to edit):\n    third\n    /compress"),
        "{shown}"
    );
    // The last go first, and a command alone: what is queued again stands where it was.
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), []);
    assert_eq!(stage.app.composer.text(), "/compress");
    stage.press(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), [Action::Withdraw(id.clone())]);
    assert!(!stage.shown().contains("Queued") && !stage.shown().contains("Sent with"), "{}", stage.shown());
    stage.enter();
    // The turn ends before its next request.
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    let queued = stage.app.take_queue().expect("something was queued");
    assert_eq!(queued.text, "second\n\nthird");
    assert!(stage.app.take_queue().is_none());
}

#[test]
fn prompts_that_wait_are_logged_once_and_commands_are_not() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("first", false, now);
    stage.write("second");
    stage.enter();
    assert_eq!(stage.app.take_unlogged(), ["second"]);
    stage.write("third");
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    stage.write("/compress");
    stage.enter();
    assert_eq!(stage.app.take_unlogged(), ["third"]);
    assert!(stage.app.take_unlogged().is_empty());
}

#[test]
fn what_the_turn_got_moves_from_the_tray_to_the_conversation() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("first", false, now);
    let mut ids = Vec::new();
    for text in ["use tabs", "blocked"] {
        stage.write(text);
        let steered = stage.enter();
        let [Action::Steer { id, .. }] = steered.as_slice() else { panic!("{steered:?}") };
        ids.push(id.clone());
    }
    let (by, typed) = (FrontId::local(), "use tabs".to_owned());
    stage.event(Event::Steered { id: ids[0].clone(), typed, message: None, by: by.clone() });
    let shown = stage.shown();
    assert!(shown.contains("> use tabs") && !shown.contains("    use tabs"), "{shown}");
    // A refusal gives the text back.
    let result = OpResult::refused(RefusalCode::NotAllowed, "blocked by a hook");
    stage.event(Event::Acknowledged { id: ids[1].clone(), by, result });
    assert!(!stage.shown().contains("Sent with"), "{}", stage.shown());
    assert_eq!(stage.app.composer.text(), "blocked");
}

#[test]
fn two_screens_never_give_a_text_the_same_id() {
    let steer = || {
        let mut stage = Stage::new(60, 20);
        let now = stage.now;
        stage.app.begin_turn("first", false, now);
        stage.write("use tabs");
        let steered = stage.enter();
        let [Action::Steer { id, .. }] = steered.as_slice() else { panic!("{steered:?}") };
        id.clone()
    };
    assert_ne!(steer(), steer());
}

#[test]
fn a_text_that_reached_the_turn_while_it_was_taken_back_leaves_the_composer() {
    for key in [KeyCode::Esc, KeyCode::Up] {
        let mut stage = Stage::new(60, 20);
        let now = stage.now;
        stage.app.begin_turn("first", false, now);
        let mut ids = Vec::new();
        for text in ["look", "ok", "more"] {
            stage.write(text);
            let steered = stage.enter();
            let [Action::Steer { id, .. }] = steered.as_slice() else { panic!("{steered:?}") };
            ids.push(id.clone());
        }
        let mut actions: Vec<Action> = ids.iter().cloned().map(Action::Withdraw).collect();
        actions.extend((key == KeyCode::Esc).then_some(Action::Cancel));
        assert_eq!(
            stage.press(key, KeyModifiers::NONE),
            actions,
            "nothing is left for the turn to take along"
        );
        assert_eq!(stage.app.composer.text(), "look\n\nok\n\nmore");
        let steered = |at: usize, typed: &str| {
            let (id, by) = (ids[at].clone(), FrontId::local());
            Event::Steered { id, typed: typed.to_owned(), message: None, by }
        };
        stage.event(steered(1, "ok"));
        assert_eq!(stage.app.composer.text(), "look\n\nmore");
        stage.event(steered(2, "more"));
        assert_eq!(stage.app.composer.text(), "look");
        // What was edited since stays.
        stage.write("ing");
        stage.event(steered(0, "look"));
        assert_eq!(stage.app.composer.text(), "looking");
    }
}

#[test]
fn what_waits_is_not_sent_into_the_failure_that_ended_the_turn() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("first", false, now);
    stage.write("use tabs");
    stage.enter();
    stage.write("then test");
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    let error = ModelError::new(ModelErrorKind::Auth, None, "the key is not valid");
    stage.event(Event::TurnEnded(TurnEnd::Failed(error)));
    assert!(stage.app.take_queue().is_none());
    assert_eq!(stage.app.composer.text(), "use tabs\n\nthen test");
}

#[test]
fn detaching_takes_two_keys_while_the_hint_is_shown_and_only_in_the_core() {
    let press = |stage: &mut Stage, key: KeyEvent| stage.app.keys(&[key], stage.now);
    let begin = |stage: &mut Stage| press(stage, KeyEvent::new(KeyCode::Char('\\'), KeyModifiers::CONTROL));
    let letter = |stage: &mut Stage| press(stage, KeyEvent::from(KeyCode::Char('d')));
    let mut stage = Stage::new(60, 20);
    stage.app.facts.detaches = true;
    assert_eq!(begin(&mut stage), []);
    assert!(stage.shown().contains("Press d to detach."), "{}", stage.shown());
    assert_eq!(letter(&mut stage), [Action::Detach]);
    begin(&mut stage);
    stage.now += Duration::from_secs(4);
    assert_eq!(letter(&mut stage), [], "the hint is gone");
    assert_eq!(stage.app.composer.text(), "d");
    // The program says at once why it cannot.
    let mut stage = Stage::new(60, 20);
    assert_eq!(begin(&mut stage), [Action::Detach]);
    assert_eq!(letter(&mut stage), []);
    assert_eq!(stage.app.composer.text(), "d");
}

#[test]
fn a_question_stands_above_the_draft_and_is_answered() {
    let mut stage = Stage::new(60, 20);
    stage.write("draft");
    stage.event(wanted("cargo build"));
    stage.now += STILL;
    let shown = stage.shown();
    assert!(shown.contains("cargo build") && shown.contains("● 1. Allow once"), "{shown}");
    assert!(shown.contains("> draft"), "{shown}");
    // Enter alone would be about the draft.
    stage.press(KeyCode::Down, KeyModifiers::NONE);
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    let actions = stage.enter();
    assert_eq!(actions, [Action::Decide { call: CallId::from_file("1"), answer: ApprovalAnswer::Once }]);
    assert!(stage.shown().contains("> draft"), "{}", stage.shown());
}

#[test]
fn escape_stops_the_turn_and_ctrl_c_leaves_only_the_second_time() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    assert_eq!(stage.press(KeyCode::Esc, KeyModifiers::NONE), [Action::Cancel]);
    stage.event(Event::TurnEnded(TurnEnd::Cancelled));
    assert!(stage.shown().contains("ℹ Request cancelled."));
    stage.write("abc");
    let ctrl_c = |stage: &mut Stage| stage.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(ctrl_c(&mut stage), []);
    assert!(!stage.shown().contains("abc"));
    assert_eq!(ctrl_c(&mut stage), []);
    assert!(stage.shown().contains("Press Ctrl+C again to exit."), "{}", stage.shown());
    assert_eq!(ctrl_c(&mut stage), [Action::Quit]);
    let mut stage = Stage::new(60, 20);
    ctrl_c(&mut stage);
    stage.now += Duration::from_secs(4);
    assert!(!stage.shown().contains("again to exit"));
    assert_eq!(ctrl_c(&mut stage), []);
}

#[test]
fn a_second_key_counts_as_long_as_its_hint_is_shown() {
    let mut stage = Stage::new(60, 20);
    let escape = |stage: &mut Stage| stage.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(escape(&mut stage), []);
    stage.now += Duration::from_millis(2500);
    assert!(stage.shown().contains("Press Esc again to rewind."), "{}", stage.shown());
    assert_eq!(escape(&mut stage), [Action::Rewind]);
    // Another key ends the chance and the hint.
    let mut stage = Stage::new(60, 20);
    escape(&mut stage);
    stage.press(KeyCode::Left, KeyModifiers::NONE);
    assert!(!stage.shown().contains("again"), "{}", stage.shown());
    assert_eq!(escape(&mut stage), []);
    stage.now += Duration::from_millis(3100);
    assert!(!stage.shown().contains("again"), "{}", stage.shown());
    assert_eq!(escape(&mut stage), []);
    let ctrl_c = |stage: &mut Stage| stage.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut stage = Stage::new(60, 20);
    ctrl_c(&mut stage);
    stage.write("x");
    ctrl_c(&mut stage);
    assert_eq!(ctrl_c(&mut stage), []);
    assert_eq!(ctrl_c(&mut stage), [Action::Quit]);
}

#[test]
fn what_is_typed_right_after_ctrl_c_stays() {
    let mut stage = Stage::new(60, 12);
    stage.write("old");
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let keys: Vec<KeyEvent> = std::iter::once(ctrl_c)
        .chain("new".chars().map(|letter| KeyEvent::from(KeyCode::Char(letter))))
        .collect();
    stage.app.keys(&keys, stage.now);
    let shown = stage.shown();
    assert!(shown.contains("> new") && !shown.contains("old"), "{shown}");
}

#[test]
fn shift_tab_asks_for_the_next_mode() {
    let mut stage = Stage::new(60, 20);
    let cycle = |stage: &mut Stage| stage.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    assert_eq!(cycle(&mut stage), [Action::SetMode(ApprovalMode::AutoEdit)]);
    stage.event(Event::ModeChanged { mode: ApprovalMode::AutoEdit, by: None });
    assert!(stage.shown().contains("Accepting edits (Shift+Tab for plan mode)"), "{}", stage.shown());
    assert_eq!(cycle(&mut stage), [Action::SetMode(ApprovalMode::Plan)]);
}

#[test]
fn a_long_answer_never_outgrows_the_terminal() {
    let mut stage = Stage::new(40, 10);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    for line in 0..200 {
        stage.event(Event::Text(format!("- item {line}\n")));
        let frame = stage.app.frame(40, 10, stage.now);
        assert!(frame.live.area.height < 10, "{}", frame.live.area.height);
        assert!(frame.finished.is_empty() || line > 0);
    }
    stage.event(Event::StepCommitted);
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    assert!(stage.shown().contains("• item 199"), "{}", stage.shown());
    stage.terminal.screen_mut().set_scrollback(1000);
    let mut seen = std::collections::BTreeSet::new();
    for back in (0..1000).rev() {
        stage.terminal.screen_mut().set_scrollback(back);
        let rows: Vec<String> = stage.terminal.screen().rows(0, 40).collect();
        seen.extend(
            rows.iter()
                .filter_map(|row| row.split_once("• item ").map(|(_, number)| number.trim().to_owned())),
        );
    }
    assert_eq!(seen.len(), 200);
}

#[test]
fn the_whole_screen_scrolls_and_comes_back() {
    let mut stage = Stage::with(Settings { alternate: true, ..Settings::default() }, 40, 16);
    for number in 0..100 {
        stage.event(Event::Text(format!("line {number}\n\n")));
    }
    stage.event(Event::StepCommitted);
    assert!(stage.shown().contains("line 99"), "{}", stage.shown());
    stage.press(KeyCode::PageUp, KeyModifiers::NONE);
    let shown = stage.shown();
    assert!(!shown.contains("line 99") && shown.contains("more below"), "{shown}");
    assert!(shown.contains("Type your"), "{shown}");
    // What comes meanwhile does not move what is read.
    stage.app.say(Item::info("news"));
    assert_eq!(stage.shown(), shown);
    stage.press(KeyCode::Home, KeyModifiers::CONTROL);
    assert!(stage.shown().contains("Tips for getting started"), "{}", stage.shown());
    stage.press(KeyCode::End, KeyModifiers::CONTROL);
    assert!(stage.shown().contains("news"), "{}", stage.shown());
    stage.app.farewell(Item::info("bye"));
    stage.app.end();
    let last = stage.app.last_words(40, stage.now);
    assert!(last.finished.iter().any(|line| line.to_string().contains("bye")));
}

#[test]
fn the_greeting_waits_for_its_last_line_and_is_printed_once() {
    let mut stage = Stage::new(60, 20);
    assert!(stage.shown().contains("Pollux v1.2.3"));
    stage.app.signed_in("Authenticated with gemini-api-key /auth");
    let shown = stage.shown();
    assert!(shown.contains("Pollux v1.2.3\nAuthenticated with gemini-api-key /auth\n"), "{shown}");
    stage.app.signed_in("again");
    assert_eq!(stage.shown().matches("Pollux v1.2.3").count(), 1);
}

#[test]
fn what_was_cut_is_shown_whole_on_request() {
    let mut stage = Stage::new(60, 60);
    stage.app.signed_in("");
    let now = stage.now;
    stage.app.begin_turn("seq 40", true, now);
    let text: String = (1..=40).map(|number| format!("{number}\n")).collect();
    stage.app.shell_output(&text);
    stage.app.shell_ended(None, stage.now);
    let shown = stage.shown();
    assert!(shown.contains("… 25 earlier lines"), "{shown}");
    stage.press(KeyCode::Char('o'), KeyModifiers::CONTROL);
    let shown = stage.shown();
    assert!(shown.contains("│ 1\n") && shown.contains("│ 40\n"), "{shown}");
}

#[test]
fn the_title_says_what_goes_on_and_attention_is_called_for_once() {
    let titles = Titles { folder: "p".to_owned(), fixed: None, thought: true };
    let mut stage = Stage::with(Settings { titles: Some(titles), ..Settings::default() }, 60, 20);
    assert_eq!(stage.app.title().as_deref(), Some("◇  Ready (p)"));
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    assert_eq!(stage.app.title().as_deref(), Some("✦  Working… (p)"));
    stage.event(wanted("ls"));
    assert_eq!(stage.app.title().as_deref(), Some("✋  Action Required (p)"));
    assert_eq!(stage.app.take_attention(), None);
    stage.app.set_focused(false);
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    assert_eq!(stage.app.take_attention().map(|(title, _)| title).as_deref(), Some("Done"));
    assert_eq!(stage.app.take_attention(), None);
}
