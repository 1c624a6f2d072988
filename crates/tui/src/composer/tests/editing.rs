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
            ("ab|", "cd<A-z>", "ab|"),
            ("|", "one two<A-z>", "one |"),
            ("|", "one two<A-z><A-z><C-S-z>", "one |"),
            ("ab|", "<C-c>", "|"),
            ("ab|", "<C-c><A-z>", "ab|"),
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
    table(&rows, |harness| {
        harness.composer.height(12);
    });
}

#[test]
fn what_the_composer_has_no_use_for_is_left_to_the_program() {
    for keys in ["<C-c>", "<C-d>", "<C-z>", "<C-o>", "<C-l>", "<C-t>", "<Tab>", "<A-x>"] {
        assert_eq!(ComposerHarness::new().press(keys), Reaction::Unhandled, "{keys}");
    }
    let mut busy = ComposerHarness::with("half a prompt|");
    busy.composer.conditions.busy = true;
    assert_eq!(busy.press("<C-c>"), Reaction::Unhandled);
    assert_eq!(busy.press("<Esc>"), Reaction::Unhandled);
    assert_eq!(busy.marked(), "half a prompt|");
}

#[test]
fn keys_of_the_program_are_told() {
    assert_eq!(ComposerHarness::new().press("<C-g>"), Reaction::OpenEditor);
    assert_eq!(ComposerHarness::new().press("<C-v>"), Reaction::PasteClipboard);
    assert_eq!(ComposerHarness::new().press("<C-x>"), Reaction::Toast(Toast::EditorKey));
    assert_eq!(ComposerHarness::new().press("?"), Reaction::Shortcuts);
    assert_eq!(ComposerHarness::with("a|").press("?"), Reaction::Changed);
    assert_eq!(Toast::EditorKey.text(&KeyMap::default()), "Use Ctrl+G to open the external editor.");
}

#[test]
fn letting_a_key_go_does_nothing() {
    let mut harness = ComposerHarness::with("a|");
    let event = KeyEvent::new_with_kind(
        KeyCode::Char('b'),
        KeyModifiers::NONE,
        crossterm::event::KeyEventKind::Release,
    );
    assert_eq!(harness.key(event), Reaction::Ignored);
    assert_eq!(harness.marked(), "a|");
}

#[test]
fn alt_gr_types_signs() {
    let mut harness = ComposerHarness::new();
    harness.press("x<C-A-€>");
    assert_eq!(harness.marked(), "x€|");
}

#[test]
fn a_submission_holds_the_text_and_leaves_an_empty_prompt() {
    let mut harness = ComposerHarness::with("  say hello \n|");
    let submission = harness.submit();
    assert_eq!(
        submission,
        Submission { text: "say hello".to_owned(), raw: "say hello".to_owned(), shell: false }
    );
    assert_eq!(harness.marked(), "|");
    assert_eq!(harness.press("<Enter>"), Reaction::Ignored);
    assert_eq!(harness.press("  <Enter>"), Reaction::Ignored);
}

#[test]
fn escape_twice_clears_and_then_rewinds() {
    let mut harness = ComposerHarness::with("text|");
    let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    let later = |harness: &mut ComposerHarness, millis| {
        harness.now += Duration::from_millis(millis);
        harness.composer.key(escape, harness.now)
    };
    assert_eq!(later(&mut harness, 0), Reaction::Toast(Toast::EscapeClears));
    assert_eq!(later(&mut harness, 3001), Reaction::Toast(Toast::EscapeClears));
    assert_eq!(later(&mut harness, 3000), Reaction::Changed);
    assert_eq!(harness.marked(), "|");
    assert_eq!(later(&mut harness, 1), Reaction::Toast(Toast::EscapeRewinds));
    assert_eq!(later(&mut harness, 1), Reaction::Rewind);
    assert_eq!(later(&mut harness, 1), Reaction::Toast(Toast::EscapeRewinds));
    harness.composer.key(events("x")[0], harness.now);
    assert_eq!(later(&mut harness, 1), Reaction::Toast(Toast::EscapeClears));
}

#[test]
fn tab_twice_toggles_details_and_tab_queues_while_a_request_runs() {
    let mut harness = ComposerHarness::new();
    let tab = KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(harness.composer.key(tab, harness.now), Reaction::Unhandled);
    assert_eq!(harness.composer.key(tab, harness.now + Duration::from_millis(350)), Reaction::ToggleDetails);
    assert_eq!(harness.composer.key(tab, harness.now + Duration::from_millis(360)), Reaction::Unhandled);
    harness.composer.conditions.busy = true;
    harness.press("next");
    let text = "next".to_owned();
    assert_eq!(harness.press("<Tab>"), Reaction::Queue(Submission { raw: text.clone(), text, shell: false }));
    assert_eq!(harness.marked(), "|");
}
