use proptest::prelude::*;

use super::*;

fn any_key() -> impl Strategy<Value = KeyEvent> {
    let codes = prop_oneof![
        8 => prop::sample::select("abcdwhjklxyzpPuioOgGrftTFeEbBWDCX0123$^~.;,/@!? \"\\'([|日\u{301}\u{200d}👩\u{e01f0}".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        3 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::BackTab, KeyCode::Backspace, KeyCode::Delete,
            KeyCode::Left, KeyCode::Right, KeyCode::Up, KeyCode::Down, KeyCode::Home, KeyCode::End,
        ]),
        1 => any::<char>().prop_map(KeyCode::Char),
    ];
    let held = prop_oneof![
        8 => Just(KeyModifiers::NONE),
        1 => Just(KeyModifiers::CONTROL),
        1 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
        1 => Just(KeyModifiers::CONTROL | KeyModifiers::SHIFT),
    ];
    (codes, held).prop_map(|(code, held)| KeyEvent::new(code, held))
}

#[derive(Debug, Clone)]
enum Step {
    Key(KeyEvent),
    Keys(Vec<KeyEvent>),
    Paste(String),
    Answer,
    Draw(u16, u16),
    Vim(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => any_key().prop_map(Step::Key),
        2 => prop::collection::vec(any_key(), 0..40).prop_map(Step::Keys),
        2 => "(\\PC|[\n\t\r\u{e01f0}\u{202e}日]){0,60}".prop_map(Step::Paste),
        1 => ("[a-z\n]{0,3}", 0..600usize).prop_map(|(text, times)| Step::Paste(text.repeat(times))),
        3 => Just(Step::Answer),
        3 => (0..30u16, 0..6u16).prop_map(|(width, height)| Step::Draw(width, height)),
        1 => any::<bool>().prop_map(Step::Vim),
    ]
}

fn is_sound(composer: &Composer) {
    let cursor = composer.buffer.cursor();
    assert!(cursor.line < composer.buffer.line_count());
    assert!(composer.buffer.line(cursor.line).is_char_boundary(cursor.col));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_keys_and_no_window_make_it_panic(steps in prop::collection::vec(any_step(), 0..80)) {
        let mut composer = Composer::new(KeyMap::default());
        composer.add_history(vec!["one".into(), "two\nlines".into()], vec!["ls".into()]);
        let mut now = Instant::now();
        let mut last = None;
        for step in steps {
            now += Duration::from_millis(17);
            let mut reactions = match step {
                Step::Key(event) => vec![composer.key(event, now)],
                Step::Keys(events) => composer.keys(&events, now).into_iter().map(|(_, reaction)| reaction).collect(),
                Step::Paste(text) => vec![composer.paste(&text, now, &|path| path.len() % 2 == 0)],
                Step::Vim(on) => {
                    composer.set_vim(on);
                    Vec::new()
                }
                Step::Answer => {
                    let items = ["help", "src/", "my file.txt", "end."].map(|name| Item {
                        insert: name.to_owned(), label: name.to_owned(), description: "x".repeat(30), run: name == "help",
                        path: name == "src/",
                    });
                    if let Some(id) = last {
                        composer.candidates(Candidates { id, items: items.to_vec(), note: "" });
                    }
                    Vec::new()
                }
                Step::Draw(width, height) => {
                    let area = ratatui::layout::Rect::new(0, 0, width, height);
                    let mut cells = ratatui::buffer::Buffer::empty(area);
                    composer.height(width);
                    if let Some(at) = composer.render(area, &mut cells, &Look::default()) {
                        prop_assert!(area.contains(at));
                    } else {
                        prop_assert!(area.is_empty());
                    }
                    composer.render_popup(area, &mut cells, &Look::default());
                    Vec::new()
                }
            };
            if let Some(Reaction::Complete(wanted)) = reactions.pop() {
                let line = composer.buffer.line(composer.buffer.cursor().line);
                prop_assert!(line.get(wanted.range.clone()).is_some(), "{wanted:?} in {line:?}");
                last = Some(wanted.id);
            }
            is_sound(&composer);
        }
    }

    #[test]
    fn undo_restores_every_text_and_redo_the_last(
        keys in prop::collection::vec(any_key(), 0..60), start in "[a-z \n日]{0,40}", vim in any::<bool>()
    ) {
        let mut composer = Composer::new(KeyMap::default());
        composer.conditions.busy = true;
        composer.set_text(&start);
        composer.set_vim(vim);
        let mut now = Instant::now();
        for key in keys {
            now += Duration::from_secs(1);
            let is_send = composer.keys.is(&key, Command::Submit) || composer.keys.is(&key, Command::QueueMessage);
            let is_undo = composer.keys.is(&key, Command::Undo) || composer.keys.is(&key, Command::Redo);
            if !is_send && !is_undo {
                composer.key(key, now);
            }
        }
        let end = composer.buffer.raw();
        let mut steps = 0;
        while composer.buffer.undo() {
            steps += 1;
            is_sound(&composer);
        }
        prop_assert_eq!(composer.buffer.raw(), "");
        for _ in 0..steps {
            composer.buffer.redo();
            is_sound(&composer);
        }
        prop_assert_eq!(composer.buffer.raw(), end);
    }

    #[test]
    fn rows_are_as_a_fresh_wrap_would_find_them(keys in prop::collection::vec(any_key(), 0..60), width in 1..20u16) {
        let mut composer = Composer::new(KeyMap::default());
        composer.set_text("some words to begin with, 日本語 and 👨‍👩‍👧 too");
        for key in keys {
            composer.height(width);
            composer.key(key, Instant::now());
        }
        composer.height(width);
        let rows = composer.buffer.rows(usize::MAX);
        let mut fresh = composer.clone();
        let raw = fresh.buffer.raw();
        fresh.buffer.set_raw(String::new());
        fresh.buffer.set_raw(raw);
        prop_assert_eq!(rows, fresh.buffer.rows(usize::MAX));
    }
}
