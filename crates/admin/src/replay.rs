//! `pollux replay`: runs the session of a bug report again and compares the events.

mod arguments;

use pollux_capsule::{Capsule, Difference, RecordedEvent, first_difference};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::plural::counted;
use pollux_domain::terminal_text::{self, one_line};
use pollux_domain::text::shortened;
use pollux_host::{cannot_start, replay};
use serde_json::{Value, json};

pub use arguments::{ReplayArgs, ReplayCommand};

use crate::context::Context;

/// Characters that are shown of an event, and of what it has in common with the other one.
const SHOWN: usize = 300;
const SHARED: usize = 60;

/// Runs the command.
pub fn run(command: &ReplayCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let file = context.env.cwd().join(&command.file);
    let capsule = Capsule::read(&file).map_err(|error| Failure::from_error(ExitKind::Input, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| cannot_start(&error))?;
    let (mut same, mut first) = (0, 1);
    for record in &capsule.sessions {
        let replayed = runtime.block_on(replay(record, first))?;
        first += record.events.len();
        match first_difference(&record.events, &replayed) {
            Ok(count) => same += count,
            Err(difference) => return different(&difference, command.json, context),
        }
    }
    match command.json {
        true => print_json(context, &json!({"same": true, "events": same})),
        false => print_result(context.out, &format!("no differences in {}\n", counted(same, "event"))),
    }
}

fn different(difference: &Difference, json: bool, context: &mut Context<'_>) -> Result<(), Failure> {
    let number = difference.number;
    let (expected, actual) = (value(difference.expected.as_ref()), value(difference.actual.as_ref()));
    if json {
        let told = json!({"same": false, "event": number, "expected": expected, "actual": actual});
        print_json(context, &told)?;
    } else {
        let (expected, actual) = (shown(&expected), shown(&actual));
        let from = first_difference_at(&expected, &actual).saturating_sub(SHARED);
        let text = format!(
            "event {number} differs\n  expected: {}\n  actual:   {}\n",
            excerpt(&expected, from),
            excerpt(&actual, from)
        );
        print_result(context.out, &terminal_text::plain(&text))?;
    }
    Err(Failure::new(ExitKind::Failure, format!("the replay differs at event {number}")))
}

/// An event without what is not compared; null for none.
fn value(event: Option<&RecordedEvent>) -> Value {
    event.and_then(|event| serde_json::to_value(&event.kind).ok()).unwrap_or_default()
}

fn shown(value: &Value) -> String {
    if value.is_null() { "nothing".to_owned() } else { value.to_string() }
}

/// How many characters two texts have in common at their beginnings.
fn first_difference_at(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

fn excerpt(text: &str, from: usize) -> String {
    let rest: String = text.chars().skip(from).collect();
    let mark = if from > 0 { "…" } else { "" };
    one_line(&format!("{mark}{}", shortened(&rest, SHOWN)))
}

fn print_json(context: &mut Context<'_>, value: &Value) -> Result<(), Failure> {
    print_result(context.out, &terminal_text::json(format!("{value:#}\n")))
}

#[cfg(test)]
mod tests;
