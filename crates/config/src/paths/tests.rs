use super::*;
use crate::scratch::Scratch;

fn locate(vars: &[(&str, &str)]) -> Result<Home, HomeError> {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Home::locate(&Env::new(vars, "/cwd".into()))
}

fn located(vars: &[(&str, &str)]) -> Home {
    locate(vars).unwrap()
}

#[test]
fn the_home_is_found_from_the_environment() {
    for (vars, user_home, gemini_dir) in [
        (&[("HOME", "/h")][..], "/h", "/h/.gemini"),
        (&[("HOME", "/h"), ("GEMINI_CLI_HOME", "")], "/h", "/h/.gemini"),
        (&[("HOME", "/h"), ("GEMINI_CLI_HOME", "/nowhere/x")], "/nowhere/x", "/nowhere/x/.gemini"),
        (&[("GEMINI_CLI_HOME", "sub/")], "/cwd/sub", "/cwd/sub/.gemini"),
        (&[("USERPROFILE", "/u")], "/u", "/u/.gemini"),
        (&[("HOME", "relative"), ("GEMINI_CLI_HOME", "/x")], "/x", "/x/.gemini"),
    ] {
        let home = located(vars);
        assert_eq!(
            (home.user_home(), home.gemini_dir()),
            (Path::new(user_home), Path::new(gemini_dir)),
            "{vars:?}"
        );
    }
}

#[test]
fn a_shared_folder_is_never_the_home() {
    for vars in [
        &[][..],
        &[("TMPDIR", "/var/t")],
        &[("HOME", ""), ("USERPROFILE", "")],
        &[("HOME", "relative")],
        &[("HOME", "."), ("GEMINI_CLI_HOME", "")],
        &[("HOME", "~")],
    ] {
        assert_eq!(locate(vars), Err(HomeError::NotFound), "{vars:?}");
    }
}

#[test]
fn each_kind_of_state_marks_a_folder_as_the_folder_itself() {
    let project = format!("projects/{}/chats/x", sha256_hex(b"/srv/app"));
    for (file, is_state) in [
        ("memory.md", true),
        ("GEMINI.md", true),
        ("policies/x", true),
        ("skills/x/SKILL.md", true),
        ("agents/x", true),
        ("commands/x", true),
        ("tmp/x", true),
        (project.as_str(), true),
        ("projects/mine/x", false),
        ("notes.md", false),
    ] {
        let scratch = Scratch::new();
        let given = scratch.path("x");
        scratch.write(&format!("x/{file}"), "");
        let home = located(&[("HOME", "/h"), ("GEMINI_CLI_HOME", given.to_str().unwrap())]);
        assert_eq!(home.gemini_dir() == given, is_state, "{file}");
    }
}

#[test]
fn gemini_cli_home_may_be_the_home_or_the_folder_itself() {
    let scratch = Scratch::new();
    let given = scratch.path("x");
    let locate = || located(&[("HOME", "/h"), ("GEMINI_CLI_HOME", given.to_str().unwrap())]);
    std::fs::create_dir(&given).unwrap();
    assert_eq!(locate().gemini_dir(), given.join(".gemini"), "empty");
    scratch.write("x/notes.txt", "");
    assert_eq!(locate().gemini_dir(), given.join(".gemini"), "other content");
    scratch.write("x/settings.json", "{}");
    assert_eq!(locate().gemini_dir(), given, "known state");
    assert_eq!(locate().user_home(), Path::new("/h"), "the person's home is still theirs");
    std::fs::create_dir(given.join(".gemini")).unwrap();
    assert_eq!(locate().gemini_dir(), given.join(".gemini"), "a .gemini folder always wins");
    assert_eq!(locate().user_home(), given);
}

#[test]
fn system_files_follow_their_overrides() {
    let at = |vars: &[(&str, &str)]| {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let files = SystemFiles::locate(&Env::new(vars, "/cwd".into()));
        (files.settings.to_string_lossy().into_owned(), files.defaults.to_string_lossy().into_owned())
    };
    let pair = |settings: &str, defaults: &str| (settings.to_owned(), defaults.to_owned());
    if cfg!(target_os = "linux") {
        assert_eq!(at(&[]), pair("/etc/gemini-cli/settings.json", "/etc/gemini-cli/system-defaults.json"));
    }
    assert_eq!(
        at(&[(name::SYSTEM_SETTINGS_PATH, "/a/s.json")]),
        pair("/a/s.json", "/a/system-defaults.json")
    );
    assert_eq!(
        at(&[(name::SYSTEM_SETTINGS_PATH, "/a/s.json"), (name::SYSTEM_DEFAULTS_PATH, "d.json")]),
        pair("/a/s.json", "/cwd/d.json")
    );
}

#[test]
fn a_project_is_known_by_the_hash_of_its_path() {
    let home = Home::at("/h".into());
    let project = Project::locate(&home, Path::new("/srv/app/"));
    assert_eq!(project.hash(), sha256_hex(b"/srv/app"));
    assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(project.temp_dir(), home.tmp_dir().join(project.hash()));
    assert_eq!(
        project.read_chat_dirs(),
        [project.chats_dir(), home.gemini_dir().join("projects").join(project.hash()).join("chats")]
    );
}

#[test]
fn a_registered_short_name_is_written_to_and_the_hash_is_still_read() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let register = |text: &str| {
        scratch.write("home/.gemini/projects.json", text);
        Project::locate(&home, Path::new("/srv/app"))
    };
    let project = register(r#"{"projects": {"/srv/app": "app-1", "/other": "BAD"}}"#);
    let by_hash = home.tmp_dir().join(project.hash());
    assert_eq!(project.temp_dir(), home.tmp_dir().join("app-1"));
    assert_eq!(
        project.read_chat_dirs(),
        [
            home.tmp_dir().join("app-1/chats"),
            by_hash.join("chats"),
            home.gemini_dir().join("projects").join(project.hash()).join("chats"),
        ]
    );
    for unusable in [
        "not json",
        "[]",
        "{}",
        r#"{"projects": {"/srv/app": "../up"}}"#,
        r#"{"projects": {"/srv/app": ""}}"#,
    ] {
        assert_eq!(register(unusable).temp_dir(), by_hash, "{unusable}");
    }
    scratch.write("home/.gemini/tmp/app-1/.project_root", "/somebody/else");
    assert_eq!(register(r#"{"projects": {"/srv/app": "app-1"}}"#).temp_dir(), by_hash, "a foreign marker");
    scratch.write("home/.gemini/tmp/app-1/.project_root", "/srv/app");
    assert_ne!(register(r#"{"projects": {"/srv/app": "app-1"}}"#).temp_dir(), by_hash);
    assert_eq!(scratch.names("home/.gemini"), ["projects.json", "tmp"], "nothing is created");
}

#[test]
fn folders_marked_with_the_project_are_found_while_the_register_is_lost() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let hash = sha256_hex(b"/srv/app");
    scratch.write("home/.gemini/tmp/app/.project_root", "/srv/app\n");
    scratch.write("home/.gemini/history/app/.project_root", "/srv/app");
    scratch.write("home/.gemini/history/older/.project_root", "/srv/app");
    scratch.write("home/.gemini/tmp/other/.project_root", "/srv/other");
    scratch.write("home/.gemini/history/other/.project_root", "/srv/app");
    scratch.write(&format!("home/.gemini/tmp/{hash}/.project_root"), "/srv/app");
    let names = |register: Option<&str>| {
        match register {
            Some(text) => drop(scratch.write("home/.gemini/projects.json", text)),
            None => drop(std::fs::remove_file(home.projects_file())),
        }
        let project = Project::locate(&home, Path::new("/srv/app"));
        assert_eq!(project.temp_dir(), project.state_dirs()[0]);
        let name = |dir: &PathBuf| dir.file_name().unwrap().to_string_lossy().into_owned();
        project.state_dirs().iter().map(name).collect::<Vec<_>>()
    };
    let hash = hash.as_str();
    for lost in [None, Some(""), Some("{\"projects\":{"), Some("{\"projects\":{}}")] {
        assert_eq!(names(lost), ["app", "older", hash, hash], "{lost:?}");
    }
    assert_eq!(names(Some(r#"{"projects":{"/srv/app":"app-1"}}"#)), ["app-1", hash, hash]);
}
