//! Searching and indexing.
//!
//! `cargo bench -p pollux-memory` makes an index of 100,000 chunks with vectors of 384 numbers, one of 10,000
//! chunks without, and one of 10 MB of notes, and measures what people wait for. The vectors are made of
//! words by chance: they cost as much to compare as real ones. The time of the processor stands beside that of
//! the clock, since other work on the machine changes only the latter.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark prints, and fails where something is wrong"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pollux_domain::BoxFuture;
use pollux_domain::embedding::{EmbedError, Embedder, Origin, Purpose};
use pollux_domain::time::SystemClock;
use pollux_memory::{AgentId, Memory, Request, Scope, Settings, Setup, Space, StateDir, Synced};
use tokio::runtime::{Builder, Runtime};

const SEARCHES: usize = 300;
const WAIT: Duration = Duration::from_secs(10);
const DIMS: usize = 384;
/// Nanoseconds in which vectors were made.
static MAKING: AtomicU64 = AtomicU64::new(0);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["search", root, kind] => search(Path::new(root), kind == "hybrid"),
        ["once", root] => once(Path::new(root)),
        // Kept, to look into with other tools: then `search FOLDER hybrid|words`.
        ["make", root, "hybrid"] => drop(make_vectors(Path::new(root), 100_000)),
        ["make", root, _] => drop(make_words(Path::new(root))),
        ["vectors"] => vectors(100_000),
        ["words"] => words(),
        ["notes"] => notes(),
        _ => {
            words();
            notes();
            vectors(100_000);
        }
    }
}

/// Many chunks with vectors.
fn vectors(chunks: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let begin = Instant::now();
    let synced = make_vectors(root, chunks);
    println!("{} chunks x {DIMS} indexed in {:.1} s", synced.chunks_written, begin.elapsed().as_secs_f64());
    println!("hybrid search: {}", child(root, &["search", "hybrid"]));
    println!("words alone in it: {}", child(root, &["search", "words"]));
}

fn make_vectors(root: &Path, chunks: usize) -> Synced {
    // With three words in a line, a chunk of 60 characters is about three of them.
    write(root, chunks / 500, 592, 3);
    sync(&memory(root, true, 15), &runtime())
}

fn make_words(root: &Path) -> Synced {
    write(root, 100, 906, 9);
    sync(&memory(root, false, 200), &runtime())
}

/// Ten thousand chunks without vectors.
fn words() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let synced = make_words(root);
    println!("{} chunks: search by words: {}", synced.chunks_written, child(root, &["search", "words"]));
    let whole = (0..10).map(|_| millis(&["once"], root)).fold(f64::MAX, f64::min);
    println!("whole process with one search: {whole:.1} ms");
}

/// Ten megabytes of notes.
fn notes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let bytes = write(root, 400, 330, 10);
    let (memory, runtime) = (memory(root, true, 400), runtime());
    let begin = Moment::now();
    let synced = sync(&memory, &runtime);
    let (wall, busy) = begin.elapsed();
    let making = Duration::from_nanos(MAKING.load(Ordering::Relaxed)).as_secs_f64();
    println!(
        "{:.1} MB, {} chunks: first index in {:.2} s (processor {:.2} s), of which making vectors {making:.2} s",
        bytes as f64 / 1e6,
        synced.chunks_written,
        wall.as_secs_f64(),
        busy.as_secs_f64()
    );
    let begin = Moment::now();
    sync(&memory, &runtime);
    println!("nothing changed: {}", spread(&mut [begin.elapsed()]));
    let mut times = Vec::new();
    let mut most = 0;
    for number in 0..20 {
        let file = root.join(format!("workspace/memory/{}.md", number * 17));
        let mut lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        let place = lines.len() / 2 + number;
        lines[place] = format!("{} changed{number}", lines[place]);
        fs::write(&file, lines.join("\n")).unwrap();
        let begin = Moment::now();
        let synced = sync(&memory, &runtime);
        times.push(begin.elapsed());
        most = most.max(synced.chunks_written);
    }
    println!("one line changed: {}, at most {most} chunks written", spread(&mut times));
}

fn search(root: &Path, hybrid: bool) {
    let (memory, runtime) = (memory(root, hybrid, if hybrid { 15 } else { 200 }), runtime());
    let (vocabulary, mut random) = (Vocabulary::new(), Random(77));
    let mut times = Vec::new();
    let mut found = 0;
    for number in 0..SEARCHES + 5 {
        let words: Vec<&str> = (0..2 + number % 6).map(|_| vocabulary.word(&mut random)).collect();
        let request = Request::new(format!("what about {} in the {}?", words.join(" "), words[0]));
        let begin = Moment::now();
        found += runtime.block_on(memory.search(&request)).unwrap().hits.len();
        // The first ones read the file.
        if number >= 5 {
            times.push(begin.elapsed());
        }
    }
    println!("{}, {found} hits, {}", spread(&mut times), peak());
}

fn once(root: &Path) {
    let (memory, runtime) = (memory(root, false, 200), runtime());
    let answer = runtime.block_on(memory.search(&Request::new("where is babe"))).unwrap();
    println!("{}", answer.hits.len());
}

fn memory(root: &Path, hybrid: bool, tokens: usize) -> Memory {
    let mut settings = Settings { enabled: true, ..Settings::default() };
    settings.chunking.tokens = tokens;
    settings.chunking.overlap = tokens / 5;
    settings.cache.enabled = false;
    Memory::new(Setup {
        agent: StateDir::at(root.join("state")).agent(&AgentId::default()),
        workspace: root.join("workspace"),
        space: Space::Workspace,
        trusted: true,
        settings,
        embedder: hybrid.then(|| Arc::new(Chance::new()) as Arc<dyn Embedder>),
        clock: Arc::new(SystemClock),
    })
}

fn sync(memory: &Memory, runtime: &Runtime) -> Synced {
    let synced = runtime.block_on(memory.sync(Scope::All, WAIT, &|_| {})).unwrap();
    assert_eq!(synced.warnings, Vec::<String>::new());
    synced
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Files of lines; how many bytes.
fn write(root: &Path, files: usize, lines: usize, words: usize) -> usize {
    let folder = root.join("workspace/memory");
    fs::create_dir_all(&folder).unwrap();
    let (vocabulary, mut random) = (Vocabulary::new(), Random(5));
    let mut bytes = 0;
    for file in 0..files {
        let line = |number: usize, random: &mut Random| {
            let words: Vec<&str> = (0..words).map(|_| vocabulary.word(random)).collect();
            if number.is_multiple_of(40) { format!("## {}", words.join(" ")) } else { words.join(" ") }
        };
        let text: Vec<String> = (0..lines).map(|number| line(number, &mut random)).collect();
        let text = text.join("\n");
        bytes += text.len();
        fs::write(folder.join(format!("{file}.md")), text).unwrap();
    }
    bytes
}

/// Words as a language has them: few are common, most are rare.
struct Vocabulary(Vec<String>);

impl Vocabulary {
    fn new() -> Self {
        let syllables = [
            "ba", "be", "bi", "co", "cu", "da", "do", "fe", "ga", "ki", "lo", "ma", "nu", "pe", "ri", "so",
            "ta", "vu",
        ];
        let mut random = Random(3);
        let word = |_| {
            (0..2 + random.next() % 3).map(|_| syllables[(random.next() % 18) as usize]).collect::<String>()
        };
        Self((0..20_000).map(word).collect())
    }

    fn word(&self, random: &mut Random) -> &str {
        let chance = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let place = (self.0.len() as f64).powf(chance) - 1.0;
        &self.0[(place as usize).min(self.0.len() - 1)]
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Every word has a direction by chance; a text has the sum of its words'.
struct Chance(Origin);

impl Chance {
    fn new() -> Self {
        Self(Origin { provider: "local".into(), model: "chance".into(), key: String::new() })
    }
}

impl Embedder for Chance {
    fn origin(&self) -> &Origin {
        &self.0
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        _: Purpose,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, EmbedError>> {
        let vector = |text: &String| {
            let mut vector = vec![0.0_f32; DIMS];
            for word in text.split_whitespace() {
                let seed = word
                    .bytes()
                    .fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
                let mut random = Random(seed);
                for pair in vector.chunks_mut(2) {
                    let bits = random.next();
                    pair[0] += (bits as u32) as f32 / u32::MAX as f32 - 0.5;
                    pair[1] += (bits >> 32) as f32 / u32::MAX as f32 - 0.5;
                }
            }
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-9);
            vector.into_iter().map(|value| value / length).collect()
        };
        let begin = Instant::now();
        let vectors = texts.iter().map(vector).collect();
        MAKING.fetch_add(u64::try_from(begin.elapsed().as_nanos()).unwrap(), Ordering::Relaxed);
        Box::pin(async move { Ok(vectors) })
    }
}

/// This program again, so that its memory is its own.
fn child(root: &Path, what: &[&str]) -> String {
    let (first, rest) = what.split_first().unwrap();
    let output =
        Command::new(std::env::current_exe().unwrap()).arg(first).arg(root).args(rest).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn millis(what: &[&str], root: &Path) -> f64 {
    let begin = Instant::now();
    child(root, what);
    begin.elapsed().as_secs_f64() * 1000.0
}

/// A point in time, and in the work of this process.
struct Moment(Instant, Duration);

impl Moment {
    fn now() -> Self {
        Self(Instant::now(), busy())
    }

    fn elapsed(&self) -> (Duration, Duration) {
        (self.0.elapsed(), busy() - self.1)
    }
}

/// How long this process kept processors busy.
fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn spread(times: &mut [(Duration, Duration)]) -> String {
    let mut of = |part: fn(&(Duration, Duration)) -> Duration| {
        times.sort_by_key(part);
        let at = |percent: usize| part(&times[(times.len() - 1) * percent / 100]).as_secs_f64() * 1000.0;
        format!("median {:.2} ms, p95 {:.2} ms", at(50), at(95))
    };
    format!("{} (processor {})", of(|time| time.0), of(|time| time.1))
}

/// The most memory this process had at once.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    format!("peak {}", line.unwrap_or(" unknown").trim())
}
