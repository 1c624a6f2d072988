//! Figures that a front end shows as a whole, such as the statistics of a session.
//!
//! A command builds a [`Panel`]; the screen draws it as a box, plain lines print [`Panel::words`]. It holds no colours and
//! no layout.

/// Figures under a title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Panel {
    pub title: String,
    pub rows: Vec<PanelRow>,
}

/// A part of a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PanelRow {
    Blank,
    Heading(String),
    /// A label and its value.
    Pair(String, String),
    /// The first row holds the headings; the other columns are aligned right.
    Table(Vec<Vec<String>>),
    /// Bars: label, length, and the text after the bar.
    Bars(Vec<(String, u64, String)>),
    Text(String),
}

impl Panel {
    /// The panel as plain lines, for front ends that do not draw.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![self.title.clone()];
        for row in &self.rows {
            match row {
                PanelRow::Blank => words.push(String::new()),
                PanelRow::Heading(text) | PanelRow::Text(text) => words.push(text.clone()),
                PanelRow::Pair(name, value) => {
                    words.push(format!("{} {value}", name.trim_start_matches([' ', '»'])));
                }
                PanelRow::Table(rows) => {
                    let Some((headings, rows)) = rows.split_first() else { continue };
                    words.extend(rows.iter().map(|row| {
                        let cells = headings.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
                        cells
                            .map(|(heading, cell)| format!("{heading}: {cell}"))
                            .collect::<Vec<_>>()
                            .join(", ")
                    }));
                }
                PanelRow::Bars(bars) => {
                    words.extend(bars.iter().map(|(name, _, text)| format!("{name}: {text}")));
                }
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_every_figure() {
        let table = vec![vec!["Model".to_owned(), "Reqs".to_owned()], vec!["pro".to_owned(), "3".to_owned()]];
        let rows = vec![
            PanelRow::Heading("Usage".to_owned()),
            PanelRow::Pair("  » API Time:".to_owned(), "1s".to_owned()),
            PanelRow::Table(table),
            PanelRow::Bars(vec![("1".to_owned(), 7, "7 tokens".to_owned())]),
        ];
        let panel = Panel { title: "Stats".to_owned(), rows };
        assert_eq!(panel.words(), ["Stats", "Usage", "API Time: 1s", "Model: pro, Reqs: 3", "1: 7 tokens"]);
    }
}
