//! A model file for other programs: `pollux models serve`.

use pollux_config::env::Env;
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_net::client::{ClientOptions, client};

use super::{LocalServer, ServerOptions};
use crate::VERSION;
use crate::providers::own_env;
use crate::request::Request;
use crate::{cannot_start, load_settings};

/// Starts a server for a file, prints its address, and waits until it exits, which is a failure.
pub fn serve(
    request: &Request,
    env: &Env,
    model: &str,
    port: Option<u16>,
    told: &mut dyn FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let loaded = load_settings(request, env)?;
    let own = own_env(&loaded);
    let name = model.strip_prefix("gguf/").unwrap_or(model);
    let file = match name.strip_prefix("~/") {
        Some(rest) => loaded.home.user_home().join(rest),
        None => own.cwd().join(name),
    };
    let options = ServerOptions {
        model: file,
        command: loaded.groups.model.server_command.clone(),
        port,
        context: None,
        env: own,
        redaction: loaded.groups.tools.redaction.clone(),
        logs: loaded.home.tmp_dir().join("background-processes"),
    };
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::from_error(ExitKind::Failure, error);
    let http = client(&ClientOptions::new(format!("pollux/{VERSION}"))).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| cannot_start(&error))?.block_on(async {
        let server = LocalServer::start(&options).map_err(|error| failed(&error))?;
        told(&format!(
            "Loading {} with a context window of {} tokens…\n",
            options.model.display(),
            server.context
        ))?;
        server.ready(&http, |_| {}).await.map_err(|error| failed(&error))?;
        told(&format!(
            "Ready.\n\n  address  {}\n  API key  {}\n\nPress Ctrl+C to stop.\n",
            server.base_url(),
            server.key.reveal()
        ))?;
        let ending = server.wait().await;
        Err(Failure::new(ExitKind::Failure, format!("the server exited ({ending})")))
    })
}
