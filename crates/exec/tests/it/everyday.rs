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
    (
        "git worktree remove",
        "git",
        "git worktree add -q ../w/other && git worktree list | grep other && git worktree remove other && test ! -e other",
    ),
    (
        "git fetch",
        "git",
        "git clone -q . far && git -C far fetch -q && git fetch -q ./far HEAD && rm -rf far",
    ),
    (
        "git config",
        "git",
        "! git config user.name x 2>/dev/null && git -c user.name=x config user.name && git config user.name || true",
    ),
    ("git clone", "git", "git clone -q . copy && test -e copy/.git/config && git -C copy log -1 --oneline"),
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
    (
        "python threads and pools",
        "python3",
        "printf 'from multiprocessing import Pool\ndef f(x): return x*x\nif __name__==\"__main__\":\n  print(sum(Pool(2).map(f,range(9))))\n' > p.py && python3 p.py | grep 204",
    ),
    (
        "pytest",
        "pytest",
        "printf 'def test_x(tmp_path): (tmp_path/\"a\").write_text(\"x\")\n' > test_x.py && pytest -q test_x.py",
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
        "d=$(mktemp -d) && seq 200000 | sort -R -T $d -S 1M | sort -n | tail -1 | grep 200000 && rmdir $d",
    ),
    ("archives", "tar", "tar cf x.tar a && tar tf x.tar | grep a"),
    ("zip", "zip", "zip -q x.zip a && unzip -l x.zip | grep a"),
    (
        "vim in a terminal",
        "vim",
        "script -qec 'vim -Nu NONE -c \"normal ihello\" -c wq made' /dev/null >/dev/null && grep hello made",
    ),
    ("less in a terminal", "less", "script -qec 'less -FX a' /dev/null | grep a"),
    ("expect", "expect", "expect -c 'spawn cat; send hi\\r; expect hi'"),
    ("top and pgrep", "pgrep", "sleep 61 & top -bn1 | head -3 && pgrep -f 'sleep 61' && kill $!"),
    ("perf", "perf", "! perf stat true 2>/dev/null"),
    (
        "file watches",
        "python3",
        "python3 -c 'import ctypes as c; l=c.CDLL(None); f=l.inotify_init(); assert l.inotify_add_watch(f, b\".\", 2) > 0'",
    ),
    (
        "node workers",
        "node",
        "node -e 'const {Worker}=require(\"worker_threads\"); new Worker(\"0\",{eval:true}).on(\"exit\",c=>process.exit(c))'",
    ),
    (
        "node child processes",
        "node",
        "node -e 'require(\"child_process\").fork(\"-e\",[],{execArgv:[\"-e\",\"process.send(1);process.disconnect()\"]}).on(\"message\",m=>process.exit(m===1?0:1))'",
    ),
    (
        "node file watch",
        "node",
        "node -e 'const f=require(\"fs\");const w=f.watch(\".\",()=>{w.close();process.exit(0)});const t=()=>f.writeFileSync(\"seen\",\"x\");setTimeout(t,50);setInterval(t,1000);setTimeout(()=>process.exit(1),60000)'",
    ),
    (
        "node --watch",
        "node",
        "echo 'console.log(\"first\")' > watched.js; node --watch watched.js > watched.log 2>&1 & \
     for i in $(seq 600); do grep -q first watched.log && break; sleep 0.1; done; \
     for i in $(seq 600); do [ $((i % 30)) != 1 ] || echo 'console.log(\"second\")' > watched.js; \
     grep -q second watched.log && break; sleep 0.1; done; kill $!; grep second watched.log",
    ),
    (
        "node server",
        "node",
        "node -e 'const s=require(\"http\").createServer((q,r)=>r.end(\"ok\")).listen(0,\"127.0.0.1\",()=>require(\"http\").get({port:s.address().port,host:\"127.0.0.1\"},r=>process.exit(r.statusCode===200?0:1)))'",
    ),
    (
        "uvicorn, as a test client uses it",
        "python3",
        "python3 -c 'import asyncio\nasync def main():\n  s=await asyncio.start_server(lambda r,w: w.close(),\"127.0.0.1\",0)\n  await asyncio.open_connection(*s.sockets[0].getsockname())\nasyncio.run(main())'",
    ),
    ("sudo is refused", "sudo", "! sudo -n true 2>/dev/null"),
    ("locale and time zone", "locale", "locale >/dev/null && TZ=Europe/Berlin date +%Z"),
    ("certificates", "openssl", "openssl version -d && ls /etc/ssl/certs >/dev/null"),
    ("man", "man", "man -w ls"),
    ("fonts", "fc-list", "fc-list >/dev/null"),
    (
        "go",
        "go",
        "mkdir -p g && cd g && go mod init x 2>/dev/null && printf 'package main\nfunc main(){}\n' > m.go && go build ./... && go vet ./...",
    ),
    (
        "replacing a file",
        "sed",
        "echo x > s && sed -i s/x/y/ s && grep y s && python3 -c 'import os; open(\"n\",\"w\").close(); os.replace(\"n\",\"s\")'",
    ),
    (
        "cmake",
        "cmake",
        "mkdir -p cm && cd cm && printf 'cmake_minimum_required(VERSION 3.10)\nproject(x C)\n' > CMakeLists.txt && cmake -S . -B b >/dev/null",
    ),
    (
        "ninja",
        "ninja",
        "printf 'rule t\n command = touch $out\nbuild nn: t\n' > build.ninja && ninja && test -e nn",
    ),
    ("ccache", "ccache", "printf 'int main(){return 0;}' > cc.c && ccache gcc -c cc.c"),
    (
        "redis",
        "redis-server",
        "redis-server --port 0 --unixsocket /tmp/r.sock --save '' --daemonize yes && \
     for i in $(seq 600); do redis-cli -s /tmp/r.sock ping | grep PONG && break; sleep 0.1; done && redis-cli -s /tmp/r.sock shutdown",
    ),
    ("java", "java", "java -version"),
    (
        "java with a server, as build daemons have one",
        "javac",
        "printf 'import java.net.*;\nclass S { public static void main(String[] a) throws Exception { \
     var l = new ServerSocket(0, 5, InetAddress.getLoopbackAddress()); \
     var c = new Socket(InetAddress.getLoopbackAddress(), l.getLocalPort()); l.accept().close(); \
     System.out.println(c.getInputStream().read()); } }\n' > S.java && javac S.java && java S | grep -e -1",
    ),
    ("mvn", "mvn", "mvn -o -v"),
    ("gradle", "gradle", "gradle --offline --no-daemon -v"),
    ("dotnet", "dotnet", "dotnet --info"),
    ("bundler", "bundle", "bundle --version"),
    ("composer", "composer", "composer --version"),
    ("mix", "mix", "mix --version"),
    ("dart", "dart", "dart --version"),
    ("nix-shell", "nix-shell", "nix-shell --version"),
    ("mise", "mise", "mise --version"),
    ("asdf", "asdf", "asdf version"),
    (
        "chromium without a sandbox of its own",
        "chromium",
        "chromium --headless --no-sandbox --disable-gpu --dump-dom 'data:text/html,<p>hi</p>' | grep hi",
    ),
    ("docker without a daemon", "docker", "docker --version && ! docker ps 2>/dev/null"),
    (
        "kubectl",
        "kubectl",
        "kubectl version --client && kubectl create deployment x --image=y --dry-run=client -o name",
    ),
    (
        "terraform",
        "terraform",
        "mkdir -p tf && cd tf && echo 'output \"x\" { value = 1 }' > m.tf && terraform init && terraform apply -auto-approve",
    ),
    (
        "ssh",
        "ssh",
        "ssh -V && ssh-keygen -q -t ed25519 -N '' -f key && eval $(ssh-agent -a /tmp/own-agent) && ssh-add -q key && ssh-add -l; kill $SSH_AGENT_PID",
    ),
    ("ruby", "ruby", "ruby -e 'puts 1'"),
    ("php", "php", "php -r 'echo 1;'"),
    ("perl", "perl", "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die'"),
    ("deno", "deno", "deno eval '0'"),
    ("bun", "bun", "bun -e '0'"),
    ("zig", "zig", "zig version"),
    ("uv", "uv", "uv --offline venv -q uvenv"),
    ("direnv", "direnv", "direnv version"),
    ("pre-commit", "pre-commit", "pre-commit --version"),
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

/// Where cargo and rustc are.
fn toolchain() -> Option<&'static std::path::Path> {
    std::path::Path::new(env!("CARGO")).parent()
}

fn is_installed(program: &str) -> bool {
    // Where the scene's commands look for programs.
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
    let mut folders = folders.iter().map(std::path::Path::new).chain(toolchain());
    let found = folders.any(|folder| folder.join(program).exists());
    if !found {
        #[expect(clippy::print_stderr, reason = "whoever runs the tests should know")]
        {
            eprintln!("not tested: no {program}");
        }
    }
    found
}

/// The same for those that take seconds; they run once.
const SLOW: &[(&str, &str, &str)] = &[
    (
        "npm install, ci, test, exec",
        "npm",
        "mkdir -p js && cd js && printf '{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"node -e 0\"}}' > package.json \
     && npm install --offline --silent && npm ci --offline --silent && npm test --silent && npm exec --offline -c 'node -v'",
    ),
    (
        "go test with a server",
        "go",
        "mkdir -p gt && cd gt && go mod init x 2>/dev/null && printf 'package x\nimport (\"net/http\"; \"net/http/httptest\"; \"testing\")\nfunc TestX(t *testing.T) { s := httptest.NewServer(http.NotFoundHandler()); defer s.Close(); if _, e := http.Get(s.URL); e != nil { t.Fatal(e) } }\n' > m_test.go && go test ./...",
    ),
    ("rustup", "rustup", "rustup show"),
    ("pip", "pip3", "python3 -m venv env2 && env2/bin/pip --version && env2/bin/pip list"),
    (
        "cargo build, test, clippy, doc",
        "cargo",
        // A workspace of its own: the folder may be below another `Cargo.toml`.
        "mkdir -p crate/src && cd crate && printf '[package]\nname=\"x\"\nedition=\"2024\"\n[workspace]\n' > Cargo.toml \
     && printf '#[test]\nfn it_works() {}\n' > src/lib.rs && cargo --offline test -q \
     && { ! cargo clippy -V >/dev/null 2>&1 || cargo --offline clippy -q; } && cargo --offline doc -q",
    ),
];

async fn run_all(scene: &Scene, tasks: &[(&str, &str, &str)]) {
    let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c; \
                    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*; set -e; ";
    let programs = toolchain().map(|folder| folder.display().to_string()).unwrap_or_default();
    let identity = format!("export PATH=$PATH:{programs} CARGO_HOME=/tmp/cargo; {identity}");
    for (task, program, script) in tasks {
        if is_installed(program) {
            scene.succeeds(&format!("{identity}: {task}; {script}")).await;
        }
    }
}

#[tokio::test]
async fn everyday_commands_work_inside() {
    work_inside(Level::Namespaces, false, TASKS).await;
}

#[tokio::test]
async fn slow_everyday_commands_work_inside() {
    work_inside(Level::Namespaces, false, SLOW).await;
}

#[tokio::test]
async fn everyday_commands_work_with_an_open_network() {
    work_inside(Level::Namespaces, true, TASKS).await;
}

#[tokio::test]
async fn everyday_commands_work_in_bubblewrap() {
    work_inside(Level::Bubblewrap, false, TASKS).await;
}

async fn work_inside(level: Level, network: bool, tasks: &[(&str, &str, &str)]) {
    let Some(scene) = Scene::new(level, |request| request.network = network) else { return };
    fs::remove_dir_all(scene.path("w/.git")).unwrap();
    let init = "git init -qb master && echo a > a && git add a && git commit -qm first";
    let made = pollux_test_support::with_own_git("sh", scene.path("w")).args(["-c", init]).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    run_all(&scene, tasks).await;
    // A server that one command starts is there for the next.
    if is_installed("curl") && is_installed("python3") {
        scene.succeeds("python3 -m http.server --bind 127.0.0.1 8125 >/dev/null 2>&1 & echo started").await;
        scene
            .succeeds(
                "curl -s --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8125/a | grep a",
            )
            .await;
    }
}
