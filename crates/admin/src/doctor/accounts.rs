//! Keys and sign-ins.

use std::path::Path;

use pollux_config::settings::read_object;
use pollux_host::auth::{KEYCHAIN_HINT, sign_ins};
use pollux_host::providers::set::{ProviderState, provider_set};

use super::Patient;
use super::finding::{Finding, or_ok};

pub(super) fn credentials(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let mut findings = malformed_keys(patient);
    findings.extend(credentials_file(patient));
    let signed = match sign_ins(&patient.request, &patient.env) {
        Ok(signed) => signed,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let status = signed.status();
    if let Some(kind) = &status.kind {
        let source = status.source.as_deref().unwrap_or("unknown source");
        findings.push(Finding::ok(format!("{kind} from {source}")));
    } else if loaded.groups.security.auth_selected.is_some() {
        let text = status.problem.unwrap_or_else(|| "the selected sign-in cannot be used".to_owned());
        findings.push(Finding::problem(text).hint("run `pollux auth login`, or `/auth` in a session"));
    }
    let listed = signed.list();
    findings.extend(listed.unread_failure().map(|failure| Finding::failed(&failure)));
    if let Some(reason) = listed.keychain_missing {
        let text = format!("the keychain could not be read: {reason}");
        findings.push(Finding::warning(text).hint(KEYCHAIN_HINT));
    }
    for row in listed.result.iter().filter(|row| row.plain_text) {
        let text = format!("the credentials of `{}` are stored as plain text in {}", row.name, row.place);
        let hint = "they are encrypted when they are next used; or run `pollux auth logout --all`";
        findings.push(Finding::warning(text).hint(hint));
    }
    or_ok(findings, "no Gemini key; other providers are listed below")
}

/// Keys with spaces or quotes, which servers reject.
fn malformed_keys(patient: &Patient) -> Vec<Finding> {
    let names =
        ["GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"];
    let is_malformed = |value: &str| value.contains(char::is_whitespace) || value.contains(['"', '\'']);
    let set = names.iter().filter(|name| patient.env.non_empty(name).is_some_and(is_malformed));
    set.map(|name| {
        Finding::problem(format!("{name} contains spaces or quotes")).hint("set it again, without them")
    })
    .collect()
}

/// The file of GOOGLE_APPLICATION_CREDENTIALS.
fn credentials_file(patient: &Patient) -> Option<Finding> {
    let path = patient.env.non_empty("GOOGLE_APPLICATION_CREDENTIALS")?;
    let hint = "set GOOGLE_APPLICATION_CREDENTIALS to a key file, or unset it";
    let reason = match read_object(Path::new(path)) {
        Ok(Some(object)) if object.contains_key("type") => return None,
        Ok(Some(_)) => "it is not a credentials file".to_owned(),
        Ok(None) => "it does not exist".to_owned(),
        Err(error) => error.files.first().map_or_else(|| error.to_string(), |file| file.reason.clone()),
    };
    Some(Finding::problem(format!("GOOGLE_APPLICATION_CREDENTIALS names `{path}`: {reason}")).hint(hint))
}

pub(super) fn providers(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let set = match provider_set(&patient.request, &patient.env) {
        Ok(set) => set,
        Err(failure) => return vec![Finding::failed(&failure)],
    };
    let known = &loaded.notes;
    let notes = set.notes().into_iter().filter(|note| !known.contains(note));
    let mut findings: Vec<Finding> = notes
        .map(|note| {
            Finding::problem(note.trim_start_matches("Warning: ")).hint("fix `providers` in the settings")
        })
        .collect();
    let rows = set.rows();
    for row in rows.iter().filter(|row| row.state == ProviderState::Failed) {
        let reason = row.problem.as_deref().unwrap_or("its settings cannot be used");
        findings.push(
            Finding::problem(format!("{}: {reason}", row.id))
                .hint(format!("fix `providers.{}`, or run `pollux providers test {}`", row.id, row.id)),
        );
    }
    let usable: Vec<&str> =
        rows.iter().filter(|row| row.state == ProviderState::Ok).map(|row| row.id.as_str()).collect();
    findings.push(if usable.is_empty() {
        Finding::warning("no model provider has a key")
            .hint("run `pollux auth login` for Gemini, or `pollux providers login ID` for another; `pollux demo` needs none")
    } else {
        Finding::ok(format!("ready: {}", usable.join(", ")))
    });
    findings
}
