//! Estimates the size of a request whose tokens are not counted yet.

use pollux_domain::content::{Body, Part};
use pollux_domain::model::ModelRequest;

/// Approximate bytes per token.
pub(super) const BYTES_PER_TOKEN: u64 = 4;
/// Approximate tokens of an image or a page.
const TOKENS_PER_MEDIUM: u64 = 1_500;

/// Approximate bytes of a request.
pub(super) fn request_bytes(request: &ModelRequest) -> u64 {
    let system = request.system.as_ref().map_or(0, |text| text.len() as u64);
    let contents: u64 = request.contents.iter().flat_map(|content| &content.parts).map(part_bytes).sum();
    let tools = request
        .tools
        .iter()
        .map(|tool| (tool.name.len() + tool.description.len() + tool.parameters.to_string().len()) as u64);
    system.saturating_add(contents).saturating_add(tools.sum())
}

pub(super) fn part_bytes(part: &Part) -> u64 {
    let json_length =
        |value: &pollux_domain::JsonObject| serde_json::to_string(value).map_or(0, |text| text.len() as u64);
    match &part.body {
        Body::Text(text) | Body::Reasoning { text, .. } => text.len() as u64,
        Body::Call(call) => call.name.len() as u64 + json_length(&call.args),
        Body::Response(response) => {
            let text = match response.response.as_stored() {
                Some(stored) => stored.length as u64,
                None => json_length(&response.response),
            };
            text + response.parts.iter().map(part_bytes).sum::<u64>()
        }
        Body::InlineData(_) | Body::FileData { .. } => TOKENS_PER_MEDIUM * BYTES_PER_TOKEN,
        Body::Other(fields) => json_length(fields),
    }
}
