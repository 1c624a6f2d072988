//! Old tool outputs leave the conversation for a file when they have grown too many.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pollux_config::groups::Model;
use pollux_domain::content::{Body, FunctionResponse, Part, Role};
use pollux_domain::id::{CallId, SessionId};
use serde_json::Value;

use crate::history::History;
use crate::tokens;
use crate::truncate;

const MARK: &str = "<tool_output_masked>";
/// Characters kept from each end of a masked output.
const PREVIEW: usize = 250;
/// More than these at once share a file.
const SINGLE_FILES: usize = 32;
const BUFFER: usize = 256 * 1024;
/// Tools whose answers steer the conversation and stay.
const EXEMPT: [&str; 4] = ["activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"];

/// Masks old outputs; how many tokens were freed.
pub(crate) fn mask_old(history: &mut History, settings: &Model, temp_dir: &Path, session: &SessionId) -> u64 {
    let found = prunable(history, settings);
    let total: u64 = found.iter().map(|(_, _, tokens)| tokens).sum();
    if found.is_empty() || total < settings.mask_min_prunable_tokens {
        return 0;
    }
    let mut store = Store { temp_dir, session, bundle: None, bundles: found.len() > SINGLE_FILES };
    let mut buffer = Vec::new();
    let masked: Vec<Masked> =
        found.into_iter().filter_map(|place| mask(history, place, &mut store, &mut buffer)).collect();
    // Nothing leaves the conversation before it is in a file.
    if store.finish().is_err() {
        return 0;
    }
    let mut freed = 0;
    for Masked { turn, part, body, saved } in masked {
        history.rewrite(turn, part, body);
        freed += saved;
    }
    freed
}

/// Outputs beyond the protected newest ones: turn, part and tokens.
fn prunable(history: &History, settings: &Model) -> Vec<(usize, usize, u64)> {
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
            let cost = tokens::of_part(part);
            if protected <= settings.mask_protected_tokens {
                protected += cost;
            }
            if protected > settings.mask_protected_tokens {
                found.push((turn, index, cost));
            }
        }
    }
    found
}

/// An output whose text is on its way to a file.
struct Masked {
    turn: usize,
    part: usize,
    body: Body,
    saved: u64,
}

fn mask(
    history: &History,
    (turn, index, cost): (usize, usize, u64),
    store: &mut Store<'_>,
    buffer: &mut Vec<u8>,
) -> Option<Masked> {
    let part = history.entries().get(turn)?.content.parts.get(index)?;
    let Body::Response(response) = &part.body else { return None };
    buffer.clear();
    serde_json::to_writer_pretty(&mut *buffer, &response.response).ok()?;
    let whole = std::str::from_utf8(buffer).ok()?;
    let preview = preview(whole);
    // Not worth a file, wherever that will be.
    if tokens::of_part(&masked_response(response, &preview, "")) >= cost {
        return None;
    }
    let place = store.keep(response, whole).ok()?;
    let masked = masked_response(response, &preview, &place);
    let saved = cost.checked_sub(tokens::of_part(&masked)).filter(|saved| *saved > 0)?;
    Some(Masked { turn, part: index, body: masked.body, saved })
}

/// Where masked outputs go: each to a file of its own, very many at once to a common one. A file costs more
/// than what is in it, and a resumed session may have thousands.
struct Store<'a> {
    temp_dir: &'a Path,
    session: &'a SessionId,
    bundles: bool,
    bundle: Option<Bundle>,
}

struct Bundle {
    path: PathBuf,
    writer: BufWriter<File>,
    lines: usize,
}

impl Store<'_> {
    /// Saves an output; the words that say where it is.
    fn keep(&mut self, response: &FunctionResponse, whole: &str) -> io::Result<String> {
        let id = response.id.as_deref().unwrap_or_default();
        let call = CallId::from_file(format!("{id}_masked"));
        let file = truncate::file_for(self.temp_dir, self.session, &response.name, &call);
        // An earlier run of the same session may have saved it.
        let is_there = fs::symlink_metadata(&file)
            .is_ok_and(|found| found.is_file() && found.len() == whole.len() as u64);
        if is_there {
            return Ok(file.display().to_string());
        }
        if !self.bundles {
            truncate::save(&file, whole)?;
            return Ok(file.display().to_string());
        }
        let bundle = match &mut self.bundle {
            Some(bundle) => bundle,
            None => {
                let path = truncate::file_for(self.temp_dir, self.session, "outputs", &call);
                let writer = BufWriter::with_capacity(BUFFER, truncate::create(&path)?);
                self.bundle.insert(Bundle { path, writer, lines: 0 })
            }
        };
        bundle.writer.write_all(whole.as_bytes())?;
        bundle.writer.write_all(b"\n")?;
        let first = bundle.lines + 1;
        bundle.lines += whole.lines().count();
        Ok(format!("{}, lines {first}-{}", bundle.path.display(), bundle.lines))
    }

    fn finish(self) -> io::Result<()> {
        self.bundle.map_or(Ok(()), |mut bundle| bundle.writer.flush())
    }
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
        response: fields,
        parts: Vec::new(),
    })
}

fn is_masked(response: &FunctionResponse) -> bool {
    response.response.get("output").and_then(Value::as_str).is_some_and(|text| text.starts_with(MARK))
}

#[cfg(test)]
mod tests {
    use pollux_domain::content::Content;
    use serde_json::json;

    use super::*;

    fn answer(id: &str, length: usize) -> Content {
        let response = json!({"output": "x".repeat(length)}).as_object().unwrap().clone();
        Content::user(vec![Part::response(FunctionResponse {
            id: Some(id.into()),
            name: "read_file".into(),
            response,
            parts: Vec::new(),
        })])
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
