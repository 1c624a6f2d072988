//! Repositories below the workspace, repositories that git contacts, and settings of git with credentials.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use pollux_domain::approval::ApprovalMode;
use pollux_policy::engine::{Engine, Options};
use pollux_policy::request::Decision;

use crate::everyday::{LIST, decide_in, shipped_in, with_rules_in, write};
use crate::reads::{Hostile, REMOTE, hostile};

const CALM: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = https://h/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

/// The name of a folder, and what makes its entry `.git`.
type Entry<'e> = (&'e str, &'e dyn Fn(&Path));

fn repository(git: &Path, config: &str) {
    write(&git.join("HEAD"), "ref: refs/heads/main\n");
    write(&git.join("config"), config);
    write(&git.join("objects/info/x"), "");
    write(&git.join("refs/heads/main"), "");
}

/// A project with a repository of its own.
fn project() -> Hostile {
    let place = hostile();
    repository(&place.project.join(".git"), CALM);
    place
}

fn decision(engine: &Engine, place: &Hostile, command: &str) -> (Decision, String) {
    let verdict = decide_in(engine, &place.project, command, ApprovalMode::Default, true);
    (verdict.decision, verdict.reason)
}

fn assert_decides(engine: &Engine, place: &Hostile, expected: Decision, commands: &[&str]) {
    for command in commands {
        let (found, why) = decision(engine, place, command);
        assert_eq!(found, expected, "{command}: {why}");
    }
}

#[test]
fn a_bare_repository_is_recognised_behind_a_git_entry_that_git_passes_over() {
    let place = project();
    let engine = shipped_in(place.options());
    let entries: [Entry<'_>; 6] = [
        ("link", &|git| symlink("absent", git).unwrap()),
        ("pipe", &|git| assert!(Command::new("mkfifo").arg(git).status().unwrap().success())),
        ("text", &|git| write(git, "x\n")),
        ("astray", &|git| write(git, "gitdir: absent\n")),
        ("blank", &|git| {
            repository(git, CALM);
            write(&git.join("HEAD"), " ref: refs/heads/main\n");
        }),
        ("linked", &|git| {
            repository(git, CALM);
            fs::rename(git.join("HEAD"), git.join("head")).unwrap();
            symlink("head", git.join("HEAD")).unwrap();
        }),
    ];
    for (name, make) in entries {
        let folder = place.project.join("vendor").join(name);
        repository(&folder, "[core]\n\tfsmonitor = t1\n");
        make(&folder.join(".git"));
        let command = format!("git -C vendor/{name} status");
        assert_decides(
            &engine,
            &place,
            Decision::Ask,
            &[&command, &format!("cd vendor/{name} && git status")],
        );
    }
}

#[test]
fn a_repository_below_the_workspace_must_not_start_programs() {
    for (config, expected) in [
        (CALM, Decision::Allow),
        ("[core]\n\tworktree = ../x\n\tfsmonitor = false\n", Decision::Allow),
        ("[core]\n\tfsmonitor = t1\n", Decision::Ask),
        ("[core]\n\thooksPath = hooks\n", Decision::Ask),
        ("[filter \"x\"]\n\tclean = t1\n", Decision::Ask),
        ("[include]\n\tpath = x\n", Decision::Ask),
        ("[core\n", Decision::Ask),
    ] {
        let place = project();
        let engine = shipped_in(place.options());
        repository(&place.project.join("sub/.git"), config);
        for command in ["git -C sub status", "cd sub && git status", "git -C sub/.git log"] {
            let (found, why) = decision(&engine, &place, command);
            assert_eq!(found, expected, "{command} with {config}: {why}");
        }
        assert_decides(&engine, &place, Decision::Allow, &["git status", "git -C src status"]);
    }
}

#[test]
fn hooks_of_a_repository_below_the_workspace_need_approval() {
    let place = project();
    let engine = shipped_in(place.options());
    repository(&place.project.join("sub/.git"), CALM);
    write(&place.project.join("sub/.git/hooks/pre-commit.sample"), "");
    write(&place.project.join(".git/hooks/pre-commit"), "");
    assert_decides(&engine, &place, Decision::Allow, &["git -C sub status", "git status"]);
    write(&place.project.join("sub/.git/hooks/post-index-change"), "");
    assert_decides(&engine, &place, Decision::Ask, &["git -C sub status"]);
}

#[test]
fn submodules_and_working_trees_of_the_repository_at_the_top_need_no_approval() {
    let place = project();
    let engine = shipped_in(place.options());
    let git = place.project.join(".git");
    write(&git.join("config"), &format!("{CALM}[core]\n\tfsmonitor = t1\n"));
    repository(&git.join("modules/lib"), "[core]\n\tworktree = ../../../lib\n");
    write(&place.project.join("lib/.git"), "gitdir: ../.git/modules/lib\n");
    write(&git.join("worktrees/tree/HEAD"), "ref: refs/heads/main\n");
    write(&git.join("worktrees/tree/commondir"), "../..\n");
    write(&place.project.join("tree/.git"), "gitdir: ../.git/worktrees/tree\n");
    assert_decides(&engine, &place, Decision::Allow, &["git -C lib status", "git -C tree status"]);
    write(&git.join("modules/lib/config"), "[core]\n\tfsmonitor = t1\n");
    assert_decides(&engine, &place, Decision::Ask, &["git -C lib status"]);
}

#[test]
fn a_remote_that_is_a_bare_repository_in_the_workspace_needs_approval() {
    let place = project();
    repository(&place.project.join("vendor/bare"), CALM);
    repository(&place.project.join("vendor/named.git"), CALM);
    let engine = with_rules_in(LIST, place.options());
    let own = ["git push origin HEAD", "git fetch", "git push . HEAD:x", "git remote add up https://h/y.git"];
    assert_decides(&engine, &place, Decision::Allow, &own);
    assert_decides(
        &engine,
        &place,
        Decision::Ask,
        &["git push vendor/bare HEAD", "git push vendor/named HEAD"],
    );
    let config = place.project.join(".git/config");
    for set in [
        "[remote \"v\"]\n\turl = vendor/bare\n",
        "[remote \"v\"]\n\tpushurl = vendor/bare\n",
        "[branch \"main\"]\n\tremote = ./vendor/bare\n",
        "[url \"vendor/bare\"]\n\tinsteadOf = v:\n",
    ] {
        write(&config, &format!("{CALM}{set}"));
        assert_decides(
            &engine,
            &place,
            Decision::Ask,
            &["git push v HEAD", "git fetch", "cd src && git pull"],
        );
        assert_decides(&engine, &place, Decision::Allow, &["git commit -m x", "git status"]);
    }
}

#[test]
fn urls_of_remotes_are_judged_by_the_settings_of_the_repository_that_git_uses() {
    let place = project();
    let engine = shipped_in(place.options());
    let urls = ["git remote -v", "git remote get-url origin", "git config --get remote.origin.url"];
    assert_decides(&engine, &place, Decision::Allow, &urls);
    let git = place.project.join(".git");
    repository(&git.join("modules/lib"), REMOTE);
    write(&place.project.join("lib/.git"), "gitdir: ../.git/modules/lib\n");
    assert_decides(&engine, &place, Decision::Ask, &["git -C lib remote -v", "cd lib && git remote -v"]);
    assert_decides(&engine, &place, Decision::Allow, &["git -C src remote -v"]);
    assert_decides(&engine, &place, Decision::Ask, &["find . -name config | xargs cat", "grep -r url .git"]);
    write(&git.join("config.worktree"), REMOTE);
    assert_decides(&engine, &place, Decision::Ask, &urls);
    fs::remove_file(git.join("config.worktree")).unwrap();
    write(&git.join("config"), &format!("{CALM}[include]\n\tpath = ../x\n"));
    assert_decides(&engine, &place, Decision::Ask, &urls);
}

#[test]
fn the_users_settings_may_put_credentials_into_urls() {
    for (own, more, expected) in [
        ("[user]\n\tname = x\n[http]\n\tproxy = http://u:p@h\n", "", Decision::Allow),
        ("[url \"git@github.com:\"]\n\tinsteadOf = https://github.com/\n", "", Decision::Allow),
        ("[url \"https://token@h/\"]\n\tinsteadOf = https://h/\n", "", Decision::Ask),
        ("[include]\n\tpath = ~/more\n", "[user]\n\tname = x\n", Decision::Allow),
        (
            "[includeIf \"gitdir:~/w/\"]\n\tpath = more\n",
            "[url \"https://t@h/\"]\ninsteadOf = x\n",
            Decision::Ask,
        ),
    ] {
        let place = project();
        write(&place.home.join(".gitconfig"), own);
        write(&place.home.join("more"), more);
        let git_settings = vec![place.home.join(".gitconfig")];
        let options = Options { home: Some(place.home.clone()), git_settings, ..place.options() };
        let engine = shipped_in(options);
        let (found, why) = decision(&engine, &place, "git remote -v");
        assert_eq!(found, expected, "{own}: {why}");
        assert_decides(&engine, &place, Decision::Ask, &["git config --get http.proxy"]);
        assert_decides(&engine, &place, Decision::Allow, &["git status", "git log -1"]);
    }
}

#[test]
fn links_to_settings_are_followed() {
    let place = project();
    crate::reads::remove_odd_names(&place.project);
    let engine = shipped_in(place.options());
    let git = place.project.join(".git");
    assert_decides(&engine, &place, Decision::Allow, &["find . -name config | xargs cat", "cat .git/conf*"]);
    fs::create_dir(place.project.join("foo.git")).unwrap();
    symlink(place.home.join(".ssh/id_rsa"), place.project.join("foo.git/config")).unwrap();
    assert_decides(&engine, &place, Decision::Ask, &["cat foo.git/c*", "cat */config"]);
    fs::remove_dir_all(place.project.join("foo.git")).unwrap();
    fs::remove_file(git.join("config")).unwrap();
    symlink(place.home.join(".ssh/id_rsa"), git.join("config")).unwrap();
    assert_decides(&engine, &place, Decision::Ask, &["find . -name config | xargs cat", "cat .git/conf*"]);
}

#[test]
fn submodules_are_fetched_without_approval_only_from_other_machines() {
    for (modules, expected) in [
        ("[submodule \"x\"]\n\tpath = x\n\turl = https://h/x.git\n", Decision::Allow),
        ("[submodule \"x\"]\n\turl = git@h:x.git\n\tbranch = main\n\tupdate = rebase\n", Decision::Allow),
        ("[submodule \"x\"]\n\turl = ../x.git\n", Decision::Allow),
        ("[submodule \"x\"]\n\turl = ext::t1\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = ../::t1\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = file:///home/me/x\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = /home/me/x\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = vendor/bare\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = -u./t1\n", Decision::Ask),
        ("[submodule \"x\"]\n\turl = https://h/x\n\tupdate = !t1\n", Decision::Ask),
        ("[submodule \"x\"\n", Decision::Ask),
    ] {
        let place = project();
        let engine = with_rules_in(LIST, place.options());
        write(&place.project.join(".gitmodules"), modules);
        for command in [
            "git submodule update --init",
            "git submodule --quiet sync",
            "cd src && git submodule update",
            "git pull --recurse-submodules",
        ] {
            let (found, why) = decision(&engine, &place, command);
            assert_eq!(found, expected, "{command} with {modules}: {why}");
        }
        assert_decides(&engine, &place, Decision::Allow, &["git submodule status", "git pull", "git status"]);
    }
    // Without a remote, a relative address is that of a folder next to the repository.
    let place = project();
    let engine = with_rules_in(LIST, place.options());
    write(&place.project.join(".gitmodules"), "[submodule \"x\"]\n\turl = ../x.git\n");
    write(&place.project.join(".git/config"), "[core]\n\tbare = false\n");
    assert_decides(&engine, &place, Decision::Ask, &["git submodule update --init"]);
}

#[test]
fn settings_of_the_user_and_the_machine_count_wherever_git_reads_them() {
    for (file, text, command) in [
        ("xdg/git/config", "[url \"https://token@h/\"]\n\tinsteadOf = https://h/\n", "git remote -v"),
        ("etc/gitconfig", "[include]\n\tpath = more\n", "git remote -v"),
        ("etc/gitconfig", "[include]\n\tpath = ~someone/more\n", "git remote -v"),
        ("etc/gitconfig", "[stash]\n\tshowIncludeUntracked\n", "git stash show"),
        ("xdg/git/config", "[stash]\n\tshowPatch = yes\n", "git stash show"),
    ] {
        let place = project();
        write(&place.home.join("etc/more"), "[url \"https://t@h/\"]\ninsteadOf = x\n");
        let git_settings = ["xdg/git/config", "etc/gitconfig"].map(|name| place.home.join(name)).to_vec();
        let engine = shipped_in(Options { git_settings, ..place.options() });
        assert_decides(&engine, &place, Decision::Allow, &[command]);
        write(&place.home.join(file), text);
        assert_decides(&engine, &place, Decision::Ask, &[command]);
        assert_decides(&engine, &place, Decision::Allow, &["git status", "git stash list"]);
    }
}

#[test]
fn settings_of_the_repository_may_make_a_stash_show_untracked_files() {
    for (config, expected) in [
        ("[stash]\n\tshowIncludeUntracked = true\n", Decision::Ask),
        ("[stash]\n\tshowPatch\n", Decision::Ask),
        ("[include]\n\tpath = ../x\n", Decision::Ask),
        ("[stash]\n\tshowStat = true\n\tshowIncludeUntracked = false\n", Decision::Allow),
    ] {
        let place = project();
        let engine = shipped_in(place.options());
        write(&place.project.join("x"), "[stash]\n\tshowIncludeUntracked = 1\n");
        write(&place.project.join(".git/config"), &format!("{CALM}{config}"));
        let (found, why) = decision(&engine, &place, "git stash show");
        assert_eq!(found, expected, "{config}: {why}");
    }
}
