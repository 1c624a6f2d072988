//! Everyday commands that must work in a sandbox with a view of its own, if their programs are on this machine.

use std::fs;

use pollux_sandbox::Level;

use crate::sandbox::Scene;

/// A task, the program it needs, and its script, which runs in a fresh repository.
const TASKS: &[(&str, &str, &str)] = &[
    ("git status, diff, log", "git", "git status --short && git diff && git log --oneline"),
    ("git commit", "git", "echo x > new && git add -A && git commit -qm new && git show --stat | grep new"),
    ("git stash", "git", "echo y >> a && git stash -q && git stash pop -q && grep y a && git checkout -q a"),
    (
        "git rebase",
        "git",
        "git checkout -qb b && echo z > z && git add z && git commit -qm z && git rebase -q master",
    ),
    (
        "git worktree",
        "git",
        "git worktree add -q ../w/tree && cd tree && echo t > t && git add t && git commit -qm t",
    ),
    ("git clone", "git", "git clone -q . copy && test -e copy/.git/config && git -C copy log -1 --oneline"),
    (
        "cargo",
        "cargo",
        "cargo --offline init -q --vcs none --name x crate && cd crate && cargo --offline test -q",
    ),
    (
        "python multiprocessing",
        "python3",
        "python3 -c 'import multiprocessing as m; m.set_start_method(\"forkserver\"); p=m.Process(target=print, args=(1,)); p.start(); p.join(); assert p.exitcode==0'",
    ),
    (
        "python semaphores",
        "python3",
        "python3 -c 'import multiprocessing as m; m.Lock(); m.shared_memory if False else 0; from multiprocessing.shared_memory import SharedMemory as S; s=S(create=True,size=9); s.close(); s.unlink()'",
    ),
    (
        "python venv",
        "python3",
        "python3 -m venv --without-pip env && env/bin/python -c 'import sys; print(sys.prefix)'",
    ),
    ("make", "make", "printf 'all: a1 a2\\na1 a2:\\n\\ttouch $@\\n' > Makefile && make -j4 && test -e a2"),
    ("gcc", "gcc", "printf 'int main(){return 0;}' > m.c && gcc m.c -o m && ./m"),
    (
        "sqlite with a log",
        "sqlite3",
        "sqlite3 db 'pragma journal_mode=wal; create table t(x); insert into t values(1); select * from t;'",
    ),
    (
        "temporary files",
        "sort",
        "d=$(mktemp -d) && seq 200000 | sort -R -T $d -S 1M | sort -n | tail -1 | grep 200000",
    ),
    ("archives", "tar", "tar cf x.tar a && tar tf x.tar | grep a"),
    ("strace", "strace", "strace -o log true && grep -q exit log"),
    ("gdb", "gdb", "gdb -batch -nx -ex run --args /bin/true 2>&1 | grep -q 'exited normally'"),
    ("script", "script", "script -qec 'tty && echo inside' /dev/null | grep inside"),
    ("processes", "ps", "sleep 60 & sleep 0.3; ps -e | grep sleep && kill $!"),
    (
        "localhost",
        "python3",
        "python3 -c 'import socket as s; a=s.create_server((\"127.0.0.1\",0)); b=s.create_connection(a.getsockname()); c,_=a.accept(); c.send(b\"x\"); assert b.recv(1)==b\"x\"'",
    ),
    (
        "unix sockets",
        "python3",
        "python3 -c 'import socket as s; a=s.socket(s.AF_UNIX); a.bind(\"/tmp/s\"); a.listen(); b=s.socket(s.AF_UNIX); b.connect(\"/tmp/s\")'",
    ),
];

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
    let found = folders.iter().any(|folder| std::path::Path::new(folder).join(program).exists());
    if !found {
        #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
        {
            eprintln!("not tested: no {program}");
        }
    }
    found
}

#[tokio::test]
async fn everyday_commands_work_inside() {
    for level in [Level::Namespaces, Level::Bubblewrap] {
        for network in [true, false] {
            let Some(scene) = Scene::new(level, |request| request.network = network) else { continue };
            fs::remove_dir_all(scene.path("w/.git")).unwrap();
            let init = "git init -qb master && echo a > a && git add a && \
                        git -c user.name=a -c user.email=a@b.c commit -qm first";
            let made =
                std::process::Command::new("sh").args(["-c", init]).current_dir(scene.path("w")).status();
            if !made.is_ok_and(|status| status.success()) {
                return;
            }
            let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; \
                            export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*; set -e; ";
            for (task, program, script) in TASKS {
                if is_installed(program) {
                    scene.succeeds(&format!("{identity}: {task}; {script}")).await;
                }
            }
        }
    }
}
