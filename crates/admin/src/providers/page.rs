//! The output of the command.

use pollux_domain::plural::counted;
use pollux_domain::terminal_text::{one_line, plain};
use pollux_host::providers::set::{Probe, ProbeResult, ProviderRow};
use serde_json::{Value, json};

use crate::columns::columns;

pub(super) fn list(rows: &[ProviderRow], as_json: bool) -> String {
    if as_json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        return format!("{:#}\n", Value::Array(rows));
    }
    let heading = ["provider", "dialect", "origin", "key", "state"].map(str::to_owned);
    let lines = rows.iter().map(|row| {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let state = match row.models {
            Some(count) => format!("{} ({})", row.state.as_str(), counted(count, "model")),
            None => row.state.as_str().to_owned(),
        };
        [row.id.clone(), row.dialect.clone(), text(&row.origin), text(&row.key), state]
    });
    let table = columns(std::iter::once(heading).chain(lines), &[]);
    let mut text = String::new();
    // The heading has no row.
    let problems = std::iter::once(None).chain(rows.iter().map(|row| row.problem.as_ref()));
    for (line, problem) in table.lines().zip(problems) {
        text.push_str(line);
        text.push('\n');
        if let Some(problem) = problem {
            text.push_str(&format!("  {}\n", one_line(problem)));
        }
    }
    plain(&text).into_owned()
}

fn row_json(row: &ProviderRow) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "dialect": row.dialect,
        "origin": row.origin,
        "keySource": row.key,
        "local": row.local,
        "state": row.state.as_str(),
        "problem": row.problem,
        "models": row.models,
    })
}

pub(super) fn probe(probe: &Probe, as_json: bool) -> String {
    let Probe { provider, model, stream, tools, json } = probe;
    if as_json {
        let value = json!({
            "provider": provider,
            "model": model,
            "stream": result_json(stream),
            "tools": result_json(tools),
            "json": result_json(json),
        });
        return format!("{value:#}\n");
    }
    let mut text = format!("{provider}/{model}\n");
    for (name, result) in [("streaming", stream), ("tool calls", tools), ("JSON output", json)] {
        let said = match result {
            ProbeResult::Works(time) => format!("works ({:.1} s)", time.as_secs_f32()),
            ProbeResult::Lacks(reason) => format!("does not work: {}", one_line(reason)),
            ProbeResult::Unknown(reason) => format!("unknown: {}", one_line(reason)),
        };
        text.push_str(&format!("  {name:<11}  {said}\n"));
    }
    plain(&text).into_owned()
}

fn result_json(result: &ProbeResult) -> Value {
    let (time, reason) = match result {
        ProbeResult::Works(time) => (Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)), None),
        ProbeResult::Lacks(reason) | ProbeResult::Unknown(reason) => (None, Some(reason)),
    };
    json!({"works": result.works(), "ms": time, "reason": reason})
}
