//! The environment of a session: chosen variables of the front end that opens it, never the core's own.

use std::collections::BTreeMap;

use pollux_config::env::Env;
use pollux_host::provider_keys;

/// Names that sessions and their commands need.
const NAMES: &[&str] = &[
    "COLORTERM",
    "DBUS_SESSION_BUS_ADDRESS",
    "DEBUG",
    "DEBUG_MODE",
    "DISPLAY",
    "EDITOR",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NO_COLOR",
    "PATH",
    "PWD",
    "SANDBOX",
    "SHELL",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "VISUAL",
    "WAYLAND_DISPLAY",
];

/// Families of names: settings and providers of Pollux, locales, folders, toolchains.
const FAMILIES: &[&str] = &[
    "ANTHROPIC_",
    "CARGO_",
    "CONDA_",
    "GEMINI_",
    "GIMLI_",
    "GOOGLE_",
    "GO",
    "LC_",
    "NODE_",
    "NPM_",
    "NVM_",
    "OPENAI_",
    "OTEL_",
    "POLLUX_",
    "PYENV_",
    "PYTHON",
    "RUSTUP_",
    "XDG_",
];

/// What the core itself needs. It has no keys, so that none of them can reach another session.
const OF_CORE: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "GEMINI_CLI_HOME",
    "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

fn is_proxy(upper: &str) -> bool {
    upper.ends_with("_PROXY")
}

/// The variables that a session gets from the front end that opens it: those listed here, keys of model providers, and
/// `named` ones.
pub fn session_environment(env: &Env, named: &[String]) -> BTreeMap<String, String> {
    let keys = provider_keys(env);
    let passes = |name: &str| {
        let upper = name.to_uppercase();
        NAMES.contains(&name)
            || FAMILIES.iter().any(|family| name.starts_with(family))
            || is_proxy(&upper)
            || keys.contains(name)
            || named.iter().any(|other| other == name)
    };
    let passed = env.iter().filter(|(name, _)| passes(name));
    passed.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The environment that the core is started with.
pub(crate) fn core_environment(env: &Env) -> BTreeMap<String, String> {
    let passes = |name: &str| OF_CORE.contains(&name) || is_proxy(&name.to_uppercase());
    let passed = env.iter().filter(|(name, _)| passes(name));
    passed.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_gets_keys_and_the_core_gets_none() {
        let vars = [
            ("PATH", "/bin"),
            ("HOME", "/nowhere"),
            ("GEMINI_API_KEY", "k"),
            ("https_proxy", "p"),
            ("AWS_SECRET_ACCESS_KEY", "no"),
            ("DATABASE_URL", "named"),
            ("LC_ALL", "C"),
        ];
        let env = Env::new(vars.map(|(name, value)| (name.to_owned(), value.to_owned())), "/".into());
        let session = session_environment(&env, &["DATABASE_URL".to_owned()]);
        let names: Vec<&str> = session.keys().map(String::as_str).collect();
        assert_eq!(names, ["DATABASE_URL", "GEMINI_API_KEY", "HOME", "LC_ALL", "PATH", "https_proxy"]);
        let core = core_environment(&env);
        assert_eq!(core.keys().map(String::as_str).collect::<Vec<_>>(), ["HOME", "PATH", "https_proxy"]);
    }
}
