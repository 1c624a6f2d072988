//! A store is only read, and only what is inside it.

use std::fs;

use pollux_foreign::{ForeignAgent, ForeignStore};
use serde_json::json;

use crate::scratch::Scratch;

#[test]
fn a_missing_store_is_empty_and_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    for agent in ForeignAgent::ALL {
        let store = ForeignStore::new(agent, folder.path().join("none"));
        let listing = store.list();
        assert_eq!((listing.sessions.len(), listing.unreadable.len()), (0, 0));
        assert!(!store.root.exists());
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let scratch = Scratch::new(ForeignAgent::Claude);
    let record = json!({"type": "user", "uuid": "u", "message": {"role": "user", "content": "private"}});
    let outside = scratch.outside().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("s.jsonl"), record.to_string()).unwrap();
    fs::create_dir_all(scratch.path("projects/real")).unwrap();
    std::os::unix::fs::symlink(&outside, scratch.path("projects/linked")).unwrap();
    std::os::unix::fs::symlink(outside.join("s.jsonl"), scratch.path("projects/real/s.jsonl")).unwrap();
    assert_eq!(scratch.store.entries(), []);
    // A link may also replace a file after it was listed.
    assert_eq!(scratch.store.entry(&scratch.path("projects/real/s.jsonl"), "s"), None);
    assert_eq!(scratch.store.entry(&outside.join("s.jsonl"), "s"), None);
}

#[test]
fn agent_names_survive_a_round_trip() {
    for agent in ForeignAgent::ALL {
        assert_eq!(ForeignAgent::from_word(agent.as_str()), Some(agent));
    }
    assert_eq!(ForeignAgent::from_word("gemini"), None);
}
