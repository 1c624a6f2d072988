//! What may come of a disturbed conversation.
//!
//! What may change of texts and files is up to [`Case`]. A call never runs twice, a run that fails says why, one that
//! succeeds has no error, and no request breaks a rule of its wire.

use std::collections::BTreeMap;
use std::path::Path;

use pollux_test_support::bad_line::{BadLine, CONTENT, Case, FILE, Fault, TEXTS};
use pollux_test_support::{Run, TestHome};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
    StreamJson,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::StreamJson => "stream-json",
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    code: Option<i32>,
    /// The text of each reply that was not discarded, and the error, as the format tells them.
    said: Result<(String, Option<String>), String>,
    stderr: String,
    files: BTreeMap<String, String>,
    requests: usize,
    /// Results of calls in the last request.
    results: usize,
}

impl Outcome {
    pub(crate) fn of(case: Case, format: Format, run: &Run, home: &TestHome, line: &BadLine) -> Self {
        let requests = line.requests();
        let said = match format {
            Format::Text => Ok(text(run)),
            Format::Json => json(&run.stdout),
            Format::StreamJson => stream(&run.stdout),
        };
        let mut files = BTreeMap::new();
        collect(&home.project(), &home.project(), &mut files);
        Self {
            code: run.code,
            said,
            stderr: run.stderr.clone(),
            files,
            requests: requests.len(),
            results: requests.last().map_or(0, |last| case.wire.results(&last.json())),
        }
    }

    /// In one word.
    pub(crate) fn kind(&self) -> &'static str {
        let is_same = self.files.get(FILE).is_some_and(|content| content == CONTENT)
            && self.said.as_ref().is_ok_and(|(said, _)| *said == expected());
        match self.code {
            Some(0) if is_same && self.requests == 2 => "same",
            Some(0) if is_same => "retried",
            Some(0) => "changed",
            Some(_) => "error",
            None => "killed",
        }
    }
}

fn expected() -> String {
    TEXTS.map(<[&str]>::concat).join("\n")
}

/// All that is wrong with an outcome.
pub(crate) fn check(case: Case, outcome: &Outcome, line: &BadLine) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unless = |holds: bool, what: String| {
        if !holds {
            wrong.push(what);
        }
    };
    let said = match &outcome.said {
        Ok(said) => said.clone(),
        Err(problem) => {
            unless(false, format!("unreadable output: {problem}"));
            (String::new(), None)
        }
    };
    let panics = ["crashed:", "panicked"].iter().any(|word| outcome.stderr.contains(word));
    unless(!panics, "it panicked".to_owned());
    unless(outcome.code.is_some(), "it did not end".to_owned());
    let (text, error) = said;
    if outcome.code == Some(0) {
        unless(error.is_none(), format!("it succeeded with an error: {error:?}"));
    } else {
        unless(error.is_some_and(|error| !error.trim().is_empty()), "it failed without a message".to_owned());
    }
    for (name, content) in &outcome.files {
        unless(case.is_whole(content), format!("{name} has {content:?}"));
    }
    unless(outcome.results <= case.most_calls(), format!("{} calls ran", outcome.results));
    if case.fault.keeps_bytes() {
        unless(outcome.code == Some(0), "it failed".to_owned());
        unless(outcome.files.keys().eq([FILE]), "the file was not written".to_owned());
        let most = if case.fault == Fault::Pause { 2 } else { 3 };
        unless((2..=most).contains(&outcome.requests), format!("{} requests", outcome.requests));
    }
    if outcome.code == Some(0) {
        unless(case.is_plausible(0..2, &text), format!("it said {text:?}"));
    }
    for (index, request) in line.requests().iter().enumerate() {
        let problems = case.wire.problems(&request.json());
        unless(problems.is_empty(), format!("request {index}: {}", problems.join("; ")));
    }
    wrong
}

/// Lines of text without those that were discarded.
fn text(run: &Run) -> (String, Option<String>) {
    let mut lines: Vec<&str> = Vec::new();
    for line in run.stdout.lines() {
        if line.starts_with("[disregard the text above: ") {
            lines.pop();
        } else {
            lines.push(line);
        }
    }
    let error = (run.code != Some(0)).then(|| run.stderr.clone());
    (lines.join("\n"), error)
}

fn json(stdout: &str) -> Result<(String, Option<String>), String> {
    let document: Value = serde_json::from_str(stdout).map_err(|error| error.to_string())?;
    // A call that failed is told there, too, but does not make the run fail.
    let error = Some(&document["error"]).filter(|error| error["type"] != "TOOL_ERROR");
    let error = error.and_then(|error| error["message"].as_str()).map(str::to_owned);
    Ok((document["response"].as_str().unwrap_or_default().to_owned(), error))
}

fn stream(stdout: &str) -> Result<(String, Option<String>), String> {
    let mut replies = vec![String::new()];
    let mut error = None;
    for line in stdout.lines() {
        let event: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let last = replies.last_mut().unwrap();
        match event["type"].as_str().unwrap_or_default() {
            "MESSAGE" if event["role"] == "assistant" => {
                last.push_str(event["content"].as_str().unwrap_or_default());
            }
            "ERROR" if event["code"] == "STREAM_RETRY" => last.clear(),
            "TOOL_USE" => replies.push(String::new()),
            "RESULT" if event["status"] != "success" => {
                error = event["error"]["message"].as_str().map(str::to_owned);
            }
            _ => {}
        }
    }
    replies.retain(|reply| !reply.is_empty());
    Ok((replies.join("\n"), error))
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let bytes = std::fs::read(&path).unwrap_or_default();
            files.insert(name, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
