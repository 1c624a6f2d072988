//! Masks old tool outputs: moves them from the conversation to files when they grow too large.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use std::{fs, thread};

use pollux_config::groups::Model;
use pollux_domain::content::{AnswerFields, Body, FunctionResponse, Part, Role};
use pollux_domain::id::{CallId, SessionId};
use serde_json::Value;

use crate::history::History;
use crate::tokens;
use crate::truncate;

const MARK: &str = "<tool_output_masked>";
/// Characters kept from each end of a masked output.
const PREVIEW: usize = 250;
/// Above this number, outputs share files, since a file has overhead and a resumed session may have
/// thousands of outputs.
const SINGLE_FILES: usize = 32;
/// Outputs that share a file.
const BLOCK: usize = 64;
const MAX_THREADS: usize = 4;
/// Tools whose results are never masked.
const EXEMPT: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];

/// Masks old outputs; how many tokens were freed.
pub(crate) fn mask_old(history: &mut History, settings: &Model, temp_dir: &Path, session: &SessionId) -> u64 {
    let found = prunable(history, settings);
    let total: u64 = found.iter().map(|place| place.tokens).sum();
    if found.is_empty() || total < settings.mask_min_prunable_tokens {
        return 0;
    }
    let masking = Masking { history, temp_dir, session };
    let mut freed = 0;
    for Masked { place, body, saved } in masking.all(&found) {
        history.rewrite(place.turn, place.part, body);
        freed += saved;
    }
    freed
}

/// Where an output is in the conversation, and what it costs.
#[derive(Clone, Copy)]
struct Place {
    turn: usize,
    part: usize,
    tokens: u64,
}

/// Outputs beyond the protected newest ones, the oldest first.
fn prunable(history: &History, settings: &Model) -> Vec<Place> {
    let mut protected = 0;
    let mut found = Vec::new();
    let skip = usize::from(settings.mask_protect_latest);
    for (turn, entry) in history.entries().iter().enumerate().rev().skip(skip) {
        if entry.content.role != Role::User {
            continue;
        }
        for (index, part) in entry.content.parts.iter().enumerate().rev() {
            let Body::Response(response) = &part.body else { continue };
            if EXEMPT.contains(&response.name.as_str()) || is_masked(response) {
                continue;
            }
            let tokens = tokens::of_part(part);
            if protected <= settings.mask_protected_tokens {
                protected += tokens;
            }
            if protected > settings.mask_protected_tokens {
                found.push(Place { turn, part: index, tokens });
            }
        }
    }
    found.reverse();
    found
}

/// An output whose text is in a file.
struct Masked {
    place: Place,
    body: Body,
    saved: u64,
}

struct Masking<'a> {
    history: &'a History,
    temp_dir: &'a Path,
    session: &'a SessionId,
}

impl Masking<'_> {
    fn all(&self, found: &[Place]) -> Vec<Masked> {
        if found.len() <= SINGLE_FILES {
            return found.iter().filter_map(|place| self.alone(*place)).collect();
        }
        // Counted from the oldest, the blocks of a session that is resumed again are the same again.
        let blocks: Vec<&[Place]> = found.chunks(BLOCK).collect();
        let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        let shares = blocks.chunks(blocks.len().div_ceil(threads).max(1));
        let work = |blocks: &[&[Place]]| {
            let mut text = Vec::new();
            blocks.iter().filter_map(|block| self.together(block, &mut text)).flatten().collect()
        };
        thread::scope(|scope| {
            let workers: Vec<_> = shares
                .map(|blocks| {
                    thread::Builder::new().spawn_scoped(scope, move || -> Vec<Masked> { work(blocks) })
                })
                .collect();
            // Outputs without a worker thread stay unmasked.
            workers.into_iter().flatten().filter_map(|worker| worker.join().ok()).flatten().collect()
        })
    }

    /// Saves an output in a file of its own.
    fn alone(&self, place: Place) -> Option<Masked> {
        let response = self.response(place)?;
        let mut text = Vec::new();
        write_pretty(&mut text, &response.response).ok()?;
        let whole = std::str::from_utf8(&text).ok()?;
        let file = truncate::file_for(self.temp_dir, self.session, &response.name, &saved_as(response));
        let masked = masked(place, response, &preview(whole), &file.display().to_string())?;
        keep(&file, whole.as_bytes()).ok()?;
        Some(masked)
    }

    /// Saves outputs in a common file. Nothing leaves the conversation before it is there.
    fn together(&self, block: &[Place], text: &mut Vec<u8>) -> Option<Vec<Masked>> {
        let first = self.response(*block.first()?)?;
        let file = truncate::file_for(self.temp_dir, self.session, "outputs", &saved_as(first));
        let shown = file.display().to_string();
        let mut chosen = Vec::with_capacity(block.len());
        let mut line = 1;
        text.clear();
        for place in block {
            let Some(response) = self.response(*place) else { continue };
            let start = text.len();
            write_pretty(text, &response.response).ok()?;
            let whole = std::str::from_utf8(text.get(start..)?).ok()?;
            let next = line + memchr::memchr_iter(b'\n', whole.as_bytes()).count() + 1;
            let at = format!("{shown}, lines {line}-{}", next - 1);
            match masked(*place, response, &preview(whole), &at) {
                Some(masked) => {
                    chosen.push(masked);
                    text.push(b'\n');
                    line = next;
                }
                None => text.truncate(start),
            }
        }
        if !chosen.is_empty() {
            keep(&file, text).ok()?;
        }
        Some(chosen)
    }

    fn response(&self, place: Place) -> Option<&FunctionResponse> {
        let part = self.history.entries().get(place.turn)?.content.parts.get(place.part)?;
        if let Body::Response(response) = &part.body { Some(response) } else { None }
    }
}

fn saved_as(response: &FunctionResponse) -> CallId {
    CallId::from_file(format!("{}_masked", response.id.as_deref().unwrap_or_default()))
}

/// Saves a text, unless an earlier run of the same session did.
fn keep(file: &Path, text: &[u8]) -> io::Result<()> {
    let is_there =
        fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && found.len() == text.len() as u64);
    if is_there { Ok(()) } else { truncate::save(file, text) }
}

/// What the conversation keeps of an output, if that frees anything.
fn masked(place: Place, response: &FunctionResponse, preview: &str, at: &str) -> Option<Masked> {
    let part = masked_response(response, preview, at);
    let saved = place.tokens.checked_sub(tokens::of_part(&part)).filter(|saved| *saved > 0)?;
    Some(Masked { place, body: part.body, saved })
}

/// Both ends of an output.
fn preview(whole: &str) -> Cow<'_, str> {
    let count = whole.chars().count();
    if count <= 2 * PREVIEW {
        return Cow::Borrowed(whole);
    }
    let head = whole.char_indices().nth(PREVIEW).and_then(|(at, _)| whole.get(..at)).unwrap_or_default();
    let tail = whole.char_indices().nth_back(PREVIEW - 1).and_then(|(at, _)| whole.get(at..));
    let tail = tail.unwrap_or_default();
    Cow::Owned(format!("{head}\n... [{} characters omitted] ...\n{tail}", count - 2 * PREVIEW))
}

fn masked_response(response: &FunctionResponse, preview: &str, place: &str) -> Part {
    let text = format!("{MARK}\n{preview}\n\nFull output: {place}\n</tool_output_masked>");
    let mut fields = pollux_domain::JsonObject::new();
    fields.insert("output".into(), Value::String(text));
    Part::response(FunctionResponse {
        id: response.id.clone(),
        name: response.name.clone(),
        response: fields.into(),
        parts: Vec::new(),
    })
}

fn is_masked(response: &FunctionResponse) -> bool {
    match response.response.as_stored() {
        // The marker needs no JSON escaping.
        Some(text) => {
            text.key == "output" && text.json.strip_prefix('"').is_some_and(|json| json.starts_with(MARK))
        }
        None => {
            response.response.get("output").and_then(Value::as_str).is_some_and(|text| text.starts_with(MARK))
        }
    }
}

/// The answer as JSON for people; a text that is JSON already is copied.
fn write_pretty(to: &mut Vec<u8>, answer: &AnswerFields) -> io::Result<()> {
    match answer.as_stored() {
        Some(text) => {
            write!(to, "{{\n  {}: ", Value::from(text.key))?;
            to.extend_from_slice(text.json.as_bytes());
            to.write_all(b"\n}")
        }
        None => Ok(serde_json::to_writer_pretty(to, &**answer)?),
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::JsonObject;
    use pollux_domain::content::Content;
    use serde_json::json;

    use super::*;

    fn answer(id: &str, length: usize) -> Content {
        let response = json!({"output": "x".repeat(length)}).as_object().unwrap().clone();
        answer_of(id, response.into())
    }

    fn answer_of(id: &str, response: AnswerFields) -> Content {
        let (id, name) = (Some(id.into()), "read_file".into());
        Content::user(vec![Part::response(FunctionResponse { id, name, response, parts: Vec::new() })])
    }

    #[test]
    fn answers_that_were_never_read_are_masked_like_any_other() {
        let session = SessionId::from_file("s");
        let settings =
            Model { mask_protected_tokens: 9_000, mask_min_prunable_tokens: 1, ..Default::default() };
        for count in [9, 70] {
            let dir = tempfile::tempdir().unwrap();
            let mut seen = Vec::new();
            for is_read in [true, false] {
                let mut history = History::new(Content::user_text("env"), []);
                for n in 0..count {
                    let text = format!("{n} \"é\\\n\u{1}").repeat(if n % 5 == 0 { 9 } else { 700 });
                    let json = std::sync::Arc::new(json!(text).to_string());
                    let (stored, _) = AnswerFields::from_stored("output", &json, 0).unwrap();
                    let answer = if is_read { JsonObject::from(stored).into() } else { stored };
                    history.push(None, answer_of(&format!("c{n}"), answer));
                }
                let freed = mask_old(&mut history, &settings, dir.path(), &session);
                let folder = truncate::folder(dir.path(), &session);
                let mut files: Vec<_> =
                    fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
                files.sort();
                let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
                fs::remove_dir_all(folder).unwrap();
                let contents: Vec<Value> =
                    history.contents().iter().map(|content| content.to_json()).collect();
                assert_eq!(mask_old(&mut history, &settings, dir.path(), &session), 0, "masked already");
                seen.push((freed, history.tokens(), contents, files, texts));
            }
            assert!(seen[0].0 > 0 && seen[0] == seen[1], "{count}");
        }
    }

    #[test]
    fn only_old_outputs_are_masked_and_their_text_is_kept_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(Content::user_text("env"), []);
        for n in 0..5 {
            history.push(None, answer(&format!("c{n}"), 40_000));
        }
        let settings = Model {
            mask_protected_tokens: 15_000,
            mask_min_prunable_tokens: 10_000,
            mask_protect_latest: true,
            ..Default::default()
        };
        let freed = mask_old(&mut history, &settings, dir.path(), &SessionId::from_file("s"));
        assert!(freed > 25_000, "{freed}");
        let masked: Vec<bool> =
            history.entries().iter().skip(1).map(|entry| entry.content.responses().any(is_masked)).collect();
        assert_eq!(masked, [true, true, true, false, false]);
        assert_eq!(
            std::fs::read_dir(truncate::folder(dir.path(), &SessionId::from_file("s"))).unwrap().count(),
            3
        );
        assert_eq!(mask_old(&mut history, &settings, dir.path(), &SessionId::from_file("s")), 0);
    }

    #[test]
    fn very_many_outputs_share_a_file_in_which_each_is_found_by_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut history = History::new(Content::user_text("env"), []);
        for n in 0..50 {
            history.push(None, answer(&format!("c{n}"), 4_000 + n));
        }
        let settings =
            Model { mask_protected_tokens: 1_000, mask_min_prunable_tokens: 1, ..Default::default() };
        let session = SessionId::from_file("s");
        assert!(mask_old(&mut history, &settings, dir.path(), &session) > 30_000);
        let files: Vec<_> = std::fs::read_dir(truncate::folder(dir.path(), &session)).unwrap().collect();
        assert_eq!(files.len(), 1);
        let text = std::fs::read_to_string(files[0].as_ref().unwrap().path()).unwrap();
        let shown = history.entries()[11].content.responses().next().unwrap().response["output"].clone();
        let place = shown.as_str().unwrap().rsplit_once("lines ").unwrap().1;
        let (from, to) = place.split('\n').next().unwrap().split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let lines: Vec<&str> = text.lines().skip(from - 1).take(to + 1 - from).collect();
        let whole: Value = serde_json::from_str(&lines.join("\n")).unwrap();
        assert_eq!(whole["output"].as_str().unwrap().len(), 4_010);
    }
}
