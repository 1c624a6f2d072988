//! Someone writes while questions appear: no key that was meant for the prompt answers one.

use super::*;
use pollux_domain::approval::{Question, QuestionForm};

/// A random number generator that repeats its choices; the numbers are those of SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least)
    }
}

fn request(number: u64, kind: u64) -> Event {
    let Event::ApprovalWanted(request) = wanted("rm -rf build") else { unreachable!() };
    let mut request = (*request).clone();
    request.call = CallId::from_file(number.to_string());
    let question = |form| Question { header: "Q".to_owned(), text: "Which?".to_owned(), form };
    match kind {
        0 => request.destroys = Some("Deletes build/ and everything in it".to_owned()),
        1 => request.subject = Subject::Questions(vec![question(QuestionForm::YesNo)]),
        2 => {
            let form = QuestionForm::Text { placeholder: String::new() };
            request.subject = Subject::Questions(vec![question(form)]);
        }
        3 => {
            let options = ["a", "b"].map(|label| pollux_domain::approval::Choice {
                label: label.to_owned(),
                description: String::new(),
            });
            let form = QuestionForm::Choice { options: options.to_vec(), several: false };
            request.subject = Subject::Questions(vec![question(form)]);
        }
        _ => {}
    }
    Event::ApprovalWanted(Arc::new(request))
}

fn settled(number: u64) -> Event {
    let outcome = Outcome::Refuse;
    Event::ApprovalSettled { call: CallId::from_file(number.to_string()), outcome, by: None }
}

/// What a person presses while writing: mostly text, with digits, `y`, `n`, and keys that answer questions.
const WRITTEN: &[u8] = b"please also check 11y the docs, n or y? 2 of 3: jk 6 456 nnn yyy";

struct Robot {
    stage: Stage,
    dice: Dice,
    written: String,
    sent: String,
    answered: Vec<Action>,
    number: u64,
    standing: Vec<u64>,
}

impl Robot {
    fn new(seed: u64) -> Self {
        let mut stage = Stage::new(80, 24);
        let now = stage.now;
        stage.app.begin_turn("go", false, now);
        let dice = Dice(seed);
        let (written, sent) = (String::new(), String::new());
        Self { stage, dice, written, sent, answered: Vec::new(), number: 0, standing: Vec::new() }
    }

    /// The next key, as a person at work would press it.
    fn press(&mut self, gap: u64) {
        self.stage.now += Duration::from_millis(gap);
        let text = |robot: &mut Self| {
            let at = usize::try_from(robot.dice.below(WRITTEN.len() as u64)).unwrap();
            KeyCode::Char(char::from(*WRITTEN.get(at).unwrap()))
        };
        let is_empty = self.stage.app.composer.is_empty();
        let code = match self.dice.below(40) {
            // A question mark in an empty prompt is a command.
            _ if is_empty => KeyCode::Char('w'),
            0 => KeyCode::Enter,
            1 => KeyCode::Left,
            2 => KeyCode::End,
            3 => KeyCode::Backspace,
            _ => text(self),
        };
        // The robot writes at the end of its text, so that the text can be told.
        let code = if code == KeyCode::Left { KeyCode::End } else { code };
        match code {
            KeyCode::Char(letter) => self.written.push(letter),
            KeyCode::Backspace => drop(self.written.pop()),
            KeyCode::Enter => {
                self.sent.push_str(self.written.trim());
                self.sent.push('\n');
                self.written.clear();
            }
            _ => {}
        }
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        let actions = self.stage.app.key(key, self.stage.now);
        let answers = |action: &Action| !matches!(action, Action::Complete(_) | Action::Steer { .. });
        self.answered.extend(actions.into_iter().filter(answers));
    }

    fn ask(&mut self) {
        self.number += 1;
        self.standing.push(self.number);
        let kind = self.dice.below(6);
        let event = request(self.number, kind);
        self.stage.app.event(&event, self.stage.now);
    }

    /// The model's side takes a question back.
    fn take_back(&mut self) {
        let at = usize::try_from(self.dice.below(self.standing.len() as u64)).unwrap();
        let number = self.standing.remove(at);
        self.stage.app.event(&settled(number), self.stage.now);
    }

    /// Everything that was typed is in the prompt or in the queue, once.
    fn check(&mut self) {
        assert_eq!(self.answered, [], "after {} questions", self.number);
        assert_eq!(self.stage.app.composer.text(), self.written, "after {} questions", self.number);
        let queued: String =
            self.stage.app.tray.waiting.iter().map(|kept| kept.submission.text.clone() + "\n").collect();
        assert_eq!(queued, self.sent, "after {} questions", self.number);
    }
}

#[test]
fn keys_typed_for_a_prompt_never_answer_an_approval_prompt() {
    let mut questions = 0;
    for seed in 0..40 {
        let mut robot = Robot::new(seed);
        let rate = robot.dice.between(5, 41);
        // Nobody types before the first key, and then the keyboard does not rest.
        robot.press(100);
        for _ in 0..1_000 {
            // 5 to 40 keys a second, with some unevenness.
            let gap = 1000 / rate;
            let gap = robot.dice.between(gap / 2 + 31, gap * 3 / 2 + 32);
            let early = robot.dice.below(gap);
            robot.stage.now += Duration::from_millis(early);
            match robot.dice.below(8) {
                0 | 1 => robot.ask(),
                2 => {
                    robot.ask();
                    robot.ask();
                    robot.take_back();
                }
                3 if !robot.standing.is_empty() => {
                    robot.take_back();
                    robot.ask();
                }
                4 if !robot.standing.is_empty() => robot.take_back(),
                5 => drop(robot.stage.app.frame(80, 24, robot.stage.now)),
                _ => {}
            }
            robot.press(gap - early);
            robot.check();
        }
        questions += robot.number;
    }
    assert!(questions >= 10_000, "{questions}");
}

#[test]
fn whoever_pauses_answers() {
    for seed in 0..50 {
        let mut robot = Robot::new(seed);
        robot.press(100);
        robot.ask();
        let kind = robot.dice.below(2);
        robot.press(150);
        robot.check();
        robot.stage.now += STILL;
        assert!(!robot.stage.shown().contains("pause to answer"), "{}", robot.stage.shown());
        let codes: &[KeyCode] =
            if kind == 0 { &[KeyCode::Esc] } else { &[KeyCode::Down, KeyCode::Up, KeyCode::Enter] };
        let now = robot.stage.now;
        let press = |code: &KeyCode| robot.stage.app.key(KeyEvent::from(*code), now);
        let mut actions: Vec<Action> = codes.iter().flat_map(press).collect();
        actions.retain(|action| !matches!(action, Action::Withdraw(_)));
        let takes_words =
            robot.stage.app.questions.standing.front().is_some_and(|front| front.dialog.takes_text());
        assert!(takes_words || matches!(actions.as_slice(), [Action::Decide { .. }]), "{seed}: {actions:?}");
        // Esc gives the queue back.
        let left = if kind == 0 { format!("{}\n{}", robot.sent, robot.written) } else { robot.written };
        assert_eq!(robot.stage.app.composer.text().trim(), left.trim());
    }
}

#[test]
fn a_question_waits_until_the_keyboard_rests_and_says_so() {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("go", false, now);
    stage.write("also 1");
    stage.event(wanted("touch raced"));
    let shown = stage.shown();
    assert!(shown.contains("touch raced") && shown.contains("> also 1"), "{shown}");
    assert!(shown.contains("Typing continues below; pause to answer"), "{shown}");
    assert_eq!(stage.write("1y n?"), []);
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), []);
    assert_eq!(stage.app.deadline(stage.now), Some(stage.now + STILL));
    assert!(stage.shown().contains("> also 11y n?"), "{}", stage.shown());
    // However late it is noticed, the hint goes.
    stage.now += STILL + Duration::from_millis(1);
    assert!(stage.app.deadline(stage.now).is_some_and(|wake| wake <= stage.now));
    let shown = stage.shown();
    assert_eq!(stage.app.takes_keys_at(), None);
    assert!(!shown.contains("pause to answer") && shown.contains("> also 11y n?"), "{shown}");
    // What stands in the prompt is still what keys are about, until the person turns to the question.
    assert!(shown.contains("Enter sends your text"), "{shown}");
    assert_eq!(stage.press(KeyCode::Char('1'), KeyModifiers::NONE), []);
    assert_eq!(stage.press(KeyCode::Backspace, KeyModifiers::NONE), []);
    stage.now += STILL;
    assert_eq!(stage.press(KeyCode::Down, KeyModifiers::NONE), []);
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), []);
    let answered = stage.enter();
    assert!(
        matches!(answered.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]),
        "{answered:?}"
    );
    assert!(stage.shown().contains("> also 11y n?"), "{}", stage.shown());
}

#[test]
fn a_question_takes_keys_at_once_where_nobody_types() {
    let mut stage = Stage::new(60, 20);
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    let key = KeyEvent::from(KeyCode::Char('1'));
    let answered = stage.app.key(key, stage.now + Duration::from_millis(1));
    assert!(matches!(answered.as_slice(), [Action::Decide { .. }]), "{answered:?}");
}

#[test]
fn a_draft_makes_the_question_wait_though_the_keyboard_rests() {
    let mut stage = Stage::new(60, 20);
    stage.write("fix the first ");
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    assert_eq!(stage.write("10 tests"), []);
    assert!(stage.shown().contains("> fix the first 10 tests"), "{}", stage.shown());
}

#[test]
fn keys_at_one_question_do_not_answer_the_next() {
    let mut stage = Stage::new(60, 20);
    stage.event(request(1, 9));
    stage.event(request(2, 9));
    let answered = stage.press(KeyCode::Char('1'), KeyModifiers::NONE);
    assert!(matches!(answered.as_slice(), [Action::Decide { .. }]), "{answered:?}");
    assert_eq!(stage.press(KeyCode::Enter, KeyModifiers::NONE), []);
    stage.now += STILL;
    let answered = stage.press(KeyCode::Char('1'), KeyModifiers::NONE);
    assert!(matches!(answered.as_slice(), [Action::Decide { .. }]), "{answered:?}");
}

#[test]
fn keys_within_one_question_follow_each_other_quickly() {
    let mut stage = Stage::new(60, 20);
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    assert_eq!(stage.press(KeyCode::Down, KeyModifiers::NONE), []);
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), []);
    let answered = stage.enter();
    assert!(
        matches!(answered.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]),
        "{answered:?}"
    );
}

#[test]
fn what_is_pasted_goes_into_the_prompt_and_answers_nothing() {
    let mut stage = Stage::new(60, 20);
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    let now = stage.now;
    assert_eq!(stage.app.paste("1\ny\n", now, &|_| false), []);
    assert_eq!(stage.app.composer.expanded(), "1\ny\n");
    assert!(stage.shown().contains("pause to answer"), "{}", stage.shown());
    // The same where the terminal does not mark pastes.
    let mut stage = Stage::new(60, 20);
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    let keys = ['1', 'y', '2', '6'].map(|letter| KeyEvent::from(KeyCode::Char(letter)));
    assert_eq!(stage.app.keys(&keys, stage.now), []);
    assert_eq!(stage.app.composer.text(), "1y26");
}

#[test]
fn keys_that_a_busy_machine_delivers_at_once_answer_a_question() {
    let at_once = |draft: &str, codes: &[KeyCode]| {
        let mut stage = Stage::new(60, 20);
        stage.write(draft);
        stage.now += Duration::from_secs(5);
        stage.event(wanted("ls"));
        stage.now += Duration::from_secs(5);
        let keys: Vec<KeyEvent> = codes.iter().map(|code| KeyEvent::from(*code)).collect();
        let actions = stage.app.keys(&keys, stage.now);
        (actions, stage.app.composer.text())
    };
    let (down, up, enter) = (KeyCode::Down, KeyCode::Up, KeyCode::Enter);
    for draft in ["", "a draft"] {
        assert_eq!(at_once(draft, &[down, up, down]), (vec![], draft.to_owned()));
        let (actions, text) = at_once(draft, &[down, up, enter]);
        assert!(
            matches!(actions.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]),
            "{actions:?}"
        );
        assert_eq!(text, draft);
    }
    let (actions, _) = at_once("", &[KeyCode::Char('y'), enter, enter]);
    assert!(matches!(actions.first(), Some(Action::Decide { .. })), "{actions:?}");
    // A text with line ends answers nothing.
    for text in ["yy\n", "1\ny\n", "yes"] {
        let code = |letter| if letter == '\n' { enter } else { KeyCode::Char(letter) };
        let codes: Vec<KeyCode> = text.chars().map(code).collect();
        let (actions, _) = at_once("", &codes);
        assert!(
            !actions.iter().any(|action| matches!(action, Action::Decide { .. })),
            "{text:?}: {actions:?}"
        );
    }
}

#[test]
fn words_typed_at_an_open_question_stay_whole_and_arm_nothing() {
    for words in [
        "just stop",
        "yes please",
        "keep it",
        "no way",
        "just use 2 spaces",
        "wait, do not do that",
        "y",
        "n",
    ] {
        let mut stage = Stage::new(60, 20);
        let now = stage.now;
        stage.app.begin_turn("go", false, now);
        stage.now += Duration::from_secs(5);
        stage.event(request(1, 0));
        stage.now += Duration::from_secs(2);
        assert_eq!(stage.write(words), [], "{words}");
        stage.now += Duration::from_millis(1_100);
        if words.len() == 1 {
            // A letter alone marks an answer, and Enter says it.
            let answered = stage.enter();
            let once = matches!(answered.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]);
            assert_eq!(once, words == "y", "{words}: {answered:?}");
            continue;
        }
        assert_eq!(stage.app.composer.text(), words);
        assert!(matches!(stage.enter().as_slice(), [Action::Steer { .. }]), "{words}");
        let queued: Vec<&str> =
            stage.app.tray.waiting.iter().map(|kept| kept.submission.text.as_str()).collect();
        assert_eq!(queued, [words]);
        // The next Enter finds *No* marked again.
        stage.now += Duration::from_secs(1);
        let answered = stage.enter();
        assert!(
            !matches!(answered.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]),
            "{words}: {answered:?}"
        );
    }
}

#[test]
fn a_letter_that_answers_nothing_begins_a_text() {
    let mut stage = Stage::new(60, 20);
    stage.now += Duration::from_secs(5);
    stage.event(wanted("ls"));
    assert_eq!(stage.write("fix 1 thing"), []);
    assert_eq!(stage.app.composer.text(), "fix 1 thing");
}

#[test]
fn a_list_that_comes_by_itself_waits_and_one_that_was_called_does_not() {
    use crate::dialog::{Picker, PickerOptions, PickerRow};
    let rows = || {
        let row = |key: &str| PickerRow {
            key: key.to_owned(),
            columns: vec![key.to_owned()],
            ..PickerRow::default()
        };
        vec![row("folder"), row("never")]
    };
    let list = |unrequested| {
        let options = PickerOptions { numbered: true, unrequested, ..PickerOptions::default() };
        Picker::new("Trust?", &[], rows()).options(options)
    };
    let mut stage = Stage::new(60, 20);
    stage.write("hel");
    stage.app.pick(list(true));
    assert_eq!(stage.write("lo 1"), []);
    assert_eq!(stage.enter(), []);
    assert!(stage.shown().contains("Queued until you answer:\n    hello 1\n"), "{}", stage.shown());
    stage.app.close();
    assert_eq!(stage.app.take_queue().map(|sent| sent.text).as_deref(), Some("hello 1"));
    stage.app.pick(list(false));
    let chosen = stage.press(KeyCode::Char('1'), KeyModifiers::NONE);
    assert_eq!(chosen, [Action::Picked { key: "folder".to_owned(), with: None }]);
}

#[test]
fn a_question_before_an_open_list_waits_until_the_list_rests() {
    use crate::dialog::{Picker, PickerOptions, PickerRow};
    let row =
        |key: &str| PickerRow { key: key.to_owned(), columns: vec![key.to_owned()], ..PickerRow::default() };
    let options = PickerOptions { numbered: true, ..PickerOptions::default() };
    let mut stage = Stage::new(60, 20);
    stage.app.pick(Picker::new("Colours", &[], vec![row("a"), row("b")]).options(options));
    stage.press(KeyCode::Down, KeyModifiers::NONE);
    stage.event(wanted("ls"));
    let shown = stage.shown();
    assert!(shown.contains("Colours") && shown.contains("A question is waiting"), "{shown}");
    assert_eq!(stage.enter(), [Action::Picked { key: "b".to_owned(), with: None }]);
    stage.now += STILL;
    let answered = stage.enter();
    assert!(
        matches!(answered.as_slice(), [Action::Decide { answer: ApprovalAnswer::Once, .. }]),
        "{answered:?}"
    );
}

#[test]
fn a_small_window_keeps_question_and_prompt() {
    for size in [(40, 20), (40, 12), (20, 8), (10, 4), (3, 2)] {
        let mut stage = Stage::new(size.0, size.1);
        let now = stage.now;
        stage.app.begin_turn("go", false, now);
        stage.write("a draft");
        stage.event(wanted("touch raced"));
        stage.write("1");
        let shown = stage.shown();
        if size.1 >= 12 {
            assert!(shown.contains("touch raced") && shown.contains("> a draft1"), "{size:?}\n{shown}");
        }
        stage.size = (size.0 + 20, size.1 + 5);
        stage.write("2");
        assert_eq!(stage.app.composer.text(), "a draft12");
    }
}
