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
    let allows = |mode: &ApprovalMode| {
        let request = Request { mode: *mode, ..request.clone() };
        approvals.engine().decide(&request).decision == Decision::Allow
    };
    let modes = [ApprovalMode::AutoEdit, ApprovalMode::Yolo];
    let advice = match verdict.rule.as_ref().filter(|rule| rule.tier != "default") {
        Some(rule) if rule.tier == "admin" => "Only an administrator can change this rule.",
        Some(_) => "To allow it, change this rule.",
        None => "To allow it, add a policy rule.",
    };
    if let Some(mode) = modes.iter().filter(|mode| **mode != request.mode).find(|mode| allows(mode)) {
        let where_to = if approvals.trusted { "" } else { ", in a trusted folder or with --skip-trust" };
        return Some(format!("To allow it, use --approval-mode {mode} or a policy rule{where_to}."));
    }
    Some(advice.to_owned())
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
