use super::*;

fn normal(harness: &mut ComposerHarness) {
    harness.composer.set_vim(true);
    harness.composer.vim.as_mut().unwrap().mode = VimMode::Normal;
}

#[test]
fn motions_move() {
    table(
        &[
            ("one |two", "h", "one| two"),
            ("on|e\ntwo", "l", "on|e\ntwo"),
            ("|one\ntwo", "j", "one\n|two"),
            ("one\nt|wo", "k", "o|ne\ntwo"),
            ("|one two.three", "w", "one |two.three"),
            ("|one two.three", "ww", "one two|.three"),
            ("|one two.three", "2w", "one two|.three"),
            ("one |two.three x", "W", "one two.three |x"),
            ("one\n|\nx", "w", "one\n\n|x"),
            ("one two.three| x", "b", "one two.|three x"),
            ("one two.three| x", "B", "one |two.three x"),
            ("one\n|two", "b", "|one\ntwo"),
            ("|one two", "e", "on|e two"),
            ("on|e two", "e", "one tw|o"),
            ("|a.b c", "E", "a.|b c"),
            ("  on|e", "0", "|  one"),
            ("  on|e", "^", "  |one"),
            ("  |one", "$", "  on|e"),
            ("a\nb\nc|", "gg", "|a\nb\nc"),
            ("|a\nb\nc", "G", "a\nb\n|c"),
            ("|a\nb\nc", "2G", "a\n|b\nc"),
            ("|abcabc", "fc", "ab|cabc"),
            ("|abcabc", "2fc", "abcab|c"),
            ("|abcabc", "fc;", "abcab|c"),
            ("|abcabc", "fc;,", "ab|cabc"),
            ("|abcabc", "tc", "a|bcabc"),
            ("|abcabc", "tc;", "abca|bc"),
            ("abcab|c", "Fa", "abc|abc"),
            ("abcab|c", "Ta", "abca|bc"),
            ("|abc", "fx", "|abc"),
        ],
        normal,
    );
}

#[test]
fn operators_and_counts_change_the_text() {
    table(
        &[
            ("|abc", "x", "|bc"),
            ("|abcd", "3x", "|d"),
            ("ab|c", "X", "a|c"),
            ("|abc", "~", "A|bc"),
            ("|abc", "2~", "AB|c"),
            ("|abc", "rx", "|xbc"),
            ("|abc", "2rx", "x|xc"),
            ("ab|c", "5rx", "ab|c"),
            ("one\n|two\nthree", "dd", "one\n|three"),
            ("one\n|two\nthree", "2dd", "|one"),
            ("|one", "dd", "|"),
            ("one\n  tw|o", "cc", "one\n|"),
            ("one |two three", "D", "one| "),
            ("one |two three", "C", "one |"),
            ("|one two", "dw", "|two"),
            ("|one two three four", "2dw", "|three four"),
            ("|a b c d e f g", "2d3w", "|g"),
            ("|one two", "cwx", "x| two"),
            ("one |two", "dw", "one| "),
            ("one |two\nx", "dw", "one| \nx"),
            ("one tw|o", "db", "one |o"),
            ("|one two", "de", "| two"),
            ("one t|wo", "d0", "|wo"),
            ("on|e two", "d$", "o|n"),
            ("a\n|b\nc", "dj", "|a"),
            ("a\nb\n|c", "dgg", "|"),
            ("|one, two", "dt,", "|, two"),
            ("|one, two", "df,", "| two"),
            ("|one", "ylp", "o|one"),
            ("|one two", "ywP", "one| one two"),
            ("|one\ntwo", "yyp", "one\n|one\ntwo"),
            ("|one\ntwo", "YP", "|one\none\ntwo"),
            ("|one\ntwo", "ddp", "two\n|one"),
            ("|ab", "xp", "b|a"),
            ("|one", "xu", "|one"),
            ("|abcdef", "x.", "|cdef"),
            ("|abcdef", "x3.", "|ef"),
            ("|a b c", "cwx<Esc>w.", "x |x c"),
            ("|a", "ob<Esc>.", "a\nb\n|b"),
            ("|one two three", "dw.", "|three"),
            ("|one", "dx", "|one"),
            ("|one", "gx", "|one"),
        ],
        normal,
    );
}

#[test]
fn insert_mode_is_entered_in_six_ways_and_left_with_escape() {
    table(
        &[
            ("a|b", "ix", "ax|b"),
            ("|ab", "ax", "ax|b"),
            ("  a|b", "Ix", "  x|ab"),
            ("|ab", "Ax", "abx|"),
            ("|ab\nc", "ox", "ab\nx|\nc"),
            ("|ab\nc", "Ox", "x|\nab\nc"),
            ("|ab", "Ax<Esc>", "ab|x"),
        ],
        normal,
    );
}

#[test]
fn escape_twice_clears_in_both_modes() {
    let mut harness = ComposerHarness::with("text|");
    harness.composer.set_vim(true);
    assert_eq!(harness.composer.vim_mode(), Some(VimMode::Insert));
    let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    harness.composer.key(escape, harness.now);
    assert_eq!(harness.composer.vim_mode(), Some(VimMode::Normal));
    harness.composer.key(escape, harness.now + Duration::from_millis(100));
    assert_eq!(harness.marked(), "|");
}

#[test]
fn signs_of_the_prompt_are_only_text_keys_in_insert_mode() {
    let mut harness = ComposerHarness::new();
    normal(&mut harness);
    harness.press("!?/@");
    assert_eq!(harness.marked(), "|");
    assert!(!harness.composer.shell_mode());
    harness.press("ihello<Esc>");
    assert_eq!(harness.submit().text, "hello");
}
