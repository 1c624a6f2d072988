//! Settings files and `.env` files.

use std::fs;
use std::path::Path;

use pollux_config::dotenv::{DotenvOptions, load_dotenv};
use pollux_config::env::Env;
use pollux_config::paths::Home;
use pollux_config::settings::{
    self, ArgOverrides, LoadRequest, Migration, ProjectTrust, read_object, remove_path, set_path,
};
use serde_json::{Map, Value, json};

use crate::pieces::steering;
use crate::scratch;

/// Paths that a change is tried at: new and known keys, in groups that may not exist, with names that need care.
const PATHS: &[&[&str]] = &[
    &["ui", "theme"],
    &["theme"],
    &["a"],
    &["a", "b"],
    &["a", "b", "c"],
    &["mcpServers", "x.y", "command"],
    &["telemetry", "enabled"],
    &["general", "vimMode"],
    &["\"", "\\"],
];

/// A change of one key leaves all others as they were and the file readable; loading never panics.
pub(crate) fn settings(bytes: &[u8]) {
    let ([place, kind], text) = steering(bytes);
    let home = scratch::empty("home");
    let file = home.join("settings.json");
    scratch::write(&file, text);
    let path = PATHS[usize::from(place) % PATHS.len()];
    let value =
        [json!("new"), json!({"k": [1, {"l": null}]}), json!([]), json!(true)][usize::from(kind) % 4].clone();
    if let Ok(Some(before)) = read_object(&file) {
        if set_path(&file, path, &value).is_ok() {
            let after = read_object(&file).expect("readable after a change").expect("a file");
            assert_eq!(get(&after, path), Some(&value), "{path:?} after it was set");
            assert_eq!(without(&after, path), without(&before, path), "others after {path:?} was set");
            let set = fs::read(&file).unwrap();
            set_path(&file, path, &value).expect("again");
            assert_eq!(fs::read(&file).unwrap(), set, "setting the same value twice");
        } else {
            assert_eq!(fs::read(&file).unwrap(), text, "a refused change");
        }
        remove_path(&file, path).expect("a key can be removed");
        let after = read_object(&file).expect("readable after a removal").expect("a file");
        assert_eq!(get(&after, path), None, "{path:?} after it was removed");
        assert_eq!(without(&after, path), without(&before, path), "others after {path:?} was removed");
    }
    load(&home, text);
}

fn get<'a>(object: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(*first)?, |value, name| value.get(*name))
}

/// The object without a path, and without objects on the way to it that are then empty, and with the long form of
/// a switch.
fn without(object: &Map<String, Value>, path: &[&str]) -> Map<String, Value> {
    let mut object = object.clone();
    if let (["telemetry", _], Some(Value::Bool(enabled))) = (path, object.get("telemetry")) {
        let long = json!({"enabled": enabled});
        object.insert("telemetry".to_owned(), long);
    }
    if let Some((first, rest)) = path.split_first() {
        let below = match object.get(*first) {
            Some(Value::Object(inner)) if !rest.is_empty() => Some(without(inner, rest)),
            Some(_) if !rest.is_empty() => return object,
            _ => None,
        };
        match below.filter(|below| !below.is_empty()) {
            Some(below) => object.insert((*first).to_owned(), Value::Object(below)),
            None => object.shift_remove(*first),
        };
    }
    object
}

/// Loads the same text as the user's file and as the project's.
fn load(home: &Path, text: &[u8]) {
    let project = home.join("project");
    for folder in [home.join(".gemini"), project.join(".gemini")] {
        fs::create_dir_all(&folder).unwrap();
        scratch::write(&folder.join("settings.json"), text);
    }
    let env = Env::new([("HOME".to_owned(), "/nonexistent".to_owned())], project.clone());
    for trust in [ProjectTrust::Trusted, ProjectTrust::Untrusted] {
        let request = LoadRequest {
            env: &env,
            offered: &[],
            own_env: &env,
            home: &Home::at(home.to_owned()),
            project_root: &project,
            trust,
            args: ArgOverrides::default(),
            migration: Migration::Write,
        };
        // Old names are renamed in the file the first time; then there is nothing to do.
        if settings::load(&request).is_ok() {
            let again = settings::load(&request).expect("settings that were loaded are loaded again");
            assert!(again.migrated.is_empty(), "renamed twice: {:?}", again.migrated);
        }
    }
}

/// A file of an untrusted folder sets nothing; of a trusted one, nothing that is guarded.
pub(crate) fn dotenv(bytes: &[u8]) {
    let home = scratch::empty("home");
    let project = home.join("project");
    fs::create_dir(&project).unwrap();
    scratch::write(&project.join(".env"), bytes);
    let options = DotenvOptions::default();
    let load = |trust| {
        let mut env = Env::new([("KNOWN".to_owned(), "kept".to_owned())], project.clone());
        load_dotenv(&mut env, &Home::at(home.clone()), &project, trust, &options);
        let mut names: Vec<(String, String)> =
            env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        names.sort();
        names
    };
    assert_eq!(load(ProjectTrust::Untrusted), [("KNOWN".to_owned(), "kept".to_owned())]);
    let set = load(ProjectTrust::Trusted);
    assert_eq!(set, load(ProjectTrust::Trusted), "the same file twice");
    for (name, value) in set {
        assert!(name != "KNOWN" || value == "kept", "a variable that was set is kept");
        assert!(!name.is_empty() && !name.contains(['=', '\0', '\n']), "{name:?}");
        assert!(!pollux_config::dotenv::is_guarded(&name), "{name:?} is guarded");
    }
}
