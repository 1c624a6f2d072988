//! The work, and what each program takes for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pollux_test_support::any_wire::{FakeModel, ModelTask, ModelTraffic};
use serde_json::{Map, Value, json};

use crate::measure::{Cost, run_within};
use crate::paint;
use crate::programs::{Job, Kind, Program};
use crate::results::Results;

/// A program that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);
const CALLS: usize = 20;
const CHUNKS: usize = 2_000;
/// Sessions to list.
const SESSIONS: usize = 10;

/// One thing that is measured.
struct Scene {
    name: &'static str,
    job: Job,
    /// Commands that the model runs, and chunks of its answer.
    commands: usize,
    chunks: usize,
    /// Whether Pollux takes part with every wire.
    is_about_wires: bool,
}

const SCENES: [Scene; 7] = [
    Scene { name: "start", job: Job::Version, commands: 0, chunks: 1, is_about_wires: false },
    Scene { name: "paint", job: Job::Screen, commands: 0, chunks: 1, is_about_wires: false },
    Scene { name: "prompt", job: Job::Prompt, commands: 0, chunks: 1, is_about_wires: true },
    Scene { name: "calls", job: Job::Prompt, commands: CALLS, chunks: 1, is_about_wires: true },
    Scene { name: "stream", job: Job::Prompt, commands: 0, chunks: CHUNKS, is_about_wires: true },
    Scene { name: "resume", job: Job::Resume, commands: 0, chunks: 1, is_about_wires: true },
    Scene { name: "list", job: Job::List, commands: 0, chunks: 1, is_about_wires: false },
];
const DISK: &str = "disk";

/// Where a program runs: its own home and project.
struct Stage {
    root: PathBuf,
}

impl Stage {
    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    fn project(&self) -> PathBuf {
        self.root.join("project")
    }
}

/// What a run took: time, memory, traffic.
type Taken = (Cost, ModelTraffic);

/// What all runs of a program took, or why it has none.
type Series = Result<Vec<Taken>, String>;

/// Runs the scenarios, all of them if none is named.
pub(crate) fn measure(programs: &[Program], rounds: usize, only: &[String]) -> Results {
    // Not below the repository, whose context files some programs would read.
    let scratch = tempfile::Builder::new().prefix("pollux-peers").tempdir_in("/var/tmp").expect("a folder");
    let stage = |scene: &str, program: &Program| {
        let name: String = program.label().chars().filter(char::is_ascii_alphanumeric).collect();
        Stage { root: scratch.path().join(scene).join(name) }
    };
    let described = programs.iter().map(|program| {
        let stage = stage("version", program);
        let version = program.version(&stage.home(), &stage.project());
        json!({"name": program.label(), "kind": program.kind.name(), "wire": program.wire.name(),
            "version": version})
    });
    let mut results = Results::new(json!(machine()), rounds, described.collect());
    for scene in SCENES.iter().filter(|scene| is_wanted(only, scene.name)) {
        println!("\n{}", scene.name);
        let taking_part = programs.iter().filter(|one| scene.is_about_wires || one.is_first_of_its_kind());
        let mut series: Vec<(&Program, Stage, Series)> =
            taking_part.map(|program| (program, stage(scene.name, program), Ok(Vec::new()))).collect();
        for (program, stage, series) in &mut series {
            if let Err(reason) = prepare(scene, program, stage) {
                *series = Err(reason);
            }
        }
        // The first round fills caches and does not count.
        for round in 0..=rounds {
            for (program, stage, series) in &mut series {
                let Ok(costs) = series else { continue };
                match once(scene, program, stage, round) {
                    Ok(taken) if round > 0 => costs.push(taken),
                    Ok(_) => {}
                    Err(reason) => *series = Err(reason),
                }
            }
        }
        for (program, _, series) in series {
            let figures = figures(series);
            println!("  {:<20} {}", program.label(), Value::Object(figures.clone()));
            results.put(scene.name, &program.label(), figures);
        }
    }
    if is_wanted(only, DISK) {
        println!("\n{DISK}");
        for program in programs {
            let figures = disk(program, &stage(DISK, program));
            println!("  {:<20} {}", program.label(), Value::Object(figures.clone()));
            results.put(DISK, &program.label(), figures);
        }
    }
    results
}

fn is_wanted(only: &[String], scene: &str) -> bool {
    only.is_empty() || only.iter().any(|name| name == scene)
}

/// Cores and system.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = system.split('-').next().unwrap_or_default().trim().to_owned();
    format!("{cores} cores of {model}, Linux {release}")
}

/// What must be there before the first run.
fn prepare(scene: &Scene, program: &Program, stage: &Stage) -> Result<(), String> {
    if let Some(reason) = program.kind.cannot(scene.job) {
        return Err(reason.to_owned());
    }
    let sessions = match scene.job {
        Job::List => SESSIONS,
        Job::Resume => 1,
        Job::Version | Job::Prompt | Job::Screen => 0,
    };
    // A session to resume has calls in it.
    let commands = if scene.job == Job::Resume { CALLS } else { 0 };
    for _ in 0..sessions {
        run(program, Job::Prompt, stage, commands, 1)?;
    }
    Ok(())
}

fn once(scene: &Scene, program: &Program, stage: &Stage, round: usize) -> Result<Taken, String> {
    if scene.job != Job::Screen {
        return run(program, scene.job, stage, scene.commands, scene.chunks);
    }
    let model = FakeModel::start(task(program.kind, 0, 1));
    let command = program.command(Job::Screen, &stage.home(), &stage.project(), &model.url());
    // Memory is that of a program which has been left alone for a while; once is enough.
    let idle = if round == 1 { Duration::from_secs(5) } else { Duration::ZERO };
    let cost = paint::first_paint(&command, program.kind.ready(), LIMIT, idle)?;
    Ok((cost, model.traffic()))
}

/// Lets a program do its work once. A run that fails, or asks the model less often than the work needs, has a reason.
fn run(program: &Program, job: Job, stage: &Stage, commands: usize, chunks: usize) -> Result<Taken, String> {
    let model = FakeModel::start(task(program.kind, commands, chunks));
    let mut command = program.command(job, &stage.home(), &stage.project(), &model.url());
    let log = stage.root.join("output.log");
    let output = File::create(&log).expect("a log");
    let errors = output.try_clone().expect("a log");
    let cost = run_within(command.stdin(Stdio::null()).stdout(output).stderr(errors), LIMIT);
    let traffic = model.traffic();
    let needed = match job {
        Job::Prompt | Job::Resume => commands + 1,
        Job::Version | Job::List | Job::Screen => 0,
    };
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let listed =
        if job == Job::List { text.lines().filter(|line| !line.trim().is_empty()).count() } else { SESSIONS };
    if cost.code == 0 && traffic.steps >= needed && listed >= SESSIONS {
        return Ok((cost, traffic));
    }
    println!("  {} failed; its output:\n{text}", program.label());
    Err(if cost.wall >= LIMIT {
        format!("did not end within {} s", LIMIT.as_secs())
    } else if cost.code != 0 {
        format!("ended with exit code {}", cost.code)
    } else if listed < SESSIONS {
        format!("printed {listed} lines for {SESSIONS} sessions")
    } else {
        format!("asked the model {} times instead of {needed}", traffic.steps)
    })
}

fn task(kind: Kind, commands: usize, chunks: usize) -> ModelTask {
    let (tool, argument) = kind.shell();
    ModelTask {
        shell: (tool.to_owned(), argument.to_owned()),
        commands: (1..=commands).map(|line| format!("sed -n {line}p data.txt")).collect(),
        answer: (0..chunks).map(|number| format!("word{number} ")).collect(),
    }
}

fn figures(series: Series) -> Map<String, Value> {
    let taken = match series {
        Ok(taken) if !taken.is_empty() => taken,
        Ok(_) => return reason("not measured"),
        Err(text) => return reason(&text),
    };
    let of = |field: fn(&Cost) -> f64| median(taken.iter().map(|(cost, _)| field(cost)).collect());
    let peak = taken.iter().map(|(cost, _)| cost.peak_kib).max().unwrap_or(0);
    let mut figures = Map::new();
    figures.insert("wall_ms".into(), rounded(of(|cost| cost.wall.as_secs_f64() * 1e3)));
    figures.insert("cpu_ms".into(), rounded(of(|cost| cost.processor.as_secs_f64() * 1e3)));
    figures.insert("peak_mib".into(), rounded(peak as f64 / 1024.0));
    if let Some((_, traffic)) = taken.last().filter(|(_, traffic)| traffic.requests > 0) {
        figures.insert("requests".into(), json!(traffic.requests));
        figures.insert("sent_kib".into(), rounded(traffic.bytes as f64 / 1024.0));
        if let Some(share) = traffic.repeated {
            figures.insert("repeated".into(), json!((share * 1e4).round() / 1e4));
            figures.insert("new_kib".into(), rounded(traffic.new_bytes as f64 / 1024.0));
        }
    }
    figures
}

fn reason(text: &str) -> Map<String, Value> {
    Map::from_iter([("reason".to_owned(), json!(text))])
}

/// What the home of a program grows by: with its first prompt, and with each one later.
fn disk(program: &Program, stage: &Stage) -> Map<String, Value> {
    let mut sizes = Vec::new();
    let _ = program.command(Job::Prompt, &stage.home(), &stage.project(), "http://127.0.0.1:9");
    sizes.push(size(&stage.home()));
    for _ in 0..4 {
        if let Err(text) = run(program, Job::Prompt, stage, 0, 1) {
            return reason(&text);
        }
        sizes.push(size(&stage.home()));
    }
    let growth: Vec<f64> = sizes.windows(2).map(|pair| (pair[1] as f64 - pair[0] as f64) / 1024.0).collect();
    let later = growth[1..].iter().sum::<f64>() / (growth.len() - 1) as f64;
    Map::from_iter([("first_kib".to_owned(), rounded(growth[0])), ("later_kib".to_owned(), rounded(later))])
}

/// Bytes in all files below a folder.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    });
    sizes.sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}
