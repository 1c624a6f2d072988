//! Finds the authorization server of an MCP server: RFC 9728, then RFC 8414, then the defaults of earlier protocol versions.

use pollux_domain::BoxFuture;
use reqwest::Url;
use serde_json::Value;

use super::endpoint::{EndpointError, Endpoints, shown};
use super::{OAuthConfig, OAuthServer};
use crate::credentials::OAuthCredentials;

/// Kept with a sign-in, so that a renewal names the same resource.
pub(super) const RESOURCE_FIELD: &str = "resource";

/// Why no authorization server was found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    #[error("the server's metadata is for `{found}`, not for `{expected}`")]
    OtherResource { found: String, expected: String },
    #[error("`{0}` does not advertise how to sign in")]
    NoMetadata(String),
    #[error("`{0}` does not support PKCE with S256, which a safe sign-in requires")]
    NoPkce(String),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

/// The authorization server, and the resource and scopes to request.
#[derive(Debug, Clone)]
pub(super) struct AuthServer {
    /// `None` where only programs are served.
    pub(super) authorization_url: Option<Url>,
    pub(super) token_url: Url,
    pub(super) registration_url: Option<Url>,
    pub(super) issuer: Option<String>,
    /// The answer has to name the issuer (RFC 9207).
    pub(super) names_issuer: bool,
    /// How a client may prove itself at the token endpoint.
    pub(super) auth_methods: Vec<String>,
    /// A client's name may be the address of its description.
    pub(super) reads_descriptions: bool,
    pub(super) scopes: Vec<String>,
    /// RFC 8707
    pub(super) resource: String,
}

/// The description of a protected server.
struct Resource {
    name: String,
    issuer: Option<String>,
    scopes: Vec<String>,
}

/// Finds out. `challenge` is the `WWW-Authenticate` of a refusal, if there was one.
pub(super) fn discover<'a>(
    endpoints: &'a Endpoints,
    server: &'a OAuthServer,
    challenge: Option<&'a str>,
) -> BoxFuture<'a, Result<AuthServer, DiscoveryError>> {
    Box::pin(async move {
        let config = &server.config;
        if let Some(token) = &config.token_url
            && (config.authorization_url.is_some() || config.grant.is_unattended())
        {
            return configured(endpoints, server, token).await;
        }
        let challenge = match challenge {
            Some(given) => Some(given.to_owned()),
            None => endpoints.challenge(&server.url).await,
        };
        let described = resource(endpoints, server, challenge.as_deref()).await?;
        let issuer = config.issuer.clone().or_else(|| described.as_ref()?.issuer.clone());
        let asked_scopes = challenge.as_deref().map(scopes_in).unwrap_or_default();
        let scopes = match (config.scopes.as_slice(), asked_scopes, &described) {
            ([], asked, _) if !asked.is_empty() => asked,
            ([], _, Some(described)) => described.scopes.clone(),
            (chosen, _, _) => chosen.to_vec(),
        };
        let name =
            described.as_ref().map_or_else(|| canonical(&server.url), |described| described.name.clone());
        let found = match &issuer {
            Some(issuer) => {
                let issuer = endpoints.check(issuer)?;
                let document = metadata(endpoints, &issuer).await?;
                let document = document.ok_or_else(|| DiscoveryError::NoMetadata(issuer.to_string()))?;
                read(endpoints, &document, &issuer)?
            }
            None => match metadata(endpoints, &server.url).await? {
                Some(document) => read(endpoints, &document, &server.url)?,
                None if described.is_some() => {
                    return Err(DiscoveryError::NoMetadata(canonical(&server.url)));
                }
                None => {
                    assumed(&server.url).ok_or_else(|| DiscoveryError::NoMetadata(canonical(&server.url)))?
                }
            },
        };
        Ok(overridden(endpoints, AuthServer { scopes, resource: name, ..found }, config)?)
    })
}

/// Everything is in the settings; only a place to register may be missing.
async fn configured(
    endpoints: &Endpoints,
    server: &OAuthServer,
    token: &str,
) -> Result<AuthServer, DiscoveryError> {
    let config = &server.config;
    let token_url = endpoints.check(token)?;
    let authorization_url = config.authorization_url.as_ref().map(|url| endpoints.check(url)).transpose()?;
    let mut found = AuthServer {
        token_url: token_url.clone(),
        registration_url: None,
        issuer: config.issuer.clone(),
        names_issuer: false,
        auth_methods: Vec::new(),
        reads_descriptions: false,
        scopes: config.scopes.clone(),
        resource: canonical(&server.url),
        authorization_url: authorization_url.clone(),
    };
    if config.client_id.is_none() && config.registration_url.is_none() {
        let issuer = match &config.issuer {
            Some(issuer) => endpoints.check(issuer)?,
            None => authorization_url.unwrap_or(token_url),
        };
        if let Some(document) = metadata(endpoints, &issuer).await? {
            let described = read(endpoints, &document, &issuer)?;
            found.registration_url = described.registration_url;
            found.auth_methods = described.auth_methods;
            found.reads_descriptions = described.reads_descriptions;
        }
    }
    Ok(overridden(endpoints, found, config)?)
}

/// Addresses in the settings stand above those of documents.
fn overridden(
    endpoints: &Endpoints,
    mut found: AuthServer,
    config: &OAuthConfig,
) -> Result<AuthServer, EndpointError> {
    if let Some(url) = &config.authorization_url {
        found.authorization_url = Some(endpoints.check(url)?);
    }
    if let Some(url) = &config.token_url {
        found.token_url = endpoints.check(url)?;
    }
    if let Some(url) = &config.registration_url {
        found.registration_url = Some(endpoints.check(url)?);
    }
    Ok(found)
}

/// The server's resource metadata, from the URL it names or from the well-known ones.
async fn resource(
    endpoints: &Endpoints,
    server: &OAuthServer,
    challenge: Option<&str>,
) -> Result<Option<Resource>, DiscoveryError> {
    let named = challenge.and_then(|text| parameter(text, "resource_metadata"));
    let named = named.and_then(|text| server.url.join(&text).ok());
    // Metadata on another origin could claim to describe any server.
    let named = named.filter(|url| url.origin() == server.url.origin());
    let path = server.url.path().trim_end_matches('/');
    let mut places: Vec<Url> = named.into_iter().collect();
    places.extend(at(&server.url, &format!("/.well-known/oauth-protected-resource{path}")));
    if !path.is_empty() {
        places.extend(at(&server.url, "/.well-known/oauth-protected-resource"));
    }
    for place in places {
        let Some(document) = first_word(endpoints.document(&place).await)? else { continue };
        let name = text(&document, "resource").unwrap_or_default();
        if !covers(&name, &server.url) {
            let expected = canonical(&server.url);
            return Err(DiscoveryError::OtherResource { found: shown(&name), expected });
        }
        let issuer = document.get("authorization_servers").and_then(Value::as_array);
        let issuer = issuer.and_then(|servers| servers.first()).and_then(Value::as_str);
        return Ok(Some(Resource {
            name,
            issuer: issuer.map(str::to_owned),
            scopes: texts(&document, "scopes_supported"),
        }));
    }
    Ok(None)
}

/// The document about an authorization server, from the first place that has one.
pub(super) async fn metadata(endpoints: &Endpoints, issuer: &Url) -> Result<Option<Value>, DiscoveryError> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = Vec::new();
    if !path.is_empty() {
        places.push(format!("/.well-known/oauth-authorization-server{path}"));
        places.push(format!("/.well-known/openid-configuration{path}"));
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    places.push("/.well-known/oauth-authorization-server".to_owned());
    places.push("/.well-known/openid-configuration".to_owned());
    for place in places.iter().filter_map(|place| at(issuer, place)) {
        let document = first_word(endpoints.document(&place).await)?;
        if let Some(document) = document.filter(|document| text(document, "token_endpoint").is_some()) {
            return Ok(Some(document));
        }
    }
    Ok(None)
}

/// A location that does not respond counts as missing; one that is refused is an error.
fn first_word(found: Result<Option<Value>, EndpointError>) -> Result<Option<Value>, EndpointError> {
    match found {
        Err(EndpointError::Unreachable { .. }) => Ok(None),
        other => other,
    }
}

pub(super) fn read(
    endpoints: &Endpoints,
    document: &Value,
    issuer: &Url,
) -> Result<AuthServer, DiscoveryError> {
    let nothing = || DiscoveryError::NoMetadata(issuer.to_string());
    let address = |name: &str| text(document, name).map(|text| endpoints.check(&text)).transpose();
    let methods = texts(document, "code_challenge_methods_supported");
    if !methods.is_empty() && !methods.iter().any(|method| method == "S256") {
        return Err(DiscoveryError::NoPkce(issuer.to_string()));
    }
    let says = |name: &str| document.get(name).and_then(Value::as_bool).unwrap_or(false);
    Ok(AuthServer {
        authorization_url: address("authorization_endpoint")?,
        token_url: address("token_endpoint")?.ok_or_else(nothing)?,
        registration_url: address("registration_endpoint")?,
        issuer: text(document, "issuer"),
        names_issuer: says("authorization_response_iss_parameter_supported"),
        auth_methods: texts(document, "token_endpoint_auth_methods_supported"),
        reads_descriptions: says("client_id_metadata_document_supported"),
        scopes: Vec::new(),
        resource: String::new(),
    })
}

/// The places of the protocol's first version, for servers that describe nothing.
fn assumed(server: &Url) -> Option<AuthServer> {
    Some(AuthServer {
        authorization_url: Some(at(server, "/authorize")?),
        token_url: at(server, "/token")?,
        registration_url: at(server, "/register"),
        issuer: None,
        names_issuer: false,
        auth_methods: Vec::new(),
        reads_descriptions: false,
        scopes: Vec::new(),
        resource: String::new(),
    })
}

/// Another path at the same origin.
fn at(url: &Url, path: &str) -> Option<Url> {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(path);
    url.has_host().then_some(url)
}

/// The name of a server as a resource: without query and fragment.
pub(super) fn canonical(url: &Url) -> String {
    at(url, url.path()).map_or_else(String::new, |url| url.to_string())
}

/// The resource that a stored sign-in was asked for.
pub(super) fn resource_of(found: &OAuthCredentials, server: &OAuthServer) -> String {
    let kept = found.other.get(RESOURCE_FIELD).and_then(Value::as_str);
    kept.map_or_else(|| canonical(&server.url), str::to_owned)
}

/// Whether a resource of this name includes the server: same origin, and a path at or above it.
fn covers(name: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(name) else { return false };
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    resource.origin() == server.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The rights that a challenge asks for.
pub(super) fn scopes_in(challenge: &str) -> Vec<String> {
    let scopes = parameter(challenge, "scope").unwrap_or_default();
    scopes.split_whitespace().map(str::to_owned).collect()
}

/// A parameter of a `WWW-Authenticate` header.
pub(super) fn parameter(header: &str, name: &str) -> Option<String> {
    let mut rest = header;
    loop {
        let (before, after) = rest.split_once('=')?;
        let word = before.rsplit([' ', ',', '\t']).next().unwrap_or(before).trim();
        let (value, remaining) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once([',', ' ']).unwrap_or((after, "")),
        };
        if word.eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
        rest = remaining;
    }
}

fn text(document: &Value, name: &str) -> Option<String> {
    document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(document: &Value, name: &str) -> Vec<String> {
    let items = document.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenges_parameters_are_found_whatever_their_order() {
        let header = r#"Bearer realm="a=b, c", error="invalid_token", resource_metadata="https://x/.well-known?y=1", scope=read"#;
        assert_eq!(parameter(header, "resource_metadata").as_deref(), Some("https://x/.well-known?y=1"));
        assert_eq!(parameter(header, "SCOPE").as_deref(), Some("read"));
        assert_eq!(parameter(header, "c"), None);
        for hostile in ["", "=", "Bearer", "a=\"", "resource_metadata=", "resource_metadata=\"\""] {
            assert_eq!(parameter(hostile, "resource_metadata"), None, "{hostile}");
        }
    }

    #[test]
    fn a_description_counts_for_its_own_origin_and_below_its_path() {
        let server = Url::parse("https://h.example/a/mcp?x=1").unwrap();
        let right =
            ["https://h.example/a/mcp", "https://h.example", "https://h.example/", "https://h.example/a/"];
        assert!(right.iter().all(|name| covers(name, &server)));
        let wrong = [
            "https://evil.example/a/mcp",
            "http://h.example/a/mcp",
            "https://h.example/a/m",
            "",
            "h.example",
        ];
        assert!(wrong.iter().all(|name| !covers(name, &server)));
        assert_eq!(canonical(&server), "https://h.example/a/mcp");
    }
}
