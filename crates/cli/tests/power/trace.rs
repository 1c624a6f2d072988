//! Reads what `strace` wrote about a run: every call that changes files, in the order in which they ended; a close
//! counts from its start.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The calls that are recorded.
pub(crate) const CALLS: &str = "openat,open,creat,read,readv,write,pwrite64,writev,pwritev,pwritev2,lseek,ftruncate,\
    truncate,fallocate,copy_file_range,sendfile,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,\
    unlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,sync_file_range,close,dup,dup2,dup3,fcntl,clone,clone3,fork,vfork";

/// A line of a trace.
#[derive(Debug)]
pub(crate) enum TraceLine {
    /// A sync begins: it covers what was written before.
    SyncStarts {
        thread: u32,
        descriptor: i64,
    },
    Ended(SystemCall),
}

/// A call that succeeded.
#[derive(Debug)]
pub(crate) struct SystemCall {
    pub(crate) thread: u32,
    pub(crate) name: String,
    arguments: Vec<String>,
    pub(crate) result: i64,
}

impl SystemCall {
    pub(crate) fn number(&self, index: usize) -> i64 {
        let text = self.text(index);
        let digits = text.split('<').next().unwrap_or_default();
        digits.parse().unwrap_or_else(|_| panic!("no number at {index}: {self:?}"))
    }

    pub(crate) fn text(&self, index: usize) -> &str {
        self.arguments.get(index).map_or("", String::as_str)
    }

    /// Whether an argument names something below a folder, by a path or by a descriptor.
    pub(crate) fn names_below(&self, folder: &Path) -> bool {
        let escaped: String =
            folder.as_os_str().as_encoded_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        self.arguments.iter().any(|argument| argument.contains(&escaped))
    }

    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.arguments.iter().any(|argument| argument.split('|').any(|word| word == flag))
    }

    /// A string argument.
    pub(crate) fn bytes(&self, index: usize) -> Vec<u8> {
        let text = self.text(index);
        let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        unescaped(quoted.unwrap_or_else(|| panic!("no whole string at {index}: {} {text:.60}", self.name)))
    }

    /// The strings of a list of buffers.
    pub(crate) fn buffers(&self, index: usize) -> Vec<u8> {
        let pieces = self.text(index).split("iov_base=\"").skip(1);
        pieces.flat_map(|piece| unescaped(piece.split('"').next().unwrap_or_default())).collect()
    }

    /// The path of an open file or folder.
    pub(crate) fn named(&self, index: usize) -> PathBuf {
        let opened = self.text(index);
        let named = opened.split_once('<').and_then(|(_, name)| name.strip_suffix('>')).unwrap_or_default();
        PathBuf::from(OsString::from_vec(unescaped(named)))
    }

    /// A path relative to the folder that the argument before it names.
    pub(crate) fn path_at(&self, index: usize) -> PathBuf {
        self.named(index).join(self.path(index + 1))
    }

    pub(crate) fn path(&self, index: usize) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.bytes(index)))
    }
}

fn unescaped(text: &str) -> Vec<u8> {
    let digits = text.split("\\x").skip(1);
    digits
        .map(|digits| u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("no byte: {digits}")))
        .collect()
}

/// The calls of the traced process itself; those of processes that it started are left out.
pub(crate) fn read(trace: &str) -> Vec<TraceLine> {
    let whole = joined(trace);
    let mut others = HashSet::new();
    // A child may be heard of before the call that made it ends.
    for (thread, line) in &whole {
        if let Part::Ended(call) = line
            && ["clone", "clone3", "fork", "vfork"].contains(&call.name.as_str())
            && (others.contains(thread)
                || !call.arguments.iter().any(|argument| argument.contains("CLONE_THREAD")))
        {
            others.insert(u32::try_from(call.result).unwrap());
        }
    }
    let own = whole.into_iter().filter(|(thread, _)| !others.contains(thread));
    own.map(|(thread, line)| match line {
        Part::Ended(call) => TraceLine::Ended(call),
        Part::SyncStarts(descriptor) => TraceLine::SyncStarts { thread, descriptor },
    })
    .collect()
}

enum Part {
    SyncStarts(i64),
    Ended(SystemCall),
}

/// Joins calls that were interrupted by lines of other threads.
fn joined(trace: &str) -> Vec<(u32, Part)> {
    let mut open: HashMap<u32, String> = HashMap::new();
    let mut lines = Vec::new();
    for line in trace.lines() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let Ok(thread) = thread.parse::<u32>() else { continue };
        let text = text.trim_start();
        if let Some(begun) = text.strip_suffix(" <unfinished ...>") {
            if let Some(descriptor) = synced(begun) {
                lines.push((thread, Part::SyncStarts(descriptor)));
            }
            if begun.starts_with("close(") {
                // Another thread may get the same descriptor before the call returns.
                lines.extend(call(thread, &format!("{begun}) = 0")).map(|call| (thread, Part::Ended(call))));
            } else {
                open.insert(thread, begun.to_owned());
            }
            continue;
        }
        let whole = match text.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, rest)) => open.remove(&thread).unwrap_or_default() + rest,
            None => {
                if let Some(descriptor) = synced(text) {
                    lines.push((thread, Part::SyncStarts(descriptor)));
                }
                text.to_owned()
            }
        };
        lines.extend(call(thread, &whole).map(|call| (thread, Part::Ended(call))));
    }
    lines
}

/// The descriptor that a call to sync names.
fn synced(text: &str) -> Option<i64> {
    let (name, rest) = text.split_once('(')?;
    ["fsync", "fdatasync"].contains(&name).then(|| rest.split('<').next()?.parse().ok())?
}

/// `name(argument, …) = result …`; `None` for signals, exits and failures.
fn call(thread: u32, text: &str) -> Option<SystemCall> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let result = result.split([' ', '<']).next()?.parse().ok()?;
    let arguments = split(arguments.trim_end().strip_suffix(')')?);
    (result >= 0).then(|| SystemCall { thread, name: name.to_owned(), arguments, result })
}

/// Splits at commas that are not inside of brackets. Strings have no commas: they are written as numbers.
fn split(arguments: &str) -> Vec<String> {
    let (mut depth, mut found) = (0_i32, vec![String::new()]);
    for letter in arguments.chars() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        match letter {
            ',' if depth == 0 => found.push(String::new()),
            ' ' if found.last().is_some_and(String::is_empty) => {}
            _ => found.last_mut().unwrap().push(letter),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_calls_are_joined_and_children_left_out() {
        let trace = "\
7 openat(AT_FDCWD<\\x2f\\x74>, \"\\x61\", O_RDWR|O_CREAT, 0600) = 3<\\x2f\\x74\\x2f\\x61>
7 clone3({flags=CLONE_VM|CLONE_THREAD, stack=0x1}, 88) = 8
8 fdatasync(3<\\x2f\\x74\\x2f\\x61> <unfinished ...>
7 pwrite64(3<\\x2f\\x74\\x2f\\x61>, \"\\x68\\x0a\", 2, 5) = 2
9 close(3) = 0
8 <... fdatasync resumed>) = 0
7 writev(3<x>, [{iov_base=\"\\x61\", iov_len=1}, {iov_base=\"\\x62\", iov_len=1}], 2) = 2
7 vfork() = 9
8 close(3<x> <unfinished ...>
7 openat(AT_FDCWD<\\x2f\\x74>, \"\\x61\", O_RDONLY) = 3<\\x2f\\x74\\x2f\\x61>
8 <... close resumed>) = 0
7 rename(\"\\x61\", \"\\x62\") = -1 ENOENT (No such file or directory)
7 +++ exited with 0 +++
";
        let names = read(trace).into_iter().map(|line| match line {
            TraceLine::SyncStarts { thread, descriptor } => format!("{thread} starts {descriptor}"),
            TraceLine::Ended(call) => {
                assert!(call.name != "pwrite64" || (call.bytes(1), call.number(3)) == (b"h\n".to_vec(), 5));
                assert!(call.name != "writev" || call.buffers(1) == b"ab");
                assert!(call.name != "openat" || call.path_at(0) == Path::new("/t/a"));
                format!("{} {} {}", call.thread, call.name, call.result)
            }
        });
        let names: Vec<String> = names.collect();
        let expected = [
            "7 openat 3",
            "7 clone3 8",
            "8 starts 3",
            "7 pwrite64 2",
            "8 fdatasync 0",
            "7 writev 2",
            "7 vfork 9",
            "8 close 0",
            "7 openat 3",
        ];
        assert_eq!(names, expected);
    }
}
