//! Checks the format of an API key.

use pollux_config::groups::Secret;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

/// Hint for getting a key.
pub const WHERE: &str = "Create a key at https://aistudio.google.com/apikey.";

/// Plausible key lengths; longer input is probably a pasted file.
const LENGTHS: std::ops::RangeInclusive<usize> = 20..=512;
/// Prefix and length of most Gemini API keys.
const USUAL: (&str, usize) = ("AIza", 39);

/// As [`check`], with a failure for the user.
pub(crate) fn checked(typed: &str) -> Result<Secret, Failure> {
    check(typed)
        .map_err(|problem| Failure::new(ExitKind::Input, format!("invalid API key: {problem}")).hint(WHERE))
}

/// Extracts the key from typed text; the error never repeats any of it.
pub fn check(typed: &str) -> Result<Secret, String> {
    let key = typed.trim();
    if key.is_empty() {
        return Err("it is empty".to_owned());
    }
    if key.contains(['=', '"', '\'', '$']) {
        return Err("enter only the key, without a name, quotes or `$`".to_owned());
    }
    if key.split_whitespace().nth(1).is_some() {
        return Err("it contains spaces or several lines".to_owned());
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it contains invalid characters".to_owned());
    }
    if !LENGTHS.contains(&key.len()) {
        return Err(format!("{} characters (expected about 39)", key.len()));
    }
    let (beginning, length) = USUAL;
    if key.starts_with(beginning) && key.len() != length {
        return Err(format!("{} characters (keys that start with `{beginning}` have {length})", key.len()));
    }
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_without_what_surrounds_it() {
        let usual = format!("AIza{}", "x".repeat(35));
        assert_eq!(check(&format!("  {usual}\r\n")).unwrap().reveal(), usual);
        assert_eq!(check("AQ.Ab8RN6-another-kind-of-key").unwrap().reveal(), "AQ.Ab8RN6-another-kind-of-key");
    }

    #[test]
    fn invalid_keys_are_refused_without_being_repeated() {
        let long = "k".repeat(600);
        let cut = format!("AIza{}", "x".repeat(30));
        let cases = [
            ("", "empty"),
            ("GEMINI_API_KEY=AIzaSyxxxxxxxxxxxxxxxxxxx", "only the key"),
            ("\"AIzaSyxxxxxxxxxxxxxxxxxxxxx\"", "only the key"),
            ("two words of some length here", "spaces"),
            ("key-with-\u{200b}-invisible-character", "invalid characters"),
            ("hunter2", "7 characters"),
            (&long, "600 characters"),
            (&cut, "34 characters"),
        ];
        for (typed, problem) in cases {
            let said = check(typed).unwrap_err();
            assert!(said.contains(problem), "{said}");
            assert!(typed.is_empty() || !said.contains(typed), "{said}");
        }
    }
}
