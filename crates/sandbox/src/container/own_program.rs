//! This program inside a container: its file, and the libraries that an image may lack.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::ContainerError;
use super::binds::OWN;
use super::plan::Bind;

/// Names by which programs ask for libraries whose files may be called otherwise.
const NAMES: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
];

const PRELOADED: &str = "/etc/ld.so.preload";

/// How to start this program inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    pub(crate) binds: Vec<Bind>,
    pub(crate) command: Vec<OsString>,
}

impl OwnProgram {
    /// The running program, with the libraries that it has loaded.
    pub(crate) fn current() -> Result<Self, ContainerError> {
        Self::named("pollux")
    }

    /// The same under the name that it was called by, which decides how it prints.
    pub(crate) fn named(name: &str) -> Result<Self, ContainerError> {
        let failed = |error: std::io::Error| ContainerError::Prepare(error.to_string());
        let file = fs::read_link("/proc/self/exe").map_err(failed)?;
        if !file.is_file() {
            let why = "the Pollux executable has been replaced since it started; restart Pollux";
            return Err(ContainerError::Prepare(why.to_owned()));
        }
        Ok(Self::new(&file, name, &libraries(&fs::read_to_string("/proc/self/maps").map_err(failed)?)))
    }

    fn new(file: &Path, name: &str, libraries: &[PathBuf]) -> Self {
        let inside = |name: &str| Path::new(OWN).join(name);
        let bind =
            |source: &Path, target: PathBuf| Bind { source: source.to_owned(), target, writable: false };
        let program = inside(name);
        let mut binds = vec![bind(file, program.clone())];
        let folder = inside("lib");
        let mut loader = None;
        for library in libraries {
            let Some(name) = library.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with("ld") {
                loader = Some(folder.join(name));
            }
            for name in names(library, name) {
                binds.push(bind(library, folder.join(name)));
            }
        }
        let command = match loader {
            // A program without libraries starts by itself.
            None => vec![program.into()],
            Some(loader) => {
                // By this file, an image could load its own code into the program.
                binds.push(bind(Path::new("/dev/null"), PRELOADED.into()));
                vec![loader.into(), "--library-path".into(), folder.into(), program.into()]
            }
        };
        Self { binds, command }
    }
}

/// The names of a library's file: its own, and those that lead to it.
fn names<'a>(library: &Path, own: &'a str) -> Vec<&'a str> {
    let folder = library.parent().unwrap_or(Path::new("/"));
    let leads_here =
        |name: &&&str| **name != own && fs::canonicalize(folder.join(name)).is_ok_and(|file| file == library);
    [own].into_iter().chain(NAMES.iter().filter(leads_here).copied()).collect()
}

/// The libraries in a process's map of its memory, each once.
fn libraries(map: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in map.lines() {
        let Some(path) = line.find('/').and_then(|start| line.get(start..)).map(PathBuf::from) else {
            continue;
        };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_library = name.ends_with(".so") || name.contains(".so.");
        if is_library && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_along_with_their_loader() {
        let map = "55 r--p 00 fe:00 1 /opt/pollux\n\
                   7f r--p 00 fe:00 2 /lib/libc.so.6\n7f r-xp 00 fe:00 2 /lib/libc.so.6\n\
                   7f r--p 00 fe:00 3 /lib/ld-linux-x86-64.so.2\n7f rw-p 00 00:00 0 [stack]\n\
                   7f r--p 00 fe:00 4 /usr/share/locale/x\n";
        let found = libraries(map);
        assert_eq!(found, [Path::new("/lib/libc.so.6"), Path::new("/lib/ld-linux-x86-64.so.2")]);
        let program = OwnProgram::new(Path::new("/opt/pollux"), "pollux", &found);
        let command: Vec<&str> = program.command.iter().filter_map(|word| word.to_str()).collect();
        assert_eq!(
            command,
            [
                "/run/pollux/lib/ld-linux-x86-64.so.2",
                "--library-path",
                "/run/pollux/lib",
                "/run/pollux/pollux"
            ]
        );
        assert!(program.binds.iter().all(|bind| !bind.writable));
        assert!(program.binds.iter().any(|bind| bind.target == Path::new(PRELOADED)));
        let alone = OwnProgram::new(Path::new("/opt/pollux"), "gemini", &[]);
        assert_eq!(alone.command, ["/run/pollux/gemini"]);
    }
}
