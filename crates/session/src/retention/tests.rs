#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;

use pollux_config::groups::SessionFormat;
use pollux_domain::model::Usage;

use super::*;

const DAY: i64 = 24 * HOUR;

fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

fn record(id: &str, days: i64) -> IndexRecord {
    let time = Timestamp::from_millis(now().millis() - days * DAY);
    IndexRecord {
        session_id: SessionId::from_file(id),
        project_hash: Some("h".into()),
        project_path: None,
        inferred: false,
        file: PathBuf::from(format!("/t/h/chats/session-{id}.json")),
        format: SessionFormat::Json,
        kind: SessionKind::Main,
        parent: None,
        start: time,
        last_updated: time,
        summary: None,
        first_user: String::new(),
        last_user: String::new(),
        user_messages: 0,
        messages: 0,
        tool_calls: 0,
        errors: 0,
        usage: Usage::default(),
        models: Vec::new(),
        resumable: true,
        damaged: false,
        size: 0,
        modified_ms: 0,
    }
}

fn policy(max_age: Option<i64>, max_count: Option<usize>, min_age: i64) -> RetentionPolicy {
    RetentionPolicy { max_age_ms: max_age.map(|days| days * DAY), max_count, min_age_ms: min_age * DAY }
}

fn gone(records: &[IndexRecord], policy: &RetentionPolicy, current: Option<&str>) -> Vec<(String, Reason)> {
    let current = current.map(SessionId::from_file);
    let plan = plan(records, policy, now(), current.as_ref());
    plan.delete.iter().map(|removal| (removal.session.to_string(), removal.reason)).collect()
}

#[test]
fn settings_are_read_strictly_and_a_mistake_deletes_nothing() {
    let settings = |max_age: Option<&str>, max_count, min: Option<&str>| Retention {
        enabled: true,
        max_age: max_age.map(str::to_owned),
        max_count,
        min_retention: min.map(str::to_owned),
    };
    let read = |settings: &Retention| RetentionPolicy::from_settings(settings);
    assert_eq!(read(&settings(Some("30d"), None, Some("1d"))), Ok(Some(policy(Some(30), None, 1))));
    assert_eq!(read(&settings(Some("2w"), Some(5), None)), Ok(Some(policy(Some(14), Some(5), 0))));
    assert_eq!(read(&settings(None, None, Some("1d"))), Ok(None));
    assert_eq!(read(&Retention { enabled: false, ..settings(Some("1h"), None, None) }), Ok(None));
    assert_eq!(read(&settings(Some("1d"), Some(0), None)), Err(RetentionError::NoCount));
    assert_eq!(read(&settings(Some("24h"), None, Some("1d"))), Ok(Some(policy(Some(1), None, 1))));
    assert_eq!(
        read(&settings(Some("12h"), Some(5), Some("1d"))).unwrap_err().to_string(),
        "`general.sessionRetention.minRetention` `1d` is longer than `maxAge` `12h`; no sessions were deleted"
    );
    for bad in ["", "d", "0d", "-1d", "30", "1.5d", "30 d", "1y", "99999999999999999999d", "30D", "٣d"] {
        assert!(read(&settings(Some(bad), None, None)).is_err(), "{bad}");
        assert!(read(&settings(Some("30d"), None, Some(bad))).is_err(), "{bad}");
    }
}

#[test]
fn the_old_and_the_surplus_go_and_the_young_and_the_current_stay() {
    let records = [record("a", 40), record("b", 20), record("c", 3), record("d", 0)];
    let age = |id: &str| (id.to_owned(), Reason::Age);
    let count = |id: &str| (id.to_owned(), Reason::Count);
    let cases = [
        (policy(Some(30), None, 1), None, vec![age("a")]),
        (policy(Some(30), None, 1), Some("a"), vec![]),
        (policy(Some(30), Some(2), 1), None, vec![age("a"), count("b")]),
        // The floor holds against both limits.
        (policy(Some(1), None, 30), None, vec![age("a")]),
        (policy(None, Some(1), 7), None, vec![count("a"), count("b")]),
        (policy(None, Some(4), 0), None, vec![]),
    ];
    for (policy, current, expected) in cases {
        assert_eq!(gone(&records, &policy, current), expected, "{policy:?} {current:?}");
    }
}

#[test]
fn a_session_in_two_files_is_judged_by_the_later_one() {
    let mut copy = record("a", 2);
    copy.file = PathBuf::from("/t/h/chats/session-a.jsonl");
    let records = [record("a", 40), copy];
    assert_eq!(gone(&records, &policy(Some(30), None, 0), None), []);
    let plan = plan(&records, &policy(Some(1), None, 0), now(), None);
    assert_eq!(plan.delete[0].files.len(), 2);
}

#[test]
fn sub_agents_go_with_their_parent_and_count_for_nothing() {
    let mut child = record("child", 50);
    child.kind = SessionKind::Subagent;
    child.parent = Some("a".into());
    child.file = PathBuf::from("/t/h/chats/a/child.jsonl");
    let mut orphan = child.clone();
    orphan.session_id = SessionId::from_file("orphan");
    orphan.parent = Some("gone".into());
    orphan.file = PathBuf::from("/t/h/chats/gone/orphan.jsonl");
    let records = [record("a", 1), child, orphan];
    assert_eq!(gone(&records, &policy(Some(30), Some(1), 0), None), [("orphan".to_owned(), Reason::Age)]);
    let plan =
        plan(&records, &policy(Some(30), None, 0), Timestamp::from_millis(now().millis() + 60 * DAY), None);
    let parent = plan.delete.iter().find(|removal| removal.session.as_str() == "a").unwrap();
    for path in
        ["/t/h/logs/session-child.jsonl", "/t/h/tool-outputs/session-a", "/t/h/a/plans", "/t/h/chats/a"]
    {
        assert!(parent.artefacts.contains(&PathBuf::from(path)), "{path}");
    }
}

#[test]
fn ids_that_name_files_of_the_project_name_no_artefact_of_it() {
    for id in
        ["chats", "LOGS", "tool-outputs", "memory", "Rewind", "checkpoints", "plans", "images", "..", ""]
    {
        let own = artefacts(Path::new("/t/h/chats"), id, &[]);
        let of_child = artefacts(Path::new("/t/h/chats"), "parent", &[id.to_owned()]);
        for path in own.iter().chain(&of_child) {
            let below = path.strip_prefix("/t/h").unwrap();
            let [folder, name] = below.iter().collect::<Vec<_>>().try_into().unwrap();
            let is_named = name.to_string_lossy().starts_with("session-") || folder == "chats";
            assert!(is_named || folder == "parent" || folder == "__", "{id}: {}", path.display());
        }
    }
}

#[test]
fn of_a_folder_with_the_id_of_a_session_only_the_sessions_own_part_goes() {
    let dir = tempfile::tempdir().unwrap();
    let chats = dir.path().join("h/chats");
    fs::create_dir_all(&chats).unwrap();
    let ids = ["notes", "plain", "memory"];
    for id in ids {
        let text = format!(
            "{{\"sessionId\":\"{id}\",\"lastUpdated\":\"2020-01-01T00:00:00.000Z\",\"messages\":[]}}"
        );
        fs::write(chats.join(format!("session-{id}.json")), text).unwrap();
        fs::create_dir_all(dir.path().join("h").join(id).join("plans")).unwrap();
    }
    let of = |path: &str| dir.path().join("h").join(path);
    fs::create_dir(of("plain/tracker")).unwrap();
    for others in ["notes/mine.md", "memory/MEMORY.md", "memory/plans/mine.md"] {
        fs::write(of(others), "x").unwrap();
    }
    let records: Vec<IndexRecord> =
        ids.iter().map(|id| crate::summarise(&chats.join(format!("session-{id}.json"))).unwrap()).collect();
    let applied = apply(&plan(&records, &policy(Some(30), None, 1), now(), None));
    assert_eq!(applied.deleted.len(), 3, "{:?}", applied.lines());
    assert!(!of("plain").exists() && !of("notes/plans").exists());
    for kept in ["notes/mine.md", "memory/MEMORY.md", "memory/plans/mine.md"] {
        assert!(of(kept).exists(), "{kept}");
    }
}

#[test]
fn a_plan_deletes_nothing_that_a_kept_session_of_the_same_names_may_own() {
    let dir = tempfile::tempdir().unwrap();
    let chats = dir.path().join("h/chats");
    let outputs = dir.path().join("h/tool-outputs/session-team_one");
    fs::create_dir_all(&chats).unwrap();
    fs::create_dir_all(&outputs).unwrap();
    let records = [("team/one", "2020"), ("team_one", "2026")].map(|(id, year)| {
        let path = chats.join(format!("session-{year}.json"));
        let text = format!(
            "{{\"sessionId\":\"{id}\",\"lastUpdated\":\"{year}-01-01T00:00:00.000Z\",\"messages\":[]}}"
        );
        fs::write(&path, text).unwrap();
        crate::summarise(&path).unwrap()
    });
    let plan = plan(&records, &policy(Some(30), None, 1), records[1].last_updated, None);
    assert_eq!(plan.delete.len(), 1);
    assert!(!belongings(&plan.delete[0]).contains(&outputs));
    assert_eq!(apply(&plan).deleted.len(), 1);
    assert!(outputs.exists());
}

#[test]
fn a_plan_deletes_what_it_names_if_that_is_still_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let chats = dir.path().join("h/chats");
    fs::create_dir_all(dir.path().join("h/tool-outputs/session-one")).unwrap();
    fs::create_dir_all(&chats).unwrap();
    let write = |id: &str| {
        let path = chats.join(format!("session-{id}.json"));
        let text = format!(
            "{{\"sessionId\":\"{id}\",\"lastUpdated\":\"2020-01-01T00:00:00.000Z\",\"messages\":[]}}"
        );
        fs::write(&path, text).unwrap();
        path
    };
    let paths = ["one", "two", "three"].map(write);
    fs::write(chats.join("session-junk.json"), "junk").unwrap();
    let records: Vec<IndexRecord> = paths.iter().map(|path| crate::summarise(path).unwrap()).collect();
    let plan = plan(&records, &policy(Some(30), None, 1), now(), None);
    assert_eq!(plan.delete.len(), 3);
    let _held = crate::lock::Lock::take(&paths[1]).unwrap();
    fs::write(
        &paths[2],
        "{\"sessionId\":\"three\",\"messages\":[{\"type\":\"user\",\"content\":\"back again\"}]}",
    )
    .unwrap();
    let applied = apply(&plan);
    assert_eq!(applied.deleted.len(), 1);
    assert!(!paths[0].exists() && !dir.path().join("h/tool-outputs/session-one").exists());
    assert!(paths[1].exists() && paths[2].exists() && chats.join("session-junk.json").exists());
    let lines = applied.lines();
    assert!(
        lines[0].starts_with("deleted session one (too old, last updated 2020-01-01T00:00:00.000Z): "),
        "{lines:?}"
    );
    let all = lines.join("\n");
    assert!(
        all.contains(&format!("kept session two (in use by process {})", std::process::id())),
        "{lines:?}"
    );
    assert!(all.contains("kept session three (changed in the meantime)"), "{lines:?}");
}
