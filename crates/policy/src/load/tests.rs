use std::fs;

use super::*;

const DENY: &str = "[[rule]]\ntoolName = \"glob\"\ndecision = \"deny\"\npriority = 1\n";
const ALLOW: &str = "[[rule]]\ntoolName = \"web_fetch\"\ndecision = \"allow\"\npriority = 1\n";

#[expect(clippy::disallowed_methods, reason = "a fixture needs no atomic write")]
fn put(file: &Path, content: impl AsRef<[u8]>) {
    fs::write(file, content).unwrap();
}

fn labels(engine: &Engine, tier: Tier) -> Vec<String> {
    engine.rules.iter().filter(|rule| rule.tier == tier).map(|rule| rule.source.label.clone()).collect()
}

#[test]
fn directories_are_read_in_order_and_a_broken_file_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("b.toml"), ALLOW);
    put(&dir.path().join("a.toml"), DENY);
    put(&dir.path().join("c.toml"), "[[rule");
    put(&dir.path().join("d.txt"), DENY);
    put(&dir.path().join("e.toml"), [0xff, 0xfe]);
    let engine =
        load(&Sources { user: vec![dir.path().to_owned()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::User), ["deny glob", "allow web_fetch"]);
    let messages: Vec<&str> = engine.problems().iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["TOML parsing failed", "Failed to read policy path"]);
    assert_eq!(engine.problems()[0].line, Some(1));
    assert_eq!(engine.unreadable.len(), 1);
}

#[test]
fn missing_paths_have_no_rules() {
    let sources = Sources {
        user: vec![PathBuf::from("/does/not/exist")],
        workspace: Some(PathBuf::from("/nor/this")),
        system: Some(PathBuf::from("/nor/that")),
        ..Sources::default()
    };
    assert_eq!(load(&sources, Options::default()).problems(), &[]);
}

#[test]
fn extensions_can_only_deny_and_ask() {
    let dir = tempfile::tempdir().unwrap();
    let yolo = DENY.to_owned() + "modes = [\"yolo\"]\n";
    put(&dir.path().join("a.toml"), format!("{ALLOW}{DENY}{yolo}"));
    let engine =
        load(&Sources { extension: vec![dir.path().to_owned()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::Extension), ["deny glob"]);
    assert_eq!(engine.problems().len(), 2);
}

#[test]
fn admin_files_are_read_only_without_system_policies_of_the_administrator() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("admin.toml");
    put(&file, DENY);
    let engine = load(&Sources { admin: vec![file.clone()], ..Sources::default() }, Options::default());
    assert_eq!(labels(&engine, Tier::Admin), ["deny glob"]);
    // A plain file is never a system directory.
    let sources = Sources { system: Some(file.clone()), admin: vec![file], ..Sources::default() };
    let engine = load(&sources, Options::default());
    assert!(engine.problems()[0].message.starts_with("Security Warning: Skipping system policies from "));
    assert_eq!(labels(&engine, Tier::Admin), ["deny glob"]);
}

#[cfg(unix)]
#[test]
fn a_directory_others_can_write_to_is_not_the_administrator_s() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(owned_by_administrator(dir.path()).is_err());
}

#[test]
fn integrity_changes_with_names_and_contents() {
    let dir = tempfile::tempdir().unwrap();
    let empty = integrity(dir.path()).unwrap();
    put(&dir.path().join("a.toml"), DENY);
    let one = integrity(dir.path()).unwrap();
    put(&dir.path().join("a.toml"), ALLOW);
    let other = integrity(dir.path()).unwrap();
    fs::rename(dir.path().join("a.toml"), dir.path().join("b.toml")).unwrap();
    let renamed = integrity(dir.path()).unwrap();
    let mut all = vec![empty, one, other, renamed];
    all.dedup();
    assert_eq!(all.len(), 4);
}
