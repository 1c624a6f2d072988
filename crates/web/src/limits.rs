//! Texts cut to what the page shows.

use pollux_domain::terminal_text::one_line;
use pollux_domain::text::shortened;

/// Characters of a line.
const LINE: usize = 300;

/// A text on one line.
pub(crate) fn line(text: &str) -> String {
    shortened(&one_line(text), LINE)
}

/// The beginning of a text, which says how much is left out.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (shown, rest) = text.split_at(end);
            format!("{shown}\n… ({} more characters are not shown)", rest.chars().count())
        }
    }
}

/// The end of a text.
pub(crate) fn end_of(text: &str, most: usize) -> String {
    let left_out = text.chars().count().saturating_sub(most);
    text.chars().skip(left_out).collect()
}
