//! The messages of a task, and which messages of clients it has seen.
//!
//! The newest ones are part of the record, which is written several times in each turn. Older ones move into blocks, which
//! are written once. The newest block names those before it, so that a record names one however long the task is.

use std::collections::HashMap;
use std::rc::Rc;

use pollux_a2a::protocol::{Dialect, Message, PartBody};
use serde_json::{Map, Value, json};

use super::kept::{MAX_PARTS, MAX_TEXT, kept, kept_part, parts_size, read_texts};

/// Limits of what is kept: messages, their bytes, and digests of those that were seen.
const MAX_HISTORY: usize = 200;
const MAX_HISTORY_BYTES: usize = 4 * 1024 * 1024;
const MAX_SEEN: usize = 200;
/// Digits of a digest that blocks keep.
const SEEN_DIGITS: usize = 16;

/// What always stays in the record. The last message may still grow.
const KEPT: usize = 4;
const KEPT_SEEN: usize = 8;
/// What else is in the record until it moves into a block.
const MAX_RECENT: usize = 12;
const MAX_RECENT_BYTES: usize = 128 * 1024;
const MAX_RECENT_SEEN: usize = 32;

/// The history of a task, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The newest messages.
    recent: Vec<Message>,
    /// Digests of the messages of clients that were seen last.
    seen: Vec<String>,
    /// The newest block.
    older: Option<Older>,
    /// The blocks that were read or written here, by name.
    blocks: HashMap<String, Rc<Block>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Older {
    block: BlockName,
    /// Its messages and those before are too old to be shown.
    is_cut: bool,
}

/// A block, as records and other blocks name it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BlockName {
    name: String,
    messages: usize,
    bytes: usize,
}

/// What a block holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Block {
    messages: Vec<Message>,
    /// All digests that are older than those of the record, shortened.
    seen: Vec<String>,
    /// The blocks before, newest first.
    before: Vec<BlockName>,
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.recent == other.recent && self.seen == other.seen && self.older == other.older
    }
}

impl History {
    pub(crate) fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    pub(super) fn last(&self) -> Option<&Message> {
        self.recent.last()
    }

    /// Adds a message; pieces of one message become one.
    pub(crate) fn append(&mut self, message: &Message) {
        if let Some(last) = self.recent.last_mut().filter(|last| is_same(last, message)) {
            for part in &message.parts {
                let has_room = last.parts.len() < MAX_PARTS;
                match (last.parts.last_mut().map(|last| &mut last.body), &part.body) {
                    (Some(PartBody::Text(text)), PartBody::Text(more)) if text.len() < MAX_TEXT => {
                        text.push_str(more);
                    }
                    (Some(PartBody::Text(_)), PartBody::Text(_)) => {}
                    _ if has_room => last.parts.push(kept_part(part)),
                    _ => {}
                }
            }
            return;
        }
        self.recent.push(kept(message));
        let extra = self.recent.len() - within_limits(self.recent.iter().rev()).count();
        if extra > 0 {
            self.recent.drain(..extra);
            if let Some(older) = &mut self.older {
                older.is_cut = true;
            }
        }
    }

    /// Replaces all messages.
    pub(super) fn set_messages(&mut self, messages: &[Message]) {
        self.recent = messages.to_vec();
        if let Some(older) = &mut self.older {
            older.is_cut = true;
        }
    }

    /// Whether a message was seen, as far as that was read: see [`History::unread_seen`].
    pub(crate) fn has_seen(&self, digest: &str) -> bool {
        let older = self.newest_block().map_or(&[][..], |block| &block.seen);
        self.seen.iter().any(|seen| seen == digest) || older.iter().any(|seen| seen == shortened(digest))
    }

    /// Remembers that a message was seen.
    pub(crate) fn see(&mut self, digest: &str) {
        self.seen.push(digest.to_owned());
        let extra = self.seen.len().saturating_sub(MAX_SEEN);
        self.seen.drain(..extra);
    }

    /// The newest messages, oldest first, as far as they were read: see [`History::unread`].
    pub(crate) fn newest(&self, most: Option<usize>) -> Vec<Message> {
        let blocks = self.chain().map_while(|name| self.blocks.get(&name.name));
        let older = blocks.flat_map(|block| block.messages.iter().rev());
        let all = within_limits(self.recent.iter().rev().chain(older));
        let mut newest: Vec<Message> = all.take(most.unwrap_or(MAX_HISTORY)).cloned().collect();
        newest.reverse();
        newest
    }

    /// The next block that must be read for so many messages. What names say about blocks may be wrong.
    pub(crate) fn unread(&self, most: Option<usize>) -> Option<String> {
        let wanted = most.unwrap_or(MAX_HISTORY).min(MAX_HISTORY);
        let (mut count, mut bytes) = (self.recent.len(), parts_of(&self.recent));
        for block in self.chain() {
            if count >= wanted || bytes >= MAX_HISTORY_BYTES {
                return None;
            }
            let Some(read) = self.blocks.get(&block.name) else { return Some(block.name.clone()) };
            count += read.messages.len();
            bytes += parts_of(&read.messages);
        }
        None
    }

    /// The block that must be read before [`History::has_seen`] knows all messages.
    pub(crate) fn unread_seen(&self) -> Option<String> {
        let name = &self.older.as_ref()?.block.name;
        (!self.blocks.contains_key(name)).then(|| name.clone())
    }

    /// Takes a block that was read.
    pub(crate) fn add_block(&mut self, name: String, block: Block) {
        self.blocks.insert(name, Rc::new(block));
    }

    /// Whether messages should move into a block.
    pub(crate) fn is_long(&self) -> bool {
        self.recent.len() >= KEPT + MAX_RECENT
            || self.seen.len() >= KEPT_SEEN + MAX_RECENT_SEEN
            || parts_of(self.movable()) > MAX_RECENT_BYTES
    }

    /// The messages that the next block takes.
    fn movable(&self) -> &[Message] {
        &self.recent[..self.recent.len().saturating_sub(KEPT)]
    }

    /// The block that messages move into. The newest one before it must have been read.
    pub(crate) fn next_block(&self) -> Block {
        let messages = self.movable().to_vec();
        let moved = &self.seen[..self.seen.len().saturating_sub(KEPT_SEEN)];
        let earlier = self.newest_block().map_or(&[][..], |block| &block.seen);
        let known = earlier.len() + self.seen.len();
        let all = earlier.iter().map(String::as_str).chain(moved.iter().map(|digest| shortened(digest)));
        let seen = all.skip(known.saturating_sub(MAX_SEEN)).map(str::to_owned).collect();
        // A block is dropped when those after it have as much as may be shown.
        let mut count = self.recent.len();
        let mut bytes = parts_of(&self.recent);
        let before = self.chain().filter(|block| block.messages > 0).take_while(|block| {
            let is_needed = count < MAX_HISTORY && bytes < MAX_HISTORY_BYTES;
            count = count.saturating_add(block.messages);
            bytes = bytes.saturating_add(block.bytes);
            is_needed
        });
        Block { messages, seen, before: before.cloned().collect() }
    }

    /// Moves messages into a block that is stored under this name; gives the names of those that are not needed any more.
    /// `None` if messages were dropped since the block was made.
    pub(crate) fn move_into(&mut self, name: &str, block: Block) -> Option<Vec<String>> {
        let seen = self.seen.len().saturating_sub(KEPT_SEEN);
        let moved = self.seen[..seen].iter().rev().map(|digest| shortened(digest));
        let is_same = self.recent.starts_with(&block.messages)
            && moved.eq(block.seen.iter().rev().map(String::as_str).take(seen));
        if !is_same {
            return None;
        }
        let all = self.older.iter().map(|older| &older.block);
        let earlier = self.newest_block().map_or(&[][..], |block| &block.before);
        let all = all.chain(earlier).map(|block| block.name.clone());
        let outdated = all.filter(|name| block.before.iter().all(|kept| kept.name != *name)).collect();
        self.recent.drain(..block.messages.len());
        self.seen.drain(..seen);
        let bytes = parts_of(&block.messages);
        let older = BlockName { name: name.to_owned(), messages: block.messages.len(), bytes };
        self.blocks.retain(|known, _| block.before.iter().any(|kept| kept.name == *known));
        self.blocks.insert(name.to_owned(), Rc::new(block));
        self.older = Some(Older { block: older, is_cut: false });
        Some(outdated)
    }

    fn newest_block(&self) -> Option<&Rc<Block>> {
        self.blocks.get(&self.older.as_ref()?.block.name)
    }

    /// The blocks whose messages may be shown, newest first; only the newest one if it was not read.
    fn chain(&self) -> impl Iterator<Item = &BlockName> {
        let newest = self.older.as_ref().filter(|older| !older.is_cut).map(|older| &older.block);
        let before = newest.and_then(|_| self.newest_block()).map_or(&[][..], |block| &block.before);
        newest.into_iter().chain(before)
    }

    /// As another server reads it.
    #[cfg(test)]
    pub(super) fn forget_blocks(&mut self) {
        self.blocks.clear();
    }

    /// Takes blocks that an earlier reading of the task has read.
    pub(super) fn keep_read(&mut self, earlier: &Self) {
        for (name, block) in &earlier.blocks {
            self.blocks.entry(name.clone()).or_insert_with(|| Rc::clone(block));
        }
        if let Some(newest) = self.newest_block().cloned() {
            let head = self.older.as_ref().map(|older| older.block.name.clone());
            let is_named = |name: &String| {
                Some(name) == head.as_ref() || newest.before.iter().any(|kept| kept.name == *name)
            };
            self.blocks.retain(|name, _| is_named(name));
        }
    }

    pub(super) fn write(&self, fields: &mut Map<String, Value>) {
        fields.insert("history".to_owned(), messages_json(&self.recent));
        fields.insert("seen".to_owned(), json!(self.seen));
        let older = self.older.as_ref();
        let older = older.map(|older| json!({"block": older.block.to_json(), "isCut": older.is_cut}));
        fields.insert("older".to_owned(), older.unwrap_or_default());
    }

    pub(super) fn read(fields: &Value) -> Self {
        let older = fields.get("older").and_then(|older| {
            let is_cut = older.get("isCut").and_then(Value::as_bool).unwrap_or_default();
            Some(Older { block: BlockName::read(older.get("block")?)?, is_cut })
        });
        Self {
            recent: read_messages(fields.get("history")),
            seen: read_texts(fields.get("seen")).collect(),
            older,
            blocks: HashMap::new(),
        }
    }
}

impl BlockName {
    fn to_json(&self) -> Value {
        json!([self.name, self.messages, self.bytes])
    }

    fn read(value: &Value) -> Option<Self> {
        let number = |index: usize| usize::try_from(value.get(index)?.as_u64()?).ok();
        Some(Self { name: value.get(0)?.as_str()?.to_owned(), messages: number(1)?, bytes: number(2)? })
    }
}

impl Block {
    pub(crate) fn to_json(&self) -> Value {
        let before: Vec<Value> = self.before.iter().map(BlockName::to_json).collect();
        json!({"messages": messages_json(&self.messages), "seen": self.seen, "before": before})
    }

    pub(crate) fn read(value: &Value) -> Self {
        let before = value.get("before").and_then(Value::as_array).into_iter().flatten();
        Self {
            messages: read_messages(value.get("messages")),
            seen: read_texts(value.get("seen")).take(MAX_SEEN).collect(),
            before: before.filter_map(BlockName::read).take(MAX_HISTORY).collect(),
        }
    }
}

/// A digest as blocks keep it.
fn shortened(digest: &str) -> &str {
    digest.get(..SEEN_DIGITS).unwrap_or(digest)
}

/// Whether two are the same message, or pieces of one.
fn is_same(one: &Message, other: &Message) -> bool {
    one.id == other.id && one.role == other.role
}

/// The messages that may be shown, of all of them from the newest on, which is shown whatever its size.
fn within_limits<'a>(messages: impl Iterator<Item = &'a Message>) -> impl Iterator<Item = &'a Message> {
    let mut left = MAX_HISTORY_BYTES;
    messages.take(MAX_HISTORY).enumerate().map_while(move |(index, message)| {
        let size = parts_size(&message.parts);
        let fits = size <= left || index == 0;
        left = left.saturating_sub(size);
        fits.then_some(message)
    })
}

fn parts_of(messages: &[Message]) -> usize {
    messages.iter().map(|message| parts_size(&message.parts)).sum()
}

fn messages_json(messages: &[Message]) -> Value {
    messages.iter().map(|message| message.to_json(Dialect::Tagged)).collect()
}

fn read_messages(value: Option<&Value>) -> Vec<Message> {
    value.and_then(Value::as_array).into_iter().flatten().map(Message::read).collect()
}

#[cfg(test)]
mod tests {
    use pollux_a2a::protocol::{Ids, Part, Role};
    use pollux_domain::JsonObject;

    use super::*;

    fn message(id: &str, parts: Vec<Part>) -> Message {
        let ids = Ids { context: None, task: None };
        Message { id: id.into(), ids, role: Role::User, parts, metadata: JsonObject::new() }
    }

    /// Messages are added, each with its digest, and move into blocks as a server lets them.
    fn add(history: &mut History, numbers: std::ops::Range<usize>) -> Vec<String> {
        let mut outdated = Vec::new();
        for number in numbers {
            history.append(&message(&format!("m{number}"), vec![Part::text("text")]));
            history.see(&format!("d{number}"));
            if history.is_long() {
                let block = history.next_block();
                outdated.extend(history.move_into(&format!("block {number}"), block).unwrap());
            }
        }
        outdated
    }

    fn ids(history: &History) -> Vec<String> {
        history.newest(None).into_iter().map(|message| message.id).collect()
    }

    fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
        numbers.map(|number| format!("m{number}")).collect()
    }

    /// What another server reads.
    fn stored(history: &History) -> History {
        let mut fields = Map::new();
        history.write(&mut fields);
        History::read(&fields.into())
    }

    #[test]
    fn the_history_keeps_no_files_and_stays_small() {
        let mut history = History::default();
        for number in 0..400 {
            let mut file = Part::text("");
            file.body = PartBody::Bytes("A".repeat(400_000));
            file.name = Some("a.bin".into());
            let parts = vec![Part::text("é".repeat(300_000)), file, Part::data(json!("x".repeat(400_000)))];
            history.append(&message(&number.to_string(), parts));
        }
        let mut fields = Map::new();
        history.write(&mut fields);
        let size = Value::from(fields).to_string().len();
        assert!(size < 8 * 1024 * 1024, "{size}");
        let last = history.last().unwrap();
        assert_eq!(last.id, "399");
        assert_eq!(last.parts[1].body, PartBody::Text("[file `a.bin`: 300000 bytes, not kept]".into()));
        let PartBody::Text(text) = &last.parts[0].body else { panic!() };
        assert!(text.ends_with("[337856 more bytes, not kept]"), "{}", text.len());
    }

    #[test]
    fn the_last_200_messages_are_shown_and_their_blocks_kept() {
        let mut history = History::default();
        assert_eq!(add(&mut history, 0..200), [""; 0], "all are needed");
        assert_eq!(ids(&history), names(0..200));
        add(&mut history, 200..201);
        assert_eq!(ids(&history), names(1..201));
        let outdated = add(&mut history, 201..1_000);
        assert_eq!(ids(&history), names(800..1_000));
        assert!(history.recent.len() < KEPT + MAX_RECENT && history.seen.len() < KEPT_SEEN + MAX_RECENT_SEEN);
        // Every block that was written is named or was given back once.
        let written = (0..1_000).filter(|number| number % 12 == 3 && *number > 3).count();
        assert_eq!(history.blocks.len() + outdated.len(), written);
        assert!(history.blocks.len() <= 200 / MAX_RECENT + 2, "{}", history.blocks.len());
        assert!(history.has_seen("d999") && history.has_seen("d800") && !history.has_seen("d700"));
        assert_eq!(history.newest(Some(3)).len(), 3);
    }

    #[test]
    fn blocks_are_read_one_after_another_as_far_as_they_are_needed() {
        let mut history = History::default();
        add(&mut history, 0..100);
        let mut read = stored(&history);
        assert_eq!(read, history);
        assert_eq!(read.unread(Some(4)), None, "the record has the newest");
        assert_eq!(read.newest(None), read.recent);
        let mut count = 0;
        while let Some(name) = read.unread(None) {
            let block = Block::read(&history.blocks[&name].to_json());
            assert_eq!(block, *history.blocks[&name]);
            read.add_block(name, block);
            count += 1;
            assert_eq!(read.unread_seen(), None, "the newest block knows all");
            assert!(read.has_seen("d0"));
        }
        assert_eq!((count, ids(&read)), (history.blocks.len(), names(0..100)));
        // A later reading of the record does not read them again.
        let mut again = stored(&history);
        again.keep_read(&read);
        assert_eq!((again.unread(None), ids(&again)), (None, names(0..100)));
    }

    #[test]
    fn a_long_turn_leaves_no_gap_and_forgets_no_message_that_was_seen() {
        let mut history = History::default();
        add(&mut history, 0..30);
        for number in 30..400 {
            history.append(&message(&format!("m{number}"), vec![Part::text("text")]));
        }
        assert_eq!(ids(&history), names(200..400));
        assert_eq!(ids(&stored(&history)), names(200..400));
        let before: Vec<String> = history.blocks.keys().cloned().collect();
        let block = history.next_block();
        let mut outdated = history.move_into("new", block).unwrap();
        outdated.sort();
        let mut before = before;
        before.sort();
        assert_eq!(outdated, before);
        assert!(history.has_seen("d0"));
        assert_eq!(ids(&history), names(200..400));
    }

    #[test]
    fn messages_that_were_dropped_meanwhile_do_not_move() {
        let mut history = History::default();
        for number in 0..20 {
            history.append(&message(&format!("m{number}"), vec![Part::text("text")]));
        }
        let block = history.next_block();
        for number in 20..220 {
            history.append(&message(&format!("m{number}"), vec![Part::text("text")]));
        }
        assert_eq!(history.move_into("late", block), None);
        assert_eq!(ids(&history), names(20..220));
    }

    #[test]
    fn a_long_answer_that_cannot_move_yet_makes_no_block() {
        let mut history = History::default();
        let large = || vec![Part::text("x".repeat(40_000))];
        for number in 0..6 {
            history.append(&message(&format!("m{number}"), vec![Part::text("text")]));
        }
        for number in 6..10 {
            history.append(&message(&format!("m{number}"), large()));
        }
        assert!(parts_of(&history.recent) > MAX_RECENT_BYTES && !history.is_long());
        for number in 10..14 {
            history.append(&message(&format!("m{number}"), large()));
        }
        assert!(history.is_long());
    }

    #[test]
    fn what_blocks_claim_to_hold_does_not_decide_how_many_are_read() {
        let mut history = History::default();
        add(&mut history, 0..100);
        let claims = |messages: usize| {
            let mut read = stored(&history);
            read.older.as_mut().unwrap().block.messages = messages;
            let mut count = 0;
            while let Some(name) = read.unread(None) {
                let mut block = Block::read(&history.blocks[&name].to_json());
                block.before.iter_mut().for_each(|before| before.messages = messages);
                read.add_block(name, block);
                count += 1;
            }
            (count, ids(&read))
        };
        let all = (history.blocks.len(), names(0..100));
        assert_eq!((claims(0), claims(usize::MAX)), (all.clone(), all));
    }

    #[test]
    fn no_more_blocks_are_read_than_may_be_shown() {
        let block = |before: usize| {
            let before = (0..before).map(|number| json!([format!("b{number}"), 1, 1])).collect();
            let messages = vec![message("m", vec![Part::text("x".repeat(MAX_HISTORY_BYTES / 2))])];
            let seen = vec!["d".to_owned(); 10 * MAX_SEEN];
            let json = Block { messages, seen, before: Vec::new() }.to_json();
            let mut fields = json.as_object().unwrap().clone();
            fields.insert("before".into(), Value::Array(before));
            Block::read(&fields.into())
        };
        let block_name = BlockName { name: "newest".into(), messages: 1, bytes: 1 };
        let older = Some(Older { block: block_name, is_cut: false });
        let mut history = History { older, ..History::default() };
        let mut count = 0;
        while let Some(name) = history.unread(None) {
            let block = block(if name == "newest" { 50 } else { 0 });
            assert_eq!(block.seen.len(), MAX_SEEN);
            history.add_block(name, block);
            count += 1;
        }
        assert_eq!(count, 2);
    }
}
