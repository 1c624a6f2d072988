//! The tool `web_fetch`: reads the web pages named in a prompt, through the model or, if that fails, directly.

mod budget;
mod direct;
mod prompt;
mod rate;

use std::sync::Arc;
use std::time::Duration;

use pollux_domain::content::Content;
use pollux_domain::model::{Grounding, ModelClient, ModelRequest, ReplyChunk, RequestRole};
use pollux_domain::time::Clock;
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use pollux_net::address::AllowedHosts;
use pollux_net::client::{ClientError, ClientOptions};
use pollux_net::guarded::{FetchLimits, GuardedClient, GuardedOptions, Resolver, system_resolver};
use reqwest::Url;
use serde_json::json;

use crate::arguments::Arguments;
use crate::{citation, untrusted};
use rate::RateLimit;

/// Upstream's names for the models that read pages.
const ALIAS: &str = "web-fetch";
const FALLBACK_ALIAS: &str = "web-fetch-fallback";
/// Upstream's, so that servers see the client they know.
const USER_AGENT: &str =
    "Mozilla/5.0 (compatible; Google-Gemini-CLI/1.0; +https://github.com/google-gemini/gemini-cli)";
const SUCCESS: &str = "URL_RETRIEVAL_STATUS_SUCCESS";

/// The dependencies of `web_fetch`.
#[derive(Clone)]
pub struct WebFetchSetup {
    pub model: Arc<dyn ModelClient>,
    pub clock: Arc<dyn Clock>,
    /// Proxies and certificates; the user agent is the tool's own.
    pub http: ClientOptions,
    /// Hosts that may be fetched although they are not public: names or addresses without a port.
    pub allowed_private_hosts: Vec<String>,
    /// Whether a page's text is the answer, without a model that reads it first.
    pub direct: bool,
    /// Time and size of one page.
    pub limits: FetchLimits,
    pub resolver: Resolver,
}

impl WebFetchSetup {
    /// Upstream's limits, public hosts only, the system's resolver.
    pub fn new(model: Arc<dyn ModelClient>, clock: Arc<dyn Clock>, http: ClientOptions) -> Self {
        Self {
            model,
            clock,
            http,
            allowed_private_hosts: Vec::new(),
            direct: false,
            limits: FetchLimits { time: Duration::from_secs(10), bytes: 10 << 20 },
            resolver: system_resolver(),
        }
    }
}

/// The tool.
pub(crate) struct WebFetch {
    spec: Arc<ToolSpec>,
    web: Arc<Web>,
    direct: bool,
}

/// State shared by all calls.
struct Web {
    model: Arc<dyn ModelClient>,
    pages: GuardedClient,
    allowed: AllowedHosts,
    rate: RateLimit,
}

struct Call {
    web: Arc<Web>,
    task: Task,
    urls: Vec<Url>,
}

/// The instruction for the pages.
enum Task {
    /// The prompt of the call.
    Prompt(String),
    /// Return the text.
    Text,
}

impl WebFetch {
    pub(crate) fn new(setup: WebFetchSetup) -> Result<Self, ClientError> {
        let allowed = AllowedHosts::new(setup.allowed_private_hosts);
        let pages = GuardedClient::new(GuardedOptions {
            client: ClientOptions { user_agent: USER_AGENT.to_owned(), ..setup.http },
            allowed: allowed.clone(),
            limits: setup.limits,
            resolver: setup.resolver,
        })?;
        let spec = spec(setup.direct);
        let web = Web { model: setup.model, pages, allowed, rate: RateLimit::new(setup.clock) };
        Ok(Self { spec: Arc::new(spec), web: Arc::new(web), direct: setup.direct })
    }
}

fn spec(direct: bool) -> ToolSpec {
    let (description, parameters) = if direct {
        let description = "Reads one web page and returns its text. The address must be complete (http:// or \
            https://). Addresses inside private networks are refused. Code on GitHub is best named by its blob \
            address.";
        let url = json!({"type": "string", "description": "The address of the page."});
        (description, json!({"type": "object", "properties": {"url": url}, "required": ["url"]}))
    } else {
        let description = "Reads web pages and works on them as told. The prompt names up to 20 complete \
            addresses (http:// or https://) and says what to do with the pages: summarise, compare, extract. \
            Addresses inside private networks are refused. Code on GitHub is best named by its blob address.";
        let prompt = json!({
            "type": "string",
            "description": "The addresses and what to do with the pages, in one text, for example \
                'Summarise https://example.com/article'."
        });
        (description, json!({"type": "object", "properties": {"prompt": prompt}, "required": ["prompt"]}))
    };
    ToolSpec {
        name: "web_fetch".to_owned(),
        display_name: "WebFetch".to_owned(),
        description: description.to_owned(),
        kind: ToolKind::Fetch,
        parameters,
        output_is_markdown: true,
        offloads_long_output: direct,
    }
}

impl Tool for WebFetch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let arguments = Arguments(args);
        let (task, urls) = if self.direct {
            let given = arguments.text("url")?.unwrap_or_default().trim();
            (Task::Text, vec![prompt::address(given)?])
        } else {
            let prompt = arguments.text("prompt")?.unwrap_or_default();
            (Task::Prompt(prompt.to_owned()), prompt::addresses(prompt)?)
        };
        Ok(Box::new(Call { web: Arc::clone(&self.web), task, urls }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        let prompt = match (&self.task, self.urls.first()) {
            (Task::Text, Some(url)) => return format!("Fetching content from: {url}"),
            (Task::Text, None) => return String::new(),
            (Task::Prompt(prompt), _) => prompt,
        };
        let shown = if prompt.chars().count() > 100 {
            prompt.chars().take(97).chain("...".chars()).collect()
        } else {
            prompt.clone()
        };
        format!("Processing URLs and instructions from prompt: \"{shown}\"")
    }

    fn effect(&self) -> Effect {
        Effect::Fetch(self.urls.iter().map(Url::to_string).collect())
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            tokio::select! {
                () = context.cancel.cancelled() => ToolOutcome::Cancelled { partial: None },
                outcome = self.fetch() => outcome,
            }
        })
    }
}

impl Call {
    async fn fetch(&self) -> ToolOutcome {
        let (urls, skipped) = self.sorted().await;
        if urls.is_empty() {
            let message = format!("All requested URLs were skipped: {}", skipped.join(", "));
            return ToolOutcome::failed(ToolErrorKind::WebFetchProcessingError, message);
        }
        let found = match &self.task {
            Task::Text => self.text(&urls).await,
            Task::Prompt(prompt) => match self.by_the_model(prompt, &urls).await {
                Some(text) => Ok((text, "Content processed from prompt.".to_owned())),
                None => self.by_ourselves(prompt, &urls).await,
            },
        };
        let (text, shown) = match found {
            Ok(found) => found,
            Err(message) => return ToolOutcome::failed(ToolErrorKind::WebFetchFallbackFailed, message),
        };
        let warning = if skipped.is_empty() {
            String::new()
        } else {
            format!("[Warning] The following URLs were skipped:\n{}\n\n", skipped.join("\n"))
        };
        ToolOutcome::text(untrusted::wrapped(&format!("{warning}{text}")), Display::Text(shown))
    }

    /// The allowed URLs, and the refused ones with the reason.
    async fn sorted(&self) -> (Vec<Url>, Vec<String>) {
        let mut urls = Vec::new();
        let mut skipped = Vec::new();
        for url in &self.urls {
            if self.web.pages.screen(url).await.is_err() {
                skipped.push(format!("[Blocked Host] {url}"));
            } else if !self.web.rate.admits(url.host_str().unwrap_or_default()) {
                skipped.push(format!("[Rate limit exceeded] {url}"));
            } else {
                urls.push(url.clone());
            }
        }
        (urls, skipped)
    }

    /// The model's server fetches the pages. `None` if that gave nothing.
    async fn by_the_model(&self, prompt: &str, urls: &[Url]) -> Option<String> {
        // The server cannot reach a host of this network, nor need it know of one.
        if urls.iter().any(|url| url.host_str().is_some_and(|host| self.web.allowed.contains(host))) {
            return None;
        }
        let request = request(ALIAS, prompt::for_server(prompt, urls), Grounding::UrlContext);
        let reply = self.web.model.generate(request).await.ok()?;
        let text = citation::spoken(&reply);
        if text.trim().is_empty() || no_page_was_read(&reply) {
            return None;
        }
        Some(citation::cited(&text, &reply.grounding.unwrap_or_default(), "Unknown URI"))
    }

    /// We fetch the page, and its text is the answer.
    async fn text(&self, urls: &[Url]) -> Result<(String, String), String> {
        let (pages, failures) = direct::texts(&self.web.pages, urls).await;
        let (url, text) = pages.into_iter().next().ok_or_else(|| failures.join(", "))?;
        Ok((text, format!("Content of {url}")))
    }

    /// Fetches the pages directly and sends their text to the model.
    async fn by_ourselves(&self, prompt: &str, urls: &[Url]) -> Result<(String, String), String> {
        let (pages, failures) = direct::texts(&self.web.pages, urls).await;
        if pages.is_empty() {
            return Err(format!("All fallback fetch attempts failed: {}", failures.join(", ")));
        }
        let shown = format!("Content for {} URL(s) processed using fallback fetch.", pages.len());
        let text = prompt::with_pages(prompt, &pages, &failures);
        let reply = self.web.model.generate(request(FALLBACK_ALIAS, text, Grounding::None)).await;
        let reply = reply.map_err(|error| format!("Error during fallback processing: {error}"))?;
        let text = citation::spoken(&reply);
        if text.trim().is_empty() {
            return Err("Error during fallback processing: the model returned no text".to_owned());
        }
        Ok((text, shown))
    }
}

fn no_page_was_read(reply: &ReplyChunk) -> bool {
    let pages = reply.grounding.as_ref().map(|info| info.pages.as_slice()).unwrap_or_default();
    !pages.is_empty() && pages.iter().all(|page| page.status.as_deref() != Some(SUCCESS))
}

fn request(alias: &str, text: String, grounding: Grounding) -> ModelRequest {
    ModelRequest {
        model: alias.to_owned(),
        chosen_by: Default::default(),
        role: RequestRole::Tool,
        system: None,
        contents: vec![Arc::new(Content::user_text(text))],
        tools: Arc::from([]),
        settings: Default::default(),
        grounding,
    }
}
