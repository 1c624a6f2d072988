use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

struct Scene {
    home: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("declarations")
    }

    fn cache(&self, entry: &Value) -> Cache {
        let config = ServerConfig::parse("s", entry).unwrap();
        let env = Env::new([("PATH".to_owned(), "/usr/bin:/bin".to_owned())], "/".into());
        Cache::of(&self.folder(), &config, self.home.path(), &env)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let file = self.home.path().join(name);
        files::replace(&file, text.as_bytes(), Mode::Private).unwrap();
        file
    }
}

fn known(description: &str) -> Declarations {
    let tool = json!({"name": "t", "description": description, "annotations": {"readOnlyHint": true},
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let prompt = json!({"name": "p", "arguments": [{"name": "who", "required": true}]});
    let offer = Offer {
        tools: vec![offer::tool(&tool).unwrap()],
        prompts: vec![offer::prompt(&prompt).unwrap()],
        resources: vec![offer::resource(&json!({"uri": "note://1"})).unwrap()],
    };
    Declarations { offer, instructions: Some("use t".to_owned()) }
}

#[test]
fn what_is_kept_is_what_is_read_and_nobody_else_sees_it() {
    let scene = Scene::new();
    let cache = scene.cache(&json!({"command": "cat", "env": {"TOKEN": "hush"}}));
    assert_eq!(cache.read(), None);
    cache.write(&known("one"));
    assert_eq!(cache.read(), Some(known("one")));
    cache.write(&known("two"));
    assert_eq!(cache.read(), Some(known("two")));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cache.file), mode(&cache.folder)), (0o600, 0o700));
    assert!(!fs::read_to_string(&cache.file).unwrap().contains("hush"));
    cache.forget();
    assert_eq!(cache.read(), None);
}

#[test]
fn another_definition_or_another_program_is_another_server() {
    let scene = Scene::new();
    scene.put("server.js", "1");
    let entry = json!({"command": "./run", "args": ["server.js"], "env": {"A": "1"}});
    scene.put("run", "#!/bin/sh");
    let before = scene.cache(&entry).key;
    assert_eq!(scene.cache(&entry).key, before);
    for (name, other) in [
        ("command", json!({"command": "cat", "args": ["server.js"], "env": {"A": "1"}})),
        ("args", json!({"command": "./run", "args": ["server.js", "-v"], "env": {"A": "1"}})),
        ("env value", json!({"command": "./run", "args": ["server.js"], "env": {"A": "2"}})),
        ("env name", json!({"command": "./run", "args": ["server.js"], "env": {"B": "1"}})),
        ("cwd", json!({"command": "./run", "args": ["server.js"], "env": {"A": "1"}, "cwd": "x"})),
        ("url", json!({"httpUrl": "https://a.example"})),
    ] {
        assert_ne!(scene.cache(&other).key, before, "{name}");
    }
    // What only filters or describes does not make it another server.
    let mut filtered = entry.clone();
    filtered["excludeTools"] = json!(["t"]);
    assert_eq!(scene.cache(&filtered).key, before);
    scene.put("run", "#!/bin/bash");
    let rebuilt = scene.cache(&entry).key;
    assert_ne!(rebuilt, before);
    scene.put("server.js", "console.log(1)");
    assert_ne!(scene.cache(&entry).key, rebuilt);
    let headers = |value: &str| json!({"httpUrl": "https://a.example", "headers": {"X": value}});
    assert_ne!(scene.cache(&headers("1")).key, scene.cache(&headers("2")).key);
}

#[test]
fn a_file_that_is_damaged_or_that_others_could_write_does_not_count_and_is_replaced() {
    let scene = Scene::new();
    let cache = scene.cache(&json!({"command": "cat"}));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    cache.write(&known("one"));
    let good = fs::read_to_string(&cache.file).unwrap();
    let elsewhere = scene.put("elsewhere", &good);
    for damage in ["half", "noise", "empty", "deep", "other key", "huge", "mode", "link", "folder"] {
        match damage {
            "half" => drop(scene.put("declarations/x", "").parent().map(|_| {
                files::replace(&cache.file, &good.as_bytes()[..good.len() / 2], Mode::Private).unwrap();
            })),
            "noise" => files::replace(&cache.file, &[0xff, 0, 0x1b], Mode::Private).unwrap(),
            "empty" => files::replace(&cache.file, b"{}", Mode::Private).unwrap(),
            "deep" => files::replace(&cache.file, "[".repeat(500_000).as_bytes(), Mode::Private).unwrap(),
            "other key" => {
                let text = good.replace(&cache.key, &"0".repeat(64));
                files::replace(&cache.file, text.as_bytes(), Mode::Private).unwrap();
            }
            "huge" => {
                let text = format!("{good}{}", " ".repeat(2 << 20));
                files::replace(&cache.file, text.as_bytes(), Mode::Private).unwrap();
            }
            "mode" => set_mode(&cache.file, 0o666),
            "link" => {
                fs::remove_file(&cache.file).unwrap();
                symlink(&elsewhere, &cache.file).unwrap();
            }
            _ => set_mode(&cache.folder, 0o777),
        }
        assert_eq!(cache.read(), None, "{damage}");
        cache.write(&known("two"));
        if damage == "folder" {
            // A user with write access could replace any file.
            assert_eq!(cache.read(), None);
            continue;
        }
        assert_eq!(cache.read(), Some(known("two")), "{damage}");
        let mode = fs::symlink_metadata(&cache.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{damage}");
        cache.write(&known("one"));
    }
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), good, "a link is not followed");
}

#[test]
fn it_stays_small() {
    let scene = Scene::new();
    for n in 0..MAX_FILES + 10 {
        scene.cache(&json!({"command": "cat", "args": [n.to_string()]})).write(&known("x"));
    }
    let count = fs::read_dir(scene.folder()).unwrap().count();
    assert_eq!(count, MAX_FILES);
    let cache = scene.cache(&json!({"command": "cat", "args": ["huge"]}));
    let tool = |n| ToolOffer {
        name: format!("t{n}"),
        description: "x".repeat(5000),
        schema: None,
        annotations: None,
    };
    let offer = Offer { tools: (0..500).map(tool).collect(), ..Offer::default() };
    cache.write(&Declarations { offer, instructions: None });
    assert_eq!(cache.read(), None);
    assert!(!cache.file.exists());
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let scene = Scene::new();
    let cache = scene.cache(&json!({"command": "cat"}));
    std::thread::scope(|scope| {
        for writer in ["one", "two"] {
            let cache = cache.clone();
            scope.spawn(move || (0..50).for_each(|n| cache.write(&known(&format!("{writer} {n}")))));
        }
        for _ in 0..200 {
            if cache.file.exists() {
                assert!(cache.read().is_some());
            }
        }
    });
    assert!([known("one 49"), known("two 49")].map(Some).contains(&cache.read()));
    assert_eq!(fs::read_dir(scene.folder()).unwrap().count(), 1);
}
