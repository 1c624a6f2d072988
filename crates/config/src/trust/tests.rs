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
