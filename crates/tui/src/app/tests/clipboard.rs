//! The clipboard answers after a while, and a prompt never goes without what was pasted.

use super::*;
use crate::composer::Mark;

const PASTED: &str = "Pasted. Press Enter to send.";
const PASTES: &str = "Reading the clipboard; press Enter after the paste to send (esc to cancel)";
const WAITS: &str = "Waiting for the clipboard before sending (esc to cancel)";

fn stage() -> Stage {
    Stage::new(80, 20)
}

/// Presses the key that pastes.
fn paste(stage: &mut Stage) -> Mark {
    let actions = stage.press(KeyCode::Char('v'), KeyModifiers::CONTROL);
    let [Action::PasteClipboard(place)] = actions.as_slice() else { panic!("{actions:?}") };
    *place
}

fn submit(text: &str) -> Vec<Action> {
    vec![Action::Submit { text: text.to_owned(), shell: false }]
}

#[test]
fn enter_waits_for_the_clipboard_and_sends_its_content() {
    let mut stage = stage();
    stage.write("see ");
    let place = paste(&mut stage);
    assert!(stage.shown().contains("Reading the clipboard…"), "{}", stage.shown());
    stage.write("please");
    assert_eq!(stage.enter(), []);
    assert_eq!(stage.enter(), [], "once more changes nothing");
    assert!(stage.shown().contains(WAITS) && stage.shown().contains("> see please"), "{}", stage.shown());
    let now = stage.now;
    assert_eq!(stage.app.paste_image("/tmp/a.png", place, now), submit("see @/tmp/a.png please"));
    assert!(stage.app.composer.is_empty() && !stage.shown().contains(WAITS), "{}", stage.shown());
    assert_eq!(stage.app.paste_text("late", place, now), [], "each read has one answer");
    assert!(stage.app.composer.is_empty());
}

#[test]
fn a_prompt_of_nothing_but_the_clipboard_is_shown_first() {
    for written in ["", " "] {
        let mut stage = stage();
        stage.write(written);
        let (first, second) = (paste(&mut stage), paste(&mut stage));
        assert_eq!(stage.enter(), []);
        assert!(stage.shown().contains(PASTES), "{}", stage.shown());
        let long = "line\n".repeat(9);
        let now = stage.now;
        assert_eq!(stage.app.paste_text(&long, second, now), []);
        assert!(stage.shown().contains(PASTES), "{}", stage.shown());
        assert_eq!(stage.app.paste_text("text\n", first, now), []);
        assert!(stage.shown().contains(PASTED), "{}", stage.shown());
        assert_eq!(stage.enter(), submit(format!("text\n{long}").trim()));
    }
}

#[test]
fn a_paste_does_not_become_part_of_a_command_unseen() {
    // Home before Ctrl+V puts the content at the beginning.
    for (shell, written, home, pasted, is_sent) in [
        (true, "ls ", false, "-l", false),
        (false, "/memory add ", false, "it", false),
        (false, " !ls ", false, "-l", false),
        (false, "hello", true, "/quit ", false),
        (false, "hello", true, "\n !rm -r ", false),
        (false, "hello ", false, "/quit", true),
    ] {
        for busy in [false, true] {
            let mut stage = stage();
            let now = stage.now;
            stage.app.set_text(if shell { "" } else { written });
            if shell {
                stage.write("!");
                stage.write(written);
            }
            if home {
                stage.press(KeyCode::Home, KeyModifiers::NONE);
            }
            if busy {
                stage.app.begin_turn("first", false, now);
            }
            let place = paste(&mut stage);
            assert_eq!(stage.enter(), []);
            let now = stage.now;
            let sent = stage.app.paste_text(pasted, place, now);
            assert_eq!(!sent.is_empty(), is_sent, "{written:?} {pasted:?} {sent:?}");
            assert_eq!(stage.app.composer.is_empty(), is_sent, "{written:?} {pasted:?}");
            assert!(is_sent || stage.shown().contains(PASTED), "{}", stage.shown());
            assert!(is_sent || stage.app.take_queue().is_none());
        }
    }
}

#[test]
fn a_waiting_prompt_is_sent_in_its_mode_or_not_at_all() {
    // With text, the mode changes if the queue is taken back.
    let mut stage = stage();
    let now = stage.now;
    stage.write("see ");
    let place = paste(&mut stage);
    assert_eq!(stage.enter(), []);
    stage.app.composer.set_shell_mode(true);
    stage.app.composer.set_shell_mode(false);
    assert_eq!(stage.app.paste_text("x", place, now), []);
    assert_eq!(stage.app.composer.text(), "see x");
}

#[test]
fn keys_after_enter_in_the_same_input_batch_change_the_prompt() {
    let mut stage = stage();
    stage.write("see ");
    let place = paste(&mut stage);
    let keys = [KeyCode::Enter, KeyCode::Char('y')].map(|code| KeyEvent::new(code, KeyModifiers::NONE));
    stage.now += Duration::from_millis(100);
    let now = stage.now;
    assert_eq!(stage.app.keys(&keys, now), []);
    assert_eq!(stage.app.paste_text("x", place, now), []);
    assert_eq!(stage.app.composer.text(), "see xy");
}

#[test]
fn escape_after_enter_in_the_same_input_batch_cancels_the_paste() {
    for busy in [false, true] {
        let mut stage = stage();
        let now = stage.now;
        if busy {
            stage.app.begin_turn("first", false, now);
        }
        stage.write("see ");
        let place = paste(&mut stage);
        let keys = [KeyCode::Enter, KeyCode::Esc].map(|code| KeyEvent::new(code, KeyModifiers::NONE));
        stage.now += Duration::from_millis(100);
        let now = stage.now;
        assert_eq!(stage.app.keys(&keys, now), []);
        assert!(stage.shown().contains("Paste cancelled."), "{}", stage.shown());
        assert_eq!(stage.app.paste_text("x", place, now), []);
        assert_eq!(stage.app.composer.text(), "see ");
    }
}

#[test]
fn a_prompt_that_waits_does_not_go_into_another_session() {
    let facts = |session: &str| Facts { session: session.to_owned(), ..Facts::default() };
    for resumed in [false, true] {
        let mut stage = stage();
        stage.write("see ");
        let place = paste(&mut stage);
        assert_eq!(stage.enter(), []);
        // The first session becomes ready, and its facts change.
        stage.app.set_facts(facts("1"));
        stage.app.set_facts(Facts { detaches: true, ..facts("1") });
        assert!(stage.shown().contains(WAITS), "{}", stage.shown());
        match resumed {
            false => stage.app.clear(),
            true => stage.app.set_facts(facts("2")),
        }
        assert!(stage.shown().contains(PASTES), "{}", stage.shown());
        let now = stage.now;
        assert_eq!(stage.app.paste_text("it", place, now), []);
        assert!(stage.shown().contains(PASTED), "{}", stage.shown());
        assert_eq!(stage.enter(), submit("see it"));
    }
}

#[test]
fn who_looks_for_another_prompt_does_not_send_the_one_that_waits() {
    for key in ['r', 'g'] {
        let mut stage = stage();
        stage.write("old");
        stage.enter();
        stage.write("see ");
        let place = paste(&mut stage);
        assert_eq!(stage.enter(), []);
        let expected = if key == 'g' { vec![Action::OpenEditor] } else { Vec::new() };
        assert_eq!(stage.press(KeyCode::Char(key), KeyModifiers::CONTROL), expected);
        if key == 'g' {
            // Left without a change.
            stage.app.set_text("see ");
        }
        let now = stage.now;
        assert_eq!(stage.app.paste_text("it", place, now), [], "{key}");
        if key == 'r' {
            stage.press(KeyCode::Esc, KeyModifiers::NONE);
        }
        assert_eq!(stage.app.composer.text(), "see it", "{key}");
    }
    // History.
    let mut stage = stage();
    stage.write("old");
    stage.enter();
    stage.write("see ");
    let place = paste(&mut stage);
    assert_eq!(stage.enter(), []);
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    stage.press(KeyCode::Down, KeyModifiers::NONE);
    let now = stage.now;
    assert_eq!(stage.app.paste_text("it", place, now), []);
    assert!(stage.app.composer.text().contains("it"), "{}", stage.app.composer.text());
}

#[test]
fn a_cancelled_or_failed_turn_takes_the_waiting_prompt_along() {
    for fails in [false, true] {
        let mut stage = stage();
        let now = stage.now;
        stage.app.begin_turn("first", false, now);
        stage.write("see ");
        let place = paste(&mut stage);
        assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), []);
        if fails {
            let error = ModelError::new(ModelErrorKind::BadRequest, None, "no");
            stage.event(Event::TurnEnded(TurnEnd::Failed(error)));
        } else {
            stage.event(wanted("ls"));
            stage.now += STILL;
            let actions = stage.press(KeyCode::Esc, KeyModifiers::NONE);
            assert!(matches!(actions.as_slice(), [Action::Decide { .. }]), "{actions:?}");
        }
        let now = stage.now;
        assert_eq!(stage.app.paste_text("it", place, now), []);
        assert_eq!(stage.app.composer.text(), "see it");
        assert!(stage.app.take_queue().is_none());
    }
}

#[test]
fn other_modes_and_the_key_that_exits_leave_a_waiting_prompt_alone() {
    let mut stage = stage();
    stage.write("see ");
    let place = paste(&mut stage);
    assert_eq!(stage.enter(), []);
    let mode = Action::SetMode(ApprovalMode::AutoEdit);
    assert_eq!(stage.press(KeyCode::BackTab, KeyModifiers::SHIFT), [mode]);
    assert_eq!(stage.press(KeyCode::Char('d'), KeyModifiers::CONTROL), []);
    assert!(stage.shown().contains(WAITS), "{}", stage.shown());
    let now = stage.now;
    assert_eq!(stage.app.paste_text("it", place, now), submit("see it"));
}

#[test]
fn enter_in_the_same_input_batch_as_ctrl_v_waits() {
    let mut stage = stage();
    let now = stage.now;
    let key = |code, modifiers| KeyEvent::new(code, modifiers);
    for with in [KeyModifiers::CONTROL, KeyModifiers::SUPER] {
        let keys = [
            key(KeyCode::Char('a'), KeyModifiers::NONE),
            key(KeyCode::Char('v'), with),
            key(KeyCode::Enter, KeyModifiers::NONE),
        ];
        let actions = stage.app.keys(&keys, now);
        let [Action::PasteClipboard(place)] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(stage.app.paste_text("b", *place, now), submit("ab"));
    }
}

#[test]
fn without_content_a_waiting_prompt_is_not_sent() {
    let mut stage = stage();
    stage.write("see");
    let place = paste(&mut stage);
    stage.enter();
    let now = stage.now;
    stage.app.paste_failed("The clipboard is empty.", place, now);
    let shown = stage.shown();
    assert!(shown.contains("⚠ The clipboard is empty. The prompt was not sent."), "{shown}");
    assert!(shown.contains("> see") && !shown.contains(WAITS), "{shown}");
    assert_eq!(stage.enter(), submit("see"));
    // Whitespace alone is not a prompt.
    let place = paste(&mut stage);
    stage.enter();
    let now = stage.now;
    assert_eq!(stage.app.paste_text(" \n", place, now), []);
    assert!(stage.shown().contains("The clipboard contains only whitespace."), "{}", stage.shown());
}

#[test]
fn without_a_waiting_prompt_a_failure_is_shown_at_once() {
    let mut stage = stage();
    let place = paste(&mut stage);
    let now = stage.now;
    stage.app.paste_failed("The clipboard is empty.", place, now);
    assert!(stage.shown().contains("The clipboard is empty."), "{}", stage.shown());
}

#[test]
fn escape_and_ctrl_c_cancel_the_wait_and_the_paste() {
    for (code, modifiers) in [(KeyCode::Esc, KeyModifiers::NONE), (KeyCode::Char('c'), KeyModifiers::CONTROL)]
    {
        for busy in [false, true] {
            let mut stage = stage();
            let now = stage.now;
            if busy {
                stage.app.begin_turn("first", false, now);
            }
            stage.write("see");
            let place = paste(&mut stage);
            stage.enter();
            assert_eq!(stage.press(code, modifiers), []);
            let shown = stage.shown();
            assert!(shown.contains("Paste cancelled. The prompt was not sent."), "{shown}");
            assert!(shown.contains("> see") && !shown.contains(WAITS), "{shown}");
            assert_eq!(stage.app.paste_text("late", place, now), []);
            assert_eq!(stage.app.composer.text(), "see");
            assert_eq!(stage.enter().len(), 1, "it can be sent without");
        }
    }
}

#[test]
fn a_prompt_that_was_changed_meanwhile_is_not_sent() {
    let mut stage = stage();
    stage.write("see ");
    let place = paste(&mut stage);
    stage.enter();
    stage.write("this");
    assert!(!stage.shown().contains(WAITS), "{}", stage.shown());
    let now = stage.now;
    assert_eq!(stage.app.paste_text("[it]", place, now), []);
    assert_eq!(stage.app.composer.text(), "see [it]this");
    assert_eq!(stage.enter(), submit("see [it]this"));
}

#[test]
fn several_reads_are_awaited() {
    let mut stage = stage();
    let first = paste(&mut stage);
    stage.write(" and ");
    let second = paste(&mut stage);
    stage.enter();
    let now = stage.now;
    assert_eq!(stage.app.paste_text("two", second, now), []);
    assert!(stage.shown().contains(WAITS), "{}", stage.shown());
    assert_eq!(stage.app.paste_text("one", first, now), submit("one and two"));
    for _ in 0..8 {
        paste(&mut stage);
    }
    assert_eq!(stage.press(KeyCode::Char('v'), KeyModifiers::CONTROL), []);
    assert!(stage.shown().contains("Still reading the clipboard."), "{}", stage.shown());
}

#[test]
fn a_text_for_the_queue_waits_and_is_sent_if_the_turn_has_ended() {
    for ends in [false, true] {
        let mut stage = stage();
        let now = stage.now;
        stage.app.begin_turn("first", false, now);
        stage.write("see ");
        let place = paste(&mut stage);
        assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), []);
        assert!(stage.shown().contains(WAITS), "{}", stage.shown());
        if ends {
            stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
        }
        let sent = stage.app.paste_text("it", place, now);
        assert_eq!(sent, if ends { submit("see it") } else { Vec::new() });
        assert_eq!(stage.app.take_queue().map(|queued| queued.text), (!ends).then(|| "see it".to_owned()));
    }
}

#[test]
fn content_goes_into_the_prompt_whatever_has_focus() {
    let mut stage = stage();
    stage.write("old");
    stage.enter();
    stage.write("draft ");
    let place = paste(&mut stage);
    for _ in 0..3 {
        stage.press(KeyCode::Left, KeyModifiers::NONE);
    }
    let inside = paste(&mut stage);
    stage.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
    stage.write("ol");
    let now = stage.now;
    for (pasted, place) in [("one\ntwo", place), ("-", inside)] {
        assert_eq!(stage.app.paste_text(pasted, place, now), []);
        assert!(stage.app.composer.searching() && stage.shown().contains("Pasted into the prompt."));
    }
    // The search has its own text, and Esc leads back to the prompt.
    stage.write("d");
    stage.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(stage.app.composer.text(), "dra-ft one\ntwo");
    // An approval prompt is open; the pasted text does not answer it.
    stage.app.set_text("");
    let place = paste(&mut stage);
    stage.event(wanted("ls"));
    stage.now += STILL;
    let now = stage.now;
    assert_eq!(stage.app.paste_text("y", place, now), []);
    assert_eq!(stage.app.composer.text(), "y");
}

#[test]
fn enter_in_a_search_shows_what_was_pasted_meanwhile() {
    for (sought, shown) in [("", "explain this: one"), ("x", "explain this: x")] {
        let mut stage = stage();
        stage.write("explain this: ");
        let place = paste(&mut stage);
        stage.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
        let now = stage.now;
        assert_eq!(stage.app.paste_text("one", place, now), []);
        stage.write(sought);
        assert_eq!(stage.enter(), []);
        assert!(!stage.app.composer.searching());
        assert_eq!(stage.app.composer.text(), shown);
    }
}
