//! The servers behind `pollux mcp`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pollux_config::env::Env;
use pollux_config::paths::same_place;
use pollux_config::search_path::SearchPath;
use pollux_config::settings::{self, EditError, read_object};
use pollux_config::trust::{self, Role};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::terminal_text::plain;
use pollux_domain::time::{Clock, SystemClock};
use pollux_exec::background::Background;
use pollux_host::browser::open_in_browser;
use pollux_host::mcp::{self, Named, SWITCHED_OFF_BY_ADMIN, UNTRUSTED, Unused};
use pollux_host::prompter::Prompter;
use pollux_host::prompter::keyboard::Keyboard;
use pollux_host::request::Request;
use pollux_host::{Loaded, cannot_start, load_settings};
use pollux_mcp::{Report, ServerConfig, Servers, Status, oauth_server};
use pollux_net::oauth::{Granted, Login, LoginError};
use serde_json::{Map, Value, json};

use super::{NewServer, ServerOutcome, ServerRow, ServerScope, ServerTransport, Standing};

/// How long a server may take that says nothing of its own; upstream's value.
const LOOK: Duration = Duration::from_secs(5);
/// However patient its entry is.
const LONGEST_LOOK: Duration = Duration::from_secs(30);

const HOW_TO_TRUST: &str =
    "To review this folder, run `pollux trust show`; to trust it, run `pollux trust allow`.";

/// The servers that settings name, for `pollux mcp`.
pub fn server_set(options: &Request, env: &Env) -> Result<ServerSet, Failure> {
    let loaded = load_settings(options, env)?;
    if loaded.settings.get("admin.mcp.enabled").is_some_and(|(value, _)| value == &Value::Bool(false)) {
        return Err(Failure::new(ExitKind::Config, SWITCHED_OFF_BY_ADMIN));
    }
    Ok(ServerSet { loaded })
}

/// The servers that settings name.
pub struct ServerSet {
    loaded: Loaded,
}

impl ServerSet {
    /// Lines about what was found on the way to them, for stderr.
    pub fn notes(&self) -> &[String] {
        &self.loaded.notes
    }

    pub fn add(&mut self, server: &NewServer) -> Result<ServerOutcome, Failure> {
        let file = self.file(server.scope)?;
        refuse_unused(server)?;
        let entry = entry(server);
        ServerConfig::parse(&server.name, &entry)
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))?;
        let before = settings::set_path(&file, &["mcpServers", &server.name], &entry)
            .map_err(|error| refused(&error))?;
        self.agreed(server.scope)?;
        let (name, scope) = (&server.name, server.scope.word());
        let mut notes = Vec::new();
        let out = match before {
            Some(_) => {
                notes.push(format!("MCP server \"{name}\" is already configured within {scope} settings."));
                format!("MCP server \"{name}\" updated in {scope} settings.\n")
            }
            None => {
                format!("MCP server \"{name}\" added to {scope} settings. ({})\n", server.transport.word())
            }
        };
        if server.trust && server.scope == ServerScope::Project {
            notes.push("`trust` is ignored in project settings; use `-s user`.".to_owned());
        }
        if server.scope == ServerScope::Project && !self.loaded.trust.uses_project() {
            notes.push(
                "This folder is not trusted, so the server is not used yet: see `pollux trust show`."
                    .to_owned(),
            );
        }
        notes.extend(self.missing_program(server));
        Ok(ServerOutcome { out, notes })
    }

    /// A note about a command that cannot be found now.
    fn missing_program(&self, server: &NewServer) -> Option<String> {
        let command = &server.target;
        // Variables in it have their values when it starts.
        if server.transport != ServerTransport::Stdio || command.contains(['/', '$']) {
            return None;
        }
        let own = server.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let path = own.or_else(|| self.loaded.env.get("PATH")).map(OsStr::new);
        let found = SearchPath::new(path, &[]).candidates(command, Some(self.loaded.project.root())).next();
        found.is_none().then(|| {
            format!("`{command}` was not found on PATH; the server cannot start until it is installed.")
        })
    }

    pub fn remove(&mut self, name: &str, scope: ServerScope) -> Result<ServerOutcome, Failure> {
        let file = self.file(scope)?;
        let known = read_object(&file).map_err(|error| Failure::from_error(ExitKind::Config, &error))?;
        let known = known.and_then(|object| object.get("mcpServers")?.as_object().cloned());
        let word = scope.word();
        if !known.is_some_and(|servers| servers.contains_key(name)) {
            return Ok(said(format!("Server \"{name}\" not found in {word} settings.\n")));
        }
        settings::remove_path(&file, &["mcpServers", name]).map_err(|error| refused(&error))?;
        self.agreed(scope)?;
        Ok(said(format!("Server \"{name}\" removed from {word} settings.\n")))
    }

    pub fn switch(&mut self, name: &str, on: bool, session: bool) -> Result<ServerOutcome, Failure> {
        let known =
            mcp::named(&self.loaded).into_iter().find(|server| server.name.eq_ignore_ascii_case(name.trim()));
        // The slash command shows the first line alone.
        let unknown =
            || format!("Server '{name}' not found. Use 'pollux mcp list' to see available servers.");
        let known = known.ok_or_else(|| Failure::new(ExitKind::Failure, unknown()))?;
        if let (true, Err(Unused::Blocked(why))) = (on, &known.state) {
            return Err(Failure::new(ExitKind::Failure, why.clone()));
        }
        let name = known.name;
        if session {
            let text = if on {
                format!("✓ Session disable cleared for '{name}'.\n")
            } else {
                format!("✓ MCP server '{name}' disabled for this session.\n")
            };
            let note = "`--session` works only in a session; omit it to make a permanent change.";
            return Ok(ServerOutcome { out: text, notes: vec![note.to_owned()] });
        }
        mcp::switch_server(&self.loaded, &name, on).map_err(|error| refused(&error))?;
        Ok(said(format!("✓ MCP server '{name}' {}.\n", if on { "enabled" } else { "disabled" })))
    }

    /// Connects to one server or to all of them; returns their states and the notes to print.
    pub fn look(&self, name: Option<&str>) -> Result<(Vec<ServerRow>, Vec<String>), Failure> {
        self.look_at(name, LONGEST_LOOK)
    }

    /// The same for all servers, waiting no longer than this, however patient their entries are.
    pub fn look_within(&self, most: Duration) -> Result<(Vec<ServerRow>, Vec<String>), Failure> {
        self.look_at(None, most)
    }

    fn look_at(&self, name: Option<&str>, most: Duration) -> Result<(Vec<ServerRow>, Vec<String>), Failure> {
        let mut all = mcp::named(&self.loaded);
        if let Some(name) = name {
            all.retain(|server| server.name.eq_ignore_ascii_case(name.trim()));
            if all.is_empty() {
                let withheld = self.withheld().iter().any(|known| known.eq_ignore_ascii_case(name.trim()));
                return Err(if withheld { untrusted(name) } else { unknown(name) });
            }
        }
        let mut notes = match all.is_empty() && self.withheld().is_empty() || self.loaded.trust.uses_project()
        {
            true => Vec::new(),
            false => UNTRUSTED.into_iter().chain([HOW_TO_TRUST]).map(str::to_owned).collect(),
        };
        notes.extend(mcp::switches_problem(&self.loaded));
        for server in &all {
            notes.extend(server.remarks.iter().map(|remark| format!("{}: {remark}", server.name)));
        }
        let reports = self.reports(&all, most)?;
        // An entry that only adjusts another server is not a server, unless the user asks for it.
        let shown = all.iter().filter(|server| name.is_some() || !server.is_overlay());
        Ok((shown.map(|server| row(server, &reports)).collect(), notes))
    }

    /// Signs in.
    pub fn auth(&self, name: &str, prompter: &mut Prompter<'_>) -> Result<String, Failure> {
        let all = mcp::named(&self.loaded);
        let server = all.into_iter().find(|server| server.name.eq_ignore_ascii_case(name.trim()));
        let config = match server.ok_or_else(|| unknown(name))?.state {
            Ok(config) => config,
            Err(unused) => return Err(Failure::new(ExitKind::Failure, why(&unused))),
        };
        let Some(target) = oauth_server(&config) else {
            let text = format!("MCP server '{}' runs on this machine and needs no sign-in", config.name);
            return Err(Failure::new(ExitKind::Failure, text));
        };
        let sign_in = mcp::sign_in(&self.loaded);
        let failed = |error: &(dyn std::error::Error + 'static), hint: Option<&'static str>| {
            let failure = Failure::from_error(ExitKind::Auth, error);
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        };
        runtime()?.block_on(async {
            if target.config.grant.is_unattended() {
                sign_in.oauth.valid_token(&target).await.map_err(|error| failed(&error, None))?;
                return Ok(format!("MCP server '{}' issued a token; no sign-in is needed\n", config.name));
            }
            let mut login = sign_in
                .oauth
                .begin_login(&target, None)
                .await
                .map_err(|error| failed(&error, error.hint()))?;
            let mut keyboard = Keyboard::open().map_err(|error| cannot_start(&error))?;
            if !self.consent(&config.name, &login, &mut keyboard, prompter).await {
                return Err(Failure::new(ExitKind::Cancelled, "the sign-in was cancelled"));
            }
            let granted = granted(&mut login, &mut keyboard, prompter).await;
            let granted = granted.map_err(|error| failed(&error, error.hint()))?;
            login.finish(granted).await.map_err(|error| failed(&error, error.hint()))?;
            Ok(format!("Successfully authenticated with MCP server '{}'\n", config.name))
        })
    }
}

/// Waits for the browser and for a pasted answer at once.
async fn granted(
    login: &mut Login,
    keyboard: &mut Keyboard,
    prompter: &mut Prompter<'_>,
) -> Result<Granted, LoginError> {
    loop {
        let line = tokio::select! {
            granted = login.browser() => return granted,
            line = keyboard.line(), if !keyboard.is_closed() => line.unwrap_or_default(),
        };
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        match login.pasted(text) {
            // A typed address can be typed again.
            Err(error @ LoginError::NotTheAnswer) if prompter.at_terminal => {
                let hint = error.hint().unwrap_or_default();
                let _ = writeln!(prompter.screen, "{error}; {hint}:");
            }
            other => return other,
        }
    }
}

impl ServerSet {
    fn file(&self, scope: ServerScope) -> Result<PathBuf, Failure> {
        let at_home = same_place(self.loaded.project.root(), self.loaded.home.user_home());
        match scope {
            ServerScope::User => Ok(self.loaded.home.settings_file()),
            ServerScope::Project if at_home => Err(Failure::new(
                ExitKind::Failure,
                "Error: Please use --scope user to edit settings in the home directory.",
            )),
            ServerScope::Project => Ok(self.loaded.project.settings_file()),
        }
    }

    /// The servers of a folder that is not trusted. They are named nowhere else: nothing of the folder counts.
    fn withheld(&self) -> Vec<String> {
        if self.loaded.trust.uses_project() {
            return Vec::new();
        }
        let inventory = trust::take_inventory(&self.loaded.home, self.loaded.project.root());
        let servers = inventory.announcements.into_iter().filter(|found| {
            found.role == Role::Server || (found.role.runs() && found.name == "mcp.serverCommand")
        });
        servers.map(|found| found.name).collect()
    }

    /// The user's own change to a project needs no second consent.
    fn agreed(&self, scope: ServerScope) -> Result<(), Failure> {
        if scope == ServerScope::User {
            return Ok(());
        }
        let root = self.loaded.project.root();
        trust::rebind(&self.loaded.home, root, &self.loaded.binding, Some(SystemClock.now()))
            .map_err(|error| Failure::from_error(ExitKind::Failure, &error))
    }

    /// Connects to every server that may be used, all at once.
    fn reports(&self, all: &[Named], most: Duration) -> Result<Vec<Report>, Failure> {
        let mut configs: Vec<ServerConfig> =
            all.iter().filter_map(|server| server.state.clone().ok()).collect();
        if configs.is_empty() {
            return Ok(Vec::new());
        }
        for (config, server) in configs.iter_mut().zip(all.iter().filter(|server| server.state.is_ok())) {
            let own = server.written.get("timeout").is_some();
            config.timeout = if own { config.timeout.min(most) } else { LOOK.min(most) };
        }
        let longest = configs.iter().map(|config| config.timeout).max().unwrap_or(LOOK);
        let background =
            Arc::new(Background::guarded(self.loaded.home.tmp_dir().join("background-processes")));
        let roots = vec![self.loaded.project.root().to_path_buf()];
        let servers = mcp::connect(&self.loaded, configs, roots, &background);
        runtime()?.block_on(async {
            let _ = tokio::time::timeout(longest, settle(&servers, longest)).await;
            let reports = servers.reports().into_iter().map(|report| given_up(report, longest)).collect();
            servers.shutdown().await;
            Ok(reports)
        })
    }

    /// Prints the address and opens the browser on request. False: the user is gone.
    async fn consent(
        &self,
        name: &str,
        login: &Login,
        keyboard: &mut Keyboard,
        prompter: &mut Prompter<'_>,
    ) -> bool {
        let screen = &mut *prompter.screen;
        let _ = writeln!(screen, "URL to sign in to MCP server '{name}':\n\n{}\n", login.url());
        if !login.scopes().is_empty() {
            // The server chose the words.
            let rights = login.scopes().join(", ");
            let _ = writeln!(screen, "Requested scopes: {}", plain(&rights));
        }
        if !prompter.at_terminal {
            let _ = writeln!(
                screen,
                "Open it in a browser. If the browser is on another machine, paste the final URL here."
            );
            return true;
        }
        let _ = write!(screen, "Open it in the browser now? [Y/n] ");
        let _ = screen.flush();
        let Some(answer) = keyboard.line().await else { return false };
        if !answer.trim().to_lowercase().starts_with('n') {
            // One that does not open is not a failure: the address is on the screen.
            open_in_browser(login.url(), &self.loaded.env).await;
        }
        let _ = writeln!(
            screen,
            "Waiting up to 5 minutes for the browser (Ctrl+C to cancel). If the browser is on another machine, \
             paste the final URL or the code it shows:"
        );
        true
    }
}

/// A server that is still connecting when nobody waits for it any longer.
fn given_up(mut report: Report, waited: Duration) -> Report {
    if report.status == Status::Connecting {
        report.status = Status::Disconnected;
        let waited = waited.as_secs_f64();
        report.problem.get_or_insert_with(|| format!("no answer within {waited} s"));
    }
    report
}

async fn settle(servers: &Servers, most: Duration) {
    for report in servers.reports() {
        servers.settle_one(&report.name, most).await;
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| cannot_start(&error))
}

fn said(out: String) -> ServerOutcome {
    ServerOutcome { out, notes: Vec::new() }
}

fn untrusted(name: &str) -> Failure {
    let text = format!("Server '{name}' is disabled: this folder is not trusted");
    Failure::new(ExitKind::Failure, text).hint(HOW_TO_TRUST)
}

fn unknown(name: &str) -> Failure {
    Failure::new(ExitKind::Failure, format!("Server '{name}' not found")).hint("run `pollux mcp list`")
}

fn refused(error: &EditError) -> Failure {
    let failure = Failure::from_error(ExitKind::Failure, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Refuses what the transport would not use.
fn refuse_unused(server: &NewServer) -> Result<(), Failure> {
    let unused = match server.transport {
        ServerTransport::Stdio => [("`--header`", !server.headers.is_empty()), ("", false)],
        ServerTransport::Sse | ServerTransport::Http => {
            [("`--env`", !server.env.is_empty()), ("an argument after the URL", !server.args.is_empty())]
        }
    };
    let Some((what, _)) = unused.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let transport = server.transport.word();
    let text = format!("{what} does not apply to `--transport {transport}`");
    let hint = match server.transport {
        ServerTransport::Stdio => "for a remote server, add `--transport http`",
        ServerTransport::Sse | ServerTransport::Http => "use `--header` for a remote server",
    };
    Err(Failure::new(ExitKind::Failure, text).hint(hint))
}

/// The entry for settings: nothing that was not given.
fn entry(server: &NewServer) -> Value {
    let mut entry = Map::new();
    let texts = |pairs: &[(String, String)]| -> Value {
        Value::Object(pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect())
    };
    let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
    match server.transport {
        ServerTransport::Stdio => {
            put("command", json!(server.target));
            put("args", json!(server.args));
            if !server.env.is_empty() {
                put("env", texts(&server.env));
            }
        }
        ServerTransport::Sse | ServerTransport::Http => {
            put("url", json!(server.target));
            put("type", json!(server.transport.word()));
            if !server.headers.is_empty() {
                put("headers", texts(&server.headers));
            }
        }
    }
    if let Some(timeout) = server.timeout {
        put("timeout", json!(timeout));
    }
    if server.trust {
        put("trust", json!(true));
    }
    if let Some(description) = &server.description {
        put("description", json!(description));
    }
    for (key, list) in [("includeTools", &server.include_tools), ("excludeTools", &server.exclude_tools)] {
        if !list.is_empty() {
            put(key, json!(list));
        }
    }
    Value::Object(entry)
}

fn why(unused: &Unused) -> String {
    match unused {
        Unused::Blocked(why) | Unused::Disabled(why) | Unused::Invalid(why) => why.clone(),
        Unused::Overlay => {
            "its entry has neither a command nor a URL, and the extension that defines it is not active"
                .to_owned()
        }
    }
}

fn row(server: &Named, reports: &[Report]) -> ServerRow {
    let mut row = ServerRow {
        name: match &server.from {
            Some(extension) => format!("{} (from {extension})", server.name),
            None => server.name.clone(),
        },
        reached: mcp::reached(&server.written),
        standing: Standing::Disconnected,
        reason: None,
        version: None,
        tools: Vec::new(),
        prompts: Vec::new(),
        resources: 0,
        log: Vec::new(),
    };
    match (&server.state, reports.iter().find(|report| report.name == server.name)) {
        (Err(unused), _) => {
            row.reason = Some(why(unused));
            row.standing = match unused {
                Unused::Blocked(_) => Standing::Blocked,
                Unused::Disabled(_) => Standing::Disabled,
                Unused::Invalid(_) | Unused::Overlay => Standing::Disconnected,
            };
        }
        (Ok(_), None) => {}
        (Ok(_), Some(report)) => {
            row.standing = match report.status {
                Status::Connected => Standing::Connected,
                Status::Connecting | Status::Disconnected => Standing::Disconnected,
            };
            row.reason.clone_from(&report.problem);
            row.version.clone_from(&report.version);
            row.tools =
                report.tools.iter().map(|tool| (tool.declared.clone(), tool.description.clone())).collect();
            row.prompts.clone_from(&report.prompts);
            row.resources = report.resources;
            row.log.clone_from(&report.log);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_never_answered_is_disconnected_and_says_why() {
        let report = |status, problem: Option<&str>| Report {
            name: "slow".to_owned(),
            status,
            problem: problem.map(str::to_owned),
            sign_in: None,
            version: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: 0,
            log: Vec::new(),
        };
        let look = Duration::from_millis(1500);
        let late = given_up(report(Status::Connecting, None), look);
        assert_eq!(
            (late.status, late.problem.as_deref()),
            (Status::Disconnected, Some("no answer within 1.5 s"))
        );
        assert_eq!(given_up(report(Status::Connected, None), look).status, Status::Connected);
        let ended = given_up(report(Status::Disconnected, Some("it ended")), look);
        assert_eq!(ended.problem.as_deref(), Some("it ended"));
    }
}
