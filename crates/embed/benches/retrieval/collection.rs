//! Reading the two collections.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Notes, and questions with the notes that answer them.
pub(crate) struct Collection {
    /// By path.
    notes: BTreeMap<String, String>,
    pub(crate) questions: Vec<Question>,
}

pub(crate) struct Question {
    pub(crate) text: String,
    /// Notes, or `note#line` where a note has many answers.
    pub(crate) wanted: HashSet<String>,
    /// LoCoMo's: 1 many turns, 2 time, 3 common sense, 4 one turn.
    pub(crate) category: u64,
}

/// What a note is made of in LoCoMo.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Turn,
    /// A day of a dialogue, one turn in each line; cut as notes are.
    Session,
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

/// One collection for each dialogue, or one of all. A turn is `speaker: text caption-of-the-picture`.
pub(crate) fn locomo(file: &Path, unit: Unit, together: bool) -> Vec<Collection> {
    let dialogues: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let parts = dialogues.iter().enumerate().map(|(number, value)| dialogue(value, number, unit));
    if !together {
        return parts.collect();
    }
    let mut all = Collection { notes: BTreeMap::new(), questions: Vec::new() };
    for part in parts {
        all.notes.extend(part.notes);
        all.questions.extend(part.questions);
    }
    vec![all]
}

fn dialogue(dialogue: &Value, number: usize, unit: Unit) -> Collection {
    let mut notes: BTreeMap<String, String> = BTreeMap::new();
    // Where each turn is.
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for (session, turns) in dialogue["conversation"].as_object().unwrap() {
        for (line, turn) in turns.as_array().into_iter().flatten().enumerate() {
            let text = |name: &str| turn[name].as_str().unwrap_or_default();
            let said = format!("{}: {} {}", text("speaker"), text("text"), text("blip_caption"));
            let said = said.trim().replace('\n', " ");
            let id = text("dia_id");
            if unit == Unit::Turn {
                let path = format!("memory/{number}/{}.md", id.replace(':', "-"));
                places.insert(id.to_owned(), path.clone());
                notes.insert(path, said);
            } else {
                let path = format!("memory/{number}/{session}.md");
                places.insert(id.to_owned(), format!("{path}#{}", line + 1));
                let note = notes.entry(path).or_default();
                note.push_str(&said);
                note.push('\n');
            }
        }
    }
    let mut questions = Vec::new();
    for question in dialogue["qa"].as_array().unwrap() {
        let evidence = question["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // Some name turns that do not exist.
        let wanted: HashSet<String> = evidence.filter_map(|id| places.get(id).cloned()).collect();
        let category = question["category"].as_u64().unwrap_or_default();
        if (1..=4).contains(&category) && !wanted.is_empty() {
            questions.push(Question {
                text: question["question"].as_str().unwrap().to_owned(),
                wanted,
                category,
            });
        }
    }
    Collection { notes, questions }
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
        Some(Question { text, wanted: wanted.remove(&(at + 1))?, category: 0 })
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
