//! The store in a folder: what is on disk, crashes, several processes.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pollux_blobs::{Blobs, Condition, StoreErrorKind, open};

use crate::scene::{Scene, key, options, prefix};

/// Set for the processes that the test about them starts: the folder.
const FOLDER: &str = "POLLUX_BLOBS_TEST_FOLDER";

fn store(folder: &Path) -> Arc<dyn Blobs> {
    open(&format!("file:{}", folder.display()), &options(folder, &[])).unwrap()
}

#[tokio::test]
async fn objects_are_files_of_their_name_and_foreign_files_are_objects() {
    let scene = Scene::file();
    scene.store.ensure_bucket().await.unwrap();
    let folder = scene.home.path().join("store");
    scene.store.put(&key("tasks/1/metadata.tar.gz"), b"x", Condition::Absent).await.unwrap();
    assert_eq!(fs::read(folder.join("tasks/1/metadata.tar.gz")).unwrap(), b"x");
    fs::create_dir(folder.join("other")).unwrap();
    tokio::fs::write(folder.join("other/file"), b"foreign").await.unwrap();
    let blob = scene.store.get(&key("other/file")).await.unwrap().unwrap();
    assert_eq!(blob.bytes, b"foreign");
    scene.store.put(&key("other/file"), b"ours", Condition::Version(blob.version)).await.unwrap();
    let page = scene.store.list(&prefix(""), None, 9).await.unwrap();
    let names: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(names, ["other/file", "tasks/1/metadata.tar.gz"]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_user_can_read_the_store_and_links_are_not_listed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let scene = Scene::file();
    scene.store.ensure_bucket().await.unwrap();
    let folder = scene.home.path().join("store");
    scene.store.put(&key("a/b"), b"x", Condition::Any).await.unwrap();
    for (name, expected) in [("", 0o700), ("a", 0o700), ("a/b", 0o600)] {
        let mode = fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, expected, "{name}");
    }
    symlink("/etc", folder.join("link")).unwrap();
    symlink("/etc/passwd", folder.join("a/link")).unwrap();
    assert_eq!(scene.store.list(&prefix(""), None, 9).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn a_writer_that_died_at_any_point_leaves_the_old_object_or_the_new_one() {
    let scene = Scene::file();
    scene.store.ensure_bucket().await.unwrap();
    let folder = scene.home.path().join("store");
    let old = scene.store.put(&key("a"), b"old", Condition::Absent).await.unwrap();
    // Its temporary file, and the new version without the new content.
    tokio::fs::write(folder.join("+tmp-123"), b"half").await.unwrap();
    tokio::fs::write(folder.join("a+version"), b"next").await.unwrap();
    tokio::fs::write(folder.join("a+.lock"), b"").await.unwrap();
    let blob = scene.store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(blob.bytes, b"old");
    assert_ne!(blob.version, old, "a writer with the old version has to read again");
    scene.store.put(&key("a"), b"new", Condition::Version(old)).await.unwrap_err();
    scene.store.put(&key("a"), b"new", Condition::Version(blob.version)).await.unwrap();
    assert_eq!(scene.store.list(&prefix(""), None, 9).await.unwrap().entries.len(), 1);
    // A version that was left over by a deletion does not stand in the way either.
    tokio::fs::write(folder.join("b+version"), b"left").await.unwrap();
    assert_eq!(scene.store.get(&key("b")).await.unwrap(), None);
    scene.store.put(&key("b"), b"x", Condition::Absent).await.unwrap();
}

#[tokio::test]
async fn a_name_that_is_a_folder_is_refused_with_the_reason() {
    let scene = Scene::file();
    scene.store.ensure_bucket().await.unwrap();
    scene.store.put(&key("a/b"), b"x", Condition::Any).await.unwrap();
    for condition in [Condition::Any, Condition::Absent] {
        for name in ["a", "a/b/c"] {
            match scene.store.put(&key(name), b"x", condition.clone()).await {
                Err(pollux_blobs::PutError::Store(error)) => {
                    assert_eq!(error.kind(), StoreErrorKind::Unusable, "{name}: {error}");
                }
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!(scene.store.get(&key(name)).await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn several_processes_count_together() {
    let home = tempfile::tempdir().unwrap();
    let shared = store(home.path());
    shared.put(&key("counter"), b"0", Condition::Absent).await.unwrap();
    let children: Vec<_> = (0..3).map(|_| counting(home.path())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(shared.get(&key("counter")).await.unwrap().unwrap().bytes, b"60");
    let winners = shared.list(&prefix("won/"), None, 100).await.unwrap().entries.len();
    assert_eq!(winners, 10);
}

fn counting(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "folder::a_process_that_counts", "--ignored"]);
    command.env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn a_killed_writer_blocks_nobody_and_damages_nothing() {
    let home = tempfile::tempdir().unwrap();
    let shared = store(home.path());
    let read = async || {
        let blob = shared.get(&key("counter")).await.unwrap().unwrap();
        (String::from_utf8(blob.bytes).unwrap().parse::<u32>().unwrap(), blob.version)
    };
    shared.put(&key("counter"), b"0", Condition::Absent).await.unwrap();
    for pause in [30, 40, 50, 60, 70] {
        let before = read().await.0;
        let mut child = counting(home.path());
        while read().await.0 == before {}
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let (count, version) = read().await;
        let next = (count + 1).to_string();
        shared.put(&key("counter"), next.as_bytes(), Condition::Version(version)).await.unwrap();
    }
    let page = shared.list(&prefix("c"), None, 9).await.unwrap();
    assert_eq!(page.entries.len(), 1, "{page:?}");
}

/// Run by the tests above in processes of its own.
#[tokio::test]
#[ignore = "started by another test"]
async fn a_process_that_counts() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = store(Path::new(&folder));
    let (mut left, mut own) = (20, 0);
    while left > 0 {
        let blob = store.get(&key("counter")).await.unwrap().unwrap();
        let next = String::from_utf8(blob.bytes).unwrap().parse::<u32>().unwrap() + 1;
        let next = next.to_string();
        let put = store.put(&key("counter"), next.as_bytes(), Condition::Version(blob.version)).await;
        left -= u32::from(put.is_ok());
    }
    for round in 0..10 {
        let name = key(&format!("won/{round}"));
        own += u32::from(store.put(&name, b"me", Condition::Absent).await.is_ok());
    }
    assert!(own <= 10);
}
