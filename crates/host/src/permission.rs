//! Restricts the approval mode in untrusted folders.

use pollux_config::env::name;
use pollux_config::files::{self, Mode};
use pollux_config::trust::TrustReason;
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use super::Loaded;
use super::trust::changed_paths;
use crate::request::Request;

/// The approval mode after the trust check.
pub struct Permission {
    pub approval: ApprovalMode,
    /// What an untrusted folder means, and how to trust it.
    pub trust_note: Option<String>,
    /// The requested mode is not available here.
    pub is_overridden: bool,
}

impl Permission {
    /// What to tell about it.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &str> {
        let overridden = "Approval mode overridden to \"default\" because the current folder is not trusted.";
        self.trust_note.as_deref().into_iter().chain(self.is_overridden.then_some(overridden))
    }
}

/// Checks folder trust (exit code 55) and restricts the requested approval mode. Changes nothing.
pub fn check_trust(options: &Request, loaded: &Loaded) -> Result<Permission, Failure> {
    let wished = options.approval.unwrap_or(loaded.groups.general.approval_mode);
    if loaded.trust.uses_project() {
        return Ok(Permission { approval: wished, trust_note: None, is_overridden: false });
    }
    let changed = changed_paths(&loaded.binding);
    let what = if changed.is_empty() { "is not trusted" } else { "has changed since it was trusted" };
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
    let trust_note = Some(format!(
        "This folder {what}{because}: its settings, hooks, commands and .env files are ignored. To trust it, {ways}."
    ));
    // What the person asks for on the command line is not the folder's doing.
    let is_asked = options.approval.is_some() && loaded.trust_reason != TrustReason::Restricted;
    let is_overridden = !is_asked && wished.is_privileged();
    let approval = if is_overridden { ApprovalMode::Default } else { wished };
    Ok(Permission { approval, trust_note, is_overridden })
}

/// Whether an earlier headless run in this folder said the same; what is said now is remembered.
pub(crate) fn was_told(options: &Request, loaded: &Loaded, text: &str) -> bool {
    let temp = loaded.project.temp_dir();
    let mark = temp.join(".trust_notice");
    if files::read_text(&mark).is_ok_and(|told| told.as_deref() == Some(text)) {
        return !options.debug;
    }
    // Where nothing can be written it is said every time.
    if files::create_folder(temp, Mode::Private).is_ok() {
        let _ = files::replace(&mark, text.as_bytes(), Mode::Private);
    }
    false
}

fn ways(loaded: &Loaded, changed: bool) -> String {
    match loaded.trust_reason {
        TrustReason::Restricted => format!("unset `{}`", name::RESTRICTED_MODE),
        TrustReason::Environment => format!("unset `{}` or set it to `true`", name::TRUST_WORKSPACE),
        TrustReason::SkipFlag | TrustReason::FeatureOff | TrustReason::Rule(_) | TrustReason::NoRule => {
            let look = if changed { "diff" } else { "show" };
            format!(
                "review the folder with `pollux trust {look}` and run `pollux trust allow`, or pass `--skip-trust` for a single run"
            )
        }
    }
}

/// Why a client may not switch to this mode, if it may not. The mode that the session started with is `granted`.
pub fn forbidden_mode(
    mode: ApprovalMode,
    granted: ApprovalMode,
    yolo_is_off: bool,
    is_trusted: bool,
) -> Option<&'static str> {
    match mode {
        ApprovalMode::Yolo if yolo_is_off => Some("YOLO mode is disabled by `security.disableYoloMode`."),
        ApprovalMode::Yolo | ApprovalMode::AutoEdit if !is_trusted && mode != granted => {
            Some("This folder is not trusted; run `pollux trust allow` to trust it.")
        }
        _ => None,
    }
}
