//! Lines that the policy lets run unasked, run in real bash: none may touch a tripwire.
//!
//! Each line is made by chance, decided by the engine in a hostile workspace, and if it is allowed, run in a sandbox
//! (bubblewrap; without it the test says so and ends). Tripwires are every program that is not read-only, every file
//! and folder outside the workspace, secrets inside it, any change of the workspace, and a secret in the output.
//! Accesses to files are noticed with inotify, which needs no rights. `POLLUX_POLICY_LINES` is the number of lines,
//! `POLLUX_POLICY_SEED` chooses others.

#[path = "differential/jail.rs"]
mod jail;
#[path = "differential/lines.rs"]
mod lines;
#[path = "differential/place.rs"]
mod place;
#[path = "differential/table.rs"]
mod table;
#[path = "differential/words.rs"]
mod words;

use std::collections::BTreeMap;

use pollux_test_support::chance::Chance;

use jail::{Jail, Ran};
use lines::{Family, line};
use place::{Layout, SETUPS, Setup, WatchedWorkspace, repository, runs_git};

use crate::lines::{HOSTILE, rows, unescape};

/// Parts of secrets that no output may hold.
const CANARIES: &[&str] = &["canary-7f3a", "me:token@host"];
/// Programs that git starts for its own work when a rule allows git.
const OF_GIT: &[&str] = &["ssh", "man", "less", "pager", "gpg", "perl", "gettext"];
const LAYOUTS: [Layout; 3] = [Layout::Secrets, Layout::Names, Layout::Untrusted];

#[expect(clippy::disallowed_methods, reason = "how long to search is up to who runs the tests")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The sandbox, and the workspaces that lines run in.
struct Stage {
    _folder: tempfile::TempDir,
    jail: Jail,
    places: [WatchedWorkspace; 3],
}

impl Stage {
    #[expect(clippy::print_stderr, reason = "says why a test ends")]
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let Some(jail) = Jail::start(&path) else {
            eprintln!("skipped: bubblewrap is not installed or not permitted");
            return None;
        };
        repository(&path.join("repository"));
        let places = LAYOUTS.map(|layout| WatchedWorkspace::new(&path, layout));
        Some(Self { _folder: folder, jail, places })
    }

    /// Runs a line if it is allowed.
    fn try_line(&mut self, index: usize, line: &str) -> Option<Outcome> {
        let (setup, verdict) = self.places[index].allowed(line)?;
        let (findings, in_time) = self.run(index, setup, line);
        Some(Outcome { setup, in_time, findings, reason: verdict.reason })
    }

    /// What a line does that it must not do, and whether it came to its end.
    fn run(&mut self, index: usize, setup: Setup, line: &str) -> (Vec<String>, bool) {
        let place = &mut self.places[index];
        // The decision itself looks at files.
        place.accesses();
        let ran = self.jail.run(&place.files.home, &place.files.project, line);
        let accesses = place.accesses();
        let mut findings = place.forbidden(setup, line, &accesses);
        findings.extend(told(setup, line, &ran));
        if WatchedWorkspace::is_changed(&accesses) {
            place.restore();
        }
        (findings, ran.in_time)
    }
}

struct Outcome {
    setup: Setup,
    in_time: bool,
    findings: Vec<String>,
    reason: String,
}

/// What the run itself tells: programs that ran, and what was printed.
fn told(setup: Setup, line: &str, ran: &Ran) -> Vec<String> {
    let by_rule = setup == Setup::Listed && runs_git(line);
    // The table lets programs tell their version.
    let is_version = |arguments: &str| ["--version", "-version", "version", "-V", "-v"].contains(&arguments);
    let is_expected = |call: &&String| {
        let (program, arguments) = call.split_once(' ').unwrap_or((call, ""));
        is_version(arguments.trim_end_matches("--").trim())
            || by_rule && (program.starts_with("git-") || OF_GIT.contains(&program))
    };
    let programs = ran.programs.iter().filter(|call| !is_expected(call)).map(|call| format!("ran {call}"));
    let printed = CANARIES.iter().filter(|word| !by_rule && ran.output.contains(**word));
    let writes =
        ran.output.contains("Read-only file system").then(|| "tried to write to the system".to_owned());
    programs.chain(printed.map(|word| format!("printed {word}"))).chain(writes).collect()
}

#[derive(Default)]
struct Tally {
    /// Lines and allowed lines of each family.
    families: BTreeMap<Family, (u64, u64)>,
    setups: [u64; 3],
    cut_off: u64,
    findings: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        for (family, (lines, allowed)) in other.families {
            let sum = self.families.entry(family).or_default();
            *sum = (sum.0 + lines, sum.1 + allowed);
        }
        self.setups.iter_mut().zip(other.setups).for_each(|(sum, more)| *sum += more);
        self.cut_off += other.cut_off;
        self.findings.extend(other.findings);
    }

    fn sum(&self) -> (u64, u64) {
        self.families.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Every `step`th line from `first` on.
#[expect(clippy::print_stderr, reason = "a long run reports to a person")]
fn search(first: u64, step: u64, lines: u64, seed: u64) -> Option<Tally> {
    let mut tally = Tally::default();
    let mut stage = Stage::new()?;
    for index in (first..lines).step_by(usize::try_from(step).unwrap()) {
        let mut chance = Chance::new(seed.wrapping_mul(1_000_003).wrapping_add(index));
        let (family, line) = line(&mut chance);
        let at = *chance.pick(&[0, 0, 1, 2]);
        let counts = tally.families.entry(family).or_default();
        counts.0 += 1;
        let Some(outcome) = stage.try_line(at, &line) else { continue };
        counts.1 += 1;
        tally.setups[outcome.setup as usize] += 1;
        tally.cut_off += u64::from(!outcome.in_time);
        if outcome.findings.is_empty() {
            continue;
        }
        // Other programs of this machine may look at the files, too: it must happen again, in new files.
        stage.places[at].restore();
        if stage.run(at, outcome.setup, &line).0.is_empty() {
            continue;
        }
        let Outcome { setup, findings, reason, .. } = outcome;
        let (layout, findings) = (LAYOUTS[at], findings.join("; "));
        let finding = format!("{line:?} in {setup:?}, {layout:?}: {findings} ({reason})");
        eprintln!("{finding}");
        tally.findings.push(finding);
    }
    Some(tally)
}

#[test]
fn no_line_that_runs_without_approval_touches_a_tripwire() {
    let (lines, seed) = (number("POLLUX_POLICY_LINES", 1_000), number("POLLUX_POLICY_SEED", 1));
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(4)) as u64;
    let mut tally = Tally::default();
    let complete = std::thread::scope(|scope| {
        let start = |first| scope.spawn(move || search(first, threads, lines, seed));
        let searches: Vec<_> = (0..threads).map(start).collect();
        searches.into_iter().all(|one| one.join().unwrap().map(|more| tally.add(more)).is_some())
    });
    if !complete {
        return;
    }
    let (all, allowed) = tally.sum();
    eprintln!("seed {seed}: {all} lines, {allowed} allowed and run, {} of them cut off", tally.cut_off);
    eprintln!(
        "default, auto-edit, with an allow-list: {:?}; lines and allowed lines: {:?}",
        tally.setups, tally.families
    );
    let findings = &tally.findings;
    assert!(findings.is_empty(), "{} lines touched a tripwire:\n{}", findings.len(), findings.join("\n"));
    assert!(allowed * 5 >= all, "only {allowed} of {all} lines were allowed: the search proves little");
}

#[test]
fn every_hostile_line_of_the_corpus_is_decided_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    repository(&path.join("repository"));
    std::fs::create_dir_all(path.join("tmp")).unwrap();
    let place = WatchedWorkspace::new(&path, Layout::Secrets);
    let mut wrong = Vec::new();
    for (number, fields) in rows(HOSTILE) {
        let line = unescape(fields[4]);
        for (setup, expected) in SETUPS.into_iter().zip(&fields[1..4]) {
            let verdict = place.decide(setup, &line);
            if verdict.decision.as_str() != *expected {
                wrong.push(format!(
                    "{number}: {line:?} in {setup:?}: {:?}: {}",
                    verdict.decision, verdict.reason
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} decisions not as written:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_kind_of_tripwire_is_noticed() {
    let Some(mut stage) = Stage::new() else { return };
    for (line, word) in [
        ("t1", "ran t1"),
        ("/usr/bin/rm no-such-file", "ran rm"),
        ("cat .env > /dev/null", "Secret"),
        ("grep -r x sub > /dev/null", "Secret"),
        ("read x < id_rsa", "Secret"),
        ("cat inner > /dev/null", "Secret"),
        ("cat outlink.md > /dev/null", "Outside"),
        ("ls ..", "Around"),
        ("ls ~", "Outside"),
        ("cat /etc/shadow", "Outside"),
        ("cat linked-home/oauth_creds.json > /dev/null", "Outside"),
        ("echo x > o", "Inside"),
        ("echo x > /srv/o", "Outside"),
        ("echo x > /tmp/o", "Around"),
        ("echo x > /o", "tried to write"),
        ("echo $API_SECRET", "printed"),
        ("cat .git/config > /dev/null", "Secret"),
        ("git remote -v", "printed"),
        ("cd vendor/bare; git diff", "ran t1"),
        ("(cat .env > /dev/null) &", "Secret"),
    ] {
        let (findings, _) = stage.run(0, Setup::Default, line);
        assert!(findings.iter().any(|finding| finding.contains(word)), "{line}: {findings:?}");
    }
    for line in ["cat a", "ls -la", "git status", "git log -p", "grep -r x src", "true"] {
        assert_eq!(stage.run(0, Setup::Default, line), (Vec::new(), true), "{line}");
    }
}
