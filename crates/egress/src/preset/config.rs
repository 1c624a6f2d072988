//! Where each tool keeps the addresses it downloads from.

use std::path::{Path, PathBuf};
use std::thread;

use pollux_config::env::Env;
use toml::{Table, Value};

use super::{Found, Machine};

/// Collects addresses of one tool.
struct Collector<'a> {
    tool: &'static str,
    env: &'a Env,
    found: Vec<Found>,
}

impl<'a> Collector<'a> {
    fn new(tool: &'static str, env: &'a Env) -> Self {
        Self { tool, env, found: Vec::new() }
    }

    fn add(&mut self, url: &str, source: impl Into<String>) {
        let url = expanded(url.trim().trim_matches(['"', '\'']), self.env);
        self.found.push(Found { tool: self.tool, url, source: source.into() });
    }

    /// Adds all addresses of a variable that is a list. Entries may have names, as in `corp=https://…`.
    fn add_variable(&mut self, name: &str) {
        let Some(value) = self.env.non_empty(name) else { return };
        for word in value.split([' ', ',', '|']).filter(|word| !word.is_empty()) {
            let url = word.split_once('=').filter(|(key, _)| !key.contains(':')).map_or(word, |(_, url)| url);
            self.add(url, name);
        }
    }
}

/// npm and pnpm: `registry` and the registries of scopes.
pub(super) fn npm(env: &Env, home: &Path, machine: &dyn Machine) -> Vec<Found> {
    let mut npm = Collector::new("npm", env);
    for name in ["npm_config_registry", "NPM_CONFIG_REGISTRY"] {
        npm.add_variable(name);
    }
    let mut has_default = !npm.found.is_empty();
    let user = env.non_empty("npm_config_userconfig").or_else(|| env.non_empty("NPM_CONFIG_USERCONFIG"));
    let files = [user.map_or_else(|| home.join(".npmrc"), PathBuf::from), PathBuf::from("/etc/npmrc")];
    let global = ["npm_config_globalconfig", "NPM_CONFIG_GLOBALCONFIG"].map(|name| env.non_empty(name));
    let global = global.into_iter().flatten().map(PathBuf::from);
    // It would read them, too.
    let is_open = files.iter().cloned().chain(global).any(|file| machine.is_open(&file));
    for file in files {
        for (key, value) in settings(&machine.read(&file).unwrap_or_default()) {
            let is_default = key == "registry";
            if is_default || (key.starts_with('@') && key.ends_with(":registry")) {
                npm.add(&value, file.display().to_string());
                has_default |= is_default;
            }
        }
    }
    if !has_default
        && !is_open
        && let Some(answer) = machine.ask("npm", &["config", "get", "registry"])
    {
        npm.add(&answer, "npm config get registry");
    }
    npm.found
}

/// pip and uv: the index, further indexes and places for files.
pub(super) fn python(env: &Env, home: &Path, machine: &dyn Machine) -> Vec<Found> {
    let mut python = Collector::new("pip", env);
    for name in ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"] {
        python.add_variable(name);
    }
    let mut has_default = !python.found.is_empty();
    for name in ["PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"] {
        python.add_variable(name);
    }
    let config = env.non_empty("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let mut files = vec![
        PathBuf::from("/etc/pip.conf"),
        PathBuf::from("/etc/xdg/pip/pip.conf"),
        config.join("pip/pip.conf"),
        home.join(".pip/pip.conf"),
        home.join("Library/Application Support/pip/pip.conf"),
    ];
    files.extend(env.non_empty("PIP_CONFIG_FILE").map(PathBuf::from));
    // It would read them, too, and run the program that they name.
    let mut is_open = files.iter().any(|file| machine.is_open(file));
    for file in files {
        for (key, value) in settings(&machine.read(&file).unwrap_or_default()) {
            let key = key.replace('_', "-");
            is_open |= key == "python";
            if matches!(key.as_str(), "index-url" | "extra-index-url" | "find-links") {
                value.split_whitespace().for_each(|url| python.add(url, file.display().to_string()));
                has_default |= key == "index-url";
            }
        }
    }
    for file in [config.join("uv/uv.toml"), PathBuf::from("/etc/uv/uv.toml")] {
        let Some(table) = machine.read(&file).and_then(|text| text.parse::<Table>().ok()) else { continue };
        for url in uv_indexes(&table, &mut has_default) {
            python.add(&url, file.display().to_string());
        }
    }
    if !has_default && !is_open {
        let ask = |program| machine.ask(program, &["install", "--help"]).as_deref().and_then(default_url);
        let (pip, pip3) = thread::scope(|scope| {
            let pip3 = scope.spawn(|| ask("pip3"));
            (ask("pip"), pip3.join().unwrap_or_default())
        });
        if let Some((program, url)) = pip.map(|url| ("pip", url)).or(pip3.map(|url| ("pip3", url))) {
            python.add(&url, format!("{program} install --help"));
        }
    }
    python.found
}

/// The indexes of `uv.toml`.
fn uv_indexes(table: &Table, has_default: &mut bool) -> Vec<String> {
    let mut urls = Vec::new();
    let sections = [Some(table), table.get("pip").and_then(Value::as_table)];
    for section in sections.into_iter().flatten() {
        if let Some(url) = section.get("index-url").and_then(Value::as_str) {
            urls.push(url.to_owned());
            *has_default = true;
        }
        let extra = section.get("extra-index-url").and_then(Value::as_array);
        urls.extend(extra.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        for index in section.get("index").and_then(Value::as_array).into_iter().flatten() {
            urls.extend(index.get("url").and_then(Value::as_str).map(str::to_owned));
            *has_default |= index.get("default").and_then(Value::as_bool) == Some(true);
        }
    }
    urls
}

/// The address after the word "default" in a help text, whose lines are wrapped.
fn default_url(help: &str) -> Option<String> {
    let joined = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let url = |part: &str| {
        let (_, rest) = part.split_once("default")?;
        let start = rest.find("https://").filter(|start| *start <= 4)?;
        rest.get(start..)?.split([' ', ')', ']', '>']).next().map(str::to_owned)
    };
    joined.split("--index-url").skip(1).find_map(url)
}

/// cargo: sources and registries of the user's configuration.
pub(super) fn cargo(env: &Env, home: &Path, machine: &dyn Machine) -> Vec<Found> {
    let mut cargo = Collector::new("cargo", env);
    let folder = env.non_empty("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    for file in [folder.join("config.toml"), folder.join("config")] {
        let Some(table) = machine.read(&file).and_then(|text| text.parse::<Table>().ok()) else { continue };
        for (section, key) in [("source", "registry"), ("registries", "index")] {
            let entries = table.get(section).and_then(Value::as_table);
            for entry in entries.into_iter().flatten().map(|(_, entry)| entry) {
                if let Some(url) = entry.get(key).and_then(Value::as_str) {
                    cargo.add(url.strip_prefix("sparse+").unwrap_or(url), file.display().to_string());
                }
            }
        }
    }
    for (name, value) in env.iter() {
        let is_index = name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX");
        if is_index {
            cargo.add(value.strip_prefix("sparse+").unwrap_or(value), name);
        }
    }
    cargo.found
}

/// go: module proxies and the checksum database, as go itself sees them.
pub(super) fn go(env: &Env, home: &Path, machine: &dyn Machine) -> Vec<Found> {
    let mut go = Collector::new("go", env);
    let config = env.non_empty("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
    let own = home.join("Library/Application Support/go/env");
    let files = [env.non_empty("GOENV").map_or_else(|| config.join("go/env"), PathBuf::from), own];
    if files.iter().any(|file| machine.is_open(file)) {
        return Vec::new();
    }
    let Some(answer) = machine.ask("go", &["env", "GOPROXY", "GOSUMDB"]) else { return Vec::new() };
    let mut lines = answer.lines();
    for url in lines.next().unwrap_or_default().split([',', '|']) {
        go.add(url, "go env GOPROXY");
    }
    // `name`, `name+key` or `name+key url`; `off` is no host.
    let database = lines.next().unwrap_or_default().trim();
    match database.split_once(' ') {
        Some((_, url)) => go.add(url, "go env GOSUMDB"),
        None if database != "off" && !database.is_empty() => {
            let name = database.split('+').next().unwrap_or(database);
            go.add(&format!("https://{name}"), "go env GOSUMDB");
        }
        None => {}
    }
    go.found
}

/// apt: the sources of the system, in both formats.
pub(super) fn apt(machine: &dyn Machine) -> Vec<Found> {
    let mut found = Vec::new();
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(machine.list(Path::new("/etc/apt/sources.list.d")));
    for file in files {
        let is_list = file.extension().is_some_and(|extension| extension == "list");
        let is_sources = file.extension().is_some_and(|extension| extension == "sources");
        let Some(text) = machine.read(&file).filter(|_| is_list || is_sources) else { continue };
        let urls = if is_list { apt_lines(&text) } else { apt_stanzas(&text) };
        let source = file.display().to_string();
        found.extend(urls.into_iter().map(|url| Found { tool: "apt", url, source: source.clone() }));
    }
    found
}

/// `deb [options] uri suite component…`
fn apt_lines(text: &str) -> Vec<String> {
    let uri = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let rest = line.strip_prefix("deb-src ").or_else(|| line.strip_prefix("deb "))?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        rest.split_whitespace().next().map(without_mirror)
    };
    text.lines().filter_map(uri).collect()
}

/// `URIs: one two`, continued on indented lines; stanzas with `Enabled: no` are left out.
fn apt_stanzas(text: &str) -> Vec<String> {
    let mut urls = Vec::new();
    for stanza in text.split("\n\n") {
        let (mut found, mut within, mut enabled) = (Vec::new(), false, true);
        for line in stanza.lines().filter(|line| !line.starts_with('#')) {
            let value = match line.split_once(':') {
                Some((key, value)) if !line.starts_with([' ', '\t']) => {
                    within = key.eq_ignore_ascii_case("uris");
                    let off =
                        ["no", "false", "off", "0"].contains(&value.trim().to_ascii_lowercase().as_str());
                    enabled &= !(key.eq_ignore_ascii_case("enabled") && off);
                    value
                }
                _ => line,
            };
            if within {
                found.extend(value.split_whitespace().map(without_mirror));
            }
        }
        if enabled {
            urls.extend(found);
        }
    }
    urls
}

fn without_mirror(uri: &str) -> String {
    uri.strip_prefix("mirror+").unwrap_or(uri).to_owned()
}

/// The `key = value` lines of an ini file; indented lines continue the value.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with([';', '#', '[']) {
            continue;
        }
        match (line.starts_with([' ', '\t']), found.last_mut(), trimmed.split_once('=')) {
            (true, Some((_, value)), _) => {
                value.push(' ');
                value.push_str(trimmed);
            }
            (_, _, Some((key, value))) => found.push((key.trim().to_owned(), value.trim().to_owned())),
            _ => {}
        }
    }
    found
}

/// The text with `${NAME}` replaced; a name without a value stays and makes the address invalid.
fn expanded(text: &str, env: &Env) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) => {
                out.push_str(env.get(name).unwrap_or("${"));
                rest = tail;
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}
