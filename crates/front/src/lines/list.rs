//! Choosing from a list, in lines.

use pollux_domain::terminal_text::visible;
use pollux_tui::dialog::{LEFT, RESET, RIGHT, TAB};

use super::{Lines, show};
use crate::choice::{Choice, ChoiceRow, Chosen};

/// Rows that are shown at once; words find the others.
const SHOWN: usize = 50;

impl Lines {
    /// Puts the list that was presented.
    pub(super) async fn put_presented(&mut self) -> Option<Chosen> {
        let choice = self.presented.take()?;
        let mut rows: Vec<&ChoiceRow> = choice.rows.iter().collect();
        put(&choice, &rows);
        loop {
            let line = self.line(&question(&choice, &rows), false).await?;
            let answer = line.trim();
            if answer.is_empty() {
                return None;
            }
            let (word, number) = split(answer);
            let numbered = number.and_then(|number| rows.get(number.checked_sub(1)?)).copied();
            let letter = choice.letters.iter().find(|known| spoken(known.letter) == word);
            match (word, letter, numbered) {
                ("", _, Some(row)) => return Some(Chosen { key: row.key.clone(), letter: None }),
                ("?", _, Some(row)) => {
                    row.preview.iter().for_each(|line| show(&format!("  {}\n", visible(line))))
                }
                (_, Some(letter), row) => {
                    // Some letters are about the whole list.
                    let marked = || choice.rows.iter().find(|row| choice.marked.as_ref() == Some(&row.key));
                    let row = row.or_else(marked).or(rows.first().copied())?;
                    if !letter.grave
                        || self.says_yes(&format!("Really {}? (yes or no): ", letter.about)).await
                    {
                        return Some(Chosen { key: row.key.clone(), letter: Some(letter.letter) });
                    }
                }
                (_, None, _) if !choice.manner.numbered => {
                    rows = found(&choice, answer);
                    put(&choice, &rows);
                }
                _ => {}
            }
        }
    }

    pub(super) async fn says_yes(&mut self, question: &str) -> bool {
        let answer = self.line(question, false).await.unwrap_or_default();
        matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }
}

fn put(choice: &Choice, rows: &[&ChoiceRow]) {
    let note = if choice.note.is_empty() { String::new() } else { format!("  {}", choice.note) };
    let count = if choice.manner.counted { format!(" ({} total)", choice.rows.len()) } else { String::new() };
    show(&format!("\n{}{count}{note}\n", visible(&choice.title)));
    choice.about.iter().for_each(|line| show(&format!("{}\n", visible(line))));
    for (number, row) in rows.iter().take(SHOWN).enumerate() {
        show(&format!("  {}. {}\n", number + 1, visible(&row.columns.join("  "))));
    }
    match rows.len() {
        0 => show("  Nothing found.\n"),
        all if all > SHOWN => show(&format!("  ... and {} more\n", all - SHOWN)),
        _ => {}
    }
    choice.foot.iter().for_each(|line| show(&format!("{}\n", visible(line))));
}

fn question(choice: &Choice, rows: &[&ChoiceRow]) -> String {
    let letters =
        choice.letters.iter().map(|letter| format!(", {}: {}", spoken(letter.letter), letter.about));
    let more = if rows.iter().any(|row| !row.preview.is_empty()) { ", ? and a number: more" } else { "" };
    let words = if choice.manner.numbered { "" } else { ", words: search" };
    format!("Answer (number, empty: none{words}{more}{}): ", letters.collect::<String>())
}

/// How a letter is typed here.
fn spoken(letter: char) -> String {
    match letter {
        TAB => "tab".to_owned(),
        RESET => "reset".to_owned(),
        LEFT => "<".to_owned(),
        RIGHT => ">".to_owned(),
        ' ' => "space".to_owned(),
        letter => letter.to_string(),
    }
}

/// The word and the number of an answer such as `x 3`, `x3` or `3`.
fn split(answer: &str) -> (&str, Option<usize>) {
    let word = answer.trim_end_matches(|last: char| last.is_ascii_digit());
    let number = answer.strip_prefix(word).and_then(|digits| digits.parse().ok());
    (word.trim(), number)
}

/// Every word must be somewhere in the row.
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
