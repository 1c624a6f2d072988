use ratatui::buffer::Buffer as Cells;
use ratatui::layout::{Position, Rect};

use super::*;

/// What is seen in a window of this size, without blanks at the right, and where the cursor is.
fn screen(composer: &mut Composer, width: u16) -> (Vec<String>, Position) {
    let height = composer.height(width);
    let popup = composer.popup_height();
    let area = Rect::new(0, 0, width, height + popup);
    let mut cells = Cells::empty(area);
    let cursor = composer.render(Rect { height, ..area }, &mut cells, &Look::default()).unwrap();
    composer.render_popup(Rect { y: height, height: popup, ..area }, &mut cells, &Look::default());
    let row = |y| {
        let mut row = String::new();
        let mut x = 0;
        while x < width {
            let symbol = cells[(x, y)].symbol();
            row.push_str(symbol);
            x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol).max(1)).unwrap();
        }
        row.trim_end().to_owned()
    };
    ((0..area.height).map(row).collect(), cursor)
}

fn rows(composer: &mut Composer, width: u16) -> Vec<String> {
    screen(composer, width).0
}

#[test]
fn an_empty_prompt_says_what_to_type() {
    let mut composer = Composer::new(KeyMap::default());
    for width in [80, 120] {
        assert_eq!(
            screen(&mut composer, width),
            (vec![">   Type your message or @path/to/file".to_owned()], Position::new(2, 0))
        );
    }
    assert_eq!(rows(&mut composer, 20), [">   Type your messag"]);
    composer.conditions.yolo = true;
    assert_eq!(rows(&mut composer, 80), ["*   Type your message or @path/to/file"]);
    composer.set_shell_mode(true);
    assert_eq!(rows(&mut composer, 80), ["!   Type your shell command"]);
    composer.set_vim(true);
    assert_eq!(rows(&mut composer, 80), ["!   Press 'Esc' for NORMAL mode."]);
    composer.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE), Instant::now());
    assert_eq!(rows(&mut composer, 80), ["!   Press 'i' for INSERT mode."]);
}

#[test]
fn text_is_wrapped_between_words_beside_the_prefix() {
    let mut composer = Composer::new(KeyMap::default());
    composer.set_text("the quick brown fox jumps over 日本語の文章\nand a second line");
    assert_eq!(
        screen(&mut composer, 20),
        (
            ["> the quick brown", "  fox jumps over 日", "  本語の文章", "  and a second line"]
                .map(str::to_owned)
                .to_vec(),
            Position::new(19, 3)
        )
    );
    let wide = ["> the quick brown fox jumps over 日本語の文章", "  and a second line"];
    assert_eq!(rows(&mut composer, 80), wide);
    assert_eq!(rows(&mut composer, 120), wide);
}

#[test]
fn a_long_prompt_scrolls_with_the_cursor() {
    let mut harness = ComposerHarness::new();
    let text: Vec<String> = (0..15).map(|number| format!("line {number}")).collect();
    harness.composer.set_text(&text.join("\n"));
    let (seen, cursor) = screen(&mut harness.composer, 80);
    assert_eq!((seen.first().unwrap().as_str(), seen.last().unwrap().as_str()), ("> line 5", "  line 14"));
    assert_eq!((seen.len(), cursor), (10, Position::new(9, 9)));
    for _ in 0..9 {
        harness.press("<Up>");
    }
    assert_eq!(screen(&mut harness.composer, 80).1.y, 0);
    harness.press("<Up>");
    let (seen, cursor) = screen(&mut harness.composer, 80);
    assert_eq!((seen[0].as_str(), cursor.y), ("> line 4", 0));
    harness.composer.set_text("short");
    assert_eq!(rows(&mut harness.composer, 80), ["> short"]);
}

#[test]
fn nothing_stays_invisible_and_nothing_reaches_the_terminal_as_a_control() {
    let mut composer = Composer::new(KeyMap::default());
    composer.set_text("a\u{1b}[2Jb\tc\u{202e}d\u{200b}👨‍👩‍👧\u{e01f0}");
    assert_eq!(rows(&mut composer, 80), ["> a^[[2Jb c<U+202E>d<U+200B>👨‍👩‍👧<U+E01F0>"]);
}

#[test]
fn a_window_of_one_cell_is_drawn() {
    let mut composer = Composer::new(KeyMap::default());
    composer.set_text("日本 words");
    for (width, height) in [(1, 1), (2, 1), (3, 2), (4, 1)] {
        let area = Rect::new(0, 0, width, height);
        let mut cells = Cells::empty(area);
        composer.height(width);
        let cursor = composer.render(area, &mut cells, &Look::default()).unwrap();
        assert!(area.contains(cursor));
    }
}

#[test]
fn a_placeholder_wider_than_the_window_is_cut() {
    let mut harness = ComposerHarness::new();
    harness.paste(&"x\n".repeat(11));
    assert_eq!(rows(&mut harness.composer, 20), ["> [Pasted Text: 12 l"]);
    assert_eq!(rows(&mut harness.composer, 80), ["> [Pasted Text: 12 lines]"]);
}

fn with_commands() -> Composer {
    let mut harness = ComposerHarness::new();
    let Reaction::Complete(wanted) = harness.press("/") else { panic!() };
    let names = ["about", "chat", "clear", "compress", "copy", "docs", "editor", "help", "init", "mcp"];
    let items = names.map(|name| Item {
        insert: name.to_owned(),
        label: name.to_owned(),
        description: format!("what {name} does, in words that need some room"),
        ..Item::default()
    });
    harness.composer.candidates(Candidates { id: wanted.id, items: items.to_vec(), note: "" });
    harness.composer
}

#[test]
fn suggestions_are_listed_with_descriptions() {
    let mut composer = with_commands();
    let wide = rows(&mut composer, 80);
    assert_eq!(wide.len(), 10);
    assert_eq!(wide[0], "> /");
    assert_eq!(wide[1], " about      what about does, in words that need some room");
    assert_eq!(wide[8], " help       what help does, in words that need some room");
    assert_eq!(wide[9], " ▼ (1/10)");
    assert_eq!(rows(&mut composer, 120)[1..], wide[1..]);
    let narrow = rows(&mut composer, 20);
    assert_eq!(narrow[1], " about      what a…");
    assert_eq!(narrow[4], " compress   what c…");
}

#[test]
fn search_shows_its_prefix_and_what_it_found() {
    let mut harness = ComposerHarness::new();
    harness.composer.add_history(vec!["build it\nnow".to_owned(), "test".to_owned()], Vec::new());
    harness.press("<C-r>B");
    for width in [20, 80, 120] {
        assert_eq!(
            screen(&mut harness.composer, width),
            (vec!["(r:) B".to_owned(), " build it now".to_owned()], Position::new(6, 0))
        );
    }
}

#[test]
fn a_right_to_left_text_stays_in_its_order() {
    let mut composer = Composer::new(KeyMap::default());
    composer.set_text("שלום abc");
    assert_eq!(screen(&mut composer, 80), (vec!["> שלום abc".to_owned()], Position::new(10, 0)));
}

#[test]
fn names_of_files_cannot_draw_over_the_list() {
    let mut harness = ComposerHarness::new();
    let Reaction::Complete(wanted) = harness.press("@") else { panic!() };
    let name = "a\u{1b}]0;x\u{7}\nb\u{202e}".to_owned();
    let item =
        Item { insert: name.clone(), label: name, description: "two\nlines".to_owned(), ..Item::default() };
    harness.composer.candidates(Candidates { id: wanted.id, items: vec![item], note: "" });
    assert_eq!(
        rows(&mut harness.composer, 80),
        ["> @", " a<U+001B>]0;x<U+0007><U+000A>b<U+202E>   two lines"]
    );
}

#[test]
fn a_note_says_that_suggestions_are_still_read_or_that_there_are_none() {
    let mut harness = ComposerHarness::new();
    let Reaction::Complete(wanted) = harness.press("@") else { panic!() };
    harness.composer.candidates(Candidates { id: wanted.id, items: Vec::new(), note: "Reading files…" });
    assert_eq!(rows(&mut harness.composer, 40), ["> @", " Reading files…"]);
    let item = Item { insert: "a.txt".to_owned(), label: "a.txt".to_owned(), ..Item::default() };
    harness.composer.candidates(Candidates { id: wanted.id, items: vec![item], note: "" });
    assert_eq!(rows(&mut harness.composer, 40), ["> @", " a.txt"]);
    // Nothing to choose means that the keys keep their meaning.
    harness.composer.candidates(Candidates { id: wanted.id, items: Vec::new(), note: "No file matches" });
    assert!(matches!(harness.press("<Enter>"), Reaction::Submit(_)));
}
