//! Converts a tool outcome to the model's function response.

use std::borrow::Cow;
use std::path::Path;

use pollux_config::groups::Tools;
use pollux_domain::JsonObject;
use pollux_domain::content::{Body, FunctionResponse, Part};
use pollux_domain::event::{CallFailure, CallOutcome, CallReport};
use pollux_domain::id::SessionId;
use pollux_domain::tool::{DECLINED, Display, LineDelta, ToolKind, ToolOutcome, ToolOutput};
use pollux_domain::untrusted::sealed_result;
use serde_json::{Value, json};

use crate::call::Finished;
use crate::truncate;

/// Tools whose audio and video may be shown to the model in a turn of their own.
const MEDIA_READERS: [&str; 2] = ["read_file", "read_many_files"];

const BY_USER: &str = "[Operation Cancelled] User cancelled tool execution.";
const OUT_OF_TIME: &str =
    "[Operation Cancelled] The agent's time limit was reached; the user did not cancel tool execution.";

/// Where and when long outputs are saved, and what is true of the session.
pub(crate) struct Offload<'a> {
    pub(crate) settings: &'a Tools,
    pub(crate) temp_dir: &'a Path,
    pub(crate) session: &'a SessionId,
    /// Tokens left in the model's window.
    pub(crate) window_left: u64,
    /// A time limit cancelled what was cancelled.
    pub(crate) out_of_time: bool,
}

/// The answer to one call.
pub(crate) struct CallAnswer {
    /// The function response, and parts that stand next to it.
    pub(crate) parts: Vec<Part>,
    /// Media that the protocol wants in a turn of their own.
    pub(crate) deferred: Vec<Part>,
    /// The warning for an output that could not be saved.
    pub(crate) problem: Option<String>,
}

impl CallAnswer {
    /// Builds the answer; `context` is project context found near what the call touched.
    pub(crate) fn build(finished: &Finished, context: Option<&str>, offload: &Offload<'_>) -> Self {
        let mut deferred = Vec::new();
        let mut nested = Vec::new();
        let mut problem = None;
        let mut response = JsonObject::new();
        match &finished.outcome {
            ToolOutcome::Done(output) => {
                let (mut text, media) = split(output, &finished.call.name, &mut deferred);
                nested = media;
                if let Cow::Owned(safe) = sealed_result(&text) {
                    text = safe.into();
                }
                if let Some(context) = context {
                    text.to_mut().push_str(&format!(
                        "\n\n--- Newly Discovered Project Context ---\n{context}\n--- End Project Context ---"
                    ));
                }
                let text = offloaded(text, finished, offload, &mut problem) + &finished.appended;
                response.insert("output".into(), json!(text));
            }
            ToolOutcome::Failed(failure) => {
                let text = format!("{}{}", failure.message, finished.appended);
                response.insert("error".into(), json!(text));
            }
            ToolOutcome::Cancelled { partial } => {
                if let Some(partial) = partial {
                    let text = offloaded(partial.into(), finished, offload, &mut problem);
                    response.insert("output".into(), json!(text));
                }
                let why = if offload.out_of_time { OUT_OF_TIME } else { BY_USER };
                response.insert("error".into(), json!(why));
            }
            ToolOutcome::Refused(reason) => {
                let text = format!("{DECLINED}{reason}");
                response.insert("error".into(), json!(text));
            }
        }
        let part = Part::response(FunctionResponse {
            id: Some(finished.call.id.as_str().to_owned()),
            name: finished.call.name.clone(),
            response: response.into(),
            parts: nested,
        });
        Self { parts: vec![part], deferred, problem }
    }
}

/// Separates texts and media of a result.
fn split<'a>(output: &'a ToolOutput, tool: &str, deferred: &mut Vec<Part>) -> (Cow<'a, str>, Vec<Part>) {
    let texts: Vec<&str> = output.parts.iter().filter_map(Part::spoken_text).collect();
    let media: Vec<&Part> = output.parts.iter().filter(|part| part.spoken_text().is_none()).collect();
    let (moving, still): (Vec<&Part>, Vec<&Part>) =
        media.into_iter().partition(|part| is_audio_or_video(part));
    // A long text is not copied only to be cut.
    let mut text = match texts.as_slice() {
        [only] => Cow::Borrowed(*only),
        several => Cow::Owned(several.join("\n")),
    };
    if !moving.is_empty() {
        let mimes: Vec<&str> = moving.iter().filter_map(|part| mime(part)).collect();
        let mimes = mimes.join(", ");
        if MEDIA_READERS.contains(&tool) {
            text = Cow::Owned(format!(
                "Binary content ({mimes}) read successfully. Content will be injected for analysis in the next sequence."
            ));
            deferred.extend(moving.into_iter().cloned());
        } else {
            text.to_mut().push_str(&format!(
                "[SYSTEM: Binary content ({mimes}) stripped from response due to protocol limitations.]"
            ));
        }
    }
    if text.is_empty() && !still.is_empty() {
        text = Cow::Owned(format!("Binary content provided ({} item(s)).", still.len()));
    }
    (text, still.into_iter().cloned().collect())
}

fn offloaded(
    text: Cow<'_, str>,
    finished: &Finished,
    offload: &Offload<'_>,
    problem: &mut Option<String>,
) -> String {
    if !finished.spec.as_ref().is_some_and(|spec| spec.offloads_long_output) {
        return text.into_owned();
    }
    let Some(threshold) = truncate::exceeded(&text, offload.settings, offload.window_left) else {
        return text.into_owned();
    };
    let file = truncate::file_for(offload.temp_dir, offload.session, &finished.call.name, &finished.call.id);
    match truncate::save(&file, text.as_bytes()) {
        Ok(()) => truncate::excerpt(&text, threshold, &file),
        Err(error) => {
            *problem = Some(format!("could not save the whole output to `{}`: {error}", file.display()));
            truncate::excerpt(&text, threshold, Path::new("(not saved)"))
        }
    }
}

/// The report for front ends and telemetry. It takes the parts of the result, which nobody else reads after it.
pub(crate) fn report(done: &mut Finished, answer: &[Part], prompt_id: &str) -> CallReport {
    let (mut parts, mut sandbox) = (Vec::new(), None);
    let (outcome, display, lines) = match &mut done.outcome {
        ToolOutcome::Done(output) => {
            parts = std::mem::take(&mut output.parts);
            sandbox = output.sandbox.take();
            let outcome = match &output.failure {
                Some(failure) => CallOutcome::Failed(failure.clone().into()),
                None => CallOutcome::Succeeded,
            };
            (outcome, output.display.clone(), output.lines)
        }
        ToolOutcome::Failed(failure) => {
            let shown = failure.display.clone().unwrap_or_else(|| failure.message.clone());
            let outcome = CallOutcome::Failed(CallFailure {
                kind: failure.kind,
                message: failure.message.clone(),
                denial: done.denial.take(),
                run: None,
            });
            (outcome, Display::Text(shown), LineDelta::default())
        }
        ToolOutcome::Cancelled { .. } => {
            (CallOutcome::Cancelled, Display::Text("Cancelled".into()), LineDelta::default())
        }
        ToolOutcome::Refused(message) => {
            (CallOutcome::Cancelled, Display::Text(message.clone()), LineDelta::default())
        }
    };
    CallReport {
        call: done.call.id.clone(),
        name: done.call.name.clone(),
        kind: done.spec.as_ref().map_or(ToolKind::Other, |spec| spec.kind),
        args: done.call.args.clone(),
        outcome,
        display,
        lines,
        duration: done.duration,
        decision: done.decision,
        answer: answer.iter().map(text).collect(),
        prompt_id: prompt_id.to_owned(),
        paths: std::mem::take(&mut done.paths),
        parts,
        sandbox,
        permit: done.permit.take(),
    }
}

/// What the model reads, as text.
fn text(part: &Part) -> String {
    match &part.body {
        Body::Response(response) => {
            response.response.values().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        Body::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn is_audio_or_video(part: &Part) -> bool {
    mime(part).is_some_and(|mime| mime.starts_with("audio/") || mime.starts_with("video/"))
}

fn mime(part: &Part) -> Option<&str> {
    match &part.body {
        Body::InlineData(blob) => Some(&blob.mime_type),
        Body::FileData { mime_type, .. } => Some(mime_type),
        _ => None,
    }
}

/// The bytes by which two results are compared.
pub(crate) fn fingerprint(parts: &[Part]) -> Vec<u8> {
    let values: Vec<Value> = parts
        .iter()
        .map(|part| match &part.body {
            Body::Response(response) => Value::Object(JsonObject::clone(&response.response)),
            _ => part.to_json(),
        })
        .collect();
    serde_json::to_vec(&values).unwrap_or_default()
}
