//! Sign-in to an MCP server during a conversation.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::plain;
use pollux_mcp::oauth_server;
use pollux_net::oauth::{Granted, Login, LoginError};

use super::{Loaded, mcp};

/// The next step of a sign-in.
pub enum ServerLogin {
    /// Done without a browser.
    Done(String),
    /// The user has to approve in a browser.
    Asked(Box<BrowserLogin>),
}

pub struct BrowserLogin {
    login: Login,
}

/// Starts the sign-in to a configured server.
pub async fn begin_server_login(name: &str, loaded: &Loaded) -> Result<ServerLogin, Failure> {
    let all = mcp::named(loaded);
    let server = all.into_iter().find(|server| server.name.eq_ignore_ascii_case(name.trim()));
    let Some(server) = server else {
        return Err(Failure::new(ExitKind::Failure, format!("Server '{name}' not found")));
    };
    let Ok(config) = server.state else {
        return Err(Failure::new(ExitKind::Failure, format!("Server '{name}' is not used; see /mcp")));
    };
    let Some(target) = oauth_server(&config) else {
        let text = format!("MCP server '{name}' runs on this machine and does not use sign-in");
        return Err(Failure::new(ExitKind::Failure, text));
    };
    let sign_in = mcp::sign_in(loaded);
    if target.config.grant.is_unattended() {
        let token = sign_in.oauth.valid_token(&target).await;
        token.map_err(|error| Failure::from_error(ExitKind::Auth, &error))?;
        return Ok(ServerLogin::Done(format!("MCP server '{name}' issued a token; no sign-in is needed.")));
    }
    let login = sign_in.oauth.begin_login(&target, None).await.map_err(|error| failed(&error))?;
    Ok(ServerLogin::Asked(Box::new(BrowserLogin { login })))
}

impl BrowserLogin {
    /// The message with the URL and the requested scopes.
    pub fn invitation(&self, name: &str) -> String {
        let rights = match self.login.scopes() {
            [] => String::new(),
            scopes => format!("\nRequested scopes: {}", plain(&scopes.join(", "))),
        };
        format!(
            "To sign in to MCP server '{name}', open this URL in a browser:\n{}{rights}",
            self.login.url()
        )
    }

    /// Waits for a browser on this machine.
    pub async fn browser(&mut self) -> Result<Granted, Failure> {
        self.login.browser().await.map_err(|error| failed(&error))
    }

    /// Completes with the URL pasted from a browser on another machine.
    pub fn pasted(&self, text: &str) -> Result<Granted, Failure> {
        self.login.pasted(text).map_err(|error| failed(&error))
    }

    pub async fn finish(self: Box<Self>, granted: Granted) -> Result<(), Failure> {
        self.login.finish(granted).await.map_err(|error| failed(&error))
    }
}

fn failed(error: &LoginError) -> Failure {
    let failure = Failure::from_error(ExitKind::Auth, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
