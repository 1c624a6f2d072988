use std::io::Write as _;
use std::time::Duration;

use pollux_exec::background::Background;

use super::*;

struct Scene {
    home: TempDir,
    background: Background,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let background = Background::new(home.path().join("logs"));
        Self { home, background }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn skill(&self, folder: &str, name: &str) {
        self.write(
            &format!("{folder}/SKILL.md"),
            &format!("---\nname: {name}\ndescription: Does {name}\n---\nBody"),
        );
    }

    async fn obtain(&self, source: &str, path: Option<&str>) -> (Result<Obtained, SkillError>, Vec<String>) {
        let git = Git {
            program: "git".into(),
            environment: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            background: &self.background,
            token: None,
            time_limit: Duration::from_secs(60),
        };
        let request =
            SkillRequest { source, cwd: self.home.path(), path, git: &git, limits: Limits::default() };
        let mut said = Vec::new();
        let result =
            obtain(&request, &mut |line| said.push(line.to_owned()), &CancellationToken::new()).await;
        (result, said)
    }

    fn install(&self, found: &Obtained) -> Result<(Vec<InstalledSkill>, Vec<String>), SkillError> {
        let mut said = Vec::new();
        let placed =
            install(found, &self.path("skills"), &Limits::default(), &mut |line| said.push(line.to_owned()))?;
        Ok((placed, said))
    }
}

#[tokio::test]
async fn skills_of_a_folder_are_installed_and_replaced() {
    let scene = Scene::new();
    scene.skill("source/one", "first");
    scene.write("source/one/scripts/run.sh", "x");
    let (found, said) = scene.obtain("source", None).await;
    let found = found.unwrap();
    assert_eq!(said, [format!("Searching for skills in {}...", scene.path("source").display())]);
    let text = consent(&found, "source", &scene.path("skills"), InstallMethod::Install);
    assert!(text.starts_with(
        "Installing agent skill(s) from \"source\".\n\nThe following agent skill(s) will be installing:\n\n  * first: Does first\n"
    ));
    assert!(text.contains("SKILL.md) (2 items in directory)\n\nInstall Destination: "), "{text}");
    let (placed, said) = scene.install(&found).unwrap();
    assert_eq!(placed, [InstalledSkill { name: "first".into(), location: scene.path("skills/first") }]);
    assert!(said.is_empty() && scene.path("skills/first/scripts/run.sh").exists());
    scene.write("skills/first/old", "x");
    let (_, said) = scene.install(&found).unwrap();
    assert_eq!(said, ["Skill \"first\" already exists. Overwriting..."]);
    assert!(!scene.path("skills/first/old").exists());
    assert_eq!(fs::read_dir(scene.path("skills")).unwrap().count(), 1);
}

#[tokio::test]
async fn when_no_skill_is_found_the_usual_folder_is_suggested() {
    let scene = Scene::new();
    scene.skill("repo/skills/one", "one");
    let (found, _) = scene.obtain("repo", None).await;
    let error = found.err().unwrap();
    assert_eq!(
        error.to_string(),
        "No valid skills found in repo. Ensure a SKILL.md file exists with valid frontmatter."
    );
    assert!(error.hint().unwrap().contains("--path skills"));
    assert_eq!(scene.obtain("repo", Some("skills")).await.0.unwrap().skills.len(), 1);
    let (found, _) = scene.obtain("repo", Some("none")).await;
    assert!(found.err().unwrap().to_string().contains("No valid skills found in repo at path \"none\"."));
    for path in ["../x", "/etc", "skills/../../x"] {
        let (found, _) = scene.obtain("repo", Some(path)).await;
        assert_eq!(
            found.err().unwrap().to_string(),
            "Invalid path: Directory traversal not allowed.",
            "{path}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_out_of_the_skill_stops_the_whole_installation() {
    let scene = Scene::new();
    scene.skill("source/one", "one");
    scene.skill("source/two", "two");
    std::os::unix::fs::symlink("/etc/passwd", scene.path("source/two/passwords")).unwrap();
    let found = scene.obtain("source", None).await.0.unwrap();
    let said = scene.install(&found).unwrap_err().to_string();
    assert!(said.contains("two/passwords") && said.contains("/etc/passwd"), "{said}");
    assert_eq!(fs::read_dir(scene.path("skills")).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn a_duplicate_name_in_a_source_is_an_error() {
    let scene = Scene::new();
    scene.skill("source/a", "same");
    scene.skill("source/b", "same");
    let said = scene.obtain("source", None).await.0.err().unwrap().to_string();
    assert!(said.starts_with("Duplicate skill name \"same\" found at multiple locations:\n  - "), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_skill_that_would_never_be_found_is_not_installed() {
    let scene = Scene::new();
    for (folder, name) in [("hidden", ".x"), ("packages", "node_modules")] {
        scene.skill(folder, name);
        let error = scene.obtain(folder, None).await.0.err().unwrap();
        assert!(error.to_string().starts_with(&format!("the skill \"{name}\" (`")), "{error}");
        assert_eq!(error.hint().as_deref(), Some("change `name` in its SKILL.md"));
        assert!(obtain_link(&scene.path(folder), &mut |_| {}).is_err());
    }
}

#[test]
fn a_linked_skill_is_removed_without_its_source() {
    let scene = Scene::new();
    scene.skill("source/one", "one");
    let found = obtain_link(&scene.path("source"), &mut |_| {}).unwrap();
    link(&found, &scene.path("skills"), &mut |_| {}).unwrap();
    assert!(scene.path("skills/one").symlink_metadata().unwrap().file_type().is_symlink());
    assert_eq!(uninstall("one", &scene.path("skills")).unwrap(), Some(scene.path("skills/one")));
    assert!(scene.path("source/one/SKILL.md").exists());
}

#[test]
fn only_what_is_installed_can_be_removed() {
    let scene = Scene::new();
    scene.skill("skills/folder", "name");
    scene.write("skills/broken/README.md", "x");
    scene.write("precious", "x");
    let target = scene.path("skills");
    for name in ["..", "../precious", "/", "", ".", "none"] {
        assert_eq!(uninstall(name, &target).unwrap(), None, "{name}");
    }
    assert_eq!(uninstall("name", &target).unwrap(), Some(target.join("folder")));
    assert_eq!(uninstall("broken", &target).unwrap(), Some(target.join("broken")));
    assert!(scene.path("precious").exists());
}
