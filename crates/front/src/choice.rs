//! Lists that a command shows, and the person's choices.
//!
//! A command builds a [`Choice`]; a front end shows it and answers with [`ListEvent`]s. How a list is drawn or typed is up
//! to the front end.

/// A list to choose from.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub title: String,
    /// Shown after the title.
    pub note: String,
    /// Lines above the list.
    pub about: Vec<String>,
    pub headings: Vec<&'static str>,
    pub rows: Vec<ChoiceRow>,
    /// Keys that act on a row.
    pub actions: Vec<RowAction>,
    /// The key of the row that is marked at first.
    pub marked: Option<String>,
    /// Lines below the list.
    pub foot: Vec<String>,
    /// The keys and their effect, where the default line does not fit.
    pub hint: Option<String>,
    pub options: ListOptions,
}

/// How a list behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// The title includes the number of rows.
    pub counted: bool,
    /// Rows have numbers, and a digit chooses.
    pub numbered: bool,
    /// The list stays after a choice, until [`FrontEnd::close`](crate::front_end::FrontEnd::close).
    pub stays_open: bool,
    /// Typing searches at once.
    pub type_to_search: bool,
    /// Columns that a narrow screen omits, in this order.
    pub optional_columns: &'static [usize],
    /// The person did not ask for the list, so keys meant for the prompt must not answer it.
    pub unrequested: bool,
}

/// A row of a list.
#[derive(Debug, Clone, Default)]
pub struct ChoiceRow {
    /// Identifies the row to the command.
    pub key: String,
    pub columns: Vec<String>,
    /// Details, shown while the row is marked.
    pub preview: Vec<String>,
    /// The theme to show a sample of; see [`FrontEnd::load_themes`](crate::front_end::FrontEnd::load_themes).
    pub sample_theme: Option<String>,
}

/// A key other than Enter that acts on the marked row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKey {
    Char(char),
    Tab,
    /// Ctrl+L.
    Reset,
    Left,
    Right,
}

/// An action of a list and its key.
#[derive(Debug, Clone, Copy)]
pub struct RowAction {
    pub key: ListKey,
    pub about: &'static str,
    /// The action needs a second key press or a yes.
    pub confirm: bool,
}

/// The chosen row, and the key if it was not Enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub key: String,
    pub action: Option<ListKey>,
}

/// Something the person did with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEvent {
    Chosen(Chosen),
    /// Another row is marked. Sent only by front ends that mark rows.
    Marked(String),
    /// No row contains these words.
    Searched(String),
}

impl Choice {
    /// A short numbered list of keys and labels.
    pub fn of<K: Into<String>, T: Into<String>>(title: &str, rows: impl IntoIterator<Item = (K, T)>) -> Self {
        let rows = rows.into_iter().map(|(key, text)| ChoiceRow {
            key: key.into(),
            columns: vec![text.into()],
            ..ChoiceRow::default()
        });
        let options = ListOptions { numbered: true, ..ListOptions::default() };
        Self { title: title.to_owned(), rows: rows.collect(), options, ..Self::default() }
    }
}
