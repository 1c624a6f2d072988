//! Output style from settings and command line, path display, and the start of telemetry.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use pollux_config::env::Env;
use pollux_config::groups::{Dialect, Output, OutputFormat};
use pollux_config::settings::Settings;
use pollux_domain::failure::Colour;
use pollux_domain::id::SessionId;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::time::SystemClock;
use pollux_host::models::list_price;
use pollux_host::request::{RawOutput, Request};
use pollux_host::{Loaded, Prepared, VERSION};
use pollux_output::telemetry::{Configuration, Identity};
use pollux_output::{Console, Style};
use serde_json::Value;

pub fn style(output: &Output, options: &Request, env: &Env) -> Style {
    Style {
        format: output.format,
        dialect: output.dialect,
        raw: options.raw_output != RawOutput::Stripped,
        colour: stderr_colour(env),
        clock: Arc::new(SystemClock),
        shows_calls: options.tour,
        debug: options.debug,
    }
}

/// The style from command line and environment alone, for failures before settings are read.
pub fn early_style(options: &Request, env: &Env) -> Style {
    let flag = |key: &str| {
        let found = options.overrides.iter().find(|(known, _)| known == key);
        found.and_then(|(_, value)| Value::as_str(value))
    };
    let format = OutputFormat::named(flag("output.format"));
    let named = flag("output.dialect").or(env.get("POLLUX_OUTPUT_DIALECT"));
    let dialect = Dialect::named(Some(named.unwrap_or(env.usual_dialect())));
    style(&Output { format, dialect }, options, env)
}

pub fn stderr_colour(env: &Env) -> Colour {
    Colour::for_stderr(io::stderr().is_terminal(), env.get("NO_COLOR"))
}

/// Opens telemetry, if it is enabled, with the identity and configuration of the session; otherwise, with `--debug`, the
/// session's log. Also opens the receipt. Returns a line about the log.
pub fn open_telemetry(turn: &Prepared<'_>, interactive: bool, console: &mut Console) -> Option<String> {
    let Prepared { request: options, loaded, session, credentials, permission, sandbox, .. } = turn;
    if let Some(file) = &options.receipt {
        console.open_receipt(loaded.env.cwd().join(file), list_price);
    }
    let groups = &loaded.groups;
    let identity = Identity {
        session: session.id.as_str().to_owned(),
        provider: if credentials.vertex { "vertex".to_owned() } else { credentials.provider.clone() },
        installation: loaded.installation.clone(),
        version: VERSION.to_owned(),
        interactive,
        auth_type: credentials.auth_type.clone(),
    };
    let configuration = Configuration {
        model: credentials.model.clone(),
        sandbox: sandbox.rights.is_some(),
        core_tools: groups.tools.core.clone().unwrap_or_default(),
        approval_mode: permission.approval.to_string(),
        api_key: credentials.api_key,
        vertex: credentials.vertex,
        respect_git_ignore: groups.context.filtering.respect_git_ignore,
        debug: options.debug,
        output_format: groups.output.format.as_str().to_owned(),
    };
    let (telemetry, secrets) = (&groups.telemetry, &credentials.secrets);
    console.open_telemetry(telemetry, &loaded.env, identity.clone(), secrets, &configuration);
    // An id from a session file may be any text, also a path.
    let is_name = SessionId::parse(session.id.as_str()).is_ok();
    if telemetry.enabled || !options.debug || !is_name {
        return None;
    }
    // Deleted with the session.
    let file = loaded.project.temp_dir().join("logs").join(format!("session-{}.jsonl", session.id));
    let line = format!("Debug log: {}", file.display());
    console.open_debug_log(file, telemetry.log_prompts, identity, secrets, &configuration).then_some(line)
}

/// How paths are displayed in this project.
pub fn path_display(loaded: &Loaded) -> PathDisplay {
    let root = loaded.project.root();
    let real = std::fs::canonicalize(root).ok().filter(|real| real != root);
    let workspace = std::iter::once(root.to_path_buf()).chain(real).collect();
    PathDisplay { workspace, home: Some(loaded.home.user_home().to_path_buf()) }
}

/// Whether a setting is true.
pub fn is_on(settings: &Settings, key: &str) -> bool {
    settings.get(key).is_some_and(|(value, _)| value.as_bool() == Some(true))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn env(vars: &[(&str, &str)]) -> Env {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Env::new(vars, PathBuf::from("/w"))
    }

    #[test]
    fn failures_before_the_settings_use_what_the_command_line_says() {
        let options =
            Request { overrides: vec![("output.format".to_owned(), json!("json"))], ..Request::default() };
        let style = early_style(&options, &env(&[("POLLUX_OUTPUT_DIALECT", "gemini-cli")]));
        assert_eq!((style.format, style.dialect), (OutputFormat::Json, Dialect::GeminiCli));
        let gemini = early_style(&options, &env(&[]).called_as_gemini());
        assert_eq!(gemini.dialect, Dialect::GeminiCli);
        let plain = early_style(&Request::default(), &env(&[]));
        assert_eq!((plain.format, plain.dialect), (OutputFormat::Text, Dialect::Pollux));
    }
}
