//! Titles that people and programs give to sessions.

/// The longest title, in characters.
pub const MAX_TITLE: usize = 200;

/// Why a text cannot be a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    #[error("the title is empty")]
    Empty,
    #[error("the title is longer than {MAX_TITLE} characters")]
    TooLong,
    #[error("the title contains control characters or line breaks")]
    ControlCharacters,
}

/// A title as it is stored, without surrounding spaces.
pub fn checked(title: &str) -> Result<&str, TitleError> {
    let title = title.trim_matches(' ');
    if title.trim().is_empty() {
        return Err(TitleError::Empty);
    }
    // Everything that a terminal or a list would not show as it is.
    if title != crate::terminal_text::one_line(title) {
        return Err(TitleError::ControlCharacters);
    }
    if title.chars().nth(MAX_TITLE).is_some() {
        return Err(TitleError::TooLong);
    }
    Ok(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_visible_line_of_limited_length() {
        assert_eq!(checked("  Fix the build — größe 日本語 "), Ok("Fix the build — größe 日本語"));
        assert_eq!(checked(""), Err(TitleError::Empty));
        assert_eq!(checked(" \n\t"), Err(TitleError::Empty));
        for bad in ["a\nb", "a\u{1b}[31mb", "a\u{7}", "safe\u{202e}gpj.exe", "a\u{0}"] {
            assert_eq!(checked(bad), Err(TitleError::ControlCharacters), "{bad:?}");
        }
        assert_eq!(checked(&"é".repeat(MAX_TITLE)).map(str::len), Ok(2 * MAX_TITLE));
        assert_eq!(checked(&"é".repeat(MAX_TITLE + 1)), Err(TitleError::TooLong));
    }
}
