//! Programs that are killed at random times: nothing may be left of their commands.
//!
//! `POLLUX_SOAK_COMMANDS` sets how many, `POLLUX_SOAK_SEED` repeats a run; `just soak-sandbox`.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pollux_sandbox::{Grants, Level, Sandbox, SandboxRequest, process_table};

use crate::scene::{LEVELS, Scene, request, tell};
use crate::sessions::eventually;

pub(crate) const ARGUMENT: &str = "__soak";
const COMMANDS: &str = "POLLUX_SOAK_COMMANDS";
const SEED: &str = "POLLUX_SOAK_SEED";
/// How many without the variable.
const FEW: u64 = 40;

const SCRIPTS: &[&str] = &[
    "true",
    "echo x > /tmp/kept; mkdir -p /tmp/a/b && chmod 500 /tmp/a",
    "(setsid nohup sh -c 'trap \"\" TERM HUP; sleep 300; true' >/dev/null 2>&1 &); true",
    "sleep 300 & sleep 300",
    "echo x > .envrc; mkdir -p .vscode; sleep 0.01",
    "echo evil > .git/hooks/pre-commit; echo x >> .git/config",
    "mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit; rm -r sub",
    "mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/pre-commit; echo x > sub/.git/HEAD; sleep 0.02",
    "mv .git git-away 2>/dev/null; sleep 0.005; mv git-away .git 2>/dev/null; true",
];

fn soak_request(base: &Path, level: Level) -> SandboxRequest {
    SandboxRequest { temp: base.join("tmp"), ..request(base, level) }
}

/// A process that opens a sandbox and runs one script, or many by numbers, and tells of each.
pub(crate) fn run(arguments: &[String]) -> ! {
    let [level, base, script] = arguments else { std::process::exit(2) };
    let base = Path::new(base);
    let directory = base.join("w");
    let level = Level::named(level).unwrap();
    let request = soak_request(base, level);
    let sandbox = Sandbox::open(&request).unwrap();
    // Other modes of the same session, which share its processes and temporary files.
    let grants = Grants { read_only: true, ..Grants::default() };
    let plan = sandbox.for_mode(&SandboxRequest { grants, network: false, ..request.clone() }).unwrap();
    let open = sandbox.for_mode(&SandboxRequest { network: true, ..request }).unwrap();
    let modes = [&sandbox, &plan, &open];
    let null = fs::File::open("/dev/null").unwrap();
    let environment = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())];
    let mut random = script.parse().ok().map(Random);
    loop {
        let script = random
            .as_mut()
            .map_or(script.as_str(), |random| SCRIPTS[random.below(SCRIPTS.len() as u64) as usize]);
        let start = pollux_sandbox::holder::Start {
            program: "/bin/sh".as_ref(),
            arguments: vec!["-c".as_ref(), script.as_ref()],
            directory: &directory,
            environment: &environment,
            streams: [null.as_fd(), null.as_fd(), null.as_fd()],
        };
        let mode = random.as_mut().map_or(0, |random| random.below(modes.len() as u64) as usize);
        let (mut held, _armed) = modes[mode].start(&start).unwrap();
        #[expect(clippy::print_stdout, reason = "its parent counts")]
        {
            println!(".");
        }
        if random.is_none() || !script.contains("sleep 300") {
            let _ = held.wait();
        }
    }
}

pub(crate) fn spawn(level: Level, base: &Path, script: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([ARGUMENT, level.as_str(), base.to_str().unwrap(), script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Processes whose folder is below this one.
pub(crate) fn processes_in(folder: &Path) -> Vec<(i32, PathBuf)> {
    let all = process_table::processes().into_iter().filter(|process| process.is_alive);
    let places = all
        .filter_map(|process| Some((process.id, fs::read_link(format!("/proc/{}/cwd", process.id)).ok()?)));
    places.filter(|(_, place)| place.starts_with(folder)).collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own switches")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_left_of_programs_that_are_killed_at_random_times() {
    let wanted = number(COMMANDS).unwrap_or(FEW);
    let seed = number(SEED).unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()) | 1)
    });
    tell(&format!("{SEED}={seed} {COMMANDS}={wanted}"));
    let mut random = Random(seed | 1);
    for level in LEVELS {
        let Some(scene) = Scene::new(level, true) else { continue };
        fs::create_dir_all(scene.path("tmp")).unwrap();
        // Others may mount something meanwhile.
        let folder = scene.folder.path().display().to_string();
        let mounts = || {
            let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
            all.lines().filter(|line| line.contains(&folder)).count()
        };
        let (before, mounted) = (scene.active(), mounts());
        let (mut count, mut kills, mut family) = (0, 0, Vec::new());
        while count < wanted {
            let mut child = spawn(level, scene.folder.path(), &(random.below(1 << 40) + 1).to_string());
            std::thread::sleep(Duration::from_micros(random.below(250_000)));
            let table = process_table::processes();
            let ids = process_table::family_of(child.id().cast_signed());
            family.extend(table.iter().filter(|one| ids.contains(&one.id)).map(|one| (one.id, one.started)));
            child.kill().unwrap();
            child.wait().unwrap();
            let mut told = String::new();
            child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
            count += told.lines().count() as u64;
            kills += 1;
            let is_gone = || {
                let table = process_table::processes();
                let is_alive = |(id, started): &(i32, u64)| {
                    table.iter().any(|one| one.is_alive && one.id == *id && one.started == *started)
                };
                !family.iter().any(is_alive) && processes_in(scene.folder.path()).is_empty()
            };
            eventually(&format!("{level}: no process is left after {kills} kills"), is_gone);
            family.clear();
            let scratch = || {
                fs::read_dir(scene.path("tmp"))
                    .unwrap()
                    .flatten()
                    .map(|entry| entry.path())
                    .collect::<Vec<_>>()
            };
            let what = || format!("{level}: no folder is left after {kills} kills, but {:?}", scratch());
            eventually(&what(), || scratch().is_empty());
            // One who is killed in the middle of a command's own work leaves that.
            let _ = fs::rename(scene.path("w/git-away"), scene.path("w/.git"));
            assert_eq!(scene.active(), before, "{level}: after {kills} kills");
        }
        assert_eq!(mounts(), mounted, "{level}");
        tell(&format!("{level}: {count} commands, {kills} kills"));
    }
}
