//! The agent card: what the server is and where it is, for both versions.

use std::collections::BTreeMap;

use pollux_a2a::protocol::Version;
use pollux_net::jws::SigningKey;
use pollux_serve::{Response, StatusCode, header};
use serde_json::{Value, json};

use crate::access::short_digest;
use crate::narrator::EXTENSION;

/// The fields of a card of 1.0.
const CARD_FIELDS: [&str; 11] = [
    "name",
    "description",
    "supportedInterfaces",
    "provider",
    "version",
    "capabilities",
    "securitySchemes",
    "securityRequirements",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

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

/// The card with a signature over it.
pub(crate) fn signed(mut card: Value, key: &SigningKey, keys_url: &str) -> Value {
    let signed = key.sign(signed_form(&card).as_bytes(), keys_url);
    if let (Ok(signed), Some(fields)) = (signed, card.as_object_mut()) {
        let signature = json!({"protected": signed.protected, "signature": signed.signature});
        fields.insert("signatures".to_owned(), json!([signature]));
    }
    card
}

/// What is signed: the fields of 1.0 without empty ones, in the canonical form of RFC 8785.
fn signed_form(card: &Value) -> String {
    let mut form = only(card, &CARD_FIELDS);
    let mut narrow = |place: &str, names: &[&str]| {
        if let Some(part) = form.pointer_mut(place) {
            *part = only(part, names);
        }
    };
    narrow("/capabilities", &["streaming", "pushNotifications", "extensions", "extendedAgentCard"]);
    let schemes = ["httpAuthSecurityScheme", "openIdConnectSecurityScheme"];
    narrow("/securitySchemes/bearerAuth", &schemes);
    narrow("/securitySchemes/openIdConnect", &schemes);
    let extensions = form.pointer_mut("/capabilities/extensions").and_then(Value::as_array_mut);
    for extension in extensions.into_iter().flatten().filter_map(Value::as_object_mut) {
        // A switch that is off is the same as none, except in the capabilities.
        extension.retain(|_, value| *value != Value::Bool(false));
    }
    canonical(&form).unwrap_or(Value::Null).to_string()
}

fn only(value: &Value, names: &[&str]) -> Value {
    let fields = value.as_object().into_iter().flatten();
    let kept = fields.filter(|(name, _)| names.contains(&name.as_str()));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The same with sorted names and without anything empty; `None` if nothing is left. The card has no numbers, whose
/// spelling would matter.
fn canonical(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<String, Value> =
                fields.iter().filter_map(|(name, value)| Some((name.clone(), canonical(value)?))).collect();
            (!sorted.is_empty()).then(|| Value::Object(sorted.into_iter().collect()))
        }
        Value::Array(values) => {
            let values: Vec<Value> = values.iter().filter_map(canonical).collect();
            (!values.is_empty()).then_some(Value::Array(values))
        }
        Value::String(text) if text.is_empty() => None,
        Value::Null => None,
        value => Some(value.clone()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(url: &str) -> Value {
        card(&CardFacts {
            url,
            has_tokens: true,
            discovery_url: Some("https://issuer.example/.well-known/openid-configuration"),
            has_push: false,
        })
    }

    #[test]
    fn schemes_and_requirements_say_what_is_asked() {
        let card = facts("https://agents.example");
        assert_eq!(card["security"], json!([{"bearerAuth": []}, {"openIdConnect": []}]));
        assert_eq!(card["securitySchemes"]["openIdConnect"]["type"], "openIdConnect");
        let open =
            self::card(&CardFacts { url: "u", has_tokens: false, discovery_url: None, has_push: true });
        assert_eq!((&open["security"], &open["securityRequirements"]), (&json!([]), &json!([])));
        assert_eq!(open["capabilities"]["pushNotifications"], true);
        assert_eq!(open["securitySchemes"].get("openIdConnect"), None);
    }

    #[test]
    fn the_signed_form_has_what_clients_of_the_newer_version_read() {
        let form = signed_form(&facts("https://agents.example"));
        assert!(
            form.starts_with(
                "{\"capabilities\":{\"extendedAgentCard\":true,\"extensions\":[{\"description\":"
            ),
            "{form}"
        );
        assert!(form.contains("\"pushNotifications\":false,\"streaming\":true}"), "{form}");
        for unknown in [
            "preferredTransport",
            "stateTransitionHistory",
            "required",
            "\"type\"",
            "\"security\"",
            "\"list\"",
        ] {
            assert!(!form.contains(unknown), "{unknown}: {form}");
        }
        let value: Value = serde_json::from_str(&form).unwrap();
        assert_eq!(canonical(&value).unwrap().to_string(), form);
    }
}
