use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pollux_memory::{IndexError, Level, Scope};

use crate::scratch::{Scratch, WAIT, ask, paths, sync};

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
    let rebuilt = match memory.sync(Scope::All, WAIT, &|_| {}).await {
        Ok(_) => memory.reindex(WAIT, &|_| {}).await,
        Err(error) => Err(error),
    };
    if rebuilt.is_err() {
        std::fs::remove_file(&file).unwrap();
        sync(&memory).await;
    }
    assert_eq!(paths(&ask(&memory, "word7").await)[0], "memory/7.md");
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
