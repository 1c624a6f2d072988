//! Explains to the user of a headless run why a call was denied and what would allow it.
//!
//! The model gets another message, in upstream's words.

use pollux_domain::approval::ApprovalMode;
use pollux_policy::request::{Decision, Request, Verdict};

use crate::approval::Approvals;

/// What denied a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedBy {
    Rules,
    /// A safety checker denied what the rules did not.
    Checker,
    /// The definition of a tool is not the one that the user allowed.
    Definition,
    /// A hook requires approval.
    Hook,
}

/// The reason and what would allow the call; `None` where the user can be asked.
pub(crate) fn explanation(
    approvals: &Approvals,
    verdict: &Verdict,
    request: &Request<'_>,
    by: DeniedBy,
) -> Option<String> {
    if approvals.interactive {
        return None;
    }
    let texts = sentence(&verdict.reason).into_iter().chain(advice(approvals, verdict, request, by));
    Some(texts.collect::<Vec<_>>().join(" "))
}

fn sentence(reason: &str) -> Option<String> {
    match reason.trim_end_matches('.') {
        "" => None,
        reason if reason.ends_with(['?', '!']) => Some(format!("Reason: {reason}")),
        reason => Some(format!("Reason: {reason}.")),
    }
}

fn advice(approvals: &Approvals, verdict: &Verdict, request: &Request<'_>, by: DeniedBy) -> Option<String> {
    match by {
        DeniedBy::Rules => {}
        DeniedBy::Checker => return None,
        DeniedBy::Definition => {
            return Some("To allow it, approve the tool in an interactive session.".to_owned());
        }
        DeniedBy::Hook => return Some("To allow it, change the hook.".to_owned()),
    }
    let engine = approvals.engine();
    let allows = |mode: &ApprovalMode| {
        let request = Request { mode: *mode, ..request.clone() };
        engine.decide(&request).decision == Decision::Allow
    };
    let modes = [ApprovalMode::AutoEdit, ApprovalMode::Yolo];
    let is_usable =
        |mode: &ApprovalMode| *mode != request.mode && (*mode != ApprovalMode::Yolo || engine.allows_yolo());
    if let Some(mode) = modes.iter().find(|mode| is_usable(mode) && allows(mode)) {
        let where_to = if approvals.trusted { "" } else { ", in a trusted folder or with --skip-trust" };
        return Some(format!("To allow it, use --approval-mode {mode} or a policy rule{where_to}."));
    }
    if verdict.is_by_default() {
        return Some("To allow it, add a policy rule.".to_owned());
    }
    // Otherwise the reason is not a rule, such as an untrusted folder or an unreadable policy file.
    let rule = verdict.rule.as_ref()?;
    Some(match &rule.path {
        _ if rule.tier == "admin" => "Only an administrator can change this rule.".to_owned(),
        None => format!("To allow it, change {}.", rule.source),
        Some(_) if verdict.reason.contains(&rule.label) => "To allow it, change this rule.".to_owned(),
        Some(_) => format!("To allow it, change the rule `{}` in {}.", rule.label, rule.source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_ends_like_a_sentence() {
        for (reason, expected) in [
            ("", None),
            ("No stars", Some("Reason: No stars.")),
            ("No stars.", Some("Reason: No stars.")),
            ("A hook asks: Really?", Some("Reason: A hook asks: Really?")),
        ] {
            assert_eq!(sentence(reason).as_deref(), expected);
        }
    }
}
