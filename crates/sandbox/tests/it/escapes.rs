//! The attacks, run inside: each returns whether it succeeded.

#![expect(unsafe_code, reason = "attacks are system calls")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

pub(crate) const ARGUMENT: &str = "__attack";
/// If it succeeds, it ends everything that it reaches.
pub(crate) const SIGNAL_EVERYONE: &str = "signal-everyone";
pub(crate) const REACHED: i32 = 0;
pub(crate) const REFUSED: i32 = 3;

/// What is outside.
pub(crate) struct Aim {
    pub(crate) home: PathBuf,
    process: i32,
    pub(crate) pollux: i32,
    socket: PathBuf,
    abstract_name: String,
    port: u16,
}

/// What becomes of an attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Refused,
    /// It seems to succeed, and is undone.
    Undone,
    /// It succeeds, and the person and the model are told.
    Told,
    /// It succeeds. The report says so.
    Open,
}

pub(crate) struct Attack {
    /// As in the list of attacks that the sandbox is designed against.
    pub(crate) number: u8,
    pub(crate) name: &'static str,
    /// The line of the report that says whether it is held.
    pub(crate) right: &'static str,
    pub(crate) needs_network: Option<bool>,
    /// With a view of the file system of its own.
    pub(crate) namespaces: Outcome,
    pub(crate) landlock: Outcome,
    run: fn(&Aim) -> io::Result<()>,
}

pub(crate) const fn attack(
    number: u8,
    name: &'static str,
    right: &'static str,
    run: fn(&Aim) -> io::Result<()>,
) -> Attack {
    let (namespaces, landlock) = (Outcome::Refused, Outcome::Refused);
    Attack { number, name, right, needs_network: None, namespaces, landlock, run }
}

impl Attack {
    pub(crate) const fn at_landlock(self, landlock: Outcome) -> Self {
        Self { landlock, ..self }
    }

    pub(crate) const fn everywhere(self, outcome: Outcome) -> Self {
        Self { namespaces: outcome, landlock: outcome, ..self }
    }
}

/// Every attack.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().chain(crate::escapes_files::ATTACKS)
}

const fn offline(number: u8, name: &'static str, run: fn(&Aim) -> io::Result<()>) -> Attack {
    Attack { needs_network: Some(false), ..attack(number, name, "network", run) }
}

pub(crate) const FILES: &str = "files outside";
const MODES: &str = "modes and times outside";
pub(crate) const SECRETS: &str = "hidden places";
const DEVICES: &str = "devices";
const SYSTEM: &str = "system settings";
const MOUNTS: &str = "mounts and namespaces";
const PRIVILEGES: &str = "privileges";
pub(crate) const PROCESSES: &str = "processes outside";
pub(crate) const SOCKETS: &str = "daemon sockets";
pub(crate) const KERNEL: &str = "kernel interfaces";
const TERMINAL: &str = "terminals";
const DESCRIPTORS: &str = "descriptors";
const FAMILIES: &str = "unusual sockets";

const ATTACKS: &[Attack] = &[
    attack(1, "create-in-home", FILES, |aim| File::create(aim.home.join("outside")).map(drop)),
    attack(2, "append-to-startup-file", FILES, |aim| append(&aim.home.join(".bashrc"))),
    attack(3, "truncate", FILES, |aim| {
        OpenOptions::new().write(true).truncate(true).open(aim.home.join("notes/plain")).map(drop)
    }),
    attack(3, "truncate-by-path", FILES, |aim| {
        let path = terminated(&aim.home.join("notes/plain"));
        check(unsafe { libc::truncate(path.as_ptr(), 0) })
    }),
    attack(4, "delete", FILES, |aim| fs::remove_file(aim.home.join("notes/plain"))),
    attack(4, "rename", FILES, |aim| fs::rename(aim.home.join("notes/plain"), aim.home.join("notes/moved"))),
    attack(4, "take-away", FILES, |aim| fs::rename(aim.home.join("notes/plain"), "stolen")),
    attack(5, "rename-out", FILES, |aim| fs::rename("own", aim.home.join("moved"))),
    attack(6, "write-through-a-link", FILES, |aim| {
        let _ = symlink(aim.home.join("notes"), "link");
        append(Path::new("link/plain"))
    }),
    attack(8, "write-through-a-hard-link", FILES, |aim| {
        fs::hard_link(aim.home.join("notes/plain"), "hard").and_then(|()| append(Path::new("hard")))
    }),
    attack(10, "write-through-own-root", FILES, |aim| {
        append(&Path::new("/proc/self/root").join(aim.home.join("notes/plain").strip_prefix("/").unwrap()))
    }),
    attack(10, "write-above-own-folder", FILES, |_| append(Path::new("/proc/self/cwd/../home/notes/plain"))),
    attack(11, "read-through-other-roots", SECRETS, |aim| {
        let secret = aim.home.join(".ssh/id");
        any(&ancestors_and(aim), |id| {
            read(&Path::new(&format!("/proc/{id}/root")).join(secret.strip_prefix("/").unwrap()))
        })
    }),
    attack(11, "read-a-secret", SECRETS, |aim| read(&aim.home.join(".ssh/id"))),
    attack(11, "read-own-credentials", SECRETS, |aim| read(&aim.home.join(".gemini/oauth_creds.json"))),
    attack(12, "read-memory", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| File::open(format!("/proc/{id}/mem")).map(drop))
    }),
    attack(12, "read-variables", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| {
            let text = fs::read_to_string(format!("/proc/{id}/environ"))?;
            if text.is_empty() { Err(Error::other("empty")) } else { Ok(()) }
        })
    }),
    attack(13, "reopen-descriptors", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| File::open(format!("/proc/{id}/fd/0")).map(drop))
    }),
    attack(14, "open-by-handle", KERNEL, |_| {
        check(unsafe { libc::syscall(libc::SYS_open_by_handle_at, -1, 0, 0) } as i32)
            .or_else(not(libc::EPERM))
    }),
    attack(15, "change-mode", MODES, |aim| {
        fs::set_permissions(aim.home.join("notes/plain"), fs::Permissions::from_mode(0o777))
    })
    .at_landlock(Outcome::Open),
    attack(16, "change-times", MODES, |aim| {
        File::open(aim.home.join("notes/plain"))?.set_modified(std::time::UNIX_EPOCH)
    })
    .at_landlock(Outcome::Open),
    attack(17, "make-a-disk", DEVICES, |_| {
        check(unsafe { libc::mknod(c"disk".as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(254, 0)) })
            .and_then(|()| File::open("disk").map(drop))
    }),
    attack(17, "open-a-disk", DEVICES, |_| {
        ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/loop-control"]
            .iter()
            .find_map(|path| File::open(path).ok())
            .map(drop)
            .ok_or(Error::other("none"))
    }),
    attack(18, "change-the-system", SYSTEM, |_| {
        [
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sysrq-trigger",
            "/proc/sys/vm/drop_caches",
        ]
        .iter()
        .find_map(|path| OpenOptions::new().write(true).open(path).ok())
        .map(drop)
        .ok_or(Error::other("none"))
    }),
    attack(18, "change-the-clock", SYSTEM, |_| {
        check(unsafe { libc::syscall(libc::SYS_settimeofday, 0, 0) } as i32)
    }),
    attack(18, "change-the-host-name", SYSTEM, |_| check(unsafe { libc::sethostname(c"x".as_ptr(), 1) })),
    attack(19, "release-agent", SYSTEM, |_| find_writable(Path::new("/sys/fs/cgroup"), 3)),
    attack(20, "remount", MOUNTS, |_| {
        let flags = libc::MS_REMOUNT | libc::MS_BIND;
        check(unsafe {
            libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null())
        })
    }),
    attack(20, "unmount-a-cover", MOUNTS, |aim| {
        let path = terminated(&aim.home.join(".ssh"));
        check(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })
    }),
    attack(21, "new-user-namespace", MOUNTS, |_| check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })),
    attack(21, "new-mount-namespace", MOUNTS, |_| check(unsafe { libc::unshare(libc::CLONE_NEWNS) })),
    attack(22, "clone-into-a-namespace", MOUNTS, |_| {
        let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as u64;
        let status = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        if status == 0 {
            unsafe { libc::_exit(0) }
        }
        check(status as i32)
    }),
    attack(22, "clone3", MOUNTS, |_| {
        check(unsafe { libc::syscall(libc::SYS_clone3, 0, 0) } as i32).or_else(not(libc::ENOSYS))
    }),
    attack(23, "enter-other-namespaces", MOUNTS, |aim| {
        any(&[1, aim.process, aim.pollux], |id| {
            let namespace = File::open(format!("/proc/{id}/ns/mnt"))?;
            check(unsafe { libc::setns(namespace.as_raw_fd(), 0) })
        })
    }),
    attack(24, "chroot", MOUNTS, |_| check(unsafe { libc::chroot(c".".as_ptr()) })),
    attack(25, "new-mount-calls", MOUNTS, |_| {
        let open_tree = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1) };
        let fsopen = unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) };
        if open_tree >= 0 || fsopen >= 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }),
    attack(25, "pivot", MOUNTS, |_| {
        check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) } as i32)
    }),
    attack(26, "gain-privileges", PRIVILEGES, |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        let none = ["CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"]
            .iter()
            .all(|name| field(name).chars().all(|digit| digit == '0'));
        // A user without capabilities keeps a bounding set that cannot be used.
        let bounded = none
            || (field("CapPrm:").chars().all(|digit| digit == '0')
                && rustix::process::geteuid().as_raw() != 0);
        if field("NoNewPrivs:") == "1" && bounded { Err(Error::other("none")) } else { Ok(()) }
    }),
    attack(27, "trace", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| {
            check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, id, 0, 0) } as i32)
        })
    }),
    attack(28, "write-memory", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| {
            let mut byte = [0u8];
            let part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
            let far = libc::iovec { iov_base: 0x1000 as *mut libc::c_void, iov_len: 1 };
            let status = unsafe { libc::process_vm_readv(id, &raw const part, 1, &raw const far, 1, 0) };
            // A wrong address means that the process could be read.
            check(status as i32)
                .or_else(|error| if error.raw_os_error() == Some(libc::EFAULT) { Ok(()) } else { Err(error) })
        })
    }),
    attack(28, "take-a-descriptor", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux, parent()], |id| {
            let process = unsafe { libc::syscall(libc::SYS_pidfd_open, id, 0) } as i32;
            check(process)?;
            check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, 0, 0) } as i32)
        })
    }),
    attack(29, "stop", PROCESSES, |aim| {
        any(&[aim.process, aim.pollux], |id| check(unsafe { libc::kill(id, 0) }))
    }),
    attack(30, SIGNAL_EVERYONE, PROCESSES, |aim| {
        let state = || fs::read_to_string(format!("/proc/{}/stat", aim.process));
        // With processes of its own, it sees none outside.
        state()?;
        unsafe { libc::kill(-1, libc::SIGTERM) };
        for _ in 0..100 {
            if state().is_ok_and(|state| state.contains(") Z ")) {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(Error::other("the process outside runs"))
    }),
    attack(31, "abstract-socket", SOCKETS, |aim| {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&aim.abstract_name)?).map(drop)
    }),
    attack(34, "socket-of-an-agent", SOCKETS, |aim| UnixStream::connect(&aim.socket).map(drop)),
    attack(33, "socket-of-a-daemon", SOCKETS, |_| {
        let known = [
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/dbus/system_bus_socket",
            "/run/systemd/private",
        ];
        known.iter().find_map(|path| UnixStream::connect(path).ok()).map(drop).ok_or(Error::other("none"))
    }),
    attack(40, "keys", KERNEL, |_| check(unsafe { libc::syscall(libc::SYS_keyctl, 0, -4, 1) } as i32)),
    attack(40, "request-key", KERNEL, |_| {
        check(unsafe {
            libc::syscall(libc::SYS_add_key, c"user".as_ptr(), c"x".as_ptr(), c"y".as_ptr(), 1, -3)
        } as i32)
    }),
    attack(41, "io-uring", KERNEL, |_| {
        let mut parameters = [0u8; 120];
        check(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) } as i32)
    }),
    attack(42, "bpf", KERNEL, |_| {
        check(unsafe { libc::syscall(libc::SYS_bpf, 0, 0, 0) } as i32).or_else(not(libc::EPERM))
    }),
    attack(42, "perf", KERNEL, |_| {
        check(unsafe { libc::syscall(libc::SYS_perf_event_open, 0, 0, -1, -1, 0) } as i32)
            .or_else(not(libc::EPERM))
    }),
    attack(42, "userfaultfd", KERNEL, |_| check(unsafe { libc::syscall(libc::SYS_userfaultfd, 0) } as i32)),
    attack(43, "other-abi", KERNEL, |_| {
        if cfg!(target_arch = "x86_64") {
            check(unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) } as i32)
        } else {
            Err(Error::other("none"))
        }
    }),
    attack(45, "fake-input", TERMINAL, |_| {
        let null = File::open("/dev/null")?;
        check(unsafe { libc::ioctl(null.as_raw_fd(), 0x5412, c"x".as_ptr()) }).or_else(not(libc::EPERM))
    }),
    attack(46, "fake-input-with-high-bits", TERMINAL, |_| {
        let null = File::open("/dev/null")?;
        let request = 0xffff_ffff_0000_5412_u64;
        check(unsafe { libc::syscall(libc::SYS_ioctl, null.as_raw_fd(), request, c"x".as_ptr()) } as i32)
            .or_else(not(libc::EPERM))
    }),
    attack(47, "other-terminals", TERMINAL, |_| {
        (0..64)
            .find_map(|number| OpenOptions::new().write(true).open(format!("/dev/pts/{number}")).ok())
            .map(drop)
            .ok_or(Error::other("none"))
    }),
    attack(47, "consoles", TERMINAL, |_| {
        ["/dev/tty0", "/dev/tty1", "/dev/console", "/dev/ttyS0", "/dev/tty"]
            .iter()
            .find_map(|path| File::open(path).ok())
            .map(drop)
            .ok_or(Error::other("none"))
    }),
    attack(52, "inherited-descriptors", DESCRIPTORS, |_| {
        let open = fs::read_dir("/proc/self/fd")?
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        // The fourth is the listing itself.
        if open.filter(|number| *number > 2).count() > 1 { Ok(()) } else { Err(Error::other("none")) }
    }),
    attack(53, "variables", "environment", |_| {
        let leading =
            ["SSH_AUTH_SOCK", "LD_PRELOAD", "CANARY"].iter().any(|name| std::env::var_os(name).is_some());
        if leading { Ok(()) } else { Err(Error::other("none")) }
    }),
    offline(55, "tcp", |aim| std::net::TcpStream::connect(("127.0.0.1", aim.port)).map(drop)),
    offline(56, "udp", |_| std::net::UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "192.0.2.1:53").map(drop)),
    offline(58, "mapped-address", |aim| {
        std::net::TcpStream::connect(format!("[::ffff:127.0.0.1]:{}", aim.port)).map(drop)
    }),
    attack(57, "raw-sockets", FAMILIES, |_| socket(libc::AF_INET, libc::SOCK_RAW, 1)),
    attack(57, "packet-sockets", FAMILIES, |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0x300)),
    offline(59, "tcp-fast-open", |aim| {
        let stream =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)?;
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: aim.port.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        let size = size_of_val(&address) as libc::socklen_t;
        let to = (&raw const address).cast();
        let sent = unsafe {
            libc::sendto(stream.as_raw_fd(), c"x".as_ptr().cast(), 1, libc::MSG_FASTOPEN, to, size)
        };
        check(sent as i32)
    }),
    attack(59, "mptcp", FAMILIES, |_| socket(libc::AF_INET, libc::SOCK_STREAM, 262)),
    attack(59, "sctp", FAMILIES, |_| socket(libc::AF_INET, libc::SOCK_SEQPACKET, 0)),
    attack(60, "vsock", FAMILIES, |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    attack(61, "other-families", FAMILIES, |_| {
        let families = [
            libc::AF_ALG,
            libc::AF_BLUETOOTH,
            libc::AF_CAN,
            libc::AF_XDP,
            libc::AF_RDS,
            libc::AF_TIPC,
            libc::AF_NFC,
        ];
        families
            .iter()
            .find_map(|family| {
                socket(*family, libc::SOCK_RAW, 0).or_else(|_| socket(*family, libc::SOCK_SEQPACKET, 0)).ok()
            })
            .ok_or(Error::other("none"))
    }),
    attack(62, "netfilter", FAMILIES, |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 12)),
];

/// Runs one attack and returns the exit code.
pub(crate) fn run(arguments: &[String]) -> i32 {
    let [name, home, process, pollux, socket, abstract_name, port] = arguments else { return 1 };
    let aim = Aim {
        home: home.into(),
        process: process.parse().unwrap(),
        pollux: pollux.parse().unwrap(),
        socket: socket.into(),
        abstract_name: abstract_name.clone(),
        port: port.parse().unwrap(),
    };
    let Some(attack) = all().find(|attack| attack.name == name) else { return 1 };
    match (attack.run)(&aim) {
        Ok(()) => REACHED,
        Err(_) => REFUSED,
    }
}

pub(crate) fn check(status: i32) -> io::Result<()> {
    if status < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Any other error means that the kernel looked at the call.
fn not(expected: i32) -> impl Fn(Error) -> io::Result<()> {
    move |error| if error.raw_os_error() == Some(expected) { Err(error) } else { Ok(()) }
}

fn any(ids: &[i32], attempt: impl Fn(i32) -> io::Result<()>) -> io::Result<()> {
    ids.iter().find_map(|id| attempt(*id).ok()).ok_or(Error::other("none"))
}

fn parent() -> i32 {
    unsafe { libc::getppid() }
}

fn ancestors_and(aim: &Aim) -> [i32; 4] {
    [1, aim.process, aim.pollux, parent()]
}

fn terminated(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.to_str().unwrap()).unwrap()
}

pub(crate) fn append(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(b"x")
}

pub(crate) fn read(path: &Path) -> io::Result<()> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    if text.contains("SECRET") { Ok(()) } else { Err(Error::other("empty")) }
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<()> {
    check(unsafe { libc::socket(family, kind, protocol) })
}

fn find_writable(folder: &Path, depth: u8) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let reached = if is_folder {
            depth > 0 && find_writable(&path, depth - 1).is_ok()
        } else {
            ["release_agent", "cgroup.procs", "notify_on_release"].iter().any(|name| path.ends_with(name))
                && OpenOptions::new().write(true).open(&path).is_ok()
        };
        if reached {
            return Ok(());
        }
    }
    Err(Error::other("none"))
}
