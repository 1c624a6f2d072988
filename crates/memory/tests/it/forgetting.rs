use std::sync::Arc;

use pollux_memory::{
    Category, Confidence, Forget, ForgetError, Learnings, SessionKey, SessionStore, Transcript,
    TranscriptError,
};
use serde_json::json;

use crate::scratch::{Noon, Scratch, ask, holding, paths, sync};

#[tokio::test]
async fn a_forgotten_phrase_is_in_no_file_but_its_source() {
    let scratch = Scratch::new();
    let phrase = "Project Zebrafinch";
    scratch.note("memory/plan.md", &format!("Before.\nWe call it {phrase} among us.\nAfter: the harbour."));
    for number in 0..50 {
        scratch.note(&format!("memory/{number}.md"), &format!("filler {number} project notes"));
    }
    scratch.said(
        "s1",
        &[("user", &format!("tell me of {phrase} please")), ("assistant", "The harbour is fine.")],
    );
    let clock = Arc::new(Noon);
    let store = SessionStore::new(scratch.agent().store_file(), std::time::Duration::ZERO, clock.clone());
    let key = SessionKey::main(scratch.agent().id());
    store
        .upsert(
            &key,
            json!({"lastUserMessage": format!("tell me of {phrase} please")}).as_object().unwrap().clone(),
        )
        .unwrap();
    let learnings = Learnings::of(&scratch.agent(), &scratch.workspace(), scratch.space, clock);
    learnings.add(Category::Preference, &format!("always say {phrase} in full"), Confidence::High).unwrap();
    learnings.add(Category::Preference, "keep it short", Confidence::High).unwrap();
    let (memory, _) = scratch.synced().await;
    assert!(holding(&scratch.state(), "zebrafinch").len() >= 3);
    std::fs::write(scratch.agent().agent_dir().join("memory-index.db.corrupt-1"), "zebrafinch").unwrap();

    let done = memory.forget(Forget::Phrase("project zebrafinch".into()), false).await.unwrap();
    assert_eq!(done.learnings, 1);
    assert_eq!(done.transcripts.len(), 1);
    assert_eq!(done.kept, [scratch.workspace().join("memory/plan.md")]);
    memory.close().await;
    assert_eq!(holding(&scratch.state(), "zebrafinch"), Vec::<std::path::PathBuf>::new());
    assert_eq!(learnings.list().unwrap().len(), 1);

    sync(&memory).await;
    memory.reindex(crate::scratch::WAIT, &|_| {}).await.unwrap();
    assert_eq!(holding(&scratch.state(), "zebrafinch"), Vec::<std::path::PathBuf>::new());
    let answer = ask(&memory, "harbour").await;
    assert!(
        answer.hits.iter().any(|hit| hit.path == "memory/plan.md" && hit.snippet.contains("[FORGOTTEN]")),
        "the rest is still found"
    );
}

#[tokio::test]
async fn a_forgotten_session_is_gone_with_its_transcript() {
    let scratch = Scratch::new();
    scratch.said("gone", &[("user", "the quetzal sings")]);
    scratch.said("stays", &[("user", "the wren sings")]);
    let store = SessionStore::new(scratch.agent().store_file(), std::time::Duration::ZERO, Arc::new(Noon));
    for id in ["gone", "stays"] {
        let patch = json!({"sessionId": id, "lastUserMessage": format!("about {id}")});
        store
            .upsert(&SessionKey::session(scratch.agent().id(), id), patch.as_object().unwrap().clone())
            .unwrap();
    }
    let (memory, _) = scratch.synced().await;
    let done = memory.forget(Forget::Session("gone".into()), false).await.unwrap();
    assert_eq!(
        (done.files, done.chunks, done.transcripts.len()),
        (vec!["sessions/gone.jsonl".to_owned()], 1, 1)
    );
    memory.close().await;
    assert!(holding(&scratch.state(), "quetzal").is_empty());
    assert_eq!(store.read().unwrap().len(), 1);
    assert_eq!(ask(&memory, "sings").await.hits.len(), 1);
}

#[tokio::test]
async fn an_index_without_a_forgotten_note_is_up_to_date() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "The heron waits.");
    scratch.note("memory/b.md", "The stork waits.");
    let (memory, _) = scratch.synced().await;
    assert!(!memory.status().await.unwrap().dirty);
    memory.forget(Forget::Path("memory/a.md".into()), false).await.unwrap();
    assert!(!memory.status().await.unwrap().dirty, "what was forgotten is not missing");
    scratch.note("memory/c.md", "The crane waits.");
    assert!(memory.status().await.unwrap().dirty);
}

#[tokio::test]
async fn a_phrase_without_spaces_is_forgotten_inside_of_longer_runs() {
    let scratch = Scratch::new();
    scratch.note("memory/ja.md", "来月の隼計画は延期です。");
    scratch.said("th", &[("user", "เรื่องโครงการเหยี่ยวเริ่มแล้ว"), ("assistant", "매프로젝트는 5월에")]);
    let (memory, _) = scratch.synced().await;
    for (phrase, found) in [
        ("隼計画", "memory/ja.md"),
        ("โครงการเหยี่ยว", "sessions/th.jsonl"),
        ("매프로젝트", "sessions/th.jsonl"),
    ] {
        assert!(!holding(&scratch.state(), phrase).is_empty(), "{phrase}");
        let done = memory.forget(Forget::Phrase(phrase.into()), false).await.unwrap();
        assert_eq!(done.files, [found], "{phrase}");
        memory.close().await;
        assert_eq!(holding(&scratch.state(), phrase), Vec::<std::path::PathBuf>::new(), "{phrase}");
    }
}

#[tokio::test]
async fn notes_are_forgotten_by_path_and_citation() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c", "d", "gone"] {
        scratch.note(&format!("memory/{name}.md"), &format!("the heron of {name}"));
    }
    scratch.said("s1", &[("user", "the heron flies")]);
    let (memory, _) = scratch.synced().await;
    std::fs::remove_file(scratch.workspace().join("memory/gone.md")).unwrap();
    let absolute = scratch.workspace().join("memory/b.md").display().to_string();
    for (given, name) in [
        ("./memory//gone.md", "memory/gone.md"),
        ("./memory/a.md", "memory/a.md"),
        (absolute.as_str(), "memory/b.md"),
        ("memory/../memory/c.md#L1", "memory/c.md"),
        ("memory/d.md#L1-L9", "memory/d.md"),
        ("sessions/s1.jsonl#L2", "sessions/s1.jsonl"),
    ] {
        let would = memory.forget(Forget::Path(given.into()), true).await.unwrap();
        assert_eq!((would.files, would.chunks), (vec![name.to_owned()], 1), "{given}");
        let done = memory.forget(Forget::Path(given.into()), false).await.unwrap();
        assert_eq!(done.chunks, 1, "{given}");
    }
    assert!(ask(&memory, "heron").await.hits.is_empty());
    assert!(holding(&scratch.state(), "the heron flies").is_empty(), "a session goes with its transcript");
}

#[tokio::test]
async fn what_is_not_known_is_an_error_and_not_barred() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "the heron waits");
    for id in ["0f9d1111", "0f9d2222", "77aa"] {
        scratch.said(id, &[("user", "the stork waits")]);
    }
    let (memory, _) = scratch.synced().await;
    let forget = async |what: Forget| memory.forget(what, false).await;
    for given in ["0f9", "latest", "1", "0f9d3"] {
        let error = forget(Forget::Session(given.into())).await.unwrap_err();
        assert!(matches!(&error, ForgetError::NoSession { given: named } if named == given), "{error}");
        assert!(error.hint().is_some());
    }
    let error = forget(Forget::Session("0f9d".into())).await.unwrap_err();
    assert_eq!(error.to_string(), "`0f9d` matches several sessions: 0f9d1111, 0f9d2222");
    for given in ["memory/b.md", "b.md", "/etc/passwd", "memory", "memory/a.md#top"] {
        let error = forget(Forget::Path(given.into())).await.unwrap_err();
        assert!(matches!(&error, ForgetError::NoNote { given: named } if named == given), "{error}");
    }
    assert!(matches!(forget(Forget::Phrase("?!".into())).await, Err(ForgetError::NoWords { .. })));
    assert!(memory.forget_everywhere(Forget::Session("1".into()), false).await.is_err());
    assert!(holding(&scratch.state(), "memory/b.md").is_empty(), "nothing is barred");
    scratch.note("memory/b.md", "the crane waits");
    sync(&memory).await;
    assert_eq!(paths(&ask(&memory, "crane").await)[0], "memory/b.md");

    let done = forget(Forget::Session("0f9d1".into())).await.unwrap();
    assert_eq!((done.files, done.chunks), (vec!["sessions/0f9d1111.jsonl".to_owned()], 1));
    let done = memory.forget_everywhere(Forget::Session("0f9d".into()), false).await.unwrap();
    assert_eq!(done.files, ["sessions/0f9d2222.jsonl"]);
    assert_eq!(ask(&memory, "stork").await.hits.len(), 1);
}

#[tokio::test]
async fn a_session_that_runs_goes_on_recording_after_something_was_forgotten() {
    let scratch = Scratch::new();
    let mut transcript =
        Transcript::of_session(&scratch.agent(), "s1", &scratch.workspace(), Arc::new(Noon)).unwrap();
    transcript.user("tell me of Zebrafinch").unwrap();
    let memory = scratch.memory();
    memory.forget(Forget::Phrase("zebrafinch".into()), false).await.unwrap();
    transcript.assistant("the wren sings", None).unwrap();
    sync(&memory).await;
    assert_eq!(paths(&ask(&memory, "wren").await), ["sessions/s1.jsonl"]);
    let text = std::fs::read_to_string(transcript.path()).unwrap();
    assert_eq!((text.lines().count(), text.contains("Zebrafinch")), (3, false), "{text}");

    memory.forget(Forget::Session("s1".into()), false).await.unwrap();
    assert!(matches!(transcript.user("more of it"), Err(TranscriptError::Forgotten)));
    assert!(!transcript.path().exists(), "what was forgotten does not come back");
}
