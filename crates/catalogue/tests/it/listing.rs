//! Listing sessions, and which files are read for it.

use std::fs;
use std::path::{Path, PathBuf};

use pollux_catalogue::{Catalogue, Filter, Origin, Progress, Stage};
use pollux_foreign::ForeignAgent;

use crate::scratch::{Scratch, agent, call, ids, log, user};

fn filled() -> Scratch {
    let scratch = Scratch::new();
    scratch.session(
        "one",
        "aaaaaaaa",
        10,
        &[user("u", "fix the build"), call("g", "make", "no rule", "error")],
    );
    scratch.session("two", "bbbbbbbb", 30, &[user("u", "write a poem"), agent("g", "Roses are red.")]);
    scratch.session("two", "empty000", 40, &[]);
    scratch
        .write("two/chats/bbbbbbbb/sub-1.jsonl", log("sub-1", 50, "subagent", &[user("u", "look around")]));
    scratch.claude("cccccccc", "rename it");
    scratch
}

#[test]
fn sessions_of_all_sources_are_listed_latest_first() {
    let scratch = filled();
    let listed = scratch.catalogue().list(&Filter::default());
    assert_eq!(ids(&listed), ["bbbbbbbb", "aaaaaaaa", "cccccccc"]);
    let first = listed.get(1).unwrap();
    assert_eq!((first.origin, first.title()), (Origin::Own, "fix the build"));
    assert_eq!(first.record.project_path.as_deref(), Some(Path::new("/home/me/one")));
    assert_eq!((first.record.messages, first.record.tool_calls, first.record.errors), (2, 1, 1));
    let last = listed.last().unwrap();
    assert_eq!(last.origin, Origin::Foreign(ForeignAgent::Claude));
    assert_eq!(last.record.project_path.as_deref(), Some(Path::new("/claude/app")));
}

#[test]
fn the_index_gives_back_what_was_read() {
    let scratch = filled();
    let listed = scratch.catalogue().list(&Filter {
        include_subagents: true,
        include_empty: true,
        ..Filter::default()
    });
    let own: Vec<_> = listed.into_iter().filter(|listed| listed.origin == Origin::Own).collect();
    assert_eq!(own.len(), 4);
    for listed in own {
        let mut expected = pollux_session::summarise(&listed.record.file).unwrap();
        expected.project_path.clone_from(&listed.record.project_path);
        assert_eq!(listed.record, expected);
    }
}

#[test]
fn filters_select_sessions() {
    let scratch = filled();
    let filter = Filter::default();
    let two = vec![PathBuf::from("/home/me/two")];
    assert_eq!(scratch.ids(&Filter { projects: two, ..filter.clone() }), ["bbbbbbbb"]);
    assert_eq!(scratch.ids(&Filter { projects: vec!["/none".into()], ..filter.clone() }), [""; 0]);
    assert_eq!(
        scratch.ids(&Filter { origin: Some(Origin::Own), ..filter.clone() }),
        ["bbbbbbbb", "aaaaaaaa"]
    );
    assert_eq!(scratch.ids(&Filter { limit: Some(1), ..filter.clone() }), ["bbbbbbbb"]);
    assert_eq!(scratch.ids(&Filter { include_subagents: true, limit: Some(1), ..filter.clone() }), ["sub-1"]);
    assert_eq!(scratch.ids(&Filter { include_empty: true, limit: Some(1), ..filter }), ["empty000"]);
}

#[test]
fn only_what_changed_is_read_again() {
    let scratch = filled();
    assert_eq!(scratch.refreshed().1.read, 5);
    assert_eq!(scratch.refreshed().1.read, 0);
    scratch.session("one", "aaaaaaaa", 59, &[user("u", "fix the build"), user("v", "and the tests")]);
    let (mut catalogue, refreshed) = scratch.refreshed();
    assert_eq!((refreshed.read, refreshed.dropped), (1, 0));
    let listed = catalogue.list(&Filter::default());
    assert_eq!(listed.first().map(|listed| listed.record.last_user.as_str()), Some("and the tests"));
}

#[test]
fn deleted_sessions_are_dropped() {
    let scratch = filled();
    scratch.catalogue();
    fs::remove_file(scratch.path("one/chats/session-2026-03-01T10-00-aaaaaaaa.jsonl")).unwrap();
    fs::remove_dir_all(scratch.path("claude")).unwrap();
    let (mut catalogue, refreshed) = scratch.refreshed();
    assert_eq!((refreshed.read, refreshed.dropped), (0, 2));
    assert_eq!(ids(&catalogue.list(&Filter::default())), ["bbbbbbbb"]);
}

#[test]
fn only_the_sources_of_the_last_refresh_are_listed_and_the_others_are_kept() {
    let scratch = filled();
    let sources = scratch.sources();
    let mut catalogue = scratch.catalogue();
    catalogue.refresh(sources.get(..1).unwrap(), &mut |_| {});
    assert_eq!(ids(&catalogue.list(&Filter::default())), ["aaaaaaaa"]);
    assert_eq!(scratch.refreshed().1.read, 0);
}

#[test]
fn of_two_files_with_one_session_the_later_is_listed() {
    let scratch = Scratch::new();
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "old")]);
    scratch.write("one/chats/session-9-aaaaaaaa.jsonl", log("aaaaaaaa", 20, "main", &[user("u", "new")]));
    let listed = scratch.catalogue().list(&Filter::default());
    assert_eq!(listed.iter().map(|listed| listed.title()).collect::<Vec<_>>(), ["new"]);
}

#[test]
fn unreadable_sessions_are_reported_and_not_retried() {
    let scratch = filled();
    let bad = scratch.write("one/chats/session-2026-03-01T10-00-bad.json", "no session");
    let (_, first) = scratch.refreshed();
    let (_, second) = scratch.refreshed();
    assert_eq!((first.read, second.read), (6, 0));
    for refreshed in [first, second] {
        assert_eq!(refreshed.unreadable.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&bad]);
    }
}

#[test]
fn progress_counts_up_to_its_total() {
    let scratch = filled();
    let mut seen: Vec<Progress> = Vec::new();
    let mut catalogue = Catalogue::open(&scratch.index());
    catalogue.refresh(&scratch.sources(), &mut |progress| seen.push(progress));
    catalogue.refresh_texts(&mut |progress| seen.push(progress));
    let of = |stage| {
        seen.iter()
            .filter(|progress| progress.stage == stage)
            .map(|progress| progress.done)
            .collect::<Vec<_>>()
    };
    assert_eq!((of(Stage::Sessions), of(Stage::Texts)), ((1..=5).collect(), (1..=5).collect()));
    assert!(seen.iter().all(|progress| progress.total == 5));
}

#[test]
fn statistics_add_up() {
    let scratch = filled();
    let statistics = scratch.catalogue().statistics();
    assert_eq!((statistics.sessions, statistics.messages, statistics.tool_calls), (5, 6, 1));
    assert_eq!((statistics.errors, statistics.tokens, statistics.without_texts), (1, 7, 0));
    assert_eq!(statistics.by_origin.get(&Origin::Own), Some(&4));
    assert!(statistics.index_bytes > 0 && statistics.bytes > 0);
}

#[test]
fn a_session_with_two_files_is_counted_once() {
    let scratch = Scratch::new();
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "old")]);
    let second = log("aaaaaaaa", 20, "main", &[user("u", "new"), agent("g", "said")]);
    scratch.write("one/chats/session-9-aaaaaaaa.jsonl", &second);
    scratch.session("two", "bbbbbbbb", 10, &[user("u", "other")]);
    let statistics = scratch.catalogue().statistics();
    assert_eq!((statistics.sessions, statistics.messages, statistics.tokens), (2, 3, 7));
    assert_eq!(statistics.by_origin.get(&Origin::Own), Some(&2));
}

#[test]
fn indexed_sessions_are_listed_without_reading_files() {
    let scratch = filled();
    let known = scratch.ids(&Filter::default());
    scratch.session("one", "dddddddd", 60, &[user("u", "later")]);
    let mut catalogue = Catalogue::open(&scratch.index());
    assert!(catalogue.list(&Filter::default()).is_empty());
    catalogue.look_at(&scratch.sources());
    assert_eq!(ids(&catalogue.list(&Filter::default())), known);
    assert!(scratch.ids(&Filter::default()).contains(&"dddddddd".to_owned()));
}
