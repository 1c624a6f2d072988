//! Hooks around a request to the model and the pieces of its reply.

use std::sync::Arc;

use pollux_domain::model::{ModelClient, ModelRequest, ReplyChunk, Setting, ToolChoice};
use pollux_hooks::{
    AfterModel, BeforeModel, BeforeToolSelection, LlmRequest, LlmResponse, ToolConfig, ToolMode, Verdict,
};
use pollux_policy::canonical_tool_name;
use tokio_util::sync::CancellationToken;

use super::Hooked;
use crate::emitter::Emitter;
use crate::reply::Reply;
use crate::step_end::StepEnd;

/// What hooks decided about a piece of a reply.
pub(crate) enum Piece {
    /// It is shown as it came.
    Same,
    /// These words are shown in place of its own.
    Reworded(Vec<String>),
    /// It does not count, nor does anything after it; these words are shown instead.
    Last(Vec<String>),
}

/// A request is about to be made; hooks may change it. `Some` is how the step ends without it.
pub(crate) async fn before_model(
    hooked: &Hooked,
    client: &dyn ModelClient,
    emitter: &Emitter,
    request: &mut ModelRequest,
    cancel: &CancellationToken,
) -> Option<StepEnd> {
    let heard = hooked.fire(|| BeforeModel { llm_request: as_hooks_see(client, request) }, cancel).await;
    if cancel.is_cancelled() {
        return Some(StepEnd::Cancelled(Reply::default()));
    }
    let outcome = heard.outcome;
    let halted = hooked.halts(&outcome.verdict, heard.message.as_deref()).await;
    let stopped = matches!(outcome.verdict, Verdict::Stop { .. });
    if let Some(response) = outcome.response.filter(|_| !stopped) {
        let reply = speak(emitter, &response).await;
        // What a blocked request got instead is shown, and never was the model's.
        return Some(if halted { StepEnd::Halted(Reply::default()) } else { StepEnd::Reply(reply) });
    }
    if halted {
        return Some(StepEnd::Halted(Reply::default()));
    }
    if let Some(change) = outcome.request {
        change.apply(request);
    }
    select_tools(hooked, client, request, cancel).await
}

/// A request with the settings that the model is really asked with.
pub(crate) fn as_hooks_see(client: &dyn ModelClient, request: &ModelRequest) -> LlmRequest {
    LlmRequest::of(request, &client.settings(request))
}

/// A reply that a hook gives in the model's place.
async fn speak(emitter: &Emitter, response: &LlmResponse) -> Reply {
    let chunk = response.to_chunk();
    let mut reply = Reply::default();
    // Nothing was used.
    reply.absorb(&ReplyChunk { usage: None, ..chunk.clone() });
    for part in chunk.parts {
        emitter.show(part.spoken_text()).await;
        reply.push(part);
    }
    reply
}

async fn select_tools(
    hooked: &Hooked,
    client: &dyn ModelClient,
    request: &mut ModelRequest,
    cancel: &CancellationToken,
) -> Option<StepEnd> {
    let payload = || BeforeToolSelection { llm_request: as_hooks_see(client, request) };
    let heard = hooked.fire(payload, cancel).await;
    if cancel.is_cancelled() {
        return Some(StepEnd::Cancelled(Reply::default()));
    }
    if let Some(config) = heard.outcome.tool_config.filter(|_| !request.tools.is_empty()) {
        narrow(request, &config);
    }
    None
}

/// A piece of a reply arrived; `asked` is what was sent.
pub(crate) async fn after_model(
    hooked: &Hooked,
    asked: &LlmRequest,
    chunk: &ReplyChunk,
    cancel: &CancellationToken,
) -> Piece {
    let payload = || AfterModel { llm_request: asked.clone(), llm_response: LlmResponse::of(chunk) };
    let heard = hooked.fire(payload, cancel).await;
    let words = heard
        .outcome
        .response
        .map(|response| response.candidates.into_iter().next().map(|first| first.parts).unwrap_or_default());
    if cancel.is_cancelled() {
        return Piece::Last(Vec::new());
    }
    let verdict = heard.outcome.verdict;
    if hooked.halts(&verdict, heard.message.as_deref()).await {
        let blocked = matches!(verdict, Verdict::Block { .. });
        return Piece::Last(words.filter(|_| blocked).unwrap_or_default());
    }
    words.map_or(Piece::Same, Piece::Reworded)
}

/// Tells the model which tools it may choose. Only a model that must choose can be given names; for one that
/// may, the others are left out of what it is offered.
fn narrow(request: &mut ModelRequest, config: &ToolConfig) {
    let allowed: Vec<&str> = config.allowed.iter().map(|name| canonical_tool_name(name)).collect();
    let is_declared = |name: &&&str| request.tools.iter().any(|spec| spec.name == **name);
    let named: Vec<&&str> = allowed.iter().filter(is_declared).collect();
    // Names that no tool has must not open all of them.
    if config.mode == ToolMode::Any && named.is_empty() && !allowed.is_empty() {
        request.tools = Arc::default();
        request.settings.tool_choice = Setting::Inherit;
        return;
    }
    let calling = match config.mode {
        ToolMode::Auto => ToolChoice::Auto,
        ToolMode::None => ToolChoice::None,
        ToolMode::Any => match named.as_slice() {
            [] => ToolChoice::Required,
            [one] => ToolChoice::Only((**one).to_owned()),
            several => {
                let names = several.iter().map(|name| (**name).to_owned()).collect();
                ToolChoice::Allowed { names, required: true }
            }
        },
    };
    request.settings.tool_choice = Setting::Set(calling);
    if config.mode == ToolMode::Auto && !config.allowed.is_empty() {
        let kept = request.tools.iter().filter(|spec| allowed.contains(&spec.name.as_str()));
        request.tools = kept.map(Arc::clone).collect();
        if request.tools.is_empty() {
            request.settings.tool_choice = Setting::Inherit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::model::RequestRole;
    use pollux_domain::tool::{ToolKind, ToolSpec};
    use serde_json::Value;

    fn request() -> ModelRequest {
        let spec = |name: &str| {
            Arc::new(ToolSpec {
                name: name.into(),
                display_name: name.into(),
                description: String::new(),
                kind: ToolKind::Read,
                parameters: Value::Null,
                output_is_markdown: false,
                offloads_long_output: false,
            })
        };
        ModelRequest {
            model: "m".into(),
            chosen_by: Default::default(),
            role: RequestRole::Main,
            system: None,
            contents: Vec::new(),
            tools: Arc::from([spec("glob"), spec("grep_search")]),
            settings: Default::default(),
            grounding: Default::default(),
        }
    }

    fn narrowed(mode: ToolMode, allowed: &[&str]) -> (Setting<ToolChoice>, Vec<String>) {
        let mut request = request();
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        narrow(&mut request, &ToolConfig { mode, allowed });
        let names = request.tools.iter().map(|spec| spec.name.clone()).collect();
        (request.settings.tool_choice, names)
    }

    #[test]
    fn tools_are_named_where_one_must_be_chosen_and_left_out_where_one_may() {
        let all = || vec!["glob".to_owned(), "grep_search".to_owned()];
        assert_eq!(narrowed(ToolMode::Auto, &[]), (Setting::Set(ToolChoice::Auto), all()));
        assert_eq!(
            narrowed(ToolMode::Auto, &["search_file_content"]),
            (Setting::Set(ToolChoice::Auto), vec!["grep_search".to_owned()])
        );
        assert_eq!(narrowed(ToolMode::Auto, &["nosuch"]), (Setting::Inherit, vec![]));
        let only = ToolChoice::Only("glob".to_owned());
        assert_eq!(narrowed(ToolMode::Any, &["glob", "nosuch"]), (Setting::Set(only), all()));
        let both = ToolChoice::Allowed { names: all(), required: true };
        assert_eq!(narrowed(ToolMode::Any, &["glob", "grep_search"]), (Setting::Set(both), all()));
        assert_eq!(narrowed(ToolMode::Any, &[]), (Setting::Set(ToolChoice::Required), all()));
        assert_eq!(narrowed(ToolMode::Any, &["nosuch"]), (Setting::Inherit, vec![]));
        assert_eq!(narrowed(ToolMode::None, &["glob"]), (Setting::Set(ToolChoice::None), all()));
    }
}
