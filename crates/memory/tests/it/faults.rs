use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pollux_memory::{IndexError, Level, Request, Scope, SearchMode};

use crate::scratch::{Scratch, WAIT, ask, files, paths, sync};

#[tokio::test]
async fn a_damaged_index_is_set_aside_and_rebuilt() {
    let scratch = Scratch::new();
    scratch.note("MEMORY.md", "still here");
    scratch.synced().await;
    std::fs::write(scratch.index_file(), b"this is no database at all, but it is long enough to be one............................................").unwrap();
    let memory = scratch.memory();
    assert!(memory.doctor().await.iter().any(|finding| finding.level == Level::Problem));
    let synced = sync(&memory).await;
    assert!(
        synced.warnings[0].contains("is damaged") && synced.warnings[0].contains(".corrupt-"),
        "{synced:?}"
    );
    assert_eq!(paths(&ask(&memory, "still here").await), ["MEMORY.md"]);
    let kept = std::fs::read_dir(scratch.index_file().parent().unwrap())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".corrupt-"));
    assert_eq!(kept.count(), 1);
}

#[tokio::test]
async fn pages_overwritten_in_the_middle_do_not_make_it_crash() {
    let scratch = Scratch::new();
    for number in 0..40 {
        scratch.note(&format!("memory/{number}.md"), &format!("word{number} ").repeat(200));
    }
    let (memory, _) = scratch.synced().await;
    memory.close().await;
    scratch.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = scratch.index_file();
    let mut bytes = std::fs::read(&file).unwrap();
    let length = bytes.len();
    for at in (4096..length).step_by(3 * 4096) {
        bytes[at..(at + 2000).min(length)].fill(0xAB);
    }
    std::fs::write(&file, bytes).unwrap();
    let memory = scratch.memory();
    let _ = memory.search(&pollux_memory::Request::new("word7")).await;
    let _ = memory.status().await;
    assert!(memory.doctor().await.iter().any(|finding| finding.level == Level::Problem));
    let rebuilt = memory.reindex(WAIT, &|_| {}).await.unwrap();
    assert!(rebuilt.warnings[0].contains(".corrupt-"), "{rebuilt:?}");
    assert_eq!(rebuilt.reindexed.as_deref(), Some("requested"));
    assert_eq!(paths(&ask(&memory, "word7").await)[0], "memory/7.md");
    let kept = files(file.parent().unwrap()).into_iter();
    assert_eq!(kept.filter(|path| path.to_string_lossy().contains(".corrupt-")).count(), 1);
}

#[tokio::test]
async fn an_index_with_a_useless_cache_is_replaced_when_that_is_asked_for() {
    let scratch = Scratch::new();
    scratch.note("MEMORY.md", "still here");
    scratch.synced().await;
    // No page is damaged, but nothing can be taken out of it.
    for broken in ["DROP TABLE embedding_cache", "DROP TABLE chunks_fts", "DROP TABLE files"] {
        scratch.database().execute_batch(broken).unwrap();
        let memory = scratch.memory();
        let rebuilt = memory.reindex(WAIT, &|_| {}).await.unwrap_or_else(|error| panic!("{broken}: {error}"));
        assert_eq!(rebuilt.changed, 1, "{broken}");
        assert_eq!(paths(&ask(&memory, "still here").await), ["MEMORY.md"], "{broken}");
        assert!(memory.doctor().await.iter().all(|finding| finding.level != Level::Problem), "{broken}");
    }
}

#[tokio::test]
async fn notes_that_cannot_be_indexed_are_named_and_stop_nothing() {
    use std::os::unix::ffi::OsStrExt as _;
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "the heron waits");
    let folder = scratch.workspace().join("memory");
    for name in [&b"caf\xe9.md"[..], b"caf\xe8.md"] {
        std::fs::write(folder.join(std::ffi::OsStr::from_bytes(name)), "the same text").unwrap();
    }
    let large = std::fs::File::create(folder.join("large.md")).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    let (memory, synced) = scratch.synced().await;
    assert_eq!((synced.files, synced.warnings.len(), synced.skipped.len()), (1, 0, 3), "{synced:?}");
    assert!(synced.skipped[2].contains("large.md` is not indexed: it has 33 MiB"), "{synced:?}");
    assert!(synced.skipped[..2].iter().all(|line| line.contains("is not valid UTF-8; rename it")));
    assert_eq!(paths(&ask(&memory, "heron").await), ["memory/a.md"]);
    let named = memory.doctor().await.into_iter().filter(|finding| finding.what.contains("is not indexed"));
    assert_eq!(named.count(), 3);
}

#[tokio::test]
async fn vectors_of_zeros_leave_their_passages_to_the_keywords() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "the heron waits");
    let toy = scratch.toy.clone().unwrap();
    toy.is_empty.store(true, Ordering::Relaxed);
    let (memory, synced) = scratch.synced().await;
    assert!(synced.warnings[0].contains("memory/a.md`: the vectors of 1 passage are all zero"), "{synced:?}");
    toy.is_empty.store(false, Ordering::Relaxed);
    scratch.note("memory/b.md", "the stork waits");
    for mode in [SearchMode::V2, SearchMode::Seed] {
        let request = Request { mode: Some(mode), min_score: Some(0.0), ..Request::new("heron waits") };
        assert_eq!(paths(&memory.search(&request).await.unwrap()), ["memory/a.md"], "{mode:?}");
    }
    let healed = sync(&memory).await;
    assert_eq!((healed.embedded, healed.warnings.len()), (2, 0), "{healed:?}");
}

#[tokio::test]
async fn vectors_of_another_length_are_made_for_everything_again() {
    let scratch = Scratch::new();
    scratch.note("memory/a.md", "the heron waits");
    scratch.note("memory/b.md", "the stork waits");
    let toy = scratch.toy.clone().unwrap();
    scratch.synced().await;
    toy.dims.store(48, Ordering::Relaxed);
    let memory = scratch.memory();
    for mode in [SearchMode::V2, SearchMode::Seed] {
        let request = Request { mode: Some(mode), min_score: Some(0.0), ..Request::new("heron") };
        let answer = memory.search(&request).await.unwrap();
        assert_eq!(paths(&answer), ["memory/a.md"], "{mode:?}");
        assert!(answer.degraded.unwrap().contains("vectors of another length"), "{mode:?}");
    }
    scratch.note("memory/c.md", "the crane waits");
    let synced = sync(&memory).await;
    assert_eq!(synced.reindexed.as_deref(), Some("the vectors now have 48 dimensions (had 64)"));
    assert_eq!((synced.files, synced.embedded, synced.warnings.len()), (3, 3, 0), "{synced:?}");
    let status = memory.status().await.unwrap();
    assert_eq!((status.dims, status.pending, status.chunks), (Some(48), 0, 3));
    assert_eq!(ask(&memory, "crane").await.degraded, None);
    // The cache has the old vectors when all is made again for another reason.
    toy.dims.store(32, Ordering::Relaxed);
    scratch.note("memory/d.md", "the egret waits");
    let forced = memory.reindex(WAIT, &|_| {}).await.unwrap();
    assert_eq!((forced.files, forced.warnings.len()), (4, 0), "{forced:?}");
    assert_eq!((memory.status().await.unwrap().dims, memory.status().await.unwrap().pending), (Some(32), 0));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_answers_and_says_why_it_does_not_learn() {
    let scratch = Scratch::without_vectors();
    scratch.note("MEMORY.md", "written before");
    let (memory, _) = scratch.synced().await;
    memory.close().await;
    scratch.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let folder = scratch.index_file().parent().unwrap().to_owned();
    let mode = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    let file = scratch.index_file();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o400)).unwrap();
    mode(0o500);
    let is_root = std::fs::File::create(folder.join("probe")).is_ok();
    if !is_root {
        let memory = scratch.memory();
        assert_eq!(paths(&ask(&memory, "written").await), ["MEMORY.md"]);
        scratch.note("MEMORY.md", "written later");
        let error = memory.sync(Scope::All, WAIT, &|_| {}).await.unwrap_err();
        assert!(error.hint().is_some(), "{error}");
    }
    mode(0o700);
}

#[tokio::test]
async fn a_state_directory_that_is_a_file_is_an_error_with_its_path() {
    let scratch = Scratch::new();
    std::fs::write(scratch.state(), "in the way").unwrap();
    let error = scratch.memory().sync(Scope::All, WAIT, &|_| {}).await.unwrap_err();
    assert!(error.to_string().contains("state"), "{error}");
    assert!(matches!(error, IndexError::State(_)) && error.hint().is_some());
}

#[tokio::test]
async fn a_full_disk_keeps_the_existing_index() {
    let scratch = Scratch::without_vectors();
    scratch.note("MEMORY.md", "the first fact");
    let (memory, _) = scratch.synced().await;
    memory.close().await;
    // As large as it may get: SQLite says the same as when the disk is full.
    let pages = scratch.count("PRAGMA page_count");
    let database = scratch.database();
    database.execute_batch(&format!("PRAGMA max_page_count = {pages}")).unwrap();
    let error = database.execute("INSERT INTO meta VALUES ('big', zeroblob(9999999))", []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
    drop(database);
    let memory = scratch.memory();
    assert_eq!(paths(&ask(&memory, "first fact").await), ["MEMORY.md"]);
}

#[tokio::test]
async fn a_thousand_searches_during_rebuilds_all_find_something() {
    let scratch = Scratch::new();
    for number in 0..60 {
        scratch.note(&format!("memory/{number}.md"), &format!("common word{number} ").repeat(20));
    }
    let (memory, _) = scratch.synced().await;
    let done = Arc::new(AtomicBool::new(false));
    let rebuilding = {
        let (memory, done) = (scratch.memory(), done.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut rebuilds = 0;
            while !done.load(Ordering::Relaxed) {
                runtime.block_on(memory.reindex(WAIT, &|_| {})).unwrap();
                rebuilds += 1;
            }
            rebuilds
        })
    };
    let other = scratch.memory();
    for number in 0..1000 {
        let memory = if number % 2 == 0 { &memory } else { &other };
        let answer = memory.search(&pollux_memory::Request::new(format!("common word{}", number % 60))).await;
        let answer = answer.unwrap_or_else(|error| panic!("search {number}: {error}"));
        assert!(!answer.hits.is_empty(), "search {number}");
    }
    done.store(true, Ordering::Relaxed);
    assert!(rebuilding.join().unwrap() >= 1);
    let left = std::fs::read_dir(scratch.index_file().parent().unwrap())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".tmp-"));
    assert_eq!(left.count(), 0);
}
