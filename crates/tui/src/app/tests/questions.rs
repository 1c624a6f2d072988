//! What a question says, and what its keys do.

use pollux_domain::event::CallRequest;

use super::*;

fn with(change: impl FnOnce(&mut ApprovalRequest)) -> Event {
    let Event::ApprovalWanted(request) = wanted("rm -rf build && git reset --hard") else { unreachable!() };
    let mut request = (*request).clone();
    change(&mut request);
    Event::ApprovalWanted(Arc::new(request))
}

fn destructive() -> Event {
    let words = "Deletes build/ and everything in it; discards uncommitted changes (git reset --hard)";
    with(|request| request.destroys = Some(words.to_owned()))
}

fn decided(actions: &[Action]) -> Option<&ApprovalAnswer> {
    // What waits for the turn is taken back first.
    match actions.split_last()? {
        (Action::Decide { answer, .. }, [] | [Action::Withdraw(_), ..]) => Some(answer),
        _ => None,
    }
}

#[test]
fn what_destroys_says_so_and_enter_alone_does_not_run_it() {
    for size in [(80, 24), (40, 20)] {
        let mut stage = Stage::new(size.0, size.1);
        stage.event(destructive());
        let shown = stage.shown();
        assert!(shown.contains("⚠ Deletes build/ and everything in it;"), "{shown}");
        assert!(shown.contains("● 6. No") && shown.contains("  1. Allow once"), "{shown}");
        let row = shown.lines().position(|line| line.contains("⚠")).unwrap();
        let cell = stage.terminal.screen().cell(u16::try_from(row).unwrap(), 2).unwrap();
        let red = Theme::for_shade(Shade::Dark).error().fg;
        assert_eq!(format!("{:?}", cell.fgcolor()), format!("{:?}", vt100_colour(red)), "{shown}");
        // Enter leads to the words of a refusal, never to the command.
        assert_eq!(stage.enter(), []);
        assert_eq!(decided(&stage.enter()), Some(&ApprovalAnswer::Cancel));
    }
    let answers: &[(&[KeyCode], bool)] = &[
        (&[KeyCode::Char('1')], true),
        (&[KeyCode::Char('y'), KeyCode::Enter], true),
        (&[KeyCode::Up, KeyCode::Enter], true),
        (&[KeyCode::Char('y')], false),
        (&[KeyCode::Enter], false),
        (&[KeyCode::Char('3'), KeyCode::Enter], false),
    ];
    for (keys, runs) in answers {
        let mut stage = Stage::new(80, 24);
        stage.event(destructive());
        let mut actions = Vec::new();
        keys.iter().for_each(|key| actions.extend(stage.press(*key, KeyModifiers::NONE)));
        assert_eq!(decided(&actions) == Some(&ApprovalAnswer::Once), *runs, "{keys:?}");
    }
}

fn vt100_colour(colour: Option<ratatui::style::Color>) -> vt100::Color {
    match colour {
        Some(ratatui::style::Color::Rgb(red, green, blue)) => vt100::Color::Rgb(red, green, blue),
        Some(ratatui::style::Color::Indexed(index)) => vt100::Color::Idx(index),
        Some(ratatui::style::Color::Red) => vt100::Color::Idx(1),
        Some(ratatui::style::Color::LightRed) => vt100::Color::Idx(9),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_choice_has_the_same_digit_in_every_question() {
    let offer = |outcome| Offer { outcome, covers: String::new() };
    let all = [
        Outcome::Once,
        Outcome::Session,
        Outcome::SessionServer,
        Outcome::Saved,
        Outcome::Edit,
        Outcome::Refuse,
    ];
    for missing in 0..32_u8 {
        let offered = |place: usize| place == 5 || missing & (1 << place) == 0;
        let offers = all.iter().enumerate().filter(|(place, _)| offered(*place));
        let offers: Vec<Offer> = offers.map(|(_, outcome)| offer(*outcome)).collect();
        for (place, outcome) in all.iter().enumerate() {
            let mut stage = Stage::new(80, 40);
            stage.event(with(|request| request.offers = offers.clone()));
            let digit = char::from_digit(u32::try_from(place + 1).unwrap(), 10).unwrap();
            let actions = stage.press(KeyCode::Char(digit), KeyModifiers::NONE);
            let shown = stage.shown();
            match (offered(place), outcome) {
                (false, _) => {
                    assert_eq!(actions, [], "{digit} of {offers:?}");
                    assert!(shown.contains("● 6. No"), "{shown}");
                }
                (true, Outcome::Edit) => {
                    assert!(matches!(actions.as_slice(), [Action::EditCall(_)]), "{actions:?}")
                }
                (true, Outcome::Refuse) => assert!(shown.contains("What to do instead"), "{shown}"),
                (true, outcome) => {
                    assert_eq!(decided(&actions).map(ApprovalAnswer::outcome), Some(*outcome), "{digit}");
                }
            }
        }
        for digit in ['0', '7', '8', '9'] {
            let mut stage = Stage::new(80, 40);
            stage.event(with(|request| request.offers = offers.clone()));
            assert_eq!(stage.press(KeyCode::Char(digit), KeyModifiers::NONE), []);
            assert!(stage.shown().contains("● 6. No"), "{}", stage.shown());
        }
    }
}

#[test]
fn paths_are_seen_from_the_workspace() {
    let mut stage = Stage::new(80, 24);
    stage.app.set_paths(PathDisplay { workspace: vec!["/home/a/p".into()], home: Some("/home/a".into()) });
    stage.event(with(|request| {
        request.args.insert("file_path".to_owned(), "src/cart.py".into());
        request.subject = Subject::Edit { path: "/home/a/p/src/cart.py".into(), diff: None };
    }));
    assert!(stage.shown().contains("? Shell  src/cart.py"), "{}", stage.shown());
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    stage.now += STILL;
    stage.event(with(|request| {
        request.args.insert("file_path".to_owned(), "src/cart.py".into());
        request.subject = Subject::Edit { path: "/etc/passwd".into(), diff: None };
    }));
    assert!(stage.shown().contains("src/cart.py → /etc/passwd (link)"), "{}", stage.shown());
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    stage.now += STILL;
    stage.event(with(|request| {
        let directory = "/home/a/p/web".into();
        request.subject = Subject::Command { command: "npm test".to_owned(), directory };
    }));
    assert!(stage.shown().contains("in web/"), "{}", stage.shown());
    let about = "/home/a/p/lib/old.py".to_owned();
    stage.app.say(Item::Call { name: "ReadFile".to_owned(), about, went_well: true });
    assert!(stage.shown().contains("ReadFile  lib/old.py"), "{}", stage.shown());
    let called = |name: &str, key: &str, value: &str| {
        let mut args = JsonObject::new();
        args.insert(key.to_owned(), value.into());
        Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file(value), name, args)))
    };
    let mut stage = Stage::new(80, 24);
    stage.app.set_paths(PathDisplay { workspace: vec!["/home/a/p".into()], home: Some("/home/a".into()) });
    stage.event(called("read_file", "file_path", "/home/a/p/src/cart.py"));
    stage.event(called("write_file", "file_path", "/home/a/notes.md"));
    stage.event(called("list_directory", "dir_path", "/etc"));
    let shown = stage.shown();
    for line in ["ReadFile  src/cart.py", "WriteFile  ~/notes.md", "ReadFolder  /etc"] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn escape_gives_the_queue_back_and_sends_nothing() {
    let queue = |stage: &mut Stage| {
        let now = stage.now;
        stage.app.begin_turn("x", false, now);
        for text in ["first", "second"] {
            stage.write(text);
            stage.enter();
        }
        stage.write("draft");
    };
    let mut stage = Stage::new(60, 30);
    queue(&mut stage);
    let actions = stage.press(KeyCode::Esc, KeyModifiers::NONE);
    assert!(
        matches!(actions.as_slice(), [Action::Withdraw(_), Action::Withdraw(_), Action::Cancel]),
        "{actions:?}"
    );
    stage.event(Event::TurnEnded(TurnEnd::Cancelled));
    assert!(stage.app.take_queue().is_none());
    assert_eq!(stage.app.composer.text(), "first\n\nsecond\n\ndraft");
    // The same when Esc refuses a call; the queue is in sight until then.
    let mut stage = Stage::new(60, 30);
    queue(&mut stage);
    stage.event(wanted("ls"));
    stage.now += STILL;
    let shown = stage.shown();
    assert!(shown.contains("Sent with") && shown.contains("first") && shown.contains("second"), "{shown}");
    let actions = stage.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(decided(&actions), Some(&ApprovalAnswer::Cancel));
    assert!(stage.app.take_queue().is_none());
    assert_eq!(stage.app.composer.text(), "first\n\nsecond\n\ndraft");
    // A refusal with words does not stop the turn, so the queue stays.
    let mut stage = Stage::new(60, 30);
    queue(&mut stage);
    stage.event(wanted("ls"));
    stage.now += STILL;
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    stage.enter();
    stage.write("use make");
    assert_eq!(decided(&stage.enter()), Some(&ApprovalAnswer::Refuse("use make".to_owned())));
    assert_eq!(stage.app.take_queue().map(|queued| queued.text).as_deref(), Some("first\n\nsecond"));
}

#[test]
fn a_shell_command_comes_back_as_one() {
    let mut stage = Stage::new(60, 30);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    stage.write("!ls");
    stage.enter();
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    if stage.app.composer.text().is_empty() {
        // The first Esc left the shell mode.
        stage.press(KeyCode::Esc, KeyModifiers::NONE);
    }
    assert_eq!(stage.app.composer.text(), "ls");
    assert!(stage.app.composer.shell_mode());
}

#[test]
fn no_clock_runs_while_a_person_is_asked() {
    let mut stage = Stage::new(80, 24);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    let args = JsonObject::new();
    stage.event(Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file("1"), "replace", args))));
    stage.event(wanted("ls"));
    stage.now += Duration::from_secs(43);
    let call = CallId::from_file("1");
    stage.press(KeyCode::Char('1'), KeyModifiers::NONE);
    stage.event(Event::ApprovalSettled { call: call.clone(), outcome: Outcome::Once, by: None });
    stage.event(Event::CallStarted { call });
    stage.now += Duration::from_secs(4);
    let shown = stage.shown();
    assert!(shown.contains("(4s)") && shown.contains("(esc to cancel, 4s)"), "{shown}");
}

#[test]
fn the_prompt_and_the_footer_stay_below_a_question() {
    let mut stage = Stage::new(80, 24);
    stage.event(wanted("ls"));
    let shown = stage.shown();
    assert!(shown.contains("● 1. Allow once"), "{shown}");
    assert!(shown.contains(">   Type to write your next message") && shown.contains("~/p"), "{shown}");
    stage.now += STILL;
    stage.write("also");
    let shown = stage.shown();
    assert!(shown.contains("> also") && shown.contains("~/p") && shown.contains("Allow once"), "{shown}");
    // A low window needs its rows for the question.
    let mut stage = Stage::new(80, 12);
    stage.event(wanted("ls"));
    let shown = stage.shown();
    assert!(shown.contains("Allow once") && !shown.contains("~/p"), "{shown}");
}

#[test]
fn ctrl_z_suspends_whatever_is_open_and_loses_nothing() {
    let mut stage = Stage::new(80, 24);
    stage.write("abc");
    assert_eq!(stage.press(KeyCode::Char('z'), KeyModifiers::CONTROL), [Action::Suspend]);
    stage.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(stage.press(KeyCode::Char('z'), KeyModifiers::CONTROL), [Action::Suspend]);
    assert_eq!(stage.app.composer.text(), "");
    stage.press(KeyCode::Char('7'), KeyModifiers::CONTROL);
    assert_eq!(stage.app.composer.text(), "abc");
    stage.now += STILL;
    stage.event(wanted("ls"));
    assert_eq!(stage.press(KeyCode::Char('z'), KeyModifiers::CONTROL), [Action::Suspend]);
    assert!(stage.shown().contains("Allow once"), "{}", stage.shown());
}
