use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::*;
use crate::rules::{Decision, RuleBook};

#[derive(Clone, Default)]
struct Fake {
    files: HashMap<PathBuf, String>,
    answers: HashMap<String, String>,
    open: Vec<PathBuf>,
}

impl Fake {
    fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.to_owned());
        self
    }

    fn answer(mut self, command: &str, text: &str) -> Self {
        self.answers.insert(command.to_owned(), text.to_owned());
        self
    }

    fn hosts(&self, variables: &[(&str, &str)]) -> Vec<String> {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let env = Env::new(pairs, "/w".into());
        let found = package_downloads(&env, Path::new("/home/me"), self);
        found.iter().map(|host| format!("{} {}", host.tool, host.pattern)).collect()
    }
}

impl Machine for Fake {
    fn read(&self, path: &Path) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn is_open(&self, path: &Path) -> bool {
        self.open.iter().any(|open| path.starts_with(open))
    }

    fn list(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            self.files.keys().filter(|path| path.parent() == Some(folder)).cloned().collect();
        files.sort();
        files
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        self.answers.get(&format!("{program} {}", arguments.join(" "))).cloned()
    }
}

#[test]
fn a_machine_without_tools_has_no_hosts() {
    assert_eq!(Fake::default().hosts(&[]), Vec::<String>::new());
}

#[test]
fn npm_is_read_from_its_files_or_asked() {
    let npmrc = "registry=https://npm.corp.example/api/\n@acme:registry = http://acme.example:4873\n\
                 //npm.corp.example/:_authToken=secret\n; registry=https://no.example\n";
    let fake = Fake::default()
        .file("/home/me/.npmrc", npmrc)
        .answer("npm config get registry", "https://wrong.example");
    assert_eq!(fake.hosts(&[]), ["npm npm.corp.example:443", "npm acme.example:4873"]);
    let fake = Fake::default().answer("npm config get registry", "https://npm.default.example/\n");
    assert_eq!(fake.hosts(&[]), ["npm npm.default.example:443"]);
    let fake =
        Fake::default().file("/home/me/.npmrc", "registry=https://${HOST}/\n@b:registry=https://${UNSET}/\n");
    assert_eq!(fake.hosts(&[("HOST", "me:pw@npm.example")]), ["npm npm.example:443"]);
}

#[test]
fn pip_and_uv_are_read_from_files_variables_and_the_help() {
    let conf = "[global]\nindex-url = https://user:pw@pypi.corp.example/simple\nextra_index_url =\n    https://a.example\n    https://b.example:8443/x\n";
    let fake = Fake::default().file("/home/me/.config/pip/pip.conf", conf);
    assert_eq!(fake.hosts(&[]), ["pip pypi.corp.example:443", "pip a.example:443", "pip b.example:8443"]);
    let uv = "extra-index-url = [\"https://x.example\"]\n[[index]]\nurl = \"https://uv.example/simple\"\ndefault = true\n";
    let fake = Fake::default().file("/home/me/.config/uv/uv.toml", uv);
    assert_eq!(fake.hosts(&[]), ["pip x.example:443", "pip uv.example:443"]);
    let variables = [
        ("UV_INDEX", "corp=https://i.example/s other=https://j.example"),
        ("PIP_INDEX_URL", "https://p.example"),
    ];
    assert_eq!(
        Fake::default().hosts(&variables),
        ["pip p.example:443", "pip i.example:443", "pip j.example:443"]
    );
    let help = "  --timeout <sec> Socket timeout (default 15 seconds).\n  -i, --index-url <url>       Base URL of the Python Package Index (default\n                              https://index.example/simple). This should point";
    let fake = Fake::default().answer("pip install --help", help);
    assert_eq!(fake.hosts(&[]), ["pip index.example:443"]);
    let fake = Fake::default()
        .answer("pip install --help", "--index-url <url> See https://docs.example (default none)");
    assert_eq!(fake.hosts(&[]), Vec::<String>::new());
}

#[test]
fn cargo_sources_and_registries_are_read_without_their_api() {
    let config = "[source.crates-io]\nreplace-with = \"corp\"\n[source.corp]\nregistry = \"sparse+https://cargo.corp.example/index/\"\n\
                  [registries.own]\nindex = \"https://own.example/git\"\ntoken = \"x\"\n[source.dir]\ndirectory = \"/vendor\"\n";
    let fake = Fake::default().file("/home/me/.cargo/config.toml", config);
    assert_eq!(fake.hosts(&[]), ["cargo cargo.corp.example:443", "cargo own.example:443"]);
    let fake = Fake::default();
    assert_eq!(
        fake.hosts(&[("CARGO_REGISTRIES_X_INDEX", "sparse+https://e.example/")]),
        ["cargo e.example:443"]
    );
}

#[test]
fn tools_that_read_settings_of_commands_are_not_asked() {
    let fake = Fake::default()
        .answer("npm config get registry", "https://npm.example")
        .answer("pip install --help", "--index-url <url> (default https://pip.example/simple)")
        .answer("go env GOPROXY GOSUMDB", "https://go.example\noff");
    let with = |open: &str| Fake { open: vec![open.into()], ..fake.clone() };
    assert_eq!(
        with("/elsewhere").hosts(&[]),
        ["npm npm.example:443", "pip pip.example:443", "go go.example:443"]
    );
    assert_eq!(with("/home/me/.npmrc").hosts(&[]), ["pip pip.example:443", "go go.example:443"]);
    assert_eq!(with("/home/me/.config/pip").hosts(&[]), ["npm npm.example:443", "go go.example:443"]);
    assert_eq!(with("/home/me/.config/go").hosts(&[]), ["npm npm.example:443", "pip pip.example:443"]);
    assert_eq!(
        with("/w").hosts(&[("GOENV", "/w/env"), ("npm_config_globalconfig", "/w/x")]),
        ["pip pip.example:443"]
    );
    // pip runs this program.
    let fake = fake.file("/etc/pip.conf", "[global]\npython = /w/bin/python\n");
    assert_eq!(fake.hosts(&[]), ["npm npm.example:443", "go go.example:443"]);
}

#[test]
fn go_is_asked_and_apt_is_read() {
    let fake = Fake::default()
        .answer("go env GOPROXY GOSUMDB", "https://proxy.example,https://second.example|direct\nsum.example\n")
        .file("/etc/apt/sources.list", "# deb http://no.example x\ndeb [arch=amd64 signed-by=/k] http://deb.example/debian stable main\ndeb cdrom:[x]/ y\n")
        .file("/etc/apt/sources.list.d/a.sources", "Types: deb\nURIs: https://one.example/d\n  mirror+https://two.example/m\nSuites: x\n\nEnabled: no\nURIs: https://off.example\n")
        .file("/etc/apt/sources.list.d/a.list.bak", "deb http://bak.example x\n");
    let expected = [
        "go proxy.example:443",
        "go second.example:443",
        "go sum.example:443",
        "apt deb.example:80",
        "apt one.example:443",
        "apt two.example:443",
    ];
    assert_eq!(fake.hosts(&[]), expected);
    let off = Fake::default().answer("go env GOPROXY GOSUMDB", "off\noff\n");
    assert_eq!(off.hosts(&[]), Vec::<String>::new());
    let keyed =
        Fake::default().answer("go env GOPROXY GOSUMDB", "direct\nsum.corp+0a1b https://db.example/sum\n");
    assert_eq!(keyed.hosts(&[]), ["go db.example:443"]);
}

#[test]
fn this_machine_and_broken_addresses_are_left_out() {
    let entries = [
        "http://localhost:4873",
        "http://127.0.0.1:1",
        "http://[::1]/",
        "http://169.254.169.254",
        "https://a%20b",
        "file:///x",
        "https://*.example",
        "https://0x7f.1",
    ];
    for entry in entries {
        assert_eq!(Fake::default().hosts(&[("npm_config_registry", entry)]), Vec::<String>::new(), "{entry}");
    }
    assert_eq!(
        Fake::default().hosts(&[("npm_config_registry", "http://10.0.0.5:8081/x")]),
        ["npm 10.0.0.5:8081"]
    );
}

#[test]
fn mirrors_may_be_private_and_only_at_their_port() {
    let fake = Fake::default().file("/home/me/.npmrc", "registry=https://npm.corp.example:8443/\n");
    let found = package_downloads(&Env::new([], "/w".into()), Path::new("/home/me"), &fake);
    assert_eq!(found[0].source, "/home/me/.npmrc");
    let book = RuleBook::new(rules(&found));
    let decide = |port| book.snapshot().decide(&Host::parse("npm.corp.example").unwrap(), port);
    assert!(matches!(decide(8443), Decision::Allow { reach: Reach::Private, .. }));
    assert_eq!(decide(443), Decision::Unlisted);
}

/// The real tools of this machine, if there are any, in an empty home.
#[test]
#[ignore = "starts the package managers of this machine"]
fn installed_tools_answer_with_addresses() {
    struct Real(tempfile::TempDir);
    impl Machine for Real {
        fn read(&self, _: &Path) -> Option<String> {
            None
        }
        fn is_open(&self, _: &Path) -> bool {
            false
        }
        fn list(&self, _: &Path) -> Vec<PathBuf> {
            Vec::new()
        }
        fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
            let run = std::process::Command::new(program).args(arguments).current_dir(self.0.path()).output();
            run.ok()
                .filter(|out| out.status.success())
                .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        }
    }
    let real = Real(tempfile::tempdir().unwrap());
    let found = package_downloads(&Env::new([], "/".into()), Path::new("/nowhere"), &real);
    for (tool, question) in [("npm", &["config", "get", "registry"][..]), ("pip", &["install", "--help"])] {
        match real.ask(tool, question) {
            Some(_) => assert!(found.iter().any(|host| host.tool == tool), "{tool}: {found:?}"),
            None => println!("not tested: no {tool}"),
        }
    }
}

#[test]
fn all_package_managers_are_asked_at_once() {
    /// Answers when all four have been asked.
    #[derive(Default)]
    struct Together(Mutex<usize>, Condvar);

    impl Machine for Together {
        fn read(&self, _: &Path) -> Option<String> {
            None
        }

        fn is_open(&self, _: &Path) -> bool {
            false
        }

        fn list(&self, _: &Path) -> Vec<PathBuf> {
            Vec::new()
        }

        fn ask(&self, program: &str, _: &[&str]) -> Option<String> {
            let mut asked = self.0.lock().unwrap();
            *asked += 1;
            self.1.notify_all();
            let waited = self.1.wait_timeout_while(asked, Duration::from_secs(10), |asked| *asked < 4);
            let late = waited.unwrap().1;
            (program == "npm" && !late.timed_out()).then(|| "https://npm.example".to_owned())
        }
    }

    let found = package_downloads(&Env::new([], "/w".into()), Path::new("/home/me"), &Together::default());
    assert_eq!(found.iter().map(|host| host.tool).collect::<Vec<_>>(), ["npm"]);
}
