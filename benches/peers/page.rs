//! Tables and plots of the results, for `docs/src/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pollux_test_support::plot::{Bar, bars};
use serde_json::Value;

use crate::results::Results;

/// A column of a table: its heading, and where its figures are.
struct Column {
    heading: &'static str,
    scene: &'static str,
    measure: &'static str,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// With the ratio to Pollux on the same wire.
    Millis,
    Mib,
    Kib,
    Count,
    /// Of the whole.
    Share,
    /// Tokens, from the size of what was sent.
    Tokens,
}

const fn column(heading: &'static str, scene: &'static str, measure: &'static str, unit: Unit) -> Column {
    Column { heading, scene, measure, unit }
}

/// The tables by the names of their places in the page.
const TABLES: [(&str, &[Column]); 5] = [
    (
        "time",
        &[
            column("`--version`", "start", "wall_ms", Unit::Millis),
            column("first paint", "paint", "wall_ms", Unit::Millis),
            column("one prompt", "prompt", "wall_ms", Unit::Millis),
            column("20 tool calls", "calls", "wall_ms", Unit::Millis),
            column("2,000 chunks", "stream", "wall_ms", Unit::Millis),
            column("resume", "resume", "wall_ms", Unit::Millis),
            column("list 10 sessions", "list", "wall_ms", Unit::Millis),
        ],
    ),
    (
        "processor",
        &[
            column("`--version`", "start", "cpu_ms", Unit::Millis),
            column("one prompt", "prompt", "cpu_ms", Unit::Millis),
            column("20 tool calls", "calls", "cpu_ms", Unit::Millis),
            column("2,000 chunks", "stream", "cpu_ms", Unit::Millis),
        ],
    ),
    (
        "memory",
        &[
            column("one prompt", "prompt", "peak_mib", Unit::Mib),
            column("20 tool calls", "calls", "peak_mib", Unit::Mib),
            column("2,000 chunks", "stream", "peak_mib", Unit::Mib),
            column("idle interface, all processes", "paint", "peak_mib", Unit::Mib),
        ],
    ),
    (
        "sent",
        &[
            column("requests of one prompt", "prompt", "requests", Unit::Count),
            column("sent for one prompt", "prompt", "sent_kib", Unit::Kib),
            column("about", "prompt", "sent_kib", Unit::Tokens),
            column("sent for 20 tool calls", "calls", "sent_kib", Unit::Kib),
            column("repeated beginning", "calls", "repeated", Unit::Share),
            column("new", "calls", "new_kib", Unit::Kib),
        ],
    ),
    (
        "disk",
        &[
            column("first prompt", "disk", "first_kib", Unit::Kib),
            column("each prompt after it", "disk", "later_kib", Unit::Kib),
        ],
    ),
];

/// The plots: file, title, and the column that they show.
const PLOTS: [(&str, &str, Column); 9] = [
    ("start", "Start (--version)", column("", "start", "wall_ms", Unit::Millis)),
    ("paint", "First paint of the interface", column("", "paint", "wall_ms", Unit::Millis)),
    ("prompt", "One prompt", column("", "prompt", "wall_ms", Unit::Millis)),
    ("calls", "20 tool calls, one after the other", column("", "calls", "wall_ms", Unit::Millis)),
    ("stream", "An answer in 2,000 chunks", column("", "stream", "wall_ms", Unit::Millis)),
    ("resume", "Another prompt in a session", column("", "resume", "wall_ms", Unit::Millis)),
    ("memory", "Peak memory of one prompt", column("", "prompt", "peak_mib", Unit::Mib)),
    ("sent", "Sent to the model for one prompt", column("", "prompt", "sent_kib", Unit::Kib)),
    ("disk", "Written to the home by each prompt", column("", "disk", "later_kib", Unit::Kib)),
];

/// Writes the plots, and the tables into their places in the page.
#[expect(clippy::disallowed_methods, reason = "a bench's own report needs no atomic write")]
pub(crate) fn draw(results: &Results, folder: &Path) {
    for (name, title, column) in &PLOTS {
        let file = folder.join("pictures").join(format!("bench-{name}.svg"));
        fs::write(file, bars(title, &plotted(results, column))).expect("write a plot");
    }
    let page = folder.join("benchmarks.md");
    let mut text = fs::read_to_string(&page).expect("docs/src/benchmarks.md");
    text = replaced(&text, "programs", &programs(results));
    for (name, columns) in TABLES {
        text = replaced(&text, name, &table(results, columns));
    }
    fs::write(page, text).expect("write the page");
}

/// The page with another text between the marks of this name.
fn replaced(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- figures: {name} -->\n"), format!("<!-- end of figures: {name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page has no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("the page has no {end}"));
    format!("{before}{begin}\n{text}\n{end}{after}")
}

fn text_of<'a>(program: &'a Value, field: &str) -> &'a str {
    program[field].as_str().unwrap_or_default()
}

fn programs(results: &Results) -> String {
    let mut text = String::from("| program | version | API |\n|---|---|---|\n");
    for program in results.programs() {
        let [name, version, wire] = ["name", "version", "wire"].map(|field| text_of(program, field));
        let _ = writeln!(text, "| {name} | {version} | {} |", api(wire));
    }
    let taken = match results.rounds() {
        1 => "One round".to_owned(),
        rounds => format!("Medians of {rounds} rounds"),
    };
    let _ = writeln!(text, "\n{taken} on {}.", results.machine());
    text
}

fn api(wire: &str) -> &str {
    match wire {
        "gemini" => "Gemini",
        "chat" => "Chat Completions",
        "responses" => "Responses",
        "messages" => "Messages",
        other => other,
    }
}

fn table(results: &Results, columns: &[Column]) -> String {
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let mut text =
        format!("| program | {} |\n|---|{}\n", headings.join(" | "), "---:|".repeat(columns.len()));
    let mut reasons: Vec<String> = Vec::new();
    for program in results.programs() {
        let name = text_of(program, "name");
        let cells: Vec<String> = columns.iter().map(|column| cell(results, program, column)).collect();
        if cells.iter().all(|cell| cell == "–") {
            continue;
        }
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        reasons.extend(columns.iter().filter_map(|column| {
            let reason = results.reason(column.scene, name)?;
            Some(format!("{name}, {}: {reason}.", column.heading))
        }));
    }
    if !reasons.is_empty() {
        let _ = write!(text, "\n{}\n", reasons.join(" "));
    }
    text
}

fn cell(results: &Results, program: &Value, column: &Column) -> String {
    let name = text_of(program, "name");
    let Some(value) = results.figure(column.scene, name, column.measure) else {
        return "–".to_owned();
    };
    let ours = format!("Pollux ({})", wire_label(text_of(program, "wire")));
    let base = results
        .figure(column.scene, &ours, column.measure)
        .or_else(|| results.figure(column.scene, "Pollux (Gemini)", column.measure));
    let figure = figure(value, column.unit);
    match base {
        Some(base) if column.unit == Unit::Millis && text_of(program, "kind") != "Pollux" && base > 0.0 => {
            format!("{figure} ({}×)", ratio(value / base))
        }
        _ => figure,
    }
}

fn wire_label(wire: &str) -> &str {
    match wire {
        "chat" => "Chat",
        other => api(other),
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}") } else { grouped(ratio) }
}

fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Millis if value < 10.0 => format!("{value:.1} ms"),
        Unit::Millis => format!("{} ms", grouped(value)),
        Unit::Mib => format!("{} MiB", grouped(value)),
        Unit::Kib if value >= 10_240.0 => format!("{} MiB", grouped(value / 1024.0)),
        Unit::Kib if value < 10.0 => format!("{value:.1} KiB"),
        Unit::Kib => format!("{} KiB", grouped(value)),
        Unit::Count => grouped(value),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Tokens => format!("{} tokens", grouped((value * 1024.0 / 4.0 / 100.0).round() * 100.0)),
    }
}

/// A whole number with commas between its thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let groups = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok());
    let sign = if value <= -0.5 { "-" } else { "" };
    format!("{sign}{}", groups.collect::<Vec<_>>().join(","))
}

fn plotted(results: &Results, column: &Column) -> Vec<Bar> {
    let bar = |program: &Value| {
        let value = results.figure(column.scene, text_of(program, "name"), column.measure)?;
        let is_ours = text_of(program, "kind") == "Pollux";
        // Only one of ours needs no wire.
        let others = results.programs().iter().filter(|other| {
            text_of(other, "kind") == "Pollux"
                && results.figure(column.scene, text_of(other, "name"), column.measure).is_some()
        });
        let is_only = is_ours && others.count() == 1;
        let name = text_of(program, if is_only { "kind" } else { "name" });
        Some(Bar { name: name.to_owned(), value, figure: figure(value, column.unit), is_ours })
    };
    results.programs().iter().filter_map(bar).collect()
}
