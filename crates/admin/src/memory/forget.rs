//! Forgetting: what would go, the question, what went.

use std::fmt::Write as _;

use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_host::sessions::Proposal;
use serde_json::{Value, json};

use super::{Traces, show, show_json};
use crate::context::Context;
use pollux_domain::plural::counted;

pub(super) fn run(
    proposal: Proposal<Traces, Traces>,
    yes: bool,
    as_json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let plan = &proposal.plan;
    let is_empty = plan.files.is_empty()
        && plan.chunks + plan.cache_entries + plan.learnings == 0
        && plan.transcripts.is_empty();
    if !is_empty {
        context.agreed(yes, "Forget all of these?", &list("Memories to forget:", plan))?;
    }
    // Also where nothing is found: what is forgotten does not come back with a later transcript.
    let done = (proposal.carry_out)()?;
    if as_json {
        return show_json(context.out, &json_of(&done));
    }
    if is_empty {
        return show(context.out, &format!("Nothing to forget.\n{}{}", sources(&done), elsewhere(&done)));
    }
    show(context.out, &format!("{}\n{}{}", list("Forgotten:", &done), sources(&done), elsewhere(&done)))
}

fn list(title: &str, traces: &Traces) -> String {
    let mut text = format!("{title}\n");
    // Writing to a String cannot fail.
    let (chunks, files) = (counted(traces.chunks, "passage"), counted(traces.files.len(), "file"));
    let _ = writeln!(text, "  {chunks} of {files} in the index");
    for file in &traces.files {
        let _ = writeln!(text, "    {}", one_line(file));
    }
    if traces.cache_entries > 0 {
        let _ = writeln!(text, "  {} in the cache", counted(traces.cache_entries, "vector"));
    }
    if traces.learnings > 0 {
        let _ = writeln!(text, "  {}", counted(traces.learnings, "learning"));
    }
    for file in &traces.transcripts {
        let _ = writeln!(text, "  in the transcript {}", one_line(file));
    }
    text.truncate(text.trim_end().len());
    text
}

/// What the user has to change in person.
fn sources(traces: &Traces) -> String {
    if traces.kept.is_empty() {
        return String::new();
    }
    let mut text = "Also in your own files, which Pollux does not change:\n".to_owned();
    for file in &traces.kept {
        let _ = writeln!(text, "  {}", one_line(file));
    }
    text
}

/// What is beyond this workspace.
fn elsewhere(traces: &Traces) -> String {
    match traces.elsewhere {
        0 => String::new(),
        count => format!(
            "Also found in {}; `--all-workspaces` forgets it there too.\n",
            counted(count, "other workspace")
        ),
    }
}

fn json_of(traces: &Traces) -> Value {
    json!({
        "files": traces.files,
        "chunks": traces.chunks,
        "cacheEntries": traces.cache_entries,
        "transcripts": traces.transcripts,
        "learnings": traces.learnings,
        "kept": traces.kept,
        "otherWorkspaces": traces.elsewhere,
    })
}
