//! A system call filter that blocks Unix sockets where mounts cannot.
//!
//! Landlock does not control sockets in the file system, and a command that reaches Docker, the session bus or
//! a terminal multiplexer has left the sandbox. So the filter forbids creating such sockets. Connected pairs,
//! which programs use to talk to their children, come from another system call and stay allowed.

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
const RETURN: u16 = 0x06;
/// Where `struct seccomp_data` has them; all three architectures store the low half of an argument first.
const NUMBER: u32 = 0;
const ARCHITECTURE_FIELD: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// An instruction; jumps go to labels until all instructions are known.
enum Step {
    Load(u32),
    /// To the label if true, else to the next instruction.
    Equal(u32, Verdict),
    NotEqual(u32, Verdict),
    AtLeast(u32, Verdict),
    Return(Verdict),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    Refuse,
}

/// The filter; `None` for an architecture that it was not written for.
pub(crate) fn filter(network: bool) -> Option<Vec<sock_filter>> {
    let architecture = ARCHITECTURE?;
    let families: &[i32] = if network {
        &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
    } else {
        // The list of interfaces, which many programs read at their start.
        &[libc::AF_NETLINK]
    };
    let mut steps = vec![
        Step::Load(ARCHITECTURE_FIELD),
        Step::NotEqual(architecture, Verdict::Refuse),
        Step::Load(NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        steps.push(Step::AtLeast(X32, Verdict::Refuse));
    }
    // It makes sockets without the system call for it.
    steps.push(Step::Equal(number(libc::SYS_io_uring_setup), Verdict::Refuse));
    steps.push(Step::NotEqual(number(libc::SYS_socket), Verdict::Allow));
    steps.push(Step::Load(FIRST_ARGUMENT));
    steps.extend(families.iter().map(|family| Step::Equal(number(i64::from(*family)), Verdict::Allow)));
    steps.push(Step::Return(Verdict::Refuse));
    steps.push(Step::Return(Verdict::Allow));
    Some(assemble(&steps))
}

fn number(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn assemble(steps: &[Step]) -> Vec<sock_filter> {
    let place = |wanted: Verdict| {
        steps.iter().position(|step| matches!(step, Step::Return(verdict) if *verdict == wanted))
    };
    let assembled = steps.iter().enumerate().map(|(index, step)| {
        let jump =
            |to: Verdict| place(to).and_then(|at| u8::try_from(at - index - 1).ok()).unwrap_or_default();
        match *step {
            Step::Load(offset) => sock_filter { code: LOAD, jt: 0, jf: 0, k: offset },
            Step::Equal(k, to) => sock_filter { code: IF_EQUAL, jt: jump(to), jf: 0, k },
            Step::NotEqual(k, to) => sock_filter { code: IF_EQUAL, jt: 0, jf: jump(to), k },
            Step::AtLeast(k, to) => sock_filter { code: IF_AT_LEAST, jt: jump(to), jf: 0, k },
            Step::Return(Verdict::Allow) => {
                sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }
            }
            Step::Return(Verdict::Refuse) => {
                let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
                sock_filter { code: RETURN, jt: 0, jf: 0, k: refusal }
            }
        }
    });
    assembled.collect()
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

    /// The kernel's verdict.
    fn verdict(filter: &[sock_filter], architecture: u32, call: i64, argument: i32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = filter[at];
            at += 1;
            let taken = match step.code {
                LOAD => {
                    value = match step.k {
                        NUMBER => number(call),
                        ARCHITECTURE_FIELD => architecture,
                        _ => argument.cast_unsigned(),
                    };
                    continue;
                }
                RETURN => return step.k,
                IF_EQUAL => value == step.k,
                _ => value >= step.k,
            };
            at += usize::from(if taken { step.jt } else { step.jf });
        }
    }

    #[test]
    fn only_allowed_socket_families_can_be_created() {
        let Some(own) = ARCHITECTURE else { return };
        let allow = libc::SECCOMP_RET_ALLOW;
        let (on, off) = (filter(true).unwrap(), filter(false).unwrap());
        let socket = |filter: &[sock_filter], family| verdict(filter, own, libc::SYS_socket, family) == allow;
        assert!(socket(&on, libc::AF_INET) && socket(&on, libc::AF_INET6) && socket(&on, libc::AF_NETLINK));
        assert!(!socket(&on, libc::AF_UNIX) && !socket(&on, libc::AF_VSOCK));
        assert!(!socket(&off, libc::AF_INET) && !socket(&off, libc::AF_UNIX));
        assert!(socket(&off, libc::AF_NETLINK));
        for filter in [on, off] {
            assert_eq!(verdict(&filter, own, libc::SYS_openat, 1), allow);
            assert_eq!(verdict(&filter, own, libc::SYS_socketpair, libc::AF_UNIX), allow);
            assert_ne!(verdict(&filter, own, libc::SYS_io_uring_setup, 8), allow);
            assert_ne!(verdict(&filter, own ^ 1, libc::SYS_openat, 1), allow);
        }
    }
}
