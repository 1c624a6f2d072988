//! Going back: what would happen, the question, what happened.

use std::fmt::Write as _;
use std::path::PathBuf;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use serde_json::{Value, json};

use super::{FileSteps, Proposal, Rewound, WayBack, print_json, shown};
use crate::context::Context;

pub(super) fn run(
    proposal: Proposal<WayBack, Rewound>,
    yes: bool,
    as_json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let plan = plan(&proposal.plan);
    context.agreed(yes, "Rewind?", &plan)?;
    if yes && !as_json {
        // The plan was not shown in a question, so it is printed now.
        print_result(context.out, &format!("{plan}\n"))?;
    }
    let done = (proposal.carry_out)()?;
    if as_json {
        print_json(context.out, &json_of(&proposal.plan, &done))?;
    } else {
        print_result(context.out, &result(&proposal.plan, &done))?;
    }
    match done.failed.as_slice() {
        [] => Ok(()),
        failed => {
            let text = format!("could not restore {} paths", failed.len());
            Err(Failure::new(ExitKind::Failure, text).hint("run the same command to retry"))
        }
    }
}

fn plan(way: &WayBack) -> String {
    let mut text = format!(
        "Rewind session {} to before: {} [{}]\n",
        shown(&way.session),
        shown(&way.prompt),
        shown(&way.message)
    );
    // Writing to a String cannot fail.
    if let Some(count) = way.messages {
        let _ = writeln!(text, "Conversation: {count} messages will be removed; a copy is kept.");
    }
    if let Some(files) = &way.files {
        file_plan(files, &mut text);
    }
    text.truncate(text.trim_end().len());
    text
}

fn file_plan(files: &FileSteps, text: &mut String) {
    let _ = writeln!(text, "Files in {}:", shown(&files.root.to_string_lossy()));
    for (action, path) in &files.steps {
        let _ = writeln!(text, "  {action}: {}", shown(&path.to_string_lossy()));
    }
    for (path, why) in &files.conflicts {
        let _ = writeln!(text, "  stays: {} ({})", shown(&path.to_string_lossy()), shown(why));
    }
    for (path, why) in &files.lost {
        let _ = writeln!(text, "  cannot be restored: {} ({})", shown(&path.to_string_lossy()), shown(why));
    }
    if files.steps.is_empty() && files.conflicts.is_empty() && files.lost.is_empty() {
        text.push_str("  nothing to restore\n");
    }
    if files.from_diffs {
        text.push_str("  (from the edits recorded in the session; changes made by commands are unknown)\n");
    }
}

fn result(way: &WayBack, done: &Rewound) -> String {
    let mut text = String::new();
    if way.files.is_some() {
        let _ = writeln!(text, "{} paths restored.", done.restored);
        for (path, why) in &done.kept {
            let _ = writeln!(text, "  stays: {} ({})", shown(&path.to_string_lossy()), shown(why));
        }
        for (path, why) in &done.failed {
            let _ = writeln!(text, "  failed: {} ({})", shown(&path.to_string_lossy()), shown(why));
        }
    }
    if way.messages.is_some() {
        let _ = writeln!(text, "{} messages removed.", done.messages);
    }
    text
}

fn json_of(way: &WayBack, done: &Rewound) -> Value {
    let why = |list: &[(PathBuf, String)]| -> Value {
        list.iter().map(|(path, why)| json!({"path": path, "reason": why})).collect()
    };
    let files = way.files.as_ref().map(|files| {
        let steps: Vec<Value> =
            files.steps.iter().map(|(action, path)| json!({"action": action, "path": path})).collect();
        json!({
            "root": files.root,
            "source": if files.from_diffs { "diffs" } else { "journal" },
            "steps": steps,
            "conflicts": why(&files.conflicts),
            "lost": why(&files.lost),
            "restored": done.restored,
            "kept": why(&done.kept),
            "failed": why(&done.failed),
        })
    });
    json!({
        "sessionId": way.session,
        "messageId": way.message,
        "messages": way.messages.map(|_| done.messages),
        "files": files,
    })
}
