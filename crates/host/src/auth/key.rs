//! What an API key looks like.

use pollux_config::groups::Secret;

/// Where keys come from.
pub const WHERE: &str = "A key can be made at https://aistudio.google.com/apikey.";

/// Shorter texts are words; longer ones are files.
const LENGTHS: std::ops::RangeInclusive<usize> = 20..=512;
/// Most keys of the Gemini API begin so and have this length.
const USUAL: (&str, usize) = ("AIza", 39);

/// The key in what was typed; the error says what is wrong without repeating any of it.
pub fn check(typed: &str) -> Result<Secret, String> {
    let key = typed.trim();
    if key.is_empty() {
        return Err("it is empty".to_owned());
    }
    if key.contains(['=', '"', '\'', '$']) {
        return Err("it should be the key alone, without a name, quotes or `$`".to_owned());
    }
    if key.split_whitespace().nth(1).is_some() {
        return Err("it holds spaces or several lines".to_owned());
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it holds characters that keys never have".to_owned());
    }
    if !LENGTHS.contains(&key.len()) {
        return Err(format!("it has {} characters", key.len()));
    }
    let (beginning, length) = USUAL;
    if key.starts_with(beginning) && key.len() != length {
        return Err(format!(
            "keys that begin with `{beginning}` have {length} characters, this one has {}; was it copied whole?",
            key.len()
        ));
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
    fn what_is_no_key_is_refused_without_being_repeated() {
        let long = "k".repeat(600);
        let cut = format!("AIza{}", "x".repeat(30));
        let cases = [
            ("", "empty"),
            ("GEMINI_API_KEY=AIzaSyxxxxxxxxxxxxxxxxxxx", "alone"),
            ("\"AIzaSyxxxxxxxxxxxxxxxxxxxxx\"", "alone"),
            ("two words of some length here", "spaces"),
            ("key-with-\u{200b}-invisible-character", "never have"),
            ("hunter2", "7 characters"),
            (&long, "600 characters"),
            (&cut, "copied whole"),
        ];
        for (typed, problem) in cases {
            let said = check(typed).unwrap_err();
            assert!(said.contains(problem), "{said}");
            assert!(typed.is_empty() || !said.contains(typed), "{said}");
        }
    }
}
