//! A list of suggestions: which is selected and which are seen.

/// Rows of suggestions; must equal upstream's.
pub(crate) const MOST_ROWS: usize = 8;

/// One suggestion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// The inserted text: a command name without `/`, or an unescaped path.
    pub insert: String,
    pub label: String,
    pub description: String,
    /// Enter runs it at once (a command without arguments).
    pub run: bool,
    /// A path: Enter sends what was typed, unless it was chosen.
    pub path: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Popup {
    items: Vec<Item>,
    selected: usize,
    top: usize,
    /// Whether the person chose, so that Enter means the choice.
    pub(crate) chosen: bool,
    /// A line below the suggestions.
    pub(crate) note: &'static str,
}

impl Popup {
    pub(crate) fn new(items: Vec<Item>) -> Self {
        Self { items, ..Self::default() }
    }

    /// Replaces the suggestions; the selection stays if it is among them.
    pub(crate) fn replace(&mut self, items: Vec<Item>) {
        let chosen = self.selected().filter(|_| self.chosen).map(|item| item.insert.clone());
        let at = chosen.and_then(|chosen| items.iter().position(|item| item.insert == chosen));
        *self = Self::new(items);
        if let Some(at) = at {
            self.select(at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn index(&self) -> usize {
        self.selected
    }

    pub(crate) fn selected(&self) -> Option<&Item> {
        self.items.get(self.selected)
    }

    /// The next one, and the first after the last.
    pub(crate) fn next(&mut self) {
        self.select(if self.selected + 1 < self.items.len() { self.selected + 1 } else { 0 });
    }

    pub(crate) fn previous(&mut self) {
        self.select(self.selected.checked_sub(1).unwrap_or(self.items.len().saturating_sub(1)));
    }

    fn select(&mut self, index: usize) {
        self.chosen = true;
        self.selected = index;
        self.top = self.top.clamp((index + 1).saturating_sub(MOST_ROWS), index);
    }

    /// Removes suggestions that no longer match; selects the first.
    pub(crate) fn retain(&mut self, fits: impl Fn(&Item) -> bool) {
        let before = self.items.len();
        self.items.retain(fits);
        if self.items.len() < before {
            (self.selected, self.top, self.chosen) = (0, 0, false);
        }
    }

    /// The visible suggestions, each with whether it is selected.
    pub(crate) fn seen(&self) -> impl Iterator<Item = (&Item, bool)> {
        self.items
            .iter()
            .enumerate()
            .skip(self.top)
            .take(MOST_ROWS)
            .map(|(index, item)| (item, index == self.selected))
    }

    /// `▲▼ (3/20)` when not all are seen.
    pub(crate) fn counter(&self) -> Option<String> {
        if self.items.len() <= MOST_ROWS {
            return None;
        }
        let up = if self.top > 0 { "▲" } else { "" };
        let down = if self.top + MOST_ROWS < self.items.len() { "▼" } else { "" };
        Some(format!("{up}{down} ({}/{})", self.selected + 1, self.items.len()))
    }

    pub(crate) fn height(&self) -> usize {
        let below = usize::from(self.items.len() > MOST_ROWS) + usize::from(!self.note.is_empty());
        self.items.len().min(MOST_ROWS) + below
    }
}
