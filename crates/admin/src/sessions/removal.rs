//! Deleting: what would go, the question, what went.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use serde_json::{Value, json};

use super::{Proposal, Removal, Removals, Removed, print_json, shown};
use crate::context::Context;

pub(super) fn delete(
    proposal: Proposal<Removals, Removed>,
    yes: bool,
    as_json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    context.agreed(yes, "Delete it?", &plan(&proposal.plan))?;
    let removed = (proposal.carry_out)()?;
    if let [(_, why), ..] = removed.skipped.as_slice() {
        return Err(Failure::new(ExitKind::Input, format!("the session was not deleted: {why}"))
            .hint("stop the process that uses it, then try again"));
    }
    report(&proposal.plan, &removed, as_json, context.out)
}

pub(super) fn prune(
    proposal: Proposal<Removals, Removed>,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let plan = &proposal.plan;
    let is_empty = plan.sessions.is_empty() && plan.leftovers.is_empty();
    if dry_run || is_empty {
        if as_json {
            return print_json(context.out, &json_of(plan, None));
        }
        let rule = plan.rule.as_deref().unwrap_or_default();
        if is_empty {
            return print_result(
                context.out,
                &format!("Nothing to delete ({rule}); {} sessions are kept.\n", plan.kept),
            );
        }
        return print_result(context.out, &format!("{}\nNothing was deleted.\n", self::plan(plan)));
    }
    context.agreed(yes, "Delete all of these?", &self::plan(plan))?;
    let removed = (proposal.carry_out)()?;
    report(plan, &removed, as_json, context.out)
}

/// Everything that would go, by name.
fn plan(removals: &Removals) -> String {
    let mut text = String::new();
    for removal in &removals.sessions {
        let why = removal.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "Session {}: {} ({}{why}, {})",
            shown(&removal.id),
            shown(&removal.title),
            removal.age,
            size(removal.bytes)
        );
        paths(&removal.paths, &mut text);
    }
    if !removals.leftovers.is_empty() {
        text.push_str("Stored outputs of the same age:\n");
        paths(&removals.leftovers, &mut text);
    }
    if let Some(rule) = &removals.rule {
        let _ = writeln!(text, "{} to delete, {} to keep ({rule}).", removals.sessions.len(), removals.kept);
    }
    text.truncate(text.trim_end().len());
    text
}

fn paths(paths: &[PathBuf], text: &mut String) {
    for path in paths {
        let _ = writeln!(text, "  {}", shown(&path.to_string_lossy()));
    }
}

fn report(plan: &Removals, removed: &Removed, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        return print_json(out, &json_of(plan, Some(removed)));
    }
    let mut text = String::new();
    for removal in plan.sessions.iter().filter(|removal| removed.sessions.contains(&removal.id)) {
        let _ = writeln!(text, "Deleted session {}: {}", shown(&removal.id), shown(&removal.title));
        paths(&removal.paths, &mut text);
    }
    for (id, why) in &removed.skipped {
        let _ = writeln!(text, "Kept session {}: {}", shown(id), shown(why));
    }
    if removed.leftovers > 0 {
        let _ = writeln!(text, "Deleted {} stored outputs", removed.leftovers);
    }
    print_result(out, &text)
}

fn json_of(plan: &Removals, removed: Option<&Removed>) -> Value {
    let session = |removal: &Removal| {
        json!({
            "sessionId": removal.id,
            "title": removal.title,
            "reason": removal.reason,
            "paths": removal.paths,
            "bytes": removal.bytes,
            "deleted": removed.is_some_and(|removed| removed.sessions.contains(&removal.id)),
        })
    };
    let skipped = removed.map(|removed| removed.skipped.as_slice()).unwrap_or_default();
    json!({
        "dryRun": removed.is_none(),
        "sessions": plan.sessions.iter().map(session).collect::<Vec<_>>(),
        "leftovers": plan.leftovers,
        "skipped": skipped.iter().map(|(id, why)| json!({"sessionId": id, "reason": why})).collect::<Vec<_>>(),
        "kept": plan.kept,
    })
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut tenths = bytes * 10 / 1024;
    let mut unit = UNITS[0];
    for next in UNITS.iter().skip(1) {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_largest_whole_unit() {
        let cases = [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB")];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(size(5 * 1024 * 1024), "5.0 MiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
