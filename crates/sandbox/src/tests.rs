#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::path::Path;

use super::paths::SandboxPaths;
use super::*;

fn request(base: &Path) -> SandboxRequest {
    for folder in ["home/.ssh", "home/.cache/pip", "home/.cache/other", "w", "home/.gemini"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    SandboxRequest {
        roots: vec![base.join("w")],
        allowed: Vec::new(),
        homes: vec![base.join("home")],
        gemini_dir: base.join("home/.gemini"),
        temp: base.to_owned(),
        search_path: "/usr/bin:/bin".to_owned(),
        network: true,
        level: None,
        grants: crate::Grants::default(),
        container: None,
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(folder.path()).unwrap();
    (folder, base)
}

#[test]
fn the_workspace_and_caches_that_exist_can_be_written() {
    let (_folder, base) = scratch();
    let places = SandboxPaths::survey(&request(&base)).unwrap();
    assert_eq!(places.writable, [base.join("w"), base.join("home/.cache/pip")]);
    assert_eq!(places.private, [base.join("home/.cache")]);
    let access = |path: &str| places.access_to(&base.join(path)).0;
    assert_eq!(access("home/.cache/pip/x"), crate::PathAccess::Writable);
    assert_eq!(access("home/.cache/new/x"), crate::PathAccess::Writable, "its own copy");
    assert_eq!(access("home/.cache/other/x"), crate::PathAccess::ReadOnly);
    assert!(places.hidden.contains(&base.join("home/.ssh")));
    assert!(places.hidden.contains(&base.join("home/.gemini/oauth_creds.json")));
    assert!(places.protected.contains(&base.join("w/.gemini")));
    assert!(places.pinned.is_empty());
}

#[test]
fn a_link_is_hidden_at_its_target() {
    let (_folder, base) = scratch();
    let request = request(&base);
    fs::create_dir(base.join("vault")).unwrap();
    std::os::unix::fs::symlink(base.join("vault"), base.join("home/.aws")).unwrap();
    std::os::unix::fs::symlink(base.join("vault"), base.join("home/.config")).unwrap();
    std::os::unix::fs::symlink(base.join("gone"), base.join("home/.kube")).unwrap();
    let hidden = SandboxPaths::survey(&request).unwrap().hidden;
    assert!(hidden.contains(&base.join("vault")));
    assert!(hidden.contains(&base.join("vault/gh")) && !hidden.contains(&base.join("home/.config/gh")));
    assert!(hidden.contains(&base.join("home/.kube")));
}

#[test]
fn a_home_directory_or_its_parent_is_not_a_valid_workspace() {
    let (_folder, base) = scratch();
    for broad in [Path::new("/"), base.as_path(), &base.join("home")] {
        let request = SandboxRequest { roots: vec![broad.to_owned()], ..request(&base) };
        assert!(matches!(SandboxPaths::survey(&request), Err(RootError::TooBroad(_))), "{}", broad.display());
        let request = SandboxRequest { roots: Vec::new(), allowed: vec![broad.to_owned()], ..request };
        assert!(matches!(SandboxPaths::survey(&request), Err(RootError::TooBroad(_))), "{}", broad.display());
    }
    for secret in ["home/.ssh", "home/.gemini"] {
        let request = SandboxRequest { roots: vec![base.join(secret)], ..request(&base) };
        assert!(matches!(SandboxPaths::survey(&request), Err(RootError::Secret(_))), "{secret}");
    }
}

#[test]
fn of_a_folder_with_several_workspaces_only_the_own_one_is_seen() {
    let (_folder, base) = scratch();
    for shared in ["all", "home/.gemini/tmp/all"] {
        let shared = base.join(shared);
        for workspace in ["anna/1", "anna/2", "ben/1"] {
            fs::create_dir_all(shared.join(workspace)).unwrap();
        }
        let grants = Grants { hidden: vec![shared.clone(), base.join("tokens")], ..Grants::default() };
        let own = vec![shared.join("anna/1")];
        let request = SandboxRequest { roots: own, temp: base.join("w"), grants, ..request(&base) };
        let places = SandboxPaths::survey(&request).unwrap();
        let access = |path: &str| places.access_to(&shared.join(path)).0;
        assert_eq!(access("anna/1/file"), PathAccess::Writable);
        for other in ["anna/2/file", "ben/1/file", ".used/1"] {
            assert_eq!(access(other), PathAccess::Hidden, "{other}");
        }
        assert_eq!(places.access_to(&base.join("tokens")).0, PathAccess::Hidden);
        let whole = SandboxRequest { roots: vec![base.join("home/.gemini/tmp")], ..request };
        assert!(matches!(SandboxPaths::survey(&whole), Err(RootError::Secret(_))));
    }
}

#[test]
fn allowed_paths_are_no_longer_hidden() {
    let (_folder, base) = scratch();
    let request = SandboxRequest { allowed: vec![base.join("home/.ssh")], ..request(&base) };
    let places = SandboxPaths::survey(&request).unwrap();
    assert!(!places.hidden.contains(&base.join("home/.ssh")));
    assert!(places.writable.contains(&base.join("home/.ssh")));
}

#[test]
fn the_repository_around_the_workspace_can_be_written_but_not_its_hooks() {
    let (_folder, base) = scratch();
    let mut request = request(&base);
    let repository = base.join("repo/.git");
    fs::create_dir_all(&repository).unwrap();
    fs::create_dir_all(base.join("repo/part")).unwrap();
    request.roots = vec![base.join("repo/part")];
    assert!(
        !SandboxPaths::survey(&request).unwrap().writable.contains(&repository),
        "an empty folder is no repository"
    );
    fs::write(repository.join("HEAD"), "ref: refs/heads/main").unwrap();
    let places = SandboxPaths::survey(&request).unwrap();
    assert!(places.writable.contains(&repository) && places.pinned == [repository.clone()]);
    assert!(places.protected.contains(&repository.join("hooks")));
    assert!(places.protected.contains(&repository.join("config")));
}

#[test]
fn a_work_tree_gets_its_repository_only_if_the_repository_links_back() {
    let (_folder, base) = scratch();
    let request = request(&base);
    let (repository, tree) = (base.join("main/.git"), base.join("main/.git/worktrees/w"));
    fs::create_dir_all(&tree).unwrap();
    fs::write(repository.join("HEAD"), "").unwrap();
    fs::write(tree.join("commondir"), "../..\n").unwrap();
    fs::write(base.join("w/.git"), format!("gitdir: {}\n", tree.display())).unwrap();
    assert!(!SandboxPaths::survey(&request).unwrap().writable.contains(&repository));
    fs::write(tree.join("gitdir"), format!("{}\n", base.join("w/.git").display())).unwrap();
    let places = SandboxPaths::survey(&request).unwrap();
    assert!(places.writable.contains(&repository), "{places:?}");
    assert!(places.protected.contains(&base.join("w/.git")));
}

#[test]
fn an_unavailable_level_is_reported_with_its_reason() {
    let (_folder, base) = scratch();
    let request =
        SandboxRequest { level: Some(Level::Bubblewrap), search_path: String::new(), ..request(&base) };
    let error = Sandbox::open(&request).unwrap_err().to_string();
    if cfg!(target_os = "linux") {
        assert_eq!(error, "no sandbox works on this machine: bubblewrap: `bwrap` not found in `PATH`");
    }
}

#[test]
fn levels_have_the_names_that_settings_use() {
    for level in Level::ALL {
        assert_eq!(Level::named(level.as_str()), Some(level));
    }
    assert_eq!(Level::named("Bubblewrap"), Some(Level::Bubblewrap));
    let container = |engine| Some(Level::Container(engine));
    assert_eq!(Level::named("docker"), container(crate::container::Engine::Docker));
    assert_eq!(Level::named("Podman"), container(crate::container::Engine::Podman));
    assert_eq!(Level::named("lxc"), None);
}
