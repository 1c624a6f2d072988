//! Chooses the embedding provider from the settings and the available keys and models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_domain::JsonObject;
use pollux_domain::embedding::Embedder;
use pollux_net::client::{ClientError, ClientOptions, client};
use serde_json::Value;

use crate::install::Known;
use crate::local::{LocalModel, ModelError};
use crate::remote::{Protocol, RemoteError, RemoteModel, RemoteOptions};

/// A kind of provider, as settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Openai,
    Gemini,
    Local,
    /// The first available one.
    Auto,
}

/// The embedding settings.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbedSettings {
    pub provider: Provider,
    pub model: Option<String>,
    /// Used when the provider cannot be started.
    pub fallback: Option<Provider>,
    pub base_url: Option<String>,
    pub api_key: Option<String>,
    pub headers: Vec<(String, String)>,
    pub dimensions: Option<u32>,
    /// `local.modelPath`.
    pub model_path: Option<String>,
}

/// The environment a provider is started in.
#[derive(Debug, Clone)]
pub struct EmbedContext<'a> {
    pub env: &'a Env,
    pub client: ClientOptions,
    /// Where installed models are: `<home>/models`.
    pub models: PathBuf,
    /// Folder for files prepared from a model; without it, they are stored next to the model.
    pub cache: Option<PathBuf>,
}

/// The chosen provider, or why there is none.
#[derive(Clone)]
pub struct Choice {
    /// `None` means keyword search only.
    pub embedder: Option<Arc<dyn Embedder>>,
    pub requested: Provider,
    /// Providers that were skipped, and why.
    pub skipped: Vec<Skipped>,
}

/// A provider that could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub provider: Provider,
    pub reason: String,
}

/// Why a provider could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Local(#[from] ModelError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(
        "no local embedding model is installed; run `pollux memory model install`, or set the path of one in \
         `memory.local.modelPath`"
    )]
    NotInstalled,
    #[error(
        "`memory.local.modelPath` is a URL; download the model (`pollux memory model install`) and set its folder"
    )]
    PathIsAddress,
}

impl Provider {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Gemini => "gemini",
            Self::Local => "local",
            Self::Auto => "auto",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Openai, Self::Gemini, Self::Local, Self::Auto].into_iter().find(|one| one.as_str() == name)
    }
}

impl StartError {
    /// No key or model is configured. Only this lets `auto` try the next provider.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Remote(RemoteError::NoKey { .. }) | Self::NotInstalled)
    }
}

impl Default for EmbedSettings {
    fn default() -> Self {
        Self {
            provider: Provider::Auto,
            model: None,
            fallback: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            dimensions: None,
            model_path: None,
        }
    }
}

// Keys and headers are secrets.
impl std::fmt::Debug for EmbedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbedSettings")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("fallback", &self.fallback)
            .field("api_key", &self.api_key.is_some())
            .field("model_path", &self.model_path)
            .finish_non_exhaustive()
    }
}

impl EmbedSettings {
    /// Adds what stands in the objects `remote` and `local` of the memory settings; unknown and unusable values
    /// are left out.
    #[must_use]
    pub fn with_objects(mut self, remote: &JsonObject, local: &JsonObject) -> Self {
        let text = |object: &JsonObject, name: &str| {
            object
                .get(name)
                .and_then(Value::as_str)
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        self.base_url = text(remote, "baseUrl");
        self.api_key = text(remote, "apiKey");
        let headers = remote.get("headers").and_then(Value::as_object).into_iter().flatten();
        self.headers =
            headers.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let dimensions = remote.get("outputDimensionality").or_else(|| remote.get("dimensions"));
        self.dimensions = dimensions.and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        self.model_path = text(local, "modelPath");
        self
    }
}

/// Chooses a provider. Never fails: without one, memory falls back to keyword search and reports why.
pub fn choose(settings: &EmbedSettings, around: &EmbedContext<'_>) -> Choice {
    let mut choice = Choice { embedder: None, requested: settings.provider, skipped: Vec::new() };
    let order: &[Provider] = match settings.provider {
        Provider::Auto if has_local_path(settings, around) => &[Provider::Local],
        Provider::Auto => &[Provider::Openai, Provider::Gemini, Provider::Local],
        ref one => std::slice::from_ref(one),
    };
    for provider in order {
        match start(*provider, settings, around) {
            Ok(embedder) => return Choice { embedder: Some(embedder), ..choice },
            Err(error) => {
                let goes_on = error.is_absence();
                choice.skipped.push(Skipped { provider: *provider, reason: error.to_string() });
                if !goes_on {
                    break;
                }
            }
        }
    }
    let fallback = settings.fallback.filter(|fallback| !order.contains(fallback));
    if let Some(provider) = fallback {
        match start(provider, settings, around) {
            Ok(embedder) => choice.embedder = Some(embedder),
            Err(error) => choice.skipped.push(Skipped { provider, reason: error.to_string() }),
        }
    }
    choice
}

/// Starts one provider; nothing is sent yet. `Auto` means the local one here.
pub fn start(
    provider: Provider,
    settings: &EmbedSettings,
    around: &EmbedContext<'_>,
) -> Result<Arc<dyn Embedder>, StartError> {
    let protocol = match provider {
        Provider::Openai => Protocol::OpenAi,
        Provider::Gemini => Protocol::Gemini,
        Provider::Local | Provider::Auto => return start_local(settings, around),
    };
    let key = key(protocol, settings, around.env);
    // A self-hosted server often needs no key.
    let own_server = settings.provider == provider && settings.base_url.is_some();
    if key.is_none() && !own_server {
        let variables = match protocol {
            Protocol::OpenAi => "OPENAI_API_KEY",
            Protocol::Gemini => "GEMINI_API_KEY or GOOGLE_API_KEY",
        };
        return Err(RemoteError::NoKey { provider: protocol.name(), variables }.into());
    }
    let options = RemoteOptions {
        base_url: settings.base_url.clone(),
        model: settings.model.clone(),
        key,
        headers: settings.headers.clone(),
        dimensions: settings.dimensions,
        ..RemoteOptions::new(client(&around.client)?)
    };
    Ok(Arc::new(RemoteModel::new(protocol, options)?))
}

fn key(protocol: Protocol, settings: &EmbedSettings, env: &Env) -> Option<String> {
    let variables: &[&str] = match protocol {
        Protocol::OpenAi => &["OPENAI_API_KEY"],
        Protocol::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    };
    let from_env = |name: &str| env.non_empty(name).map(|value| value.trim().to_owned());
    match settings.api_key.as_deref() {
        // A variable name instead of a key refers to its value.
        Some(name) if variables.contains(&name) => from_env(name),
        Some(key) => Some(key.to_owned()),
        None => variables.iter().find_map(|name| from_env(name)),
    }
}

fn start_local(settings: &EmbedSettings, around: &EmbedContext<'_>) -> Result<Arc<dyn Embedder>, StartError> {
    let model = match &settings.model_path {
        Some(path) if is_address(path) => return Err(StartError::PathIsAddress),
        Some(path) => LocalModel::open(&expanded(path, around.env), around.cache.as_deref())?,
        None => {
            let folder = installed(&around.models, settings.model.as_deref());
            // The installer left prepared files there.
            LocalModel::open(&folder.ok_or(StartError::NotInstalled)?, None)?
        }
    };
    Ok(Arc::new(model))
}

/// The installed model of a name, or the best one.
fn installed(models: &Path, name: Option<&str>) -> Option<PathBuf> {
    let names = name.into_iter().chain(Known::ALL.iter().map(|known| known.name()));
    let plain = |name: &&str| !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
    names.filter(plain).map(|name| models.join(name)).find(|folder| folder.is_dir())
}

fn has_local_path(settings: &EmbedSettings, around: &EmbedContext<'_>) -> bool {
    let path = settings.model_path.as_deref().filter(|path| !is_address(path));
    path.is_some_and(|path| expanded(path, around.env).exists())
}

fn is_address(path: &str) -> bool {
    ["hf:", "http:", "https:"].iter().any(|scheme| path.starts_with(scheme))
}

fn expanded(path: &str, env: &Env) -> PathBuf {
    match (path.strip_prefix("~/"), env.non_empty("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => env.cwd().join(path),
    }
}
