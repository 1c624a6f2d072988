use proptest::prelude::*;

use super::*;
use crate::rules::{Decision, RuleBook};

fn project(root: &str, trust: &str) -> ProjectKey {
    let trust = trust.to_owned();
    ProjectKey::new(root.into(), move || trust)
}

fn key(trust: &str) -> ProjectKey {
    project("/home/me/my app", trust)
}

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap()
}

fn allows(stored: &StoredRules, host: &str, port: u16) -> bool {
    let book = RuleBook::new(stored.rules.clone());
    matches!(book.snapshot().decide(&Host::parse(host).unwrap(), port), Decision::Allow { .. })
}

const FILE: &str = r#"# my rules
[network]
allow = ["a.example", "*.b.example:8443"] # often used
deny = ["bad.b.example"]
private = ["npm.corp.example", "*.corp.example", "10.0.0.1"]

[network.projects."/home/me/my app"]
trust = "d1"
allow = ["project.example"]

[commands.terraform]
allow_network = true

[commands.ls]
allow_network = false

[modes.plan]
network = false
"#;

#[test]
fn paths_are_stored_for_everyone_or_for_a_trusted_project() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sandbox.toml");
    let key = |trust: &str| project("/p", trust);
    save_path(&file, "write", Path::new("/a b"), None).unwrap();
    save_path(&file, "write", Path::new("/c"), Some(&key("1"))).unwrap();
    save_path(&file, "socket", Path::new("/s"), Some(&key("1"))).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let write = |trust: Option<&str>| StoredPaths::parse(&text, trust.map(key).as_ref()).unwrap().write;
    assert_eq!(write(None), [PathBuf::from("/a b")]);
    assert_eq!(write(Some("1")), [PathBuf::from("/a b"), "/c".into()]);
    assert_eq!(write(Some("2")), [PathBuf::from("/a b")], "another trust, no grant");
    assert_eq!(StoredPaths::parse(&text, Some(&key("1"))).unwrap().socket, [PathBuf::from("/s")]);
    assert_eq!(
        StoredPaths::parse("[files]\nwrite = [\"relative\", 3]\n", None).unwrap(),
        StoredPaths::default()
    );
}

#[test]
fn the_users_file_is_read() {
    let stored = StoredRules::parse(FILE, Some(&key("d1"))).unwrap();
    assert!(allows(&stored, "a.example", 443) && allows(&stored, "x.b.example", 8443));
    assert!(!allows(&stored, "bad.b.example", 8443));
    assert!(allows(&stored, "npm.corp.example", 443) && !allows(&stored, "x.corp.example", 443));
    assert!(allows(&stored, "project.example", 443));
    assert_eq!(stored.open_commands, ["terraform"]);
    assert_eq!(stored.problems.len(), 2, "{:?}", stored.problems);
}

#[test]
fn a_project_grant_ends_with_its_trust() {
    for project in [None, Some(key("d2")), Some(project("/other", "d1"))] {
        let stored = StoredRules::parse(FILE, project.as_ref()).unwrap();
        assert!(!allows(&stored, "project.example", 443), "{project:?}");
    }
}

#[test]
fn a_projects_own_file_can_only_deny() {
    let stored = StoredRules::parse_project(FILE).unwrap();
    assert!(stored.rules.allowed().is_empty() && stored.open_commands.is_empty());
    assert_eq!(stored.rules.denied().len(), 1);
    assert_eq!(stored.problems.len(), 2, "{:?}", stored.problems);
}

#[test]
fn wrong_entries_are_reported_and_skipped() {
    let text = "[network]\nallow = [\"*\", \"a b\", 7, \"good.example\"]\ndeny = \"x\"\n";
    let stored = StoredRules::parse(text, None).unwrap();
    assert!(allows(&stored, "good.example", 443));
    assert_eq!(stored.problems.len(), 4, "{:?}", stored.problems);
    assert!(StoredRules::parse("network = [", None).is_err());
    assert_eq!(StoredRules::parse("network = 1", None).unwrap().problems, ["`network` must be a table"]);
}

#[test]
fn a_rule_is_added_in_place() {
    let add = |text: &str| with_allow(text, &pattern("new.example:443"), None).unwrap();
    let table = [
        ("", "[network]\nallow = [\"new.example:443\"]\n"),
        ("[network]\nallow = []\n", "[network]\nallow = [\"new.example:443\"]\n"),
        ("[network]\nallow = [\"a\"] # why\n", "[network]\nallow = [\"a\", \"new.example:443\"] # why\n"),
        (
            "[network]\nallow = [\n  \"a\", # first\n  \"b\", # second\n]\n",
            "[network]\nallow = [\n  \"a\", # first\n  \"b\",\n  \"new.example:443\", # second\n]\n",
        ),
        (
            "# top\n[network] # net\ndeny = [\"d\"]\n",
            "# top\n[network] # net\nallow = [\"new.example:443\"]\ndeny = [\"d\"]\n",
        ),
        ("[other]\nx = 1", "[other]\nx = 1\n\n[network]\nallow = [\"new.example:443\"]\n"),
        ("network = { allow = [\"a\"] }\n", "network = { allow = [\"a\", \"new.example:443\"] }\n"),
        ("network.allow = [\"a\"]\n", "network.allow = [\"a\", \"new.example:443\"]\n"),
        ("[network]\nallow = [\"new.example:443\"]\n", "[network]\nallow = [\"new.example:443\"]\n"),
    ];
    for (before, after) in table {
        assert_eq!(add(before), after);
    }
    assert_eq!(with_allow("network = { deny = [] }\n", &pattern("n.example"), None), Err(EditError::Form));
    assert_eq!(with_allow("network = 3\n", &pattern("n.example"), None), Err(EditError::Form));
    assert!(matches!(with_allow("= x", &pattern("n.example"), None), Err(EditError::Invalid(_))));
}

#[test]
fn a_project_grant_is_added_and_replaces_void_ones() {
    let first = with_allow("# mine\n", &pattern("p.example:443"), Some(&key("d1"))).unwrap();
    let expected =
        "# mine\n\n[network.projects.\"/home/me/my app\"]\ntrust = \"d1\"\nallow = [\"p.example:443\"]\n";
    assert_eq!(first, expected);
    let second = with_allow(&first, &pattern("q.example:443"), Some(&key("d1"))).unwrap();
    let stored = StoredRules::parse(&second, Some(&key("d1"))).unwrap();
    assert!(allows(&stored, "p.example", 443) && allows(&stored, "q.example", 443));
    let third = with_allow(&second, &pattern("r.example:443"), Some(&key("d2"))).unwrap();
    let stored = StoredRules::parse(&third, Some(&key("d2"))).unwrap();
    assert!(!allows(&stored, "p.example", 443) && allows(&stored, "r.example", 443), "{third}");
    let kept = with_allow(FILE, &pattern("r.example:443"), Some(&key("d2"))).unwrap();
    assert!(kept.contains("# my rules") && kept.contains("[modes.plan]"), "{kept}");
    assert!(!kept.contains("project.example"), "{kept}");
}

#[test]
fn answers_are_saved_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies/sandbox.toml");
    let store = FileStore::new(file.clone(), Some(key("d1")), |error| panic!("{error}"));
    let host = Host::parse("a.example").unwrap();
    store.save(&host, 443, HostAnswer::Always);
    store.save(&host, 8443, HostAnswer::Project);
    store.save(&host, 22, HostAnswer::Session);
    store.save(&host, 443, HostAnswer::Always);
    let text = files::read_text(&file).unwrap().unwrap();
    let stored = StoredRules::parse(&text, Some(&key("d1"))).unwrap();
    assert!(allows(&stored, "a.example", 443) && allows(&stored, "a.example", 8443));
    assert!(!allows(&stored, "a.example", 22));
    assert_eq!(text.matches("a.example:443").count(), 1);
}

proptest! {
    #[test]
    fn an_edit_adds_one_rule_and_nothing_else(
        allow in prop::collection::vec("[a-z]{1,4}\\.[a-z]{2}", 0..4),
        other in "[a-z ]{0,10}", multi: bool, header: bool,
    ) {
        let entries: Vec<String> = allow.iter().map(|host| format!("\"{host}\"")).collect();
        let list = if multi { format!("[\n    {}\n]", entries.join(",\n    ")) } else { format!("[{}]", entries.join(", ")) };
        let text = match header {
            true => format!("# {other}\n[x]\ny = \"{other}\"\n[network]\n# {other}\nallow = {list}\n[z]\n"),
            false => format!("[x]\ny = \"{other}\"\n"),
        };
        let after = with_allow(&text, &pattern("new.example:1"), None).unwrap();
        let stored = StoredRules::parse(&after, None).unwrap();
        prop_assert!(allows(&stored, "new.example", 1));
        let kept = format!("y = \"{other}\"");
        prop_assert!(after.contains(&kept));
        prop_assert_eq!(after.matches('#').count(), text.matches('#').count());
    }

    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,200}") {
        let _ = StoredRules::parse(&text, None);
        let _ = with_allow(&text, &pattern("a.example"), Some(&key("d")));
    }
}
