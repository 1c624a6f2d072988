//! What trust in the folder leaves of what a run may do.

use pollux_config::env::name;
use pollux_config::trust::TrustReason;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use super::Loaded;
use super::trust::changed_paths;
use crate::request::Request;

/// What trust in the folder leaves of the wished approval mode.
pub struct Permission {
    pub approval: ApprovalMode,
    pub notes: Vec<String>,
}

/// Whether the folder is trusted (55), and what that leaves of the wished approval mode.
pub fn check_trust(options: &Request, loaded: &Loaded) -> Result<Permission, Failure> {
    let wished = options.approval.unwrap_or(loaded.groups.general.approval_mode);
    if loaded.trust.uses_project() {
        return Ok(Permission { approval: wished, notes: Vec::new() });
    }
    let changed = changed_paths(&loaded.binding);
    let what = if changed.is_empty() { "not trusted" } else { "no longer what was trusted" };
    let ways = ways(loaded, !changed.is_empty());
    if loaded.groups.security.refuse_untrusted_headless {
        let text = if changed.is_empty() {
            format!("Pollux is not running in a trusted directory. To proceed, {ways}.")
        } else {
            format!("Pollux is not running in a trusted directory: {changed} changed. To proceed, {ways}.")
        };
        return Err(Failure::new(ExitKind::Untrusted, text));
    }
    let because = if changed.is_empty() { String::new() } else { format!(" ({changed})") };
    let mut notes = vec![format!(
        "This folder is {what}{because}: nothing that it brings along is used, its .env files included. To trust it, {ways}."
    )];
    if wished != ApprovalMode::Default && wished != ApprovalMode::Plan {
        notes.push(
            "Approval mode overridden to \"default\" because the current folder is not trusted.".to_owned(),
        );
    }
    let approval = if wished == ApprovalMode::Plan { wished } else { ApprovalMode::Default };
    Ok(Permission { approval, notes })
}

fn ways(loaded: &Loaded, changed: bool) -> String {
    match loaded.trust_reason {
        TrustReason::Restricted => format!("unset `{}`", name::RESTRICTED_MODE),
        TrustReason::Environment => format!("unset `{}` or set it to `true`", name::TRUST_WORKSPACE),
        TrustReason::SkipFlag | TrustReason::FeatureOff | TrustReason::Rule(_) | TrustReason::NoRule => {
            let look = if changed { "diff" } else { "show" };
            format!("see `pollux trust {look}`, then use `pollux trust allow`, or `--skip-trust` for one run")
        }
    }
}
