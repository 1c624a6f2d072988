use ratatui::layout::Rect;
use ratatui::text::Span;

use super::*;

/// A terminal of this size, and what was sent to it.
struct Bench {
    screen: Screen<Vec<u8>>,
    terminal: vt100::Parser,
    sent: String,
}

impl Bench {
    fn new(rows: u16, columns: u16) -> Self {
        let terminal = vt100::Parser::new(rows, columns, 1000);
        Self { screen: Screen::new(Vec::new(), columns, true), terminal, sent: String::new() }
    }

    fn paint(&mut self, finished: &[&str], live: &[&str], cursor: Option<(u16, u16)>) {
        let width = self.screen.columns;
        let area = Rect::new(0, 0, width, u16::try_from(live.len()).expect("few rows"));
        let mut buffer = Buffer::empty(area);
        for (y, text) in live.iter().enumerate() {
            buffer.set_stringn(
                0,
                u16::try_from(y).expect("few rows"),
                text,
                usize::from(width),
                Style::new(),
            );
        }
        let finished = finished.iter().map(|text| Line::from(Span::raw((*text).to_owned()))).collect();
        let cursor = cursor.map(|(x, y)| Position::new(x, y));
        self.screen.paint(&Frame { finished, live: buffer, cursor }).expect("memory can be written");
        self.deliver();
    }

    fn deliver(&mut self) {
        let bytes = std::mem::take(self.screen.out());
        self.terminal.process(&bytes);
        self.sent = String::from_utf8(bytes).expect("text");
    }

    fn rows(&self) -> Vec<String> {
        let (_, columns) = self.terminal.screen().size();
        let rows = self.terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned());
        let mut rows: Vec<String> = rows.collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }
}

#[test]
fn the_live_area_grows_shrinks_and_stays_below_what_is_finished() {
    let mut bench = Bench::new(10, 20);
    bench.paint(&[], &["> "], Some((2, 0)));
    assert_eq!(bench.rows(), [">"]);
    bench.paint(&[], &["working", "> hi", "footer"], Some((4, 1)));
    assert_eq!(bench.rows(), ["working", "> hi", "footer"]);
    assert_eq!(bench.terminal.screen().cursor_position(), (1, 4));
    bench.paint(&["one", "two"], &["working", "> hi", "footer"], Some((4, 1)));
    assert_eq!(bench.rows(), ["one", "two", "working", "> hi", "footer"]);
    assert_eq!(bench.terminal.screen().cursor_position(), (3, 4));
    bench.paint(&[], &["> "], Some((2, 0)));
    assert_eq!(bench.rows(), ["one", "two", ">"]);
    bench.paint(&["three"], &[], None);
    assert_eq!(bench.rows(), ["one", "two", "three"]);
}

#[test]
fn what_scrolls_out_is_in_the_terminals_own_scrollback() {
    let mut bench = Bench::new(4, 20);
    for number in 0..20 {
        let text = format!("line {number}");
        bench.paint(&[&text], &["working", "> "], Some((2, 1)));
    }
    assert_eq!(bench.rows(), ["line 18", "line 19", "working", ">"]);
    bench.terminal.screen_mut().set_scrollback(18);
    assert_eq!(bench.rows().first().map(String::as_str), Some("line 0"));
}

#[test]
fn nothing_is_sent_when_nothing_changed_and_little_when_a_row_did() {
    let mut bench = Bench::new(10, 80);
    bench.paint(&[], &["⠋ Thinking... (esc to cancel, 1s)", "> some text", "footer"], Some((11, 1)));
    bench.paint(&[], &["⠋ Thinking... (esc to cancel, 1s)", "> some text", "footer"], Some((11, 1)));
    assert_eq!(bench.sent, "");
    bench.paint(&[], &["⠙ Thinking... (esc to cancel, 1s)", "> some text", "footer"], Some((11, 1)));
    assert!(!bench.sent.contains("some text") && !bench.sent.contains("footer"), "{:?}", bench.sent);
    assert!(bench.sent.len() < 100, "{:?}", bench.sent);
    assert_eq!(bench.rows()[0], "⠙ Thinking... (esc to cancel, 1s)");
}

#[test]
fn a_changed_row_is_written_whole() {
    let mut bench = Bench::new(10, 80);
    bench.paint(&[], &["> hell"], Some((6, 0)));
    bench.paint(&[], &["> hello"], Some((7, 0)));
    assert!(bench.sent.contains("> hello"), "{:?}", bench.sent);
}

#[test]
fn a_blank_that_was_typed_is_in_the_stream() {
    let mut bench = Bench::new(5, 20);
    bench.paint(&[], &["> make ", "footer"], Some((7, 0)));
    assert!(bench.sent.contains("> make \u{1b}[K"), "{:?}", bench.sent);
    assert!(bench.sent.contains("footer\u{1b}[K"), "{:?}", bench.sent);
}

#[test]
fn rows_that_fill_the_terminal_lose_nothing() {
    let mut bench = Bench::new(6, 10);
    bench.paint(&["0123456789", "日本語日本"], &["──────────", "> x"], Some((3, 1)));
    assert_eq!(bench.rows(), ["0123456789", "日本語日本", "──────────", "> x"]);
    bench.paint(&["x日本語日本"], &["> y"], Some((3, 0)));
    assert_eq!(bench.rows()[2..], ["x日本語日", "> y"]);
}

#[test]
fn a_foreign_sequence_in_a_line_does_not_pass() {
    let mut bench = Bench::new(6, 40);
    bench.paint(&["a\u{1b}[2Jb\u{7}c\u{9b}2Jd"], &["> "], None);
    let foreign = bench.sent.contains("\u{1b}[2J") || bench.sent.contains(['\u{7}', '\u{9b}']);
    assert!(!foreign, "{:?}", bench.sent);
}

#[test]
fn nothing_ever_clears_the_screen() {
    let mut bench = Bench::new(6, 20);
    let mut all = String::new();
    for size in [20, 7, 1, 40, 20] {
        bench.terminal.screen_mut().set_size(6, size);
        bench.screen.resize(size).expect("memory can be written");
        bench.deliver();
        all.push_str(&bench.sent);
        bench.paint(&["done"], &["a", "b", "> "], Some((0, 2)));
        all.push_str(&bench.sent);
    }
    bench.screen.leave().expect("memory can be written");
    bench.deliver();
    all.push_str(&bench.sent);
    assert!(!all.contains("\u{1b}[2J") && !all.contains("\u{1b}[3J") && !all.contains("\u{1b}[H"), "{all:?}");
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let line =
        Line::from(Span::styled("x", Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::BOLD)));
    let sent = |colours| {
        let mut screen = Screen::new(Vec::new(), 10, colours);
        let frame = Frame { finished: vec![line.clone()], ..Frame::default() };
        screen.paint(&frame).expect("memory can be written");
        String::from_utf8(std::mem::take(screen.out())).expect("text")
    };
    assert!(sent(true).contains("\u{1b}[0;1;38;2;1;2;3mx"));
    assert!(sent(false).contains("\u{1b}[0;1mx"));
}

#[test]
fn the_whole_screen_is_written_anew_when_the_window_changes() {
    let mut bench = Bench::new(4, 20);
    bench.screen = Screen::whole(Vec::new(), 20, true);
    bench.paint(&[], &["one", "two", "three", "> a"], Some((3, 3)));
    assert_eq!(bench.rows(), ["one", "two", "three", "> a"]);
    bench.paint(&[], &["one", "two", "three", "> ab"], Some((4, 3)));
    assert!(bench.sent.contains("> ab") && !bench.sent.contains("three"), "{:?}", bench.sent);
    assert_eq!(bench.terminal.screen().cursor_position(), (3, 4));
    bench.terminal.screen_mut().set_size(3, 20);
    bench.paint(&[], &["two", "three", "> ab"], Some((4, 2)));
    assert_eq!(bench.rows(), ["two", "three", "> ab"]);
    bench.terminal.screen_mut().set_size(4, 10);
    bench.screen.resize(10).expect("memory can be written");
    bench.deliver();
    bench.paint(&[], &["one", "two", "three", "> ab"], Some((4, 3)));
    assert_eq!(bench.rows(), ["one", "two", "three", "> ab"]);
}

#[test]
fn a_row_of_doubtful_width_does_not_go_on_in_the_next() {
    let mut bench = Bench::new(6, 20);
    bench.paint(&[], &["plain", "👩‍👩‍👧 family"], None);
    assert_eq!(bench.sent.matches("\u{1b}[?7l").count(), 1, "{:?}", bench.sent);
    assert_eq!(bench.sent.matches("\u{1b}[?7h").count(), 1, "{:?}", bench.sent);
}

#[test]
fn each_frame_of_the_alternate_screen_has_a_carriage_return() {
    let mut bench = Bench::new(5, 20);
    bench.screen = Screen::whole(Vec::new(), 20, true);
    for text in ["> a", "> ab"] {
        bench.paint(&[], &["top", text], Some((3, 1)));
        assert!(bench.sent.contains('\r'), "{:?}", bench.sent);
    }
    assert_eq!(bench.rows(), ["top", "> ab"]);
}
