use std::sync::atomic::Ordering;
use std::time::Duration;

use pollux_memory::{ChunkMode, Forget, Indexer, Scope, Source, Trigger};
use tokio_util::sync::CancellationToken;

use crate::scratch::{Scratch, Toy, WAIT, ask, paths, sync};

#[tokio::test]
async fn nothing_is_made_before_something_is_asked() {
    let scratch = Scratch::new();
    let memory = scratch.memory();
    assert!(!scratch.state().exists());
    assert!(ask(&memory, "anything").await.hits.is_empty());
    assert!(memory.status().await.unwrap().chunks == 0 && !scratch.state().exists());
}

#[tokio::test]
async fn notes_and_sessions_are_indexed_and_only_what_changed_is_written() {
    let scratch = Scratch::new();
    scratch.note("MEMORY.md", "# Facts\nThe office is in Lisbon.");
    let long: Vec<String> = (0..200).map(|line| format!("line {line} about subject{line}")).collect();
    scratch.note("memory/long.md", &long.join("\n"));
    scratch.note("memory/ignored.txt", "not a note");
    scratch.said("s1", &[("user", "We drink oolong"), ("assistant", "Noted"), ("tool", "poison")]);
    let (memory, first) = scratch.synced().await;
    assert_eq!((first.files, first.changed, first.reindexed), (3, 3, None));
    assert_eq!(first.chunks_written as i64, scratch.count("SELECT count(*) FROM chunks"));
    assert_eq!(scratch.count("SELECT count(*) FROM chunks WHERE text LIKE '%poison%'"), 0);

    let again = sync(&memory).await;
    assert_eq!((again.changed, again.chunks_written), (0, 0));

    let mut edited = long.clone();
    edited[100] = "line 100 about subjectABC".into();
    scratch.note("memory/long.md", &edited.join("\n"));
    let third = sync(&memory).await;
    assert_eq!(third.changed, 1);
    assert!((1..=2).contains(&third.chunks_written), "{third:?}");
    assert_eq!(third.chunks_removed, third.chunks_written);
    assert_eq!(paths(&ask(&memory, "subjectABC").await)[0], "memory/long.md");

    std::fs::remove_file(scratch.workspace().join("memory/long.md")).unwrap();
    let fourth = sync(&memory).await;
    assert_eq!(fourth.removed, 1);
    for table in ["chunks", "chunks_fts", "pollux_chunks"] {
        assert_eq!(
            scratch.count(&format!("SELECT count(*) FROM {table} WHERE path = 'memory/long.md'")),
            0,
            "{table}"
        );
    }
    let chunks = scratch.count("SELECT count(*) FROM chunks");
    assert_eq!(
        (
            scratch.count("SELECT count(*) FROM pollux_q8"),
            scratch.count("SELECT count(*) FROM pollux_fts_docsize")
        ),
        (chunks, chunks)
    );
}

#[tokio::test]
async fn one_source_can_be_brought_up_to_date_or_left_out() {
    let mut scratch = Scratch::new();
    scratch.note("MEMORY.md", "note");
    scratch.said("s1", &[("user", "a spoken word")]);
    let memory = scratch.memory();
    memory.sync(Scope::Notes, WAIT, &|_| {}).await.unwrap();
    assert_eq!(scratch.count("SELECT count(*) FROM files"), 1);
    memory.sync(Scope::Sessions, WAIT, &|_| {}).await.unwrap();
    assert_eq!(scratch.count("SELECT count(*) FROM files"), 2);
    scratch.settings.sources = vec![Source::Memory];
    let (memory, synced) = scratch.synced().await;
    assert_eq!(
        (synced.removed, scratch.count("SELECT count(*) FROM chunks WHERE source = 'sessions'")),
        (1, 0)
    );
    assert!(ask(&memory, "spoken word").await.hits.is_empty());
}

#[tokio::test]
async fn vectors_are_made_once_for_a_text() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "the same text");
    let (memory, first) = scratch.synced().await;
    assert_eq!((first.embedded, first.from_cache), (1, 0));
    scratch.note("memory/b.md", "the same text");
    let second = sync(&memory).await;
    assert_eq!((second.embedded, second.from_cache), (0, 1));
    let forced = memory.reindex(WAIT, &|_| {}).await.unwrap();
    assert_eq!((forced.embedded, forced.from_cache, forced.files), (0, 2, 2));
    assert_eq!(scratch.toy.as_ref().unwrap().asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn another_model_or_chunking_rebuilds_the_index_with_the_cache() {
    let mut scratch = Scratch::new();
    scratch.note("MEMORY.md", "alpha beta");
    scratch.synced().await;
    scratch.toy = Some(Toy::new("other"));
    let (_, synced) = scratch.synced().await;
    assert!(synced.reindexed.unwrap().contains("other"));
    assert_eq!(scratch.count("SELECT count(*) FROM embedding_cache"), 2, "both models' vectors");
    scratch.settings.chunking.tokens = 100;
    assert!(scratch.synced().await.1.reindexed.is_some());
    scratch.settings.chunking.mode = ChunkMode::V2;
    assert!(scratch.synced().await.1.reindexed.is_some());
    assert_eq!(scratch.synced().await.1.reindexed, None);
    // Without a provider for a while the vectors stay.
    scratch.toy = None;
    let (memory, synced) = scratch.synced().await;
    assert_eq!((synced.reindexed, scratch.count("SELECT count(*) FROM pollux_q8")), (None, 1));
    assert_eq!(paths(&ask(&memory, "alpha").await), ["MEMORY.md"]);
}

#[tokio::test]
async fn without_vectors_words_still_find_and_the_vectors_come_later() {
    let scratch = Scratch::new();
    scratch.note("MEMORY.md", "the deploy key is in the vault");
    let toy = scratch.toy.clone().unwrap();
    toy.fails.store(true, Ordering::Relaxed);
    let (memory, synced) = scratch.synced().await;
    assert!(synced.warnings[0].contains("the toy is broken"), "{synced:?}");
    let answer = ask(&memory, "where is the vault").await;
    assert_eq!(paths(&answer), ["MEMORY.md"]);
    assert!(answer.degraded.unwrap().contains("the toy is broken"));
    assert_eq!(memory.status().await.unwrap().pending, 1);
    toy.fails.store(false, Ordering::Relaxed);
    let healed = sync(&memory).await;
    assert_eq!((healed.embedded, memory.status().await.unwrap().pending), (1, 0));
    assert_eq!(ask(&memory, "where is the vault").await.degraded, None);
    assert_eq!(scratch.count("SELECT count(*) FROM chunks"), 1);
}

#[tokio::test]
async fn the_cache_keeps_the_newest() {
    let mut scratch = Scratch::new();
    scratch.settings.cache.max_entries = 3;
    for number in 0..6 {
        scratch.note(&format!("memory/{number}.md"), &format!("text number {number}"));
    }
    scratch.synced().await;
    assert_eq!(scratch.count("SELECT count(*) FROM embedding_cache"), 3);
}

#[tokio::test(start_paused = true)]
async fn the_indexer_follows_notes_and_transcripts() {
    let mut scratch = Scratch::new();
    scratch.settings.sync.delta_messages = 3;
    scratch.note("memory/a.md", "first");
    let memory = scratch.memory();
    let indexer = Indexer::start(memory.clone(), &CancellationToken::new());
    indexer.notify(Trigger::SessionStarted);
    until(|| {
        scratch.index_file().exists()
            && scratch.count("SELECT count(*) FROM sqlite_master WHERE name = 'files'") == 1
            && scratch.count("SELECT count(*) FROM files") == 1
    })
    .await;
    scratch.note("memory/b.md", "second");
    until(|| scratch.count("SELECT count(*) FROM files") == 2).await;
    scratch.said("s1", &[("user", "one"), ("assistant", "two"), ("user", "three")]);
    indexer.notify(Trigger::TranscriptGrew(scratch.agent().transcript_file("s1", None)));
    until(|| scratch.count("SELECT count(*) FROM files") == 3).await;
    scratch.said("s2", &[("user", "too little to be indexed yet")]);
    indexer.notify(Trigger::TranscriptGrew(scratch.agent().transcript_file("s2", None)));
    indexer.notify(Trigger::TranscriptGrew("/etc/passwd".into()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    indexer.stop().await;
    assert_eq!(scratch.count("SELECT count(*) FROM files"), 4, "the end of a session is indexed too");
}

#[tokio::test]
async fn triggers_before_the_stop_are_still_indexed() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "first");
    scratch.said("s1", &[("user", "one")]);
    let indexer = Indexer::start(scratch.memory(), &CancellationToken::new());
    indexer.notify(Trigger::Searched);
    indexer.notify(Trigger::TranscriptGrew(scratch.agent().transcript_file("s1", None)));
    // The task did not run yet: both wait in its inbox.
    indexer.stop().await;
    assert_eq!(scratch.count("SELECT count(*) FROM files"), 2);
}

/// Time passes by itself while everything waits.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::thread::yield_now();
    }
    panic!("it never happened");
}

#[tokio::test]
async fn forgetting_a_note_lets_the_others_be() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "alpha");
    scratch.note("memory/b.md", "beta");
    let (memory, _) = scratch.synced().await;
    let would = memory.forget(Forget::Path("memory/a.md".into()), true).await.unwrap();
    assert_eq!((would.chunks, scratch.count("SELECT count(*) FROM chunks")), (1, 2));
    let done = memory.forget(Forget::Path("memory/a.md".into()), false).await.unwrap();
    assert_eq!(
        (done.chunks, done.cache_entries, done.kept),
        (1, 1, vec![scratch.workspace().canonicalize().unwrap().join("memory/a.md")])
    );
    assert!(!paths(&ask(&memory, "alpha").await).contains(&"memory/a.md"));
    assert_eq!(paths(&ask(&memory, "beta").await), ["memory/b.md"]);
    sync(&memory).await;
    assert_eq!(scratch.count("SELECT count(*) FROM chunks"), 1, "it does not come back");
}
