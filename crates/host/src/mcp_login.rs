//! Signing in to an MCP server in the middle of a conversation.

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::plain;
use pollux_mcp::oauth_server;
use pollux_net::oauth::{Granted, Login, LoginError};

use super::{Loaded, mcp};

/// How a sign-in stands.
pub enum ServerLogin {
    /// Nobody has to do anything.
    Done(String),
    /// Somebody has to agree in a browser.
    Asked(Box<BrowserLogin>),
}

pub struct BrowserLogin {
    login: Login,
}

/// Begins to sign in to a server that settings name.
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
        let text =
            format!("MCP server '{name}' is a program on this machine: there is nothing to sign in to");
        return Err(Failure::new(ExitKind::Failure, text));
    };
    let sign_in = mcp::sign_in(loaded);
    if target.config.grant.is_unattended() {
        let token = sign_in.oauth.valid_token(&target).await;
        token.map_err(|error| Failure::from_error(ExitKind::Auth, &error))?;
        return Ok(ServerLogin::Done(format!("MCP server '{name}' gave a token; nobody has to sign in.")));
    }
    let login = sign_in.oauth.begin_login(&target, None).await.map_err(|error| failed(&error))?;
    Ok(ServerLogin::Asked(Box::new(BrowserLogin { login })))
}

impl BrowserLogin {
    /// Where one has to go, and what is asked for there.
    pub fn invitation(&self, name: &str) -> String {
        let rights = match self.login.scopes() {
            [] => String::new(),
            scopes => format!("\nIt asks for these rights: {}", plain(&scopes.join(", "))),
        };
        format!(
            "To sign in to MCP server '{name}', open this address in a browser:\n{}{rights}",
            self.login.url()
        )
    }

    /// Waits for a browser on this machine.
    pub async fn browser(&mut self) -> Result<Granted, Failure> {
        self.login.browser().await.map_err(|error| failed(&error))
    }

    /// What a browser on another machine ended at.
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
