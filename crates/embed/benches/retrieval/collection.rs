//! Reading the two collections.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Notes, and questions with the notes that answer them.
pub(crate) struct Collection {
    /// By path.
    notes: BTreeMap<String, String>,
    pub(crate) questions: Vec<(String, HashSet<String>)>,
}

impl Collection {
    /// Writes the notes into a workspace.
    pub(crate) fn write(&self, scratch: &Path) {
        for (path, text) in &self.notes {
            let file = scratch.join("work").join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }
}

/// One collection for each dialogue. A turn is `speaker: text caption-of-the-picture`.
pub(crate) fn locomo(file: &Path) -> Vec<Collection> {
    let dialogues: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    dialogues.iter().map(dialogue).collect()
}

fn dialogue(dialogue: &Value) -> Collection {
    let mut notes = BTreeMap::new();
    for turn in dialogue["conversation"].as_object().unwrap().values().filter_map(Value::as_array).flatten() {
        let text = |name: &str| turn[name].as_str().unwrap_or_default();
        let note = format!("{}: {} {}", text("speaker"), text("text"), text("blip_caption"));
        notes.insert(turn_path(text("dia_id")), note.trim().to_owned());
    }
    let mut questions = Vec::new();
    for question in dialogue["qa"].as_array().unwrap() {
        let evidence = question["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // Some name turns that do not exist.
        let wanted: HashSet<String> =
            evidence.map(turn_path).filter(|path| notes.contains_key(path)).collect();
        let asked = question["category"].as_u64().is_some_and(|category| (1..=4).contains(&category));
        if asked && !wanted.is_empty() {
            questions.push((question["question"].as_str().unwrap().to_owned(), wanted));
        }
    }
    Collection { notes, questions }
}

fn turn_path(id: &str) -> String {
    format!("memory/{}.md", id.replace(':', "-"))
}

/// Abstracts with their titles. Queries count by their order, every judgement from 1 to 4 alike.
pub(crate) fn cranfield(folder: &Path) -> Collection {
    let read = |name: &str| String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap()).into_owned();
    let path = |number: &str| format!("memory/{number}.md");
    let mut notes = BTreeMap::new();
    for (number, fields) in records(&read("cran.all.1400")) {
        let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        notes.insert(path(&number), format!("{} {}", field(".T"), field(".W")));
    }
    let queries = records(&read("cran.qry"));
    let mut wanted: BTreeMap<usize, HashSet<String>> = BTreeMap::new();
    for line in read("cranqrel").lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        if let [query, document, grade] = parts[..]
            && grade != "-1"
        {
            wanted.entry(query.parse().unwrap()).or_default().insert(path(document));
        }
    }
    let questions = queries.into_iter().enumerate().filter_map(|(at, (_, mut fields))| {
        let text = fields.remove(".W")?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some((text, wanted.remove(&(at + 1))?))
    });
    Collection { notes, questions: questions.collect() }
}

/// Records begin with `.I number`, their fields with `.T` and the like.
fn records(text: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut records: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut field = String::new();
    for line in text.lines() {
        if let Some(number) = line.strip_prefix(".I ") {
            records.push((number.trim().to_owned(), BTreeMap::new()));
        } else if matches!(line.trim_end(), ".T" | ".A" | ".B" | ".W") {
            field = line.trim_end().to_owned();
        } else if let Some((_, fields)) = records.last_mut() {
            let value = fields.entry(field.clone()).or_default();
            value.push_str(line);
            value.push('\n');
        }
    }
    records
}
