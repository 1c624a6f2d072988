//! The rules of ARCHITECTURE.md that a compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

/// Which crates a crate may use. `cli` joins everything; `test-support` is for tests alone.
const ALLOWED: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("config", &["domain"]),
    ("diff", &[]),
    ("net", &["domain", "config"]),
    ("sandbox", &["domain", "config"]),
    ("exec", &["domain", "config", "sandbox"]),
    ("egress", &["domain", "config"]),
    ("rights", &["domain", "config", "sandbox", "egress"]),
    ("policy", &["domain", "config"]),
    ("session", &["domain", "config"]),
    ("extend", &["domain", "config"]),
    ("foreign", &["domain", "session"]),
    ("catalogue", &["domain", "session", "foreign"]),
    ("rewind", &["domain", "config", "diff", "exec"]),
    ("hooks", &["domain", "config", "exec"]),
    ("model", &["domain", "config", "net"]),
    ("tools", &["domain", "config", "diff", "exec", "sandbox", "rights", "net"]),
    ("embed", &["domain", "config", "exec", "net"]),
    ("memory", &["domain", "config"]),
    ("mcp", &["domain", "config", "exec", "net"]),
    ("ide", &["domain", "config", "exec", "net", "mcp"]),
    ("archive", &["domain"]),
    ("install", &["domain", "config", "exec", "net", "extend", "archive"]),
    ("a2a", &["domain", "config", "net"]),
    ("serve", &["domain"]),
    ("blobs", &["domain", "config", "net"]),
    ("otlp", &["domain", "config", "net"]),
    ("capsule", &["domain", "config", "session", "model"]),
    ("agent", &["domain", "config", "policy", "session", "extend", "hooks"]),
    ("output", &["domain", "config", "otlp"]),
    (
        "host",
        &[
            "domain",
            "config",
            "diff",
            "net",
            "exec",
            "sandbox",
            "egress",
            "rights",
            "policy",
            "session",
            "foreign",
            "catalogue",
            "capsule",
            "extend",
            "model",
            "rewind",
            "hooks",
            "tools",
            "embed",
            "memory",
            "mcp",
            "ide",
            "install",
            "a2a",
            "agent",
        ],
    ),
    (
        "admin",
        &[
            "domain",
            "config",
            "net",
            "exec",
            "sandbox",
            "rights",
            "policy",
            "session",
            "foreign",
            "catalogue",
            "capsule",
            "extend",
            "model",
            "rewind",
            "hooks",
            "tools",
            "embed",
            "memory",
            "mcp",
            "install",
            "host",
            "output",
        ],
    ),
    ("front", &["domain", "config", "host", "output"]),
    ("tui", &["domain"]),
    ("screen", &["domain", "config", "session", "host", "output", "front", "tui"]),
    ("acp", &["domain", "config", "host", "output", "front"]),
    ("stream", &["domain", "config", "host", "output", "front"]),
    ("a2a-server", &["domain", "config", "net", "blobs", "archive", "a2a", "serve", "host"]),
    ("resident", &["domain", "config", "host", "front"]),
    ("web", &["domain", "host", "front", "serve", "resident"]),
    ("mcp-server", &["domain", "front", "serve"]),
    (
        "cli",
        &[
            "domain",
            "config",
            "diff",
            "host",
            "front",
            "screen",
            "acp",
            "a2a-server",
            "stream",
            "resident",
            "web",
            "mcp-server",
            "admin",
            "output",
        ],
    ),
    (
        "fuzz",
        &[
            "domain", "config", "net", "egress", "policy", "session", "extend", "hooks", "mcp", "model",
            "a2a", "archive", "front", "tui",
        ],
    ),
    ("test-support", &[]),
];

/// Edges that only tests and benches have: retrieval is measured with real vectors, and the program is compared with
/// the libraries below it.
const TEST_EDGES: &[(&str, &str)] = &[
    ("embed", "memory"),
    ("cli", "exec"),
    ("cli", "extend"),
    ("cli", "session"),
    ("cli", "tools"),
    ("screen", "extend"),
];

/// What every part of a crate for people may name.
const EVERYWHERE: &[&str] = &["domain", "config", "host"];

/// What the parts of these crates may name in addition to [`EVERYWHERE`]: a subcommand the library of its noun, the
/// screen's services the session files they search. A part is the module of that name with all below it; the empty one
/// is the rest of the crate.
const PARTS: &[(&str, &str, &[&str])] = &[
    ("admin", "", &[]),
    ("admin", "agents", &[]),
    ("admin", "auth", &[]),
    ("admin", "bug", &["capsule", "session"]),
    ("admin", "config", &[]),
    ("admin", "doctor", &["net", "sandbox"]),
    ("admin", "extensions", &[]),
    ("admin", "hooks", &["hooks", "exec"]),
    ("admin", "import", &["extend", "foreign", "hooks", "install", "mcp", "model"]),
    ("admin", "mcp", &["mcp", "exec", "net"]),
    ("admin", "memory", &["memory", "embed", "exec"]),
    ("admin", "models", &[]),
    ("admin", "policy", &["policy", "exec", "model", "net", "session", "tools"]),
    ("admin", "prompt", &[]),
    ("admin", "providers", &[]),
    ("admin", "replay", &["capsule"]),
    ("admin", "sandbox", &["sandbox", "rights"]),
    ("admin", "sessions", &["session", "catalogue", "foreign", "rewind", "output"]),
    ("admin", "skills", &["extend", "install", "exec"]),
    ("admin", "trust", &[]),
    ("front", "", &["output"]),
    ("screen", "", &["front", "tui", "output"]),
    ("screen", "services", &["front", "tui", "session"]),
    ("acp", "", &["front", "output"]),
    ("stream", "", &["front", "output"]),
    ("resident", "", &["front"]),
    ("web", "", &["front", "serve", "resident"]),
    ("mcp-server", "", &["front", "serve"]),
    (
        "cli",
        "",
        &[
            "diff",
            "front",
            "screen",
            "acp",
            "a2a-server",
            "stream",
            "resident",
            "web",
            "mcp-server",
            "admin",
            "output",
            "cli",
        ],
    ),
];

/// What a library never does: values come in, results go out.
const NOT_IN_LIBRARIES: &[&str] = &["env::var", "println!", "process::exit"];

/// Packages that cost more than they give: a second TLS stack, a C library, a macro for every port.
const BANNED_PACKAGES: &[&str] =
    &["aws-lc-sys", "aws-lc-rs", "openssl-sys", "native-tls", "async-trait", "git2"];

/// Banned packages that one other package may bring along: the D-Bus client needs its macro.
const TOLERATED: &[(&str, &str)] = &[("async-trait", "zbus")];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The crates of the workspace by the names of their folders.
pub(crate) fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.join("Cargo.toml").is_file());
    let mut names: Vec<String> =
        folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The lines of one section of a manifest, without comments.
fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let header = format!("[{name}]");
    let after = manifest.lines().map(str::trim).skip_while(|line| *line != header).skip(1);
    after
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// The crates of this workspace that a section of a manifest names.
fn own_dependencies(manifest: &str, name: &str) -> Vec<String> {
    let named = section(manifest, name).into_iter().filter_map(|line| line.strip_prefix("pollux-"));
    named.map(|rest| rest.split(['.', ' ', '=']).next().unwrap_or(rest).to_owned()).collect()
}

/// Every Rust file below a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file: no comments, and nothing from its tests on, which stand last.
pub(crate) fn code(path: &Path) -> String {
    let text = read(path);
    let own = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    own.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

#[test]
fn every_crate_has_a_row_and_uses_only_the_allowed_edges() {
    for name in crates() {
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            panic!("the crate `{name}` has no row in the table of allowed edges; see ARCHITECTURE.md");
        };
        let manifest = read(&root().join("crates").join(&name).join("Cargo.toml"));
        for used in own_dependencies(&manifest, "dependencies") {
            assert!(
                allowed.contains(&used.as_str()),
                "`{name}` must not depend on `{used}`: the allowed edges are in ARCHITECTURE.md"
            );
        }
        for used in own_dependencies(&manifest, "dev-dependencies") {
            assert!(
                used == "test-support"
                    || allowed.contains(&used.as_str())
                    || TEST_EDGES.contains(&(name.as_str(), used.as_str())),
                "the tests of `{name}` must not depend on `{used}`: the allowed edges are in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn the_table_has_no_rows_for_crates_that_are_gone() {
    let crates = crates();
    for (name, _) in ALLOWED {
        assert!(crates.iter().any(|known| known == name), "there is no crate `{name}`; see ARCHITECTURE.md");
    }
}

#[test]
fn the_manifest_reader_sees_edges() {
    let manifest = "[dependencies]\npollux-net.workspace = true\n# pollux-exec.workspace = true\n\
                    pollux-test-support = { path = \"x\" }\nserde.workspace = true\n[dev-dependencies]\n\
                    pollux-agent.workspace = true\n";
    assert_eq!(own_dependencies(manifest, "dependencies"), ["net", "test-support"]);
    assert_eq!(own_dependencies(manifest, "dev-dependencies"), ["agent"]);
}

/// The crates of this workspace that a text names, as in `pollux_session::list`.
fn named_crates(text: &str) -> Vec<&'static str> {
    let after = text.split("pollux_").skip(1);
    let names = after.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let named = rest.get(..end)?;
        let own = ALLOWED.iter().map(|(name, _)| *name).filter(|name| *name != "test-support");
        own.into_iter().find(|name| name.replace('-', "_") == named)
    });
    names.collect()
}

#[test]
fn the_names_of_crates_are_seen() {
    assert_eq!(
        named_crates("use pollux_net::client;\nlet a = pollux_exec::b(\"pollux_nosuch\");"),
        ["net", "exec"]
    );
}

#[test]
fn subcommands_and_the_program_name_only_the_libraries_of_their_part() {
    for folder in ["admin", "front", "screen", "cli"] {
        let src = root().join("crates").join(folder).join("src");
        for path in sources(&src) {
            let below = path.strip_prefix(&src).unwrap().with_extension("");
            let first = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
            let row = |part: &str| PARTS.iter().find(|(name, known, _)| *name == folder && *known == part);
            let (_, part, allowed) = row(&first).or_else(|| row("")).unwrap();
            for name in named_crates(&code(&path)) {
                let in_test = is_test_file(&path) && TEST_EDGES.contains(&(folder, name));
                assert!(
                    EVERYWHERE.contains(&name) || allowed.contains(&name) || in_test,
                    "`{folder}/src/{}` names `pollux_{name}`, which `{part}` has no business with; see ARCHITECTURE.md",
                    below.display()
                );
            }
        }
    }
}

#[test]
fn libraries_read_no_environment_print_nothing_and_never_exit() {
    for name in crates().into_iter().filter(|name| name != "cli" && name != "test-support") {
        for path in sources(&root().join("crates").join(&name).join("src")) {
            if is_test_file(&path) {
                continue;
            }
            let code = code(&path);
            for word in NOT_IN_LIBRARIES {
                assert!(
                    !code.contains(word),
                    "`{}` uses `{word}`; see the invariants in ARCHITECTURE.md",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn no_banned_package_is_in_the_lock_file() {
    let lock = read(&root().join("Cargo.lock"));
    let packages: Vec<&str> = lock.split("[[package]]").collect();
    for package in BANNED_PACKAGES {
        let users = packages.iter().filter(|text| text.contains(&format!("\n \"{package}\"")));
        let tolerated = |text: &&&str| {
            let by = |(banned, user): &(&str, &str)| {
                banned == package && text.starts_with(&format!("\nname = \"{user}\"\n"))
            };
            TOLERATED.iter().any(by)
        };
        let (expected, others): (Vec<&&str>, Vec<&&str>) = users.partition(tolerated);
        let present = packages.iter().any(|text| text.starts_with(&format!("\nname = \"{package}\"\n")));
        assert!(
            others.is_empty() && (!present || !expected.is_empty()),
            "`{package}` came in with a dependency; ARCHITECTURE.md has no place for it"
        );
    }
}

#[test]
fn every_crate_inherits_the_lints() {
    for name in crates() {
        let manifest = read(&root().join("crates").join(&name).join("Cargo.toml"));
        assert_eq!(
            section(&manifest, "lints"),
            ["workspace = true"],
            "`{name}` must inherit the workspace's lints; see ARCHITECTURE.md and CONTRIBUTING.md"
        );
    }
}
