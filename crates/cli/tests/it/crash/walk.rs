//! One sequence: a home, a project, and a random walk of things that happen to sessions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_domain::time::{Clock, SystemClock};
use pollux_session::{
    Message, Problem, RepairNote, StoredSession, list, load, select, session_files, verify,
};
use pollux_test_support::{Run, TestHome, TestRun};
use serde_json::json;

use super::chance::Chance;
use super::oracle::{
    Census, Kind, Ran, Verdict, census, check_new, demand, is_kept, read_plainly, violation,
};
use super::script::{Author, Script, Told};
use super::tally::Tally;
use crate::scene::{MODEL, binary, panicked};

const STEPS: usize = 6;
/// Runs a command with little room for files; the first argument is the room in blocks of 512 bytes.
const LITTLE_ROOM: &str = r#"ulimit -f "$0" && exec "$@""#;
/// The same on a file system of its own that is almost full; its files are brought back afterwards.
const LITTLE_DISK: &str = r#"
chats=$0 size=$1 saved=$0.saved; shift
cp -a "$chats" "$saved" && mount -t tmpfs -o size="$size" tmpfs "$chats" || exit 99
cp -a "$saved/." "$chats/" || exit 98
"$@"; code=$?
mkdir "$saved.new" && cp -a "$chats/." "$saved.new/" && umount "$chats" || exit 97
cp -a --remove-destination "$saved.new/." "$chats/" && rm -rf "$saved" "$saved.new"; exit $code"#;
/// The same where the folder of sessions cannot be written.
const READ_ONLY: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" || exit 99; exec "$@""#;

/// How a run comes to its end.
enum End {
    ByItself,
    /// `kill -9` after a time.
    After(Duration),
    /// `kill -9` a moment after this was on stdout.
    At(String, Duration),
}

pub(super) struct Walk {
    chance: Chance,
    author: Author,
    home: TestHome,
    chats: PathBuf,
    /// Every session with what it is known to hold.
    known: BTreeMap<String, Vec<Message>>,
    /// Files that other programs wrote; nobody may touch them.
    bystanders: Census,
    sessions: usize,
    runs: usize,
    pub(super) tally: Tally,
}

impl Walk {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let format = if chance.one_in(3) { "jsonl" } else { "json" };
        let home = TestHome::new()
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
            .settings(json!({"general": {"sessionFormat": format}}))
            .file("page.txt", &"a line of a page\n".repeat(2_500));
        let root = fs::canonicalize(home.project()).unwrap();
        let hash = pollux_config::paths::sha256_hex(root.as_os_str().as_encoded_bytes());
        let chats = home.gemini_dir().join("tmp").join(hash).join("chats");
        let mut walk = Self {
            chance,
            author: Author::default(),
            home,
            chats,
            known: BTreeMap::new(),
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

    /// Walks to the end, or to the first thing that must not be.
    pub(super) fn run(&mut self) -> Verdict {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.last_words()
    }

    fn step(&mut self) -> Verdict {
        let before = census(&self.chats);
        if self.known.is_empty() || self.chance.one_in(6) {
            self.start()?;
        } else {
            match self.chance.below(12) {
                0..=4 => self.resume()?,
                5 => self.list()?,
                6 => self.verify()?,
                7 => self.hold()?,
                8 => self.race()?,
                9 => return self.delete(&before),
                10 => self.run_out_of_room()?,
                _ => self.refuse_writes()?,
            }
        }
        self.nothing_vanished(&before, None)?;
        self.all_is_readable()
    }

    fn start(&mut self) -> Verdict {
        self.sessions += 1;
        // Some share the eight characters that files are named by.
        let id = if self.chance.one_in(3) {
            format!("s{}-of-its-own", self.sessions)
        } else {
            format!("crashing-{}", self.sessions)
        };
        let script = self.author.script(&mut self.chance);
        let end = self.end(&script);
        let run = self.execute(&["--session-id", &id], &script, &end)?;
        self.settle(&id, &[Ran { script: &script, told: Told::read(&run.stdout), admitted: true }])
    }

    fn resume(&mut self) -> Verdict {
        let id = self.any_session();
        let (which, id) =
            if self.chance.one_in(2) { ("latest".to_owned(), self.latest()?) } else { (id.clone(), id) };
        let script = self.author.script(&mut self.chance);
        let end = self.end(&script);
        self.tally.resumes += 1;
        let run = self.execute(&["--resume", &which], &script, &end)?;
        let told = Told::read(&run.stdout);
        if let Some(session) = &told.session {
            demand(*session == id, Kind::Conduct, || format!("resumed {session} in place of {id}"))?;
        }
        self.settle(&id, &[Ran { script: &script, told, admitted: true }])
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

    /// A second process that comes while the first has the session is told so.
    fn hold(&mut self) -> Verdict {
        let id = self.any_session();
        let (script, mark, gate) = self.author.holding();
        let holder = self.command(&["--resume", &id], &script).spawn();
        holder.wait_for_stdout(&mark);
        let rival = self.author.script(&mut self.chance);
        let second = self.execute(&["--resume", &id], &rival, &End::ByItself)?;
        let is_told = second.code == Some(42) && second.stderr.contains("in use by process");
        demand(is_told, Kind::Conduct, || format!("a second process: {second:?}"))?;
        let deletion = self.home.command(binary(), ["--delete-session", &id]).run();
        demand(deletion.code != Some(0), Kind::Conduct, || format!("deleted while in use: {deletion:?}"))?;
        self.tally.rivals += 1;
        let is_killed = self.chance.one_in(2);
        if is_killed {
            self.tally.kills += 1;
            holder.signal("KILL");
        }
        fs::write(self.home.project().join(gate), "").unwrap();
        let first = holder.wait();
        self.settle(&id, &[Ran { script: &script, told: Told::read(&first.stdout), admitted: true }])
    }

    /// Two processes go for the same session at once; one may be killed.
    fn race(&mut self) -> Verdict {
        let id = self.any_session();
        let scripts = [self.author.script(&mut self.chance), self.author.script(&mut self.chance)];
        let running: Vec<_> =
            scripts.iter().map(|script| self.command(&["--resume", &id], script).spawn()).collect();
        let killed = self.chance.below(4);
        let delay = self.chance.micros(60_000);
        self.tally.rivals += 1;
        let mut runs = Vec::new();
        for (index, (running, script)) in running.into_iter().zip(&scripts).enumerate() {
            let run = if index == killed {
                self.tally.kills += 1;
                std::thread::sleep(delay);
                running.kill()
            } else {
                running.wait()
            };
            let refused = run.code == Some(42)
                && (run.stderr.contains("in use by") || run.stderr.contains("changed while it was"));
            let is_fine = refused || index == killed || run.code == Some(0);
            demand(is_fine && !panicked(&run), Kind::Conduct, || format!("in a race: {run:?}"))?;
            runs.push(Ran { script, told: Told::read(&run.stdout), admitted: !refused });
        }
        self.settle(&id, &runs)
    }

    fn delete(&mut self, before: &Census) -> Verdict {
        let id = self.any_session();
        let run = self.home.command(binary(), ["--delete-session", &id]).run();
        demand(run.code == Some(0), Kind::Conduct, || format!("deleting {id}: {run:?}"))?;
        self.tally.deletions += 1;
        self.known.remove(&id);
        self.nothing_vanished(before, Some(&id))?;
        let gone = !self.sessions_by_id()?.contains_key(&id);
        demand(gone, Kind::Conduct, || format!("{id} is still there"))?;
        self.all_is_readable()
    }

    /// The disk is full, or a file may not grow: what was there stays, and the run says so.
    fn run_out_of_room(&mut self) -> Verdict {
        let is_new = self.chance.one_in(3);
        let id = if is_new {
            self.sessions += 1;
            format!("full-{}", self.sessions)
        } else {
            self.any_session()
        };
        let script = self.author.script(&mut self.chance);
        let size: usize = census(&self.chats).values().map(|bytes| bytes.len().next_multiple_of(4096)).sum();
        let flag = if is_new { "--session-id" } else { "--resume" };
        let chats = self.chats.display().to_string();
        let run = if super::may_mount() && self.chats.exists() && self.chance.one_in(2) {
            let size = (size + 4096 * (8 + self.chance.below(24))).to_string();
            let words = ["-m", "sh", "-c", LITTLE_DISK, &chats, &size];
            self.wrapped(Path::new("unshare"), &words, &[flag, &id], &script).run()
        } else {
            let length = self
                .sessions_by_id()?
                .get(&id)
                .map_or(0, |session| fs::metadata(&session.path).map_or(0, |metadata| metadata.len() / 512));
            let room = (length + self.chance.below(64) as u64).to_string();
            self.wrapped(Path::new("sh"), &["-c", LITTLE_ROOM, &room], &[flag, &id], &script).run()
        };
        self.tally.full_disks += 1;
        let told = Told::read(&run.stdout);
        let refused = run.code == Some(42) && !is_new;
        demand((run.code == Some(0) || refused) && !panicked(&run), Kind::Conduct, || {
            format!("without room: {run:?}")
        })?;
        self.tally.told_full += usize::from(told.stopped || refused);
        self.settle(&id, &[Ran { script: &script, told, admitted: !refused }])
    }

    /// The folder cannot be written: a new conversation goes on unrecorded, an old one is not opened.
    fn refuse_writes(&mut self) -> Verdict {
        if !super::may_mount() {
            return Ok(());
        }
        let id = self.any_session();
        let is_new = self.chance.one_in(2);
        let before = census(&self.chats);
        let script = self.author.script(&mut self.chance);
        let chats = self.chats.display().to_string();
        let args: &[&str] = if is_new { &["--session-id", "nowhere"] } else { &["--resume", &id] };
        let words = ["-m", "sh", "-c", READ_ONLY, &chats];
        let run = self.wrapped(Path::new("unshare"), &words, args, &script).run();
        self.tally.read_only += 1;
        let is_fine = match run.code {
            Some(0) => is_new && Told::read(&run.stdout).stopped,
            Some(42) => !is_new,
            _ => false,
        };
        demand(is_fine && !panicked(&run), Kind::Conduct, || format!("read-only: {run:?}"))?;
        demand(census(&self.chats) == before, Kind::Deleted, || "a read-only folder changed".into())
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
        Ok(())
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

    fn command(&mut self, args: &[&str], script: &Script) -> TestRun {
        self.wrapped(binary(), &[], args, script)
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
        self.home.command(program, all)
    }

    fn execute(&mut self, args: &[&str], script: &Script, end: &End) -> Verdict<Run> {
        let command = self.command(args, script);
        let run = match end {
            End::ByItself => command.run(),
            End::After(delay) => {
                let running = command.spawn();
                std::thread::sleep(*delay);
                self.tally.kills += 1;
                running.kill()
            }
            End::At(mark, pause) => {
                let running = command.spawn();
                running.wait_for_stdout(mark);
                std::thread::sleep(*pause);
                self.tally.kills += 1;
                running.kill()
            }
        };
        demand(!panicked(&run), Kind::Conduct, || format!("panicked: {run:?}"))?;
        Ok(run)
    }

    /// Holds a session against what it held and what the runs told; what is there now is what it holds.
    fn settle(&mut self, id: &str, runs: &[Ran<'_>]) -> Verdict {
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
