//! Repositories and folders made to escape, with real git.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use pollux_test_support::executable;

use super::*;

impl Remote {
    /// Commits everything and returns why it could not be cloned.
    async fn refusal(&self) -> String {
        self.git(&["add", "-A"]).await;
        self.git(&["commit", "-qm", "more"]).await;
        let into = tempfile::tempdir_in(self.home.path()).unwrap();
        let cancel = CancellationToken::new();
        let cloned = clone(&self.access(), &self.url(), None, into.path(), &self.limits, &cancel).await;
        cloned.unwrap_err().to_string()
    }
}

#[tokio::test]
async fn links_in_a_repository_do_not_lead_out_of_it() {
    for (path, target) in [
        ("secret", "/etc/passwd"),
        ("secret", "../../.ssh/id_rsa"),
        ("gemini-extension.json", "../../../.bashrc"),
        (".gemini-extension-install.json", "../../../.bashrc"),
        ("dangling", "nowhere"),
        ("into", ".git/config"),
        ("sub/up", "../.."),
    ] {
        let remote = Remote::new().await;
        let link = remote.folder().join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        let said = remote.refusal().await;
        assert!(
            said.contains("is a link that points outside the folder or to a missing file"),
            "{path}: {said}"
        );
    }
    let remote = Remote::new().await;
    write(&remote.folder().join("sub/file"), "x");
    symlink("../SKILL.md", remote.folder().join("sub/same")).unwrap();
    remote.git(&["add", "-A"]).await;
    remote.git(&["commit", "-qm", "good"]).await;
    let (folder, _) = remote.clone(None).await.unwrap();
    assert_eq!(fs::read_to_string(folder.join("sub/same")).unwrap(), "second");
}

#[tokio::test]
async fn a_repository_is_held_to_the_limits_of_an_archive() {
    let mut remote = Remote::new().await;
    write(&remote.folder().join("large"), &"0".repeat(3 << 20));
    remote.limits.entry = 2 << 20;
    let said = remote.refusal().await;
    assert!(said.contains("its entry `large` is larger than 2 MiB"), "{said}");
    remote.limits = Limits { total: 4 << 20, ..Limits::default() };
    write(&remote.folder().join("second"), &"1".repeat(3 << 20));
    let said = remote.refusal().await;
    assert!(said.contains("`second` exceeds the total size limit of 4 MiB"), "{said}");
    remote.limits = Limits { entries: 3, ..Limits::default() };
    for name in ["a", "b", "c"] {
        write(&remote.folder().join(name), "x");
    }
    let said = remote.refusal().await;
    assert!(said.ends_with("it contains more than 3 files"), "{said}");
    // Random data does not compress, and the fetch itself is too large.
    let mut state = 1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let noise: Vec<u8> = (0..(3 << 17)).flat_map(|_| random()).collect();
    File::create(remote.folder().join("noise")).unwrap().write_all(&noise).unwrap();
    remote.limits = Limits { total: 1 << 20, ..Limits::default() };
    let said = remote.refusal().await;
    assert!(said.ends_with("it contains more than 1 MiB"), "{said}");
}

/// Ten trees, each of which contains the one before ten times: a few hundred bytes that represent 10^10 files.
#[tokio::test]
async fn a_git_bomb_is_not_checked_out() {
    let remote = Remote::new().await;
    let blob = remote.git(&["hash-object", "-w", "SKILL.md"]).await;
    let mut object = format!("100644 blob {blob}");
    for _ in 0..10 {
        let (git, cancel) = (remote.access(), CancellationToken::new());
        let lines: Vec<String> = (0..10).map(|n| format!("{object}\tn{n}\n")).collect();
        let program = Program {
            program: "git".into(),
            arguments: vec!["mktree".to_owned()],
            directory: remote.folder(),
            environment: git.environment.clone(),
            input: lines.concat().into_bytes(),
            time_limit: Some(git.time_limit),
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        };
        let made = run_with(&program, Excess::Dropped, git.background, &cancel).await.unwrap();
        object = format!("040000 tree {}", String::from_utf8(made.stdout).unwrap().trim());
    }
    let tree = object.rsplit(' ').next().unwrap().to_owned();
    let commit = remote.git(&["commit-tree", "-m", "bomb", &tree]).await;
    remote.git(&["update-ref", "refs/heads/bomb", &commit]).await;
    let said = remote.clone(Some("bomb")).await.unwrap_err().to_string();
    assert!(said.ends_with("it contains more than 10000 files"), "{said}");
}

#[tokio::test]
async fn nothing_that_a_repository_or_the_users_configuration_names_is_run() {
    let remote = Remote::new().await;
    let (home, trace) = (remote.home.path().to_owned(), remote.home.path().join("trace"));
    let tool = home.join("tool");
    executable(&tool, &format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\ncat\n", trace.display()));
    let tool = tool.display();
    // The repository requests filters of the user and contains a submodule and hooks.
    write(&remote.folder().join(".gitattributes"), "* filter=crypt diff=crypt merge=crypt\n");
    let submodule = format!("[submodule \"s\"]\n\tpath = s\n\turl = ext::sh -c {tool}\n\tupdate = !{tool}\n");
    write(&remote.folder().join(".gitmodules"), &submodule);
    executable(remote.folder().join("hooks/post-checkout"), &format!("#!/bin/sh\n{tool}\n"));
    remote.git(&["add", "-A"]).await;
    let head = remote.git(&["rev-parse", "HEAD"]).await;
    remote.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},s")]).await;
    remote.git(&["commit", "-qm", "traps"]).await;
    write(
        &home.join(".gitconfig"),
        &format!(
            "[filter \"crypt\"]\n\tsmudge = {tool} smudge\n\tprocess = {tool} process\n\trequired = true\n\
             [core]\n\tfsmonitor = {tool}\n\thooksPath = hooks\n\taskPass = {tool}\n\
             [submodule]\n\trecurse = true\n[protocol \"ext\"]\n\tallow = always\n[fetch]\n\trecurseSubmodules = true\n"
        ),
    );
    let into = home.join("clone");
    fs::create_dir(&into).unwrap();
    let mut git = remote.access();
    for (name, value) in [
        ("GIT_DIR", remote.folder().join(".git").display().to_string()),
        ("GIT_WORK_TREE", home.display().to_string()),
        ("GIT_INDEX_FILE", home.join("index").display().to_string()),
        ("GIT_TEMPLATE_DIR", remote.folder().display().to_string()),
        ("GIT_EXTERNAL_DIFF", tool.to_string()),
        ("GIT_ATTR_SOURCE", "HEAD".to_owned()),
        ("GIT_ALLOW_PROTOCOL", "ext".to_owned()),
        ("GIT_ASKPASS", tool.to_string()),
    ] {
        git.environment.push((name.to_owned(), value));
    }
    clone(&git, &remote.url(), None, &into, &remote.limits, &CancellationToken::new()).await.unwrap();
    assert_eq!(fs::read_to_string(&trace).unwrap_or_default(), "");
    assert_eq!(fs::read_to_string(into.join("SKILL.md")).unwrap(), "second");
    assert_eq!(fs::read_dir(into.join("s")).unwrap().count(), 0);
    assert!(!into.join(".git/hooks").exists());
    let config = fs::read_to_string(into.join(".git/config")).unwrap();
    assert!(!config.contains("tool") && !config.contains("ext::"), "{config}");
}

#[tokio::test]
async fn an_address_is_never_an_option() {
    let remote = Remote::new().await;
    let trace = remote.home.path().join("trace");
    let cancel = CancellationToken::new();
    for url in [
        format!("--upload-pack=touch {}", trace.display()),
        format!("-u touch {}", trace.display()),
        format!("ext::touch {}", trace.display()),
        format!("ssh://-oProxyCommand=touch {}/x", trace.display()),
        format!("fd::17/{}", trace.display()),
    ] {
        let into = tempfile::tempdir_in(remote.home.path()).unwrap();
        clone(&remote.access(), &url, None, into.path(), &remote.limits, &cancel).await.unwrap_err();
        remote_commit(&remote.access(), &url, None, &cancel).await.unwrap_err();
        assert!(!trace.exists(), "{url}");
    }
}

#[test]
fn a_folder_is_copied_without_special_modes_pipes_or_outside_files() {
    let home = tempfile::tempdir().unwrap();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    executable(from.join("run"), "x");
    fs::set_permissions(from.join("run"), fs::Permissions::from_mode(0o6755)).unwrap();
    fs::create_dir(from.join("closed")).unwrap();
    fs::set_permissions(from.join("closed"), fs::Permissions::from_mode(0o3555)).unwrap();
    copy_folder(&from, &to, &Limits::default()).unwrap();
    let mode = |path: &str| fs::metadata(to.join(path)).unwrap().permissions().mode();
    assert_eq!((mode("run") & 0o7100, mode("closed") & 0o7700), (0o100, 0o700));

    let unwanted =
        |from: &Path| copy_folder(from, &home.path().join("no"), &Limits::default()).unwrap_err().to_string();
    rustix::fs::mkfifoat(rustix::fs::CWD, from.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    assert!(unwanted(&from).contains("is not a regular file"));
    fs::remove_file(from.join("pipe")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    assert!(unwanted(&from).contains("is not a regular file"));
    drop(socket);
    fs::remove_file(from.join("socket")).unwrap();
    write(&from.join("a\nb"), "x");
    assert!(unwanted(&from).contains("control characters"));
    fs::remove_file(from.join("a\nb")).unwrap();
    // Two links that together lead outside, and one to a skipped file.
    write(&from.join(".git/config"), "x");
    symlink("closed/..", from.join("here")).unwrap();
    symlink("here/..", from.join("out")).unwrap();
    assert!(unwanted(&from).contains("points outside"));
    fs::remove_file(from.join("out")).unwrap();
    symlink(".git/config", from.join("config")).unwrap();
    assert!(unwanted(&from).contains("points outside"));
    fs::remove_file(from.join("config")).unwrap();
    let deep = from.join("d/".repeat(65));
    fs::create_dir_all(&deep).unwrap();
    assert!(unwanted(&from).contains("is nested deeper than 64 folders"));
    assert!(!home.path().join("no").exists());
}

/// An existing link in the target is an obstacle and is not followed.
#[test]
fn a_copy_does_not_follow_links_in_the_target() {
    let home = tempfile::tempdir().unwrap();
    let (from, to, outside) = (home.path().join("from"), home.path().join("to"), home.path().join("outside"));
    write(&from.join("sub/file"), "x");
    fs::create_dir(&to).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink("../outside", to.join("sub")).unwrap();
    copy_folder(&from, &to, &Limits::default()).unwrap_err();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
