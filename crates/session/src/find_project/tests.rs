#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".gemini/tmp")).unwrap();
        Self { dir }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(below)
    }

    fn folder(&self, below: &str) -> PathBuf {
        fs::create_dir_all(self.path(below)).unwrap();
        self.path(below)
    }

    /// A session in `tmp/<key>` that called a tool with these arguments.
    fn session(&self, key: &str, hash: &str, minute: u32, args: &serde_json::Value) {
        let chats = self.folder(&format!(".gemini/tmp/{key}/chats"));
        let session = json!({"sessionId": format!("{key}-{minute}"), "projectHash": hash,
            "startTime": format!("2026-01-01T00:{minute:02}:00.000Z"), "messages": [
                {"id": "1", "type": "user", "content": "hi"},
                {"id": "2", "type": "gemini", "content": "", "toolCalls": [{"id": "c", "name": "x", "args": args, "status": "success"}]}]});
        fs::write(chats.join(format!("session-{minute}.json")), session.to_string()).unwrap();
    }

    fn find(&self, name: &str) -> Vec<(PathBuf, NameMatch, Proof, usize)> {
        let home = Home::at(self.path(""));
        let bases = default_bases(&self.path(""));
        let homes = [home];
        let search = ProjectSearch { homes: &homes, bases: &bases, name, depth: 3 };
        let found = find_project(&search, Timestamp::from_millis(0));
        found.into_iter().map(|it| (it.root, it.matched, it.proof, it.sessions.len())).collect()
    }
}

fn hash(path: &Path) -> String {
    sha256_hex(path.to_string_lossy().as_bytes())
}

#[test]
fn folders_are_proved_by_their_hash_and_ranked_by_their_name() {
    let world = World::new();
    for (below, minute) in [("dev/a/web-app", 1), ("dev/web", 2), ("src/x/y/my-web", 3), ("code/WEB", 4)] {
        let root = world.folder(below);
        world.session(&hash(&root), &hash(&root), minute, &json!({}));
    }
    world.folder("dev/webless");
    for hidden in ["dev/node_modules/web", ".cache/web", "dev/a/b/c/d/web"] {
        let root = world.folder(hidden);
        world.session(&hash(&root), &hash(&root), 9, &json!({}));
    }
    let found = world.find("Web");
    assert_eq!(
        found,
        [
            (world.path("code/WEB"), NameMatch::Exact, Proof::Hash, 1),
            (world.path("dev/web"), NameMatch::Exact, Proof::Hash, 1),
            (world.path("dev/a/web-app"), NameMatch::Prefix, Proof::Hash, 1),
            (world.path("src/x/y/my-web"), NameMatch::Substring, Proof::Hash, 1),
        ]
    );
    assert!(world.find("").is_empty() && world.find("nothing").is_empty());
}

#[test]
fn a_recorded_project_is_found_without_its_folder() {
    let world = World::new();
    let (gone, marked) = (world.path("dev/gone-web"), world.path("elsewhere/marked-web"));
    fs::write(
        world.path(".gemini/projects.json"),
        json!({"projects": {gone.to_string_lossy(): "gone-web", "/bad": "../x"}}).to_string(),
    )
    .unwrap();
    world.session("gone-web", &hash(&gone), 1, &json!({}));
    // The same project from before it had a short name.
    world.session(&hash(&gone), &hash(&gone), 2, &json!({}));
    world.session("marked", "", 1, &json!({}));
    fs::write(world.path(".gemini/tmp/marked/.project_root"), marked.to_string_lossy().as_bytes()).unwrap();
    assert_eq!(
        world.find("web"),
        [
            (gone, NameMatch::Substring, Proof::Register, 2),
            (marked, NameMatch::Substring, Proof::Register, 1),
        ]
    );
}

#[test]
fn a_project_behind_a_link_is_found_by_the_path_it_had() {
    let world = World::new();
    let real = world.folder("volumes/one/web");
    fs::create_dir_all(world.path("dev")).unwrap();
    symlink(world.path("volumes/one"), world.path("dev/one")).unwrap();
    world.session(&hash(&real), &hash(&real), 1, &json!({}));
    assert_eq!(world.find("web"), [(real, NameMatch::Exact, Proof::Hash, 1)]);
}

#[test]
fn paths_of_calls_prove_a_root_or_let_one_be_guessed() {
    let world = World::new();
    let root = Path::new("/gone/web");
    let args = [
        json!({"file_path": "/gone/web/src/main.rs"}),
        json!("{\"paths\": [\"/gone/web/a\", \"relative\"]}"),
        json!({"command": "cat '/gone/web/src/x' && ls /etc/passwd"}),
    ];
    for (minute, args) in (1..).zip(&args) {
        world.session(&hash(root), &hash(root), minute, args);
    }
    assert_eq!(world.find("web"), [(root.to_owned(), NameMatch::Exact, Proof::PathsAndHash, 3)]);
    // Another one whose hash fits nothing, in a folder that nobody marked.
    let world = World::new();
    world.session(
        "slug",
        "not-a-hash",
        1,
        &json!({"dir_path": "/gone/web/src/deep", "cwd": "/gone/web/src"}),
    );
    assert_eq!(world.find("web"), [(root.to_owned(), NameMatch::Exact, Proof::Inferred, 1)]);
    assert!(world.find("other").is_empty());
}

#[test]
fn projects_are_found_by_any_name_and_behind_links() {
    let world = World::new();
    let mut expected = Vec::new();
    for (below, minute) in [("dev/vendor", 1), ("dev/.dotfiles", 2), ("dev/target", 3)] {
        let root = world.folder(below);
        world.session(&hash(&root), &hash(&root), minute, &json!({}));
        expected.push(root);
    }
    // Not descended into, so that no base is searched a second time.
    let inner = world.folder("dev/vendor/inner-lib");
    world.session(&hash(&inner), &hash(&inner), 4, &json!({}));
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().canonicalize().unwrap();
    symlink(&real, world.path("dev/linked")).unwrap();
    symlink(world.path("dev"), world.path("dev/linked-loop")).unwrap();
    world.session(&hash(&real), &hash(&real), 5, &json!({}));
    for (name, root) in ["vendor", "dotfiles", "target"].iter().zip(&expected) {
        let found: Vec<PathBuf> = world.find(name).into_iter().map(|found| found.0).collect();
        assert_eq!(found.as_slice(), std::slice::from_ref(root), "{name}");
    }
    assert!(world.find("inner-lib").is_empty());
    assert_eq!(world.find("linked"), [(world.path("dev/linked"), NameMatch::Exact, Proof::Hash, 1)]);
}

#[test]
fn a_project_is_listed_once_although_the_home_is_a_link() {
    let world = World::new();
    let root = world.folder("dev/web");
    world.session(&hash(&root), &hash(&root), 1, &json!({}));
    fs::write(
        world.path(".gemini/projects.json"),
        json!({"projects": {root.to_string_lossy(): "web"}}).to_string(),
    )
    .unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().canonicalize().unwrap().join("home");
    symlink(world.path(""), &link).unwrap();
    let (homes, bases) = ([Home::at(link.clone())], default_bases(&link));
    let search = ProjectSearch { homes: &homes, bases: &bases, name: "web", depth: 3 };
    let found = find_project(&search, Timestamp::from_millis(0));
    assert_eq!(found.iter().map(|it| &it.root).collect::<Vec<_>>(), [&root]);
}

#[test]
fn a_folder_without_sessions_hides_no_project() {
    let world = World::new();
    let empty = world.folder("dev/web");
    world.folder(&format!(".gemini/tmp/{}/chats", hash(&empty)));
    assert!(world.find("web").is_empty());
    world.session("slug", "not-a-hash", 1, &json!({"file_path": "/gone/web/src/main.rs"}));
    assert_eq!(world.find("web"), [("/gone/web".into(), NameMatch::Exact, Proof::Inferred, 1)]);
}
