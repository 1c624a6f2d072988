//! A sandbox in which any line may run: bubblewrap, without network, without rights, with its own processes.
//!
//! On its `PATH`, and at every absolute path, only read-only tools are real. Every other program of this machine
//! is a tripwire that leaves its name in a log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pollux_test_support::executable;

use crate::everyday::write;
use crate::reads::SECRET;

/// Programs that the policy's table knows as read-only or as wrappers, and those that they start.
#[rustfmt::skip]
const REAL: &[&str] = &[
    "bash", "sh", "true", "false", "echo", "pwd", "test", "[", "printf", "expr", "id", "seq", "uname", "which", "whoami", "basename",
    "dirname", "uptime", "arch", "nproc", "free", "sleep", "cal", "tty", "groups", "logname", "locale", "lscpu", "getconf", "whereis",
    "clear", "yes", "pgrep", "pidof", "hostname", "printenv", "date", "df", "lsblk", "ps", "tee", "ls", "dir", "vdir", "du", "tree", "stat",
    "file", "realpath", "readlink", "find", "fd", "fdfind", "cat", "tac", "nl", "rev", "head", "tail", "wc", "cut", "paste", "tr",
    "column", "fold", "fmt", "expand", "unexpand", "pr", "od", "hexdump", "xxd", "strings", "md5sum", "sha1sum", "sha224sum",
    "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum", "sum", "base64", "base32", "zcat", "gzip", "gunzip", "numfmt", "tsort", "comm",
    "join", "cmp", "diff", "sort", "uniq", "grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "mawk", "nawk", "jq", "bc", "tar", "unzip",
    "zipinfo", "xz", "bzip2", "git", "nohup", "timeout", "nice", "ionice", "setsid", "stdbuf", "time", "chrt", "taskset", "xargs", "env",
    "busybox", "toybox", "rustup",
];
/// Programs of an allow-list, which may do anything, and wrappers that few machines have: they do nothing here.
const STUBS: &[&str] = &["cargo", "npm", "unbuffer", "caffeinate", "gtimeout"];
/// Names that are tripwires even where this machine does not have them.
#[rustfmt::skip]
const WIRES: &[&str] = &[
    "t1", "t2", "t3", "curl", "wget", "ssh", "scp", "rsync", "make", "node", "npx", "python", "python3", "perl", "ruby", "docker", "rm",
    "mv", "cp", "ln", "dd", "less", "more", "vi", "vim", "nano", "ed", "man", "gpg", "nc", "sudo", "pytest", "go", "rustc", "gcc", "pager",
];
const FOLDERS: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/games"];
/// What a line may take; a longer one is cut off, which can only hide a finding.
const SECONDS: &str = "3";

/// Reads folders and lines from its input, each ended by a zero byte. Nothing of a line outlives it.
const DRIVER: &str = r#"
ulimit -f 65536
while IFS= read -r -d '' home && IFS= read -r -d '' directory && IFS= read -r -d '' line; do
  cd "$directory" && unset OLDPWD
  HOME=$home timeout -s KILL SECONDS /bin/bash --noprofile --norc +O promptvars +O nullglob +O extglob \
    +O nocaseglob +O dotglob -c "$line" </dev/null >"$WIRE/out" 2>&1
  status=$?
  kill -9 -1
  echo "$status"
done
"#;

/// What a line did, apart from what the files say.
pub(super) struct Ran {
    /// Tripwires that ran.
    pub(super) programs: Vec<String>,
    pub(super) output: String,
    pub(super) in_time: bool,
}

pub(super) struct Jail {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    wire: PathBuf,
}

impl Jail {
    /// `None` if this machine has no bubblewrap, or does not permit it.
    pub(super) fn start(stage: &Path) -> Option<Self> {
        let wire = stage.join("wire");
        write(&wire.join("log"), "");
        let real = tools(&stage.join("bin"), &wire);
        system_files(&stage.join("etc"));
        let mut command = Command::new("bwrap");
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]).args([
            "--ro-bind",
            "/usr",
            "/usr",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--tmpfs",
            "/var",
        ]);
        for library in ["/lib", "/lib32", "/lib64"].map(Path::new).iter().filter(|path| path.exists()) {
            match fs::read_link(library) {
                Ok(target) => command.arg("--symlink").arg(target).arg(library),
                Err(_) => command.arg("--ro-bind").arg(library).arg(library),
            };
        }
        for (name, file) in &real {
            command.arg("--ro-bind").arg(file).arg(format!("/real/{name}"));
        }
        for folder in FOLDERS.iter().filter(|path| !path.starts_with("/usr") || Path::new(path).is_dir()) {
            command.arg("--ro-bind").arg(stage.join("bin")).arg(folder);
        }
        for (from, to) in [("etc", "/etc"), ("tmp", "/tmp"), ("srv", "/srv")] {
            fs::create_dir_all(stage.join(from)).unwrap();
            command.arg("--bind").arg(stage.join(from)).arg(to);
        }
        command.arg("--bind").arg(stage).arg(stage).args(["--remount-ro", "/"]);
        let mut child = command
            .args(["/bin/bash", "-c", &DRIVER.replace("SECONDS", SECONDS)])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C")
            .env("WIRE", &wire)
            .env("API_SECRET", SECRET.trim())
            .env("FUNCNEST", "8")
            .env("GIT_EDITOR", ":")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (input, output) = (child.stdin.take()?, child.stdout.take()?);
        let mut jail = Self { child, input, output, wire };
        jail.try_run(stage, stage, "true").map(|_| jail)
    }

    pub(super) fn run(&mut self, home: &Path, directory: &Path, line: &str) -> Ran {
        self.try_run(home, directory, line).unwrap()
    }

    fn try_run(&mut self, home: &Path, directory: &Path, line: &str) -> Option<Ran> {
        // What runs in the background may take its time.
        let waits = if line.contains('&') || line.contains(">(") { "\nwait" } else { "" };
        let text = format!("{}\0{}\0{line}{waits}\0", home.display(), directory.display());
        self.input.write_all(text.as_bytes()).ok()?;
        let (mut status, mut byte) = (String::new(), [0]);
        loop {
            self.output.read_exact(&mut byte).ok()?;
            if byte == *b"\n" {
                break;
            }
            status.push(char::from(byte[0]));
        }
        let log = fs::read_to_string(self.wire.join("log")).unwrap();
        if !log.is_empty() {
            write(&self.wire.join("log"), "");
        }
        let output = fs::read(self.wire.join("out")).unwrap_or_default();
        Some(Ran {
            programs: log.lines().map(str::to_owned).collect(),
            output: String::from_utf8_lossy(&output).into_owned(),
            in_time: status != "137",
        })
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fills the folder of programs, and returns which of them are real and where they are on this machine.
fn tools(bin: &Path, wire: &Path) -> BTreeMap<&'static str, PathBuf> {
    let script = format!("#!/real/bash\necho \"${{0##*/}}\" \"$*\" >> {}/log\n", wire.display());
    executable(bin.join("tripwire"), &script);
    executable(bin.join("stub"), "#!/real/bash\nexit 0\n");
    let mut real = BTreeMap::new();
    for name in REAL {
        if let Some(file) = on_path(name) {
            symlink(format!("/real/{name}"), bin.join(name)).unwrap();
            real.insert(*name, file);
        }
    }
    for name in STUBS {
        symlink("stub", bin.join(name)).unwrap();
    }
    let present = FOLDERS.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let names = present.map(|entry| entry.file_name()).chain(WIRES.iter().map(Into::into));
    for name in names {
        // Fails for the names that are there.
        let _ = symlink("tripwire", bin.join(name));
    }
    real
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = FOLDERS.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    folders.filter_map(|folder| folder.join(name).canonicalize().ok()).find(|file| file.is_file())
}

/// What programs need of `/etc`, and files that none may read.
fn system_files(etc: &Path) {
    write(&etc.join("passwd"), "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000::/home/me:/bin/bash\n");
    write(&etc.join("group"), "root:x:0:\n");
    for name in ["ld.so.cache", "localtime"] {
        if let Ok(bytes) = fs::read(Path::new("/etc").join(name)) {
            #[expect(clippy::disallowed_methods, reason = "a test file")]
            fs::write(etc.join(name), bytes).unwrap();
        }
    }
}
