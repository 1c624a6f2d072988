//! `/auth`, and the first start without credentials.

use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::visible;
use pollux_host::Loaded;
use pollux_host::auth::key::WHERE;
use pollux_host::model_list::{ProviderRow, local_servers, undecided, usable_providers};
use pollux_host::request::{Request, Scope};

use super::model::choose_served;
use super::{CommandOutcome, Reopen};
use crate::Front;
use crate::choice::Choice;
use crate::user_interface::UserInterface;

const GOOGLE: &str = "Signing in with Google is not available: it works as gemini-cli's own registered application, which \
other programs may not use. An API key is free to start with.";
const VERTEX: &str = "Vertex AI is configured with environment variables or in ~/.gemini/.env:
  GOOGLE_GENAI_USE_VERTEXAI=true
  GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, with Google's credentials (gcloud auth application-default login),
  or GOOGLE_API_KEY for express mode
Set them and restart Pollux.";
const API_KEY: &str = "gemini-api-key";

/// Asks for an authentication method until one works; false if the person cancels.
pub(crate) async fn sign_in(
    options: &Request,
    loaded: &Loaded,
    ui: &mut UserInterface,
) -> Result<bool, Failure> {
    let found = ways_in(loaded).await;
    loop {
        let rows =
            [("google", "Sign in with Google"), ("key", "Use Gemini API Key"), ("vertex", "Vertex AI")];
        let rows = rows.map(|(key, text)| (key.to_owned(), text.to_owned())).into_iter();
        let others = found.iter().map(|row| match row.local {
            true => (row.id.clone(), format!("Use {} (running on this machine)", row.name)),
            false => (row.id.clone(), format!("Use {} ({} is set)", row.name, row.key)),
        });
        let mut choice = Choice::of("? Get started", rows.chain(others));
        choice.about = vec!["How would you like to authenticate for this project?".to_owned()];
        choice.marked = Some("key".to_owned());
        choice.options.unrequested = true;
        let Some(chosen) = ui.choose(choice).await else { return Ok(false) };
        match chosen.key.as_str() {
            "google" => ui.note(GOOGLE),
            "vertex" => ui.note(VERTEX),
            id if id != "key" => {
                let Some(provider) = found.iter().find(|row| row.id == id) else { continue };
                if use_provider(options, loaded, provider, ui).await? {
                    return Ok(true);
                }
            }
            _ => {
                let question = format!("{WHERE}\nAPI key (not shown): ");
                let Some(typed) = ui.ask_secret(&question).await else { continue };
                match keep(&typed, options, loaded) {
                    Ok(lines) => {
                        lines.iter().for_each(|line| ui.note(line));
                        return Ok(true);
                    }
                    Err(failure) => ui.error(&failure.message()),
                }
            }
        }
    }
}

/// Providers other than Google's that would work: with a key in the environment, or running on this machine.
async fn ways_in(loaded: &Loaded) -> Vec<ProviderRow> {
    let with_key = |row: &ProviderRow| row.id != "gemini" && !row.local && row.key != "no key";
    let mut found: Vec<ProviderRow> = usable_providers(loaded).into_iter().filter(with_key).collect();
    found.extend(local_servers(loaded).await);
    found
}

/// Makes a provider the user's default; false if no model of it was chosen.
async fn use_provider(
    options: &Request,
    loaded: &Loaded,
    provider: &ProviderRow,
    ui: &mut UserInterface,
) -> Result<bool, Failure> {
    let model = match provider.model.clone() {
        Some(model) => Some(model),
        None => choose_served(loaded, provider, ui).await,
    };
    let Some(model) = model else { return Ok(false) };
    let mut settings = pollux_host::settings::settings(options, &loaded.env)?;
    settings.set("model.name", &model, Scope::User)?;
    ui.note(&format!("Set `model.name` to {model}."));
    Ok(true)
}

/// Asks once which provider to use when several have a key and none was named.
pub(crate) async fn settle_provider(
    options: &Request,
    loaded: &Loaded,
    ui: &mut UserInterface,
) -> Result<bool, Failure> {
    let found = undecided(loaded);
    if found.is_empty() {
        return Ok(false);
    }
    let rows = found.iter().map(|row| (row.id.clone(), format!("{} ({} is set)", row.name, row.key)));
    let mut choice = Choice::of("Which provider do you want to use?", rows);
    choice.about = vec!["API keys of several providers were found. The choice is saved.".to_owned()];
    choice.options.unrequested = true;
    let Some(chosen) = ui.choose(choice).await else { return Ok(false) };
    let mut settings = pollux_host::settings::settings(options, &loaded.env)?;
    settings.set("model.provider", &chosen.key, Scope::User)?;
    ui.note(&format!("Set `model.provider` to {}.", chosen.key));
    Ok(true)
}

/// Stores and selects a key; returns lines about where it is stored.
fn keep(typed: &str, options: &Request, loaded: &Loaded) -> Result<Vec<String>, Failure> {
    let sign_ins = pollux_host::auth::sign_ins(options, &loaded.env)?;
    let stored = sign_ins.keep(typed)?;
    let mut lines = vec![format!("API key stored in {}.", stored.place)];
    let selected = loaded.groups.security.auth_selected.as_deref();
    if selected.is_some_and(|kind| kind != API_KEY) {
        let mut settings = pollux_host::settings::settings(options, &loaded.env)?;
        settings.set("security.auth.selectedType", API_KEY, Scope::User)?;
        lines.push(format!("Set `security.auth.selectedType` to {API_KEY}."));
    } else {
        lines.extend(stored.notes);
    }
    Ok(lines)
}

impl Front<'_, '_> {
    /// `/auth`, `/auth signin`, `/auth signout`.
    pub(super) async fn auth(&mut self, rest: &str) -> CommandOutcome {
        match rest {
            "signout" | "logout" => {
                let text = self.run_auth("logout");
                self.ui.note(&format!("{text}\nThe current session keeps its credentials."));
                CommandOutcome::Continue
            }
            "" | "signin" | "login" => {
                if rest.is_empty() {
                    let text = self.run_auth("status");
                    self.ui.note(&text);
                }
                match sign_in(self.turn.request, self.turn.loaded, self.ui).await {
                    Ok(true) => self.reopen(Reopen::default()),
                    Ok(false) => CommandOutcome::Continue,
                    Err(failure) => {
                        self.ui.error(&failure.message());
                        CommandOutcome::Continue
                    }
                }
            }
            _ => {
                self.ui.note("Usage: /auth [signin|signout]");
                CommandOutcome::Continue
            }
        }
    }

    fn run_auth(&self, word: &str) -> String {
        let done = self.subcommand(&["auth", word]);
        match done.result {
            Ok(()) => visible(done.out.trim_end()).into_owned(),
            Err(failure) => format!("{}{}", done.out, failure.message()),
        }
    }

    /// Reopens the conversation if settings and credentials are valid.
    pub(super) fn reopen(&mut self, reopen: Reopen) -> CommandOutcome {
        let (options, env) = (self.turn.request, &self.turn.loaded.env);
        let possible = pollux_host::load_settings(options, env)
            .and_then(|loaded| pollux_host::check_credentials(&loaded));
        match possible {
            Ok(_) => CommandOutcome::Reopen(reopen),
            Err(failure) => {
                self.ui.error(&failure.message());
                CommandOutcome::Continue
            }
        }
    }
}
