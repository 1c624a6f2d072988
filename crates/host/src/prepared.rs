//! Checks everything a conversation needs before anything is opened.

use pollux_config::groups::{Groups, OutputFormat};
use pollux_config::settings::{SettingsWarning, WarningKind};
use pollux_domain::approval::ApprovalMode;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;

use crate::auth::check_credentials;
use crate::credentials::Credentials;
use crate::extensions::check_extensions;
use crate::load::check_policy_files;
use crate::loaded::Loaded;
use crate::model_list;
use crate::permission::{Permission, check_trust, was_told};
use crate::request::{RawOutput, Request};
use crate::sandbox::{self, Sandbox, check_sandbox};
use crate::session_model;
use crate::sessions::{Chosen, choose_session};

/// The checked prerequisites of a run.
pub struct Prepared<'a> {
    pub request: &'a Request,
    pub loaded: &'a Loaded,
    pub session: Chosen,
    pub credentials: Credentials,
    /// Whether the model is the resumed session's own and not that of the settings.
    pub model_of_session: bool,
    pub permission: Permission,
    pub sandbox: Sandbox,
}

/// Checks everything a turn needs.
pub fn prepare<'a>(
    request: &'a Request,
    loaded: &'a mut Loaded,
    note: &mut dyn FnMut(&str),
) -> Result<Prepared<'a>, Failure> {
    check(request, loaded, note, &|_, _| false)
}

/// As [`prepare`], for a run that nobody watches: how to trust the folder is told once.
pub fn prepare_headless<'a>(
    request: &'a Request,
    loaded: &'a mut Loaded,
    note: &mut dyn FnMut(&str),
) -> Result<Prepared<'a>, Failure> {
    check(request, loaded, note, &|loaded, text| was_told(request, loaded, text))
}

fn check<'a>(
    request: &'a Request,
    loaded: &'a mut Loaded,
    note: &mut dyn FnMut(&str),
    was_told: &dyn Fn(&Loaded, &str) -> bool,
) -> Result<Prepared<'a>, Failure> {
    refuse_forbidden_yolo(request, &loaded.groups)?;
    check_telemetry(&loaded.groups, &loaded.settings.warnings)?;
    check_policy_files(request, loaded)?;
    check_extensions(loaded)?;
    let session = choose_session(request, loaded)?;
    let model = session_model::settle(request, loaded, &session)?;
    let loaded = &*loaded;
    let credentials = check_credentials(loaded)?;
    let mut permission = check_trust(request, loaded)?;
    permission.trust_note.take_if(|text| was_told(loaded, text));
    let permission = permission;
    sandbox::announcement(loaded, permission.approval).iter().for_each(|line| note(line));
    let sandbox = check_sandbox(loaded, permission.approval)?;
    // What an agent does not get is told with the other problems of agents.
    if let Some(ignored) = loaded.project_model.as_ref().filter(|ignored| !ignored.is_of_agent()) {
        note(&ignored.line());
    }
    model_list::mistyped(loaded).iter().for_each(|line| note(line));
    let notes = session.notes.iter().chain(&model.note).chain(&credentials.notes).chain(&sandbox.notes);
    notes.map(String::as_str).chain(permission.notes()).for_each(&mut *note);
    if permission.approval == ApprovalMode::Yolo {
        note("YOLO mode is enabled. All tool calls will be automatically approved.");
    }
    warn_of_raw_output(request, loaded, note);
    let model_of_session = model.of_session;
    Ok(Prepared { request, loaded, session, credentials, model_of_session, permission, sandbox })
}

pub fn refuse_forbidden_yolo(request: &Request, groups: &Groups) -> Result<(), Failure> {
    if request.approval == Some(ApprovalMode::Yolo) && groups.security.disable_yolo {
        return Err(Failure::new(ExitKind::Config, "`yolo` mode is disabled by `security.disableYoloMode`")
            .hint("use `--approval-mode auto_edit` to allow edits"));
    }
    Ok(())
}

/// Refuses an unknown target or protocol: records would go elsewhere than the user believes.
fn check_telemetry(groups: &Groups, warnings: &[SettingsWarning]) -> Result<(), Failure> {
    let is_invalid = |warning: &&SettingsWarning| {
        matches!(warning.kind, WarningKind::Invalid { .. })
            && ["telemetry.target", "telemetry.otlpProtocol"].contains(&warning.key.as_str())
    };
    match warnings.iter().find(is_invalid).filter(|_| groups.telemetry.enabled) {
        Some(warning) => Err(Failure::new(ExitKind::Config, warning.to_string())),
        None => Ok(()),
    }
}

fn warn_of_raw_output(request: &Request, loaded: &Loaded, note: &mut dyn FnMut(&str)) {
    if request.raw_output == RawOutput::Raw && loaded.groups.output.format == OutputFormat::Text {
        note(
            "[WARNING] --raw-output lets the model's text control this terminal; --accept-raw-output-risk hides this warning.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yolo_is_refused_where_it_is_forbidden() {
        let mut groups = Groups::default();
        groups.security.disable_yolo = true;
        let request = Request { approval: Some(ApprovalMode::Yolo), ..Request::default() };
        assert_eq!(refuse_forbidden_yolo(&request, &groups).unwrap_err().exit.code(), 52);
        assert!(refuse_forbidden_yolo(&Request::default(), &groups).is_ok());
    }
}
