//! Variables that change what programs do.

use super::Found;

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

/// Whether giving this variable this value changes which code runs.
pub(super) fn is_risky(name: &str, value: Option<&str>) -> bool {
    if HARMLESS.contains(&name) {
        return false;
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
        ];
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
pub(super) fn assigned(name: &str, value: Option<&str>, found: &mut Found) {
    if is_risky(name, value) {
        found.doubt(format!("it sets `{name}`, which changes what programs do"));
    }
    let is_number =
        value.is_some_and(|v| !v.is_empty() && v.len() < 18 && v.chars().all(|c| c.is_ascii_digit()));
    if is_number {
        found.numbers.push(name.to_owned());
    } else if value.is_some() || found.numbers.contains(&name.to_owned()) {
        found.numbers.retain(|known| known != name);
    }
}

/// Builtins and programs that a function must not stand in for unnoticed.
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
        || super::safe::is_listed(name)
        || super::wrapper::is_wrapper(name)
        || name.contains('/')
}
