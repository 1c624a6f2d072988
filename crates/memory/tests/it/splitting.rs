//! An index of all workspaces from before they were kept apart: everything goes where it came from, and nothing is
//! embedded twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pollux_domain::embedding::Embedder;
use pollux_memory::{AgentId, Forget, Memory, Request, Settings, Setup, Space, StateDir};

use crate::processes::{child, job};
use crate::scratch::{Noon, Scratch, Toy, ask, holding, paths, sync};

/// An agent that remembered two workspaces in one index, with a session of nobody knows where.
async fn old() -> (Scratch, Scratch) {
    let a = Scratch::new();
    let b = a.beside("other");
    for number in 0..5 {
        a.said(&format!("a{number}"), &[("user", &format!("the kumquat number {number}"))]);
        b.said(&format!("b{number}"), &[("user", &format!("the durian number {number}"))]);
    }
    let lost = a.agent().transcript_file("lost", None);
    std::fs::write(
        lost,
        "{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"a lychee of nowhere\"}}\n",
    )
    .unwrap();
    b.note("memory/plan.md", "durian plan");
    a.note("MEMORY.md", "the kumquat costs nine");
    // The last one that was indexed has its notes in there.
    a.with_space(Space::Shared).synced().await;
    (a, b)
}

fn embedded(scratch: &Scratch) -> usize {
    scratch.toy.as_ref().unwrap().asked.load(Ordering::Relaxed)
}

async fn everything(memory: &Memory, query: &str) -> Vec<String> {
    let request = Request { max_results: Some(100), ..Request::new(query) };
    let mut found: Vec<String> =
        memory.search(&request).await.unwrap().hits.into_iter().map(|hit| hit.path).collect();
    found.sort();
    found
}

#[tokio::test]
async fn rows_go_where_they_came_from_and_vectors_are_kept() {
    let (a, b) = old().await;
    let before = embedded(&a);
    assert_eq!(before, 12);
    let (in_a, synced) = a.synced().await;
    assert_eq!((synced.embedded, synced.from_cache, embedded(&a)), (0, 6, before), "{synced:?}");
    assert_eq!(everything(&in_a, "kumquat").await.len(), 6);
    assert!(everything(&in_a, "durian lychee").await.is_empty());
    let shared = a.with_space(Space::Shared);
    assert_eq!(
        shared.count("SELECT count(*) FROM files WHERE path LIKE 'sessions/a%' OR path = 'MEMORY.md'"),
        0
    );
    assert_eq!(shared.count("SELECT count(*) FROM files"), 6, "the others wait");

    let (in_b, synced) = b.synced().await;
    assert_eq!((synced.embedded, synced.from_cache), (1, 5), "its note was never in there");
    assert_eq!(everything(&in_b, "durian").await.len(), 6);
    assert!(everything(&in_b, "kumquat lychee").await.is_empty());

    let nowhere = a.with_space(Space::Unassigned).memory();
    assert_eq!(paths(&ask(&nowhere, "lychee").await), ["sessions/lost.jsonl"]);
    assert_eq!(everything(&nowhere, "kumquat durian lychee").await, ["sessions/lost.jsonl"]);
    assert_eq!(
        everything(&nowhere, "kumquat durian lychee").await,
        ["sessions/lost.jsonl"],
        "and it stays there"
    );
}

#[tokio::test]
async fn unclaimed_rows_are_not_shown_as_unassigned() {
    let (a, _) = old().await;
    let nowhere = a.with_space(Space::Unassigned).memory();
    assert_eq!(everything(&nowhere, "kumquat durian lychee").await, ["MEMORY.md", "sessions/lost.jsonl"]);
    assert_eq!(sync(&nowhere).await.files, 0);
    let export = String::from_utf8(nowhere.export(Vec::new()).await.unwrap()).unwrap();
    assert!(export.contains("lychee") && !export.contains("durian"), "{export}");
}

#[tokio::test]
async fn a_note_that_differs_is_left_unassigned() {
    let (_, b) = old().await;
    b.note("MEMORY.md", "the durian costs one");
    let (in_b, synced) = b.synced().await;
    assert_eq!((synced.changed, synced.embedded), (7, 2));
    assert!(everything(&in_b, "kumquat").await.is_empty());
    let nowhere = b.with_space(Space::Unassigned).memory();
    assert_eq!(everything(&nowhere, "kumquat costs").await, ["MEMORY.md"]);
    assert!(ask(&nowhere, "kumquat costs").await.hits[0].snippet.contains("nine"));
}

#[tokio::test]
async fn vectors_are_kept_without_a_cache_and_of_another_programs_file() {
    for foreign in [false, true] {
        let (a, _) = old().await;
        let database = a.with_space(Space::Shared).database();
        database.execute_batch("DELETE FROM embedding_cache").unwrap();
        if foreign {
            let sql = "SELECT name FROM sqlite_master WHERE name IN ('pollux_state', 'pollux_chunks', 'pollux_q8', 'pollux_files', 'pollux_fts', 'pollux_trigram')";
            let names: Vec<String> = database
                .prepare(sql)
                .unwrap()
                .query_map([], |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            names.iter().for_each(|name| database.execute_batch(&format!("DROP TABLE {name}")).unwrap());
        }
        drop(database);
        let (memory, synced) = a.synced().await;
        assert_eq!((synced.embedded, synced.from_cache), (0, 6), "{foreign} {synced:?}");
        assert_eq!(everything(&memory, "kumquat").await.len(), 6);
        let left = a.with_space(Space::Shared).count("SELECT count(*) FROM chunks");
        assert_eq!(left, if foreign { 12 } else { 6 }, "another program's rows are its own to remove");
    }
}

#[tokio::test]
async fn an_older_version_still_opens_the_old_file_and_embeds_nothing_twice() {
    let (a, b) = old().await;
    a.synced().await;
    b.synced().await;
    let before = embedded(&a);
    // As the version before did it.
    let (memory, synced) = a.with_space(Space::Shared).synced().await;
    assert_eq!((synced.reindexed, embedded(&a)), (None, before), "{:?}", synced.warnings);
    assert_eq!(everything(&memory, "kumquat durian lychee").await.len(), 12);
    memory.close().await;
    // What it embedded meanwhile is not embedded again here.
    a.said("a9", &[("user", "the kumquat number nine")]);
    assert_eq!(a.with_space(Space::Shared).synced().await.1.embedded, 1);
    assert_eq!(a.synced().await.1.embedded, 0);
}

#[tokio::test]
async fn a_damaged_old_index_is_left_alone_and_named() {
    let (a, _) = old().await;
    let file = a.agent().index_file();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
    std::fs::write(&file, vec![0xAB; 20_000]).unwrap();
    let (memory, synced) = a.synced().await;
    assert!(synced.warnings.iter().any(|line| line.contains("damaged")), "{synced:?}");
    assert_eq!(everything(&memory, "kumquat").await.len(), 6);
    assert!(
        memory.sync(pollux_memory::Scope::All, Duration::ZERO, &|_| {}).await.unwrap().warnings.is_empty()
    );
    assert_eq!(std::fs::read(&file).unwrap().len(), 20_000);
}

#[tokio::test]
async fn forgotten_content_is_removed_from_the_old_index_too() {
    let (a, _) = old().await;
    let (memory, _) = a.synced().await;
    memory.forget(Forget::Phrase("kumquat".into()), false).await.unwrap();
    memory.forget(Forget::Session("a3".into()), false).await.unwrap();
    memory.close().await;
    assert!(holding(&a.state(), "kumquat").is_empty());
    assert!(!holding(&a.state(), "durian").is_empty() && !holding(&a.state(), "lychee").is_empty());
    let nowhere = a.with_space(Space::Unassigned).memory();
    nowhere.forget(Forget::Phrase("lychee".into()), false).await.unwrap();
    assert!(holding(&a.state(), "lychee").is_empty());
}

fn memory(root: &std::path::Path, name: &str) -> Memory {
    Memory::new(Setup {
        agent: StateDir::at(root.join("state")).agent(&AgentId::default()),
        workspace: root.join(name),
        space: Space::Workspace,
        trusted: true,
        settings: Settings { enabled: true, ..Settings::default() },
        embedder: Some(Toy::new("toy") as Arc<dyn Embedder>),
        clock: Arc::new(Noon),
    })
}

#[tokio::test]
#[ignore = "a child of the test below"]
async fn child_splits() {
    let Some(job) = job() else { return };
    for name in ["workspace", "other"] {
        sync(&memory(std::path::Path::new(&job[0]), name)).await;
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing() {
    for round in 0..8_u64 {
        let (a, b) = old().await;
        for kill in 0..3 {
            let mut process = child("splitting::child_splits", &format!("{}\n", a.root().display()));
            // Any moment will do; later kills find what earlier ones left.
            std::thread::sleep(Duration::from_millis(4 + (round * 3 + kill) * 37 % 60));
            let _ = process.kill();
            process.wait().unwrap();
        }
        let (in_a, synced) = a.synced().await;
        assert_eq!((synced.reindexed, synced.embedded), (None, 0), "round {round}");
        assert_eq!(everything(&in_a, "kumquat").await.len(), 6, "round {round}");
        let (in_b, synced) = b.synced().await;
        assert_eq!(everything(&in_b, "durian").await.len(), 6, "round {round}");
        assert!(synced.embedded <= 1, "round {round}: only the note that was never indexed");
        let nowhere = a.with_space(Space::Unassigned).memory();
        assert_eq!(
            everything(&nowhere, "kumquat durian lychee").await,
            ["sessions/lost.jsonl"],
            "round {round}"
        );
        assert!(everything(&in_a, "durian lychee").await.is_empty());
    }
}
