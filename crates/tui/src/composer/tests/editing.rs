use super::*;

#[test]
fn keys_edit_the_text() {
    table(
        &[
            ("|", "hello", "hello|"),
            ("ab|", "<Left>x", "ax|b"),
            ("|ab", "<Right><Right><Right>x", "abx|"),
            ("one two|", "<A-b>x", "one x|two"),
            ("one two|", "<C-Left><C-Left>x", "x|one two"),
            ("|one two", "<A-f>x", "onex| two"),
            ("a.b|", "<A-b>x", "a.x|b"),
            ("one\n|two", "<A-b>", "one|\ntwo"),
            ("one|\ntwo", "<A-f>", "one\n|two"),
            ("one two|", "<C-w>", "one |"),
            ("one two|", "<A-BS><A-BS>", "|"),
            ("|one two", "<A-d>", "| two"),
            ("on|e\ntwo", "<C-k>", "on|\ntwo"),
            ("on|\ntwo", "<C-k>", "on|two"),
            ("on|e", "<C-u>", "|e"),
            ("one\n|two", "<C-u>", "one|two"),
            ("one|", "<C-u><A-y><A-y>", "oneone|"),
            ("ab|c", "<BS>", "a|c"),
            ("ab|c", "<C-h>", "a|c"),
            ("a|bc", "<Del>", "a|c"),
            ("a|bc", "<C-d>", "a|c"),
            ("a\n|b", "<BS>", "a|b"),
            ("a|\nb", "<Del>", "a|b"),
            ("ab|c\nd", "<Home>", "|abc\nd"),
            ("ab|c\nd", "<C-e>", "abc|\nd"),
            ("a|b", "<C-j>x", "a\nx|b"),
            ("a|b", "<S-Enter>", "a\n|b"),
            ("a|b", "<A-Enter>", "a\n|b"),
            ("a\\|b", "<Enter>", "a\n|b"),
            ("abc\nde|f", "<Up>", "ab|c\ndef"),
            ("ab|c\ndef", "<Down>", "abc\nde|f"),
            ("abcdef\nab\nabcde|f", "<Up><Up>", "abcde|f\nab\nabcdef"),
            ("日本|", "<Left><BS>", "|本"),
            ("e\u{301}|x", "<BS>", "|x"),
            ("👨‍👩‍👧|", "<Left>", "|👨‍👩‍👧"),
            ("🇩🇪🇫🇷|", "<BS>", "🇩🇪|"),
            ("שלום|", "<Left><BS>", "של|ם"),
            ("ab|", "cd<C-z>", "ab|"),
            ("|", "one two<C-z>", "one |"),
            ("|", "one two<C-z><C-z><C-S-z>", "one |"),
            ("ab|", "<C-c>", "|"),
            ("ab|", "<C-c><C-z>", "ab|"),
        ],
        |_| {},
    );
}

#[test]
fn home_and_end_reach_rows_first_and_then_lines() {
    let rows = [
        ("aaaa bbbb cc|cc dddd", "<Home>", "aaaa bbbb |cccc dddd"),
        ("aaaa bbbb cc|cc dddd", "<Home><Home>", "|aaaa bbbb cccc dddd"),
        ("aa|aa bbbb cccc dddd", "<End>", "aaaa bbbb| cccc dddd"),
        ("aa|aa bbbb cccc dddd", "<End><End>", "aaaa bbbb cccc dddd|"),
        ("aa|aa bbbb cccc dddd", "<Down>", "aaaa bbbb cc|cc dddd"),
        ("aaaa bbbb cc|cc dddd", "<Up>", "aa|aa bbbb cccc dddd"),
    ];
    table(&rows, |desk| {
        desk.composer.height(12);
    });
}

#[test]
fn what_the_composer_has_no_use_for_is_left_to_the_program() {
    for keys in ["<C-c>", "<C-d>", "<C-z>", "<C-o>", "<C-l>", "<C-t>", "<Tab>", "<A-x>"] {
        assert_eq!(Desk::new().press(keys), Reaction::Unhandled, "{keys}");
    }
    let mut busy = Desk::with("half a prompt|");
    busy.composer.conditions.busy = true;
    assert_eq!(busy.press("<C-c>"), Reaction::Unhandled);
    assert_eq!(busy.press("<Esc>"), Reaction::Unhandled);
    assert_eq!(busy.marked(), "half a prompt|");
}

#[test]
fn keys_of_the_program_are_told() {
    assert_eq!(Desk::new().press("<C-g>"), Reaction::OpenEditor);
    assert_eq!(Desk::new().press("<C-v>"), Reaction::PasteClipboard);
    assert_eq!(Desk::new().press("<C-x>"), Reaction::Toast(Toast::EditorKey));
    assert_eq!(Desk::new().press("?"), Reaction::Shortcuts);
    assert_eq!(Desk::with("a|").press("?"), Reaction::Changed);
    assert_eq!(Toast::EditorKey.text(&KeyMap::default()), "Use Ctrl+G to open the external editor.");
}

#[test]
fn letting_a_key_go_does_nothing() {
    let mut desk = Desk::with("a|");
    let event = KeyEvent::new_with_kind(
        KeyCode::Char('b'),
        KeyModifiers::NONE,
        crossterm::event::KeyEventKind::Release,
    );
    assert_eq!(desk.key(event), Reaction::Ignored);
    assert_eq!(desk.marked(), "a|");
}

#[test]
fn alt_gr_types_signs() {
    let mut desk = Desk::new();
    desk.press("x<C-A-€>");
    assert_eq!(desk.marked(), "x€|");
}

#[test]
fn a_submission_holds_the_text_and_leaves_an_empty_prompt() {
    let mut desk = Desk::with("  say hello \n|");
    let submission = desk.submit();
    assert_eq!(
        submission,
        Submission { text: "say hello".to_owned(), raw: "say hello".to_owned(), shell: false }
    );
    assert_eq!(desk.marked(), "|");
    assert_eq!(desk.press("<Enter>"), Reaction::Ignored);
    assert_eq!(desk.press("  <Enter>"), Reaction::Ignored);
}

#[test]
fn escape_twice_clears_and_then_rewinds() {
    let mut desk = Desk::with("text|");
    let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    let later = |desk: &mut Desk, millis| {
        desk.now += Duration::from_millis(millis);
        desk.composer.key(escape, desk.now)
    };
    assert_eq!(later(&mut desk, 0), Reaction::Toast(Toast::EscapeClears));
    assert_eq!(later(&mut desk, 3001), Reaction::Toast(Toast::EscapeClears));
    assert_eq!(later(&mut desk, 3000), Reaction::Changed);
    assert_eq!(desk.marked(), "|");
    assert_eq!(later(&mut desk, 1), Reaction::Toast(Toast::EscapeRewinds));
    assert_eq!(later(&mut desk, 1), Reaction::Rewind);
    assert_eq!(later(&mut desk, 1), Reaction::Toast(Toast::EscapeRewinds));
    desk.composer.key(events("x")[0], desk.now);
    assert_eq!(later(&mut desk, 1), Reaction::Toast(Toast::EscapeClears));
}

#[test]
fn tab_twice_toggles_details_and_tab_queues_while_a_request_runs() {
    let mut desk = Desk::new();
    let tab = KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(desk.composer.key(tab, desk.now), Reaction::Unhandled);
    assert_eq!(desk.composer.key(tab, desk.now + Duration::from_millis(350)), Reaction::ToggleDetails);
    assert_eq!(desk.composer.key(tab, desk.now + Duration::from_millis(360)), Reaction::Unhandled);
    desk.composer.conditions.busy = true;
    desk.press("next");
    let text = "next".to_owned();
    assert_eq!(desk.press("<Tab>"), Reaction::Queue(Submission { raw: text.clone(), text, shell: false }));
    assert_eq!(desk.marked(), "|");
}
