//! The tasks of an owner, newest first.
//!
//! The name of an index object says everything that lists select by, so that only the tasks of a page are read.

use std::collections::HashSet;

use pollux_a2a::protocol::TaskState;
use pollux_blobs::Condition;
use pollux_domain::time::Timestamp;

use super::{TaskStore, is_task_id, key, prefix};
use crate::access::short_digest;
use crate::error::A2aError;
use crate::task::record::Record;

/// Greater than every time, in milliseconds.
const END_OF_TIME: i64 = 9_999_999_999_999;

/// Tasks at work that are counted.
const MAX_WORKING: usize = 10_000;

/// Characters of the digest of a context.
const DIGEST: usize = 12;

const LETTERS: &[(TaskState, char)] = &[
    (TaskState::Submitted, 's'),
    (TaskState::Working, 'w'),
    (TaskState::Completed, 'c'),
    (TaskState::Failed, 'f'),
    (TaskState::Canceled, 'x'),
    (TaskState::Rejected, 'r'),
    (TaskState::InputRequired, 'i'),
    (TaskState::AuthRequired, 'a'),
];

/// What a list selects.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListQuery {
    pub(crate) context: Option<String>,
    pub(crate) state: Option<TaskState>,
    /// Only tasks whose status is newer.
    pub(crate) after: Option<Timestamp>,
    pub(crate) size: usize,
    /// The last name of the page before.
    pub(crate) token: Option<String>,
}

/// A page of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) tasks: Vec<String>,
    /// Of the next page; none at the end.
    pub(crate) token: Option<String>,
    pub(crate) total: usize,
}

/// The name of a task in the index.
fn name(record: &Record) -> String {
    let time = Timestamp::parse(&record.updated).map_or(0, Timestamp::millis);
    let inverse = (END_OF_TIME - time).max(0);
    // A task with a message is at work before its record is written again.
    let state = match record.state {
        TaskState::Submitted if !record.history.is_empty() => TaskState::Working,
        state => state,
    };
    let letter = LETTERS.iter().find(|(known, _)| *known == state).map_or('w', |(_, letter)| *letter);
    format!("{inverse:013}-{letter}-{}-{}", context_digest(&record.context), record.id)
}

/// Whether a client may have got this as the token of a page: the name of an entry.
pub(crate) fn is_page_token(token: &str) -> bool {
    let fields: Vec<&str> = token.splitn(4, '-').collect();
    let [time, letter, context, id] = fields.as_slice() else { return false };
    let is_number = time.len() == 13 && time.bytes().all(|byte| byte.is_ascii_digit());
    let is_letter = LETTERS.iter().any(|(_, known)| letter.chars().eq([*known]));
    let is_digest = context.len() == DIGEST && context.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_number && is_letter && is_digest && is_task_id(id)
}

fn context_digest(context: &str) -> String {
    short_digest(context).chars().take(DIGEST).collect()
}

impl ListQuery {
    fn selects(&self, name: &str) -> bool {
        let mut fields = name.splitn(4, '-');
        let (Some(time), Some(letter), Some(context)) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        let time = END_OF_TIME - time.parse().unwrap_or(END_OF_TIME);
        let state = LETTERS.iter().find(|(_, known)| letter.starts_with(*known)).map(|(state, _)| *state);
        self.after.is_none_or(|after| time > after.millis())
            && self.state.is_none_or(|wanted| state == Some(wanted))
            && self.context.as_deref().is_none_or(|wanted| context_digest(wanted) == context)
    }
}

impl TaskStore {
    /// Puts a task where lists find it in its present state; gives the entry that it replaces. That one is removed when
    /// the record is stored, or this one if it is not: two of them would be listed twice.
    pub(crate) async fn index(&self, record: &mut Record) -> Result<Option<String>, A2aError> {
        let name = name(record);
        let old = record.indexed.replace(name.clone());
        if old.as_deref() == Some(&name) {
            return Ok(None);
        }
        self.blobs.put(&key(&format!("owners/{}/{name}", record.owner))?, b"", Condition::Any).await?;
        Ok(old)
    }

    /// Removes an entry.
    pub(crate) async fn unindex(&self, owner: &str, name: &str) -> Result<(), A2aError> {
        Ok(self.blobs.delete(&key(&format!("owners/{owner}/{name}"))?, Condition::Any).await?)
    }

    /// The tasks of an owner that are at work.
    pub(crate) async fn working(&self, owner: &str) -> Result<HashSet<String>, A2aError> {
        let query = ListQuery { state: Some(TaskState::Working), size: MAX_WORKING, ..ListQuery::default() };
        Ok(self.list(owner, &query).await?.tasks.into_iter().collect())
    }

    /// A page of an owner's tasks.
    pub(crate) async fn list(&self, owner: &str, query: &ListQuery) -> Result<Listed, A2aError> {
        let folder = format!("owners/{owner}/");
        let (mut listed, mut after) = (Listed::default(), None);
        let (mut last, mut known) = (None, HashSet::new());
        loop {
            let page = self.blobs.list(&prefix(&folder)?, after.as_ref(), 1_000).await?;
            for entry in &page.entries {
                let name = entry.key.as_str().strip_prefix(&folder).unwrap_or_default();
                let id = name.splitn(4, '-').nth(3).unwrap_or_default().to_owned();
                // A server that died while it moved an entry may have left the old one.
                if !known.insert(id.clone()) || !query.selects(name) {
                    continue;
                }
                listed.total += 1;
                if query.token.as_deref().is_some_and(|token| name <= token) {
                    continue;
                }
                if listed.tasks.len() < query.size {
                    listed.tasks.push(id);
                    last = Some(name.to_owned());
                } else {
                    listed.token.clone_from(&last);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(listed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pollux_blobs::MemoryBlobs;

    use super::*;

    #[tokio::test]
    async fn pages_cover_all_tasks_of_the_owner_newest_first() {
        let store = TaskStore {
            blobs: Arc::new(MemoryBlobs::new()),
            replica: "r".into(),
            is_shared: false,
            sole_owner: None,
        };
        for number in 0..250_i64 {
            let mut record = Record::new(&format!("t-{number}"), "c", "anna");
            record.updated = Timestamp::from_millis(1_700_000_000_000 + number).to_iso();
            record.state = if number % 2 == 0 { TaskState::Working } else { TaskState::InputRequired };
            assert_eq!(store.index(&mut record).await.unwrap(), None);
            record.updated = Timestamp::from_millis(1_700_000_001_000 + number).to_iso();
            let old = store.index(&mut record).await.unwrap().unwrap();
            // A task is listed once, also while it has two entries.
            if number % 3 > 0 {
                store.unindex("anna", &old).await.unwrap();
            }
        }
        store.index(&mut Record::new("foreign", "c", "ben")).await.unwrap();
        let mut query = ListQuery { size: 100, ..ListQuery::default() };
        let mut all = Vec::new();
        let mut sizes = Vec::new();
        loop {
            let page = store.list("anna", &query).await.unwrap();
            assert_eq!(page.total, 250);
            sizes.push(page.tasks.len());
            all.extend(page.tasks);
            query.token = page.token;
            assert!(query.token.as_deref().is_none_or(is_page_token), "{query:?}");
            if query.token.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [100, 100, 50]);
        assert_eq!((all[0].as_str(), all[249].as_str()), ("t-249", "t-0"));
        for wrong in ["", "x", "invalid-token-xyz", "8299999998999-q-000000000000-t", "8299999998999-w-0-t"] {
            assert!(!is_page_token(wrong), "{wrong}");
        }
        let working = ListQuery { size: 10, state: Some(TaskState::Working), ..ListQuery::default() };
        assert_eq!(store.list("anna", &working).await.unwrap().total, 125);
        let other = ListQuery { size: 10, context: Some("x".into()), ..ListQuery::default() };
        assert_eq!(store.list("anna", &other).await.unwrap().total, 0);
    }
}
