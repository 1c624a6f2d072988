//! A command that runs without approval reads neither secrets nor files outside the workspace.
//!
//! The table lists commands that once did. The search runs commands that the engine allows in real bash among
//! watched files; opening one of them is a failure. `POLLUX_READ_CASES=100000` searches longer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pollux_config::search_path::SearchPath;
use pollux_domain::approval::ApprovalMode;
use pollux_policy::disk::LocalDisk;
use pollux_policy::engine::{Engine, Options};
use pollux_policy::load::{Sources, load};
use pollux_policy::request::Decision;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rustix::fs::inotify;

use crate::everyday::{decide_in, shipped, write};

/// A project with secrets, links that lead outside, and names that become options or are split.
pub(crate) struct Hostile {
    /// Removed at the end, unless the folder belongs to the caller.
    _root: Option<tempfile::TempDir>,
    pub(crate) project: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) secrets: Vec<PathBuf>,
}

/// The contents of every secret, and a remote with a token.
pub(crate) const SECRET: &str = "SECRET=canary-7f3a\n";
pub(crate) const REMOTE: &str = "[remote \"o\"]\n\turl = https://me:token@host/x.git\n";

impl Hostile {
    pub(crate) fn options(&self) -> Options {
        Options {
            workspaces: vec![self.project.clone()],
            resolve: Some(Arc::new(real_path)),
            disk: Some(Arc::new(LocalDisk)),
            ..Options::default()
        }
    }
}

/// Follows links also where a path ends in a file that does not exist, as the program does.
fn real_path(path: &Path) -> PathBuf {
    match (path.canonicalize(), fs::read_link(path), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (_, Ok(target), Some(folder), _) => real_path(&folder.join(target)),
        (_, _, Some(folder), Some(name)) => real_path(folder).join(name),
        _ => path.to_owned(),
    }
}

pub(crate) fn hostile() -> Hostile {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    Hostile { _root: Some(root), ..hostile_in(&top) }
}

/// The same in an existing folder, given by its real path.
pub(crate) fn hostile_in(top: &Path) -> Hostile {
    let (project, home) = (top.join("project"), top.join("home"));
    for file in [
        "a",
        "b",
        "a.md",
        "b.md",
        "a.txt",
        "src/lib.rs",
        "src/main.rs",
        "sub/c.md",
        "deep/x/y.rs",
        "name with blank",
    ] {
        write(&project.join(file), "text a\nb\n");
    }
    write(&project.join(".git/config"), REMOTE);
    let secret = |place: PathBuf| {
        write(&place, SECRET);
        place
    };
    let secrets = vec![
        secret(project.join(".env")),
        secret(project.join("sub/.env")),
        secret(project.join("sub/.env.local")),
        secret(project.join("id_rsa")),
        secret(project.join("deep/x/server.pem")),
        secret(top.join("outside/passwd")),
        secret(top.join("outside/deep/notes.md")),
        secret(top.join("outside/x.gz")),
        secret(home.join(".ssh/id_rsa")),
        project.join(".git/config"),
    ];
    for (target, link) in [
        ("../outside", "outdir"),
        ("../outside/passwd", "outlink.md"),
        ("../outside/x.gz", "packed.gz"),
        (".env", "inner"),
        ("../../outside", "sub/up"),
        (".git", "repository"),
        ("../sub", "deep/aside"),
        ("../outside/absent", "dangling"),
    ] {
        symlink(target, project.join(link)).unwrap();
    }
    // Names that are split into others, and names that are options.
    for name in [
        "x .env",
        "y /id_rsa",
        "-R",
        "-rf",
        "--files0-from=.env",
        "-f.env",
        "--output=x.rs",
        "[b]*",
        "z\n.env",
    ] {
        write(&project.join(name), "x\n");
    }
    Hostile { _root: None, project, home, secrets }
}

/// The same project without a name that would be an option, so that patterns are followed to their files.
fn secretive() -> Hostile {
    let place = hostile();
    remove_odd_names(&place.project);
    place
}

pub(crate) fn remove_odd_names(project: &Path) {
    for name in ["-R", "-rf", "--files0-from=.env", "-f.env", "--output=x.rs", "x .env", "[b]*", "z\n.env"] {
        fs::remove_file(project.join(name)).unwrap();
    }
    fs::remove_dir_all(project.join("y ")).unwrap();
}

fn engine(place: &Hostile) -> Engine {
    load(&Sources::default(), place.options())
}

/// Commands that read secrets or outside files, each in a different way.
#[rustfmt::skip]
const ASKED: &[&str] = &[
    // patterns
    "cat .e*", "cat .[e]nv", "cat .??v", "base64 .e*", "cat id_rs?", "cat id*", "for f in .e*; do cat $f; done", "cat < .e*",
    "cat out*/passwd", "cat */passwd", "cat outdir/*", "ls outdir/*", "echo outdir/*", "cat sub/.e*", "cat */.env", "cat - **/./*", "cat **/./.env", "cat */./.env", "cat ./././.e*", "cat **/*/*", "cat ./*",
    "head -1 out*", "cat *.md", "wc -l *", "x=.e*; cat $x", "cat repository/conf*", "cat */up/passwd", "sort id_*", "xxd .en?",
    // braces, tilde, variables
    "cat {.env,a.md}", "cat .{env,x}", "cat ~/.ssh/id_rsa", "cat $HOME/.ssh/id_rsa", "cat $PWD/.env", "cat ${x:-.env}", "cat $(echo .env)", "cat src/$(find . -name '.e*')", "x=$(find . -type f); cat src/$x", "cat $(ls)$(ls)", "for f in \"$(ls -A)\"; do cat $f; done", "for f in \"$(ls)\"; do cat $f/.env; done",
    // lists of files
    "find . -name '.e*' | xargs cat", "cat $(find . -name .env)", "find . -type f | xargs cat", "ls -A | xargs cat", "ls | xargs cat",
    "find . -type f | while read -r f; do cat \"$f\"; done", "for f in $(find . -type f); do head -1 $f; done", "grep -rl x . | xargs cat",
    "find . -name '*.md' | xargs cat", "git ls-files | xargs cat", "cat $(git ls-files)", "find . -type f -exec cat {} +",
    "find a b -name none | xargs grep -r x", "grep -r x $(find a -name none)", "find sub -type f -print0 | xargs -0 cat", "find deep | xargs cat", "while read -r f; do wc -l < \"$f\"; done < <(find . -type f)",
    // trees
    "grep -r x .", "grep -R x .", "grep -rn SECRET", "grep -r x sub", "grep -r x deep", "rg -L x", "rg -uu x", "rg -u x", "rg --hidden x",
    "rg -g '.e*' x", "rg -g '[.]env' x", "find . -name '[.]env' | xargs cat", "find .e* -name '*' | xargs cat", "find .env | xargs cat", "rg -g '*' x sub", "rg SECRET", "diff -r sub deep", "diff -r deep src", "diff sub src", "find -L . | xargs cat", "grep -r x outdir", "rg x deep",
    "grep -rn --include='.e*' x .", "grep -rn --include='*' x .", "grep -d recurse x .",
    // names and links
    "cat .env", "cat inner", "cat outlink.md", "cat outdir/passwd", "cat .git/config", "grep url .git/config", "cat repository/config",
    "wc -l < .env", "while read -r l; do echo $l; done < .env", "jq . .env", "awk 1 .env", "sed -n p .env", "cat sub/../.env", "cat ./.env",
    "diff a .env", "cmp a id_rsa", "comm a .env", "paste a .env", "git show HEAD:.env", "git diff .env", "git log -p -- .env", "git blame .env",
    "cd sub && cat .env", "cd repository && cat $(find . -type f)", "cd repository && cat *", "cd repository; grep -r x .", "cd outdir && cat passwd", "cd sub; cat .e*", "cat -- .env", "head -c 10 id_rsa", "od -c .env", "strings id_rsa", "file .env",
    "grep -f .env a", "xargs -a .env echo", "xargs -ra.env echo", "xargs --arg-file=.env echo", "xargs --arg-file .env echo", "xargs echo < .env", "sort --files0-from=.env", "wc --files0-from=a", "date -f .env", "zcat packed", "zcat packed.gz",
    // found by a second review from an attacker's point of view
    "RANDOM='a[$(cat .env|tee /dev/stderr)]'", "for SECONDS in 'a[$(cat .env)]'; do :; done", "read RANDOM <<< 'a[$(cat .env)]'", "export RANDOM='a[$(id)]'",
    "wait -fnp 'a[$(cat .env)]'", "wait '-pa[$(cat .env)]' -n", "sed -n ':x e cat .env' a", "sed 'tx w outw' a", "sed 'b x w out' a",
    "printf x | xargs --replace cat echo .env", "printf x | xargs --max-lines cat echo .env", "printf cat | xargs -tI echo timeout 5 echo .env", "printf x | xargs -io nice echo x",
    "awk 'BEGIN{print \"pwn;\" > \"/tmp/x\"}'", "awk 'BEGIN{printf \"a}\" > \"x\"}'", "awk '{print /}/ > \"x\"}' a", "xxd -bs a r3", "xxd -pc 5 r2",
    "strings @.env", "strings @a", "diff -N --to-file=. sub", "diff --from-file=. sub", "grep -r TOP --exclude=.env --include=.env sub", "grep -r TOP --exclude-dir=.env sub", "grep -r TOP --exclude='.env/' sub",
    "rg TOP --iglob .ENV", "rg TOP -g '!.env' -g '.env' sub", "rg --hidden TOP -g '!.env/' sub", "ps -auxeww", "PS_PERSONALITY=bsd ps -axeww", "jq -n '$ ENV'", "jq -n '$\tENV'",
    "git grep --untracked TOP", "echo HEAD:.env | git cat-file --batch", "git diff -- '.e*'", "git status -vv", "git log -L1,1:.env", "git diff -- ':(glob).e*'",
    "CLOUDSDK_PYTHON=./x.sh gcloud --version", "GCC_EXEC_PREFIX=x gcc --version", "awk 'BEGIN{print SYMTAB[\"ENV\" \"IRON\"]}'",
    // other machines, other programs, project files
    "tar tf evil.example:x", "tar -tf evil.example:a.tar", "tar -tvf dev@evil.example:/tmp/a.tar", "tar --list --file=evil.example:a",
    "mvn --version", "gradle --version", "sbt --version", "yarn --version", "pnpm --version", "npx --version", "bundle --version", "mix --version",
    "git remote -v", "git remote get-url o", "git config --get remote.o.url", "git config remote.o.url",
];

/// Commands that read no such files, in the same project.
#[rustfmt::skip]
const OPEN: &[&str] = &[
    "ls", "ls -la", "cat a", "cat a.md b.md", "cat src/*.rs", "cat src/*", "wc -l src/*.rs", "grep -rn x src", "grep -rn --include=*.rs x .",
    "grep -rn --include='*.rs' --exclude-dir=.git x .", "rg x src", "rg -g '*.rs' x", "rg -t rust x", "find . -name '*.rs' | xargs cat", "cat $(find src -name '*.rs')",
    "find . -type f", "find . -name '.env'", "git ls-files '*.rs' | xargs wc -l", "for f in src/*.rs; do head -1 \"$f\"; done", "ls -la .env", "stat .env", "test -f .env && echo yes",
    "git status", "git log -3", "git show HEAD:src/lib.rs", "git check-ignore .env", "tree", "du -sh .", "rg --files", "cat 'name with blank'", "grep -c a src/lib.rs",
    "tar -tf a.tar", "diff a b", "diff -r src src", "make --version", "gcc --version",
];

#[test]
fn secrets_and_outside_files_are_not_read_without_approval() {
    let place = secretive();
    let engine = engine(&place);
    let decision = |command: &str| decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
    let open: Vec<&str> = ASKED.iter().copied().filter(|c| decision(c).decision == Decision::Allow).collect();
    assert!(open.is_empty(), "read unasked: {open:#?}");
    let needless: Vec<String> = OPEN
        .iter()
        .map(|command| (command, decision(command)))
        .filter(|(_, verdict)| verdict.decision != Decision::Allow)
        .map(|(command, verdict)| format!("{command}: {}", verdict.reason))
        .collect();
    assert!(needless.is_empty(), "asked needlessly: {needless:#?}");
}

#[test]
fn the_allowed_path_checker_judges_the_files_a_command_touches() {
    let rules = r#"
[[rule]]
toolName = "run_shell_command"
decision = "allow"
priority = 100

[[safety_checker]]
toolName = "run_shell_command"
priority = 100
checker = { type = "in-process", name = "allowed-path" }
"#;
    let place = secretive();
    let engine = crate::everyday::with_rules_in(rules, place.options());
    for (command, decision) in [
        ("cat a", Decision::Allow),
        ("cp a c", Decision::Allow),
        ("rm src/lib.rs", Decision::Allow),
        ("cat /etc/passwd", Decision::Deny),
        ("cat ../x", Decision::Deny),
        ("cat outdir/passwd", Decision::Deny),
        ("cp a /etc/x", Decision::Deny),
        ("echo x > /etc/x", Decision::Deny),
        ("ls; cat /etc/passwd", Decision::Deny),
        ("cat $X", Decision::Ask),
        ("cat .env", Decision::Ask),
        ("./build.sh", Decision::Ask),
        ("python3 -c 'open(\"/etc/passwd\")'", Decision::Ask),
        ("cd / && cat etc/passwd", Decision::Deny),
    ] {
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, decision, "{command}: {}", verdict.reason);
    }
}

#[test]
fn the_ask_reason_names_the_file_that_would_be_read() {
    let place = secretive();
    let engine = engine(&place);
    for (command, word) in [
        ("cat .e*", ".env"),
        ("grep -r x .", "may contain secrets"),
        ("cat outdir/passwd", "outside the workspace"),
        ("cat *.md", "outlink.md"),
    ] {
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert!(verdict.reason.contains(word), "{command}: {}", verdict.reason);
    }
}

#[test]
fn file_names_that_become_options_or_split_need_approval() {
    let place = hostile();
    let engine = engine(&place);
    for command in [
        "for f in src; do for x in x*; do cat $f/$x; done; done",
        "grep x *",
        "wc -l *",
        "sort *",
        "cat $(ls)",
        "ls | xargs wc -l",
        "for f in *; do wc -l $f; done",
        "find . -type f | xargs wc -l",
    ] {
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, Decision::Ask, "{command}: {}", verdict.reason);
    }
}

#[test]
fn version_queries_of_folder_tools_need_approval_in_an_untrusted_folder() {
    let place = secretive();
    let engine = load(&Sources::default(), Options { trusted: false, ..place.options() });
    for (command, decision) in [
        ("cargo --version", Decision::Ask),
        ("node -v", Decision::Ask),
        ("npm ls", Decision::Ask),
        ("git --version", Decision::Ask),
        ("gcc --version", Decision::Allow),
        ("cat a", Decision::Allow),
    ] {
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, decision, "{command}: {}", verdict.reason);
    }
}

#[test]
fn a_workspace_program_does_not_pass_for_the_system_program_of_that_name() {
    let place = secretive();
    let bin = place.project.join("node_modules/.bin");
    for name in ["cat", "ls", "timeout", "env", "bash", "grep"] {
        write(&bin.join(name), "#!/bin/sh\n");
        fs::set_permissions(bin.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for (path, command, decision) in [
        ("{bin}:/usr/bin:/bin", "cat a", Decision::Ask),
        ("{bin}:/usr/bin:/bin", "cd src && ls", Decision::Ask),
        ("{bin}:/usr/bin:/bin", "wc -l a", Decision::Allow),
        ("{bin}:/usr/bin:/bin", "/bin/cat a", Decision::Allow),
        ("{bin}:/usr/bin:/bin", "echo x; pwd", Decision::Allow),
        ("{bin}:/usr/bin:/bin", "timeout 5 wc -l a", Decision::Ask),
        ("{bin}:/usr/bin:/bin", "env wc -l a", Decision::Ask),
        ("{bin}:/usr/bin:/bin", "bash -c 'wc -l a'", Decision::Ask),
        ("{bin}:/usr/bin:/bin", "fgrep x a", Decision::Ask),
        (".:/usr/bin:/bin", "wc -l a", Decision::Ask),
        (":/usr/bin:/bin", "cd src && wc -l lib.rs", Decision::Ask),
        ("/usr/bin:/bin:{bin}", "cat a", Decision::Allow),
        ("/usr/bin:/bin", "cat a", Decision::Allow),
    ] {
        let text = path.replace("{bin}", &bin.to_string_lossy());
        let search_path = SearchPath::new(Some(text.as_ref()), std::slice::from_ref(&place.project));
        let engine = load(&Sources::default(), Options { search_path: Some(search_path), ..place.options() });
        let verdict = decide_in(&engine, &place.project, command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, decision, "PATH={path} {command}: {}", verdict.reason);
    }
}

#[test]
fn a_clean_project_needs_no_additional_approvals() {
    let engine = shipped();
    for command in [
        "grep -rn x .",
        "rg x",
        "cat *.txt",
        "git remote -v",
        "find . -type f | xargs wc -l",
        "ls | xargs wc -l",
    ] {
        let verdict = decide_in(&engine, crate::everyday::project(), command, ApprovalMode::Default, true);
        assert_eq!(verdict.decision, Decision::Allow, "{command}: {}", verdict.reason);
    }
}

/// The building blocks of read commands.
#[rustfmt::skip]
const READERS: &[&str] = &[
    "cat", "head -2", "tail -n 1", "wc -l", "nl", "od -c", "base64", "md5sum", "xxd", "strings", "sort", "uniq", "cut -c1-3", "rev", "tac", "fold",
    "paste", "comm", "diff", "diff -r", "cmp", "grep x", "grep -r x", "grep -rn x", "grep -rl x", "grep -e x", "grep -f", "grep -rh --include=*.md x",
    "grep -c ''", "sed -n p", "sed p", "awk 1", "file", "stat", "ls", "ls -R", "ls -A", "find", "du -a", "tar -tf", "zcat", "echo", "test -f", "join", "pr", "expand",
    "cat --", "cat -n", "head", "look x", "hexdump", "sum", "cksum", "b2sum", "column", "fmt", "tsort", "csplit", "split", "cat -", "realpath", "readlink -f",
];
#[rustfmt::skip]
const OPERANDS: &[&str] = &[
    ".", "*", "./*", ".e*", ".[e]nv", "?env", "[.]env", ".??v", "{.env,a.md}", ".{env,x}", "id_*", "id_rs?", "outdir", "out*", "*/passwd", "outdir/*", "outdir/passwd",
    "inner", "inn*", "$f", "\"$f\"", "${f}", "$(find . -name '.e*')", "$(find . -type f)", "$(ls -A)", "$(ls)", "`ls`", "a", "b", "a.md", "*.md", "*.txt", "sub", "sub/*", "sub/.*",
    "~", "~/.ssh/id_rsa", "$HOME/.ssh/id_rsa", "$PWD/.env", "./.env", "sub/../.env", ".git/config", ".git/*", ".git", "x*", "'x .env'", "-", "--", "-R", "**", "**/.env",
    "[a-z]*", "$x", "${x:-.env}", "<(cat .env)", "<(cat a)", "src", "src/*", "deep", "deep/*/*", "*/*", ".*", "*/.*", "packed", "packed*", "repository", "repository/config",
    "outlink.md", "out*.md", "src/../outdir/passwd", "sub/up", "sub/up/passwd", "*/up/*", "'name with blank'", "n*", "$(cat a)", "\"$(ls)\"", "-r", "-f .env", "[x-z]*", "$(echo .env)",
    "{a,b}", "{.,}env", "\\.env", "'.env'", "\".e\"*", ".e\"n\"v", "$'.env'", "a/../.env", "id_rsa", "./id*", "deep/x/*", "/etc/../dev/null", "$1", "$@", "deep/aside/.env", "deep/aside/*",
];
#[rustfmt::skip]
const SHAPES: &[&str] = &[
    "R O", "R O", "R O", "R O O", "R O < O", "R < O", "for f in O; do R O; done", "for f in O O; do R \"$f\"; done", "x=O; R O", "x=O; R $x", "f=O R O", "find . -type f | xargs R",
    "find O -name 'O' | xargs R", "ls O | xargs R", "ls -A | xargs R", "grep -rl x O | xargs R", "find . -type f | while read -r f; do R O; done", "ls | while read -r f; do R \"$f\"; done",
    "cd sub && R O", "cd src; R O", "cd deep/x && R O", "cd O && R O", "(cd sub; R O)", "R O | R", "R O; R O", "R O && R O", "echo $(R O)", "echo \"$(R O)\"", "R $(R O)", "R O | xargs R", "[ -f O ] && R O",
    "if test -f O; then R O; fi", "while read -r f; do R O; done < O", "R O <<< O", "case O in *) R O;; esac", "{ R O; }", "IFS=/ read -r f < O; R $f", "set -e; R O", "time R O", "nice R O",
    "timeout 5 R O", "env R O", "command R O", "xargs R < O", "xargs -a O R", "xargs -I{} R {} < O", "echo O | xargs R", "printf '%s\\n' O | xargs R", "printf '%s\\n' O | while read -r f; do R \"$f\"; done",
    "f() { R O; }; f O", "for f in O; do for x in O; do R $f/$x; done; done", "R O/O", "R ./O", "R sub/O", "x=sub; R $x/O", "x=.e; R ${x}nv", "R \"${x}O\"", "R -- O O", "R O 2>/dev/null", "bash -c 'R O'",
    "sh -c \"R O\"", "eval R O", "R O | head -1", "cat O | R", "diff <(R O) <(R O)", "cd sub && cd .. && R O", "cd outdir/.. && R O", "pushd sub; R O; popd; R O", "cd \"$PWD/sub\" && R O", "git ls-files | xargs R",
    "rg -l x O | xargs R", "rg --files | xargs R", "rg x O", "rg -g 'O' x", "find O -maxdepth 2 | sort | xargs R", "find . -newer a | xargs R", "ls *.md | xargs R", "for f in $(ls *.md); do R $f; done",
];

fn command(choices: &[u16]) -> String {
    let mut choices = choices.iter().map(|choice| usize::from(*choice));
    let mut pick = |from: &'static [&'static str]| from[choices.next().unwrap_or_default() % from.len()];
    let shape = pick(SHAPES);
    let mut text = String::new();
    for c in shape.chars() {
        match c {
            'R' => text.push_str(pick(READERS)),
            'O' => text.push_str(pick(OPERANDS)),
            other => text.push(other),
        }
    }
    text
}

/// A project whose secrets are watched.
struct Watched {
    place: Hostile,
    engine: Engine,
    watch: rustix::fd::OwnedFd,
}

fn watched(index: usize) -> &'static Watched {
    static PLACES: OnceLock<[Watched; 2]> = OnceLock::new();
    &PLACES.get_or_init(|| [hostile(), secretive()].map(Watched::new))[index]
}

impl Watched {
    fn new(place: Hostile) -> Self {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).unwrap();
        for secret in &place.secrets {
            inotify::add_watch(&watch, secret, inotify::WatchFlags::OPEN).unwrap();
        }
        Self { engine: engine(&place), watch, place }
    }

    /// How often a secret was opened since the last question.
    fn opened(&self) -> usize {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        std::iter::from_fn(|| reader.next().ok().map(|_| ())).count()
    }

    /// Runs a command; one that does not end is killed after the limit.
    fn run(&self, command: &str, limit: Duration) {
        let mut child = Command::new("/bin/bash")
            .args(["-c", command])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &self.place.home)
            .current_dir(&self.place.project)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while started.elapsed() < limit {
            if child.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs an allowed command; opening a secret is a failure.
fn reads_nothing_closed(command: &str, index: usize) -> Result<bool, String> {
    let place = watched(index);
    let verdict = decide_in(&place.engine, &place.place.project, command, ApprovalMode::Default, true);
    if verdict.decision != Decision::Allow {
        return Ok(false);
    }
    // The decision itself reads a repository's configuration.
    place.opened();
    place.run(command, Duration::from_secs(1));
    match place.opened() {
        0 => Ok(true),
        count => Err(format!("opened {count} secrets unasked: {}", verdict.reason)),
    }
}

#[test]
fn the_watcher_detects_a_secret_being_read() {
    // Not the shared one: another test would take its events.
    let place = Watched::new(secretive());
    place.run("cat .env sub/../id_rsa", Duration::from_secs(60));
    assert!(place.opened() >= 2);
}

#[expect(clippy::disallowed_methods, reason = "how long to search is up to who runs the tests")]
fn config() -> ProptestConfig {
    let wanted = std::env::var("POLLUX_READ_CASES").ok().and_then(|text| text.parse().ok());
    let rng_seed = if wanted.is_some() { RngSeed::Random } else { RngSeed::Fixed(7) };
    ProptestConfig {
        cases: wanted.unwrap_or(400),
        failure_persistence: None,
        max_shrink_iters: 200,
        rng_seed,
        ..ProptestConfig::default()
    }
}

#[test]
fn no_command_that_is_allowed_opens_a_secret() {
    let ran = std::cell::Cell::new((0_u32, 0_u32));
    let mut runner = proptest::test_runner::TestRunner::new(config());
    let strategy = (prop::collection::vec(any::<u16>(), 8), 0_usize..2);
    let result = runner.run(&strategy, |(choices, index)| {
        let command = command(&choices);
        let (all, allowed) = ran.get();
        match reads_nothing_closed(&command, index) {
            Ok(ran_it) => ran.set((all + 1, allowed + u32::from(ran_it))),
            Err(finding) => prop_assert!(false, "{command:?}: {finding}"),
        }
        Ok(())
    });
    result.unwrap();
    let (all, allowed) = ran.get();
    assert!(allowed * 20 > all, "only {allowed} of {all} commands were allowed: the search proves little");
}
