//! The system call filter of every level.
//!
//! It blocks what neither mounts nor Landlock rules control: sockets that leave the machine without a network
//! interface, calls that do the work of others unseen by the filter, key rings, new namespaces and mounts, and input
//! faked for a terminal. Refused calls get the error that programs expect from a kernel without the feature, so that
//! they fall back.

use std::io;

use libc::sock_filter;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_00B7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xC000_00F3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: Option<u32> = None;

/// On x86-64, numbers from here on are the same calls under another ABI.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const AND: u16 = 0x54;
const GO_TO: u16 = 0x05;
const RETURN: u16 = 0x06;
/// Where `struct seccomp_data` has them; all three architectures store the low half of an argument first.
const NUMBER: u32 = 0;
const ARCHITECTURE_FIELD: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;
const SECOND_ARGUMENT: u32 = 24;
const THIRD_ARGUMENT: u32 = 32;

// Numbers that are the same on all three architectures and that older headers lack.
const CLONE3: i64 = 435;
const OPEN_TREE_ATTR: i64 = 467;
const QUOTACTL_FD: i64 = 443;
const KEXEC_FILE_LOAD: i64 = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// They do the work of other calls, unseen by a filter.
const ASYNCHRONOUS: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
const KEYS: &[i64] = &[libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key];
const MOUNTS: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_chroot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    QUOTACTL_FD,
    libc::SYS_setns,
];
const KERNEL: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_lookup_dcookie,
    libc::SYS_open_by_handle_at,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// The flags of `clone` that make namespaces; `unshare` has one more, which means a signal in `clone`.
const NEW_NAMESPACES: u32 = 0x7e02_0000;
const NEW_TIME_NAMESPACE: u32 = 0x80;
const FAKE_INPUT: u32 = 0x5412;
const CONSOLE: u32 = 0x541C;
/// A socket's type without its flags.
const TYPE_BITS: u32 = 0xf;
const ICMP: u32 = 1;
const ICMP6: u32 = 58;

/// Sockets that a command may make, beyond what every level forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sockets {
    /// Unix sockets. If daemon sockets are not hidden by mounts, they are a way out.
    pub(crate) unix: bool,
    /// If no namespace cuts off the network, its sockets are refused.
    pub(crate) internet: bool,
}

/// An instruction; jumps go to labels until all instructions are known.
enum Step {
    Load(u32),
    And(u32),
    /// To the label if true, else to the next instruction.
    Equal(u32, Label),
    NotEqual(u32, Label),
    AtLeast(u32, Label),
    AnyBit(u32, Label),
    GoTo(Label),
    Return(u32),
    Mark(Label),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// The end of the part that is being written, by number.
    Part(u32),
    /// The refusal of that part.
    Refused(u32),
    Internet,
    Netlink,
    Allow,
}

fn refuse(error: i32) -> Step {
    Step::Return(libc::SECCOMP_RET_ERRNO | error.cast_unsigned())
}

/// The filter; `None` for an architecture that it was not written for.
pub(crate) fn filter(sockets: Sockets) -> Option<Vec<sock_filter>> {
    let architecture = ARCHITECTURE?;
    let mut steps = vec![Step::Load(ARCHITECTURE_FIELD), Step::NotEqual(architecture, Label::Refused(0))];
    steps.push(Step::Load(NUMBER));
    if cfg!(target_arch = "x86_64") {
        steps.push(Step::AtLeast(X32, Label::Refused(0)));
    }
    steps.extend([
        Step::GoTo(Label::Part(0)),
        Step::Mark(Label::Refused(0)),
        refuse(libc::ENOSYS),
        Step::Mark(Label::Part(0)),
    ]);
    let absent = [ASYNCHRONOUS, KEYS, &[CLONE3]].concat();
    calls(&mut steps, 1, &absent, libc::ENOSYS);
    calls(&mut steps, 2, &[MOUNTS, KERNEL].concat(), libc::EPERM);
    let new = |part| vec![Step::AnyBit(NEW_NAMESPACES, Label::Refused(part))];
    flags(&mut steps, 3, libc::SYS_clone, FIRST_ARGUMENT, new(3));
    let mut all = new(4);
    all.push(Step::AnyBit(NEW_TIME_NAMESPACE, Label::Refused(4)));
    flags(&mut steps, 4, libc::SYS_unshare, FIRST_ARGUMENT, all);
    // The kernel looks at the low half of a request only, and so does this.
    let faked = [FAKE_INPUT, CONSOLE].map(|request| Step::Equal(request, Label::Refused(5)));
    flags(&mut steps, 5, libc::SYS_ioctl, SECOND_ARGUMENT, faked.into());
    let pair = vec![Step::NotEqual(number(libc::AF_UNIX.into()), Label::Refused(6))];
    flags(&mut steps, 6, libc::SYS_socketpair, FIRST_ARGUMENT, pair);
    sockets_part(&mut steps, sockets);
    steps.extend([Step::Mark(Label::Allow), Step::Return(libc::SECCOMP_RET_ALLOW)]);
    assemble(&steps)
}

/// Refuses calls by number.
fn calls(steps: &mut Vec<Step>, part: u32, calls: &[i64], error: i32) {
    steps.extend(calls.iter().map(|call| Step::Equal(number(*call), Label::Refused(part))));
    steps.extend([
        Step::GoTo(Label::Part(part)),
        Step::Mark(Label::Refused(part)),
        refuse(error),
        Step::Mark(Label::Part(part)),
    ]);
}

/// Refuses a call by one of its arguments.
fn flags(steps: &mut Vec<Step>, part: u32, call: i64, argument: u32, tests: Vec<Step>) {
    let error = if call == libc::SYS_socketpair { libc::EAFNOSUPPORT } else { libc::EPERM };
    steps.extend([Step::NotEqual(number(call), Label::Part(part)), Step::Load(argument)]);
    steps.extend(tests);
    steps.extend([
        Step::GoTo(Label::Allow),
        Step::Mark(Label::Refused(part)),
        refuse(error),
        Step::Mark(Label::Part(part)),
    ]);
}

/// The sockets that may be made: the last part.
fn sockets_part(steps: &mut Vec<Step>, sockets: Sockets) {
    let is = |value: i32, label| Step::Equal(number(value.into()), label);
    steps.extend([Step::NotEqual(number(libc::SYS_socket), Label::Allow), Step::Load(FIRST_ARGUMENT)]);
    if sockets.unix {
        steps.push(is(libc::AF_UNIX, Label::Allow));
    } else {
        steps.push(is(libc::AF_UNIX, Label::Refused(8)));
    }
    let internet = if sockets.internet { Label::Internet } else { Label::Refused(9) };
    steps.extend([is(libc::AF_INET, internet), is(libc::AF_INET6, internet)]);
    steps.extend([
        is(libc::AF_NETLINK, Label::Netlink),
        Step::Mark(Label::Refused(10)),
        refuse(libc::EAFNOSUPPORT),
        Step::Mark(Label::Refused(8)),
        refuse(libc::EPERM),
        Step::Mark(Label::Refused(9)),
        refuse(libc::EACCES),
        // The list of interfaces, which many programs read at their start, and nothing else.
        Step::Mark(Label::Netlink),
        Step::Load(THIRD_ARGUMENT),
        is(libc::NETLINK_ROUTE, Label::Allow),
        Step::GoTo(Label::Refused(11)),
        Step::Mark(Label::Internet),
        Step::Load(SECOND_ARGUMENT),
        Step::And(TYPE_BITS),
        is(libc::SOCK_STREAM, Label::Part(12)),
        is(libc::SOCK_DGRAM, Label::Part(12)),
        Step::Mark(Label::Refused(11)),
        refuse(libc::EPROTONOSUPPORT),
        Step::Mark(Label::Part(12)),
        Step::Load(THIRD_ARGUMENT),
        is(0, Label::Allow),
        is(libc::IPPROTO_TCP, Label::Allow),
        is(libc::IPPROTO_UDP, Label::Allow),
        Step::Equal(ICMP, Label::Allow),
        Step::Equal(ICMP6, Label::Allow),
        refuse(libc::EPROTONOSUPPORT),
    ]);
}

fn number(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The instructions; `None` if a jump is too long.
fn assemble(steps: &[Step]) -> Option<Vec<sock_filter>> {
    let instructions = |steps: &[Step]| steps.iter().filter(|step| !matches!(step, Step::Mark(_))).count();
    let place = |label: Label| {
        let at = steps.iter().position(|step| matches!(step, Step::Mark(mark) if *mark == label))?;
        Some(instructions(steps.get(..at)?))
    };
    let mut assembled: Vec<sock_filter> = Vec::new();
    for step in steps {
        let next = assembled.len() + 1;
        let far = |to: Label| place(to).and_then(|at| at.checked_sub(next));
        let jump = |to: Label| far(to).and_then(|distance| u8::try_from(distance).ok());
        let plain = |code, k| sock_filter { code, jt: 0, jf: 0, k };
        let instruction = match *step {
            Step::Mark(_) => continue,
            Step::Load(offset) => plain(LOAD, offset),
            Step::And(bits) => plain(AND, bits),
            Step::Return(verdict) => plain(RETURN, verdict),
            Step::GoTo(to) => plain(GO_TO, u32::try_from(far(to)?).ok()?),
            Step::Equal(k, to) => sock_filter { code: IF_EQUAL, jt: jump(to)?, jf: 0, k },
            Step::NotEqual(k, to) => sock_filter { code: IF_EQUAL, jt: 0, jf: jump(to)?, k },
            Step::AtLeast(k, to) => sock_filter { code: IF_AT_LEAST, jt: jump(to)?, jf: 0, k },
            Step::AnyBit(k, to) => sock_filter { code: IF_ANY_BIT, jt: jump(to)?, jf: 0, k },
        };
        assembled.push(instruction);
    }
    Some(assembled)
}

/// Permanently installs the filter on the calling thread and everything it starts.
#[expect(unsafe_code, reason = "the standard library has no prctl")]
pub(crate) fn install(filter: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or_default(),
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` describes the slice, both live through the call, and the kernel copies the filter.
    let status = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACES: Sockets = Sockets { unix: true, internet: true };
    const LANDLOCK: Sockets = Sockets { unix: false, internet: true };
    const LANDLOCK_OFFLINE: Sockets = Sockets { unix: false, internet: false };
    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

    fn error(number: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
    }

    /// The kernel's verdict.
    fn verdict(filter: &[sock_filter], architecture: u32, call: u32, arguments: [u64; 3]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = filter[at];
            at += 1;
            let taken = match step.code {
                LOAD => {
                    value = match step.k {
                        NUMBER => call,
                        ARCHITECTURE_FIELD => architecture,
                        offset => {
                            let argument = arguments[(offset - FIRST_ARGUMENT) as usize / 8];
                            (argument & 0xffff_ffff) as u32
                        }
                    };
                    continue;
                }
                AND => {
                    value &= step.k;
                    continue;
                }
                GO_TO => {
                    at += step.k as usize;
                    continue;
                }
                RETURN => return step.k,
                IF_EQUAL => value == step.k,
                IF_ANY_BIT => value & step.k != 0,
                _ => value >= step.k,
            };
            at += usize::from(if taken { step.jt } else { step.jf });
        }
    }

    fn own(sockets: Sockets, call: i64, arguments: [u64; 3]) -> u32 {
        verdict(&filter(sockets).unwrap(), ARCHITECTURE.unwrap(), number(call), arguments)
    }

    #[test]
    fn sockets_are_limited_by_family_type_and_protocol() {
        let socket = |sockets, family: i32, kind: i32, protocol: u64| {
            let flags = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            own(sockets, libc::SYS_socket, [family as u64, flags as u64, protocol])
        };
        let (stream, dgram, raw) = (libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW);
        for sockets in [NAMESPACES, LANDLOCK] {
            for family in [libc::AF_INET, libc::AF_INET6] {
                for (kind, protocol) in [(stream, 0), (stream, 6), (dgram, 17), (dgram, 1), (dgram, 58)] {
                    assert_eq!(
                        socket(sockets, family, kind, protocol),
                        ALLOWED,
                        "{family} {kind} {protocol}"
                    );
                }
                // MPTCP, SCTP in both ways, raw, packet.
                for (kind, protocol) in
                    [(stream, 262), (stream, 132), (libc::SOCK_SEQPACKET, 0), (raw, 1), (10, 0)]
                {
                    let refused = error(libc::EPROTONOSUPPORT);
                    assert_eq!(
                        socket(sockets, family, kind, protocol),
                        refused,
                        "{family} {kind} {protocol}"
                    );
                }
            }
            assert_eq!(socket(sockets, libc::AF_NETLINK, raw, 0), ALLOWED);
            assert_eq!(socket(sockets, libc::AF_NETLINK, raw, 12), error(libc::EPROTONOSUPPORT));
            for family in
                [libc::AF_VSOCK, libc::AF_PACKET, libc::AF_ALG, libc::AF_BLUETOOTH, libc::AF_XDP, 29, 99]
            {
                assert_eq!(socket(sockets, family, stream, 0), error(libc::EAFNOSUPPORT), "{family}");
            }
        }
        assert_eq!(socket(NAMESPACES, libc::AF_UNIX, stream, 0), ALLOWED);
        assert_eq!(socket(LANDLOCK, libc::AF_UNIX, stream, 0), error(libc::EPERM));
        assert_eq!(socket(LANDLOCK_OFFLINE, libc::AF_INET, stream, 0), error(libc::EACCES));
        assert_eq!(socket(LANDLOCK_OFFLINE, libc::AF_INET6, dgram, 0), error(libc::EACCES));
        assert_eq!(socket(LANDLOCK_OFFLINE, libc::AF_NETLINK, raw, 0), ALLOWED);
        let pair = |family: i32| own(LANDLOCK, libc::SYS_socketpair, [family as u64, 1, 0]);
        assert_eq!((pair(libc::AF_UNIX), pair(30)), (ALLOWED, error(libc::EAFNOSUPPORT)));
    }

    #[test]
    fn every_listed_call_is_refused_and_ordinary_ones_are_not() {
        for sockets in [NAMESPACES, LANDLOCK, LANDLOCK_OFFLINE] {
            for call in ASYNCHRONOUS.iter().chain(KEYS).chain(&[CLONE3]) {
                assert_eq!(own(sockets, *call, [0; 3]), error(libc::ENOSYS), "{call}");
            }
            for call in MOUNTS.iter().chain(KERNEL) {
                assert_eq!(own(sockets, *call, [0; 3]), error(libc::EPERM), "{call}");
            }
            let ordinary = [
                libc::SYS_openat,
                libc::SYS_execve,
                libc::SYS_ptrace,
                libc::SYS_bind,
                libc::SYS_listen,
                libc::SYS_setsockopt,
                libc::SYS_connect,
                libc::SYS_kill,
                libc::SYS_prctl,
                libc::SYS_clock_gettime,
            ];
            for call in ordinary {
                assert_eq!(own(sockets, call, [u64::MAX; 3]), ALLOWED, "{call}");
            }
        }
    }

    #[test]
    fn arguments_decide_on_namespaces_and_terminals() {
        let check = |call, arguments| own(NAMESPACES, call, arguments);
        let refused = error(libc::EPERM);
        for flag in
            [0x1000_0000_u64, 0x2_0000, 0x2000_0000, 0x4000_0000, 0x0800_0000, 0x0400_0000, 0x0200_0000]
        {
            assert_eq!(check(libc::SYS_clone, [flag | 17, 0, 0]), refused, "{flag:x}");
            assert_eq!(check(libc::SYS_unshare, [flag, 0, 0]), refused, "{flag:x}");
        }
        assert_eq!(check(libc::SYS_unshare, [0x80, 0, 0]), refused);
        // Threads, `vfork`, `fork`; a private table of files.
        for flags in [0x3d_0f00_u64, 0x4111, 0x0120_0011] {
            assert_eq!(check(libc::SYS_clone, [flags, 0, 0]), ALLOWED, "{flags:x}");
        }
        assert_eq!(check(libc::SYS_unshare, [0x400, 0, 0]), ALLOWED);
        for high in [0, 1 << 32, u64::MAX << 32] {
            assert_eq!(check(libc::SYS_ioctl, [0, high | 0x5412, 0]), refused);
            assert_eq!(check(libc::SYS_ioctl, [0, high | 0x541C, 0]), refused);
            assert_eq!(check(libc::SYS_ioctl, [0, high | 0x5413, 0]), ALLOWED);
        }
    }

    #[test]
    fn calls_of_other_architectures_and_abis_are_refused() {
        let (filter, own) = (filter(NAMESPACES).unwrap(), ARCHITECTURE.unwrap());
        assert_eq!(verdict(&filter, own ^ 1, number(libc::SYS_openat), [0; 3]), error(libc::ENOSYS));
        if cfg!(target_arch = "x86_64") {
            let x32 = X32 | number(libc::SYS_openat);
            assert_eq!(verdict(&filter, own, x32, [0; 3]), error(libc::ENOSYS));
        }
    }
}
