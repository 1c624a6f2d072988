//! `pollux extensions`: what is installed, and changing that.

mod arguments;
mod page;
mod templates;

use std::io::Write;
use std::path::Path;

use pollux_config::files::{self, Mode};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::{Failure, print_result};
use pollux_domain::redact::{redact_value, redacted};
use pollux_domain::terminal_text::{self, plain};
use serde_json::{Value, json};

use pollux_host::extension_set::{
    ExtensionOutcome, ExtensionRow, ExtensionSet, SettingRow, Updated, extension_set,
};

pub use arguments::{ExtensionsArgs, ExtensionsCommand};

use crate::context::Context;

/// Runs the command.
pub fn run(command: &ExtensionsCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut extensions = extension_set(context.request, context.env)?;
    context.note(extensions.notes());
    let said = match command {
        ExtensionsCommand::List { json } => return list(*json, &extensions, context),
        ExtensionsCommand::Names => {
            ExtensionOutcome { out: page::names(&extensions.names()), notes: Vec::new() }
        }
        ExtensionsCommand::Install(new) => extensions.install(new, &mut context.prompter)?,
        ExtensionsCommand::Link { path, consent } => {
            extensions.link(path, *consent, &mut context.prompter)?
        }
        ExtensionsCommand::Uninstall { names, all } => {
            return uninstall(names, *all, &mut extensions, context);
        }
        ExtensionsCommand::Update { name: Some(name) } => return update(name, &mut extensions, context),
        ExtensionsCommand::Update { name: None } => return update_all(&mut extensions, context),
        ExtensionsCommand::Switch { name, on, scope } => extensions.switch(name, *on, scope)?,
        ExtensionsCommand::New { path, template } => new(path, template.as_deref(), context.env.cwd())?,
        ExtensionsCommand::Validate { path } => return validate(path, &extensions, context),
        ExtensionsCommand::Config { name, setting, workspace } => {
            extensions.configure(name.as_deref(), setting.as_deref(), *workspace, &mut context.prompter)?
        }
    };
    context.warn(&said.notes);
    show(context.out, &said.out)
}

/// Names and texts of others are shown: they neither steer the terminal nor spill a key.
fn show(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    print_result(out, &redacted(&plain(text)))
}

fn list(json: bool, extensions: &ExtensionSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let (rows, changed) = extensions.rows();
    context.warn(&changed);
    if json {
        let mut value = page::json(&rows);
        redact_value(&mut value);
        return print_result(context.out, &terminal_text::json(format!("{value:#}\n")));
    }
    show(context.out, &page::text(&rows))
}

fn uninstall(
    names: &[String],
    all: bool,
    extensions: &mut ExtensionSet,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let mut names = names.to_vec();
    if all {
        names = extensions.names().into_iter().map(|(name, _)| name).collect();
        if names.is_empty() {
            return show(context.out, "No extensions currently installed.\n");
        }
    }
    let mut failed = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if names.iter().take(at).any(|earlier| earlier == name) {
            continue;
        }
        match extensions.uninstall(name) {
            Ok(()) => show(context.out, &format!("Extension \"{name}\" successfully uninstalled.\n"))?,
            Err(failure) => failed.push(format!("Failed to uninstall \"{name}\": {}", failure.message())),
        }
    }
    match failed.pop() {
        None => Ok(()),
        Some(last) => {
            context.warn(&failed);
            Err(Failure::new(ExitKind::Failure, last))
        }
    }
}

fn update(name: &str, extensions: &mut ExtensionSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let Some(updated) = extensions.update(name, &mut context.prompter) else {
        // Upstream's words, and its exit code.
        let installed = extensions.names();
        let known = match installed.is_empty() {
            true => "No extensions installed.".to_owned(),
            false => {
                let lines: Vec<String> =
                    installed.iter().map(|(name, version)| format!("{name} ({version})")).collect();
                format!(
                    "Installed extensions:\n{}\n\nRun \"pollux extensions list\" for details.",
                    lines.join("\n")
                )
            }
        };
        context.warn(&[format!("Extension \"{name}\" not found.\n\n{known}")]);
        return Ok(());
    };
    match updated? {
        Updated::Newer { from, to, notes } => {
            context.warn(&notes);
            show(context.out, &page::updated(name, &from, &to))
        }
        Updated::Not(why) => {
            context.warn(&why.into_iter().collect::<Vec<_>>());
            show(context.out, &format!("Extension \"{name}\" is already up to date.\n"))
        }
    }
}

fn update_all(extensions: &mut ExtensionSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut any = false;
    let mut failed = Vec::new();
    for (name, _) in extensions.names() {
        match extensions.update(&name, &mut context.prompter) {
            Some(Ok(Updated::Newer { from, to, notes })) => {
                any = true;
                context.warn(&notes);
                show(context.out, &page::updated(&name, &from, &to))?;
            }
            Some(Ok(Updated::Not(_))) | None => {}
            Some(Err(failure)) => {
                failed.push(format!("Extension \"{name}\" was not updated: {}", failure.message()))
            }
        }
    }
    match failed.pop() {
        Some(last) => {
            context.warn(&failed);
            Err(Failure::new(ExitKind::Failure, last))
        }
        None if any => Ok(()),
        None => show(context.out, "No extensions to update.\n"),
    }
}

fn new(path: &str, template: Option<&str>, here: &Path) -> Result<ExtensionOutcome, Failure> {
    let folder = here.join(path);
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let text = format!(
            "Invalid extension name: \"{name}\". Only letters (a-z, A-Z), numbers (0-9), and dashes (-) are allowed."
        );
        return Err(Failure::new(ExitKind::Failure, text).hint("the folder's name is the extension's name"));
    }
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::new(ExitKind::Failure, format!("Path already exists: {path}")));
    }
    let mut made = templates::files(template, &name).ok_or_else(|| {
        let given = template.unwrap_or_default();
        Failure::new(ExitKind::Failure, format!("unknown template `{given}`"))
            .hint(format!("available templates: {}", templates::NAMES.join(", ")))
    })?;
    // The manifest is written last: without it, the folder is not an extension.
    made.reverse();
    for (file, text) in made {
        files::replace(&folder.join(file), text.as_bytes(), Mode::Shared)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
    }
    let from = template.map(|template| format!("from template \"{template}\" ")).unwrap_or_default();
    let out = format!(
        "Successfully created new extension {from}at {path}.\nYou can install this using \"pollux extensions link {path}\" to test it out.\n"
    );
    Ok(ExtensionOutcome { out, notes: Vec::new() })
}

fn validate(path: &str, extensions: &ExtensionSet, context: &mut Context<'_>) -> Result<(), Failure> {
    let (warnings, errors) = extensions.validate(&context.env.cwd().join(path))?;
    let listed = |title: &str, lines: &[String]| -> String {
        let lines: String = lines.iter().map(|line| format!("\n  - {line}")).collect();
        format!("{title}{lines}")
    };
    if !warnings.is_empty() {
        context.warn(&[listed("Validation warnings:", &warnings)]);
    }
    if !errors.is_empty() {
        let text = listed("Validation failed with the following errors:", &errors);
        return Err(Failure::new(ExitKind::Failure, text));
    }
    show(context.out, &format!("Extension {path} has been successfully validated.\n"))
}

/// For the list as JSON.
fn setting_json(setting: &SettingRow) -> Value {
    json!({
        "name": setting.name,
        "envVar": setting.variable,
        "sensitive": setting.sensitive,
        "value": setting.value,
        "scope": setting.place.as_ref().map(|(scope, _)| scope.to_lowercase()),
        "source": setting.place.as_ref().map(|(_, source)| source.clone()),
    })
}

#[cfg(test)]
mod tests;
