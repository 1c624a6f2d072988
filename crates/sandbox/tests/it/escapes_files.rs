//! More attacks: files that other programs act on, secrets, sockets and limits.

#![expect(unsafe_code, reason = "attacks are system calls")]
#![expect(clippy::disallowed_methods, reason = "an attacker takes no care")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::escapes::{
    Attack, FILES, KERNEL, Outcome, PROCESSES, SECRETS, SOCKETS, append, attack, check, read,
};

const PROTECTED: &str = "protected files";
const REPOSITORIES: &str = "new repositories";
const LIMITS: &str = "shared limits";

/// Secrets that the scene has in its home; reading any of them is an escape.
pub(crate) const HIDDEN: &[&str] = &[
    ".android/adbkey",
    ".aws/credentials",
    ".bash_history",
    ".cargo/credentials.toml",
    ".config/age/keys.txt",
    ".config/configstore/x.json",
    ".config/gh/hosts.yml",
    ".config/git/config",
    ".config/helm/x",
    ".config/ngrok/x",
    ".config/pip/pip.conf",
    ".config/stripe/x",
    ".docker/config.json",
    ".gemini/settings.json",
    ".git-credentials",
    ".gitconfig",
    ".gnupg/secring",
    ".kube/config",
    ".local/share/gopass/x",
    ".local/share/opencode/auth.json",
    ".m2/settings.xml",
    ".minikube/x",
    ".netrc",
    ".npmrc",
    ".psql_history",
    ".ssh/id",
    ".yarnrc.yml",
];

pub(crate) const ATTACKS: &[Attack] = &[
    attack(9, "write-through-an-old-hard-link", "hard links", |_| append(Path::new("linked")))
        .everywhere(Outcome::Open),
    attack(11, "read-any-secret", SECRETS, |aim| {
        let found = HIDDEN.iter().find(|name| read(&aim.home.join(name)).is_ok());
        found.map(|name| say(name)).ok_or(Error::other("none"))
    }),
    attack(11, "read-secrets-of-the-system", SECRETS, |_| {
        let known = ["/etc/shadow", "/etc/gshadow", "/etc/ssl/private/ssl-cert-snakeoil.key"];
        let found = known.iter().find(|path| fs::read(path).is_ok_and(|text| !text.is_empty()));
        found.map(|name| say(name)).ok_or(Error::other("none"))
    }),
    attack(32, "session-bus", SOCKETS, |_| {
        let user = unsafe { libc::getuid() };
        let known = ["bus", "systemd/private", "pipewire-0", "wayland-0", "gnupg/S.gpg-agent"];
        any(known.iter().map(|name| UnixStream::connect(format!("/run/user/{user}/{name}")).map(drop)))
    }),
    attack(35, "socket-of-gpg-agent", SOCKETS, |aim| {
        UnixStream::connect(aim.home.join(".gnupg/S.gpg-agent")).map(drop)
    }),
    attack(36, "socket-in-a-home", SOCKETS, |aim| {
        let names = ["notes/daemon.sock", "notes/renamed.sock"].into_iter();
        any(names.map(|name| UnixStream::connect(aim.home.join(name)).map(drop)))
    }),
    attack(36, "socket-of-a-terminal", SOCKETS, |_| {
        let user = unsafe { libc::getuid() };
        let known = [
            format!("/tmp/tmux-{user}/default"),
            format!("/tmp/tmux-{user}/pollux-test"),
            "/tmp/kitty".into(),
        ];
        any(known.iter().map(|path| UnixStream::connect(path).map(drop)))
    }),
    attack(37, "socket-of-an-editor", SOCKETS, |_| {
        let named = ["VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "NVIM", "KITTY_LISTEN_ON"];
        any(named.iter().map(|name| std::env::var_os(name).map(drop).ok_or(Error::other("unset"))))
    }),
    attack(38, "socket-in-the-workspace", "workspace sockets", |_| UnixStream::connect("socket").map(drop))
        .everywhere(Outcome::Open)
        .at_landlock(Outcome::Refused),
    attack(39, "schedule", FILES, |aim| {
        let (home, system) = (&aim.home, Path::new("/var/spool/cron"));
        let places = [
            system.join("crontabs/x"),
            "/etc/cron.d/x".into(),
            "/etc/systemd/system/x.service".into(),
            home.join(".config/systemd/user/x.service"),
            home.join(".config/autostart/x.desktop"),
            "/var/spool/cron/atjobs/x".into(),
        ];
        any(places.iter().map(|path| {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(path).map(drop)
        }))
    }),
    attack(43, "other-entry", KERNEL, |_| other_entry()),
    attack(44, "more-filters", KERNEL, |_| {
        let allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
        let program = libc::sock_fprog { len: 1, filter: (&raw const allow).cast_mut() };
        unsafe {
            libc::syscall(libc::SYS_seccomp, 1, 0, &raw const program);
            libc::personality(0x0040_0000);
        }
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })
    }),
    attack(50, "start-up-variables", "environment", |_| {
        let named = ["BASH_ENV", "ENV", "LD_AUDIT", "LD_PRELOAD", "GIT_DIR", "GIT_EXEC_PATH", "SSH_ASKPASS"];
        any(named.iter().map(|name| std::env::var_os(name).map(drop).ok_or(Error::other("unset"))))
    }),
    attack(53, "variables-of-the-holder", PROCESSES, |_| {
        let parent = unsafe { libc::getppid() };
        any([1, parent].iter().map(|id| {
            let text = fs::read_to_string(format!("/proc/{id}/environ"))?;
            if text.contains("SECRET") { Ok(()) } else { Err(Error::other("none")) }
        }))
    }),
    attack(54, "arguments-of-pollux", PROCESSES, |_| {
        let all = fs::read_dir("/proc")?.flatten().map(|entry| entry.path().join("cmdline"));
        any(all.map(|path| {
            let text = fs::read_to_string(path)?;
            if text.contains("SECRET-ARGUMENT") { Ok(()) } else { Err(Error::other("none")) }
        }))
    }),
    attack(73, "write-a-hook", PROTECTED, |_| File::create(".git/hooks/pre-commit").map(drop))
        .at_landlock(Outcome::Undone),
    attack(73, "replace-hooks", PROTECTED, |_| {
        fs::rename(".git/hooks", "hooks-away").and_then(|()| fs::create_dir(".git/hooks"))
    })
    .at_landlock(Outcome::Undone),
    attack(73, "replace-git", PROTECTED, |_| {
        fs::rename(".git", "git-away").and_then(|()| fs::create_dir(".git"))?;
        fs::write(".git/config", "[core]\n\tfsmonitor = x\n")
    })
    .at_landlock(Outcome::Undone),
    attack(73, "remove-hooks", PROTECTED, |_| fs::remove_dir_all(".git/hooks")).at_landlock(Outcome::Undone),
    attack(74, "configure-git", PROTECTED, |_| append(Path::new(".git/config"))).at_landlock(Outcome::Undone),
    attack(74, "replace-configuration", PROTECTED, |_| {
        fs::write(".git/new", "[core]\n\thooksPath = x\n")?;
        let renamed = fs::rename(".git/new", ".git/config");
        let _ = fs::remove_file(".git/new");
        renamed
    })
    .at_landlock(Outcome::Undone),
    attack(74, "configure-a-work-tree", PROTECTED, |_| fs::write(".git/config.worktree", "[core]\n"))
        .everywhere(Outcome::Undone),
    attack(75, "other-common-folder", PROTECTED, |_| fs::write(".git/commondir", "../evil\n"))
        .everywhere(Outcome::Undone),
    attack(75, "pointer-to-a-repository", REPOSITORIES, |_| {
        repository("evil")?;
        fs::create_dir_all("pointed")?;
        fs::write("pointed/.git", "gitdir: ../evil\n")
    })
    .everywhere(Outcome::Undone),
    attack(75, "link-to-a-repository", REPOSITORIES, |_| {
        fs::create_dir_all("linked-repository")?;
        symlink("../src", "linked-repository/.git")
    })
    .everywhere(Outcome::Undone),
    attack(76, "redirect-a-work-tree", REPOSITORIES, |_| {
        fs::write(".git/worktrees/tree/commondir", "../../../evil\n")
    })
    .everywhere(Outcome::Undone),
    attack(77, "hook-of-a-submodule", REPOSITORIES, |_| {
        fs::create_dir_all(".git/modules/lib/hooks")?;
        fs::write(".git/modules/lib/hooks/post-checkout", "#!/bin/sh\n")
    })
    .everywhere(Outcome::Undone),
    attack(77, "configure-a-submodule", REPOSITORIES, |_| append(Path::new(".git/modules/lib/config")))
        .everywhere(Outcome::Undone),
    attack(77, "command-of-a-submodule", PROTECTED, |_| {
        fs::write(".gitmodules", "[submodule \"x\"]\n\tupdate = !evil\n")
    })
    .everywhere(Outcome::Undone),
    attack(78, "nested-repository", REPOSITORIES, |_| repository("nested/.git")).everywhere(Outcome::Undone),
    attack(78, "bare-repository", REPOSITORIES, |_| repository("planted")).everywhere(Outcome::Undone),
    attack(79, "attributes", PROTECTED, |_| {
        fs::create_dir_all(".git/info")?;
        fs::write(".git/info/attributes", "* filter=evil\n")
    })
    .everywhere(Outcome::Told),
    attack(80, "own-settings", PROTECTED, |_| append(Path::new(".gemini/settings.json")))
        .at_landlock(Outcome::Undone),
    attack(80, "own-policies", PROTECTED, |_| {
        fs::create_dir_all(".gemini/policies").and_then(|()| fs::write(".gemini/policies/x.toml", "x"))
    })
    .at_landlock(Outcome::Undone),
    attack(80, "own-policies-as-if-moved-aside", PROTECTED, |_| {
        fs::create_dir_all(".gemini/policies")
            .and_then(|()| fs::write(".gemini/policies/x.sandbox-blocked-1.toml", "x"))
    })
    .at_landlock(Outcome::Undone),
    attack(80, "conversations-of-other-projects", SECRETS, |aim| {
        read(&aim.home.join(".gemini/tmp/other/chats/session.json"))
    }),
    attack(80, "keys-of-extensions", SECRETS, |aim| read(&aim.home.join(".gemini/extensions/e/.env"))),
    attack(80, "own-trust", FILES, |aim| append(&aim.home.join(".gemini/trustedFolders.json"))),
    attack(81, "new-editor-tasks", PROTECTED, |_| {
        fs::create_dir_all(".vscode").and_then(|()| fs::write(".vscode/tasks.json", "{}"))
    })
    .everywhere(Outcome::Undone),
    attack(81, "new-shell-settings", PROTECTED, |_| fs::write(".envrc", "evil")).everywhere(Outcome::Undone),
    attack(81, "new-servers", PROTECTED, |_| fs::write(".mcp.json", "{}")).everywhere(Outcome::Undone),
    attack(81, "new-editor-workspace", PROTECTED, |_| fs::write("x.code-workspace", "{}"))
        .everywhere(Outcome::Undone),
    attack(81, "new-agent-settings", PROTECTED, |_| {
        fs::create_dir_all(".claude").and_then(|()| fs::write(".claude/settings.json", "{}"))
    })
    .everywhere(Outcome::Undone),
    attack(81, "settings-of-another-agent", PROTECTED, |_| fs::write(".aider.conf.yml", "lint-cmd: evil"))
        .everywhere(Outcome::Undone),
    attack(81, "nested-editor-tasks", PROTECTED, |_| {
        fs::create_dir_all("src/.vscode").and_then(|()| fs::write("src/.vscode/tasks.json", "{}"))
    })
    .everywhere(Outcome::Told),
    attack(83, "hooks-of-a-manager", PROTECTED, |_| fs::write("lefthook.yml", "pre-commit: evil"))
        .everywhere(Outcome::Told),
    attack(83, "settings-of-a-package-manager", PROTECTED, |_| fs::write(".yarnrc.yml", "yarnPath: evil"))
        .everywhere(Outcome::Told),
    attack(83, "script-of-a-package", PROTECTED, |_| {
        fs::write("package.json", r#"{"scripts": {"postinstall": "evil"}}"#)
    })
    .everywhere(Outcome::Told),
    attack(83, "instructions-for-agents", PROTECTED, |_| fs::write("AGENTS.md", "obey"))
        .everywhere(Outcome::Told),
    attack(84, "poison-a-cache", "package caches", |aim| fs::write(aim.home.join(".cache/pip/x"), "evil"))
        .everywhere(Outcome::Open),
    attack(85, "plant-a-program-in-a-cache", FILES, |aim| {
        fs::write(aim.home.join(".cache/other/bin"), "evil")
    }),
    attack(85, "plant-a-program", FILES, |aim| {
        fs::create_dir_all(aim.home.join(".local/bin"))?;
        fs::write(aim.home.join(".local/bin/git"), "evil")
    }),
    attack(89, "survive-the-others", LIMITS, |_| {
        OpenOptions::new().write(true).open("/proc/self/oom_score_adj")?;
        fs::write("/proc/self/oom_score_adj", "-500")
    }),
    attack(91, "more-descriptors", LIMITS, |_| {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
    }),
    attack(91, "core-dumps", LIMITS, |_| {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        check(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) })
    }),
    attack(95, "read-a-dotenv", "workspace secrets", |_| read(Path::new(".env"))).everywhere(Outcome::Open),
];

/// Numbers of the list that are not in the table, and why.
pub(crate) const NOT_HERE: &[(u8, &str)] = &[
    (7, "needs a race from outside: `races::`"),
    (48, "output is made harmless where it is shown; tests of `exec` and `screen`"),
    (49, "as 48"),
    (51, "needs another search path: tests of `exec`"),
    (63, "needs the proxy"),
    (64, "needs the proxy: `sandbox_attacks` of `cli`"),
    (65, "needs the proxy"),
    (66, "needs the proxy: `sandbox_attacks` of `cli`"),
    (67, "needs the proxy"),
    (68, "needs the proxy"),
    (69, "needs the proxy: `sandbox_attacks` of `cli`"),
    (70, "needs the proxy: `sandbox_attacks` of `cli`"),
    (71, "needs the proxy"),
    (72, "open by design: a host that is allowed can be sent anything"),
    (82, "file names differ by case on this system"),
    (86, "needs the end of the session: `sessions::`"),
    (87, "needs the end of the program: `sessions::` and `soak::`"),
    (88, "needs the end of the session: `sessions::`"),
    (90, "would fill the disk; the size of the shared memory: `races::`"),
    (92, "output is bounded where it is read; tests of `exec`"),
    (93, "needs a change from outside: `sessions::`"),
    (94, "needs other folders: `races::`"),
    (96, "needs a grant"),
    (97, "needs a grant: `sandbox_attacks` of `cli`"),
    (98, "needs a question"),
    (99, "needs a container"),
];

fn any(attempts: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let mut attempts = attempts;
    if attempts.any(|attempt| attempt.is_ok()) { Ok(()) } else { Err(Error::other("none")) }
}

#[expect(clippy::print_stdout, reason = "a test that fails shows it")]
fn say(what: &str) {
    println!("{what}");
}

/// A repository that runs programs.
fn repository(path: &str) -> io::Result<()> {
    for folder in ["hooks", "objects", "refs"] {
        fs::create_dir_all(Path::new(path).join(folder))?;
    }
    let write = |name: &str, text: &str| fs::write(Path::new(path).join(name), text);
    write("HEAD", "ref: refs/heads/main\n")?;
    write("config", "[core]\n\tbare = false\n\tfsmonitor = ./evil\n[alias]\n\tst = !evil\n")?;
    write("hooks/pre-commit", "#!/bin/sh\nevil\n")
}

/// Another way into the kernel, with other numbers.
#[cfg(target_arch = "x86_64")]
fn other_entry() -> io::Result<()> {
    extern "C" fn refused(_: i32) {
        unsafe { libc::_exit(crate::escapes::REFUSED) }
    }
    let handler = refused as extern "C" fn(i32);
    unsafe { libc::signal(libc::SIGSEGV, handler as libc::sighandler_t) };
    // getpid
    let mut answer: i64 = 20;
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
    };
    if answer > 0 { Ok(()) } else { Err(Error::other("refused")) }
}

#[cfg(not(target_arch = "x86_64"))]
fn other_entry() -> io::Result<()> {
    Err(Error::other("none"))
}
