use super::super::buffer::WORK;
use super::*;

fn work(of: impl FnOnce()) -> usize {
    WORK.with(|work| work.set(0));
    of();
    WORK.with(std::cell::Cell::get)
}

const MEGABYTE: usize = 1024 * 1024;

fn draw(harness: &mut ComposerHarness) {
    let area = ratatui::layout::Rect::new(0, 0, 80, 10);
    let mut cells = ratatui::buffer::Buffer::empty(area);
    harness.composer.height(80);
    harness.composer.render(area, &mut cells, &Look::default()).unwrap();
}

#[test]
fn a_megabyte_is_folded_and_sent_byte_for_byte() {
    let text = "häßlich\tund \u{1b}[31m lang\n".repeat(MEGABYTE / 24);
    let mut harness = ComposerHarness::new();
    let measured = work(|| {
        assert_eq!(harness.paste(&text), Reaction::Toast(Toast::ExpandPaste));
        draw(&mut harness);
    });
    assert!(measured < 10, "{measured}");
    assert_eq!(harness.submit().text, text.trim());
}

#[test]
fn typing_in_a_megabyte_of_lines_measures_only_what_is_near() {
    let text = "a line of ordinary length that wraps nowhere\n".repeat(MEGABYTE / 45);
    let mut harness = ComposerHarness::new();
    harness.composer.set_text(&text);
    draw(&mut harness);
    let measured = work(|| {
        for _ in 0..20 {
            harness.press("<Up>x");
            draw(&mut harness);
        }
    });
    assert!(measured < 20 * 10 * 80, "{measured}");
}

#[test]
fn typing_in_a_line_of_a_megabyte_measures_only_what_moves() {
    let mut harness = ComposerHarness::new();
    harness.composer.set_text(&"word and words ".repeat(MEGABYTE / 15));
    draw(&mut harness);
    harness.press("<Home><Home>");
    draw(&mut harness);
    let measured = work(|| {
        harness.press("x");
        draw(&mut harness);
        harness.press("<BS>");
        draw(&mut harness);
    });
    assert!(measured < MEGABYTE / 10, "{measured}");
}

#[test]
fn a_megabyte_of_line_ends_is_no_trouble() {
    let mut harness = ComposerHarness::new();
    harness.composer.set_text(&"\n".repeat(MEGABYTE));
    harness.press("<Up>x<Up>y");
    draw(&mut harness);
    assert_eq!(harness.composer.expanded().len(), MEGABYTE + 2);
}

#[test]
fn a_paste_that_comes_as_keys_is_one_input() {
    let text = "line of text\n".repeat(MEGABYTE / 13);
    let events: Vec<KeyEvent> = text
        .chars()
        .map(|c| KeyEvent::new(if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) }, KeyModifiers::NONE))
        .collect();
    let mut harness = ComposerHarness::new();
    for part in events.chunks(1021) {
        harness.now += Duration::from_millis(3);
        let reactions = harness.keys(part, harness.now);
        assert_eq!(reactions, [Reaction::Changed]);
    }
    assert_eq!(harness.composer.text(), format!("[Pasted Text: {} lines]", MEGABYTE / 13 + 1));
    assert_eq!(harness.composer.expanded(), text);
    harness.press("<A-z>");
    assert_eq!(harness.marked(), "|", "one step to undo");
}

#[test]
fn a_short_paste_that_comes_as_keys_is_not_sent_line_by_line() {
    let mut harness = ComposerHarness::new();
    let reactions = harness.keys(&events("first line of it<Enter>second"), harness.now);
    assert_eq!(reactions, [Reaction::Changed]);
    harness.composer.keys(&events("<Enter>third"), harness.now + Duration::from_millis(20));
    assert_eq!(harness.marked(), "first line of it\nsecond\nthird|");
    harness.press("<A-z>");
    assert_eq!(harness.marked(), "|");
    for event in events("comes key by key<Enter>without<Enter>a pause") {
        harness.now += Duration::from_millis(30);
        assert!(!matches!(harness.composer.key(event, harness.now), Reaction::Submit(_)));
    }
    assert_eq!(harness.marked(), "comes key by key\nwithout\na pause|");
    harness.now += Duration::from_millis(31);
    let enter = events("<Enter>")[0];
    assert!(matches!(harness.composer.key(enter, harness.now), Reaction::Submit(_)));
}

#[test]
fn a_few_keys_that_are_read_at_once_are_typed_and_enter_sends() {
    let mut harness = ComposerHarness::new();
    let reactions = harness.keys(&events("fix it<Enter>"), harness.now);
    assert!(
        matches!(reactions.last(), Some(Reaction::Submit(submission)) if submission.text == "fix it"),
        "{reactions:?}"
    );
    // Enter right after text from the clipboard sends, too.
    let mut harness = ComposerHarness::new();
    harness.paste("a text from the clipboard");
    let enter = events("<Enter>")[0];
    assert!(matches!(harness.composer.key(enter, harness.now), Reaction::Submit(_)));
}

#[test]
fn line_ends_that_come_as_two_keys_are_one() {
    let mut harness = ComposerHarness::new();
    let first = events("sixteen letters or more<Enter><C-j>two<Enter>");
    harness.composer.keys(&first, harness.now);
    harness.composer.keys(&events("<C-j>three"), harness.now + Duration::from_millis(5));
    assert_eq!(harness.marked(), "sixteen letters or more\ntwo\nthree|");
    let mut harness = ComposerHarness::new();
    for event in events("a\\<Enter><C-j>b") {
        harness.composer.key(event, harness.now);
    }
    assert_eq!(harness.marked(), "a\nb|", "Shift+Enter as some terminals send it");
    harness.press("<C-j><C-j>");
    assert_eq!(harness.marked(), "a\nb\n\n|");
}

#[test]
fn a_terminal_that_marks_pastes_sends_at_once() {
    let mut harness = ComposerHarness::new();
    harness.composer.conditions.pastes = Pastes::Marked;
    let reactions = harness.keys(&events("a prompt that is typed ahead<Enter>and more"), harness.now);
    assert!(reactions.iter().any(|reaction| matches!(reaction, Reaction::Submit(_))), "{reactions:?}");
}

#[test]
fn a_placeholder_is_one_character_and_expands_in_place() {
    let content = "x\n".repeat(11);
    let mut harness = ComposerHarness::with("see: |!");
    harness.paste(&content);
    assert_eq!(harness.marked(), "see: [Pasted Text: 12 lines]|!");
    harness.press("<Left>");
    assert_eq!(harness.marked(), "see: |[Pasted Text: 12 lines]!");
    assert_eq!(harness.press("<C-o>"), Reaction::Changed);
    assert_eq!(harness.composer.text(), format!("see: {content}!"));
    harness.press("<C-o>");
    assert_eq!(harness.marked(), "see: [Pasted Text: 12 lines]|!");
    harness.paste(&content);
    assert_eq!(harness.marked(), "see: [Pasted Text: 12 lines][Pasted Text: 12 lines #2]|!");
    harness.press("<BS>");
    assert_eq!(harness.marked(), "see: [Pasted Text: 12 lines]|!");
    assert_eq!(harness.press("<Home><C-o>"), Reaction::Toast(Toast::MoveToPaste));
    let submission = harness.submit();
    assert_eq!(submission.text, format!("see: {content}!"));
    assert_eq!(submission.raw, "see: [Pasted Text: 12 lines]!");
}

#[test]
fn text_that_looks_like_a_placeholder_is_only_text() {
    let mut harness = ComposerHarness::new();
    harness.paste(&"x\n".repeat(11));
    harness.press(" [Pasted Text: 12 lines]");
    assert_eq!(harness.submit().text, format!("{} [Pasted Text: 12 lines]", "x\n".repeat(11)));
}

#[test]
fn dropped_files_become_references_and_at_signs_text() {
    let mut harness = ComposerHarness::with("see|");
    harness.composer.paste("/tmp/shot 1.png", harness.now, &|path| path == "/tmp/shot 1.png");
    assert_eq!(harness.marked(), "see @/tmp/shot\\ 1.png |");
    harness.composer.conditions.escape_at = true;
    harness.paste("a@b");
    assert_eq!(harness.composer.text(), "see @/tmp/shot\\ 1.png a\\@b");
}

#[test]
fn what_is_too_long_for_a_prompt_is_refused() {
    let mut harness = ComposerHarness::new();
    assert_eq!(harness.paste(&"x".repeat(33 * MEGABYTE)), Reaction::Toast(Toast::PasteTooLong));
    assert_eq!(harness.marked(), "|");
}
