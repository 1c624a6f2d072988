//! Compares a receipt with the session it is about.

use std::path::Path;

use pollux_config::settings::read_object;
use pollux_domain::JsonObject;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::plural::counted;
use pollux_host::sessions::Which;
use pollux_output::digest;
use serde_json::Value;

use super::Archive;

/// Compares every call of a receipt with the session file; the result is a line for the user.
pub(super) fn verify(archive: &mut Archive, file: &Path) -> Result<String, Failure> {
    let receipt = read(file)?;
    let id = text(&receipt, "sessionId");
    let record = archive.record(&Which { id: id.to_owned(), all_projects: true, source: None })?;
    let recorded = calls_of(&record);
    let (mut differences, mut checked, mut of_agents) = (Vec::new(), 0_usize, 0_usize);
    for call in receipt.get("calls").and_then(Value::as_array).into_iter().flatten() {
        // Calls of sub-agents are in files of their own.
        if call.get("agent").is_some() {
            of_agents += 1;
            continue;
        }
        checked += 1;
        let (id, tool) = (value_text(call, "id"), value_text(call, "tool"));
        let known = recorded.iter().find(|known| value_text(known, "id") == id);
        let different = match known {
            None => Some("is not in the session"),
            Some(known) if value_text(known, "name") != tool => Some("is a call of another tool"),
            Some(known) if value_text(known, "status") != value_text(call, "status") => {
                Some("ended differently")
            }
            Some(known) => {
                let args = known.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
                (digest(&args) != value_text(call, "argsSha256")).then_some("has other arguments")
            }
        };
        differences.extend(different.map(|what| format!("call `{id}` ({tool}) {what}")));
    }
    if differences.is_empty() {
        let agents = if of_agents == 0 {
            String::new()
        } else {
            format!(" {} of sub-agents were not compared.", counted(of_agents, "call"))
        };
        return Ok(format!(
            "The receipt matches session {id}: {} compared.{agents}\n",
            counted(checked, "call")
        ));
    }
    let mut failure = Failure::new(ExitKind::Failure, format!("the receipt does not match session {id}"));
    failure.causes = differences;
    Err(failure)
}

fn read(file: &Path) -> Result<JsonObject, Failure> {
    let invalid = |why: &str| {
        Failure::new(ExitKind::Input, format!("cannot read the receipt `{}`: {why}", file.display()))
            .hint("use a file that `--receipt FILE.json` wrote")
    };
    match read_object(file) {
        Ok(Some(object)) if object.get("receipt").is_some_and(Value::is_u64) => Ok(object),
        Ok(Some(_)) => Err(invalid("it is not a receipt")),
        Ok(None) => Err(invalid("it does not exist")),
        Err(error) => {
            Err(invalid(&error.files.first().map_or_else(|| error.to_string(), |file| file.reason.clone())))
        }
    }
}

fn text<'a>(object: &'a JsonObject, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn value_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// All tool calls of a session record.
fn calls_of(record: &Value) -> Vec<&Value> {
    let messages = record.get("messages").and_then(Value::as_array).into_iter().flatten();
    messages.filter_map(|message| message.get("toolCalls")?.as_array()).flatten().collect()
}
