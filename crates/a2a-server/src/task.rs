//! One task in this process: its record, its recent updates, and who waits for more.

pub(crate) mod history;
mod kept;
pub(crate) mod pieces;
pub(crate) mod record;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use pollux_a2a::protocol::Update;
use pollux_blobs::Version;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::command::{CommandCount, SessionLink};
use crate::store::StoredTask;
use crate::store::events::Cursor;
use crate::store::lease::Holding;

use self::record::Record;

/// Updates that are kept for late subscribers, and their size in bytes.
const MAX_UPDATES: usize = 4_096;
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A task.
pub(crate) struct Task {
    pub(crate) id: String,
    state: RefCell<State>,
    /// The number of the last update.
    news: watch::Sender<u64>,
    /// Held while the task changes hands: a message is delivered, a lease taken or given up.
    pub(crate) gate: tokio::sync::Mutex<()>,
    /// Updates of another server are being read.
    pub(crate) is_followed: Cell<bool>,
    /// Messages were put into its inbox, and someone sees to it that they are acted on.
    pub(crate) has_mail: Cell<bool>,
    pub(crate) is_delivering: Cell<bool>,
    /// When this server gave it up last.
    pub(crate) given_up: Cell<Option<Instant>>,
    /// How often everything was replaced. Numbers of updates before and after may be equal.
    pub(crate) replaced: Cell<u64>,
}

struct State {
    record: Record,
    log: VecDeque<Numbered>,
    bytes: usize,
    session: Option<SessionLink>,
    /// Fired when the session that was open before has freed everything.
    ending: Option<CancellationToken>,
    holding: Option<Rc<Holding>>,
    /// The version of the record in the store, and the last batch of events that it includes.
    stored: Option<Version>,
    cursor: Cursor,
    /// It may hold updates that no other server has seen, and that never happened therefore.
    is_outdated: bool,
}

/// An update with its number.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) update: Rc<Update>,
    size: usize,
}

impl Task {
    pub(crate) fn new(record: Record, stored: Option<Version>, cursor: Cursor) -> Rc<Self> {
        Rc::new(Self {
            id: record.id.clone(),
            news: watch::Sender::new(record.last),
            state: RefCell::new(State {
                record,
                log: VecDeque::new(),
                bytes: 0,
                session: None,
                ending: None,
                holding: None,
                stored,
                cursor,
                is_outdated: false,
            }),
            gate: tokio::sync::Mutex::new(()),
            is_followed: Cell::new(false),
            has_mail: Cell::new(false),
            is_delivering: Cell::new(false),
            given_up: Cell::new(None),
            replaced: Cell::new(0),
        })
    }

    /// Reads the record.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Record) -> T) -> T {
        read(&self.state.borrow().record)
    }

    /// Changes the record without telling anyone.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(&mut self.state.borrow_mut().record)
    }

    /// Takes an update in and tells everyone who waits. Returns its number.
    pub(crate) fn publish(&self, update: Update) -> Numbered {
        let numbered = self.take(update);
        self.announce();
        numbered
    }

    /// Takes an update in; [`Task::announce`] tells it.
    pub(crate) fn take(&self, update: Update) -> Numbered {
        let mut state = self.state.borrow_mut();
        state.record.apply(&update);
        state.record.last = state.record.last.saturating_add(1);
        let size = record::size(&update);
        let numbered = Numbered { number: state.record.last, update: Rc::new(update), size };
        state.bytes += size;
        state.log.push_back(numbered.clone());
        while state.log.len() > MAX_UPDATES || state.bytes > MAX_BYTES {
            let Some(oldest) = state.log.pop_front() else { break };
            state.bytes -= oldest.size;
        }
        numbered
    }

    /// Tells everyone who waits.
    pub(crate) fn announce(&self) {
        self.news.send_replace(self.last());
    }

    /// The updates after this number; `None` if some of them are no longer kept, or were taken back.
    pub(crate) fn after(&self, number: u64) -> Option<Vec<Numbered>> {
        let state = self.state.borrow();
        let missing = state.record.last.checked_sub(number)?;
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        let start = state.log.len().checked_sub(missing)?;
        Some(state.log.range(start..).cloned().collect())
    }

    /// The number of the last update.
    pub(crate) fn last(&self) -> u64 {
        self.state.borrow().record.last
    }

    /// Told with every update.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Whether someone waits for updates.
    pub(crate) fn is_watched(&self) -> bool {
        self.news.receiver_count() > 0
    }

    /// Takes over what another server stored; true if updates before it were missed.
    ///
    /// `known` is the stored version when the reading began: a task that this server took or wrote meanwhile is newer
    /// than what was read.
    pub(crate) fn catch_up(&self, read: StoredTask, known: Option<&Version>) -> bool {
        let StoredTask { record, version, cursor } = read;
        let stored = self.stored();
        if self.holding().is_some() || stored.as_ref() != known || stored.as_ref() == Some(&version) {
            return false;
        }
        let is_ahead = self.is_outdated() || record.last > self.last() || self.after(record.last).is_none();
        if is_ahead {
            self.replace(record, version, cursor)
        } else {
            self.adopt(record, version, cursor)
        }
        is_ahead
    }

    /// Another server has the task: only what is in the store happened.
    pub(crate) fn outdate(&self) {
        let mut state = self.state.borrow_mut();
        state.stored = None;
        state.is_outdated = true;
    }

    pub(crate) fn is_outdated(&self) -> bool {
        self.state.borrow().is_outdated
    }

    /// Replaces everything; streams continue with the task as it is.
    fn replace(&self, mut record: Record, version: Version, cursor: Cursor) {
        let last = record.last;
        {
            let mut state = self.state.borrow_mut();
            record.keep_read(&state.record);
            state.record = record;
            state.log.clear();
            state.bytes = 0;
            state.stored = Some(version);
            state.cursor = cursor;
            state.is_outdated = false;
        }
        self.replaced.set(self.replaced.get() + 1);
        self.news.send_replace(last);
    }

    /// Takes over what updates do not tell, and adds the updates since.
    fn adopt(&self, mut record: Record, version: Version, cursor: Cursor) {
        let later = self.after(record.last).unwrap_or_default();
        let mut state = self.state.borrow_mut();
        record.keep_read(&state.record);
        for numbered in later {
            record.apply(&numbered.update);
            record.last = numbered.number;
        }
        state.record = record;
        state.stored = Some(version);
        state.cursor = state.cursor.max(cursor);
        drop(state);
        // Someone may wait for what no update tells, such as a message that was seen.
        self.announce();
    }

    pub(crate) fn stored(&self) -> Option<Version> {
        self.state.borrow().stored.clone()
    }

    pub(crate) fn set_stored(&self, version: Version) {
        self.state.borrow_mut().stored = Some(version);
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.state.borrow().cursor
    }

    pub(crate) fn set_cursor(&self, cursor: Cursor) {
        self.state.borrow_mut().cursor = cursor;
    }

    pub(crate) fn session(&self) -> Option<SessionLink> {
        self.state.borrow().session.clone()
    }

    pub(crate) fn set_session(&self, session: SessionLink) {
        let mut state = self.state.borrow_mut();
        if let Some(old) = state.session.replace(session) {
            state.ending = Some(old.over);
        }
    }

    /// A session takes no more commands. The one that has followed it meanwhile is not touched.
    pub(crate) fn end_session(&self, of: &CommandCount) {
        {
            let mut state = self.state.borrow_mut();
            let Some(link) = state.session.take_if(|link| link.is_same(of)) else { return };
            state.ending = Some(link.over);
        }
        // Requests wait for commands that are gone now.
        self.announce();
    }

    /// Fired when the session before has ended, if there was one.
    pub(crate) fn ending(&self) -> Option<CancellationToken> {
        self.state.borrow().ending.clone()
    }

    /// Whether the session has commands to take.
    pub(crate) fn has_commands(&self) -> bool {
        self.session().is_some_and(|link| !link.waiting().is_empty())
    }

    pub(crate) fn holding(&self) -> Option<Rc<Holding>> {
        self.state.borrow().holding.clone()
    }

    pub(crate) fn set_holding(&self, holding: Option<Rc<Holding>>) {
        self.state.borrow_mut().holding = holding;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Guard;
    use pollux_a2a::protocol::{Message, Part, Role, TaskState};
    use pollux_domain::JsonObject;

    fn record(state: TaskState) -> Record {
        let mut record = Record::new("task", "context", "owner");
        record.state = state;
        record
    }

    fn read(state: TaskState, version: &str) -> StoredTask {
        StoredTask { record: record(state), version: Version::new(version), cursor: Cursor::default() }
    }

    #[test]
    fn what_was_read_before_the_task_changed_is_dropped() {
        let known = Version::new("1");
        let task = Task::new(record(TaskState::InputRequired), Some(known.clone()), Cursor::default());
        task.change(|record| record.state = TaskState::Working);
        task.set_stored(Version::new("2"));
        assert!(!task.catch_up(read(TaskState::InputRequired, "1"), Some(&known)));
        assert_eq!(task.read(|record| record.state), TaskState::Working);
        assert_eq!(task.stored(), Some(Version::new("2")));

        let known = task.stored();
        assert!(!task.catch_up(read(TaskState::Canceled, "3"), known.as_ref()));
        assert_eq!(task.read(|record| record.state), TaskState::Canceled, "what is newer counts");
        assert_eq!(task.stored(), Some(Version::new("3")));
    }

    #[test]
    fn a_record_that_is_older_than_the_updates_shows_each_message_once() {
        let says = |id: &str, role: Role| Message {
            id: id.to_owned(),
            ids: record(TaskState::Working).ids(),
            role,
            parts: vec![Part::text(id)],
            metadata: JsonObject::new(),
        };
        let texts = |task: &Task| task.read(|record| record.view(None, true).history);
        let task = Task::new(record(TaskState::Working), Some(Version::new("1")), Cursor::default());
        let mut stored = read(TaskState::Working, "2");
        for number in 1..=20 {
            let said = says(&format!("a{number}"), Role::Agent);
            stored.record.history.append(&said);
            task.publish(Update::Message(said));
        }
        // Its holder has moved all of them into a block, which was not read here, and took messages of clients.
        stored.record.last = 20;
        let asked: Vec<Message> = (1..=4).map(|number| says(&format!("u{number}"), Role::User)).collect();
        asked.iter().for_each(|message| stored.record.history.append(message));
        let block = stored.record.history.next_block();
        stored.record.history.move_into("block", block).unwrap();
        stored.record.history.forget_blocks();
        task.publish(Update::Message(says("a21", Role::Agent)));
        assert!(!task.catch_up(stored, task.stored().as_ref()));
        let expected = [&asked[..], &[says("a21", Role::Agent)]].concat();
        assert_eq!(texts(&task), expected);
        assert_eq!(
            (task.last(), task.read(|record| record.history.unread(None))),
            (21, Some("block".to_owned()))
        );
    }

    #[test]
    fn updates_that_were_not_written_before_the_lease_was_lost_never_happened() {
        let task = Task::new(record(TaskState::Working), Some(Version::new("1")), Cursor::default());
        task.change(|record| record.last = 9);
        task.outdate();
        let mut other = read(TaskState::InputRequired, "2");
        other.record.last = 5;
        assert!(task.catch_up(other, None));
        assert_eq!(task.read(|record| (record.state, record.last)), (TaskState::InputRequired, 5));
        assert!(task.after(9).is_none(), "a stream that was further continues with the task");
        assert_eq!(task.replaced.get(), 1, "and one that was as far");
        assert!(!task.is_outdated());
    }

    #[tokio::test]
    async fn a_task_that_this_server_holds_is_never_replaced() {
        let task = Task::new(record(TaskState::Working), None, Cursor::default());
        task.set_holding(Some(Rc::new(Holding::new(1, Version::new("1"), Guard::open()))));
        let mut ahead = read(TaskState::Canceled, "9");
        ahead.record.last = 7;
        assert!(!task.catch_up(ahead, None));
        assert_eq!(task.read(|record| record.state), TaskState::Working);
    }
}
