//! Settings files and the trust of the folder.

use pollux_config::settings::WarningKind;
use pollux_config::trust::Binding;
use pollux_host::Loaded;
use pollux_host::external_editors::editors;

use super::Patient;
use super::finding::{Finding, or_ok};

pub(super) fn settings(patient: &Patient) -> Vec<Finding> {
    let loaded = match (&patient.loaded, &patient.failure) {
        (Some(loaded), _) => loaded,
        (None, failure) => {
            return failure.iter().map(Finding::failed).collect();
        }
    };
    let mut findings: Vec<Finding> = Vec::new();
    for warning in &loaded.settings.warnings {
        let place = match (&warning.file, warning.line) {
            (Some(file), Some(line)) => format!("{}:{line}: ", file.display()),
            (Some(file), None) => format!("{}: ", file.display()),
            (None, _) => String::new(),
        };
        let key = if warning.key.is_empty() { String::new() } else { format!("`{}`: ", warning.key) };
        let text = format!("{place}{key}{}", warning.message);
        let finding = match warning.kind {
            WarningKind::Invalid { .. } => Finding::problem(text),
            _ => Finding::warning(text),
        };
        let fix = if warning.fix.is_empty() { "change or remove it in the file" } else { &warning.fix };
        findings.push(finding.hint(fix));
    }
    for (file, reason) in &loaded.dotenv.unreadable {
        let text = format!("`{}` cannot be read: {reason}", file.display());
        findings.push(Finding::problem(text).hint("fix its permissions or contents"));
    }
    findings.extend(missing_editor(loaded));
    findings.extend(missing_directories(loaded));
    let file = loaded.home.settings_file();
    let text =
        if file.exists() { file.display().to_string() } else { "defaults; no settings file".to_owned() };
    or_ok(findings, text)
}

fn missing_editor(loaded: &Loaded) -> Option<Finding> {
    let (value, _) = loaded.settings.get("general.preferredEditor")?;
    let id = value.as_str()?;
    let editor = editors().iter().find(|editor| editor.id == id)?;
    (!editor.is_installed(&loaded.env)).then(|| {
        Finding::warning(format!("`general.preferredEditor` is `{id}`, but {} was not found", editor.name))
            .hint("install it, or choose another with `/editor`")
    })
}

fn missing_directories(loaded: &Loaded) -> Vec<Finding> {
    let paths = loaded.groups.context.include_directories.iter().map(String::as_str);
    let home = loaded.home.user_home();
    let missing = paths.filter(|path| {
        let full = match path.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None if *path == "~" => home.to_path_buf(),
            None => loaded.project.root().join(path),
        };
        !full.is_dir()
    });
    let finding = |path: &str| {
        Finding::warning(format!("`context.includeDirectories` names `{path}`, which is not a folder"))
            .hint("create it, or remove it from the settings")
    };
    missing.map(finding).collect()
}

/// Whether the folder's own settings, hooks and servers are used.
pub(super) fn folder(patient: &Patient) -> Vec<Finding> {
    let Some(loaded) = &patient.loaded else { return Vec::new() };
    let root = loaded.project.root().display();
    if !loaded.trust.uses_project() {
        let text = format!("`{root}` is not trusted; its settings, hooks and servers are not used");
        return vec![if loaded.project.gemini_dir().exists() {
            Finding::warning(text).hint("run `pollux trust show`, then `pollux trust allow`")
        } else {
            Finding::ok(text)
        }];
    }
    match &loaded.binding {
        Binding::Changed(_) => {
            let text = format!("files of `{root}` changed since you trusted it");
            vec![Finding::warning(text).hint("run `pollux trust diff`")]
        }
        _ => vec![Finding::ok(format!("`{root}` is trusted"))],
    }
}
