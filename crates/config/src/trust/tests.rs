use super::*;
use crate::scratch::Scratch;

struct Case<'a> {
    vars: &'a [(&'a str, &'a str)],
    skip_trust: bool,
    feature_enabled: bool,
}

const PLAIN: Case<'static> = Case { vars: &[], skip_trust: false, feature_enabled: true };

fn decided(
    scratch: &Scratch,
    folder: &str,
    case: &Case<'_>,
) -> Result<(FolderTrust, TrustReason), TrustError> {
    decide(&TrustRequest {
        env: &scratch.env(case.vars),
        home: &scratch.home(),
        folder: &scratch.path(folder),
        skip_trust: case.skip_trust,
        feature_enabled: case.feature_enabled,
    })
}

#[test]
fn switches_decide_before_the_register_is_read() {
    use FolderTrust::{Trusted, Undecided, Untrusted};
    let scratch = Scratch::new();
    let yes = &[("GEMINI_CLI_TRUST_WORKSPACE", "true")][..];
    let no = &[("GEMINI_CLI_TRUST_WORKSPACE", "false")][..];
    let restricted = &[("GEMINI_RESTRICTED_MODE", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")][..];
    for (vars, skip_trust, feature_enabled, wanted) in [
        (&[][..], false, true, Undecided),
        (&[], false, false, Trusted),
        (&[], true, true, Trusted),
        (yes, false, true, Trusted),
        (no, false, false, Untrusted),
        (no, true, true, Trusted),
        (restricted, true, false, Untrusted),
        (&[("GEMINI_CLI_TRUST_WORKSPACE", "maybe")], false, true, Undecided),
    ] {
        let case = Case { vars, skip_trust, feature_enabled };
        assert_eq!(
            decided(&scratch, "work", &case).unwrap().0,
            wanted,
            "{vars:?} {skip_trust} {feature_enabled}"
        );
    }
    scratch.write("home/.gemini/trustedFolders.json", "broken");
    assert!(decided(&scratch, "work", &Case { vars: yes, ..PLAIN }).is_ok());
    assert!(decided(&scratch, "work", &PLAIN).is_err());
}

#[test]
fn the_rule_with_the_longest_path_wins() {
    use FolderTrust::{Trusted, Undecided, Untrusted};
    let scratch = Scratch::new();
    for folder in ["work/a/b", "work/named", "work/sibling", "workshop", "parent/child"] {
        std::fs::create_dir_all(scratch.path(folder)).unwrap();
    }
    let at = |path: &str| scratch.path(path).display().to_string();
    let text = format!(
        "{{ // mine\n\"{}\": \"TRUST_FOLDER\", \"{}\": \"DO_NOT_TRUST\", \"{}\": \"TRUST_FOLDER\", \"{}\": \"TRUST_PARENT\" }}",
        at("work"),
        at("work/a"),
        at("work/a/b"),
        at("parent/child")
    );
    scratch.write("home/.gemini/trustedFolders.json", &text);
    for (folder, wanted) in [
        ("work", Trusted),
        ("work/named", Trusted),
        ("work/a", Untrusted),
        ("work/a/b", Trusted),
        ("workshop", Undecided),
        ("parent", Trusted),
        ("parent/child", Trusted),
        ("home", Undecided),
    ] {
        assert_eq!(decided(&scratch, folder, &PLAIN).unwrap().0, wanted, "{folder}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(scratch.path("work/a"), scratch.path("link")).unwrap();
        assert_eq!(decided(&scratch, "link", &PLAIN).unwrap().0, Untrusted, "a link is what it leads to");
    }
}

#[test]
fn a_bad_register_is_an_error_with_its_line() {
    let scratch = Scratch::new();
    for (text, line) in
        [("{\n\"/a\": \"TRUST_ALL\"}", Some(2)), ("{\n\"/a\": 1,}", Some(2)), ("[]", None), ("", None)]
    {
        scratch.write("home/.gemini/trustedFolders.json", text);
        assert_eq!(decided(&scratch, "work", &PLAIN).unwrap_err().0.line, line, "{text}");
    }
}

#[test]
fn a_remembered_rule_is_added_and_private() {
    let scratch = Scratch::new();
    let file = scratch.write("elsewhere.json", "{\n  // kept\n  \"/x\": \"DO_NOT_TRUST\"\n}");
    let vars = [("GEMINI_CLI_TRUSTED_FOLDERS_PATH", file.to_str().unwrap())];
    let env = scratch.env(&vars);
    remember(&env, &scratch.home(), &scratch.path("work"), TrustRule::Folder).unwrap();
    assert!(scratch.read("elsewhere.json").starts_with("{\n  // kept\n  \"/x\": \"DO_NOT_TRUST\",\n"));
    assert_eq!(decided(&scratch, "work", &Case { vars: &vars, ..PLAIN }).unwrap().0, FolderTrust::Trusted);
    remember(&scratch.env(&[]), &scratch.home(), &scratch.path("work"), TrustRule::Never).unwrap();
    assert_eq!(decided(&scratch, "work", &PLAIN).unwrap().0, FolderTrust::Untrusted);
}

fn standing_of(scratch: &Scratch, folder: &str) -> Standing {
    standing(&TrustRequest {
        env: &scratch.env(&[]),
        home: &scratch.home(),
        folder: &scratch.path(folder),
        skip_trust: false,
        feature_enabled: true,
    })
    .unwrap()
}

fn trust(scratch: &Scratch, folder: &str, rule: TrustRule) {
    remember(&scratch.env(&[]), &scratch.home(), &scratch.path(folder), rule).unwrap();
}

fn agree(scratch: &Scratch, folder: &str) {
    let inventory = take_inventory(&scratch.home(), &scratch.path(folder));
    Record::write(&scratch.home(), &inventory, Some(Timestamp::from_millis(0))).unwrap();
}

#[test]
fn a_folder_is_trusted_with_what_it_held_and_with_nothing_else() {
    let scratch = Scratch::new();
    trust(&scratch, "work", TrustRule::Folder);
    // Even an empty folder is kept, so that what comes later is noticed.
    assert!(
        matches!(standing_of(&scratch, "work").binding, Binding::FirstUse(found) if found.items.is_empty())
    );
    agree(&scratch, "work");
    assert_eq!(standing_of(&scratch, "work").binding, Binding::Same);
    scratch.write("work/.gemini/settings.json", "{}");
    scratch.write("work/GEMINI.md", "context");
    let changed = standing_of(&scratch, "work");
    assert_eq!(changed.binding, Binding::Changed(vec![".gemini/settings.json".to_owned()]));
    assert_eq!((changed.trust, changed.trust.uses_project()), (FolderTrust::Changed, false));
    agree(&scratch, "work");
    assert!(standing_of(&scratch, "work").trust.uses_project());
    std::fs::remove_file(scratch.path("work/.gemini/settings.json")).unwrap();
    assert_eq!(standing_of(&scratch, "work").trust, FolderTrust::Changed, "less is a change as well");
}

#[test]
fn each_folder_below_a_trusted_parent_is_bound_by_itself() {
    let scratch = Scratch::new();
    scratch.write("src/a/.gemini/settings.json", "{}");
    scratch.write("src/b/.gemini/settings.json", "{}");
    trust(&scratch, "src/a", TrustRule::Parent);
    agree(&scratch, "src/a");
    scratch.write("src/a/.gemini/settings.json", "{\"x\": 1}");
    assert_eq!(standing_of(&scratch, "src/a").trust, FolderTrust::Changed);
    assert!(matches!(standing_of(&scratch, "src/b").binding, Binding::FirstUse(_)));
}

#[test]
fn the_home_is_not_bound_and_a_bad_record_counts_as_a_change() {
    let scratch = Scratch::new();
    scratch.write("home/.gemini/settings.json", "{}");
    trust(&scratch, "home", TrustRule::Folder);
    let home = standing_of(&scratch, "home");
    assert_eq!((home.trust, home.binding), (FolderTrust::Trusted, Binding::Unbound));
    trust(&scratch, "work", TrustRule::Folder);
    agree(&scratch, "work");
    let records = scratch.names("home/.gemini/trusted_content");
    let [record] = &records[..] else { panic!("{records:?}") };
    scratch.write(&format!("home/.gemini/trusted_content/{record}"), "broken");
    assert_eq!(standing_of(&scratch, "work").trust, FolderTrust::Changed);
    Record::forget(&scratch.home(), &scratch.path("work")).unwrap();
    assert!(matches!(standing_of(&scratch, "work").binding, Binding::FirstUse(_)));
}

#[cfg(unix)]
#[test]
fn what_leads_out_of_the_folder_is_never_taken_at_first_use() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("work/.gemini")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scratch.path("work/.gemini/settings.json")).unwrap();
    trust(&scratch, "work", TrustRule::Folder);
    let standing = standing_of(&scratch, "work");
    assert!(matches!(standing.binding, Binding::Unclear(_)) && standing.trust == FolderTrust::Changed);
    agree(&scratch, "work");
    assert_eq!(standing_of(&scratch, "work").binding, Binding::Same, "consent was given by hand");
}

#[cfg(unix)]
#[test]
fn a_record_is_private_and_holds_no_value_of_a_variable() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    scratch.write("work/.env", "TOKEN=s3cret");
    scratch.write("work/.gemini/settings.json", "{\"mcpServers\": {\"a\": {\"env\": {\"K\": \"s3cret\"}}}}");
    agree(&scratch, "work");
    let name = scratch.names("home/.gemini/trusted_content").remove(0);
    let file = format!("home/.gemini/trusted_content/{name}");
    assert_eq!(std::fs::metadata(scratch.path(&file)).unwrap().permissions().mode() & 0o777, 0o600);
    let text = scratch.read(&file);
    assert!(text.contains("TOKEN=(hidden, ") && !text.contains("s3cret"), "{text}");
    let record = Record::read(&scratch.home(), &scratch.path("work")).unwrap().unwrap();
    assert_eq!(record.time.as_deref(), Some("1970-01-01T00:00:00.000Z"));
}
