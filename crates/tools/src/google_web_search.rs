//! The tool `google_web_search`: the model searches the web and answers with sources.

use std::sync::Arc;

use pollux_domain::content::Content;
use pollux_domain::model::{Grounding, ModelClient, ModelRequest, RequestRole};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolErrorKind, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::json;

use crate::arguments::Arguments;
use crate::citation;

/// Upstream's name for the model that searches.
const ALIAS: &str = "web-search";

/// The tool.
pub(crate) struct GoogleWebSearch {
    spec: Arc<ToolSpec>,
    model: Arc<dyn ModelClient>,
}

struct Call {
    model: Arc<dyn ModelClient>,
    query: String,
}

impl GoogleWebSearch {
    pub(crate) fn new(model: Arc<dyn ModelClient>) -> Self {
        let spec = ToolSpec {
            name: "google_web_search".to_owned(),
            display_name: "GoogleSearch".to_owned(),
            description: "Searches the web with Google and returns an answer with its sources. For what is \
                newer than your knowledge, or must be checked."
                .to_owned(),
            kind: ToolKind::Search,
            parameters: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for, in plain words."}
                },
                "required": ["query"]
            }),
            output_is_markdown: true,
            offloads_long_output: false,
        };
        Self { spec: Arc::new(spec), model }
    }
}

impl Tool for GoogleWebSearch {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let query = Arguments(args).required("query")?;
        if query.trim().is_empty() {
            return Err(ArgError("The 'query' parameter cannot be empty.".to_owned()));
        }
        Ok(Box::new(Call { model: Arc::clone(&self.model), query: query.to_owned() }))
    }
}

impl Invocation for Call {
    fn describe(&self) -> String {
        format!("Searching the web for: \"{}\"", self.query)
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            tokio::select! {
                () = context.cancel.cancelled() => ToolOutcome::Cancelled { partial: None },
                outcome = self.search() => outcome,
            }
        })
    }
}

impl Call {
    async fn search(&self) -> ToolOutcome {
        let query = &self.query;
        let request = ModelRequest {
            model: ALIAS.to_owned(),
            chosen_by: Default::default(),
            role: RequestRole::Tool,
            system: None,
            contents: vec![Arc::new(Content::user_text(query))],
            tools: Arc::from([]),
            settings: Default::default(),
            grounding: Grounding::Search,
        };
        let reply = match self.model.generate(request).await {
            Ok(reply) => reply,
            Err(error) => {
                let message = format!("Error during web search for query \"{query}\": {error}");
                return ToolOutcome::failed(ToolErrorKind::WebSearchFailed, message);
            }
        };
        let text = citation::spoken(&reply);
        if text.trim().is_empty() {
            let text = format!("No search results or information found for query: \"{query}\"");
            return ToolOutcome::text(text, Display::Text("No information found.".to_owned()));
        }
        let text = citation::cited(&text, &reply.grounding.unwrap_or_default(), "No URI");
        let shown = format!("Search results for \"{query}\" returned.");
        ToolOutcome::text(format!("Web search results for \"{query}\":\n\n{text}"), Display::Text(shown))
    }
}
