#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A port on which no editor listens.
const STRANGER: u16 = 6_666;

/// A temp folder with companions' files, and a workspace.
struct Scene {
    dir: TempDir,
    vars: Vec<(String, String)>,
    uid: u32,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("gemini/ide")).unwrap();
        fs::create_dir_all(dir.path().join("work/inner")).unwrap();
        fs::create_dir_all(dir.path().join("workshop")).unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        let vars = vec![("TMPDIR".to_owned(), dir.path().display().to_string())];
        Self { dir, vars, uid }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.vars.push((name.to_owned(), value.into()));
    }

    fn write(&self, name: &str, content: &Value) -> PathBuf {
        let file = self.dir.path().join("gemini/ide").join(name);
        fs::write(&file, content.to_string()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    fn companion(&self, port: u16, workspace: &str) -> PathBuf {
        let content = json!({"port": port, "workspacePath": workspace, "authToken": "t",
                             "ideInfo": {"name": "vscode", "displayName": "VS Code"}});
        self.write(&format!("gemini-ide-server-{}-{port}.json", std::process::id()), &content)
    }

    fn around(&self) -> Surroundings {
        let folder = fs::canonicalize(self.dir.path().join("work/inner")).unwrap();
        let env = Env::new(self.vars.clone(), folder.clone());
        Surroundings { env, folder, uid: self.uid, vouches: |port| port != STRANGER }
    }

    fn discover(&self) -> Result<FoundCompanion, Unreachable> {
        discover(&self.around(), None)
    }

    fn ports(&self) -> Vec<u16> {
        let ways = self.discover().map(|found| found.ways).unwrap_or_default();
        let port = |way: Way| match way {
            Way::Port { port, .. } => Some(port),
            Way::Program { .. } => None,
        };
        ways.into_iter().filter_map(port).collect()
    }
}

#[test]
fn a_companion_is_found_by_its_file() {
    let scene = Scene::new();
    assert_eq!(scene.discover(), Err(Unreachable::NoCompanion));
    scene.companion(4001, &scene.path("work"));
    let found = scene.discover().unwrap();
    assert_eq!(found.editor.name, "VS Code");
    assert_eq!(found.ways, [Way::Port { port: 4001, token: Some(Secret::new("t")) }]);
}

#[test]
fn the_workspace_must_hold_the_folder_by_component() {
    let scene = Scene::new();
    scene.companion(4001, &scene.path("wor"));
    let Err(Unreachable::OtherFolder { folders }) = scene.discover() else { panic!() };
    assert_eq!(folders, [scene.path("wor")]);
    let file = scene.companion(4001, "");
    assert_eq!(scene.discover(), Err(Unreachable::NoFolder));
    fs::remove_file(file).unwrap();
    let several = format!("{}:{}", scene.path("workshop"), scene.path("work"));
    scene.companion(4002, &several);
    assert_eq!(scene.ports(), [4002]);
}

#[test]
fn forged_files_are_ignored() {
    let scene = Scene::new();
    let file = scene.companion(4001, &scene.path("work"));
    assert_eq!(scene.ports(), [4001]);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(scene.ports(), Vec::<u16>::new(), "others can read it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();

    let other = Scene { uid: scene.uid + 1, ..scene };
    assert_eq!(other.ports(), Vec::<u16>::new(), "it belongs to another user");
    let scene = Scene { uid: other.uid - 1, ..other };

    let elsewhere = scene.dir.path().join("elsewhere.json");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(scene.ports(), Vec::<u16>::new(), "it is a link");
    fs::remove_file(&file).unwrap();

    let content = json!({"port": 4001, "workspacePath": scene.path("work")});
    scene.write("gemini-ide-server-4194304999-4001.json", &content);
    scene.write("gemini-ide-server-x-4001.json", &content);
    scene.write("gemini-ide-server-1-70000.json", &content);
    assert_eq!(scene.ports(), Vec::<u16>::new(), "its process is gone");
    let pid = std::process::id();
    scene.write(
        &format!("gemini-ide-server-{pid}-1.json"),
        &json!({"port": 0, "workspacePath": scene.path("work")}),
    );
    scene.write(
        &format!("gemini-ide-server-{pid}-2.json"),
        &json!({"port": 99999, "workspacePath": scene.path("work")}),
    );
    scene.write(&format!("gemini-ide-server-{pid}-3.json"), &json!("nonsense"));
    assert_eq!(scene.ports(), Vec::<u16>::new(), "the port is none");
}

#[test]
fn variables_break_ties_and_are_the_last_resort() {
    let mut scene = Scene::new();
    scene.companion(4001, &scene.path("work"));
    scene.companion(4002, &scene.path("work"));
    scene.set(PORT, "4002");
    assert_eq!(scene.ports(), [4002]);

    let mut scene = Scene::new();
    scene.set(PORT, "4003");
    assert_eq!(scene.ports(), Vec::<u16>::new(), "the workspace is not known");
    scene.set(WORKSPACE, scene.path("work"));
    scene.set(TOKEN, "secret");
    scene.set(COMMAND, "companion");
    scene.set(ARGUMENTS, r#"["--stdio"]"#);
    scene.set("TERM_PROGRAM", "vscode");
    let found = scene.discover().unwrap();
    let program = Way::Program { command: "companion".to_owned(), arguments: vec!["--stdio".to_owned()] };
    assert_eq!(found.ways, [Way::Port { port: 4003, token: Some(Secret::new("secret")) }, program]);
    assert_eq!(found.editor.name, "VS Code");
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn the_old_form_counts_for_the_named_process_only() {
    let mut scene = Scene::new();
    let pid = std::process::id();
    let content = json!({"port": "4004", "workspacePath": scene.path("work")});
    scene.write(&format!("gemini-ide-server-{pid}.json"), &content);
    assert_eq!(scene.ports(), Vec::<u16>::new());
    scene.set(PID, pid.to_string());
    assert_eq!(scene.ports(), [4004]);
}

#[test]
fn strangers_are_no_companions() {
    let scene = Scene::new();
    scene.companion(STRANGER, &scene.path("work"));
    assert_eq!(scene.ports(), [0_u16; 0]);
    scene.companion(7_777, &scene.path("work"));
    assert_eq!(scene.ports(), [7_777]);
    // Others could put files there.
    for folder in ["gemini/ide", "gemini"] {
        fs::set_permissions(scene.dir.path().join(folder), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(scene.ports(), [0_u16; 0], "{folder}");
        fs::set_permissions(scene.dir.path().join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(scene.ports(), [7_777]);
}

#[test]
fn a_person_can_choose_among_the_editors_that_have_the_folder_open() {
    let scene = Scene::new();
    assert!(choices(&scene.around()).is_empty());
    scene.companion(4_001, &scene.path("work"));
    scene.companion(4_002, &scene.path("work"));
    scene.companion(4_003, &scene.path("workshop"));
    scene.companion(STRANGER, &scene.path("work"));
    let mut ports: Vec<u16> = choices(&scene.around()).iter().map(|editor| editor.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [4_001, 4_002], "neither another folder nor a program that is no editor");
    for port in [4_001, 4_002] {
        let found = discover(&scene.around(), Some(port)).unwrap();
        assert!(matches!(found.ways.as_slice(), [Way::Port { port: way, .. }] if *way == port));
    }
    // One that is gone, or was never offered, is not used.
    for port in [4_003, STRANGER, 4_009] {
        let found = discover(&scene.around(), Some(port)).unwrap();
        assert!(!matches!(found.ways.first(), Some(Way::Port { port: way, .. }) if *way == port));
    }
}
