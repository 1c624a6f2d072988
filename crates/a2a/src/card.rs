//! Parses an agent card: the description of an agent, its URL and its transport.

use pollux_domain::json::parse_wire;
use pollux_domain::terminal_text::{one_line, plain};
use reqwest::Url;
use serde::Deserialize;

use crate::protocol::Version;

/// The byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Length limits of an agent's description, and of its skills.
const DESCRIPTION: usize = 2_000;
const SKILL: usize = 300;
const MAX_SKILLS: usize = 30;

/// Where the card of a server is.
const WELL_KNOWN: &str = "/.well-known/agent-card.json";

/// A card, as far as it is used.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    /// For the model: description and skills.
    pub(crate) about: String,
    pub(crate) streaming: bool,
    pub(crate) endpoint: Endpoint,
}

/// Where and how an agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) transport: Transport,
    pub(crate) version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    JsonRpc,
    Rest,
}

/// Why a card is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CardError {
    #[error("not valid JSON ({0})")]
    Json(serde_json::Error),
    #[error("missing the URL to call")]
    NoEndpoint,
    #[error("invalid URL `{0}`")]
    Address(String),
    #[error("unsupported transport {0} (supported: JSON-RPC and HTTP+JSON)")]
    NoTransport(String),
    #[error(
        "it points from {card} to {called}, without TLS; if this is intended, put the card into the agent's \
         definition (`agent_card_json`)"
    )]
    Elsewhere { card: String, called: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CardJson {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default)]
    preferred_transport: Option<String>,
    #[serde(default)]
    additional_interfaces: Option<Vec<Interface>>,
    /// As 1.0 calls them.
    #[serde(default)]
    supported_interfaces: Option<Vec<Interface>>,
    #[serde(default)]
    capabilities: Option<Capabilities>,
    #[serde(default)]
    skills: Option<Vec<Skill>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Interface {
    url: String,
    #[serde(default, alias = "protocolBinding")]
    transport: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
}

#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    streaming: Option<bool>,
}

#[derive(Deserialize)]
struct Skill {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

/// The address to fetch a card from: the one that was named, or the usual endpoint of a server that was.
pub(crate) fn address(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    if matches!(url.path(), "" | "/") && url.query().is_none() {
        url.set_path(WELL_KNOWN);
    }
    Some(url)
}

impl Card {
    /// Parses a card; `from` is its URL, if it was fetched.
    pub(crate) fn read(json: &[u8], from: Option<&Url>) -> Result<Self, CardError> {
        let written: CardJson =
            parse_wire(json.strip_prefix(BOM).unwrap_or(json)).map_err(CardError::Json)?;
        let endpoint = endpoint(&written, from)?;
        Ok(Self {
            about: about(&written),
            streaming: written.capabilities.is_some_and(|capabilities| capabilities.streaming == Some(true)),
            endpoint,
        })
    }
}

/// The first endpoint, in the card's order, that can be called.
fn endpoint(written: &CardJson, from: Option<&Url>) -> Result<Endpoint, CardError> {
    let main = written.url.as_deref().filter(|url| !url.is_empty()).map(|url| {
        (
            url,
            written.preferred_transport.as_deref().unwrap_or("JSONRPC"),
            written.protocol_version.as_deref(),
        )
    });
    let more = written.additional_interfaces.iter().chain(&written.supported_interfaces).flatten().map(
        |interface| {
            let version = interface.protocol_version.as_deref().or(written.protocol_version.as_deref());
            (interface.url.as_str(), interface.transport.as_deref().unwrap_or_default(), version)
        },
    );
    let mut offered = Vec::new();
    for (url, transport, version) in main.into_iter().chain(more) {
        let known = match transport.to_ascii_uppercase().as_str() {
            "JSONRPC" => Transport::JsonRpc,
            "HTTP+JSON" => Transport::Rest,
            other => {
                offered.push(one_line(other));
                continue;
            }
        };
        let version = if version.is_some_and(|version| version.starts_with("1.")) {
            Version::One
        } else {
            Version::Old
        };
        return Ok(Endpoint { url: called(url, from)?, transport: known, version });
    }
    match offered.is_empty() {
        true => Err(CardError::NoEndpoint),
        false => Err(CardError::NoTransport(offered.join(", "))),
    }
}

fn called(url: &str, from: Option<&Url>) -> Result<Url, CardError> {
    let bad = || CardError::Address(one_line(url).chars().take(200).collect());
    let parsed = match from {
        Some(from) => from.join(url),
        None => Url::parse(url),
    };
    let parsed = parsed
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
        .ok_or_else(bad)?;
    match from {
        // A card could make us call services that only this machine can reach.
        Some(from) if from.host() != parsed.host() && parsed.scheme() != "https" => {
            Err(CardError::Elsewhere {
                card: from.origin().ascii_serialization(),
                called: parsed.origin().ascii_serialization(),
            })
        }
        _ => Ok(parsed),
    }
}

/// Upstream's form.
fn about(written: &CardJson) -> String {
    let cut = |text: &str, most: usize| plain(text.trim()).chars().take(most).collect::<String>();
    let mut lines = Vec::new();
    if let Some(description) = written.description.as_deref().filter(|text| !text.trim().is_empty()) {
        lines.push(format!("Agent Description: {}", cut(description, DESCRIPTION)));
    }
    let skills = written.skills.as_deref().unwrap_or_default();
    if !skills.is_empty() {
        lines.push("Skills:".to_owned());
    }
    for skill in skills.iter().take(MAX_SKILLS) {
        let name = cut(&one_line(skill.name.as_deref().unwrap_or_default()), SKILL);
        let text = skill.description.as_deref().filter(|text| !text.trim().is_empty());
        lines.push(format!("{name}: {}", cut(&one_line(text.unwrap_or("No description provided")), SKILL)));
    }
    if skills.len() > MAX_SKILLS {
        lines.push(format!("({} more)", skills.len() - MAX_SKILLS));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(card: &Value) -> Result<Card, String> {
        let from = Url::parse("https://a.example/cards/one.json").unwrap();
        Card::read(card.to_string().as_bytes(), Some(&from)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_cards_order_selects_the_transport() {
        let grpc_first = json!({"url": "https://a.example/grpc", "preferredTransport": "GRPC", "additionalInterfaces":
            [{"url": "/rest", "transport": "HTTP+JSON"}, {"url": "https://a.example/rpc", "transport": "JSONRPC"}]});
        let endpoint = read(&grpc_first).unwrap().endpoint;
        assert_eq!((endpoint.url.as_str(), endpoint.transport), ("https://a.example/rest", Transport::Rest));
        let plain = read(&json!({"url": "https://a.example/"})).unwrap();
        assert_eq!(
            (plain.endpoint.transport, plain.endpoint.version, plain.streaming),
            (Transport::JsonRpc, Version::Old, false)
        );
        let newer = json!({"supportedInterfaces":
            [{"url": "https://a.example/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": true}});
        let newer = read(&newer).unwrap();
        assert_eq!((newer.endpoint.version, newer.streaming), (Version::One, true));
    }

    #[test]
    fn an_unusable_card_reports_why() {
        for (card, why) in [
            (json!({"name": "x"}), "missing the URL"),
            (json!({"url": "https://a.example", "preferredTransport": "GRPC"}), "unsupported transport GRPC"),
            (json!({"url": "file:///etc/passwd"}), "invalid URL"),
            (json!({"url": "http://169.254.169.254/latest"}), "without TLS"),
            (json!([1]), "not valid JSON"),
        ] {
            let error = read(&card).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_agents_description_is_shortened_and_sanitised() {
        let skills: Vec<Value> =
            (0..40).map(|n| json!({"name": format!("s{n}\nx"), "description": "d".repeat(999)})).collect();
        let card = json!({"url": "https://a.example", "description": "does\u{1b}[31m it", "skills": skills});
        let about = read(&card).unwrap().about;
        assert!(about.starts_with("Agent Description: does it\nSkills:\ns0 x: d"), "{about}");
        assert!(about.ends_with("(10 more)") && about.len() < 12_000);
        assert_eq!(address("https://a.example").unwrap().path(), WELL_KNOWN);
        assert_eq!(address("https://a.example/c.json").unwrap().path(), "/c.json");
        assert!(address("ftp://a.example/").is_none());
    }
}
