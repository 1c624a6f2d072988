//! The contract that every store fulfils.

use std::sync::Arc;

use pollux_blobs::{Blobs, Condition, Fetched, PutError, StoreErrorKind, Version};
use tokio::task::JoinSet;

use crate::scene::{Scene, key, prefix};

macro_rules! for_every_store {
    ($($check:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $check() { super::run(super::Scene::memory(), super::$check).await; })* }
        mod file { $(#[tokio::test] async fn $check() { super::run(super::Scene::file(), super::$check).await; })* }
        mod s3 { $(#[tokio::test] async fn $check() { super::run(super::Scene::s3(), super::$check).await; })* }
        mod gs { $(#[tokio::test] async fn $check() { super::run(super::Scene::gs(), super::$check).await; })* }
        /// Every check but `except` one after another, for servers that start slowly. Each has its own part of the
        /// store.
        pub(crate) async fn all(except: &[&str], open: impl Fn(&str) -> Arc<dyn Blobs>) {
            $(if !except.contains(&stringify!($check)) {
                let store = open(stringify!($check));
                store.ensure_bucket().await.unwrap();
                $check(store).await;
            })*
        }
    };
}

for_every_store!(
    objects_are_written_read_and_deleted,
    conditions_are_kept,
    of_eight_racing_creators_one_wins,
    counters_lose_no_increment,
    listings_have_pages_in_byte_order,
    large_objects_go_in_parts_and_come_back,
    large_objects_keep_versions,
    files_are_written_and_read_back,
    odd_names_and_contents_are_kept,
    the_probe_finds_that_conditions_are_kept,
);

async fn run<F: Future<Output = ()>>(scene: Scene, check: impl Fn(Arc<dyn Blobs>) -> F) {
    scene.store.ensure_bucket().await.unwrap();
    scene.store.ensure_bucket().await.unwrap();
    check(Arc::clone(&scene.store)).await;
}

fn is_conflict<T>(result: Result<T, PutError>) -> bool {
    match result {
        Ok(_) => false,
        Err(PutError::Conflict(_)) => true,
        Err(PutError::Store(error)) => panic!("{error}"),
    }
}

async fn read(store: &dyn Blobs, name: &str) -> Option<Vec<u8>> {
    store.get(&key(name)).await.unwrap().map(|blob| blob.bytes)
}

async fn objects_are_written_read_and_deleted(store: Arc<dyn Blobs>) {
    let name = key("tasks/1/metadata.tar.gz");
    assert_eq!(store.get(&name).await.unwrap(), None);
    let first = store.put(&name, b"one", Condition::Any).await.unwrap();
    let blob = store.get(&name).await.unwrap().unwrap();
    assert_eq!((blob.bytes.as_slice(), &blob.version), (&b"one"[..], &first));
    assert_eq!(store.get_if_changed(&name, &first).await.unwrap(), Fetched::Unchanged);
    let second = store.put(&name, b"two", Condition::Any).await.unwrap();
    assert_ne!(first, second);
    match store.get_if_changed(&name, &first).await.unwrap() {
        Fetched::Changed(blob) => assert_eq!((blob.bytes.as_slice(), blob.version), (&b"two"[..], second)),
        other => panic!("{other:?}"),
    }
    store.delete(&name, Condition::Any).await.unwrap();
    store.delete(&name, Condition::Any).await.unwrap();
    assert_eq!(store.get(&name).await.unwrap(), None);
    assert_eq!(store.get_if_changed(&name, &first).await.unwrap(), Fetched::Missing);
}

async fn conditions_are_kept(store: Arc<dyn Blobs>) {
    let name = key("tasks/1/lease");
    let nothing = Condition::Version(Version::new("\"7\"".replace('"', "")));
    assert!(is_conflict(store.put(&name, b"x", nothing.clone()).await), "there is nothing to overwrite");
    assert!(is_conflict(store.delete(&name, nothing).await), "there is nothing to delete");
    store.delete(&name, Condition::Absent).await.unwrap();
    let first = store.put(&name, b"one", Condition::Absent).await.unwrap();
    assert!(is_conflict(store.put(&name, b"two", Condition::Absent).await));
    assert!(is_conflict(store.delete(&name, Condition::Absent).await));
    let second = store.put(&name, b"two", Condition::Version(first.clone())).await.unwrap();
    assert!(is_conflict(store.put(&name, b"three", Condition::Version(first.clone())).await));
    assert!(is_conflict(store.delete(&name, Condition::Version(first)).await));
    assert_eq!(read(&*store, "tasks/1/lease").await.unwrap(), b"two");
    store.delete(&name, Condition::Version(second.clone())).await.unwrap();
    assert!(is_conflict(store.put(&name, b"four", Condition::Version(second)).await));
    store.put(&name, b"five", Condition::Absent).await.unwrap();
}

async fn of_eight_racing_creators_one_wins(store: Arc<dyn Blobs>) {
    for round in 0..5 {
        let mut racers = JoinSet::new();
        for racer in 0..8 {
            let store = Arc::clone(&store);
            // All write the same: the winner is not told by the content.
            racers.spawn(async move {
                let name = key(&format!("race/{round}"));
                let bytes = if round == 0 { b"same".to_vec() } else { vec![racer; 9] };
                (bytes.clone(), store.put(&name, &bytes, Condition::Absent).await)
            });
        }
        let results = racers.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, result)| result.is_ok());
        assert_eq!(won.len(), 1, "round {round}");
        assert!(lost.into_iter().all(|(_, result)| is_conflict(result)));
        let (bytes, version) = &won[0];
        let blob = store.get(&key(&format!("race/{round}"))).await.unwrap().unwrap();
        assert_eq!((&blob.bytes, &blob.version), (bytes, version.as_ref().unwrap()));
    }
}

async fn counters_lose_no_increment(store: Arc<dyn Blobs>) {
    let name = key("counter");
    store.put(&name, b"0", Condition::Absent).await.unwrap();
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (store, name) = (Arc::clone(&store), name.clone());
        writers.spawn(async move {
            let mut left = 5;
            while left > 0 {
                let blob = store.get(&name).await.unwrap().unwrap();
                let count: u32 = String::from_utf8(blob.bytes).unwrap().parse().unwrap();
                let next = (count + 1).to_string();
                let result = store.put(&name, next.as_bytes(), Condition::Version(blob.version)).await;
                left -= u32::from(!is_conflict(result));
            }
        });
    }
    writers.join_all().await;
    assert_eq!(read(&*store, "counter").await.unwrap(), b"20");
}

async fn listings_have_pages_in_byte_order(store: Arc<dyn Blobs>) {
    let mut names: Vec<String> =
        ["a", "b-c/1", "b.c/1", "b/1", "b/10", "b/2", "bb", "c/d/e/f", "Z", "_x"].map(str::to_owned).to_vec();
    for name in &names {
        store.put(&key(name), name.as_bytes(), Condition::Any).await.unwrap();
    }
    names.sort();
    for (begin, limit) in [("", 3), ("", 100), ("b", 2), ("b/", 1), ("b/1", 10), ("c/d/", 1), ("none", 5)] {
        let expected: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| name.starts_with(begin)).collect();
        let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = store.list(&prefix(begin), after.as_ref(), limit).await.unwrap();
            assert!(page.entries.len() <= limit, "{begin}");
            for entry in page.entries {
                assert_eq!(entry.size, entry.key.as_str().len() as u64);
                let blob = store.get(&entry.key).await.unwrap().unwrap();
                assert_eq!(blob.version, entry.version, "{}", entry.key);
                found.push(entry.key.to_string());
            }
            pages += 1;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{begin} {limit}");
        assert!(pages <= expected.len() / limit + 1, "{begin}: {pages} pages");
    }
    let page = store.list(&prefix("b"), Some(&key("b/1")), 100).await.unwrap();
    let found: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(found, ["b/10", "b/2", "bb"]);
}

async fn large_objects_go_in_parts_and_come_back(store: Arc<dyn Blobs>) {
    let name = key("tasks/1/workspace.tar.gz");
    let part = 8 * 1024 * 1024;
    let mut last = None;
    // Around the size of one part, of two, and of a small rest.
    for size in [part, part + 1, 2 * part + 12_345] {
        let bytes: Vec<u8> = (0..size).map(|index: usize| (index / 7 % 251) as u8).collect();
        let condition = last.map_or(Condition::Absent, Condition::Version);
        let version = store.put(&name, &bytes, condition).await.unwrap();
        let blob = store.get(&name).await.unwrap().unwrap();
        assert!(blob.bytes == bytes, "{size}");
        assert_eq!(blob.version, version, "{size}");
        assert!(is_conflict(store.put(&name, &bytes, Condition::Absent).await), "{size}");
        last = Some(version);
    }
}

async fn large_objects_keep_versions(store: Arc<dyn Blobs>) {
    let (name, bytes) = (key("large"), vec![0; 8 * 1024 * 1024 + 1]);
    let old = store.put(&name, b"1", Condition::Any).await.unwrap();
    let new = store.put(&name, b"2", Condition::Any).await.unwrap();
    assert!(is_conflict(store.put(&name, &bytes, Condition::Version(old)).await));
    assert_eq!(read(&*store, "large").await.unwrap(), b"2");
    store.put(&name, &bytes, Condition::Version(new)).await.unwrap();
}

async fn files_are_written_and_read_back(store: Arc<dyn Blobs>) {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    let name = key("archive.gz");
    assert_eq!(store.get_file(&name, &into).await.unwrap(), None);
    assert!(!into.exists());
    for size in [0, 1, 9 * 1024 * 1024] {
        let bytes: Vec<u8> = (0..size).map(|index: usize| (index % 253) as u8).collect();
        tokio::fs::write(&from, &bytes).await.unwrap();
        let version = store.put_file(&name, &from, Condition::Any).await.unwrap();
        assert_eq!(store.get_file(&name, &into).await.unwrap().as_ref(), Some(&version));
        assert!(std::fs::read(&into).unwrap() == bytes, "{size}");
        assert!(is_conflict(store.put_file(&name, &from, Condition::Absent).await));
    }
    let error = match store.put_file(&name, &folder.path().join("missing"), Condition::Any).await {
        Err(PutError::Store(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_ne!(error.kind(), StoreErrorKind::Denied, "{error}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

async fn odd_names_and_contents_are_kept(store: Arc<dyn Blobs>) {
    let long = format!("long/{}/{}", "x".repeat(200), "y".repeat(200));
    for name in ["..a", "a..", ".hidden", "-", "_", "a.lock", "a.tmp", "UPPER", "x/.y/..z", &long] {
        let bytes: Vec<u8> = name.bytes().chain(*b"\0\r\n--boundary\xff").collect();
        store
            .put(&key(name), &bytes, Condition::Absent)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read(&*store, name).await.unwrap(), bytes, "{name}");
    }
    store.put(&key("empty"), b"", Condition::Absent).await.unwrap();
    assert_eq!(read(&*store, "empty").await.unwrap(), b"");
    let page = store.list(&prefix(""), None, 100).await.unwrap();
    assert_eq!(page.entries.len(), 11, "{page:?}");
}

async fn the_probe_finds_that_conditions_are_kept(store: Arc<dyn Blobs>) {
    let found = store.probe().await.unwrap();
    assert!(found.can_be_shared() && found.deletes && found.problem().is_none(), "{found:?}");
    assert!(store.list(&prefix(""), None, 10).await.unwrap().entries.is_empty());
}
