//! Copies of the user's settings without their secrets, for programs inside the sandbox.
//!
//! git, npm, pip and others keep mirrors and identities in the same files as tokens. Inside the sandbox those files are
//! hidden, and these copies stand in their place. A copy contains only settings that are known to be harmless, so that
//! a secret in an unknown setting stays out. Files that git's settings include can have any name: they are in the copy,
//! but not hidden themselves.

mod formats;
mod ssh;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

use pollux_config::files::{Mode, create_folder, replace};
use pollux_domain::redact::find;
use pollux_egress::preset::Machine as _;
use pollux_egress::variables::SshConnector;

use crate::packages::OwnMachine;

type Scrub = fn(&str) -> String;

/// Files below the home that are replaced by a copy, the names of the copies, and what stays in them.
const FILES: &[(&str, &str, Scrub)] = &[
    (".npmrc", "npmrc", formats::npm),
    (".config/pip/pip.conf", "pip.conf", formats::pip),
    (".pip/pip.conf", "old-pip.conf", formats::pip),
    (".yarnrc.yml", "yarnrc.yml", formats::yarn),
    (".m2/settings.xml", "maven-settings.xml", formats::maven),
    (".gradle/gradle.properties", "gradle.properties", formats::gradle),
    (".condarc", "condarc", formats::conda),
];

/// Git's own files below the home, in the order in which git reads them. One copy stands in for both.
const FILES_OF_GIT: &[&str] = &[".config/git/config", ".gitconfig"];

/// Settings of git that commands get from the user's own files, by their beginning. No helpers, hooks or headers.
const OF_GIT: &[&str] = &[
    "author.",
    "branch.autosetup",
    "branch.sort",
    "column.",
    "commit.cleanup",
    "commit.verbose",
    "committer.",
    "core.abbrev",
    "core.autocrlf",
    "core.eol",
    "core.excludesfile",
    "core.hookspath",
    "core.precomposeunicode",
    "core.quotepath",
    "core.safecrlf",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.mnemonicprefix",
    "diff.renames",
    "fetch.prune",
    "init.defaultbranch",
    "log.date",
    "merge.conflictstyle",
    "merge.ff",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "push.followtags",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.updaterefs",
    "rerere.",
    "safe.directory",
    "status.",
    "tag.sort",
    "user.email",
    "user.name",
    "user.useconfigonly",
];

/// The files for ssh, without and with the proxy.
const SSH_DIRECT: &str = "ssh_config";
const SSH_PROXIED: &str = "ssh_config-proxied";

/// The copies of a session, made before its first command.
pub(crate) struct Copies {
    folder: PathBuf,
    directory: PathBuf,
    made: Once,
}

impl Copies {
    pub(crate) fn new(folder: PathBuf, directory: PathBuf) -> Self {
        Self { folder, directory, made: Once::new() }
    }

    /// The copy of git's settings.
    pub(crate) fn of_git(&self) -> PathBuf {
        self.folder.join("gitconfig")
    }

    /// Hidden files with the copies that stand in their place.
    pub(crate) fn replaced(&self, home: &Path) -> Vec<(PathBuf, PathBuf)> {
        let others = FILES.iter().map(|(name, copy, _)| (home.join(name), self.folder.join(copy)));
        others.chain(FILES_OF_GIT.iter().map(|name| (home.join(name), self.of_git()))).collect()
    }

    /// The system's settings of ssh with the file that stands in their place, if there are some.
    pub(crate) fn of_ssh(&self, is_proxied: bool) -> Option<(PathBuf, PathBuf)> {
        // On some systems it is a link.
        let system = fs::canonicalize(ssh::SYSTEM_FILE).ok().filter(|file| file.is_file())?;
        Some((system, self.folder.join(if is_proxied { SSH_PROXIED } else { SSH_DIRECT })))
    }

    /// Makes the copies. One that cannot be made is missing inside, and its file stays hidden.
    pub(crate) fn make(
        &self,
        machine: &OwnMachine,
        known_hosts: &Path,
        connector: Option<&SshConnector<'_>>,
    ) {
        self.made.call_once(|| {
            if create_folder(&self.folder, Mode::Private).is_err() {
                return;
            }
            for (name, copy, scrub) in FILES {
                self.write(copy, machine.read(&machine.home.join(name)).map(|text| scrub(&text)));
            }
            self.write("gitconfig", Some(git(&self.settings_of_git(machine))));
            let system = Path::new(ssh::SYSTEM_FILE);
            let files = ssh::Files { machine, home: &machine.home, system };
            self.write(SSH_DIRECT, ssh::settings(&files, known_hosts, None));
            let proxied = connector.and_then(|connector| ssh::settings(&files, known_hosts, Some(connector)));
            self.write(SSH_PROXIED, proxied);
        });
    }

    /// Settings of the system and of the user. The repository's are not asked for: they could be endless.
    fn settings_of_git(&self, machine: &OwnMachine) -> String {
        let ask = |file: &[&str]| {
            let arguments = [&["config", "--includes", "-z", "--list"], file].concat();
            // The directory decides about conditional includes. With a broken repository, git works only elsewhere.
            let listed = machine.ask_in(&self.directory, "git", &arguments);
            listed.or_else(|| machine.ask_in(&machine.home, "git", &arguments)).unwrap_or_default()
        };
        let env = &machine.env;
        let system = if env.is_true("GIT_CONFIG_NOSYSTEM") { String::new() } else { ask(&["--system"]) };
        let files = match env.non_empty("GIT_CONFIG_GLOBAL") {
            Some(file) => vec![PathBuf::from(file)],
            None => {
                let own = env.non_empty("XDG_CONFIG_HOME").map(PathBuf::from);
                let config = own.unwrap_or_else(|| machine.home.join(".config"));
                vec![config.join("git/config"), machine.home.join(".gitconfig")]
            }
        };
        let files = files.iter().filter(|file| file.is_file() && !machine.is_open(file));
        let files = files.filter_map(|file| file.to_str());
        files.map(|file| ask(&["--file", file])).fold(system, |all, listed| all + &listed)
    }

    fn write(&self, name: &str, text: Option<String>) {
        let file = self.folder.join(name);
        let known = fs::read_to_string(&file).ok();
        // The file of another session with the same settings stays: it may be mounted.
        if known == text {
            return;
        }
        // Without it, the original is hidden.
        let _ = match text {
            Some(text) => replace(&file, text.as_bytes(), Mode::Private).is_ok(),
            None => fs::remove_file(&file).is_ok(),
        };
    }
}

/// Settings of `git config -z --list` that are harmless, as a file.
fn git(listed: &str) -> String {
    let entries =
        listed.split_terminator('\0').map(|entry| entry.split_once('\n').unwrap_or((entry, "true")));
    let harmless = entries.filter(|(key, value)| is_harmless(key, value));
    harmless.filter_map(|(key, value)| line(key, value)).collect()
}

fn is_harmless(key: &str, value: &str) -> bool {
    let has_user = |text: &str| formats::without_user(text) != text;
    let key = key.to_ascii_lowercase();
    if key.starts_with("alias.") {
        // Others run a program. `@{` names a revision.
        let is_command = !value.starts_with('!');
        return is_command && !has_user(value) && formats::is_plain(&value.replace("@{", "{"));
    }
    if ["author.", "committer.", "user."].iter().any(|identity| key.starts_with(identity)) {
        let is_known = OF_GIT.iter().any(|known| key.starts_with(known));
        return is_known && !has_user(value) && find(value).is_empty();
    }
    if has_user(value) || !formats::is_plain(value) {
        return false;
    }
    if let Some(url) = key.strip_prefix("url.") {
        let url = url.strip_suffix(".insteadof").or_else(|| url.strip_suffix(".pushinsteadof"));
        return url.is_some_and(|url| !has_user(url) && formats::is_plain(url));
    }
    // Without it, large files would be committed as they are.
    let is_lfs = key.starts_with("filter.lfs.") && (value.starts_with("git-lfs ") || value == "true");
    is_lfs || OF_GIT.iter().any(|known| key.starts_with(known))
}

/// A section with one setting.
fn line(key: &str, value: &str) -> Option<String> {
    let (section, name) = key.rsplit_once('.')?;
    let escaped = |text: &str| {
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
    };
    let header = match section.split_once('.') {
        Some((section, below)) if !below.contains('\n') => {
            format!("[{section} \"{}\"]", below.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Some(_) => return None,
        None => format!("[{section}]"),
    };
    Some(format!("{header}\n\t{name} = \"{}\"\n", escaped(value)))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
mod tests {
    use super::*;

    #[test]
    fn gits_identity_and_habits_are_copied_and_nothing_that_leads_to_secrets() {
        let entries = [
            ("core.editor", "vi"),
            ("user.name", "Ada \"L\" \\ Byron"),
            ("user.email", "ada@example.org"),
            ("user.signingkey", "ABC"),
            ("commit.gpgsign", "true"),
            ("credential.helper", "store"),
            ("credential.https://x.example.username", "u"),
            ("http.extraheader", "Authorization: Bearer abc"),
            ("http.proxy", "http://u:p@proxy:3128"),
            ("include.path", "~/.secret"),
            ("alias.st", "status -sb"),
            ("alias.evil", "!curl x"),
            ("url.https://mirror.example/.insteadof", "https://github.com/"),
            ("url.https://u:t0ken@mirror.example/.insteadof", "https://a.example/"),
            ("filter.lfs.process", "git-lfs filter-process"),
            ("filter.x.clean", "evil"),
            ("init.defaultbranch", "main"),
        ];
        let listed: String = entries.iter().map(|(key, value)| format!("{key}\n{value}\0")).collect();
        let text = git(&listed);
        let keys: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix('\t')?.split(" = ").next()).collect();
        assert_eq!(keys, ["name", "email", "st", "insteadof", "process", "defaultbranch"], "{text}");
        assert!(text.contains(r#"name = "Ada \"L\" \\ Byron""#), "{text}");
        assert!(text.contains(r#"[url "https://mirror.example/"]"#), "{text}");
        for secret in ["ABC", "store", "Bearer", "t0ken", "u:p", "curl"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }

    #[test]
    fn no_address_or_alias_of_git_brings_a_secret_along() {
        let kept = [
            ("url.git@github.com:.insteadof", "https://github.com/"),
            ("url.ssh://git@h.example/.pushinsteadof", "gh:"),
            ("url.https://h.example/.insteadof", "git@h.example:"),
            ("alias.up", "log @{u}.. --format=%h"),
        ];
        for (key, value) in kept {
            assert!(is_harmless(key, value), "{key} {value}");
        }
        let dropped = [
            ("url.https://h/?private_token=SECRET.insteadof", "https://h/"),
            ("url.u:SECRET@host:p.insteadof", "x:"),
            ("url.https:u:SECRET@h/.insteadof", "x:"),
            ("url.https://h/t/SECRET/.insteadof", "x:"),
            ("url.https://h/.insteadof", "u:SECRET@h:"),
            ("alias.z", "push --push-option=token=SECRET"),
            ("alias.z", "fetch https:u:SECRET@h/"),
            ("alias.z", "fetch https://h/?SECRET"),
            ("core.excludesfile", "u:SECRET@h"),
        ];
        for (key, value) in dropped {
            assert!(!is_harmless(key, value), "{key} {value}");
        }
    }

    #[test]
    fn the_identity_is_found_however_large_or_broken_the_settings_are() {
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        for path in [home.join(".config/git"), project.join(".git/objects"), project.join(".git/refs")] {
            fs::create_dir_all(path).unwrap();
        }
        // More than a pipe takes.
        let many: String = (0..4000).map(|number| format!("[x]\n\tkey{number} = {number:0>20}\n")).collect();
        fs::write(home.join(".gitconfig"), many + "[user]\n\tname = Ada\n").unwrap();
        fs::write(home.join(".config/git/config"), "[user]\n\tname = Old\n\temail = ada@example.org\n")
            .unwrap();
        fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let variables = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", home.to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = pollux_config::env::Env::new(variables, home.clone());
        let machine = OwnMachine::new(env, home.clone(), Vec::new());
        for local in ["[user]\n\tname = Local\n", "nonsense\n["] {
            fs::write(project.join(".git/config"), local).unwrap();
            let copies = Copies::new(folder.path().join("copies"), project.clone());
            copies.make(&machine, &home.join(".ssh/known_hosts"), None);
            let text = fs::read_to_string(copies.of_git()).unwrap();
            let expected =
                "[user]\n\tname = \"Old\"\n[user]\n\temail = \"ada@example.org\"\n[user]\n\tname = \"Ada\"\n";
            assert_eq!(text, expected);
            let replaced = copies.replaced(&home);
            for name in FILES_OF_GIT {
                assert!(replaced.contains(&(home.join(name), copies.of_git())), "{name}");
            }
        }
    }
}
