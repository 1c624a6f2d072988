//! Environment variables that change how programs behave.

use super::Findings;

/// Names whose value makes programs load or start something else.
const RISKY: &[&str] = &[
    "PATH",
    "BASH_ENV",
    "ENV",
    "IFS",
    "PROMPT_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "SHELL",
    "HOME",
    "CDPATH",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "FCEDIT",
    "LESSOPEN",
    "LESSCLOSE",
    "LESSEDIT",
    "LESS",
    "LESSKEY",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_HOME",
    "CC",
    "CXX",
    "LD",
    "AR",
    "CPP",
    "MAKEFLAGS",
    "MAKE",
    "MFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "HOSTALIASES",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TERMCAP",
    "EXECIGNORE",
    "GLOBIGNORE",
    "HISTFILE",
    "INPUTRC",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "ZDOTDIR",
    "FPATH",
    "FIGNORE",
    "GOFLAGS",
    "GOROOT",
    "GOPROXY",
    "GONOSUMDB",
    "GOTOOLDIR",
    "KUBECONFIG",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "AWS_CONFIG_FILE",
    "CURL_HOME",
    "WGETRC",
    "RIPGREP_CONFIG_PATH",
    "FZF_DEFAULT_COMMAND",
    "FZF_DEFAULT_OPTS",
    "TAR_OPTIONS",
    "GZIP",
    "ZIPOPT",
    "UNZIP",
    "RSYNC_RSH",
    "CVS_RSH",
    "SVN_SSH",
    "HGEDITOR",
    "HGRCPATH",
    "MANOPT",
    "MANROFFOPT",
    "GROFF_BIN_PATH",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "BASH_XTRACEFD",
    "POSIXLY_CORRECT",
    "COMSPEC",
    "PATHEXT",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "LUA_INIT",
    "LUA_PATH",
    "LUA_CPATH",
    "R_PROFILE",
    "GDBINIT",
    "AWKPATH",
    "AWKLIBPATH",
    "MAILCAPS",
    "VIMINIT",
    "EXINIT",
    "MYVIMRC",
    "SQLITE_HISTORY",
    "BASH_ALIASES",
    "BASH_CMDS",
    "PYTHON",
    "OPTIND",
    "GREP_OPTIONS",
    "BASH_LOADABLES_PATH",
    "BASH_COMPAT",
    "BC_ENV_ARGS",
    // Bash evaluates values assigned to these.
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "HISTCMD",
    "LINENO",
    "BASHPID",
    "UID",
    "EUID",
    "PPID",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "BASH_SUBSHELL",
    "I_WANT_A_BROKEN_PS",
    "PS_PERSONALITY",
    "CMD_ENV",
    "MAGIC",
    "PS_FORMAT",
    "UNZIPOPT",
    "ZIPINFO",
    "ZIPINFOOPT",
    "_POSIX2_VERSION",
    "TMPDIR",
    "TZDIR",
    "XZ_OPT",
    "XZ_DEFAULTS",
    "BZIP",
    "BZIP2",
    "GETCONF_DIR",
    "GAWK_PERSIST_FILE",
    "JQ_LIBRARY_PATH",
    "GNUPGHOME",
    "GLOBSORT",
    "OLDPWD",
    "PWD",
    "TMOUT",
    "command_not_found_handle",
];

const RISKY_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "PYTHON",
    "npm_config_",
    "NPM_CONFIG_",
    "LUA_INIT",
    "YARN_",
    "PIP_",
    "UV_",
    "CMAKE_",
    "MALLOC_",
    "GLIBC_",
    "SSL_CERT",
    "BUNDLE_",
    "COMPOSER_",
];

const HARMLESS: &[&str] = &[
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "CMAKE_BUILD_TYPE",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
];

/// Names that only control verbosity, language or interactivity.
#[rustfmt::skip]
const QUIET: &[&str] = &[
    "RUST_BACKTRACE", "RUST_LIB_BACKTRACE", "RUST_LOG", "RUST_TEST_THREADS", "RUST_MIN_STACK", "RUST_TEST_NOCAPTURE",
    "RUST_LOG_STYLE", "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "LANG", "LANGUAGE", "TZ",
    "NODE_ENV", "TERM", "COLUMNS", "LINES", "DEBUG", "VERBOSE", "LOG_LEVEL", "LOGLEVEL", "INSTA_UPDATE", "INSTA_FORCE_PASS",
    "PROPTEST_CASES", "QUICKCHECK_TESTS", "SOURCE_DATE_EPOCH", "UPDATE_SNAPSHOTS", "UPDATE_EXPECT", "TEST_ENV", "ENVIRONMENT",
    "APP_ENV", "RAILS_ENV", "RACK_ENV", "FLASK_ENV", "DJANGO_DEBUG", "PORT", "HUSKY", "HUSKY_SKIP_HOOKS", "TEST_LOG",
    "CGO_ENABLED", "GOOS", "GOARCH", "GOMAXPROCS", "GO111MODULE", "TSC_COMPILE_ON_ERROR", "JEST_WORKERS", "VITEST",
    "BROWSERSLIST_IGNORE_OLD_DATA", "SKIP_SLOW", "RUSTUP_NO_UPDATE_CHECK", "NPM_CONFIG_LOGLEVEL", "npm_config_loglevel",
    "NEXTEST_RETRIES", "RUST_TEST_TIME_UNIT",
];

/// Whether a variable in front of an allowed command does not affect what the rule is about.
pub(crate) fn is_harmless(name: &str, value: Option<&str>) -> bool {
    let known = QUIET.contains(&name)
        || HARMLESS.contains(&name)
        || name.starts_with("LC_")
        || ["CARGO_TERM_", "CARGO_PROFILE_", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS", "CARGO_NET_OFFLINE"]
            .iter()
            .any(|start| name.starts_with(start))
        || ["RUSTFLAGS", "RUSTDOCFLAGS", "NODE_OPTIONS", "PAGER", "CARGO_TARGET_DIR"].contains(&name)
        || name.ends_with("_PAGER");
    known && !is_risky(name, value)
}

/// Whether giving this variable this value changes which code runs.
pub(super) fn is_risky(name: &str, value: Option<&str>) -> bool {
    if HARMLESS.contains(&name) {
        return false;
    }
    // A path in place of a name makes libraries read that file.
    if matches!(name, "TZ" | "TERM" | "LANG" | "LANGUAGE") || name.starts_with("LC_") {
        return !value.is_some_and(|value| !value.starts_with(['/', ':', '.']) && !value.contains(".."));
    }
    if name == "PAGER" || name.ends_with("_PAGER") || name == "MANPAGER" {
        return !matches!(value, Some("" | "cat"));
    }
    if name == "NODE_OPTIONS" {
        return !value.is_some_and(|v| {
            v.split(' ').all(|o| o.starts_with("--max-old-space-size=") || o == "--no-warnings")
        });
    }
    if name == "RUSTFLAGS"
        || name == "RUSTDOCFLAGS"
        || name == "CFLAGS"
        || name == "CXXFLAGS"
        || name == "LDFLAGS"
    {
        return !value.is_some_and(|v| {
            !v.contains("linker") && !v.contains("plugin") && !v.contains("wrapper") && !v.contains('@')
        });
    }
    if name.starts_with("CARGO") {
        let words = [
            "RUSTC",
            "RUNNER",
            "LINKER",
            "WRAPPER",
            "HOME",
            "RUSTFLAGS",
            "CONFIG",
            "REGISTR",
            "HTTP",
            "CREDENTIAL",
            "ALIAS",
            "RUSTDOC",
            "UNSTABLE",
            "INSTALL",
            "TOKEN",
        ];
        if name.ends_with("TARGET_DIR") {
            return !value.is_some_and(|v| !v.starts_with(['/', '~', '$']) && !v.contains(".."));
        }
        return words.iter().any(|word| name.contains(word));
    }
    let upper = name.to_ascii_uppercase();
    RISKY.contains(&name)
        || RISKY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || upper.ends_with("_PROXY")
        || upper.ends_with("_PAGER")
        || upper.ends_with("_EDITOR")
        || upper.ends_with("_ASKPASS")
}

/// Notes an assignment.
pub(super) fn assigned(name: &str, value: Option<&str>, found: &mut Findings) {
    if is_risky(name, value) {
        found.doubt(format!("it sets `{name}`, which changes how programs behave"));
    }
}

/// Builtins and programs that a function must not silently replace.
pub(super) fn is_command_name(name: &str) -> bool {
    const BUILTINS: &[&str] = &[
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "bind",
        "break",
        "builtin",
        "cd",
        "command",
        "compgen",
        "complete",
        "continue",
        "declare",
        "dirs",
        "disown",
        "echo",
        "enable",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "help",
        "history",
        "jobs",
        "kill",
        "let",
        "local",
        "logout",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "pwd",
        "read",
        "readarray",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "suspend",
        "test",
        "times",
        "trap",
        "true",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
        "command_not_found_handle",
        "git",
        "cargo",
        "npm",
        "node",
        "python",
        "python3",
        "make",
        "go",
        "rm",
        "cp",
        "mv",
        "sudo",
        "sh",
        "bash",
        "curl",
    ];
    BUILTINS.contains(&name)
        || super::programs::is_listed(name)
        || super::wrapper::is_wrapper(name)
        || name.contains('/')
}
