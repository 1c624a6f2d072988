//! `/resume` and `/chat` without arguments: browse earlier sessions.

use std::cmp::Reverse;
use std::collections::HashMap;

use pollux_host::request::Resumed;
use pollux_host::{Freshness, StoredChat, StoredChats, stored_chats};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::{CommandOutcome, Reopen};
use crate::Front;
use crate::choice::{Choice, ChoiceRow, Chosen, ListEvent, ListKey, ListOptions, RowAction};

const HINT: &str = "↑/↓ move · Enter resume · / search · x delete · s sort · r reverse · a other projects · g/G ends · q close";

const ACTIONS: &[RowAction] = &[
    RowAction { key: ListKey::Char('x'), about: "delete the session", confirm: true },
    RowAction { key: ListKey::Char('s'), about: "change the sort order", confirm: false },
    RowAction { key: ListKey::Char('r'), about: "reverse the order", confirm: false },
    RowAction { key: ListKey::Char('a'), about: "toggle other projects", confirm: false },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Date,
    Messages,
    Name,
}

/// Results of background reads.
enum ReadResult {
    Rows { all: bool, rows: Vec<StoredChat> },
    Preview { key: String, lines: Vec<String> },
    Hits { words: String, hits: Vec<(String, String)> },
}

/// Results that may wait to be shown; further reads block.
const WAITING_RESULTS: usize = 16;

/// The browser while it is open.
struct Browser {
    chats: StoredChats,
    rows: Vec<StoredChat>,
    order: Order,
    ascending: bool,
    all: bool,
    /// The rows may be incomplete.
    reading: bool,
    /// The row that is marked.
    marked: Option<String>,
    /// The row whose preview is being read.
    previewed: Option<String>,
    /// Previews that were read before.
    previews: HashMap<String, Vec<String>>,
    /// The current session.
    present: String,
    tell: mpsc::Sender<ReadResult>,
}

impl Front<'_, '_> {
    /// Shows earlier sessions and resumes the chosen one.
    pub(super) async fn browse(&mut self) -> CommandOutcome {
        let (tell, mut results) = mpsc::channel(WAITING_RESULTS);
        let present = self.turn.session.id.to_string();
        let mut browser = Browser::new(stored_chats(self.turn.loaded), present, tell);
        // Plain lines are not redrawn, so they wait for the complete list.
        let on_screen = self.ui.is_screen();
        browser.load(if on_screen { Freshness::AsKnown } else { Freshness::UpToDate }).await;
        if on_screen {
            browser.refresh();
            browser.preview();
        }
        self.ui.present(browser.choice(browser.marked.clone()));
        loop {
            tokio::select! {
                biased;
                event = self.ui.list_event() => match event {
                    None => return CommandOutcome::Continue,
                    Some(ListEvent::Marked(key)) => {
                        browser.marked = Some(key);
                        browser.preview();
                    }
                    Some(ListEvent::Searched(words)) => browser.search(words),
                    Some(ListEvent::Chosen(Chosen { action: Some(action), key })) => {
                        self.changed(action, key, &mut browser).await;
                    }
                    Some(ListEvent::Chosen(Chosen { action: None, key })) => {
                        if let Some(chat) = browser.rows.iter().find(|chat| chat.id == key).cloned() {
                            return self.resume_chat(&chat).await;
                        }
                    }
                },
                Some(found) = results.recv() => self.apply_result(found, &mut browser),
            }
        }
    }

    /// Applies the action of a key.
    async fn changed(&mut self, action: ListKey, key: String, browser: &mut Browser) {
        browser.marked = Some(key.clone());
        match action {
            ListKey::Char('x') if key == browser.present => {
                self.ui.error("Cannot delete the current session.")
            }
            ListKey::Char('x') => {
                let chats = browser.chats.clone();
                let id = key.clone();
                match spawn_blocking(move || chats.delete(&id)).await {
                    Ok(Ok(done)) => {
                        browser.drop(&key);
                        browser.preview();
                        self.ui.note(&done);
                    }
                    Ok(Err(problem)) => self.ui.error(&problem),
                    Err(error) => self.ui.error(&error.to_string()),
                }
            }
            ListKey::Char('s') => {
                browser.order = match browser.order {
                    Order::Date => Order::Messages,
                    Order::Messages => Order::Name,
                    Order::Name => Order::Date,
                };
                browser.ascending = browser.order == Order::Name;
                browser.sort();
            }
            ListKey::Char('r') => {
                browser.ascending = !browser.ascending;
                browser.sort();
            }
            _ => {
                browser.all = !browser.all;
                browser
                    .load(if self.ui.is_screen() { Freshness::AsKnown } else { Freshness::UpToDate })
                    .await;
                if self.ui.is_screen() {
                    browser.refresh();
                }
            }
        }
        self.ui.present(browser.choice(browser.marked.clone()));
    }

    fn apply_result(&mut self, result: ReadResult, browser: &mut Browser) {
        match result {
            ReadResult::Rows { all, rows } if all == browser.all => {
                browser.rows = rows;
                browser.reading = false;
                browser.sort();
                self.ui.present(browser.choice(browser.marked.clone()));
                browser.preview();
            }
            ReadResult::Rows { .. } => {}
            ReadResult::Preview { key, lines } => {
                browser.previewed = None;
                browser.previews.insert(key.clone(), lines.clone());
                let is_marked = browser.marked.as_ref() == Some(&key);
                self.ui.show_preview(key, lines);
                if !is_marked {
                    browser.preview();
                }
            }
            ReadResult::Hits { words, hits } => self.ui.show_hits(words, hits),
        }
    }

    /// Resumes a session. One of another project is copied to this one after a question.
    async fn resume_chat(&mut self, chat: &StoredChat) -> CommandOutcome {
        if self.turn.session.id.as_str() == chat.id {
            self.ui.note("Already in this session.");
            return CommandOutcome::Continue;
        }
        if let Err(problem) = self.turn.check_session(&chat.file) {
            self.ui.error(&problem);
            return CommandOutcome::Continue;
        }
        if !chat.here && !self.copies(chat).await {
            return CommandOutcome::Continue;
        }
        let note = match chat.here {
            true => format!("Resuming session {}.", chat.id),
            false => format!("From {}.", chat.project),
        };
        let session = Resumed {
            which: chat.id.clone(),
            all_projects: !chat.here,
            fork: !chat.here,
            ..Resumed::default()
        };
        CommandOutcome::Reopen(Reopen { session: Some(session), note, ..Reopen::default() })
    }

    async fn copies(&mut self, chat: &StoredChat) -> bool {
        let rows = [("copy", "Resume a copy in this project"), ("leave", "Cancel")];
        let mut choice = Choice::of("This session belongs to another project.", rows);
        let folder = if chat.project.is_empty() { "unknown folder" } else { chat.project.as_str() };
        choice.about = vec![
            format!("Project: {folder}"),
            format!("To resume it there: cd {folder:?} && pollux --resume {}", chat.id),
        ];
        self.ui.choose(choice).await.is_some_and(|chosen| chosen.key == "copy")
    }
}

impl Browser {
    fn new(chats: StoredChats, present: String, tell: mpsc::Sender<ReadResult>) -> Self {
        Self {
            chats,
            rows: Vec::new(),
            order: Order::Date,
            ascending: false,
            all: false,
            reading: false,
            marked: None,
            previewed: None,
            previews: HashMap::new(),
            present,
            tell,
        }
    }

    async fn load(&mut self, freshness: Freshness) {
        let (chats, all) = (self.chats.clone(), self.all);
        self.rows = spawn_blocking(move || chats.rows(all, freshness)).await.unwrap_or_default();
        self.sort();
        if self.marked.is_none() {
            self.marked = self.rows.first().map(|chat| chat.id.clone());
        }
    }

    /// Removes a row and marks the next one.
    fn drop(&mut self, id: &str) {
        let place = self.rows.iter().position(|chat| chat.id == id).unwrap_or_default();
        self.rows.retain(|chat| chat.id != id);
        let next = self.rows.get(place).or_else(|| self.rows.last());
        self.marked = next.map(|chat| chat.id.clone());
    }

    /// Reads changes since the index was written.
    fn refresh(&mut self) {
        self.reading = true;
        let (chats, all, tell) = (self.chats.clone(), self.all, self.tell.clone());
        spawn_blocking(move || {
            tell.blocking_send(ReadResult::Rows { all, rows: chats.rows(all, Freshness::UpToDate) })
        });
    }

    /// Reads the first and last messages of the marked row; one file at a time.
    fn preview(&mut self) {
        if self.previewed.is_some() {
            return;
        }
        let marked = self.rows.iter().find(|chat| self.marked.as_ref() == Some(&chat.id));
        let unread = marked.filter(|chat| !self.previews.contains_key(&chat.id));
        if let Some((key, file)) = unread.map(|chat| (chat.id.clone(), chat.file.clone())) {
            self.previewed = Some(key.clone());
            let tell = self.tell.clone();
            spawn_blocking(move || {
                tell.blocking_send(ReadResult::Preview { key, lines: StoredChats::preview(&file) })
            });
        }
    }

    fn search(&self, words: String) {
        let (chats, all, tell) = (self.chats.clone(), self.all, self.tell.clone());
        spawn_blocking(move || {
            let hits = chats.search(&words, all);
            tell.blocking_send(ReadResult::Hits { words, hits })
        });
    }

    fn sort(&mut self) {
        match self.order {
            Order::Date => self.rows.sort_by_key(|chat| chat.updated),
            Order::Messages => self.rows.sort_by_key(|chat| chat.messages),
            Order::Name => {
                self.rows.sort_by_cached_key(|chat| (chat.title.to_lowercase(), Reverse(chat.updated)))
            }
        }
        if !self.ascending {
            self.rows.reverse();
        }
    }

    fn choice(&self, marked: Option<String>) -> Choice {
        let order = match self.order {
            Order::Date => "date",
            Order::Messages => "messages",
            Order::Name => "name",
        };
        let direction = if self.ascending { "asc" } else { "desc" };
        let reading = if self.reading { " · reading…" } else { "" };
        let rows = self.rows.iter().map(|chat| {
            let place = if chat.here { String::new() } else { format!("{} · ", folder(&chat.project)) };
            let present = if chat.id == self.present { " (current)" } else { "" };
            ChoiceRow {
                key: chat.id.clone(),
                columns: vec![
                    chat.number.map(|number| format!("#{number}")).unwrap_or_default(),
                    chat.messages.to_string(),
                    chat.age.clone(),
                    format!("{place}{}{present}", chat.title),
                ],
                preview: match self.previews.get(&chat.id) {
                    Some(lines) => lines.clone(),
                    None => vec![format!("> {}", chat.first)],
                },
                ..ChoiceRow::default()
            }
        });
        Choice {
            title: "Chat Sessions".to_owned(),
            note: format!("sorted by {order} {direction}{reading}"),
            headings: vec!["Index", "Msgs", "Age", "Name"],
            rows: rows.collect(),
            actions: ACTIONS.to_vec(),
            marked,
            hint: Some(HINT.to_owned()),
            // A narrow list shows ages and names.
            options: ListOptions { counted: true, optional_columns: &[1, 0], ..ListOptions::default() },
            ..Choice::default()
        }
    }
}

/// The last part of a path, or that it is not known.
fn folder(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("unknown project")
}
