//! A disk that runs full or breaks, and the number of bytes a write costs.

mod displaced;
pub(super) mod faulty;
mod kill;
mod stalled;

use std::io;
use std::sync::{Arc, Mutex};

use pollux_config::files::{self, Mode};
use pollux_config::groups::SessionFormat;
use pollux_domain::JsonObject;
use pollux_domain::content::Seal;
use pollux_domain::event::CallStatus;
use pollux_domain::id::CallId;
use pollux_domain::tool::Display;
use serde_json::{Value, json};

use super::medium::Medium;
use super::new_file::new_form;
use super::open_file::{OpenFile, SessionIdentity};
use super::*;
use crate::kind::SessionKind;
use crate::message::Message;
use crate::record::CallRecord;

/// A file in memory with limited space and a count of what was written.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    bytes: Vec<u8>,
    /// The file may not grow beyond this.
    capacity: Option<usize>,
    /// What the next writes fail with after their first half, this many times.
    failures: Vec<io::ErrorKind>,
    written: usize,
    /// What is kept next to the file.
    aside: Option<Vec<u8>>,
    /// After so many more bytes the process is gone and nothing it does has an effect.
    life: Option<usize>,
}

impl DiskState {
    /// The part of a write that still happens.
    fn live<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(life) = &mut self.life else { return bytes };
        // A few bytes within a page are written or not; what is a little longer may be torn.
        let done = if bytes.len() <= 24 && *life < bytes.len() { 0 } else { bytes.len().min(*life) };
        *life = if done < bytes.len() { 0 } else { *life - done };
        &bytes[..done]
    }

    fn is_dead(&self) -> bool {
        self.life == Some(0)
    }
}

impl Medium for Disk {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let bytes = state.live(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        let at = usize::try_from(at).unwrap();
        let failure = state.failures.pop();
        let room = state.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(at));
        let room = if failure.is_some() { room.min(bytes.len() / 2) } else { room };
        let fitting = bytes.get(..room.min(bytes.len())).unwrap();
        let length = state.bytes.len().max(at + fitting.len());
        state.bytes.resize(length, 0);
        state.bytes[at..at + fitting.len()].copy_from_slice(fitting);
        state.written += fitting.len();
        match failure {
            Some(kind) => Err(kind.into()),
            None if fitting.len() < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if !state.is_dead() {
            state.bytes.resize(usize::try_from(length).unwrap(), 0);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.0.lock().unwrap();
        let rest = &state.bytes[usize::try_from(at).unwrap().min(state.bytes.len())..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn is_displaced(&self) -> bool {
        false
    }

    fn named(&mut self) {}

    fn keep_aside(&mut self, _at: u64, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap();
        if !state.is_dead() {
            let kept = state.live(bytes).to_vec();
            state.written += kept.len();
            state.aside = Some(kept);
        }
    }

    fn drop_aside(&mut self) {
        let mut state = self.0.lock().unwrap();
        if !state.is_dead() {
            state.aside = None;
        }
    }

    fn sync_with(&mut self, _: &super::syncing::Syncing) {}
}

impl Disk {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    fn limit(&self, more: usize) {
        let mut state = self.0.lock().unwrap();
        state.capacity = Some(state.bytes.len() + more);
    }

    fn fail_next(&self, failures: &[io::ErrorKind]) {
        self.0.lock().unwrap().failures = failures.to_vec();
    }

    fn written_by(&self, change: impl FnOnce()) -> usize {
        let before = self.0.lock().unwrap().written;
        change();
        self.0.lock().unwrap().written - before
    }
}

fn recorder(format: SessionFormat) -> (Recorder, Disk) {
    let disk = Disk::default();
    let spec = NewSession {
        id: SessionId::from_file("11111111-2222"),
        project_hash: "hash".into(),
        chats_dir: PathBuf::from("/nowhere"),
        format,
        kind: SessionKind::Main,
        now: at(0),
    };
    let form = new_form(&spec, Box::new(disk.clone()));
    let identity = SessionIdentity::of_new(&spec);
    let target = Target::Open(OpenFile::new(PathBuf::from("/nowhere/x.json"), form, identity, None));
    (
        Recorder {
            id: spec.id,
            path: Some(PathBuf::from("/nowhere/x.json")),
            recording: Recording::of(target, None),
            spent: None,
            model: None,
        },
        disk,
    )
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_770_000_000_000 + seconds * 1000)
}

fn reply_with(ids: &[&str], args: &Value) -> ReplyRecord {
    let calls = ids.iter().map(|id| CallRecord {
        id: CallId::from_file(*id),
        name: "glob".into(),
        args: args.as_object().cloned().unwrap_or_default(),
        seal: Some(Seal::gemini("sig")),
        display_name: "Glob".into(),
        description: "*.rs".into(),
        markdown: false,
    });
    ReplyRecord {
        parts: vec![Part::text("I look")],
        thoughts: Vec::new(),
        usage: None,
        model: "m".into(),
        origin: None,
        calls: calls.collect(),
    }
}

fn result(id: &str, status: CallStatus, text: &str) -> CallResult {
    let display = Display::Text(text.into());
    CallResult { id: CallId::from_file(id), status, result: vec![Part::text(text)], display }
}

#[test]
fn a_write_costs_its_own_bytes_however_long_the_file_is() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    let text = [Part::text("a message")];
    recorder.user(&text, None, at(0)).unwrap();
    let mut costs = Vec::new();
    for round in 1..200 {
        costs.push(disk.written_by(|| {
            recorder.user(&text, None, at(round)).unwrap();
            recorder.reply(&reply_with(&["c"], &json!({"p": "*"})), at(round)).unwrap();
            recorder.results(&[result("c", CallStatus::Success, "found")], at(round)).unwrap();
        }));
        disk.document();
    }
    assert!(costs.windows(2).all(|pair| pair[0] == pair[1]), "{costs:?}");
}

/// A prompt, a reply with calls, their results one by one, an answer.
fn turn(recorder: &mut Recorder, calls: &[&str], round: i64) {
    recorder.user(&[Part::text("a message of some length")], None, at(round)).unwrap();
    for id in calls {
        recorder.reply(&reply_with(&[id, "other"], &json!({"p": "*"})), at(round)).unwrap();
        recorder.results(&[result("other", CallStatus::Success, "found")], at(round)).unwrap();
        recorder.results(&[result(id, CallStatus::Success, "found")], at(round)).unwrap();
    }
    recorder.reply(&reply_with(&[], &json!({})), at(round)).unwrap();
}

#[test]
fn the_bytes_written_in_a_turn_are_the_same_after_ten_thousand_turns() {
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        let (mut recorder, disk) = recorder(format);
        let mut costs = Vec::new();
        for round in 1..=10_000 {
            if [2, 100, 1_000, 10_000].contains(&round) {
                costs.push(disk.written_by(|| turn(&mut recorder, &["a", "b"], round)));
            } else {
                turn(&mut recorder, &[], round);
            }
        }
        // The offset in a note of moved records has more digits in a longer file; nothing else grows.
        assert!(costs.iter().all(|cost| *cost * 100 <= costs[0] * 102), "{format:?}: {costs:?}");
    }
}

#[test]
fn the_result_of_a_single_call_does_not_write_its_arguments_again() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    let long = "x".repeat(100_000);
    recorder.reply(&reply_with(&["c"], &json!({"content": long})), at(0)).unwrap();
    let cost =
        disk.written_by(|| recorder.results(&[result("c", CallStatus::Cancelled, "")], at(1)).unwrap());
    assert!(cost < 500, "{cost}");
    assert_eq!(disk.document()["messages"][0]["toolCalls"][0]["status"], "cancelled");
}

#[test]
fn results_of_a_batch_may_come_one_by_one_and_with_notices_between() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    recorder.reply(&reply_with(&["a", "b", "c"], &json!({"p": 1})), at(0)).unwrap();
    let calls = |disk: &Disk| disk.document()["messages"][0]["toolCalls"].clone();
    recorder.results(&[result("b", CallStatus::Error, "B")], at(1)).unwrap();
    assert_eq!(calls(&disk)[0]["status"], "pending");
    assert_eq!(calls(&disk)[1]["resultDisplay"], "B");
    recorder.notice(Severity::Warning, "slow", at(2)).unwrap();
    recorder
        .results(&[result("a", CallStatus::Success, "A"), result("c", CallStatus::Cancelled, "C")], at(3))
        .unwrap();
    // A second result for a call, and one for a call nobody made, change nothing.
    recorder
        .results(&[result("a", CallStatus::Error, "again"), result("z", CallStatus::Error, "")], at(4))
        .unwrap();
    let found: Vec<String> = calls(&disk)
        .as_array()
        .unwrap()
        .iter()
        .map(|call| format!("{} {}", call["status"], call["resultDisplay"]))
        .collect();
    assert_eq!(found, [r#""success" "A""#, r#""error" "B""#, r#""cancelled" "C""#]);
    assert_eq!(disk.document()["messages"][1]["content"], "slow");
    recorder.user(&[Part::text("next")], None, at(5)).unwrap();
    assert_eq!(disk.document()["messages"][2]["content"], "next");
}

#[test]
fn a_full_disk_leaves_the_last_valid_file_and_is_reported_once() {
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        for room in 0..80 {
            let (mut recorder, disk) = recorder(format);
            recorder.user(&[Part::text("kept")], None, at(0)).unwrap();
            let before = disk.bytes();
            disk.limit(room);
            let error = recorder.user(&[Part::text("lost ".repeat(40))], None, at(1)).unwrap_err();
            assert!(error.is_disk_full(), "{error}");
            assert_eq!(disk.bytes(), before);
            recorder.user(&[Part::text("later")], None, at(2)).unwrap();
            recorder.reply(&reply_with(&["c"], &json!({})), at(2)).unwrap();
            recorder.results(&[result("c", CallStatus::Success, "")], at(2)).unwrap();
            assert_eq!(disk.bytes(), before);
        }
    }
}

#[test]
fn a_full_disk_while_results_come_in_leaves_the_calls_pending() {
    for ids in [&["a"][..], &["a", "b", "c"][..]] {
        let (mut recorder, disk) = recorder(SessionFormat::Json);
        recorder.reply(&reply_with(ids, &json!({"p": 1})), at(0)).unwrap();
        let before = disk.bytes();
        disk.limit(20);
        let results: Vec<CallResult> = ids.iter().map(|id| result(id, CallStatus::Success, "done")).collect();
        assert!(recorder.results(&results, at(1)).unwrap_err().is_disk_full());
        assert_eq!(disk.bytes(), before);
    }
}

#[test]
fn what_a_failing_disk_did_not_take_is_recorded_when_it_recovers() {
    // The second failure comes when the old end is put back.
    let (json, jsonl) = (SessionFormat::Json, SessionFormat::Jsonl);
    for (format, failures) in [(json, 1), (json, 2), (jsonl, 1)] {
        let (mut recorder, disk) = recorder(format);
        recorder.user(&[Part::text("one")], None, at(0)).unwrap();
        disk.fail_next(&[io::ErrorKind::Other, io::ErrorKind::Other][..failures]);
        let error = recorder.user(&[Part::text("two")], None, at(1)).unwrap_err();
        assert!(!error.is_disk_full());
        let is_torn = matches!(error, RecordError::Unrestored { .. });
        assert!(is_torn == (failures == 2), "{error}");
        recorder.user(&[Part::text("three")], None, at(2)).unwrap();
        assert_eq!(texts(&disk, format), ["one", "two", "three"]);
        assert_eq!(recorder.take_event(), Some(RecorderEvent::Resumed { lost: 0 }));
        assert_eq!(recorder.take_event(), None);
    }
}

fn texts(disk: &Disk, format: SessionFormat) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("session-a.{}", crate::record::extension(format)));
    files::replace(&path, &disk.bytes(), Mode::Private).unwrap();
    let stored = crate::load(&path).unwrap();
    assert!(stored.repaired.is_none(), "{:?}", stored.repaired);
    let text = |message: &Message| match message {
        Message::User(user) => user.parts.iter().filter_map(Part::spoken_text).collect(),
        Message::Reply(reply) => {
            format!("{:?}", reply.calls.iter().map(|call| call.status).collect::<Vec<_>>())
        }
        Message::Notice(_) | Message::Other { .. } => format!("{message:?}"),
    };
    stored.messages.iter().map(text).collect()
}

#[test]
fn everything_is_recorded_when_a_full_disk_has_room_again() {
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        for room in [0, 30, 400] {
            let (mut recorder, disk) = recorder(format);
            recorder.user(&[Part::text("kept")], None, at(0)).unwrap();
            disk.limit(room);
            assert!(recorder.user(&[Part::text("x".repeat(500))], None, at(1)).unwrap_err().is_disk_full());
            recorder.reply(&reply_with(&["a", "b"], &json!({})), at(2)).unwrap();
            recorder.results(&[result("b", CallStatus::Success, "B")], at(2)).unwrap();
            assert_eq!(recorder.take_event(), None);
            disk.limit(1_000_000);
            recorder.results(&[result("a", CallStatus::Error, "A")], at(3)).unwrap();
            assert_eq!(recorder.take_event(), Some(RecorderEvent::Resumed { lost: 0 }));
            recorder.user(&[Part::text("last")], None, at(4)).unwrap();
            let calls = "[Ended(Error), Ended(Success)]";
            assert_eq!(texts(&disk, format), ["kept", &"x".repeat(500), calls, "last"]);
            // The next failure is reported again, and the end of the session is another try.
            disk.limit(0);
            assert!(recorder.user(&[Part::text("again")], None, at(5)).unwrap_err().is_disk_full());
            disk.limit(1_000_000);
            recorder.finish().unwrap();
            assert_eq!(texts(&disk, format).last().unwrap(), "again");
        }
    }
}

#[test]
fn records_that_do_not_fit_in_memory_are_counted() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    recorder.user(&[Part::text("one")], None, at(0)).unwrap();
    recorder.recording.locked().pending = super::change::Pending::at_most(1_000);
    disk.limit(0);
    recorder.user(&[Part::text("two")], None, at(1)).unwrap_err();
    recorder.user(&[Part::text("x".repeat(2_000))], None, at(2)).unwrap();
    recorder.user(&[Part::text("small")], None, at(3)).unwrap();
    disk.limit(1_000_000);
    recorder.user(&[Part::text("three")], None, at(4)).unwrap();
    assert_eq!(texts(&disk, SessionFormat::Json), ["one", "two", "three"]);
    let event = recorder.take_event().unwrap();
    assert_eq!(event, RecorderEvent::Resumed { lost: 2 });
    assert!(event.is_warning());
}

#[test]
fn the_time_of_the_last_change_is_patched_in_place() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    recorder.user(&[Part::text("one")], None, at(0)).unwrap();
    recorder.user(&[Part::text("two")], None, at(7)).unwrap();
    let document = disk.document();
    assert_eq!(document["lastUpdated"], at(7).to_iso());
    assert_eq!(document["startTime"], at(0).to_iso());
}

#[test]
fn an_empty_object_of_arguments_is_written_as_such() {
    let (mut recorder, disk) = recorder(SessionFormat::Json);
    let mut reply = reply_with(&["a"], &json!({}));
    reply.calls[0].args = JsonObject::new();
    recorder.reply(&reply, at(0)).unwrap();
    assert_eq!(disk.document()["messages"][0]["toolCalls"][0]["args"], json!({}));
}

#[test]
fn a_title_that_does_not_fit_waits_for_the_next_message() {
    let (mut recorder, disk) = recorder(SessionFormat::Jsonl);
    recorder.user(&[Part::text("one")], None, at(0)).unwrap();
    let title = "t".repeat(10_000);
    recorder.recording.locked().title = Some(title.clone());
    disk.limit(5_000);
    recorder.user(&[Part::text("two")], None, at(1)).unwrap();
    let text = |disk: &Disk| String::from_utf8(disk.bytes()).unwrap();
    assert!(text(&disk).contains("two") && !text(&disk).contains("tt"));
    disk.limit(50_000);
    recorder.user(&[Part::text("three")], None, at(2)).unwrap();
    assert!(text(&disk).contains("three") && text(&disk).contains(&title));
    recorder.user(&[Part::text("four")], None, at(3)).unwrap();
    assert_eq!(text(&disk).matches(&title).count(), 1);
}

#[test]
fn after_a_new_title_the_file_need_not_be_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let spec = NewSession {
        id: SessionId::from_file("11111111-2222"),
        project_hash: "hash".into(),
        chats_dir: dir.path().to_owned(),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        now: at(0),
    };
    let mut recorder = Recorder::create(spec).unwrap();
    recorder.user(&[Part::text("one")], None, at(0)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    // Nobody but root could open it for writing now.
    let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o400);
    std::fs::set_permissions(&path, read_only).unwrap();
    recorder.title_writer().set("t").unwrap();
    recorder.user(&[Part::text("two")], None, at(1)).unwrap();
    let stored = crate::load(&path).unwrap();
    assert_eq!((stored.summary.as_deref(), stored.messages.len()), (Some("t"), 2));
}

#[test]
fn a_replaced_file_is_the_one_that_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    files::replace(&path, b"old", Mode::Private).unwrap();
    let file = replace_file(&path, |file| io::Write::write_all(file, b"new")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"er", 3).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
    replace_file(&path, |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "newer");
}

#[test]
fn a_title_that_fails_in_a_foreign_file_does_not_end_recording() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session-x.json");
    let foreign = include_bytes!("../../tests/fixtures/pretty.json");
    files::replace(&path, foreign, Mode::Private).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let stored = crate::load(&path).unwrap();
    let mut recorder = Recorder::resume(&stored).unwrap();
    assert!(matches!(recorder.recording.locked().target, Target::Unconverted(_)));
    files::replace(&path, b"{}", Mode::Private).unwrap();
    recorder.title_writer().set("lost").unwrap_err();
    files::replace(&path, foreign, Mode::Private).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    recorder.user(&[Part::text("more")], None, at(1)).unwrap();
    recorder.title_writer().set("kept").unwrap();
    let again = crate::load(&path).unwrap();
    assert_eq!(again.messages.len(), stored.messages.len() + 1);
    assert_eq!(again.summary.as_deref(), Some("kept"));
}
