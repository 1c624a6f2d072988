//! Asks for the settings of extensions and stores them.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_extend::extension::{Installed, Setting, ValueScope};
use pollux_install::extension::set_value;

use super::{ExtensionSet, refused};
use crate::extension_set::ExtensionOutcome;
use crate::extensions;
use crate::prompter::Prompter;

/// Asks for one setting, for those of one extension, or for all.
pub(super) fn configure(
    home: &ExtensionSet,
    name: Option<&str>,
    setting: Option<&str>,
    workspace: bool,
    asking: &mut Prompter<'_>,
) -> Result<ExtensionOutcome, Failure> {
    if extensions::is_off(&home.loaded, "experimental.extensionConfig") {
        let text = "Extension configuration is currently disabled. Enable it by setting \"experimental.extensionConfig\" to true.";
        return Err(Failure::new(ExitKind::Failure, text));
    }
    let scope = if workspace { ValueScope::Workspace } else { ValueScope::User };
    let Some(name) = name else {
        if home.all.is_empty() {
            return Ok(ExtensionOutcome { out: "No extensions installed.\n".to_owned(), notes: Vec::new() });
        }
        let mut out = String::new();
        for one in home.all.iter().filter(|one| !one.manifest.settings.is_empty()) {
            out.push_str(&all_of(home, one, scope, asking)?);
        }
        return Ok(ExtensionOutcome { out, notes: Vec::new() });
    };
    let Some(found) = home.all.iter().find(|one| one.extension.name == name) else {
        return Err(Failure::new(ExitKind::Failure, format!("Extension \"{name}\" is not installed.")));
    };
    if found.manifest.settings.is_empty() {
        let out = format!("Extension \"{name}\" has no settings to configure.\n");
        return Ok(ExtensionOutcome { out, notes: Vec::new() });
    }
    let out = match setting {
        None => all_of(home, found, scope, asking)?,
        Some(given) => {
            let known = found.manifest.settings.iter().find(|one| one.name == given || one.variable == given);
            let Some(known) = known else {
                let all: Vec<&str> =
                    found.manifest.settings.iter().map(|one| one.variable.as_str()).collect();
                return Err(Failure::new(ExitKind::Failure, format!("Setting {given} not found."))
                    .hint(format!("\"{name}\" has {}", all.join(", "))));
            };
            match one(home, found, known, scope, asking)? {
                true => format!("Setting \"{given}\" updated.\n"),
                false => String::new(),
            }
        }
    };
    Ok(ExtensionOutcome { out, notes: Vec::new() })
}

fn all_of(
    home: &ExtensionSet,
    found: &Installed,
    scope: ValueScope,
    asking: &mut Prompter<'_>,
) -> Result<String, Failure> {
    asking.show(&format!("Configuring settings for \"{}\"...\n", found.extension.name));
    let mut out = String::new();
    let read =
        found.values.read(&found.manifest.settings, &|service, variable| home.secret(service, variable));
    for set in read {
        let setting = &set.setting;
        match set.value {
            Some((_, known)) if known == scope => {
                let question =
                    format!("Setting \"{}\" ({}) is already set. Overwrite?", setting.name, setting.variable);
                if !asking.agrees(&question, false) {
                    continue;
                }
            }
            Some((_, ValueScope::Workspace)) => asking.show(&format!(
                "Note: Setting \"{}\" is already configured in the workspace scope.\n",
                setting.name
            )),
            Some(_) | None => {}
        }
        if one(home, found, setting, scope, asking)? {
            out.push_str(&format!("Setting \"{}\" updated.\n", setting.name));
        }
    }
    Ok(out)
}

/// Asks for one value and stores it; an empty one removes it. Returns whether anything changed.
fn one(
    home: &ExtensionSet,
    found: &Installed,
    setting: &Setting,
    scope: ValueScope,
    asking: &mut Prompter<'_>,
) -> Result<bool, Failure> {
    let question = format!("{}\n{}", setting.name, setting.description);
    let Some(value) = asking.value(question.trim_end(), setting.sensitive) else { return Ok(false) };
    let value = Some(&value).filter(|value| !value.reveal().is_empty());
    set_value(&found.values, scope, setting, value, &home.store).map_err(|error| refused(&error))?;
    Ok(true)
}
