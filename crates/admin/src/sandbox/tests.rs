use pollux_sandbox::{Confinement, Level, LevelError};

use super::check::{Checked, Outcome};
use super::page;

fn landlock() -> Confinement {
    Confinement {
        level: Level::Landlock,
        network: true,
        proxied: false,
        signals_outside: false,
        abstract_sockets: false,
        late_sockets: false,
        given_devices: false,
    }
}

#[test]
fn the_status_lists_the_levels_and_what_is_open() {
    let tried =
        [(Level::Bubblewrap, Err(LevelError::NotInstalled("bwrap"))), (Level::Landlock, Ok(landlock()))];
    let text = page::status(&tried, Some(&landlock()), true);
    assert!(text.starts_with("Sandbox: Landlock\n"), "{text}");
    assert!(text.contains("bwrap         unavailable: `bwrap` not found in `PATH`\n"), "{text}");
    assert!(text.contains("  files outside             held\n"), "{text}");
    assert!(text.contains("  modes and times outside   open: mode, times"), "{text}");
    let facts = page::status_json(&tried, Some(&landlock()), true);
    assert_eq!(facts["level"], "landlock");
    assert_eq!(facts["levels"][0]["reason"], "`bwrap` not found in `PATH`");
    let rights = facts["rights"].as_array().unwrap();
    let network = rights.iter().find(|right| right["name"] == "network").unwrap();
    assert_eq!(network["state"], "open");
    assert!(page::status_json(&tried[..1], None, true)["level"].is_null());
}

#[test]
fn an_unexpected_success_is_shown_as_broken() {
    let result = |outcome| Checked { right: "files outside", what: "create a file", outcome };
    let text = page::checked(Level::Namespaces, &[result(Outcome::Held), result(Outcome::Broken)]);
    assert!(text.contains("  held    create a file (files outside)\n  BROKEN  create a file"), "{text}");
}
