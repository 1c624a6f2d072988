//! `/auth`, and the first start without credentials.

use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::{one_line, visible};
use pollux_host::Loaded;
use pollux_host::auth::key::WHERE;
use pollux_host::model_list::{
    ProviderRow, local_servers, provider_outside_google, providers_with_keys, undecided, usable_providers,
    wanted_provider,
};
use pollux_host::providers::set::{KeyVerdict, provider_set};
use pollux_host::request::{Request, Scope};

use super::model::choose_served;
use super::outcome::names_model;
use super::{CommandOutcome, Reopen, use_model};
use crate::Front;
use crate::choice::Choice;
use crate::user_interface::UserInterface;

const GOOGLE: &str =
    "Signing in with Google is bound to gemini-cli and not available here. An API key is free to start with.";
const VERTEX: &str = "Vertex AI is configured with environment variables or in ~/.gemini/.env:
  GOOGLE_GENAI_USE_VERTEXAI=true
  GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, with Google Cloud credentials (gcloud auth application-default login),
  or GOOGLE_API_KEY for express mode
Set them and restart Pollux.";
const API_KEY: &str = "gemini-api-key";
/// Providers whose key can be entered at once; the others are one list further.
const FIRST: [&str; 2] = ["anthropic", "openai"];

/// What a person did about missing credentials.
pub(crate) enum SignedIn {
    /// There is a key now.
    Key,
    /// Another model is to be used.
    Model(String),
}

/// A row of the first dialog.
enum Way {
    /// Enter the key that is missing.
    Missing(ProviderRow),
    /// Use a provider that works already.
    Found(ProviderRow),
    Gemini,
    /// Enter a provider's key and use it.
    Enter(ProviderRow),
    Another,
    Vertex,
}

impl Way {
    fn text(&self) -> String {
        match self {
            Self::Missing(row) => format!("Enter the API key of {}", row.name),
            Self::Found(row) if row.local => format!("Use {} (running on this machine)", row.name),
            Self::Found(row) => format!("Use {} ({} is set)", row.name, row.key),
            Self::Gemini => "Use Gemini API Key".to_owned(),
            Self::Enter(row) => format!("Use {} API Key", row.name),
            Self::Another => "Another provider…".to_owned(),
            Self::Vertex => "Vertex AI".to_owned(),
        }
    }
}

/// Asks for an authentication method until one works; `None` if the person cancels. `missing` says what is wrong.
pub(crate) async fn sign_in(
    options: &Request,
    loaded: &Loaded,
    missing: Option<&Failure>,
    ui: &mut UserInterface,
) -> Result<Option<SignedIn>, Failure> {
    let ways = ways(loaded, missing.is_some()).await;
    // Without a named provider, nothing was named that could be wrong.
    let is_named = matches!(ways.first(), Some(Way::Missing(_)));
    let reason = missing.filter(|_| is_named).map(|failure| failure.message());
    let works = |way: &Way| matches!(way, Way::Missing(_) | Way::Found(_));
    let marked =
        ways.iter().position(works).or_else(|| ways.iter().position(|way| matches!(way, Way::Gemini)));
    loop {
        let rows = ways.iter().enumerate().map(|(at, way)| (at.to_string(), way.text()));
        let mut choice = Choice::of("? Get started", rows);
        choice.about = reason.iter().cloned().collect();
        choice.about.push("How would you like to authenticate for this project?".to_owned());
        choice.marked = marked.map(|at| at.to_string());
        choice.foot = vec![GOOGLE.to_owned()];
        choice.options.unrequested = true;
        let Some(chosen) = ui.choose(choice).await else { return Ok(None) };
        let way = chosen.key.parse::<usize>().ok().and_then(|at| ways.get(at));
        let done = match way {
            None => None,
            Some(Way::Vertex) => {
                ui.note(VERTEX);
                None
            }
            Some(Way::Missing(row)) => enter_key(options, loaded, row, ui).await.then_some(SignedIn::Key),
            Some(Way::Found(row)) => use_provider(options, loaded, row, ui).await?,
            Some(Way::Enter(row)) => enter_and_use(options, loaded, row, ui).await?,
            Some(Way::Another) => match another(loaded, ui).await {
                Some(row) => enter_and_use(options, loaded, &row, ui).await?,
                None => None,
            },
            Some(Way::Gemini) => gemini_key(options, loaded, ui).await,
        };
        if done.is_some() {
            return Ok(done);
        }
    }
}

/// The ways in, those that work first.
async fn ways(loaded: &Loaded, is_missing: bool) -> Vec<Way> {
    let wanted = if is_missing { wanted_provider(loaded).filter(|row| !row.local) } else { None };
    let with_key = |row: &ProviderRow| row.id != "gemini" && !row.local && row.key != "no key";
    let mut found: Vec<ProviderRow> = usable_providers(loaded).into_iter().filter(with_key).collect();
    found.extend(local_servers(loaded).await);
    let is_wanted = |id: &str| wanted.as_ref().is_some_and(|row| row.id == id);
    let is_found = |id: &str| found.iter().any(|row| row.id == id);
    let enter = providers_with_keys(loaded)
        .into_iter()
        .filter(|row| FIRST.contains(&row.id.as_str()) && !is_wanted(&row.id) && !is_found(&row.id));
    let enter: Vec<Way> = enter.map(Way::Enter).collect();
    let mut ways: Vec<Way> = wanted.map(Way::Missing).into_iter().collect();
    ways.extend(found.into_iter().map(Way::Found));
    ways.push(Way::Gemini);
    ways.extend(enter);
    ways.extend([Way::Another, Way::Vertex]);
    ways
}

/// Asks for one of the providers that take a key.
async fn another(loaded: &Loaded, ui: &mut UserInterface) -> Option<ProviderRow> {
    let providers = providers_with_keys(loaded);
    let rows = providers.iter().map(|row| (row.id.clone(), row.name.clone()));
    let mut choice = Choice::of("Which provider do you want to use?", rows);
    choice.foot = vec!["Add others: pollux providers add".to_owned()];
    let chosen = ui.choose(choice).await?;
    providers.into_iter().find(|row| row.id == chosen.key)
}

/// Asks for a key until the provider accepts it or the person wants to store it anyway; `None` if they cancel.
async fn ask_key(
    options: &Request,
    loaded: &Loaded,
    (id, name): (&str, &str),
    question: &str,
    ui: &mut UserInterface,
) -> Option<String> {
    let mut typed = ui.ask_secret(question).await?;
    loop {
        let checked =
            provider_set(options, &loaded.env).and_then(|set| Ok((set.checked_key(id, &typed)?, set)));
        let (key, set) = match checked {
            Ok(checked) => checked,
            Err(failure) => {
                ui.error(&failure.message());
                typed = ui.ask_secret(question).await?;
                continue;
            }
        };
        ui.note(&format!("Checking the key with {name}…"));
        let verdict = set.try_key(id, &key).await;
        let (title, reason) = match verdict {
            Ok(KeyVerdict::Accepted) => return Some(typed),
            Ok(KeyVerdict::Rejected(reason)) => (format!("{name} rejected the key"), reason),
            Ok(KeyVerdict::Unchecked(reason)) => ("The key could not be checked".to_owned(), reason),
            Err(failure) => {
                ui.error(&failure.message());
                return None;
            }
        };
        let mut choice = Choice::of(
            &title,
            [("again", "Check again"), ("another", "Enter another key"), ("keep", "Store it anyway")],
        );
        choice.about = vec![one_line(&reason)];
        choice.marked = Some("another".to_owned());
        match ui.choose(choice).await?.key.as_str() {
            "again" => {}
            "keep" => return Some(typed),
            _ => typed = ui.ask_secret(question).await?,
        }
    }
}

/// Asks for a Gemini API key and stores it.
async fn gemini_key(options: &Request, loaded: &Loaded, ui: &mut UserInterface) -> Option<SignedIn> {
    let question = format!("{WHERE}\nAPI key (not shown): ");
    let typed = ask_key(options, loaded, ("gemini", "Gemini"), &question, ui).await?;
    match keep(&typed, options, loaded) {
        Ok(lines) => lines.iter().for_each(|line| ui.note(line)),
        Err(failure) => {
            ui.error(&failure.message());
            return None;
        }
    }
    // A model of another provider was named, which has no key.
    let is_elsewhere = wanted_provider(loaded).is_some();
    Some(if is_elsewhere { SignedIn::Model("gemini/auto".to_owned()) } else { SignedIn::Key })
}

/// Asks for a provider's key and stores it, as `pollux providers login` does; false if there is none.
async fn enter_key(
    options: &Request,
    loaded: &Loaded,
    provider: &ProviderRow,
    ui: &mut UserInterface,
) -> bool {
    let question = format!("API key of {} (not shown): ", provider.name);
    let asked = ask_key(options, loaded, (&provider.id, &provider.name), &question, ui);
    let Some(typed) = asked.await else { return false };
    let stored = provider_set(options, &loaded.env).and_then(|set| set.login(&provider.id, &typed));
    match stored {
        Ok(stored) => {
            ui.note(&format!("API key stored in {}.", stored.place));
            stored.notes.iter().for_each(|line| ui.note(line));
            true
        }
        Err(failure) => {
            ui.error(&failure.message());
            false
        }
    }
}

async fn enter_and_use(
    options: &Request,
    loaded: &Loaded,
    provider: &ProviderRow,
    ui: &mut UserInterface,
) -> Result<Option<SignedIn>, Failure> {
    if !enter_key(options, loaded, provider, ui).await {
        return Ok(None);
    }
    use_provider(options, loaded, provider, ui).await
}

/// Makes a provider the user's default, or that of this run if a model was named for it; `None` if no model of it was
/// chosen.
async fn use_provider(
    options: &Request,
    loaded: &Loaded,
    provider: &ProviderRow,
    ui: &mut UserInterface,
) -> Result<Option<SignedIn>, Failure> {
    let model = match provider.model.clone() {
        Some(model) => Some(model),
        None => choose_served(loaded, provider, ui).await,
    };
    let Some(model) = model else { return Ok(None) };
    if names_model(options) {
        ui.note(&format!("Using {model} for this run."));
    } else {
        let mut settings = pollux_host::settings::settings(options, &loaded.env)?;
        settings.set("model.name", &model, Scope::User)?;
        ui.note(&format!("Set `model.name` to {model}."));
    }
    Ok(Some(SignedIn::Model(model)))
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
                    let text = self.auth_status();
                    self.ui.note(&text);
                }
                match sign_in(self.turn.request, self.turn.loaded, None, self.ui).await {
                    Ok(Some(SignedIn::Key)) => self.reopen(Reopen::default()),
                    Ok(Some(SignedIn::Model(model))) => {
                        self.reopen(Reopen { model: Some(model), ..Reopen::default() })
                    }
                    Ok(None) => CommandOutcome::Continue,
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

    /// How requests of this session are authenticated. Only Google's credentials have a status of their own.
    fn auth_status(&self) -> String {
        let method = self.turn.auth_method(&self.model);
        match method.and_then(|id| provider_outside_google(self.turn.loaded, &id)) {
            Some(row) if row.local => format!("Provider:  {} (running on this machine)", row.name),
            Some(row) => format!("Provider:  {}\nAPI key:   {}", row.name, row.key),
            None => self.run_auth("status"),
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
        let mut options = self.turn.request.clone();
        if let Some(model) = &reopen.model {
            use_model(&mut options, model);
        }
        let possible = pollux_host::load_settings(&options, &self.turn.loaded.env)
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
