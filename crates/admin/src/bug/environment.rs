//! Program, machine and settings, as far as a stranger may know them.

use std::time::Duration;

use pollux_capsule::{Concealment, Contents};
use pollux_config::settings::schema::{self, Kind};
use pollux_config::settings::{Layer, SettingRow};
use pollux_domain::failure::Failure;
use pollux_domain::redact::MASK;
use pollux_host::{COMMIT, Loaded, VERSION, mcp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::doctor;
use crate::hooks::hook_set;

/// Variables that change what the program does, by the beginnings of their names.
const VARIABLES: &[&str] = &[
    "GEMINI_",
    "POLLUX_",
    "GOOGLE_",
    "ANTHROPIC_",
    "OPENAI_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NO_COLOR",
    "COLORTERM",
    "TERM",
    "LANG",
    "LC_",
    "TMUX",
    "STY",
    "SSH_CONNECTION",
    "SANDBOX",
    "CI",
    "DEBUG",
    "EDITOR",
    "VISUAL",
    "SHELL",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "XDG_",
];

/// Settings whose texts are names.
const NAMES: &[&str] = &["model.name", "model.provider", "model.small", "model.fallback"];

/// How long all checks may take.
const CHECKS: Duration = Duration::from_secs(5);

/// The section `environment` of a capsule.
pub(super) fn value(
    loaded: &Result<Loaded, Failure>,
    context: &Context<'_>,
    contents: Contents,
    concealment: &Concealment,
) -> Value {
    let env = context.env;
    let named = |name: &str| env.non_empty(name).map(|value| concealment.name(value));
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| named(name));
    let variables: Vec<String> = env
        .iter()
        .map(|(name, _)| name)
        .filter(|name| VARIABLES.iter().any(|known| name.starts_with(known)))
        .map(|name| concealment.name(name))
        .collect();
    let settings = match loaded {
        Ok(loaded) => loaded.settings.rows().iter().filter_map(|row| setting(row, concealment)).collect(),
        Err(failure) => json!({"error": concealment.text(&failure.message())}),
    };
    json!({
        "program": {
            "version": VERSION,
            "commit": COMMIT,
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
        },
        "terminal": {"term": named("TERM"), "colors": named("COLORTERM"), "program": named("TERM_PROGRAM"), "locale": locale},
        "variables": variables,
        "settings": settings,
        "mcp_servers": loaded.as_ref().map(|loaded| servers(loaded, concealment)).unwrap_or_default(),
        "hooks": hooks(context, concealment),
        "doctor": findings(context, contents, concealment),
    })
}

/// A setting that is not a default. Of one that is not known, only its name.
fn setting(row: &SettingRow, concealment: &Concealment) -> Option<Value> {
    if row.origin.layer == Layer::Default {
        return None;
    }
    let key = concealment.name(&row.key);
    let layer = row.origin.layer.to_string();
    Some(match schema::find(&row.key) {
        None => json!({"key": key, "layer": layer, "known": false}),
        Some(_) if row.secret => json!({"key": key, "layer": layer, "value": MASK}),
        Some(known) => json!({"key": key, "layer": layer, "value": shown(known, &row.value, concealment)}),
    })
}

fn shown(key: &schema::Key, value: &Value, concealment: &Concealment) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => match key.kind {
            Kind::Choice(words) if words.contains(&text.as_str()) => value.clone(),
            _ if NAMES.contains(&key.path) => Value::String(concealment.name(text)),
            _ => Value::String(concealment.text(text)),
        },
        Value::Array(items) => items.iter().map(|item| shown(key, item, concealment)).collect(),
        // Commands, addresses and keys of servers, hooks and providers stay out.
        Value::Object(fields) => {
            json!({"names": fields.keys().map(|name| concealment.name(name)).collect::<Vec<_>>()})
        }
    }
}

fn servers(loaded: &Loaded, concealment: &Concealment) -> Vec<Value> {
    let transport = |entry: &Value| {
        let transports = [("httpUrl", "http"), ("url", "url"), ("command", "stdio"), ("tcp", "tcp")];
        transports.iter().find(|(key, _)| entry.get(key).is_some()).map_or("unknown", |(_, word)| word)
    };
    let servers = mcp::named(loaded).into_iter().filter(|server| !server.is_overlay());
    servers
        .map(|server| {
            json!({
                "name": concealment.name(&server.name),
                "transport": transport(&server.written),
                "used": server.state.is_ok(),
                "extension": server.from.is_some(),
            })
        })
        .collect()
}

fn hooks(context: &Context<'_>, concealment: &Concealment) -> Vec<Value> {
    let Ok(set) = hook_set(context.request, context.env) else { return Vec::new() };
    let rows = set.rows().into_iter();
    rows.map(|row| {
        json!({
            "event": row.event,
            "name": row.name.as_deref().map(|name| concealment.name(name)),
            "source": row.source.split(' ').next(),
            "enabled": row.enabled,
        })
    })
    .collect()
}

/// What the doctor finds without connecting to anything. Its texts name paths and commands, so they are contents.
fn findings(context: &Context<'_>, contents: Contents, concealment: &Concealment) -> Vec<Value> {
    let findings = doctor::look(context, CHECKS).into_iter();
    findings
        .map(|finding| {
            let mut told = json!({"area": finding.area, "level": finding.level.word()});
            if contents == Contents::Redacted {
                told["what"] = json!(concealment.text(&finding.what));
                told["hint"] = json!(finding.hint.as_deref().map(|hint| concealment.text(hint)));
            }
            told
        })
        .collect()
}
