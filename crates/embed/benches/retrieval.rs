//! How well memory finds what is asked, on two public collections:
//! `cargo bench -p pollux-embed --bench retrieval -- --locomo FILE --cranfield FOLDER --model FOLDER…`
//!
//! LoCoMo (`locomo10.json`): every turn of a dialogue is a note, a question looks for the turns that answer it
//! (categories 1 to 4). Cranfield (`cran.all.1400`, `cran.qry`, `cranqrel`): every abstract is a note. The data are
//! for measuring and not part of the repository. `--speed` adds how fast the models are, `--together` makes one index
//! of all dialogues, and `--chunks` makes a note of every session: how often one of the best six passages holds an answer.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench prints and stops where it fails"
)]

#[path = "retrieval/collection.rs"]
mod collection;
#[path = "retrieval/speed.rs"]
mod speed;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::embedding::Embedder;
use pollux_domain::time::SystemClock;
use pollux_embed::LocalModel;
use pollux_memory::{AgentId, Memory, Request, Scope, SearchMode, Settings, Setup, Space, StateDir};

use collection::{Collection, Question, Unit};

/// Chunks that are asked for; several may belong to one document.
const ASKED: usize = 40;

#[derive(Default)]
struct Options {
    locomo: Option<PathBuf>,
    cranfield: Option<PathBuf>,
    models: Vec<PathBuf>,
    speed: bool,
    together: bool,
    chunks: bool,
    /// Weights of vectors to try beside the usual one.
    weights: Vec<f64>,
    /// Of gimli's formula, which drops what is below; 0 shows the order alone.
    min_score: f64,
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value after the option");
        match argument.as_str() {
            "--locomo" => options.locomo = Some(value().into()),
            "--cranfield" => options.cranfield = Some(value().into()),
            "--model" => options.models.push(value().into()),
            "--min-score" => options.min_score = value().parse().expect("a number"),
            "--vector-weight" => options.weights.push(value().parse().expect("a number")),
            "--speed" => options.speed = true,
            "--together" => options.together = true,
            "--chunks" => options.chunks = true,
            // Cargo adds it.
            "--bench" => {}
            other => panic!("unknown option {other}"),
        }
    }
    options
}

fn main() {
    let options = options();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let models: Vec<LocalModel> =
        options.models.iter().map(|folder| LocalModel::open(folder, None).expect("a model")).collect();
    if options.speed {
        models.iter().for_each(speed::print);
    }
    let mut collections: Vec<(&str, Vec<Collection>)> = Vec::new();
    if let Some(file) = &options.locomo {
        let unit = if options.chunks { Unit::Session } else { Unit::Turn };
        collections.push(("LoCoMo", collection::locomo(file, unit, options.together)));
    }
    if let Some(folder) = &options.cranfield {
        collections.push(("Cranfield", vec![collection::cranfield(folder)]));
    }
    for (name, parts) in &collections {
        let questions: usize = parts.iter().map(|part| part.questions.len()).sum();
        println!("\n{name}, {questions} questions   R@6    R@10   nDCG@10   index s   ms/question");
        runtime.block_on(measure(parts, None, &options));
        for model in &models {
            runtime.block_on(measure(parts, Some(model), &options));
        }
    }
}

/// Sums over questions.
#[derive(Default, Clone)]
struct Score {
    recall_6: f64,
    recall_10: f64,
    ndcg_10: f64,
    count: f64,
    time: Duration,
    /// Questions with an answer among the best six.
    answered: f64,
    /// Recall at six and questions, for each category.
    categories: BTreeMap<u64, (f64, f64)>,
}

/// One way to search.
#[derive(Clone, Copy)]
struct Way {
    mode: SearchMode,
    /// The weight of vectors, if not the usual one.
    weight: Option<f64>,
}

async fn measure(parts: &[Collection], model: Option<&LocalModel>, options: &Options) {
    let weights = options.weights.iter().filter(|_| model.is_some());
    let tried = weights.map(|weight| Way { mode: SearchMode::V2, weight: Some(*weight) });
    let usual = [SearchMode::Seed, SearchMode::V2].map(|mode| Way { mode, weight: None });
    let mut scores: Vec<(Way, Score)> =
        usual.into_iter().chain(tried).map(|way| (way, Score::default())).collect();
    let mut indexing = Duration::ZERO;
    for part in parts {
        let scratch = tempfile::tempdir().unwrap();
        part.write(scratch.path());
        let started = Instant::now();
        let index = memory(scratch.path(), model, None);
        index.sync(Scope::All, Duration::from_secs(1), &|_| {}).await.expect("an index");
        indexing += started.elapsed();
        for (way, score) in &mut scores {
            let memory = memory(scratch.path(), model, way.weight);
            for question in &part.questions {
                ask(&memory, *way, question, options, score).await;
            }
        }
    }
    let name = model.map_or("words only", |model| &model.origin().model);
    for (way, score) in &scores {
        let weight = way.weight.map(|weight| format!(" {weight}")).unwrap_or_default();
        score.print(&format!("{name}, {}{weight}", way.mode.as_str()), indexing);
    }
}

fn memory(scratch: &Path, model: Option<&LocalModel>, weight: Option<f64>) -> Memory {
    let file = serde_json::json!({ "enabled": true, "sources": ["memory"] });
    let (mut settings, _) = Settings::from_json(file.as_object().unwrap());
    settings.query.weights = weight.map(|weight| (weight, 1.0 - weight));
    Memory::new(Setup {
        agent: StateDir::at(scratch.join("state")).agent(&AgentId::default()),
        workspace: scratch.join("work"),
        space: Space::Workspace,
        trusted: true,
        settings,
        embedder: model.map(|model| Arc::new(model.clone()) as Arc<dyn Embedder>),
        clock: Arc::new(SystemClock),
    })
}

async fn ask(memory: &Memory, way: Way, question: &Question, options: &Options, score: &mut Score) {
    let request = Request {
        max_results: Some(ASKED),
        min_score: (way.mode == SearchMode::Seed).then_some(options.min_score),
        mode: Some(way.mode),
        ..Request::new(&question.text)
    };
    let started = Instant::now();
    let answer = memory.search(&request).await.expect("an answer");
    score.time += started.elapsed();
    if options.chunks {
        // The lines of the best six that answer.
        let lines =
            answer.hits.iter().take(6).flat_map(|hit| {
                (hit.start_line..=hit.end_line).map(move |line| format!("{}#{line}", hit.path))
            });
        let found: HashSet<String> = lines.filter(|line| question.wanted.contains(line)).collect();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        return score.add(&found, question);
    }
    let mut seen = HashSet::new();
    let paths = answer.hits.iter().map(|hit| hit.path.as_str());
    let found: Vec<&str> = paths.filter(|path| seen.insert(*path)).collect();
    score.add(&found, question);
}

impl Score {
    fn add(&mut self, found: &[&str], question: &Question) {
        let wanted = &question.wanted;
        let hits =
            |count: usize| found.iter().take(count).filter(|path| wanted.contains(**path)).count() as f64;
        let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
        let gained: f64 =
            (0..found.len().min(10)).filter(|place| wanted.contains(found[*place])).map(gain).sum();
        let best: f64 = (0..wanted.len().min(10)).map(gain).sum();
        let recall = hits(6) / wanted.len() as f64;
        self.recall_6 += recall;
        self.answered += f64::from(u8::from(hits(6) > 0.0));
        let category = self.categories.entry(question.category).or_default();
        *category = (category.0 + recall, category.1 + 1.0);
        self.recall_10 += hits(10) / wanted.len() as f64;
        self.ndcg_10 += gained / best;
        self.count += 1.0;
    }

    fn print(&self, name: &str, indexing: Duration) {
        let [six, ten, ndcg] = [self.recall_6, self.recall_10, self.ndcg_10].map(|sum| sum / self.count);
        let each = self.time.as_secs_f64() * 1000.0 / self.count;
        println!(
            "{name:<26}  {six:.3}  {ten:.3}  {ndcg:.3}     {:>7.1}   {each:>7.2}   hit@6 {:.3}  by category {}",
            indexing.as_secs_f64(),
            self.answered / self.count,
            self.categories
                .iter()
                .map(|(number, (sum, count))| format!("{number}: {:.3}", sum / count))
                .collect::<Vec<_>>()
                .join(" ")
        );
    }
}
