//! Lists in two columns that fit a window of 80 columns.

/// Columns that a line may have; the screen puts a sign before it.
pub(super) const WIDTH: usize = 76;
/// Where the second column begins.
pub(super) const SECOND: usize = 28;

/// A name and what it means. A name that is too long has lines of its own.
pub(super) fn row(name: &str, about: &str, second: usize) -> String {
    let lines = wrapped(about, WIDTH.saturating_sub(second));
    let (first, rest) = match lines.split_first() {
        Some((first, rest)) if name.chars().count() + 2 <= second => (format!("{name:second$}{first}"), rest),
        _ => (wrapped(name, WIDTH).join("\n    "), lines.as_slice()),
    };
    let rest = rest.iter().map(|line| format!("\n{:second$}{line}", ""));
    format!("{}{}\n", first.trim_end(), rest.collect::<String>())
}

/// A text in lines of at most so many characters; a longer word is broken.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for (at, piece) in letters.chunks(width.max(1)).enumerate() {
            match lines.last_mut() {
                Some(line) if at == 0 && line.chars().count() + 1 + piece.len() <= width => {
                    line.push(' ');
                    line.extend(piece);
                }
                _ => lines.push(piece.iter().collect()),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_column_stands_under_itself_and_no_line_is_too_long() {
        let about = "one two three ".repeat(8);
        let text = row("/name", &about, SECOND);
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("/name                       one two"), "{text}");
        assert!(lines.all(|line| line.starts_with(&" ".repeat(SECOND))), "{text}");
        let long = row(&format!("/name {}", "x".repeat(200)), &about, SECOND);
        assert!(long.lines().count() > 4 && long.contains("/name\n"), "{long}");
        for line in text.lines().chain(long.lines()) {
            assert!(line.chars().count() <= WIDTH + 4, "{line}");
        }
        assert_eq!(row("a", "", 4), "a\n");
    }
}
