//! Nothing of one workspace is found, indexed or read in another.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pollux_memory::{
    Category, Confidence, Forget, GetError, Learnings, Memory, Request, SearchMode, Space, Transcript, adopt,
};

use crate::scratch::{Noon, Scratch, ask, files, paths, sync};

fn two() -> (Scratch, Scratch) {
    let a = Scratch::new();
    let b = a.beside("other");
    (a, b)
}

fn learnings(scratch: &Scratch) -> Learnings {
    Learnings::of(&scratch.agent(), &scratch.workspace(), scratch.space, Arc::new(Noon))
}

async fn exported(memory: &Memory) -> String {
    String::from_utf8(memory.export(Vec::new()).await.unwrap()).unwrap()
}

#[tokio::test]
async fn memory_of_one_workspace_is_not_found_in_another() {
    let (a, b) = two();
    a.said("s1", &[("user", "the kumquat is ripe")]);
    a.note("MEMORY.md", "the kumquat costs nine");
    a.note("memory/x.md", "kumquat of a");
    b.note("MEMORY.md", "the durian costs one");
    b.note("memory/x.md", "durian of b");
    let ((in_a, first), (in_b, second)) = (a.synced().await, b.synced().await);
    assert_eq!((first.files, second.files), (3, 2));
    assert_eq!(ask(&in_a, "kumquat").await.hits.len(), 3);
    for mode in [SearchMode::V2, SearchMode::Seed] {
        let request = Request { mode: Some(mode), min_score: Some(0.0), ..Request::new("the kumquat costs") };
        let found = in_b.search(&request).await.unwrap();
        assert!(found.hits.iter().all(|hit| !hit.snippet.contains("kumquat")), "{found:?}");
    }
    let status = in_b.status().await.unwrap();
    assert_eq!((status.files, status.sessions, status.dirty), (2, 0, false));
    let export = exported(&in_b).await;
    assert!(!export.contains("kumquat") && export.contains("durian"), "{export}");
    assert!(exported(&in_a).await.contains("kumquat"));
    let bytes = std::fs::read(b.index_file()).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains("kumquat"));
}

#[tokio::test]
async fn indexing_in_turn_changes_nothing_the_second_time() {
    let (a, b) = two();
    for scratch in [&a, &b] {
        scratch.note("MEMORY.md", &format!("notes of {}", scratch.workspace().display()));
        scratch.said(scratch.workspace().file_name().unwrap().to_str().unwrap(), &[("user", "hello there")]);
    }
    learnings(&a).add(Category::Correction, "the port is 8080", Confidence::High).unwrap();
    a.synced().await;
    b.synced().await;
    let asked = a.toy.as_ref().unwrap().asked.load(Ordering::Relaxed);
    for _ in 0..2 {
        for scratch in [&a, &b] {
            let (_, synced) = scratch.synced().await;
            assert_eq!((synced.changed, synced.removed, synced.chunks_written), (0, 0, 0), "{synced:?}");
        }
    }
    assert_eq!(a.toy.as_ref().unwrap().asked.load(Ordering::Relaxed), asked);
}

#[tokio::test]
async fn links_and_paths_do_not_lead_into_another_workspace() {
    let (a, mut b) = two();
    a.note("MEMORY.md", "the kumquat is in a");
    a.note("memory/x.md", "kumquat too");
    a.note("docs/notes/y.md", "kumquat again");
    symlink(a.workspace().join("MEMORY.md"), b.workspace().join("MEMORY.md")).unwrap();
    std::fs::remove_dir(b.workspace().join("memory")).unwrap();
    symlink(a.workspace().join("memory"), b.workspace().join("memory")).unwrap();
    symlink(a.workspace().join("docs"), b.workspace().join("docs")).unwrap();
    b.settings.extra_paths = vec!["docs/notes".into(), "docs/notes/y.md".into()];
    let (memory, synced) = b.synced().await;
    assert_eq!(synced.files, 0);
    assert!(ask(&memory, "kumquat").await.hits.is_empty());
    let there = a.workspace().join("MEMORY.md");
    for path in [
        "MEMORY.md",
        "memory/x.md",
        "docs/notes/y.md",
        "../workspace/MEMORY.md",
        "memory/../../workspace/MEMORY.md",
        "./../workspace/MEMORY.md",
        there.to_str().unwrap(),
        "sessions/s1.jsonl",
        "agent/../agent/LEARNINGS.md",
    ] {
        let got = memory.get(path, None, None).await;
        assert!(matches!(got, Err(GetError::NotANote { .. } | GetError::NotFound { .. })), "{path}: {got:?}");
    }
}

#[tokio::test]
async fn a_link_to_a_folder_is_the_same_workspace() {
    let (a, _) = two();
    a.said("s1", &[("user", "the kumquat is ripe")]);
    a.note("MEMORY.md", "the kumquat costs nine");
    a.synced().await;
    symlink(a.workspace(), a.root().join("link")).unwrap();
    let link = a.beside("link");
    link.said("s2", &[("user", "a kumquat by another way")]);
    let (memory, synced) = link.synced().await;
    assert_eq!((synced.changed, link.index_file()), (1, a.index_file()));
    assert_eq!(ask(&memory, "kumquat").await.hits.len(), 3);
}

#[tokio::test]
async fn a_moved_folder_starts_empty_and_can_adopt_its_old_memory() {
    let (a, b) = two();
    a.said("s1", &[("user", "the kumquat is ripe")]);
    learnings(&a).add(Category::Correction, "wrong, it should be port 8080", Confidence::High).unwrap();
    a.synced().await;
    let toy = a.toy.as_ref().unwrap();
    let (old, asked) = (a.workspace().canonicalize().unwrap(), toy.asked.load(Ordering::Relaxed));
    assert!(adopt(&b.agent(), &b.workspace(), &old).is_err(), "it is still there");
    std::fs::rename(&old, a.root().join("moved")).unwrap();
    let moved = a.beside("moved");
    let (memory, _) = moved.synced().await;
    assert!(ask(&memory, "kumquat").await.hits.is_empty() && learnings(&moved).list().unwrap().is_empty());
    adopt(&moved.agent(), &moved.workspace(), &old).unwrap();
    let (memory, synced) = moved.synced().await;
    assert_eq!(paths(&ask(&memory, "kumquat").await), ["sessions/s1.jsonl"]);
    assert_eq!(
        (synced.embedded, synced.from_cache),
        (1, 1),
        "the learnings are new here, the session is not"
    );
    assert_eq!(learnings(&moved).list().unwrap().len(), 1);
    assert!(toy.asked.load(Ordering::Relaxed) > asked);
    assert!(ask(&b.synced().await.0, "kumquat").await.hits.is_empty());
}

#[tokio::test]
async fn project_learnings_stay_with_the_project() {
    let (a, b) = two();
    let said = [
        (Category::Preference, "I prefer concise responses", true),
        (Category::ToolUsage, "Always confirm before file deletion", true),
        (Category::Preference, "always deploy Falcon from the bastion", false),
        (Category::Preference, "always use port 8443", false),
        (Category::Preference, "always read src/main.rs first", false),
        (Category::Preference, "I prefer db.internal as host", false),
        (Category::Correction, "don't touch the ledger", false),
        (Category::Pattern, "migrate the ledger with edit", false),
        (Category::ToolUsage, "don't run make_release here", false),
    ];
    for (category, text, _) in said {
        learnings(&a).add(category, text, Confidence::High).unwrap();
    }
    let general: Vec<&str> =
        said.iter().filter(|(_, _, general)| *general).map(|(_, text, _)| *text).collect();
    let texts = |scratch: &Scratch| -> Vec<String> {
        learnings(scratch).list().unwrap().into_iter().map(|learning| learning.text).collect()
    };
    assert_eq!(texts(&a).len(), said.len());
    assert_eq!(texts(&b), general);
    assert_eq!(learnings(&b).hidden().unwrap(), said.len() - general.len());
    let context = learnings(&b).for_context(1000).unwrap().unwrap();
    assert!(
        context.contains("concise") && !context.contains("ledger") && !context.contains("Falcon"),
        "{context}"
    );
    let (memory, _) = b.synced().await;
    let shown = memory.get("agent/LEARNINGS.md", None, None).await.unwrap().text;
    for (_, text, general) in said {
        assert_eq!(shown.contains(text), general, "{text}");
        let hits = ask(&memory, text).await.hits;
        assert_eq!(hits.iter().any(|hit| hit.snippet.contains(text)), general, "{text}");
    }
    assert_eq!(memory.status().await.unwrap().learnings, 2);
    assert!(!exported(&memory).await.contains("ledger"));
    // The same said again in the other is learned there too.
    learnings(&b).add(Category::Correction, "don't touch the ledger", Confidence::High).unwrap();
    assert_eq!(texts(&b).len(), 3);
    // What a person wrote by hand holds everywhere.
    let file = a.agent().learnings_file();
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("## Corrections\n", "## Corrections\n\n- by hand: Port 1\n");
    std::fs::write(&file, text).unwrap();
    assert!(texts(&b).iter().any(|text| text == "by hand: Port 1"));
}

#[tokio::test]
async fn learnings_from_before_are_handed_on_only_when_they_name_nothing() {
    let (a, _) = two();
    a.agent().prepare().unwrap();
    std::fs::write(
        a.agent().learnings_file(),
        "# Agent Learnings\n\n## User Preferences\n\n- [2026-01-01] I prefer tea <!-- l_1_a high -->\n\
         - [2026-01-01] always call Falcon first <!-- l_1_b high -->\n\n## Corrections\n\n\
         - [2026-01-01] the api is v2 <!-- l_1_c high -->\n- [2026-01-01] written by hand\n",
    )
    .unwrap();
    let texts = |scratch: &Scratch| -> Vec<String> {
        learnings(scratch).list().unwrap().into_iter().map(|learning| learning.text).collect()
    };
    assert_eq!(texts(&a), ["I prefer tea", "written by hand"]);
    assert_eq!(texts(&a.with_space(Space::Unassigned)), ["always call Falcon first", "the api is v2"]);
    assert_eq!(texts(&a.with_space(Space::Shared)).len(), 4);
}

#[tokio::test]
async fn one_session_id_in_two_workspaces_is_two_transcripts() {
    let (a, b) = two();
    for (scratch, text) in [(&a, "the kumquat is ripe"), (&b, "the durian is ripe"), (&a, "kumquat again")] {
        let clock = Arc::new(Noon);
        Transcript::of_session(&scratch.agent(), "same", &scratch.workspace(), clock)
            .unwrap()
            .user(text)
            .unwrap();
    }
    let (in_a, in_b) = (a.synced().await.0, b.synced().await.0);
    let (of_a, of_b) = (ask(&in_a, "kumquat durian ripe").await, ask(&in_b, "kumquat durian ripe").await);
    assert!(of_a.hits.iter().all(|hit| hit.snippet.contains("kumquat") && !hit.snippet.contains("durian")));
    assert!(of_b.hits.iter().all(|hit| hit.snippet.contains("durian") && !hit.snippet.contains("kumquat")));
    assert!(!of_a.hits.is_empty() && !of_b.hits.is_empty());
    in_b.forget(Forget::Session("same".into()), false).await.unwrap();
    assert!(!ask(&in_a, "kumquat").await.hits.is_empty() && ask(&in_b, "durian").await.hits.is_empty());
}

#[tokio::test]
async fn forgetting_stays_in_its_workspace_unless_asked_otherwise() {
    let (a, b) = two();
    for (scratch, id) in [(&a, "s1"), (&b, "s2")] {
        scratch.said(id, &[("user", "the kumquat is ripe")]);
        scratch.note("MEMORY.md", "a kumquat");
        learnings(scratch).add(Category::Correction, "don't eat the kumquat", Confidence::High).unwrap();
    }
    let (in_a, in_b) = (a.synced().await.0, b.synced().await.0);
    let would = in_b.forget(Forget::Session("s1".into()), true).await.unwrap();
    assert!(would.transcripts.is_empty() && would.files.is_empty() && would.elsewhere == 1, "{would:?}");
    let done = in_b.forget(Forget::Phrase("kumquat".into()), false).await.unwrap();
    assert_eq!((done.transcripts.len(), done.learnings, done.elsewhere), (1, 1, 1), "{done:?}");
    assert!(done.transcripts[0].ends_with("s2.jsonl"));
    assert_eq!(ask(&in_a, "kumquat").await.hits.len(), 3, "a is as it was");
    sync(&in_a).await;
    assert_eq!(ask(&in_a, "kumquat").await.hits.len(), 3);
    in_b.forget(Forget::Path("MEMORY.md".into()), false).await.unwrap();
    sync(&in_a).await;
    assert!(paths(&ask(&in_a, "kumquat").await).contains(&"MEMORY.md"), "a path means this workspace's");

    let would = in_b.forget_everywhere(Forget::Phrase("kumquat".into()), true).await.unwrap();
    assert_eq!((would.transcripts.len(), would.learnings), (1, 1), "{would:?}");
    let done = in_b.forget_everywhere(Forget::Phrase("kumquat".into()), false).await.unwrap();
    assert_eq!((done.transcripts.len(), done.learnings, done.elsewhere), (1, 1, 0), "{done:?}");
    assert!(ask(&in_a, "kumquat").await.hits.is_empty());
    in_a.close().await;
    in_b.close().await;
    assert!(crate::scratch::holding(&a.state(), "kumquat").is_empty());
}

#[tokio::test]
async fn sharing_is_as_it_was() {
    let (a, b) = two();
    a.said("s1", &[("user", "the kumquat is ripe")]);
    let (a, b) = (a.with_space(Space::Shared), b.with_space(Space::Shared));
    a.synced().await;
    let (memory, _) = b.synced().await;
    assert_eq!(paths(&ask(&memory, "kumquat").await), ["sessions/s1.jsonl"]);
    assert!(a.agent().index_file().is_file());
}

#[tokio::test]
async fn an_index_put_in_another_workspaces_place_is_not_read() {
    let (a, b) = two();
    a.note("MEMORY.md", "the kumquat is in a");
    let (memory, _) = a.synced().await;
    memory.close().await;
    a.database().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::create_dir_all(b.index_file().parent().unwrap()).unwrap();
    std::fs::copy(a.index_file(), b.index_file()).unwrap();
    let memory = b.memory();
    assert!(ask(&memory, "kumquat").await.hits.is_empty(), "before anything is indexed");
    sync(&memory).await;
    assert!(ask(&memory, "kumquat").await.hits.is_empty());
    assert_eq!(b.count("SELECT count(*) FROM chunks"), 0);
}

#[tokio::test]
async fn a_place_of_ones_own_choice_is_divided_too() {
    let (mut a, mut b) = two();
    for (scratch, path) in [(&mut a, "index.db"), (&mut b, "index.db")] {
        scratch.settings.store.path = Some(scratch.root().join(path).to_string_lossy().into_owned());
    }
    a.note("MEMORY.md", "the kumquat is in a");
    a.synced().await;
    b.note("MEMORY.md", "the durian is in b");
    let (memory, synced) = b.synced().await;
    assert_eq!((synced.changed, synced.removed), (1, 0));
    assert!(ask(&memory, "kumquat").await.hits.is_empty());
    assert_eq!(a.synced().await.1.changed, 0);
    let indexes = files(a.root()).into_iter().filter(|file| file.extension().is_some_and(|end| end == "db"));
    assert_eq!(indexes.count(), 2);
    b.settings.store.path =
        Some(b.root().join("{agentId}-{workspace}.sqlite").to_string_lossy().into_owned());
    b.synced().await;
    let made = files(b.root()).into_iter().find(|file| file.extension().is_some_and(|end| end == "sqlite"));
    assert!(made.unwrap().file_name().unwrap().to_str().unwrap().starts_with("main-"));
}

#[tokio::test]
async fn two_workspaces_are_indexed_at_the_same_time() {
    let (a, b) = two();
    for (scratch, word) in [(&a, "kumquat"), (&b, "durian")] {
        for number in 0..40 {
            scratch.note(&format!("memory/{number}.md"), &format!("{word} number {number}"));
        }
        for number in 0..10 {
            scratch.said(&format!("{word}{number}"), &[("user", &format!("{word} said {number}"))]);
        }
    }
    let (in_a, in_b) = (a.memory(), b.memory());
    for _ in 0..3 {
        let (one, other) = tokio::join!(sync(&in_a), sync(&in_b));
        assert!(!one.busy && !other.busy, "one does not wait for the other");
    }
    assert_eq!(in_a.status().await.unwrap().files, 50);
    assert_eq!(in_b.status().await.unwrap().files, 50);
    let found =
        in_b.search(&Request { max_results: Some(200), ..Request::new("kumquat durian") }).await.unwrap();
    assert!(found.hits.len() == 50 && found.hits.iter().all(|hit| !hit.snippet.contains("kumquat")));
}

#[tokio::test]
async fn a_changed_way_to_cut_is_out_of_date() {
    let mut scratch = Scratch::new();
    scratch.note("MEMORY.md", "alpha beta");
    let (memory, _) = scratch.synced().await;
    let status = memory.status().await.unwrap();
    assert_eq!((status.dirty, status.outdated), (false, None));
    scratch.settings.chunking.tokens = 100;
    let status = scratch.memory().status().await.unwrap();
    assert!(status.dirty && status.outdated.is_some(), "{status:?}");
    let (memory, _) = scratch.synced().await;
    assert!(!memory.status().await.unwrap().dirty);
}

#[tokio::test]
async fn what_was_forgotten_stays_forgotten_where_all_workspaces_are_searched_and_after_a_move() {
    let (a, b) = two();
    a.note("memory/n.md", "the kumquat launch is on friday");
    let (memory, _) = a.synced().await;
    memory.forget(Forget::Phrase("kumquat launch".into()), false).await.unwrap();
    memory.close().await;
    let shared = a.with_space(Space::Shared);
    assert!(ask(&shared.synced().await.0, "kumquat").await.hits.is_empty());
    b.note("memory/n.md", "the kumquat launch was moved");
    assert!(ask(&b.with_space(Space::Shared).synced().await.0, "kumquat").await.hits.is_empty());
    let old = a.workspace().canonicalize().unwrap();
    std::fs::rename(&old, a.root().join("moved")).unwrap();
    let moved = a.beside("moved");
    adopt(&moved.agent(), &moved.workspace(), &old).unwrap();
    assert!(ask(&moved.synced().await.0, "kumquat").await.hits.is_empty());
}
