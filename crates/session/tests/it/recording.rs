//! What the recorder writes is valid after every step and reads back as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use pollux_domain::content::{Blob, Body, FunctionCall, FunctionResponse, Part, Seal, SealKind};
use pollux_domain::event::{CallStatus, Severity};
use pollux_domain::model::{Dialect, Origin, ProviderId};
use pollux_domain::time::Timestamp;
use pollux_domain::tool::{DiffStat, Display, FileDiff};
use pollux_session::{
    CallRecord, CallResult, LoadError, Message, Recorder, ResumeError, SessionFormat, StoredStatus, history,
    load,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scratch::{Scratch, at, call, json_of, put, reply, result, text};

#[test]
fn a_session_is_written_in_the_known_layout() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("7c0ffee0-1234", SessionFormat::Json, 0);
    assert!(!scratch.chats().exists());
    let user = recorder.user(&text("read a.txt"), Some("read @a.txt"), at(1)).unwrap();
    let gemini =
        recorder.reply(&reply("Reading it.", vec![call("read_file__c1", Some("sig"))]), at(2)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    let pending = fs::read_to_string(&path).unwrap();
    assert!(pending.contains(r#""renderOutputAsMarkdown":true,"status":"pending"  }]}"#), "{pending}");
    recorder.results(&[result("read_file__c1", CallStatus::Error, "no such file")], at(3)).unwrap();
    recorder.notice(Severity::Warning, "careful", at(4)).unwrap();
    drop(recorder);

    assert_eq!(scratch.names(), ["session-2026-02-02T02-40-7c0ffee0.json"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(scratch.chats()).unwrap().permissions().mode() & 0o777, 0o700);
    let written = fs::read_to_string(&path).unwrap();
    let notice = json_of(&path)["messages"][2]["id"].as_str().unwrap().to_owned();
    let written = written.replace(&user, "USER").replace(&gemini, "GEMINI").replace(&notice, "NOTICE");
    assert_eq!(written, include_str!("../fixtures/ours.json"));
}

#[test]
fn displays_content_and_compression_have_their_forms() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    let image =
        Part::from(Body::InlineData(Blob { mime_type: "image/png".into(), data_base64: "AA==".into() }));
    let user = recorder.user(&[Part::text("see"), image], Some("see"), at(1)).unwrap();
    let mut signed = Part::text("signed");
    signed.seal = Some(Seal::gemini("sig"));
    let mut answer = reply("", vec![call("a", None), call("b", None)]);
    answer.parts = vec![Part::text("plain"), signed];
    recorder.reply(&answer, at(2)).unwrap();
    let mut diff = result("a", CallStatus::Success, "ok");
    diff.display = Display::Diff(Box::new(FileDiff {
        unified: "@@".into(),
        file_name: "a.txt".into(),
        path: "/p/a.txt".into(),
        before: None,
        after: "new".into(),
        stat: DiffStat { added_lines: 1, removed_lines: 0, added_chars: 3, removed_chars: 0 },
    }));
    let mut list = result("b", CallStatus::Cancelled, "ok");
    list.display = Display::List { summary: "2 files".into(), items: vec!["x".into(), "y".into()] };
    recorder.results(&[diff.clone(), list.clone()], at(3)).unwrap();
    recorder.compressed("Chat history compressed from 10 to 2 tokens.", Some(&user), "snap", at(4)).unwrap();

    let path = recorder.path().unwrap();
    let messages = json_of(path)["messages"].clone();
    assert_eq!(
        messages[0]["content"],
        json!([{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}])
    );
    assert_eq!(messages[0].get("displayContent"), None);
    assert_eq!(
        messages[1]["content"],
        json!([{"text": "plain"}, {"text": "signed", "thoughtSignature": "sig"}])
    );
    assert_eq!(
        messages[1]["toolCalls"][0]["resultDisplay"],
        json!({
        "fileDiff": "@@", "fileName": "a.txt", "filePath": "/p/a.txt", "originalContent": null, "newContent": "new",
        "diffStat": {"model_added_lines": 1, "model_removed_lines": 0, "model_added_chars": 3, "model_removed_chars": 0,
            "user_added_lines": 0, "user_removed_lines": 0, "user_added_chars": 0, "user_removed_chars": 0},
        "isNewFile": true})
    );
    assert_eq!(
        messages[1]["toolCalls"][1]["resultDisplay"],
        json!({"summary": "2 files", "files": ["x", "y"]})
    );
    assert_eq!(messages[2]["compression"], json!({"keepFrom": user, "snapshot": "snap"}));

    let session = load(path).unwrap();
    let Message::Reply(stored) = &session.messages[1] else { panic!("no reply") };
    assert_eq!(stored.calls[0].display(), diff.display);
    assert_eq!(stored.calls[1].display(), list.display);
    assert_eq!(stored.calls[1].status, StoredStatus::Ended(CallStatus::Cancelled));
    assert_eq!(history(&session)[0].content.text(), "snap");
}

#[test]
fn a_record_log_is_written_as_upstream_does() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("7c0ffee0", SessionFormat::Jsonl, 0);
    let user = recorder.user(&text("hi"), Some("hi"), at(1)).unwrap();
    let gemini = recorder.reply(&reply("Reading.", vec![call("c", None)]), at(2)).unwrap();
    recorder.results(&[result("c", CallStatus::Success, "x")], at(3)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    assert!(path.to_string_lossy().ends_with("session-2026-02-02T02-40-7c0ffee0.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines[0],
        json!({"sessionId": "7c0ffee0", "projectHash": "e1", "startTime": at(0).to_iso(),
        "lastUpdated": at(0).to_iso(), "kind": "main"})
    );
    assert_eq!(lines[1]["id"], json!(user));
    assert_eq!(lines[2], json!({"$set": {"lastUpdated": at(1).to_iso()}}));
    assert_eq!(lines[3]["toolCalls"][0]["status"], "pending");
    assert_eq!(lines[5]["id"], json!(gemini));
    assert_eq!(lines[5]["toolCalls"][0]["status"], "success");
    let session = load(&path).unwrap();
    assert_eq!((session.messages.len(), session.last_updated), (2, at(2)));
}

#[test]
fn two_sessions_of_one_minute_with_the_same_start_of_their_ids_get_two_files() {
    let scratch = Scratch::new();
    let mut one = scratch.recorder("12345678-a", SessionFormat::Json, 0);
    let mut two = scratch.recorder("12345678-b", SessionFormat::Json, 0);
    one.user(&text("one"), None, at(0)).unwrap();
    drop(one);
    two.user(&text("two"), None, at(0)).unwrap();
    assert_eq!(load(two.path().unwrap()).unwrap().id.as_str(), "12345678-b");
    assert_eq!(scratch.names().iter().filter(|name| name.starts_with("session-")).count(), 2);
}

#[test]
fn a_new_session_has_no_file_before_its_first_message_is_whole_in_it() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("7c0ffee0-1234", SessionFormat::Json, 0);
    let name = recorder.path().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    // What a process left that was killed in that moment.
    scratch.put(&format!(".{name}.new"), "{\n  \"sessionId\": \"7c0f");
    assert!(pollux_session::session_files(&scratch.dirs()).is_empty());
    recorder.user(&text("first"), None, at(1)).unwrap();
    assert_eq!(json_of(recorder.path().unwrap())["messages"][0]["content"], "first");
    drop(recorder);
    assert_eq!(scratch.names(), [name]);
}

#[test]
fn a_session_that_begins_while_another_of_its_name_does_gets_another_name() {
    let scratch = Scratch::new();
    let mut first = scratch.recorder("crowded-1", SessionFormat::Json, 0);
    first.user(&text("one"), None, at(1)).unwrap();
    // Its lock is held; the file itself may not be there yet.
    fs::remove_file(first.path().unwrap()).unwrap();
    let mut second = scratch.recorder("crowded-2", SessionFormat::Json, 0);
    second.user(&text("two"), None, at(1)).unwrap();
    assert_ne!(first.path(), second.path());
}

#[test]
fn a_session_in_use_is_refused_with_the_way_out_and_free_afterwards() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    recorder.user(&text("one"), None, at(0)).unwrap();
    let session = load(recorder.path().unwrap()).unwrap();
    let error = Recorder::resume(&session).unwrap_err();
    let path = session.path.display();
    assert_eq!(
        error.to_string(),
        format!(
            "session file `{path}` is in use by process {}; add `--fork` to resume into a new session",
            std::process::id()
        )
    );
    drop(recorder);
    let mut recorder = Recorder::resume(&session).unwrap();
    recorder.user(&text("two"), None, at(5)).unwrap();
    let again = load(&session.path).unwrap();
    assert_eq!((again.messages.len(), again.start, again.last_updated), (2, at(0), at(5)));
    assert!(matches!(Recorder::resume(&again), Err(ResumeError::InUse { .. })));
}

#[test]
fn what_is_nested_too_deeply_for_a_parser_can_be_read_back() {
    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!("end"), |inner, _| json!({"a": inner}))
    }
    for format in [SessionFormat::Json, SessionFormat::Jsonl] {
        let scratch = Scratch::new();
        let mut recorder = scratch.recorder("s", format, 0);
        recorder.user(&text("one"), None, at(0)).unwrap();
        let args = nested(126).as_object().unwrap().clone();
        let answered = CallResult {
            result: vec![Part::response(FunctionResponse {
                id: None,
                name: "deep".into(),
                response: nested(126).as_object().unwrap().clone().into(),
                parts: Vec::new(),
            })],
            ..result("c", CallStatus::Success, "")
        };
        recorder
            .reply(&reply("two", vec![CallRecord { args: args.clone(), ..call("c", None) }]), at(1))
            .unwrap();
        recorder.results(&[answered], at(2)).unwrap();
        recorder.user(&text("three"), None, at(3)).unwrap();
        let stored = load(recorder.path().unwrap()).unwrap();
        assert_eq!((stored.messages.len(), &stored.repaired), (3, &None), "{format:?}");
        let Message::Reply(reply) = &stored.messages[1] else { panic!("{:?}", stored.messages) };
        assert_eq!(reply.calls[0].args, args);
        assert!(format!("{:?}", reply.calls[0].result).contains("end"));
    }
}

#[test]
fn a_session_that_changed_since_it_was_read_is_not_continued() {
    let scratch = Scratch::new();
    let path = scratch.put("session-1-s.json", r#"{"sessionId":"s","messages":[]}"#);
    let session = load(&path).unwrap();
    put(&path, r#"{"sessionId":"s","messages":[],"more":1}"#);
    assert!(matches!(Recorder::resume(&session), Err(ResumeError::Changed { .. })));
}

#[test]
fn an_unwritable_folder_is_reported_and_retried() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.temp()).unwrap();
    put(&scratch.chats(), "a file in the way");
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    assert!(!recorder.user(&text("one"), None, at(0)).unwrap_err().is_disk_full());
    fs::remove_file(scratch.chats()).unwrap();
    recorder.user(&text("two"), None, at(0)).unwrap();
    assert_eq!(load(recorder.path().unwrap()).unwrap().messages.len(), 2);
}

#[test]
fn a_disabled_recorder_takes_everything_and_writes_nothing() {
    let mut recorder = Recorder::disabled();
    recorder.user(&text("x"), None, at(0)).unwrap();
    recorder.reply(&reply("y", vec![call("c", None)]), at(0)).unwrap();
    recorder.results(&[result("c", CallStatus::Success, "")], at(0)).unwrap();
    assert_eq!(recorder.path(), None);
}

#[test]
fn results_before_anything_was_said_create_no_file() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    recorder.results(&[result("c", CallStatus::Success, "")], at(0)).unwrap();
    assert!(scratch.names().is_empty());
    assert!(matches!(load(recorder.path().unwrap()), Err(LoadError::Unreadable { .. })));
}

#[derive(Debug, Clone)]
enum Step {
    User(String, Option<String>),
    Reply(String, usize),
    Results(usize, CallStatus, String),
    Notice(String),
    Compressed(bool, String),
    Resume,
}

fn any_step() -> impl Strategy<Value = Step> {
    let words = || any::<String>();
    let status = prop::sample::select(vec![CallStatus::Success, CallStatus::Error, CallStatus::Cancelled]);
    prop_oneof![
        (words(), prop::option::of(words())).prop_map(|(sent, typed)| Step::User(sent, typed)),
        (words(), 0..4usize).prop_map(|(said, calls)| Step::Reply(said, calls)),
        (0..4usize, status, words()).prop_map(|(count, status, output)| Step::Results(count, status, output)),
        words().prop_map(Step::Notice),
        (any::<bool>(), words()).prop_map(|(keep, snapshot)| Step::Compressed(keep, snapshot)),
        Just(Step::Resume),
    ]
}

/// What the file should say: a line for each message, and the state of its calls.
#[derive(Default)]
struct Expected {
    messages: Vec<(String, Vec<String>)>,
    /// The last reply with calls.
    open: Option<usize>,
}

impl Expected {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::User(sent, typed) => {
                let typed = typed.as_ref().filter(|typed| *typed != sent);
                self.messages.push((format!("user {sent:?} {typed:?}"), Vec::new()));
            }
            Step::Reply(said, count) => {
                if *count > 0 {
                    self.open = Some(self.messages.len());
                }
                self.messages.push((format!("reply {said:?}"), vec!["pending".to_owned(); *count]));
            }
            Step::Results(count, status, output) => {
                let calls = self.open.map(|open| &mut self.messages[open].1);
                let calls = calls.into_iter().flatten().take(*count);
                for call in calls.filter(|call| *call == "pending") {
                    *call = format!("{} {}", status.as_str(), json!(output));
                }
            }
            Step::Notice(words) => self.messages.push((format!("notice {words:?}"), Vec::new())),
            Step::Compressed(_, snapshot) => {
                self.messages.push((format!("compressed {snapshot:?}"), Vec::new()));
            }
            Step::Resume => self.open = None,
        }
    }
}

fn summary(message: &Message) -> (String, Vec<String>) {
    let spoken = |parts: &[Part]| parts.iter().filter_map(Part::spoken_text).collect::<String>();
    match message {
        Message::User(user) => {
            (format!("user {:?} {:?}", spoken(&user.parts), user.typed.as_ref()), Vec::new())
        }
        Message::Reply(reply) => {
            let calls = reply.calls.iter().map(|call| match call.status {
                StoredStatus::Pending => "pending".to_owned(),
                StoredStatus::Ended(status) => {
                    let result = call.result[0].to_json();
                    format!("{} {}", status.as_str(), result["functionResponse"]["response"]["output"])
                }
            });
            (format!("reply {:?}", spoken(&reply.parts)), calls.collect())
        }
        Message::Notice(notice) => match &notice.compression {
            Some(compression) => (format!("compressed {:?}", compression.snapshot), Vec::new()),
            None => (format!("notice {:?}", notice.text), Vec::new()),
        },
        Message::Other { .. } => ("other".to_owned(), Vec::new()),
    }
}

fn perform(mut recorder: Recorder, step: &Step, first: &mut Option<String>, now: Timestamp) -> Recorder {
    let id = match step {
        Step::User(sent, typed) => recorder.user(&text(sent), typed.as_deref(), now).unwrap(),
        Step::Reply(said, count) => {
            let calls = (0..*count).map(|n| call(&format!("c{n}"), Some("sig"))).collect();
            recorder.reply(&reply(said, calls), now).unwrap()
        }
        Step::Results(count, status, output) => {
            let results = (0..*count).rev().map(|n| result(&format!("c{n}"), *status, output));
            recorder.results(&results.collect::<Vec<_>>(), now).unwrap();
            return recorder;
        }
        Step::Notice(words) => recorder.notice(Severity::Info, words, now).unwrap(),
        Step::Compressed(keep, snapshot) => {
            let keep_from = first.clone().filter(|_| *keep);
            recorder.compressed("c", keep_from.as_deref(), snapshot, now).unwrap()
        }
        Step::Resume => {
            let path = recorder.path().unwrap().to_owned();
            if path.exists() {
                drop(recorder);
                recorder = Recorder::resume(&load(&path).unwrap()).unwrap();
            }
            return recorder;
        }
    };
    first.get_or_insert(id);
    recorder
}

fn is_valid(bytes: &[u8], format: SessionFormat) -> bool {
    let parses = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).is_ok();
    match format {
        SessionFormat::Json => parses(bytes),
        SessionFormat::Jsonl => {
            bytes.split(|byte| *byte == b'\n').all(|line| line.is_empty() || parses(line))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_conversation_is_valid_after_every_step_and_reads_back(
        steps in prop::collection::vec(any_step(), 1..14), log in any::<bool>()
    ) {
        let scratch = Scratch::new();
        let format = if log { SessionFormat::Jsonl } else { SessionFormat::Json };
        let mut recorder = scratch.recorder("aaaaaaaa-b", format, 0);
        let mut expected = Expected::default();
        let mut first = None;
        for (index, step) in steps.iter().enumerate() {
            recorder = perform(recorder, step, &mut first, at(i64::try_from(index).unwrap()));
            expected.apply(step);
            let path = recorder.path().unwrap();
            if expected.messages.is_empty() {
                prop_assert!(!path.exists());
                continue;
            }
            prop_assert!(is_valid(&fs::read(path).unwrap(), format));
            let session = load(path).unwrap();
            prop_assert_eq!(&session.repaired, &None);
            prop_assert_eq!(session.messages.iter().map(summary).collect::<Vec<_>>(), &*expected.messages);
        }
    }
}

#[test]
fn a_reply_of_another_provider_comes_back_part_by_part_with_its_seals() {
    let scratch = Scratch::new();
    let mut recorder = scratch.recorder("s", SessionFormat::Json, 0);
    recorder.user(&text("go"), None, at(1)).unwrap();
    let origin = Arc::new(Origin {
        provider: ProviderId::new("anthropic"),
        dialect: Dialect::new("messages"),
        host: "https://api.example".into(),
        model: "c".into(),
        response_id: None,
        phase: None,
    });
    let seal = || Seal { kind: SealKind::AnthropicThinking, data: json!({"signature": "s"}) };
    let thinking = || Part::from(Body::Reasoning { text: "hm".into(), summary: false, seal: Some(seal()) });
    let asked = call("read_file__c1", None);
    let called = Part::call(FunctionCall::new(Some("read_file__c1".into()), "read_file", asked.args.clone()));
    let mut said = reply("", vec![asked]);
    said.parts = vec![thinking(), Part::text("I look"), thinking(), called.clone()];
    said.origin = Some(Arc::clone(&origin));
    recorder.reply(&said, at(2)).unwrap();
    recorder.results(&[result("read_file__c1", CallStatus::Success, "ok")], at(3)).unwrap();
    let path = recorder.path().unwrap().to_owned();
    drop(recorder);

    let written = json_of(&path)["messages"][1].clone();
    assert_eq!(written["content"], json!([{"text": "I look"}, called.to_json()]), "readable by upstream");
    assert_eq!(written["pollux"]["origin"]["provider"], "anthropic");
    let turns = history(&load(&path).unwrap());
    assert_eq!(turns[1].content.parts, said.parts);
    assert_eq!(turns[1].content.origin, Some(origin));
    assert_eq!(turns[2].content.responses().count(), 1);
}
