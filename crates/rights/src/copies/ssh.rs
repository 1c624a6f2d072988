//! What ssh reads instead of the system's settings: the user's hosts, the way through the proxy, and then those.
//!
//! ssh has no variable for its settings, and its own file may be missing, so the system's file is replaced. What that
//! includes is put in its place, because ssh refuses files whose owner has no number inside the sandbox.

use std::path::{Path, PathBuf};

use pollux_domain::redact::find;
use pollux_egress::preset::Machine;
use pollux_egress::variables::SshConnector;

pub(crate) const SYSTEM_FILE: &str = "/etc/ssh/ssh_config";

/// Settings of the user, in lower case. None of them runs a program or leads to an agent.
const KEPT: &[&str] = &[
    "addressfamily",
    "batchmode",
    "ciphers",
    "compression",
    "connecttimeout",
    "host",
    "hostkeyalgorithms",
    "hostkeyalias",
    "hostname",
    "identitiesonly",
    "identityfile",
    "kexalgorithms",
    "loglevel",
    "macs",
    "passwordauthentication",
    "port",
    "preferredauthentications",
    "proxyjump",
    "pubkeyacceptedalgorithms",
    "pubkeyacceptedkeytypes",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "user",
];
/// How deep files may include each other, and how many lines count.
const MAX_DEPTH: usize = 4;
const MAX_LINES: usize = 20_000;

/// Where ssh's files are.
pub(super) struct Files<'a> {
    pub(super) machine: &'a dyn Machine,
    pub(super) home: &'a Path,
    pub(super) system: &'a Path,
}

/// The settings, if the system has some. Without a connector, ssh connects itself.
pub(super) fn settings(
    files: &Files<'_>,
    known_hosts: &Path,
    connector: Option<&SshConnector<'_>>,
) -> Option<String> {
    let system = files.machine.read(files.system)?;
    let known_hosts = known_hosts.to_str().filter(|path| !path.contains(['"', '\n', '\\']))?;
    let own = files.home.join(".ssh");
    let user = files.machine.read(&own.join("config")).unwrap_or_default();
    let proxy = connector.map(|connector| format!("ProxyCommand {}", connector.proxy_command()));
    let mut lines = harmless(&files.expanded(&user, &own), proxy.as_deref());
    lines.push("Host *".to_owned());
    lines.extend(proxy);
    lines.push(format!("UserKnownHostsFile \"{}\"", known_hosts.replace('%', "%%")));
    lines.extend(files.expanded(&system, files.system.parent()?));
    Some(lines.join("\n") + "\n")
}

/// A setting and its value.
fn split(line: &str) -> (String, &str) {
    let line = line.trim();
    let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
    let (name, value) = line.split_at(end);
    (name.to_ascii_lowercase(), value.trim_start_matches(|c: char| c.is_whitespace() || c == '='))
}

/// The lines that are known to be harmless. Conditions can run programs, so what they guard is left out, and so is
/// what belongs to hosts that are left out.
fn harmless(lines: &[String], proxy: Option<&str>) -> Vec<String> {
    let mut is_left_out = false;
    let mut kept = Vec::new();
    for line in lines {
        let (name, value) = split(line);
        let is_secret = !find(value).is_empty();
        match name.as_str() {
            "host" => is_left_out = is_secret,
            "match" => is_left_out = true,
            _ => {}
        }
        if is_left_out || is_secret || !KEPT.contains(&name.as_str()) {
            continue;
        }
        // The direct way leads through the proxy, and ssh would ignore what comes later.
        let is_direct = name == "proxyjump" && value.trim().eq_ignore_ascii_case("none");
        kept.push(proxy.filter(|_| is_direct).unwrap_or(line.trim()).to_owned());
    }
    kept
}

impl Files<'_> {
    /// The lines of a text with those of the files that it includes. Relative names are below a folder.
    fn expanded(&self, text: &str, folder: &Path) -> Vec<String> {
        let mut lines = Vec::new();
        self.expand(text, folder, "Host *", 0, &mut lines);
        lines
    }

    fn expand(&self, text: &str, folder: &Path, around: &str, depth: usize, lines: &mut Vec<String>) {
        let mut block = around.to_owned();
        for line in text.lines() {
            let (name, value) = split(line);
            if lines.len() >= MAX_LINES {
                return;
            }
            match name.as_str() {
                "host" | "match" => block = line.to_owned(),
                "include" => {
                    let included = value.split_ascii_whitespace().flat_map(|name| self.named(name, folder));
                    for file in included.filter(|_| depth < MAX_DEPTH).collect::<Vec<_>>() {
                        let text = self.machine.read(&file).unwrap_or_default();
                        self.expand(&text, folder, &block, depth + 1, lines);
                    }
                    // Its hosts end with it.
                    lines.push(block.clone());
                    continue;
                }
                _ => {}
            }
            lines.push(line.to_owned());
        }
    }

    /// The files of a name, which may have a `*` in its last part.
    fn named(&self, name: &str, folder: &Path) -> Vec<PathBuf> {
        let name = name.trim_matches('"');
        let path = match name.strip_prefix("~/") {
            Some(below) => self.home.join(below),
            None => folder.join(name),
        };
        let last = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((first, rest)) = last.split_once('*') else { return vec![path] };
        let mut found = path.parent().map(|folder| self.machine.list(folder)).unwrap_or_default();
        found.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.len() >= first.len() + rest.len()
                && name.starts_with(first)
                && name.ends_with(rest)
                && !name.starts_with('.')
        });
        found.sort();
        found
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;
    use crate::packages::OwnMachine;

    #[test]
    fn a_direct_host_goes_through_the_proxy_and_a_secret_name_takes_its_settings_along() {
        let key = format!("ghp_{}", "a1B2c3D4".repeat(5));
        let text = format!("Host direct\n ProxyJump none\nHost {key}\n User root\nHost last\n User me");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let expected = ["Host direct", "ProxyCommand p", "Host last", "User me"];
        assert_eq!(harmless(&lines, Some("ProxyCommand p")), expected);
        assert_eq!(harmless(&lines, None), ["Host direct", "ProxyJump none", "Host last", "User me"]);
    }

    #[test]
    fn hosts_of_the_user_come_first_and_nothing_that_runs_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("home/.ssh/more")).unwrap();
        std::fs::create_dir_all(path("etc/conf.d")).unwrap();
        let user = "User everyone\nInclude more/*.conf\nHost build b2\n  HostName build.example\n  ProxyCommand evil %h\n  \
                    IdentityAgent /x\n  Port=2222\nMatch exec \"evil\"\n  User guarded\nHost far\n  ProxyJump build\n  LocalCommand evil\n";
        std::fs::write(path("home/.ssh/config"), user).unwrap();
        std::fs::write(path("home/.ssh/more/a.conf"), "Host inner\n  User included\n").unwrap();
        std::fs::write(path("etc/ssh_config"), "Include conf.d/*.conf\nHost *\n  SendEnv LANG\n").unwrap();
        std::fs::write(path("etc/conf.d/10.conf"), "Host corp\n  Ciphers x\n").unwrap();
        std::fs::write(path("etc/conf.d/ignored"), "Host other\n").unwrap();
        let env = pollux_config::env::Env::new([], path("home"));
        let machine = OwnMachine::new(env, path("home"), Vec::new());
        let (home, system) = (path("home"), path("etc/ssh_config"));
        let files = Files { machine: &machine, home: &home, system: &system };
        let connector = SshConnector { command: &["/own/pollux", "__connect"], known_hosts: "/h/known" };
        let text = settings(&files, Path::new("/h/known"), Some(&connector)).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let expected = [
            "User everyone",
            "Host inner",
            "User included",
            "Host *",
            "Host build b2",
            "HostName build.example",
            "Port=2222",
            "Host far",
            "ProxyJump build",
            "Host *",
            "ProxyCommand /own/pollux __connect %h %p",
            "UserKnownHostsFile \"/h/known\"",
            "Host corp",
            "Ciphers x",
            "Host *",
            "Host *",
            "SendEnv LANG",
        ];
        assert_eq!(lines, expected);
        let open = settings(&files, Path::new("/h/known"), None).unwrap();
        assert!(!open.contains("ProxyCommand"), "{open}");
        let missing = Files { system: &path("etc/none"), ..files };
        assert_eq!(settings(&missing, Path::new("/h/known"), None), None);
    }
}
