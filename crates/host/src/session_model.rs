//! The model that a resumed session goes on with.
//!
//! A conversation stays with the provider that it was held with, unless the user names another one: it may have been
//! local for privacy. Google's sessions keep following the settings within Google's models.

use std::path::Path;

use pollux_config::settings::Layer;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::one_line;
use pollux_model::providers::{Providers, read_settings};
use pollux_model::router::GGUF;
use pollux_session::{SessionModel, StoredSession, last_model};

use crate::auth::check_credentials;
use crate::loaded::Loaded;
use crate::providers::{GOOGLE, own_env, start_provider};
use crate::request::{Request, ResumedModel};
use crate::sessions::Chosen;

/// What was decided about the model of a resumed session.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Whether the session's model replaces that of the settings.
    pub(crate) of_session: bool,
    /// A line about it.
    pub(crate) note: Option<String>,
}

/// Puts the session's own model in place of that of the settings where it counts (exit code 42 if a local one cannot be
/// used, because the next one may be remote).
pub(crate) fn settle(request: &Request, loaded: &mut Loaded, session: &Chosen) -> Result<Settled, Failure> {
    let Some(last) = &session.model else { return Ok(Settled::default()) };
    match request.resumed_model {
        ResumedModel::OfSettings => return Ok(Settled::default()),
        ResumedModel::UnlessNamed if is_named(loaded, last) => return Ok(Settled::default()),
        ResumedModel::UnlessNamed | ResumedModel::OfSession => {}
    }
    if last.provider == GGUF && is_in_project(loaded, &last.name) {
        let shown = one_line(&last.name);
        return Err(Failure::new(
            ExitKind::Input,
            format!("cannot continue with {shown}: the file is in the project"),
        )
        .hint("a session may come from someone else; to use the file, name it with `-m`"));
    }
    let is_google = |id: &str| GOOGLE.contains(&id);
    let own = start_provider(loaded)?;
    let own = own.map_or_else(|| GOOGLE[0].to_owned(), |start| start.id);
    if is_google(&own) && is_google(&last.provider) {
        return Ok(Settled::default());
    }
    let name = match is_google(&last.provider) {
        true => format!("{}/{}", GOOGLE[0], last.name),
        false => last.name.clone(),
    };
    let configured = check_credentials(loaded).map(|credentials| credentials.model).ok();
    if configured.as_deref() == Some(last.name.as_str()) {
        return Ok(Settled::default());
    }
    let settings = std::mem::replace(&mut loaded.groups.model.name, name);
    let shown = one_line(&last.name);
    let Err(reason) = usable(loaded, last) else {
        let note =
            format!("Continuing with {shown}, the model of this session. To use another model, pass `-m`.");
        return Ok(Settled { of_session: true, note: Some(note) });
    };
    if last.local {
        return Err(Failure::new(ExitKind::Input, format!("cannot continue with {shown}: {reason}"))
            .hint("the session used a local model; to send it to another model, name that model with `-m`"));
    }
    loaded.groups.model.name = settings;
    let note = configured.map(|model| {
        let model = one_line(&model);
        format!("This session used {shown}, which cannot be used now: {reason}. Continuing with {model}.")
    });
    Ok(Settled { of_session: false, note })
}

/// Checks that a session of a local model can go on with a local one.
pub(crate) fn check_local(loaded: &Loaded, session: &StoredSession) -> Result<(), String> {
    let (settings, _) = read_settings(&loaded.groups.model.providers);
    let env = own_env(loaded);
    match last_model(session) {
        Some(last) if last.local && Providers::new(&env, &settings).find(&last.provider).is_none() => {
            Err(format!("it used {}, and that provider is not configured", one_line(&last.name)))
        }
        _ => Ok(()),
    }
}

/// Whether a model is a file that the project brings: a session that was imported could name it.
fn is_in_project(loaded: &Loaded, name: &str) -> bool {
    let file = name.split_once('/').map_or(name, |(_, file)| file);
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(&loaded.env.cwd().join(file)).starts_with(real(loaded.project.root()))
}

/// Whether the user names a model for this run. gemini-cli's own variable says nothing about other providers.
fn is_named(loaded: &Loaded, last: &SessionModel) -> bool {
    let origin = loaded.settings.origin("model.name");
    match origin.layer {
        Layer::Arguments => true,
        Layer::Environment if origin.variable.is_some_and(|variable| loaded.is_of_project(variable)) => false,
        Layer::Environment => {
            origin.variable != Some("GEMINI_MODEL") || GOOGLE.contains(&last.provider.as_str())
        }
        Layer::Default | Layer::SystemDefaults | Layer::User | Layer::Project | Layer::System => false,
    }
}

/// Whether the settings, which now name the session's model, lead to it.
fn usable(loaded: &Loaded, last: &SessionModel) -> Result<(), String> {
    let start = start_provider(loaded).map_err(|failure| failure.message())?;
    let found = start.map_or_else(|| GOOGLE[0].to_owned(), |start| start.id);
    if found != last.provider
        && !(GOOGLE.contains(&found.as_str()) && GOOGLE.contains(&last.provider.as_str()))
    {
        return Err(format!("provider `{}` is not configured", one_line(&last.provider)));
    }
    check_credentials(loaded).map(drop).map_err(|failure| failure.message())
}
