//! The environment of child processes.
//!
//! Two layers. Always: variables that look like credentials, by name or by value, are removed, because a
//! command written by the model could print them. When redaction is enabled (or in GitHub workflows, where it
//! is strict): upstream's full procedure. Names in `allowed` pass the first layer.

use pollux_config::credential_variables::is_credential;
use pollux_config::env::Env;
use pollux_config::groups::Redaction;
use pollux_domain::redact::holds_secret;

/// A value that is shorter may be in other variables by chance.
const MIN_KEY: usize = 12;

/// Upstream's list of names that are never removed.
const ALWAYS_KEPT: &[&str] = &[
    "PATH",
    "SYSTEMROOT",
    "COMSPEC",
    "PATHEXT",
    "WINDIR",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "SYSTEMDRIVE",
    "HOME",
    "LANG",
    "SHELL",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "TERM",
    "COLORTERM",
    "ADDITIONAL_CONTEXT",
    "AVAILABLE_LABELS",
    "BRANCH_NAME",
    "DESCRIPTION",
    "EVENT_NAME",
    "GITHUB_ENV",
    "IS_PULL_REQUEST",
    "ISSUES_TO_TRIAGE",
    "ISSUE_BODY",
    "ISSUE_NUMBER",
    "ISSUE_TITLE",
    "PULL_REQUEST_NUMBER",
    "REPOSITORY",
    "TITLE",
    "TRIGGERING_ACTOR",
];

/// Upstream's list of names that redaction removes although they contain no secret word.
const NEVER_KEPT: &[&str] = &[
    "CLIENT_ID",
    "DB_URI",
    "CONNECTION_STRING",
    "AWS_DEFAULT_REGION",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "SLACK_WEBHOOK_URL",
    "TWILIO_ACCOUNT_SID",
    "DATABASE_URL",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_ACCOUNT",
    "FIREBASE_PROJECT_ID",
];

const SECRET_WORDS: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "AUTH", "CREDENTIAL", "CREDS", "PRIVATE", "CERT"];

/// Variables that change the meaning of a command line: bash reads startup code, options, functions or folders
/// from them, and the others add options to programs. The approval did not take them into account.
const CHANGES_COMMANDS: &[&str] = &[
    "BASHOPTS",
    "BASH_COMPAT",
    "BASH_ENV",
    "BASH_LOADABLES_PATH",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "EXECIGNORE",
    "FIGNORE",
    "GLOBIGNORE",
    "GLOBSORT",
    "GREP_OPTIONS",
    "IFS",
    "INPUTRC",
    "OLDPWD",
    "OPTIND",
    "POSIXLY_CORRECT",
    "POSIX_PEDANTIC",
    "PROMPT_COMMAND",
    "PS0",
    "PS4",
    // Not wrong, but with a path that contains links `cd ..` would not lead to the parent folder.
    "PWD",
    "RIPGREP_CONFIG_PATH",
    "SHELLOPTS",
    "TAR_OPTIONS",
    "TMOUT",
];
/// bash imports functions from variables with this prefix; they take precedence over programs.
const FUNCTIONS: &str = "BASH_FUNC_";

/// They may name descriptors that the program's own parent gave it and that no child gets.
const OF_MAKE: &[&str] = &["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"];

/// Settings that keep git from asking, paging, or running what a repository configured.
///
/// Upstream also empties `diff.external`, which breaks `git diff`, and the editors, which breaks
/// `git rebase --continue`; `:` is git's own word for "no editor".
const GIT_OVERRIDES: [(&str, &str); 7] = [
    ("credential.helper", ""),
    ("core.fsmonitor", ""),
    ("core.hooksPath", ""),
    ("core.sshCommand", ""),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
];

const FIXED: [(&str, &str); 12] = [
    ("GEMINI_CLI", "1"),
    ("TERM", "xterm-256color"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GH_PROMPT_DISABLED", "1"),
    ("GCM_INTERACTIVE", "never"),
    ("DISPLAY", ""),
    ("DBUS_SESSION_BUS_ADDRESS", ""),
];

/// The environment of a command requested by the model.
pub fn for_command(env: &Env, redaction: &Redaction, pager: &str) -> Vec<(String, String)> {
    with_fixed_variables(sanitised(env, redaction), pager)
}

/// The same, made of an environment without secrets.
pub fn with_fixed_variables(sanitised: Vec<(String, String)>, pager: &str) -> Vec<(String, String)> {
    let pager = if pager.is_empty() { "cat" } else { pager };
    let mut variables = sanitised;
    variables.retain(|(name, _)| !is_overridden(name) && !changes_commands(name));
    let mut set = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    set("PAGER", pager);
    set("GIT_PAGER", pager);
    for (name, value) in FIXED {
        set(name, value);
    }
    variables.extend(git_settings(GIT_OVERRIDES.iter().copied()));
    variables
}

/// The environment of a command in a sandbox: there, hooks of a repository can do no more than the command itself, and
/// keys to sign with are out of reach. `own` replaces variables of the same name.
pub fn for_sandbox(variables: &mut Vec<(String, String)>, own: Vec<(String, String)>) {
    variables.retain(|(name, _)| !is_git_setting(name) && !own.iter().any(|(other, _)| other == name));
    let kept = GIT_OVERRIDES.iter().filter(|(key, _)| *key != "core.hooksPath").copied();
    variables.extend(git_settings(kept.chain([("commit.gpgSign", "false"), ("tag.gpgSign", "false")])));
    variables.extend(own);
}

/// Settings that beat those of every file.
fn git_settings<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (index, (key, value)) in settings.enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{index}"), key.to_owned()));
        variables.push((format!("GIT_CONFIG_VALUE_{index}"), value.to_owned()));
    }
    variables.push(("GIT_CONFIG_COUNT".to_owned(), (variables.len() / 2).to_string()));
    variables
}

fn is_git_setting(name: &str) -> bool {
    name == "GIT_CONFIG_COUNT" || name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_")
}

/// The environment without secrets, for hooks and all other children.
pub fn sanitised(env: &Env, redaction: &Redaction) -> Vec<(String, String)> {
    let is_strict = env.non_empty("GITHUB_SHA").is_some() || env.get("SURFACE") == Some("Github");
    let keys: Vec<&str> = env
        .iter()
        .filter(|(name, value)| redaction.provider_keys.contains(name) && value.trim().len() >= MIN_KEY)
        .map(|(_, value)| value.trim())
        .collect();
    let holds_key = |name: &str, value: &str| {
        let wanted = |entry: &String| entry.eq_ignore_ascii_case(name);
        !redaction.allowed.iter().any(wanted)
            && !ALWAYS_KEPT.contains(&name.to_uppercase().as_str())
            && keys.iter().any(|key| value.contains(key))
    };
    env.iter()
        .filter(|(name, value)| is_kept(name, value, redaction, is_strict) && !holds_key(name, value))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn is_overridden(name: &str) -> bool {
    matches!(name, "PAGER" | "GIT_PAGER")
        || is_git_setting(name)
        || FIXED.iter().any(|(fixed, _)| *fixed == name)
}

fn changes_commands(name: &str) -> bool {
    CHANGES_COMMANDS.contains(&name) || name.starts_with(FUNCTIONS)
}

fn is_kept(name: &str, value: &str, redaction: &Redaction, is_strict: bool) -> bool {
    let upper = name.to_uppercase();
    let listed = |list: &[String]| list.iter().any(|entry| entry.eq_ignore_ascii_case(name));
    if OF_MAKE.contains(&name) && value.contains("--jobserver") {
        return false;
    }
    let is_secret = redaction.provider_keys.contains(name) || is_credential(&upper, value);
    if is_secret && !listed(&redaction.allowed) {
        return false;
    }
    if !redaction.enabled && !is_strict {
        return !listed(&redaction.blocked) || listed(&redaction.allowed);
    }
    // Upstream's order.
    if upper.starts_with("GEMINI_CLI_") {
        return true;
    }
    if holds_secret(value) {
        return false;
    }
    if upper.starts_with("GIT_CONFIG_") || listed(&redaction.allowed) {
        return true;
    }
    if listed(&redaction.blocked) {
        return false;
    }
    if ALWAYS_KEPT.contains(&upper.as_str()) {
        return true;
    }
    !NEVER_KEPT.contains(&upper.as_str())
        && !is_strict
        && !SECRET_WORDS.iter().any(|word| upper.contains(word))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_copy_of_a_key_is_removed_like_the_key() {
        let mut redaction = Redaction::default();
        redaction.provider_keys.add("MY_ODD");
        redaction.provider_keys.add("GEMINI_CLI_ODD");
        let env = env(&[
            ("MY_ODD", "a-key-of-a-provider"),
            ("GEMINI_CLI_ODD", "another-key-of-one"),
            ("COPY_OF", "a-key-of-a-provider"),
            ("LINE", "--header=another-key-of-one"),
            ("OTHER", "a-key"),
            ("GEMINI_CLI_X", "1"),
        ]);
        let names: Vec<String> = sanitised(&env, &redaction).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["GEMINI_CLI_X", "OTHER"]);
    }

    fn env(names: &[(&str, &str)]) -> Env {
        Env::new(names.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())), PathBuf::from("/"))
    }

    fn names(env: &Env, redaction: &Redaction) -> Vec<String> {
        sanitised(env, redaction).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn credentials_never_pass_even_when_redaction_is_off() {
        let env = env(&[
            ("GEMINI_API_KEY", "x"),
            ("GOOGLE_API_KEY", "x"),
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("CLIENT_SECRET", "x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=x"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=x"),
            ("PGPASSWORD", "x"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "x"),
            ("MYSQL_PWD", "x"),
            ("DATABASE_URL", "postgres://me:pw@db/x"),
            ("HTTPS_PROXY", "http://me:pw@proxy:3128"),
            ("DEPLOY", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----"),
            ("HTTP_PROXY", "http://proxy:3128"),
            ("PWD", "/w"),
            ("EDITOR", "vi"),
            ("SSH_AUTH_SOCK", "/s"),
        ]);
        assert_eq!(names(&env, &Redaction::default()), ["EDITOR", "HTTP_PROXY", "PWD", "SSH_AUTH_SOCK"]);
    }

    #[test]
    fn variables_of_model_providers_never_pass_whatever_they_are_called() {
        let mut redaction = Redaction::default();
        redaction.provider_keys.add("LAB_ACCESS");
        let env = env(&[
            ("LAB_ACCESS", "plain"),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-Key: plain"),
            ("GEMINI_CLI_CUSTOM_HEADERS", "X-Key: plain"),
            ("OPENAI_ORG_ID", "org"),
            ("POLLUX_LAB_API_KEY", "plain"),
            ("EDITOR", "vi"),
        ]);
        assert_eq!(names(&env, &redaction), ["EDITOR"]);
        let strict = Redaction { enabled: true, ..redaction.clone() };
        assert_eq!(names(&env, &strict), ["EDITOR"]);
        let allowed = Redaction { allowed: vec!["LAB_ACCESS".into()], ..redaction };
        assert_eq!(names(&env, &allowed), ["EDITOR", "LAB_ACCESS"]);
    }

    #[test]
    fn the_user_can_allow_a_credential_and_block_anything() {
        let env = env(&[("GITHUB_TOKEN", "x"), ("EDITOR", "vi"), ("PATH", "/bin")]);
        let redaction = Redaction {
            enabled: false,
            allowed: vec!["github_token".into()],
            blocked: vec!["EDITOR".into()],
            ..Redaction::default()
        };
        assert_eq!(names(&env, &redaction), ["GITHUB_TOKEN", "PATH"]);
    }

    #[test]
    fn redaction_removes_secret_words_listed_names_and_secret_values() {
        let env = env(&[
            ("MY_AUTH", "x"),
            ("DATABASE_URL", "x"),
            ("REMOTE", "https://user:pw@example.org/x"),
            ("PEM", "-----BEGIN RSA PRIVATE KEY-----\n"),
            ("JWT", "eyJhbGci.eyJzdWIi.c2lnbmF0dXJl"),
            ("GEMINI_CLI_HOME", "/h"),
            ("PATH", "/bin"),
            ("EDITOR", "vi"),
        ]);
        let redaction = Redaction { enabled: true, ..Redaction::default() };
        assert_eq!(names(&env, &redaction), ["EDITOR", "GEMINI_CLI_HOME", "PATH"]);
    }

    #[test]
    fn in_a_github_workflow_only_known_names_pass() {
        let env = env(&[("GITHUB_SHA", "abc"), ("EDITOR", "vi"), ("PATH", "/bin"), ("ISSUE_BODY", "text")]);
        assert_eq!(names(&env, &Redaction::default()), ["ISSUE_BODY", "PATH"]);
    }

    #[test]
    fn variables_that_change_command_lines_are_removed_for_commands_only() {
        let given: Vec<(&str, &str)> = CHANGES_COMMANDS
            .iter()
            .map(|name| (*name, "x"))
            .chain([("BASH_FUNC_ls%%", "() { :; }")])
            .collect();
        let env = env(&given);
        let child = for_command(&env, &Redaction::default(), "");
        let passed: Vec<_> = child.iter().filter(|(name, _)| given.iter().any(|(g, _)| g == name)).collect();
        assert!(passed.is_empty(), "{passed:?}");
        assert!(
            names(&env, &Redaction::default()).contains(&"BASH_ENV".to_owned()),
            "hooks are the user's own"
        );
    }

    #[test]
    fn an_outer_make_job_server_is_not_passed_on() {
        let env = env(&[("MAKEFLAGS", "-j8 --jobserver-auth=3,4"), ("CARGO_MAKEFLAGS", "-j")]);
        assert_eq!(names(&env, &Redaction::default()), ["CARGO_MAKEFLAGS"]);
    }

    #[test]
    fn a_command_gets_a_quiet_terminal_and_git() {
        let env = env(&[("PAGER", "less"), ("TERM", "dumb"), ("GIT_CONFIG_COUNT", "99"), ("HOME", "/h")]);
        let child = for_command(&env, &Redaction::default(), "");
        let get = |name: &str| {
            let mut found = child.iter().filter(|(n, _)| n == name);
            let value = found.next().map(|(_, value)| value.as_str());
            assert!(found.next().is_none(), "{name} is set twice");
            value
        };
        assert_eq!(get("PAGER"), Some("cat"));
        assert_eq!(get("TERM"), Some("xterm-256color"));
        assert_eq!(get("GEMINI_CLI"), Some("1"));
        assert_eq!(get("HOME"), Some("/h"));
        assert_eq!(get("GIT_CONFIG_COUNT"), Some("7"));
        assert_eq!(get("GIT_CONFIG_KEY_6"), Some("sequence.editor"));
        assert_eq!(get("GIT_TERMINAL_PROMPT"), Some("0"));
    }
}
