//! Lists to choose from, and what a person does with them.

use pollux_tui::dialog::Manner;
use pollux_tui::theme::Theme;

/// Something to choose from.
#[derive(Debug, Clone, Default)]
pub(super) struct Choice {
    pub(super) title: String,
    /// Words beside the title.
    pub(super) note: String,
    /// Lines above the list: what it is about.
    pub(super) about: Vec<String>,
    pub(super) headings: Vec<&'static str>,
    pub(super) rows: Vec<ChoiceRow>,
    /// Letters that do something with a row. A grave one must be pressed twice.
    pub(super) letters: Vec<Letter>,
    /// The key of the row that is marked at first.
    pub(super) marked: Option<String>,
    /// Lines below the list.
    pub(super) foot: Vec<String>,
    /// What the keys do, if not in the usual words.
    pub(super) hint: Option<String>,
    pub(super) manner: Manner,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ChoiceRow {
    /// What the program knows it by.
    pub(super) key: String,
    pub(super) columns: Vec<String>,
    /// More about it.
    pub(super) preview: Vec<String>,
    /// Colours of which a sample is shown.
    pub(super) sample: Option<Box<Theme>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    pub(super) letter: char,
    pub(super) about: &'static str,
    pub(super) grave: bool,
}

/// What was chosen: a row, and the letter if it was not Enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) key: String,
    pub(super) letter: Option<char>,
}

/// What the person did with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListEvent {
    Chosen(Chosen),
    /// Another row is marked. Never told where rows cannot be marked.
    Marked(String),
    /// No row has these words.
    Searched(String),
}

impl Choice {
    /// A short list with numbers: keys and what stands in the rows.
    pub(super) fn of<K: Into<String>, T: Into<String>>(
        title: &str,
        rows: impl IntoIterator<Item = (K, T)>,
    ) -> Self {
        let rows = rows.into_iter().map(|(key, text)| ChoiceRow {
            key: key.into(),
            columns: vec![text.into()],
            ..ChoiceRow::default()
        });
        let manner = Manner { numbered: true, ..Manner::default() };
        Self { title: title.to_owned(), rows: rows.collect(), manner, ..Self::default() }
    }
}
