use std::sync::Arc;

use pollux_memory::{Category, Confidence, Forget, Learnings, SessionKey, SessionStore};
use serde_json::json;

use crate::scratch::{Noon, Scratch, ask, holding, sync};

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
