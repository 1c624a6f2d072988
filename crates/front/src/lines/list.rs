//! Lists in plain lines.

use pollux_domain::terminal_text::visible;

use super::Lines;
use super::printer::LineOutput;
use crate::choice::{Choice, ChoiceRow, Chosen, ListKey};

/// Rows that are shown at once; a search finds the others.
const SHOWN: usize = 50;

impl Lines {
    /// Shows the presented list and reads the choice.
    pub(super) async fn ask_list(&mut self) -> Option<Chosen> {
        let choice = self.presented.take()?;
        let mut rows: Vec<&ChoiceRow> = choice.rows.iter().collect();
        put(&choice, &rows, &self.printer.out);
        loop {
            let line = self.line(&question(&choice, &rows), false).await?;
            let answer = line.trim();
            if answer.is_empty() {
                return None;
            }
            let (word, number) = split(answer);
            let numbered = number.and_then(|number| rows.get(number.checked_sub(1)?)).copied();
            let action = choice.actions.iter().find(|known| typed(known.key) == word);
            match (word, action, numbered) {
                ("", _, Some(row)) => return Some(Chosen { key: row.key.clone(), action: None }),
                ("?", _, Some(row)) => {
                    row.preview.iter().for_each(|line| self.show(&format!("  {}\n", visible(line))))
                }
                (_, Some(action), row) => {
                    // Some actions concern the whole list.
                    let marked = || choice.rows.iter().find(|row| choice.marked.as_ref() == Some(&row.key));
                    let row = row.or_else(marked).or(rows.first().copied())?;
                    if !action.confirm
                        || self.ask_yes_no(&format!("Really {}? (yes or no): ", action.about)).await
                    {
                        return Some(Chosen { key: row.key.clone(), action: Some(action.key) });
                    }
                }
                (_, None, _) if !choice.options.numbered => {
                    rows = found(&choice, answer);
                    put(&choice, &rows, &self.printer.out);
                }
                _ => {}
            }
        }
    }

    pub(super) async fn ask_yes_no(&mut self, question: &str) -> bool {
        let answer = self.line(question, false).await.unwrap_or_default();
        matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }
}

fn put(choice: &Choice, rows: &[&ChoiceRow], out: &LineOutput) {
    let note = if choice.note.is_empty() { String::new() } else { format!("  {}", choice.note) };
    let count =
        if choice.options.counted { format!(" ({} total)", choice.rows.len()) } else { String::new() };
    out.show(&format!("\n{}{count}{note}\n", visible(&choice.title)));
    choice.about.iter().for_each(|line| out.show(&format!("{}\n", visible(line))));
    for (number, row) in rows.iter().take(SHOWN).enumerate() {
        out.show(&format!("  {}. {}\n", number + 1, visible(&row.columns.join("  "))));
    }
    match rows.len() {
        0 => out.show("  Nothing found.\n"),
        all if all > SHOWN => out.show(&format!("  ... and {} more\n", all - SHOWN)),
        _ => {}
    }
    choice.foot.iter().for_each(|line| out.show(&format!("{}\n", visible(line))));
}

fn question(choice: &Choice, rows: &[&ChoiceRow]) -> String {
    let letters = choice.actions.iter().map(|action| format!(", {}: {}", typed(action.key), action.about));
    let more = if rows.iter().any(|row| !row.preview.is_empty()) { ", ? and a number: more" } else { "" };
    let words = if choice.options.numbered { "" } else { ", words: search" };
    format!("Answer (number, empty to cancel{words}{more}{}): ", letters.collect::<String>())
}

/// The word that stands for a key in plain lines.
fn typed(key: ListKey) -> String {
    match key {
        ListKey::Tab => "tab".to_owned(),
        ListKey::Reset => "reset".to_owned(),
        ListKey::Left => "<".to_owned(),
        ListKey::Right => ">".to_owned(),
        ListKey::Char(' ') => "space".to_owned(),
        ListKey::Char(letter) => letter.to_string(),
    }
}

/// The word and the number of an answer such as `x 3`, `x3` or `3`.
fn split(answer: &str) -> (&str, Option<usize>) {
    let word = answer.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = answer.strip_prefix(word).and_then(|digits| digits.parse().ok());
    (word.trim(), number)
}

/// The rows that contain every word.
fn found<'a>(choice: &'a Choice, words: &str) -> Vec<&'a ChoiceRow> {
    let words: Vec<String> = words.to_lowercase().split_whitespace().map(str::to_owned).collect();
    let fits = |row: &&ChoiceRow| {
        let text = [row.columns.as_slice(), row.preview.as_slice()].concat().join(" ").to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    choice.rows.iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_number_a_word_or_both() {
        assert_eq!(split("12"), ("", Some(12)));
        assert_eq!(split("x 3"), ("x", Some(3)));
        assert_eq!(split("x3"), ("x", Some(3)));
        assert_eq!(split("tab"), ("tab", None));
    }
}
