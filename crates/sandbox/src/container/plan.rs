//! A container as a value, and the engine's arguments for it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::{ContainerError, Engine};

/// Limits of a container, as far as its engine can set them.
const MAX_PROCESSES: &str = "--pids-limit=4096";
const SHARED_MEMORY: &str = "--shm-size=512m";
const RUN: &str = "/run:size=64m,mode=755";
/// Variables by which an image could load its own code into the first process, which is ours.
pub(crate) const LOADER: [&str; 4] =
    ["--env=LD_PRELOAD=", "--env=LD_AUDIT=", "--env=LD_LIBRARY_PATH=", "--env=GLIBC_TUNABLES="];

/// A file or folder of this machine that appears inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) writable: bool,
}

/// Who commands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The same IDs inside and outside.
    Same { user: u32, group: u32 },
    /// The same, by a user namespace that maps them.
    KeptId { user: u32, group: u32 },
    /// Root inside is the user outside.
    MappedRoot,
}

impl User {
    pub(crate) fn arguments(self) -> Vec<OsString> {
        match self {
            Self::Same { user, group } => vec![format!("--user={user}:{group}").into()],
            Self::KeptId { user, group } => {
                vec!["--userns=keep-id".into(), format!("--user={user}:{group}").into()]
            }
            Self::MappedRoot => vec!["--user=0:0".into()],
        }
    }
}

/// Everything about one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) user: User,
    /// Whether the engine's usual network is there.
    pub(crate) network: bool,
    pub(crate) binds: Vec<Bind>,
    /// Folders that appear empty.
    pub(crate) empty: Vec<PathBuf>,
    pub(crate) devices: Vec<PathBuf>,
    pub(crate) ports: Vec<u16>,
    /// Whether the system labels files, which would close the socket and the workspace.
    pub(crate) labels_files: bool,
    /// The user's own arguments.
    pub(crate) flags: Vec<String>,
    pub(crate) image: String,
    pub(crate) command: Vec<OsString>,
}

impl Plan {
    /// The arguments of the engine.
    pub(crate) fn arguments(&self) -> Result<Vec<OsString>, ContainerError> {
        let mut all: Vec<OsString> =
            ["run", "--rm", "--pull=never", "--attach=stderr", "--log-driver=none"].map(Into::into).into();
        all.push(format!("--name={}", self.name).into());
        all.push("--hostname=pollux".into());
        all.extend(self.labels.iter().map(|(name, value)| format!("--label={name}={value}").into()));
        all.extend(self.user.arguments());
        all.extend(["--workdir=/", "--entrypoint=", "--cap-drop=ALL"].map(OsString::from));
        all.extend(["--security-opt=no-new-privileges", MAX_PROCESSES, "--ipc=private"].map(OsString::from));
        // What an image wants to run by itself would run before the filter of system calls.
        all.extend([SHARED_MEMORY, "--no-healthcheck"].map(OsString::from));
        all.extend(LOADER.map(OsString::from));
        if self.labels_files {
            all.push("--security-opt=label=disable".into());
        }
        if self.engine == Engine::Podman {
            // It would hand over the user's proxy, perhaps with a password.
            all.push("--http-proxy=false".into());
        }
        if !self.network {
            all.push("--network=none".into());
        }
        all.extend(["--tmpfs".into(), RUN.into()]);
        for bind in &self.binds {
            all.extend(["--mount".into(), mount(bind)?]);
        }
        for folder in &self.empty {
            all.extend(["--mount".into(), empty(folder)?]);
        }
        all.extend(self.devices.iter().map(|path| device(path)));
        if self.network {
            // Only programs of this machine reach them.
            all.extend(self.ports.iter().map(|port| format!("--publish=127.0.0.1:{port}:{port}").into()));
        }
        all.extend(self.flags.iter().map(OsString::from));
        all.push(self.image.clone().into());
        all.extend(self.command.iter().cloned());
        Ok(all)
    }
}

pub(crate) fn device(path: &Path) -> OsString {
    let mut value = OsString::from("--device=");
    value.push(path);
    value
}

/// `--mount` fails if the source is missing; `--volume` of docker would create it as root.
pub(crate) fn mount(bind: &Bind) -> Result<OsString, ContainerError> {
    let mut value = OsString::from("type=bind,");
    value.push(field("source=", &bind.source)?);
    value.push(",");
    value.push(field("target=", &bind.target)?);
    if !bind.writable {
        value.push(",readonly");
    }
    Ok(value)
}

pub(crate) fn empty(folder: &Path) -> Result<OsString, ContainerError> {
    let mut value = OsString::from("type=tmpfs,");
    value.push(field("target=", folder)?);
    value.push(",tmpfs-size=4096,tmpfs-mode=0555");
    Ok(value)
}

/// A field of a line of comma-separated values, which is what engines read.
fn field(name: &str, path: &Path) -> Result<OsString, ContainerError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        return Err(ContainerError::Name(path.to_owned()));
    }
    let mut value: OsString = name.into();
    if !bytes.iter().any(|byte| matches!(byte, b',' | b'"')) {
        value.push(path);
        return Ok(value);
    }
    let doubled = bytes.iter().flat_map(|byte| if *byte == b'"' { vec![b'"'; 2] } else { vec![*byte] });
    let mut quoted = OsString::from("\"");
    quoted.push(value);
    quoted.push(OsString::from_vec(doubled.collect()));
    quoted.push(OsStr::new("\""));
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(engine: Engine) -> Plan {
        Plan {
            engine,
            name: "pollux-0".to_owned(),
            labels: vec![("pollux.owner", "o".to_owned())],
            user: User::Same { user: 1000, group: 100 },
            network: false,
            binds: vec![
                Bind { source: "/w".into(), target: "/w".into(), writable: true },
                Bind { source: "/w/.git/hooks".into(), target: "/w/.git/hooks".into(), writable: false },
            ],
            empty: Vec::new(),
            devices: Vec::new(),
            ports: vec![8080],
            labels_files: false,
            flags: Vec::new(),
            image: "i:1".to_owned(),
            command: vec!["/run/pollux/pollux".into(), "x".into()],
        }
    }

    const FIRST: &str = "run --rm --pull=never --attach=stderr --log-driver=none --name=pollux-0 \
         --hostname=pollux --label=pollux.owner=o";
    const CONFINED: &str = "--workdir=/ --entrypoint= --cap-drop=ALL --security-opt=no-new-privileges \
         --pids-limit=4096 --ipc=private --shm-size=512m --no-healthcheck --env=LD_PRELOAD= --env=LD_AUDIT= \
         --env=LD_LIBRARY_PATH= --env=GLIBC_TUNABLES=";
    const BINDS: &str = "--tmpfs /run:size=64m,mode=755 --mount type=bind,source=/w,target=/w \
         --mount type=bind,source=/w/.git/hooks,target=/w/.git/hooks,readonly";
    const LAST: &str = "i:1 /run/pollux/pollux x";

    #[test]
    fn each_plan_has_exactly_these_arguments() {
        let docker = || plan(Engine::Docker);
        let table = [
            (docker(), format!("{FIRST} --user=1000:100 {CONFINED} --network=none {BINDS} {LAST}")),
            (
                Plan { network: true, ..docker() },
                format!("{FIRST} --user=1000:100 {CONFINED} {BINDS} --publish=127.0.0.1:8080:8080 {LAST}"),
            ),
            (
                Plan { user: User::MappedRoot, labels_files: true, ..docker() },
                format!(
                    "{FIRST} --user=0:0 {CONFINED} --security-opt=label=disable --network=none {BINDS} {LAST}"
                ),
            ),
            (
                Plan { user: User::KeptId { user: 7, group: 8 }, ..plan(Engine::Podman) },
                format!(
                    "{FIRST} --userns=keep-id --user=7:8 {CONFINED} --http-proxy=false --network=none {BINDS} {LAST}"
                ),
            ),
            (
                Plan {
                    flags: vec!["--memory=1g".to_owned()],
                    empty: vec!["/w/.ssh".into()],
                    devices: vec!["/dev/kfd".into()],
                    ..docker()
                },
                format!(
                    "{FIRST} --user=1000:100 {CONFINED} --network=none {BINDS} \
                     --mount type=tmpfs,target=/w/.ssh,tmpfs-size=4096,tmpfs-mode=0555 --device=/dev/kfd --memory=1g {LAST}"
                ),
            ),
        ];
        for (plan, expected) in table {
            let arguments = plan.arguments().unwrap();
            let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words, expected.split_whitespace().collect::<Vec<_>>(), "{plan:?}");
        }
    }

    #[test]
    fn odd_names_of_folders_are_quoted_or_refused() {
        let value = |path: &str| {
            mount(&Bind { source: path.into(), target: "/t".into(), writable: true })
                .map(|value| value.into_string().unwrap())
        };
        assert_eq!(value("/a:b").unwrap(), "type=bind,source=/a:b,target=/t");
        assert_eq!(value("/a,readonly").unwrap(), "type=bind,\"source=/a,readonly\",target=/t");
        assert_eq!(value("/a\"b").unwrap(), "type=bind,\"source=/a\"\"b\",target=/t");
        assert!(matches!(value("/a\nb"), Err(ContainerError::Name(_))));
    }
}
