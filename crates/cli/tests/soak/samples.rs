//! What the process uses in the course of the day.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_test_support::{TestHome, plot};

use crate::day::TurnKind;

/// Days that are long enough for their memory and latency to mean something.
const LONG_DAY: usize = 1000;

/// Allowed memory growth per turn of a session, in MiB, for rewind points and receipt entries.
const MAX_GROWTH_PER_TURN_MIB: f64 = 4.0 / 1024.0;

/// The least number of samples that are compared.
const SHORTEST: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    /// Resident memory in MiB.
    Memory,
    Descriptors,
    Threads,
    Children,
    TemporaryFiles,
    /// Milliseconds of a turn.
    Latency,
    /// Everything below the home: sessions, memory, blobs.
    HomeFiles,
}

impl Measure {
    const ALL: [Self; 7] = [
        Self::Memory,
        Self::Descriptors,
        Self::Threads,
        Self::Children,
        Self::TemporaryFiles,
        Self::Latency,
        Self::HomeFiles,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Memory => "Resident memory (MiB)",
            Self::Descriptors => "Open descriptors",
            Self::Threads => "Threads",
            Self::Children => "Child processes",
            Self::TemporaryFiles => "Temporary files",
            Self::Latency => "Latency of a turn (ms)",
            Self::HomeFiles => "Files in the home",
        }
    }
}

pub(crate) struct Samples {
    name: String,
    turns: usize,
    every: usize,
    home: PathBuf,
    has_many_sessions: bool,
    values: BTreeMap<Measure, Vec<f64>>,
    /// Since the last sample.
    latencies: Vec<f64>,
    kinds: BTreeMap<TurnKind, usize>,
}

impl Samples {
    pub(crate) fn new(name: &str, turns: usize, home: &TestHome, has_many_sessions: bool) -> Self {
        Self {
            name: name.to_owned(),
            turns,
            every: (turns / 200).max(1),
            home: home.home(),
            has_many_sessions,
            values: BTreeMap::new(),
            latencies: Vec::new(),
            kinds: BTreeMap::new(),
        }
    }

    pub(crate) fn take(&mut self, turn: usize, kind: TurnKind, latency: Duration, pid: u32) {
        *self.kinds.entry(kind).or_default() += 1;
        self.latencies.push(latency.as_secs_f64() * 1000.0);
        if !turn.is_multiple_of(self.every) {
            return;
        }
        let process = PathBuf::from(format!("/proc/{pid}"));
        let latency = median(&std::mem::take(&mut self.latencies));
        for (measure, value) in [
            (Measure::Memory, resident(&process)),
            (Measure::Descriptors, entries(&process.join("fd"))),
            (Measure::Threads, entries(&process.join("task"))),
            (Measure::Children, descendants(pid)),
            (Measure::TemporaryFiles, files(&self.home.join("temporary"))),
            (Measure::Latency, latency),
            (Measure::HomeFiles, files(&self.home)),
        ] {
            self.values.entry(measure).or_default().push(value);
        }
        if self.turns >= LONG_DAY && turn.is_multiple_of(self.every * 10) {
            let now: Vec<String> = self
                .values
                .iter()
                .map(|(measure, all)| format!("{measure:?} {:.0}", all[all.len() - 1]))
                .collect();
            eprintln!("{} turn {turn}: {}", self.name, now.join(", "));
        }
    }

    /// The second tenth of the day and the last. On a short day they are longer, and the first comes after everything
    /// has happened once.
    fn tenths(&self, measure: Measure) -> (&[f64], &[f64]) {
        let all = self.values.get(&measure).map_or(&[][..], Vec::as_slice);
        let tenth = (all.len() / 10).max(SHORTEST).min(all.len());
        let begin = tenth.max(TurnKind::COUNT / self.every).min(all.len() - tenth);
        (&all[begin..begin + tenth], &all[all.len() - tenth..])
    }

    /// What grew.
    pub(crate) fn growth(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for measure in [Measure::Descriptors, Measure::Threads, Measure::Children, Measure::TemporaryFiles] {
            let (_, evening) = self.tenths(measure);
            // Servers that were killed are missing for a while, on a busy machine for most of a short morning.
            let all = self.values.get(&measure).map_or(&[][..], Vec::as_slice);
            let before = all.get(..all.len() - evening.len()).unwrap_or_default();
            // Threads wait a while for more work.
            let slack = if measure == Measure::Threads { 4.0 } else { 0.0 };
            // Things come and go; what was leaked never goes.
            let (most, least) =
                (highest(before), -highest(&evening.iter().map(|it| -it).collect::<Vec<_>>()));
            if least > most + slack {
                wrong.push(format!("{}: {before:?} before, {evening:?} in the evening", measure.title()));
            }
        }
        if self.turns >= LONG_DAY {
            let kept = if self.has_many_sessions { 0.0 } else { MAX_GROWTH_PER_TURN_MIB * self.turns as f64 };
            for (measure, factor, kept) in [(Measure::Memory, 1.2, kept), (Measure::Latency, 2.0, 0.0)] {
                let (morning, evening) = self.tenths(measure);
                let (morning, evening) = (median(morning), median(evening));
                if evening > morning * factor + kept {
                    wrong.push(format!("{}: {morning:.1}, then {evening:.1}", measure.title()));
                }
            }
        }
        wrong
    }

    /// Writes the table and the plots.
    pub(crate) fn report(&self, seed: usize) {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("soak");
        fs::create_dir_all(&folder).unwrap();
        let mut text = format!("# Soak: {} turns, {}\n\nSeed {seed}. Medians.\n\n", self.turns, self.name);
        text.push_str("| measure | second tenth | last tenth | highest |\n|---|---|---|---|\n");
        for measure in Measure::ALL {
            let (morning, evening) = self.tenths(measure);
            let all = &self.values[&measure];
            let _ = writeln!(
                text,
                "| {} | {:.1} | {:.1} | {:.1} |",
                measure.title(),
                median(morning),
                median(evening),
                highest(all)
            );
            let picture = format!("{}-{}.svg", self.name, format!("{measure:?}").to_lowercase());
            fs::write(folder.join(picture), plot::line(measure.title(), all, |value| format!("{value:.0}")))
                .unwrap();
        }
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{kind:?} {count}")).collect();
        let _ = writeln!(text, "\nTurns: {}.\n", kinds.join(", "));
        for measure in Measure::ALL {
            let name = format!("{measure:?}").to_lowercase();
            let _ = writeln!(text, "![{}]({}-{name}.svg)", measure.title(), self.name);
        }
        fs::write(folder.join(format!("report-{}.md", self.name)), &text).unwrap();
        eprintln!("{text}");
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn resident(process: &Path) -> f64 {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}

fn entries(folder: &Path) -> f64 {
    fs::read_dir(folder).map_or(0, Iterator::count) as f64
}

fn files(folder: &Path) -> f64 {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    inside.fold(0.0, |sum, entry| sum + if entry.path().is_dir() { files(&entry.path()) } else { 1.0 })
}

/// Processes below a process.
fn descendants(pid: u32) -> f64 {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(child);
    }
    let mut open = vec![pid];
    let mut count = 0;
    while let Some(next) = open.pop() {
        let below = children.remove(&next).unwrap_or_default();
        count += below.len();
        open.extend(below);
    }
    count as f64
}
