//! One sequence: a home, a project, and a random walk of things that happen to sessions.

#[path = "walk/copies.rs"]
mod copies;
#[path = "walk/disks.rs"]
mod disks;
#[path = "walk/edits.rs"]
mod edits;
#[path = "walk/runs.rs"]
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_domain::time::{Clock, SystemClock};
use pollux_session::{
    Message, Problem, RepairNote, StoredSession, list, load, select, session_files, verify,
};
use pollux_test_support::chance::Chance;
use pollux_test_support::{Run, Running, TestHome, TestRun};
use serde_json::json;

use super::oracle::{
    Census, Kind, Ran, Verdict, census, check_new, demand, is_kept, read_plainly, violation,
};
use super::script::{Author, Script, Told};
use super::tally::Tally;
use super::world::World;
use crate::scene::{MODEL, binary, panicked};

/// Steps of a walk.
pub(super) const STEPS: usize = 6;

/// How a run comes to its end.
enum End {
    ByItself,
    /// `kill -9` after a time.
    After(Duration),
    /// `kill -9` a moment after this was on stdout.
    At(String, Duration),
}

impl End {
    fn is_kill(&self) -> bool {
        !matches!(self, Self::ByItself)
    }
}

pub(super) struct Walk {
    seed: u64,
    /// The choices of the step that is under way.
    chance: Chance,
    world: World,
    author: Author,
    home: TestHome,
    chats: PathBuf,
    /// Every session with what it is known to hold.
    known: BTreeMap<String, Vec<Message>>,
    /// Titles that sessions were given.
    titles: BTreeMap<String, String>,
    /// Ids of sessions so far, deleted ones too.
    used: BTreeSet<String>,
    /// Files that other programs wrote; nobody may touch them.
    bystanders: Census,
    sessions: usize,
    runs: usize,
    pub(super) tally: Tally,
}

impl Walk {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let world = World::new(&mut chance);
        let format = if chance.one_in(3) { "jsonl" } else { "json" };
        let home = TestHome::new()
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
            .settings(json!({"general": {"sessionFormat": format}}))
            .file("page.txt", &"a line of a page\n".repeat(2_500));
        let root = fs::canonicalize(home.project()).unwrap();
        let hash = pollux_config::paths::sha256_hex(root.as_os_str().as_encoded_bytes());
        let chats = home.gemini_dir().join("tmp").join(hash).join("chats");
        let mut walk = Self {
            seed,
            chance,
            world,
            author: Author::default(),
            home,
            chats,
            known: BTreeMap::new(),
            titles: BTreeMap::new(),
            used: BTreeSet::new(),
            bystanders: Census::new(),
            sessions: 0,
            runs: 0,
            tally: Tally::default(),
        };
        if walk.chance.one_in(2) {
            super::fixtures::place(&walk.chats);
            walk.bystanders = census(&walk.chats);
        }
        walk
    }

    /// Walks these steps, or to the first thing that must not be.
    pub(super) fn run(&mut self, steps: &[usize]) -> Verdict {
        for step in steps {
            self.chance = Chance::of_step(self.seed, *step);
            self.step()?;
        }
        self.chance = Chance::of_step(self.seed, STEPS);
        self.last_words()
    }

    fn step(&mut self) -> Verdict {
        let before = census(&self.chats);
        if self.known.is_empty() || self.chance.one_in(6) {
            self.start()?;
        } else {
            match self.chance.below(20) {
                0..=4 => self.resume()?,
                5 => self.list()?,
                6 => self.verify()?,
                7 => self.hold()?,
                8 => self.race()?,
                9 => return self.delete(&before),
                10 => self.run_out_of_room()?,
                11 => self.refuse_writes()?,
                12 | 13 => self.rewind()?,
                14 => self.rename()?,
                15 => self.fork()?,
                16 => self.export_and_import()?,
                17 => self.start_twice()?,
                18 => self.displace()?,
                _ => self.adopt()?,
            }
        }
        self.nothing_vanished(&before, None)?;
        self.all_is_readable()
    }

    /// Everything below the home is as it was, and every session is named.
    fn list(&mut self) -> Verdict {
        let before = census(&self.home.gemini_dir());
        self.tally.listings += 1;
        let run = self.home.command(binary(), ["--list-sessions"]).without_env("GEMINI_API_KEY").run();
        demand(run.code == Some(0), Kind::Conduct, || format!("listing: {run:?}"))?;
        for (id, messages) in &self.known {
            let named = messages.is_empty() || run.stdout.contains(&format!("[{id}]"));
            demand(named, Kind::Lost, || format!("{id} is not in {}", run.stdout))?;
        }
        demand(census(&self.home.gemini_dir()) == before, Kind::Deleted, || "listing changed files".into())
    }

    fn verify(&mut self) -> Verdict {
        let reports = verify(std::slice::from_ref(&self.chats));
        for report in reports.iter().filter(|report| !self.bystanders.contains_key(&report.path)) {
            for problem in &report.problems {
                let is_loss = matches!(problem, Problem::Unreadable(_) | Problem::LostBlobs(_));
                demand(!is_loss, Kind::Unreadable, || format!("{}: {problem}", report.path.display()))?;
            }
        }
        Ok(())
    }

    /// Every session is gone on with once more, and then strictly valid.
    fn last_words(&mut self) -> Verdict {
        for id in self.known.keys().cloned().collect::<Vec<_>>() {
            let script = self.author.script(&mut self.chance);
            self.tally.resumes += 1;
            let run = self.execute(&["--resume", &id], &script, &End::ByItself)?;
            demand(run.code == Some(0), Kind::Conduct, || format!("resuming {id}: {run:?}"))?;
            self.settle(&id, &[Ran { script: &script, told: Told::read(&run.stdout), admitted: true }])?;
        }
        for session in self.sessions_by_id()?.values() {
            let plain = read_plainly(&fs::read(&session.path).unwrap_or_default())?;
            let ids: Vec<&str> = session.messages.iter().map(Message::id).collect();
            demand(plain == ids, Kind::Lost, || format!("others read {plain:?}, we read {ids:?}"))?;
            let is_torn = |note: &RepairNote| {
                note.torn_at.is_some() && session.path.extension().is_some_and(|it| it == "json")
            };
            let is_whole = !session.repaired.as_ref().is_some_and(is_torn);
            demand(is_whole, Kind::Unreadable, || format!("{} is still torn", session.path.display()))?;
        }
        self.titles_are_kept()
    }

    fn any_session(&mut self) -> String {
        let ids: Vec<&String> = self.known.keys().collect();
        (*self.chance.pick(&ids)).clone()
    }

    fn latest(&self) -> Verdict<String> {
        let listing = list(std::slice::from_ref(&self.chats), SystemClock.now());
        let found = select(&listing, "latest");
        found.map(|found| found.id.to_string()).map_err(|error| violation(Kind::Lost, error.to_string()))
    }

    fn end(&mut self, script: &Script) -> End {
        match self.chance.below(5) {
            0 => End::ByItself,
            1 | 2 => End::After(self.chance.micros(90_000)),
            _ => {
                let marks = script.marks();
                let mark = self.chance.pick(&marks).clone();
                let pause = if self.chance.one_in(2) { Duration::ZERO } else { self.chance.micros(3_000) };
                End::At(mark, pause)
            }
        }
    }

    /// How a command without a conversation ends.
    fn end_of_command(&mut self) -> End {
        if self.chance.one_in(2) { End::ByItself } else { End::After(self.chance.micros(60_000)) }
    }

    fn command(&mut self, args: &[&str], script: &Script) -> TestRun {
        let words = self.world.before();
        match words.split_first() {
            None => self.wrapped(binary(), &[], args, script),
            Some((program, words)) => {
                self.tally.slow += 1;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.wrapped(Path::new(program), &words, args, script)
            }
        }
    }

    /// A run without a conversation.
    fn plain_command(&mut self, args: &[&str], stdin: Option<String>) -> TestRun {
        let command = self.home.command(binary(), args);
        let command = match stdin {
            Some(text) => command.stdin(text),
            None => command,
        };
        self.at_some_time(command)
    }

    fn at_some_time(&mut self, run: TestRun) -> TestRun {
        let (run, jumps) = self.world.at_some_time(run, &mut self.chance);
        self.tally.jumps += usize::from(jumps);
        run
    }

    /// The program with a script, behind another program or by itself.
    fn wrapped(&mut self, program: &Path, words: &[&str], args: &[&str], script: &Script) -> TestRun {
        self.runs += 1;
        let responses = self.home.home().join(format!("replies-{}.jsonl", self.runs));
        fs::write(&responses, script.responses()).unwrap();
        let responses = responses.display().to_string();
        let own = binary().display().to_string();
        let mut all: Vec<&str> = words.to_vec();
        if !words.is_empty() {
            all.push(&own);
        }
        all.extend(["-m", MODEL, "--yolo", "--sandbox=false", "-o", "stream-json"]);
        all.extend(["--fake-responses", &responses, "-p", &script.prompt]);
        all.extend(args);
        let run = self.home.command(program, all);
        self.at_some_time(run)
    }

    fn execute(&mut self, args: &[&str], script: &Script, end: &End) -> Verdict<Run> {
        let command = self.command(args, script);
        self.carry_out(command, end)
    }

    fn carry_out(&mut self, command: TestRun, end: &End) -> Verdict<Run> {
        let run = match end {
            End::ByItself => command.run(),
            End::After(delay) => {
                let running = command.spawn();
                std::thread::sleep(*delay);
                self.kill(running)
            }
            End::At(mark, pause) => {
                let running = command.spawn();
                running.wait_for_stdout(mark);
                std::thread::sleep(*pause);
                self.kill(running)
            }
        };
        demand(!panicked(&run), Kind::Conduct, || format!("panicked: {run:?}"))?;
        Ok(run)
    }

    fn kill(&mut self, running: Running) -> Run {
        self.tally.kills += 1;
        if self.world.is_slow() { running.kill_group() } else { running.kill() }
    }

    /// The same as [`Self::settle_stopped`], for runs that have no reason to stop recording.
    fn settle(&mut self, id: &str, runs: &[Ran<'_>]) -> Verdict {
        let stopped = runs.iter().any(|run| run.told.stopped);
        demand(!stopped, Kind::Conduct, || format!("a run stopped recording {id}"))?;
        self.settle_stopped(id, runs)
    }

    /// Holds a session against what it held and what the runs told; what is there now is what it holds.
    fn settle_stopped(&mut self, id: &str, runs: &[Ran<'_>]) -> Verdict {
        let mut found = self.sessions_by_id()?;
        let held = self.known.get(id).cloned().unwrap_or_default();
        let messages = match found.remove(id) {
            Some(session) => {
                self.tally.torn += usize::from(session.repaired.is_some());
                session.messages
            }
            None => Vec::new(),
        };
        let kept = messages.get(..held.len());
        demand(kept == Some(&held[..]), Kind::Lost, || {
            format!("{id} held {} messages; now {held:#?} are {messages:#?}", held.len())
        })?;
        check_new(&messages[held.len()..], runs)?;
        self.tally.messages += messages.len() - held.len();
        if !messages.is_empty() {
            self.known.insert(id.to_owned(), messages);
        }
        Ok(())
    }

    fn sessions_by_id(&self) -> Verdict<BTreeMap<String, StoredSession>> {
        let mut found = BTreeMap::new();
        for path in session_files(std::slice::from_ref(&self.chats)) {
            if self.bystanders.contains_key(&path) {
                continue;
            }
            let session = load(&path).map_err(|error| {
                let bytes = fs::read(&path).unwrap_or_default();
                let start = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
                violation(Kind::Unreadable, format!("{error}: {} bytes, {start:?}", bytes.len()))
            })?;
            let lost = session.repaired.as_ref().map_or(0, |note| note.lost_blobs);
            demand(lost == 0, Kind::Lost, || format!("{lost} blobs of {}", path.display()))?;
            let twin = found.insert(session.id.to_string(), session);
            demand(twin.is_none(), Kind::Conduct, || format!("two files of {}", path.display()))?;
        }
        Ok(found)
    }

    fn nothing_vanished(&self, before: &Census, deleted: Option<&str>) -> Verdict {
        let after = census(&self.chats);
        for path in before.keys().filter(|path| is_kept(path)) {
            let was_meant = deleted.is_some_and(|id| {
                let bytes = String::from_utf8_lossy(&before[path]);
                bytes.contains(&format!("\"{id}\""))
                    || !path.extension().is_some_and(|it| it == "json" || it == "jsonl")
            });
            demand(after.contains_key(path) || was_meant, Kind::Deleted, || path.display().to_string())?;
        }
        for (path, bytes) in &self.bystanders {
            demand(after.get(path) == Some(bytes), Kind::Deleted, || format!("{} changed", path.display()))?;
        }
        Ok(())
    }

    fn all_is_readable(&self) -> Verdict {
        let found = self.sessions_by_id()?;
        for (id, held) in &self.known {
            let same = found.get(id).is_some_and(|session| session.messages == *held);
            demand(same, Kind::Lost, || format!("{id} is not what it was"))?;
        }
        Ok(())
    }
}
