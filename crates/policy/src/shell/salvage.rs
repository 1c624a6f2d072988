//! Names in text that could not be read.

use super::{Context, Findings, Part};

/// Records everything that may be a command, roughly. The text is doubted anyway; this only serves deny rules.
pub(super) fn names_in(text: &str, context: &Context, found: &mut Findings) {
    let joined = text.replace("\\\n", "");
    for piece in joined.split([';', '&', '|', '\n', '(', ')', '`', '{', '}', '<', '>']).take(500) {
        let words: Vec<Option<String>> = piece
            .split_whitespace()
            .map(|word| word.replace(['\'', '"', '\\'], ""))
            .filter(|word| {
                !matches!(
                    word.as_str(),
                    "" | "!" | "if" | "then" | "else" | "do" | "while" | "until" | "time" | "$"
                )
            })
            .map(|word| (!word.contains('$')).then_some(word))
            .collect();
        if words.is_empty() {
            continue;
        }
        found.part(Part {
            text: piece.trim().to_owned(),
            words,
            behind: context.behind.clone(),
            writes_nohup: context.writes_nohup,
            ..Part::default()
        });
    }
}
