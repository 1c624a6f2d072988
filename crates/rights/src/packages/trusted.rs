//! What a package manager that runs outside the sandbox gets and starts.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use pollux_config::credential_variables::is_credential;
use pollux_config::env::Env;
use pollux_config::open_places::OpenPlaces;
use pollux_config::search_path::SearchPath;

/// Variables that name the user and settings. All others are dropped: many make an interpreter load code, or a shim
/// choose another program.
const KEPT: &[&str] = &[
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "GIT_CONFIG_SYSTEM",
    "GOENV",
    "GONOSUMDB",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "MISE_DATA_DIR",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_USERCONFIG",
    "PIP_CONFIG_FILE",
    "PYENV_ROOT",
    "USER",
    "VOLTA_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "npm_config_globalconfig",
    "npm_config_prefix",
    "npm_config_userconfig",
];

/// Variables that keep programs from running code of caches and temporary folders, or of a project around the home.
const FIXED: &[(&str, &str)] = &[
    // corepack's npm is in a cache that commands write.
    ("COREPACK_ENABLE_NETWORK", "0"),
    ("COREPACK_HOME", "/dev/null"),
    // The module cache has other versions of go.
    ("GOTOOLCHAIN", "local"),
    ("GOWORK", "off"),
    ("NODE_DISABLE_COMPILE_CACHE", "1"),
    // Apple's Python has its compiled files in a cache that commands write.
    ("PYTHONPYCACHEPREFIX", "/dev/null"),
    ("npm_config_update_notifier", "false"),
    // Apple's developer tools find each other by a file among temporary ones.
    ("xcrun_nocache", "1"),
];

/// Places below the home from which interpreters load code, or shims settings that run programs.
pub(super) const LOADED_FROM_HOME: &[&str] = &[
    ".config/mise",
    ".config/mise.toml",
    ".local/lib",
    ".mise",
    ".mise.toml",
    ".node_libraries",
    ".node_modules",
    ".tool-versions",
    "Library/Python",
    "mise",
    "mise.toml",
    "node_modules",
];

/// The variables for a program that runs in this folder. Values that lead to an open place are dropped.
pub(super) fn variables(env: &Env, folder: &Path, open: &OpenPlaces) -> Vec<(String, String)> {
    let is_kept = |name: &str| KEPT.contains(&name) || name.starts_with("LC_");
    let leads_out = |value: &str| value.split(':').any(|part| open.touch(&folder.join(part)));
    let kept =
        env.iter().filter(|(name, value)| is_kept(name) && !is_credential(&name.to_uppercase(), value));
    let kept = kept.filter(|(_, value)| !leads_out(value));
    kept.chain(FIXED.iter().copied()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether a file of the user's has another name: uv and pnpm install packages by linking to files of a cache that
/// commands can write.
pub(super) fn has_other_names(file: &Path, home: &Path) -> bool {
    let is_in_home = || {
        let (file, home) = (fs::canonicalize(file), fs::canonicalize(home));
        file.is_ok_and(|file| home.is_ok_and(|home| file.starts_with(home)))
    };
    fs::metadata(file)
        .is_ok_and(|facts| facts.is_file() && facts.nlink() > 1 && (facts.uid() != 0 || is_in_home()))
}

/// What Python loads from the packages of an installation: modules and what runs at every start.
pub(super) fn python_modules(prefix: &Path) -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let starting = |folder: &Path, start: &'static str| {
        inside(folder.to_owned()).filter(move |path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        })
    };
    // The shims of pyenv, asdf and mise lead to one of these.
    let versions = ["versions", "installs/python"].into_iter().flat_map(|place| inside(prefix.join(place)));
    let libraries = versions.chain([prefix.to_owned()]).flat_map(|prefix| starting(&prefix, "lib"));
    let pythons = libraries.flat_map(|library| starting(&library, "python"));
    let folders =
        pythons.flat_map(|python| [python.join("site-packages"), python.join("dist-packages"), python]);
    let modules = folders.flat_map(inside).flat_map(|module| [module.join("__init__.py"), module]);
    modules.filter(|module| module.symlink_metadata().is_ok()).collect()
}

/// The interpreter that a script names, itself or by `env`.
pub(super) fn interpreter(program: &Path, search: &OsStr) -> Option<PathBuf> {
    let mut line = Vec::new();
    fs::File::open(program).ok()?.take(4096).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = PathBuf::from(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    SearchPath::new(Some(search), &[]).candidates(name, None).next()
}

/// Whether a path below the folder of an installation, such as `/usr`, belongs to what is installed. Workspaces and
/// caches are there, too.
pub(super) fn is_part_of_installation(path: &Path) -> bool {
    const PARTS: &[&str] = &[
        "bin",
        "etc",
        "go.env",
        "installs",
        "node_modules",
        "pkg",
        "plugins",
        "pyvenv.cfg",
        "shims",
        "tools",
        "versions",
    ];
    let Some(Component::Normal(first)) = path.components().next() else { return true };
    let first = first.to_string_lossy();
    PARTS.contains(&first.as_ref()) || first.starts_with("lib")
}
