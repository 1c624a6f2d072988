//! A process that indexes is killed at any moment: no file is half in the index, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::embedding::Embedder;
use pollux_memory::{AgentId, Memory, Settings, Setup, Space, StateDir};

use crate::processes::{child, job};
use crate::scratch::{Noon, Scratch, Toy, WAIT, ask, sync};

const FILES: usize = 12;
const LINES: usize = 60;

fn write(workspace: &Path, file: usize, version: u64) {
    let lines: Vec<String> = (0..LINES)
        .map(|line| format!("file{file} version{version} line{line} with some more words in it"))
        .collect();
    let path = workspace.join(format!("memory/{file}.md"));
    let temp = path.with_extension("part");
    std::fs::write(&temp, lines.join("\n")).unwrap();
    std::fs::rename(&temp, &path).unwrap();
}

fn memory(root: &Path) -> Memory {
    Memory::new(Setup {
        agent: StateDir::at(root.join("state")).agent(&AgentId::default()),
        workspace: root.join("workspace"),
        space: Space::Workspace,
        trusted: true,
        settings: Settings { enabled: true, ..Settings::default() },
        embedder: Some(Toy::new("toy") as Arc<dyn Embedder>),
        clock: Arc::new(Noon),
    })
}

/// Edits, syncs and rebuilds until it is killed.
#[tokio::test]
#[ignore = "a child of the tests below"]
async fn child_indexes() {
    let Some(job) = job() else { return };
    let root = Path::new(&job[0]);
    let seed: u64 = job[1].parse().unwrap();
    let memory = memory(root);
    for step in seed * 1000.. {
        write(&root.join("workspace"), (step % FILES as u64) as usize, step);
        write(&root.join("workspace"), ((step * 7 + 3) % FILES as u64) as usize, step);
        if step % 3 == 0 {
            memory.reindex(WAIT, &|_| {}).await.unwrap();
        } else {
            sync(&memory).await;
        }
    }
}

async fn survive(kills: u64) {
    let scratch = Scratch::new();
    for file in 0..FILES {
        write(&scratch.workspace(), file, 0);
    }
    scratch.synced().await;
    let mut cached = scratch.count("SELECT count(*) FROM embedding_cache");
    for round in 1..=kills {
        let mut process = child("kill::child_indexes", &format!("{}\n{round}\n", scratch.root().display()));
        // Any moment will do: it is at work from its first milliseconds on.
        std::thread::sleep(Duration::from_millis(15 + round * 7919 % 90));
        process.kill().unwrap();
        process.wait().unwrap();
        check(&scratch, round);
        let now = scratch.count("SELECT count(*) FROM embedding_cache");
        assert!(now >= cached, "kill {round}: {now} vectors in the cache, there were {cached}");
        cached = now;
    }
    let (memory, synced) = scratch.synced().await;
    assert_eq!(synced.reindexed, None);
    assert!(!ask(&memory, "file3 line7").await.hits.is_empty());
    check(&scratch, kills);
}

/// Every file is there, whole, in one version, in every table.
fn check(scratch: &Scratch, round: u64) {
    let database = scratch.database();
    let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "kill {round}");
    let mut statement = database.prepare("SELECT path, text FROM chunks").unwrap();
    let rows =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in rows.map(Result::unwrap) {
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            versions.entry(path.clone()).or_default().insert(words[1].to_owned());
            lines.entry(path.clone()).or_default().insert(words[2].to_owned());
        }
    }
    assert_eq!(lines.len(), FILES, "kill {round}: files are missing");
    assert!(versions.values().all(|versions| versions.len() == 1), "kill {round}: {versions:?}");
    assert!(lines.values().all(|lines| lines.len() == LINES), "kill {round}: half a file");
    let count = |sql: &str| database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let chunks = count("SELECT count(*) FROM chunks");
    for table in
        ["pollux_chunks", "pollux_q8", "chunks_fts_content", "pollux_fts_docsize", "chunks_vec_rowids"]
    {
        assert_eq!(count(&format!("SELECT count(*) FROM {table}")), chunks, "kill {round}: {table}");
    }
}

#[tokio::test]
async fn a_killed_process_leaves_a_whole_index() {
    survive(12).await;
}

#[tokio::test]
#[ignore = "takes a while; two hundred kills"]
async fn two_hundred_killed_processes_leave_a_whole_index() {
    survive(200).await;
}
