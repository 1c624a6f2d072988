use super::*;

fn emulator(columns: u16, rows: u16) -> Emulator {
    Emulator::new(TerminalSize { columns, rows })
}

fn shown(output: &str) -> String {
    let mut emulator = emulator(20, 4);
    emulator.push(output.as_bytes());
    emulator.screen().text()
}

fn text(output: &str) -> String {
    let mut emulator = emulator(20, 4);
    emulator.push(output.as_bytes());
    emulator.into_text().into_text()
}

#[test]
fn a_progress_bar_leaves_only_its_last_state() {
    assert_eq!(text("10%\r50%\r100%\r\ndone\r\n"), "100%\ndone");
    assert_eq!(text("abc\u{8}\u{8}X\r\n"), "aXc");
    assert_eq!(text("one\r\ntwo\u{1b}[1A\r\u{1b}[Kthree"), "three\ntwo");
}

#[test]
fn rows_that_leave_the_screen_stay_in_the_text() {
    let lines: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
    assert_eq!(text(&lines.join("\r\n")), lines.join("\n"));
    assert_eq!(shown(&lines.join("\r\n")), lines[96..].join("\n"));
}

#[test]
fn a_long_line_is_one_line_of_text() {
    let long = "0123456789".repeat(30);
    assert_eq!(text(&format!("{long}\r\nnext")), format!("{long}\nnext"));
    let exact = "x".repeat(20);
    assert_eq!(text(&format!("{exact}\r\nnext")), format!("{exact}\nnext"));
}

#[test]
fn a_full_screen_program_leaves_nothing_behind() {
    let before = "before\r\n";
    let program = "\u{1b}[?1049h\u{1b}[2J\u{1b}[Hmenu\u{1b}[?1h\u{1b}[?2004h\u{1b}[?25l";
    let mut emulator = emulator(20, 4);
    emulator.push(format!("{before}{program}").as_bytes());
    let screen = emulator.screen();
    assert_eq!((screen.text().as_str(), screen.alternate, screen.cursor), ("menu", true, None));
    assert_eq!(screen.keys, KeyModes { application_cursor: true, bracketed_paste: true });
    emulator.push(b"\x1b[?1l\x1b[?2004l\x1b[?25h\x1b[?1049lafter");
    let screen = emulator.screen();
    assert_eq!((screen.text().as_str(), screen.alternate), ("before\nafter", false));
    assert_eq!(screen.cursor, Some(ScreenPosition { row: 1, column: 5 }));
    assert_eq!(emulator.into_text().into_text(), "before\nafter");
}

#[test]
fn the_screen_of_a_program_that_was_killed_is_in_the_text() {
    assert_eq!(text("before\r\n\u{1b}[?1049h\u{1b}[Hmenu"), "before\nmenu");
}

#[test]
fn colours_are_kept_on_the_screen_and_not_in_the_text() {
    let output =
        "\u{1b}[1;31mred\u{1b}[0m \u{1b}[38;5;200mpink\u{1b}[48;2;1;2;3mrgb\u{1b}[m\u{1b}[38:2::9:8:7mx";
    let mut emulator = emulator(40, 4);
    emulator.push(output.as_bytes());
    let screen = emulator.screen();
    let runs: Vec<(&str, CellStyle)> =
        screen.rows[0].iter().map(|run| (run.text.as_str(), run.style.unwrap_or_default())).collect();
    let plain = CellStyle::default();
    let pink = CellStyle { foreground: ScreenColor::Palette(200), ..plain };
    let rgb = |red, green, blue| ScreenColor::Rgb { red, green, blue };
    assert_eq!(
        runs,
        [
            ("red", CellStyle { foreground: ScreenColor::Palette(1), bold: true, ..plain }),
            (" ", plain),
            ("pink", pink),
            ("rgb", CellStyle { background: rgb(1, 2, 3), ..pink }),
            ("x", CellStyle { foreground: rgb(9, 8, 7), ..plain }),
        ]
    );
    assert_eq!(emulator.into_text().into_text(), "red pinkrgbx");
}

#[test]
fn only_the_cursor_is_reported() {
    let answer = |output: &str| String::from_utf8(emulator(20, 4).push(output.as_bytes())).unwrap();
    assert_eq!(answer("ab\r\ncd\u{1b}[6n"), "\u{1b}[2;3R");
    // What a terminal would answer may be text that a shell runs.
    for question in
        ["\u{1b}[c", "\u{1b}[>c", "\u{1b}[5n", "\u{1b}[21t", "\u{1b}]52;c;?\u{7}", "\u{1b}P+q544e\u{1b}\\"]
    {
        assert_eq!(answer(question), "", "{question:?}");
    }
    assert!(answer(&"\u{1b}[6n".repeat(10_000)).len() <= MAX_ANSWER_BYTES);
}

#[test]
fn titles_and_other_messages_are_dropped() {
    assert_eq!(text("a\u{1b}]0;title\u{7}b\u{1b}]52;c;Zm9v\u{1b}\\c\u{1b}_x\u{1b}\\d"), "abcd");
    assert_eq!(text("\u{202e}abc\u{9b}31m"), "abc31m");
}

#[test]
fn a_message_without_an_end_hides_only_its_line() {
    assert_eq!(text("\u{1b}]0;title\nafter"), "after");
    assert_eq!(text("one\r\n\u{1b}Pdata\r\ntwo"), "one\n\ntwo");
}

#[test]
fn a_sequence_with_too_many_numbers_counts_with_its_first() {
    let mut emulator = emulator(20, 4);
    emulator.push(format!("\u{1b}[31{}mred", ";1".repeat(40)).as_bytes());
    let screen = emulator.screen();
    let style = screen.rows[0][0].style.expect("a style");
    assert_eq!((screen.text().as_str(), style.foreground), ("red", ScreenColor::Palette(1)));
}

#[test]
fn a_screen_that_is_reset_again_and_again_keeps_only_text() {
    let mut emulator = emulator(500, 200);
    emulator.parser.push(&b"x\x1bc".repeat(100), &mut emulator.terminal);
    let gone = emulator.terminal.main.take_gone();
    assert!((200..=100 * 201).contains(&gone.len()), "{}", gone.len());
}

#[test]
fn wide_characters_and_marks_take_their_cells() {
    let mut emulator = emulator(20, 4);
    emulator.push("日本e\u{301}\u{1b}[6n".as_bytes());
    assert_eq!(emulator.screen().text(), "日本e\u{301}");
    assert_eq!(emulator.screen().cursor, Some(ScreenPosition { row: 0, column: 5 }));
    // One half is overwritten.
    emulator.push(b"\x1b[1;2HX");
    assert_eq!(emulator.screen().text(), " X本e\u{301}");
    assert_eq!(text(&"日".repeat(25)), "日".repeat(25));
}

#[test]
fn regions_scroll_alone() {
    assert_eq!(shown("a\r\nb\r\nc\r\nd\u{1b}[2;3r\u{1b}[3;1H\n\n\nx"), "a\n\nx\nd");
    assert_eq!(shown("a\r\nb\r\nc\r\nd\u{1b}[2;1H\u{1b}[L"), "a\n\nb\nc");
    assert_eq!(shown("a\r\nb\r\nc\r\nd\u{1b}[2;1H\u{1b}[M"), "a\nc\nd");
    assert_eq!(shown("abcdef\u{1b}[3G\u{1b}[2P"), "abef");
    assert_eq!(shown("abcdef\u{1b}[3G\u{1b}[2@"), "ab  cdef");
}

#[test]
fn a_smaller_screen_keeps_what_is_around_the_cursor() {
    let mut emulator = emulator(20, 8);
    emulator.push(b"one\r\ntwo\r\nthree\r\nfour\r\nfive");
    emulator.resize(TerminalSize { columns: 20, rows: 4 });
    assert_eq!(emulator.screen().text(), "two\nthree\nfour\nfive");
    emulator.resize(TerminalSize { columns: 30, rows: 6 });
    emulator.push(b"!");
    assert_eq!(emulator.into_text().into_text(), "one\ntwo\nthree\nfour\nfive!");
}

#[test]
fn binary_output_is_only_described() {
    let mut emulator = emulator(20, 4);
    emulator.push(b"\x7fELF\0\0\xff\xfe");
    assert_eq!(emulator.into_text().into_text(), "(binary output, 8 bytes, not shown)");
}

/// Numbers that look random and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Pieces of sequences in any order, at any size, cut anywhere.
#[test]
fn no_output_makes_it_panic_or_grow() {
    const PIECES: &[&str] = &[
        "\u{1b}",
        "\u{1b}[",
        "\u{1b}]",
        "\u{1b}P",
        "?",
        ">",
        ";",
        ":",
        "0",
        "1",
        "2",
        "9",
        "65535",
        "99999999",
        "A",
        "B",
        "C",
        "D",
        "E",
        "F",
        "G",
        "H",
        "I",
        "J",
        "K",
        "L",
        "M",
        "P",
        "S",
        "T",
        "X",
        "Z",
        "b",
        "d",
        "m",
        "n",
        "r",
        "s",
        "u",
        "h",
        "l",
        "1049",
        "@",
        "日",
        "e\u{301}",
        "\u{301}",
        "x",
        "\r",
        "\n",
        "\t",
        "\u{8}",
        "\u{7}",
        "(",
        "0",
        ")",
        "\u{e}",
        "\u{f}",
        "7",
        "8",
        "c",
        "38",
        "48",
        "text that is longer than the row",
    ];
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let size = |dice: &mut Dice| {
            TerminalSize { columns: dice.below(60) as u16, rows: dice.below(20) as u16 }.within_limits()
        };
        let mut emulator = Emulator::new(size(&mut dice));
        for _ in 0..60 {
            let mut output: Vec<u8> = Vec::new();
            for _ in 0..dice.below(30) {
                output.extend(PIECES[dice.below(PIECES.len())].as_bytes());
                if dice.below(20) == 0 {
                    output.push(dice.below(256) as u8);
                }
            }
            emulator.push(&output);
            if dice.below(10) == 0 {
                emulator.resize(size(&mut dice));
            }
            let screen = emulator.screen();
            assert!(screen.rows.len() <= usize::from(emulator.terminal.size.rows));
            for row in &screen.rows {
                let text: String = row.iter().map(|run| run.text.as_str()).collect();
                let width = unicode_width::UnicodeWidthStr::width(text.as_str());
                assert!(width <= usize::from(emulator.terminal.size.columns), "{seed}: {text:?}");
                assert!(!text.chars().any(char::is_control), "{seed}: {text:?}");
            }
        }
        emulator.into_text().into_text();
    }
}
