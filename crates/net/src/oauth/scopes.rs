//! Scopes: those granted, those a server requires, and how to obtain the difference.

use pollux_domain::JsonObject;
use pollux_domain::sync::Locked as _;
use serde_json::Value;

use super::{OAuth, OAuthServer, TokenError, discovery, key};
use crate::credentials::{MCP_SERVICE, OAuthCredentials};

/// Stored with a sign-in whose server requires more scopes, for the next sign-in.
const WANTED_FIELD: &str = "wantedScope";

/// The result of a request for more scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WiderScopes {
    /// A token with the required scopes is available.
    Granted,
    /// The user has to sign in again; [`OAuth::begin_login`] with the same challenge requests the scopes.
    Person,
    /// It was tried, or it is not to be tried: asking again would change nothing.
    Refused,
}

impl OAuth {
    /// Handles a 403 response for insufficient scopes; `challenge` names the required ones.
    /// The same wish is followed once.
    pub async fn widen(&self, server: &OAuthServer, challenge: &str) -> Result<WiderScopes, TokenError> {
        let wanted = discovery::scopes_in(challenge);
        let unattended = server.config.grant.is_unattended();
        let held = match self.known(server) {
            Some(known) => Some(known),
            None if unattended => None,
            None => self.stored(server).await?,
        };
        let has = |scope: &String| {
            let held = held.as_ref().and_then(|held| held.token.scope.as_deref()).unwrap_or_default();
            held.split_whitespace().any(|known| known == scope)
        };
        let already = !wanted.is_empty() && wanted.iter().all(has);
        // Without user interaction no one reviews the scopes, so the configured ones are the limit.
        let limits = &server.config.scopes;
        let beyond = unattended && !limits.is_empty() && wanted.iter().any(|scope| !limits.contains(scope));
        if already || beyond || !self.first_time(server, &wanted) {
            return Ok(WiderScopes::Refused);
        }
        if unattended {
            self.acquire(server, Some(challenge)).await?;
            return Ok(WiderScopes::Granted);
        }
        if let Some(held) = held {
            self.note(server, held, wanted).await?;
        }
        Ok(WiderScopes::Person)
    }

    /// The rights that a server has wanted beyond those of its present sign-in.
    pub(super) async fn wanted_scopes(&self, server: &OAuthServer) -> Vec<String> {
        let Ok(Some(found)) = self.stored(server).await else { return Vec::new() };
        wanted(&found.other)
    }

    /// Stores the requested scopes for the next sign-in, possibly from another program.
    async fn note(
        &self,
        server: &OAuthServer,
        mut held: OAuthCredentials,
        new: Vec<String>,
    ) -> Result<(), TokenError> {
        let present = held.token.scope.as_deref().unwrap_or_default();
        let mut all: Vec<String> = present.split_whitespace().map(str::to_owned).collect();
        add(&mut all, wanted(&held.other));
        add(&mut all, new);
        let Some(text) = joined(&all) else { return Ok(()) };
        held.other.insert(WANTED_FIELD.to_owned(), text.into());
        self.remember(server, Some(held.clone()));
        self.with_store(server, move |store| store.set_credentials(MCP_SERVICE, &held).map(drop)).await
    }

    fn first_time(&self, server: &OAuthServer, wanted: &[String]) -> bool {
        let mut wanted = wanted.to_vec();
        wanted.sort();
        let wish = format!("{}\n{}", key(server), wanted.join(" "));
        self.widened.locked().insert(wish)
    }
}

fn wanted(other: &JsonObject) -> Vec<String> {
    let text = other.get(WANTED_FIELD).and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Adds rights that are not there yet.
pub(super) fn add(scopes: &mut Vec<String>, more: Vec<String>) {
    for scope in more {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
}

pub(super) fn joined(scopes: &[String]) -> Option<String> {
    (!scopes.is_empty()).then(|| scopes.join(" "))
}
