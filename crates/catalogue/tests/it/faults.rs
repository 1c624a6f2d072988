//! A broken index only costs time.

use std::fs;
use std::thread;

use pollux_catalogue::{Catalogue, Filter};
use rusqlite::Connection;

use crate::scratch::{Scratch, ids, now, user};

fn filled() -> Scratch {
    let scratch = Scratch::new();
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "the walrus")]);
    scratch.claude("cccccccc", "the otter");
    scratch
}

fn check(scratch: &Scratch) -> Catalogue {
    let mut catalogue = scratch.catalogue();
    assert_eq!(ids(&catalogue.list(&Filter::default())), ["aaaaaaaa", "cccccccc"]);
    assert_eq!(catalogue.search("walrus", &Filter::default(), now()).len(), 1);
    catalogue
}

#[test]
fn deleting_the_index_loses_nothing() {
    let scratch = filled();
    check(&scratch);
    fs::remove_dir_all(scratch.path("pollux")).unwrap();
    assert!(check(&scratch).is_kept());
}

#[test]
fn a_file_that_is_not_an_index_is_replaced() {
    let scratch = filled();
    for rubbish in [vec![0xff; 10_000], b"SQLite format 3\0 not really".to_vec(), vec![]] {
        drop(check(&scratch));
        scratch.write("pollux/catalogue.db", rubbish);
        assert!(check(&scratch).is_kept());
    }
}

#[test]
fn an_index_of_another_version_is_replaced() {
    let scratch = filled();
    for version in [7, -1] {
        drop(check(&scratch));
        Connection::open(scratch.index()).unwrap().pragma_update(None, "user_version", version).unwrap();
        assert!(check(&scratch).is_kept());
    }
}

#[test]
fn an_index_with_a_table_missing_is_replaced() {
    let scratch = filled();
    for table in ["sessions", "texts", "words", "scopes"] {
        drop(check(&scratch));
        Connection::open(scratch.index()).unwrap().execute_batch(&format!("DROP TABLE {table}")).unwrap();
        assert!(check(&scratch).is_kept(), "{table}");
    }
}

#[test]
fn overwritten_pages_are_survived() {
    let scratch = filled();
    drop(check(&scratch));
    let good = fs::read(scratch.index()).unwrap();
    for page in 0..good.len() / 4096 {
        let mut bad = good.clone();
        bad.get_mut(page * 4096..(page + 1) * 4096).unwrap().fill(0xa5);
        scratch.write("pollux/catalogue.db", &bad);
        let mut catalogue = scratch.catalogue();
        assert_eq!(catalogue.list(&Filter::default()).len(), 2, "page {page}");
        // The lost words depend on the page, but the index still answers.
        catalogue.search("walrus", &Filter::default(), now());
    }
}

#[test]
fn an_index_deleted_while_open_is_tolerated() {
    let scratch = filled();
    let mut catalogue = scratch.catalogue();
    fs::remove_dir_all(scratch.path("pollux")).unwrap();
    assert_eq!(catalogue.list(&Filter::default()).len(), 2);
    catalogue.refresh(&scratch.sources(), &mut |_| {});
    assert_eq!(catalogue.list(&Filter::default()).len(), 2);
}

#[test]
fn without_write_access_the_index_is_kept_in_memory() {
    let scratch = filled();
    scratch.write("pollux", "a file where the folder should be");
    assert!(!check(&scratch).is_kept());
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_the_index() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = filled();
    let catalogue = check(&scratch);
    for entry in fs::read_dir(scratch.path("pollux")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    assert_eq!(fs::metadata(scratch.path("pollux")).unwrap().permissions().mode() & 0o777, 0o700);
    drop(catalogue);
}

#[test]
fn several_processes_fill_one_index_at_once() {
    let scratch = filled();
    for index in 0..40 {
        scratch.session("two", &format!("{index:08}"), index, &[user("u", &format!("seal number{index}"))]);
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut catalogue = scratch.catalogue();
                assert_eq!(catalogue.list(&Filter::default()).len(), 42);
                assert_eq!(catalogue.search("number7", &Filter::default(), now()).len(), 1);
            });
        }
    });
    let mut catalogue = scratch.catalogue();
    assert!(catalogue.is_kept());
    assert_eq!(catalogue.search("seal", &Filter::default(), now()).len(), 40);
}

#[test]
fn a_locked_index_is_bypassed_and_used_again_later() {
    let scratch = filled();
    drop(check(&scratch));
    let other = Connection::open(scratch.index()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(check(&scratch).is_kept());
    scratch.session("one", "dddddddd", 5, &[user("u", "the seal")]);
    let mut catalogue = scratch.catalogue();
    assert!(!catalogue.is_kept());
    assert_eq!(catalogue.search("seal", &Filter::default(), now()).len(), 1);
    assert_eq!(catalogue.list(&Filter::default()).len(), 3);
    drop(other);
    let mut catalogue = scratch.catalogue();
    assert!(catalogue.is_kept());
    assert_eq!(catalogue.search("seal", &Filter::default(), now()).len(), 1);
}
