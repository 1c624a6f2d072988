//! Text that is typed into dialogs.

use std::time::Instant;

use super::*;
use crate::composer::Composer;

fn text_question() -> Dialog {
    let form = QuestionForm::Text { placeholder: String::new() };
    let question = Question { text: "What next?".to_owned(), header: "Next".to_owned(), form };
    Dialog::Questions(Box::new(Questions::new(CallId::from_file("1"), vec![question])))
}

fn refusal() -> Dialog {
    let mut dialog = asked(&command("npm test"));
    shown(&mut dialog, 80, 20);
    press(&mut dialog, KeyCode::Char('n'));
    press(&mut dialog, KeyCode::Enter);
    assert!(dialog.takes_text());
    dialog
}

fn entry() -> Dialog {
    Dialog::TextEntry(TextEntry::new("Name", false))
}

fn entered(mut dialog: Dialog) -> String {
    match press(&mut dialog, KeyCode::Enter) {
        Verdict::Entered(text) => text,
        Verdict::Answered { answer: ApprovalAnswer::Refuse(text), .. } => text,
        Verdict::Answered { answer: ApprovalAnswer::Replies(replies), .. } => replies.concat(),
        other => panic!("{other:?}"),
    }
}

fn typed(text: &str) -> Vec<KeyEvent> {
    text.chars().map(|letter| KeyEvent::from(KeyCode::Char(letter))).collect()
}

#[test]
fn every_field_is_edited_with_the_keys_of_the_prompt() {
    let (none, control, alt) = (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT);
    let edits = [
        (KeyCode::Left, none),
        (KeyCode::Right, none),
        (KeyCode::Home, none),
        (KeyCode::End, none),
        (KeyCode::Char('a'), control),
        (KeyCode::Char('b'), alt),
        (KeyCode::Left, control),
        (KeyCode::Delete, none),
        (KeyCode::Backspace, none),
        (KeyCode::Char('w'), control),
        (KeyCode::Char('u'), control),
        (KeyCode::Char('k'), control),
        (KeyCode::Char('d'), alt),
    ];
    for (code, modifiers) in edits {
        let mut keys = typed("Grüße an alle");
        keys.extend([KeyEvent::from(KeyCode::Left), KeyEvent::from(KeyCode::Left)]);
        keys.push(KeyEvent::new(code, modifiers));
        keys.extend(typed("é x"));
        let mut composer = Composer::new(KeyMap::default());
        keys.iter().for_each(|key| drop(composer.key(*key, Instant::now())));
        for mut dialog in [entry(), text_question(), refusal()] {
            for key in &keys {
                assert_eq!(dialog.key(*key, &KeyMap::default()), Verdict::Open, "{key:?}");
            }
            assert_eq!(entered(dialog), composer.text(), "{code:?} {modifiers:?}");
        }
    }
}

#[test]
fn a_field_shows_its_cursor_and_pastes_there() {
    for mut dialog in [entry(), text_question(), refusal()] {
        typed("ab").iter().for_each(|key| drop(dialog.key(*key, &KeyMap::default())));
        press(&mut dialog, KeyCode::Left);
        assert!(shown(&mut dialog, 80, 20).contains("a▏b"));
        dialog.paste("1\n2");
        assert!(shown(&mut dialog, 80, 20).contains("a1 2▏b"));
        assert_eq!(entered(dialog), "a1 2b");
    }
}

#[test]
fn a_secret_is_not_shown_wherever_the_cursor_is() {
    let mut dialog = Dialog::TextEntry(TextEntry::new("Key", true));
    typed("sesame").iter().for_each(|key| drop(dialog.key(*key, &KeyMap::default())));
    press(&mut dialog, KeyCode::Home);
    press(&mut dialog, KeyCode::Right);
    assert!(shown(&mut dialog, 80, 20).contains("> *▏*****\n"));
    assert_eq!(entered(dialog), "sesame");
}
