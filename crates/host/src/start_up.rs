//! Reads home, trust, `.env` files and settings in the safe order.

use pollux_config::env::Env;
use pollux_config::settings::{ArgOverrides, sandbox_value};
use pollux_config::startup::{self, Start, StartError, StartRequest};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::time::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::request::Request;

/// Home, trust, `.env` and settings, in the safe order.
pub fn start(options: &Request, env: &Env) -> Result<Start, Failure> {
    let request = StartRequest {
        env: env.clone(),
        root: env.cwd().to_path_buf(),
        skip_trust: options.skip_trust,
        ignore_project: options.ignores_project_settings,
        ignore_env: options.ignore_env,
        now: Some(SystemClock.now()),
        args: ArgOverrides(overrides(options)),
        ..StartRequest::default()
    };
    startup::start(request).map_err(|error| {
        let hint = match &error {
            StartError::Home(error) => error.hint(),
            StartError::Settings(_) => "fix the file and run the command again",
            StartError::Trust(_) => "fix or delete `trustedFolders.json`",
        };
        Failure::from_error(ExitKind::Config, &error).hint(hint)
    })
}

/// Flags that override settings.
fn overrides(options: &Request) -> Vec<(String, Value)> {
    let mut given = options.overrides.clone();
    if !options.allowed_tools.is_empty() {
        given.push(("tools.allowed".to_owned(), json!(options.allowed_tools)));
    }
    if !options.include_directories.is_empty() {
        given.push(("context.includeDirectories".to_owned(), json!(options.include_directories)));
    }
    if let Some(sandbox) = &options.sandbox {
        given.push(("tools.sandbox".to_owned(), sandbox_value(sandbox)));
    }
    given
}
