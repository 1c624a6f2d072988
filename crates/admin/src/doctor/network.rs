//! Proxies, certificates, and whether the model's server can be reached.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pollux_config::files;
use pollux_host::providers::set::{ProviderRow, ProviderState, provider_set};
use pollux_net::address::host_and_port;
use pollux_net::client::{ClientOptions, Proxies, client};

use super::Patient;
use super::finding::{Finding, or_ok};

pub(super) fn network(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"] {
        findings.extend(patient.env.non_empty(name).and_then(|path| certificates(name, path)));
    }
    if let Err(error) = client(&ClientOptions::from_env(&patient.env, "pollux")) {
        findings.push(Finding::problem(error.to_string()).hint("correct the variable, or unset it"));
        return findings;
    }
    let proxy = Proxies::from_env(&patient.env).https;
    if patient.extent.offline {
        return or_ok(findings, "not checked (--offline)");
    }
    let places = match &proxy {
        Some(url) => vec![("the proxy".to_owned(), url.clone(), true)],
        None => servers(patient),
    };
    let asked: Vec<_> = places
        .into_iter()
        .map(|(name, url, is_needed)| (name, is_needed, reach(&url, patient.answer), url))
        .collect();
    let (mut reached, started) = (Vec::new(), Instant::now());
    for (name, is_needed, answer, url) in asked {
        let shown = origin(&url);
        let left = patient.answer.saturating_sub(started.elapsed());
        match answer.recv_timeout(left).unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(()) => reached.push(shown),
            Err(reason) => {
                let text = format!("{name} at {shown} cannot be reached: {reason}");
                let finding = if is_needed { Finding::problem(text) } else { Finding::warning(text) };
                findings.push(
                    finding.hint("check the address and your connection; behind a proxy, set HTTPS_PROXY"),
                );
            }
        }
    }
    let text = if reached.is_empty() {
        "no server to check".to_owned()
    } else {
        format!("reached {}", reached.join(", "))
    };
    or_ok(findings, text)
}

/// A file that should hold certificates.
fn certificates(variable: &str, path: &str) -> Option<Finding> {
    let reason = match files::read_text(Path::new(path)) {
        Ok(Some(text)) if text.contains("-----BEGIN CERTIFICATE-----") => return None,
        Ok(Some(_)) => "it contains no certificate".to_owned(),
        Ok(None) => "it does not exist".to_owned(),
        Err(error) => error.to_string(),
    };
    let hint = format!("set {variable} to a PEM file, or unset it");
    Some(Finding::problem(format!("{variable} names `{path}`: {reason}")).hint(hint))
}

/// The servers of providers that are set up: their name, address, and whether it is the user's own.
fn servers(patient: &Patient) -> Vec<(String, String, bool)> {
    let Ok(set) = provider_set(&patient.request, &patient.env) else { return Vec::new() };
    let is_set_up = |row: &ProviderRow| row.state == ProviderState::Ok;
    let rows = set.rows().into_iter().filter(is_set_up);
    rows.filter_map(|row| Some((row.id, row.origin?, row.local))).collect()
}

/// Connects on a thread of its own, because looking up a name cannot be interrupted.
fn reach(url: &str, most: Duration) -> mpsc::Receiver<Result<(), String>> {
    let (sender, answer) = mpsc::channel();
    let place = host_and_port(url);
    let spawned = thread::Builder::new().name("reach".to_owned()).spawn(move || {
        let _ = sender.send(connect(place, most));
    });
    drop(spawned);
    answer
}

fn connect(place: Option<(String, u16)>, most: Duration) -> Result<(), String> {
    let (host, port) = place.ok_or("invalid address")?;
    let found = (host.as_str(), port).to_socket_addrs().map_err(|_| "unknown host".to_owned())?;
    let mut last = "unknown host".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, most) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.kind().to_string(),
        }
    }
    Err(last)
}

/// Without the user name and password of a proxy.
fn origin(url: &str) -> String {
    match host_and_port(url) {
        Some((host, port)) => format!("{host}:{port}"),
        None => "an invalid address".to_owned(),
    }
}
