//! What the command prints.

use pollux_domain::terminal_text::plain;
use serde_json::{Value, json};

use super::{CredentialRow, Status};

pub(super) fn status(status: &Status, as_json: bool) -> String {
    if as_json {
        return format!("{:#}\n", status_json(status));
    }
    let mut text = match (&status.kind, &status.source) {
        (Some(kind), Some(source)) => format!("Signed in: {source} ({kind})\n"),
        (Some(kind), None) => format!("Signed in: {kind}, without a key\n"),
        (None, _) => "Not signed in\n".to_owned(),
    };
    if let Some(problem) = &status.problem {
        text.push_str(&format!("Reason:    {}\n", problem.lines().next().unwrap_or_default()));
    }
    if let Some(endpoint) = &status.endpoint {
        text.push_str(&format!("Endpoint:  {endpoint}\n"));
    }
    if let Some(account) = &status.google_account {
        text.push_str(&format!("Account:   {account} (gemini-cli's login with Google)\n"));
    }
    text.push_str(&format!("New keys:  {}\n", storage_text(status)));
    text.push_str("\nCredentials in order of precedence:\n");
    let width = status.places.iter().map(|place| place.name.chars().count()).max().unwrap_or(0);
    for place in &status.places {
        let mark = if place.in_effect { '>' } else { ' ' };
        text.push_str(&format!("{mark} {:width$}  {}\n", place.name, place.state));
    }
    plain(&text).into_owned()
}

fn storage_text(status: &Status) -> String {
    let storage = &status.storage;
    match (&storage.file, &storage.reason) {
        (Some(file), Some(reason)) => format!("the encrypted file {file}, because {reason}"),
        (Some(file), None) => format!("the encrypted file {file}"),
        (None, _) => "the keychain".to_owned(),
    }
}

fn status_json(status: &Status) -> Value {
    let places: Vec<Value> = status
        .places
        .iter()
        .map(|place| json!({"place": place.name, "state": place.state, "inEffect": place.in_effect}))
        .collect();
    json!({
        "signedIn": status.kind.is_some(),
        "type": status.kind,
        "source": status.source,
        "endpoint": status.endpoint,
        "problem": status.problem,
        "googleAccount": status.google_account,
        "storage": {
            "backend": status.storage.backend,
            "file": status.storage.file,
            "reason": status.storage.reason,
        },
        "places": places,
    })
}

/// What a list without the keychain lacks.
pub(super) fn not_listed(reason: &str) -> String {
    format!("Note: entries in the keychain are not listed; it could not be reached: {reason}")
}

pub(super) fn list(rows: &[CredentialRow], as_json: bool) -> String {
    if as_json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        return format!("{:#}\n", Value::Array(rows));
    }
    if rows.is_empty() {
        return "No stored credentials.\n".to_owned();
    }
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("{} `{}` in {}\n", row.kind, row.name, row.place));
        if let Some(url) = &row.server_url {
            text.push_str(&format!("  for      {url}\n"));
        }
        if let Some(moment) = &row.stored {
            text.push_str(&format!("  stored   {moment}\n"));
        }
        match (&row.expires, row.renewable) {
            (Some(moment), true) => text.push_str(&format!("  expires  {moment}, then renewed\n")),
            (Some(moment), false) => text.push_str(&format!("  expires  {moment}\n")),
            (None, _) => {}
        }
        if row.plain_text {
            text.push_str("  not encrypted (gemini-cli's file)\n");
        }
    }
    plain(&text).into_owned()
}

fn row_json(row: &CredentialRow) -> Value {
    json!({
        "name": row.name,
        "kind": row.kind,
        "place": row.place,
        "encrypted": !row.plain_text,
        "serverUrl": row.server_url,
        "expires": row.expires,
        "stored": row.stored,
        "renewable": row.renewable,
    })
}
