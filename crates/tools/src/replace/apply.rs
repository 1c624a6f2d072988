//! Applies replacements to a text with mixed line endings; untouched lines stay as they are.

use crate::encoding::LineEnd;

use super::ladder::Edit;

/// Applies edits, whose ranges count `\r\n` as one character, to the original text.
pub(super) fn edits(original: &str, edits: &[Edit]) -> String {
    let line_end = LineEnd::of(original);
    let mut places = Places::new(original);
    let mut result = String::with_capacity(original.len());
    let mut copied = 0;
    for edit in edits {
        let start = places.original(edit.range.start);
        let end = places.original(edit.range.end);
        result.push_str(original.get(copied..start).unwrap_or_default());
        result.push_str(&line_end.apply(&edit.text));
        copied = end;
    }
    result.push_str(original.get(copied..).unwrap_or_default());
    with_last_line_end_of(original, result, line_end)
}

/// Keeps whether the text ends with a line end.
fn with_last_line_end_of(original: &str, mut result: String, line_end: LineEnd) -> String {
    match (original.ends_with('\n'), result.ends_with('\n')) {
        (true, false) if !result.is_empty() => result.push_str(&line_end.apply("\n")),
        (false, true) => {
            result.pop();
            if result.ends_with('\r') {
                result.pop();
            }
        }
        _ => {}
    }
    result
}

/// Translates positions in the text with plain line ends to positions in the original; in rising order.
struct Places<'a> {
    bytes: &'a [u8],
    original: usize,
    plain: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), original: 0, plain: 0 }
    }

    fn original(&mut self, plain: usize) -> usize {
        while self.plain < plain && self.original < self.bytes.len() {
            let is_pair = self.bytes.get(self.original..).is_some_and(|rest| rest.starts_with(b"\r\n"));
            self.original += if is_pair { 2 } else { 1 };
            self.plain += 1;
        }
        self.original
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::ladder;
    use super::*;
    use crate::encoding::normalised;

    fn changed(text: &str, old: &str, new: &str) -> Option<String> {
        let found = ladder::find(&normalised(text), old, new)?;
        Some(edits(text, &found.edits))
    }

    #[test]
    fn lines_that_are_not_touched_keep_their_ends() {
        assert_eq!(changed("a\nb\r\nc\r\nd\n", "b\nc", "x\ny"), Some("a\nx\r\ny\r\nd\n".into()));
        assert_eq!(changed("a\r\nb\nc\nd\n", "c", "x"), Some("a\r\nb\nx\nd\n".into()));
    }

    #[test]
    fn the_last_line_end_stays_as_it_was() {
        assert_eq!(changed("a\r\nb\r\n", "b\n", "c"), Some("a\r\nc\r\n".into()));
        assert_eq!(changed("a\nb", "b", "c\n"), Some("a\nc".into()));
        assert_eq!(changed("a\n", "a\n", ""), Some("".into()));
    }

    proptest! {
        #[test]
        fn an_exact_replacement_is_what_the_standard_library_does(
            text in "[ab \n]{0,40}", old in "[ab\n]{1,3}", new in "[xy\n]{0,3}",
        ) {
            prop_assume!(text.contains(&old));
            let expected = with_last_line_end_of(&text, text.replace(&old, &new), LineEnd::Lf);
            prop_assert_eq!(changed(&text, &old, &new), Some(expected));
        }

        #[test]
        fn a_crlf_text_stays_one(text in "([a-c ]{0,4}\r\n){1,8}", old in "[a-c \n]{1,4}", new in "[x\n]{0,4}") {
            if let Some(after) = changed(&text, &old, &new) {
                prop_assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
            }
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,60}|[a\r\n\t é(]{0,60}", old in "[a\r\n\t é(]{1,20}", new in "\\PC{0,20}") {
            let _ = changed(&text, &old, &new);
        }
    }
}
