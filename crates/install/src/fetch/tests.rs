use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use super::*;
use pollux_archive::Limits;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn environment(home: &Path) -> Vec<(String, String)> {
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    vec![
        ("PATH".to_owned(), path),
        ("HOME".to_owned(), home.to_string_lossy().into_owned()),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
        ("GIT_AUTHOR_NAME".to_owned(), "a".to_owned()),
        ("GIT_AUTHOR_EMAIL".to_owned(), "a@example.com".to_owned()),
        ("GIT_COMMITTER_NAME".to_owned(), "a".to_owned()),
        ("GIT_COMMITTER_EMAIL".to_owned(), "a@example.com".to_owned()),
    ]
}

struct Remote {
    home: tempfile::TempDir,
    background: Arc<Background>,
    limits: Limits,
}

impl Remote {
    /// A repository with two commits, a tag on the first, and a hook that would leave a trace.
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let background = Arc::new(Background::new(home.path().join("logs")));
        let remote = Self { home, background, limits: Limits::default() };
        write(&remote.folder().join("SKILL.md"), "first");
        for arguments in
            [&["init", "-q", "-b", "main"][..], &["add", "."], &["commit", "-qm", "first"], &["tag", "v1"]]
        {
            remote.git(arguments).await;
        }
        write(&remote.folder().join("SKILL.md"), "second");
        remote.git(&["commit", "-qam", "second"]).await;
        remote
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("remote")
    }

    fn url(&self) -> String {
        format!("file://{}", self.folder().display())
    }

    fn access(&self) -> Git<'_> {
        Git {
            program: "git".into(),
            environment: environment(self.home.path()),
            background: &self.background,
            token: None,
            time_limit: Duration::from_secs(60),
        }
    }

    async fn git(&self, arguments: &[&str]) -> String {
        let (git, cancel) = (self.access(), CancellationToken::new());
        let call = Call { git: &git, url: "", into: &self.folder(), cancel: &cancel };
        call.run(arguments).await.unwrap()
    }

    async fn clone(&self, reference: Option<&str>) -> Result<(PathBuf, String), CloneError> {
        let into = self.home.path().join(format!("clone-{}", reference.unwrap_or("none")));
        fs::create_dir(&into).unwrap();
        let commit =
            clone(&self.access(), &self.url(), reference, &into, &self.limits, &CancellationToken::new())
                .await?;
        Ok((into, commit))
    }
}

#[tokio::test]
async fn a_branch_a_tag_or_a_commit_is_fetched() {
    let remote = Remote::new().await;
    let first = remote.git(&["rev-parse", "v1"]).await;
    let second = remote.git(&["rev-parse", "main"]).await;
    remote.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]).await;
    for (reference, wanted, text) in [
        (None, &second, "second"),
        (Some("main"), &second, "second"),
        (Some("v1"), &first, "first"),
        (Some(first.as_str()), &first, "first"),
    ] {
        let (folder, commit) = remote.clone(reference).await.unwrap();
        assert_eq!(&commit, wanted, "{reference:?}");
        assert_eq!(fs::read_to_string(folder.join("SKILL.md")).unwrap(), text);
    }
    let told = remote_commit(&remote.access(), &remote.url(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!(told, second);
}

#[tokio::test]
async fn hooks_and_templates_of_the_user_do_not_run() {
    let remote = Remote::new().await;
    let (hooks, trace) = (remote.home.path().join("hooks"), remote.home.path().join("trace"));
    let hook = format!("#!/bin/sh\ntouch '{}'\n", trace.display());
    pollux_test_support::executable(hooks.join("post-checkout"), &hook);
    write(&remote.home.path().join(".gitconfig"), &format!("[core]\n\thooksPath = {}\n", hooks.display()));
    remote.clone(None).await.unwrap();
    assert!(!trace.exists());
}

#[tokio::test]
async fn a_failed_fetch_is_reported_with_its_reason() {
    let remote = Remote::new().await;
    let said = remote.clone(Some("nowhere")).await.unwrap_err().to_string();
    assert!(said.contains(&remote.url()) && said.contains("nowhere"), "{said}");
    for reference in ["--upload-pack=x", "a b", "a:b", "", "+x"] {
        assert!(matches!(checked(Some(reference)), Err(CloneError::BadReference(_))), "{reference}");
    }
    let (into, cancel) = (remote.home.path().join("ext"), CancellationToken::new());
    fs::create_dir(&into).unwrap();
    let said = clone(&remote.access(), "ext::sh -c x", None, &into, &remote.limits, &cancel)
        .await
        .unwrap_err()
        .to_string();
    assert!(said.contains("not allowed"), "{said}");
}

#[tokio::test]
async fn a_token_is_only_sent_to_github() {
    let remote = Remote::new().await;
    let mut git = remote.access();
    git.token = Some("secret".to_owned());
    git.environment.push(("GIT_CONFIG_COUNT".to_owned(), "2".to_owned()));
    let cancel = CancellationToken::new();
    let seen = |url: &str| Call { git: &git, url, into: Path::new("/"), cancel: &cancel }.environment();
    let ours = seen("https://github.com/o/r.git");
    assert!(ours.contains(&("GIT_CONFIG_COUNT".to_owned(), "3".to_owned())));
    assert!(
        ours.iter()
            .any(|(name, value)| name == "GIT_CONFIG_VALUE_2" && value.starts_with("Authorization: Basic "))
    );
    for url in ["https://example.com/o/r.git", "https://github.com.example.com/x"] {
        assert!(!seen(url).iter().any(|(_, value)| value.contains("Authorization")), "{url}");
    }
}

#[cfg(unix)]
#[test]
fn a_copy_keeps_inner_links_and_refuses_outer_ones() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().unwrap();
    let from = home.path().join("from");
    write(&from.join("SKILL.md"), "text");
    write(&from.join(".git/config"), "x");
    write(&from.join("scripts/run.sh"), "x");
    symlink("../SKILL.md", from.join("scripts/same.md")).unwrap();
    let to = home.path().join("to");
    assert_eq!(copy_folder(&from, &to, &Limits::default()).unwrap(), 4);
    assert_eq!(fs::read_to_string(to.join("scripts/same.md")).unwrap(), "text");
    assert!(!to.join(".git").exists());

    for (target, wanted) in [
        ("/etc/passwd", "points outside"),
        ("../../outside", "points outside"),
        ("nowhere", "points outside"),
    ] {
        let link = from.join("scripts/bad");
        symlink(target, &link).unwrap();
        let said =
            copy_folder(&from, &home.path().join("other"), &Limits::default()).unwrap_err().to_string();
        assert!(said.contains("scripts/bad") && said.contains(wanted), "{said}");
        assert!(!home.path().join("other").exists(), "nothing is written before all is looked at");
        fs::remove_file(&link).unwrap();
    }
    let said = copy_folder(&from, &home.path().join("few"), &Limits { entries: 2, ..Limits::default() });
    assert!(said.unwrap_err().to_string().contains("limit of 2"));
}

#[test]
fn a_single_top_level_folder_is_unwrapped() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("repo-1.0")).unwrap();
    assert_eq!(only_folder(home.path()), home.path().join("repo-1.0"));
    File::create(home.path().join("file")).unwrap();
    assert_eq!(only_folder(home.path()), home.path());
}

#[cfg(unix)]
mod hostile;
