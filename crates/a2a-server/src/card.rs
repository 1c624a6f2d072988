//! The agent card: what the server is and where it is, for both versions.

use pollux_a2a::protocol::Version;
use pollux_serve::{Response, StatusCode, header};
use serde_json::{Value, json};

use crate::access::short_digest;
use crate::narrator::EXTENSION;

/// What a card depends on.
pub(crate) struct CardFacts<'a> {
    /// The address of the server, without a slash at the end.
    pub(crate) url: &'a str,
    /// Callers may show a token that the operator gave them.
    pub(crate) has_tokens: bool,
    /// Where the issuer of access tokens describes itself, if they are accepted.
    pub(crate) discovery_url: Option<&'a str>,
    pub(crate) has_push: bool,
}

/// The card. Names and skill are upstream's, which clients select by.
pub(crate) fn card(facts: &CardFacts<'_>) -> Value {
    let CardFacts { url, has_push, .. } = facts;
    let root = format!("{url}/");
    let interface = |url: &str, binding: &str, version: Version| json!({"url": url, "protocolBinding": binding, "protocolVersion": version.as_str()});
    // One of them is enough.
    let names = [("bearerAuth", facts.has_tokens), ("openIdConnect", facts.discovery_url.is_some())];
    let names: Vec<&str> = names.iter().filter(|(_, is_used)| *is_used).map(|(name, _)| *name).collect();
    let requirements: Vec<Value> = names.iter().map(|name| json!({*name: []})).collect();
    let new_requirements: Vec<Value> =
        names.iter().map(|name| json!({"schemes": {*name: {"list": []}}})).collect();
    json!({
        "name": "Gemini SDLC Agent",
        "description": "An agent that generates code based on natural language instructions and streams file outputs.",
        "url": root,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"url": root, "transport": "JSONRPC"},
            {"url": url, "transport": "HTTP+JSON"},
        ],
        "protocolVersion": "0.3.0",
        "supportedInterfaces": [
            interface(&root, "JSONRPC", Version::One),
            interface(url, "HTTP+JSON", Version::One),
            interface(&root, "JSONRPC", Version::Old),
            // Clients of 0.3 add `/v1` themselves.
            interface(url, "HTTP+JSON", Version::Old),
        ],
        "provider": {"organization": "Pollux", "url": "https://github.com/google-gemini/gemini-cli"},
        "version": pollux_host::VERSION,
        "capabilities": {
            "streaming": true,
            "pushNotifications": has_push,
            "stateTransitionHistory": true,
            "extendedAgentCard": true,
            "extensions": [{
                "uri": EXTENSION,
                "description": "Metadata of coding agents: kinds of updates, tool calls and approvals",
                "required": false,
            }],
        },
        "securitySchemes": schemes(facts),
        "security": requirements,
        "securityRequirements": new_requirements,
        "defaultInputModes": ["text"],
        "defaultOutputModes": ["text"],
        "skills": [{
            "id": "code_generation",
            "name": "Code Generation",
            "description": "Generates code snippets or complete files based on user requests, streaming the results.",
            "tags": ["code", "development", "programming"],
            "examples": [
                "Write a python function to calculate fibonacci numbers.",
                "Create an HTML file with a basic button that alerts \"Hello!\" when clicked.",
            ],
            "inputModes": ["text"],
            "outputModes": ["text"],
        }],
        "supportsAuthenticatedExtendedCard": true,
    })
}

/// How callers show who they are, in the words of both versions.
fn schemes(facts: &CardFacts<'_>) -> Value {
    let mut schemes = json!({
        "bearerAuth": {"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "bearer"}},
    });
    if let (Some(url), Some(fields)) = (facts.discovery_url, schemes.as_object_mut()) {
        let scheme = json!({
            "type": "openIdConnect",
            "openIdConnectUrl": url,
            "openIdConnectSecurityScheme": {"openIdConnectUrl": url},
        });
        fields.insert("openIdConnect".to_owned(), scheme);
    }
    schemes
}

/// The public card, which clients may keep for a while.
pub(crate) fn respond(card: &Value, known: Option<&str>) -> Response {
    let text = card.to_string();
    let tag = format!("\"{}\"", short_digest(&text));
    let response = match known {
        Some(known) if known == tag => Response::empty(StatusCode::NOT_MODIFIED),
        _ => Response::document(StatusCode::OK, "application/json", text),
    };
    response.header(header::ETAG, &tag).header(header::CACHE_CONTROL, "public, max-age=300")
}
