use super::super::buffer::WORK;
use super::*;

fn work(of: impl FnOnce()) -> usize {
    WORK.with(|work| work.set(0));
    of();
    WORK.with(std::cell::Cell::get)
}

const MEGABYTE: usize = 1024 * 1024;

fn draw(desk: &mut Desk) {
    let area = ratatui::layout::Rect::new(0, 0, 80, 10);
    let mut cells = ratatui::buffer::Buffer::empty(area);
    desk.composer.height(80);
    desk.composer.render(area, &mut cells, &Look::default()).unwrap();
}

#[test]
fn a_megabyte_is_folded_and_sent_byte_for_byte() {
    let text = "häßlich\tund \u{1b}[31m lang\n".repeat(MEGABYTE / 24);
    let mut desk = Desk::new();
    let measured = work(|| {
        assert_eq!(desk.paste(&text), Reaction::Toast(Toast::ExpandPaste));
        draw(&mut desk);
    });
    assert!(measured < 10, "{measured}");
    assert_eq!(desk.submit().text, text.trim());
}

#[test]
fn typing_in_a_megabyte_of_lines_measures_only_what_is_near() {
    let text = "a line of ordinary length that wraps nowhere\n".repeat(MEGABYTE / 45);
    let mut desk = Desk::new();
    desk.composer.set_text(&text);
    draw(&mut desk);
    let measured = work(|| {
        for _ in 0..20 {
            desk.press("<Up>x");
            draw(&mut desk);
        }
    });
    assert!(measured < 20 * 10 * 80, "{measured}");
}

#[test]
fn typing_in_a_line_of_a_megabyte_measures_only_what_moves() {
    let mut desk = Desk::new();
    desk.composer.set_text(&"word and words ".repeat(MEGABYTE / 15));
    draw(&mut desk);
    desk.press("<Home><Home>");
    draw(&mut desk);
    let measured = work(|| {
        desk.press("x");
        draw(&mut desk);
        desk.press("<BS>");
        draw(&mut desk);
    });
    assert!(measured < MEGABYTE / 10, "{measured}");
}

#[test]
fn a_megabyte_of_line_ends_is_no_trouble() {
    let mut desk = Desk::new();
    desk.composer.set_text(&"\n".repeat(MEGABYTE));
    desk.press("<Up>x<Up>y");
    draw(&mut desk);
    assert_eq!(desk.composer.expanded().len(), MEGABYTE + 2);
}

#[test]
fn a_paste_that_comes_as_keys_is_one_input() {
    let text = "line of text\n".repeat(MEGABYTE / 13);
    let events: Vec<KeyEvent> = text
        .chars()
        .map(|c| KeyEvent::new(if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) }, KeyModifiers::NONE))
        .collect();
    let mut desk = Desk::new();
    for part in events.chunks(1021) {
        desk.now += Duration::from_millis(3);
        let reactions = desk.keys(part, desk.now);
        assert_eq!(reactions, [Reaction::Changed]);
    }
    assert_eq!(desk.composer.text(), format!("[Pasted Text: {} lines]", MEGABYTE / 13 + 1));
    assert_eq!(desk.composer.expanded(), text);
    desk.press("<C-z>");
    assert_eq!(desk.marked(), "|", "one step to undo");
}

#[test]
fn a_short_paste_that_comes_as_keys_is_not_sent_line_by_line() {
    let mut desk = Desk::new();
    let reactions = desk.keys(&events("first line of it<Enter>second"), desk.now);
    assert_eq!(reactions, [Reaction::Changed]);
    desk.composer.keys(&events("<Enter>third"), desk.now + Duration::from_millis(20));
    assert_eq!(desk.marked(), "first line of it\nsecond\nthird|");
    desk.press("<C-z>");
    assert_eq!(desk.marked(), "|");
    for event in events("typed<Enter>quickly") {
        desk.now += Duration::from_millis(30);
        assert!(!matches!(desk.composer.key(event, desk.now), Reaction::Submit(_)));
    }
    assert_eq!(desk.marked(), "typed\nquickly|");
    desk.now += Duration::from_millis(31);
    let enter = events("<Enter>")[0];
    assert!(matches!(desk.composer.key(enter, desk.now), Reaction::Submit(_)));
}

#[test]
fn line_ends_that_come_as_two_keys_are_one() {
    let mut desk = Desk::new();
    let first = events("sixteen letters or more<Enter><C-j>two<Enter>");
    desk.composer.keys(&first, desk.now);
    desk.composer.keys(&events("<C-j>three"), desk.now + Duration::from_millis(5));
    assert_eq!(desk.marked(), "sixteen letters or more\ntwo\nthree|");
    let mut desk = Desk::new();
    for event in events("a\\<Enter><C-j>b") {
        desk.composer.key(event, desk.now);
    }
    assert_eq!(desk.marked(), "a\nb|", "Shift+Enter as some terminals send it");
    desk.press("<C-j><C-j>");
    assert_eq!(desk.marked(), "a\nb\n\n|");
}

#[test]
fn a_terminal_that_marks_pastes_sends_at_once() {
    let mut desk = Desk::new();
    desk.composer.conditions.paste_safe = true;
    let reactions = desk.keys(&events("a prompt that is typed ahead<Enter>"), desk.now);
    assert!(matches!(reactions.last(), Some(Reaction::Submit(_))));
}

#[test]
fn a_placeholder_is_one_character_and_expands_in_place() {
    let content = "x\n".repeat(11);
    let mut desk = Desk::with("see: |!");
    desk.paste(&content);
    assert_eq!(desk.marked(), "see: [Pasted Text: 12 lines]|!");
    desk.press("<Left>");
    assert_eq!(desk.marked(), "see: |[Pasted Text: 12 lines]!");
    assert_eq!(desk.press("<C-o>"), Reaction::Changed);
    assert_eq!(desk.composer.text(), format!("see: {content}!"));
    desk.press("<C-o>");
    assert_eq!(desk.marked(), "see: [Pasted Text: 12 lines]|!");
    desk.paste(&content);
    assert_eq!(desk.marked(), "see: [Pasted Text: 12 lines][Pasted Text: 12 lines #2]|!");
    desk.press("<BS>");
    assert_eq!(desk.marked(), "see: [Pasted Text: 12 lines]|!");
    assert_eq!(desk.press("<Home><C-o>"), Reaction::Toast(Toast::MoveToPaste));
    let submission = desk.submit();
    assert_eq!(submission.text, format!("see: {content}!"));
    assert_eq!(submission.raw, "see: [Pasted Text: 12 lines]!");
}

#[test]
fn text_that_looks_like_a_placeholder_is_only_text() {
    let mut desk = Desk::new();
    desk.paste(&"x\n".repeat(11));
    desk.press(" [Pasted Text: 12 lines]");
    assert_eq!(desk.submit().text, format!("{} [Pasted Text: 12 lines]", "x\n".repeat(11)));
}

#[test]
fn dropped_files_become_references_and_at_signs_text() {
    let mut desk = Desk::with("see|");
    desk.composer.paste("/tmp/shot 1.png", desk.now, &|path| path == "/tmp/shot 1.png");
    assert_eq!(desk.marked(), "see @/tmp/shot\\ 1.png |");
    desk.composer.conditions.escape_at = true;
    desk.paste("a@b");
    assert_eq!(desk.composer.text(), "see @/tmp/shot\\ 1.png a\\@b");
}

#[test]
fn what_is_too_long_for_a_prompt_is_refused() {
    let mut desk = Desk::new();
    assert_eq!(desk.paste(&"x".repeat(33 * MEGABYTE)), Reaction::Toast(Toast::PasteTooLong));
    assert_eq!(desk.marked(), "|");
}
