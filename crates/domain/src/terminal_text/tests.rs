use super::*;
use proptest::prelude::*;

const CASES: &[(&str, &str)] = &[
    ("plain é ✓\n\ttext", "plain é ✓\n\ttext"),
    ("\u{1b}[31mred\u{1b}[0m", "red"),
    ("a\u{1b}]0;title\u{7}b", "ab"),
    ("a\u{1b}]52;c;aGk=\u{1b}\\b", "ab"),
    ("a\u{1b}]8;;http://x\u{1b}\\b\u{1b}]8;;\u{1b}\\", "ab"),
    ("a\u{1b}Pq#0\u{1b}\\b", "ab"),
    ("a\u{1b}_G\u{1b}\\b\u{1b}^p\u{1b}\\c\u{1b}Xs\u{1b}\\d", "abcd"),
    ("a\u{9b}2Jb\u{9d}0;t\u{9c}c\u{90}q\u{9c}d", "abcd"),
    ("a\u{1b}(Bb\u{1b}7c", "abc"),
    ("line\rover\r\nnext", "lineover\r\nnext"),
    ("bell\u{7}null\0del\u{7f}\u{85}", "bellnulldel"),
    ("open \u{1b}]8;;http\nnext line", "open \nnext line"),
    ("\u{1b}\u{1b}[1mx", "x"),
    ("\u{1b}[3\nx", "\nx"),
    ("\u{1b}é\u{1b}", "é"),
    ("safe\u{202e}gpj.exe\u{2066}x\u{2069}", "safegpj.exex"),
    ("\u{1b}[3\u{1b}]0;x\u{9b}31my\u{7}z", "z"),
];

#[test]
fn control_sequences_are_removed() {
    for (given, expected) in CASES {
        assert_eq!(&plain(given), expected, "{given:?}");
    }
    assert!(matches!(plain("größe\t日本\n"), Cow::Borrowed(_)));
}

#[test]
fn non_terminal_readers_lose_only_sequences() {
    let cases = [
        ("10%\r20%\u{8}\0\n", "10%\r20%\u{8}\0\n"),
        ("\u{1b}[31mred\u{1b}[0m\u{9b}1m", "red"),
        ("\u{1b}]0;t\u{7}x\u{202e}y\u{85}", "x\u{202e}y"),
    ];
    for (given, expected) in cases {
        assert_eq!(Stripper::of_sequences().push(given), expected, "{given:?}");
    }
}

#[test]
fn what_hides_is_made_visible() {
    let cases = [
        ("ls -la\n\tx", "ls -la\n\tx"),
        ("a\r\nb\rc", "a\nb<U+000D>c"),
        ("rm \u{202e}x\u{200b}y\u{a0}z", "rm <U+202E>x<U+200B>y<U+00A0>z"),
        ("\u{1b}[2J\u{9b}", "<U+001B>[2J<U+009B>"),
        ("\u{e0041}\u{fe01}\u{3164}\u{ad}", "<U+E0041><U+FE01><U+3164><U+00AD>"),
        ("größe 日本 ❤\u{fe0f}", "größe 日本 ❤\u{fe0f}"),
    ];
    for (given, expected) in cases {
        assert_eq!(visible(given), expected, "{given:?}");
    }
    assert_eq!(name("a\nb\tc\r\n"), "a<U+000A>b<U+0009>c<U+000D><U+000A>");
    assert!(matches!(name("src/main.rs"), Cow::Borrowed(_)));
}

#[test]
fn a_message_fits_on_one_line() {
    let cases = [
        ("a\n  b\u{1b}[1m\r\n\n", "a b"),
        ("two  spaces", "two  spaces"),
        ("a\tb\u{2028}c", "a b c"),
        ("x\u{200e}\u{200b}\u{feff}\u{e0041}y", "xy"),
        ("👩\u{200d}💻 日本\u{a0}x", "👩\u{200d}💻 日本\u{a0}x"),
        ("\n\u{1b}", ""),
    ];
    for (given, expected) in cases {
        assert_eq!(one_line(given), expected, "{given:?}");
    }
}

#[test]
fn a_json_document_says_the_same_with_harmless_characters() {
    let value = serde_json::json!({"a\u{9b}": "x\u{7f}\u{202e}é\u{1b}"});
    let safe = json(value.to_string());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    assert!(!safe.contains(['\u{9b}', '\u{7f}', '\u{202e}', '\u{1b}']), "{safe}");
}

fn dangerous(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Mostly the characters that sequences are made of.
fn hostile() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(
        "\u{1b}\u{9b}\u{9d}\u{90}\u{9c}\u{7}\r\n\t[]P_^X\\;?0123mJH(B \u{202e}\u{2066}\u{200b}é日x\0\u{7f}"
            .chars()
            .collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![8 => marks, 1 => any::<char>()], 0..120)
        .prop_map(|characters| characters.into_iter().collect())
}

proptest! {
    #[test]
    fn nothing_a_terminal_obeys_is_left(text in hostile()) {
        let shown = plain(&text);
        prop_assert!(!shown.contains(dangerous), "{shown:?}");
        // A return stands before a newline or not at all.
        prop_assert!(!shown.replace("\r\n", "").contains('\r'), "{shown:?}");
        prop_assert!(!visible(&text).contains(|c| dangerous(c) || c == '\r'));
        prop_assert!(!name(&text).contains(|c: char| dangerous(c) || matches!(c, '\n' | '\r' | '\t')));
        prop_assert!(!one_line(&text).contains(|c: char| dangerous(c) || matches!(c, '\n' | '\r' | '\t')));
        let model = Stripper::of_sequences().push(&text);
        prop_assert!(!model.contains(|c| matches!(c, '\u{1b}' | '\u{80}'..='\u{9f}')), "{model:?}");
    }

    #[test]
    fn the_result_does_not_depend_on_how_the_text_is_cut(text in hostile(), cuts in prop::collection::vec(0..9usize, 0..60)) {
        for whole in [Stripper::default(), Stripper::of_sequences()] {
            let mut pieces = whole.clone();
            let mut whole = whole;
            let mut shown = String::new();
            let mut rest: Vec<char> = text.chars().collect();
            for cut in &cuts {
                let tail = rest.split_off((*cut).min(rest.len()));
                shown.push_str(&pieces.push(&rest.into_iter().collect::<String>()));
                rest = tail;
            }
            shown.push_str(&pieces.push(&rest.into_iter().collect::<String>()));
            prop_assert_eq!(shown, whole.push(&text));
        }
    }

    #[test]
    fn plain_text_stays_as_it_is(text in "[a-zA-Z0-9 \n\té日ü€]{0,200}") {
        prop_assert_eq!(plain(&text), text.as_str());
        prop_assert_eq!(visible(&text), text.as_str());
    }

    #[test]
    fn plain_text_stays_unchanged(text in hostile()) {
        let once = plain(&text).into_owned();
        prop_assert_eq!(plain(&once), once.as_str());
    }
}
