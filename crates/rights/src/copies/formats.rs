//! What stays of the settings of package managers.

use pollux_domain::redact::find;

const OF_NPM: &[&str] = &[
    "audit",
    "auto-install-peers",
    "ca",
    "ca[]",
    "cafile",
    "engine-strict",
    "fetch-retries",
    "fetch-timeout",
    "fund",
    "legacy-peer-deps",
    "link-workspace-packages",
    "loglevel",
    "node-linker",
    "noproxy",
    "package-lock",
    "prefer-offline",
    "progress",
    "registry",
    "save-exact",
    "save-prefix",
    "shamefully-hoist",
    "strict-peer-dependencies",
    "strict-ssl",
    "update-notifier",
];
const OF_PIP: &[&str] = &[
    "break-system-packages",
    "cert",
    "disable-pip-version-check",
    "extra-index-url",
    "find-links",
    "index",
    "index-url",
    "no-index",
    "only-binary",
    "prefer-binary",
    "require-virtualenv",
    "retries",
    "timeout",
    "trusted-host",
];
const OF_YARN: &[&str] = &[
    "compressionLevel",
    "enableGlobalCache",
    "enableTelemetry",
    "httpsCaFilePath",
    "nodeLinker",
    "npmAlwaysAuth",
    "npmPublishRegistry",
    "npmRegistryServer",
    "unsafeHttpWhitelist",
];
const OF_GRADLE: &[&str] = &[
    "org.gradle.caching",
    "org.gradle.configuration-cache",
    "org.gradle.console",
    "org.gradle.daemon",
    "org.gradle.jvmargs",
    "org.gradle.parallel",
    "org.gradle.vfs.watch",
    "org.gradle.warning.mode",
    "org.gradle.workers.max",
    "systemProp.http.nonProxyHosts",
];
/// Elements of mirrors, and nothing that can hold a password.
const OF_MAVEN: &[&str] =
    &["blocked", "id", "layout", "mirror", "mirrorOf", "mirrorOfLayouts", "name", "url"];
const PROXIES_OF_GRADLE: &[&str] = &[
    "systemProp.http.proxyHost",
    "systemProp.http.proxyPort",
    "systemProp.https.proxyHost",
    "systemProp.https.proxyPort",
];
const OF_CONDA: &[&str] = &[
    "always_yes",
    "auto_activate_base",
    "auto_update_conda",
    "channel_alias",
    "channel_priority",
    "channels",
    "custom_channels",
    "default_channels",
    "solver",
    "ssl_verify",
];

/// Parts of a path before a token.
const TOKEN_FOLLOWS: &[&str] = &["t", "token", "tokens"];

/// `key = value` lines.
pub(super) fn npm(text: &str) -> String {
    kept(text, |line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim();
        let is_scope = key.starts_with('@') && key.ends_with(":registry");
        (is_scope || OF_NPM.contains(&key)).then(|| setting(&format!("{key}="), value)).flatten()
    })
}

/// `key = value` in sections; a value may go on in lines that are indented.
pub(super) fn pip(text: &str) -> String {
    let mut is_kept = false;
    kept(text, |line| {
        if line.starts_with('[') {
            is_kept = false;
            return Some(line.to_owned());
        }
        if line.starts_with(char::is_whitespace) {
            return is_kept.then(|| setting("    ", line)).flatten();
        }
        let (key, value) = line.split_once(['=', ':'])?;
        let is_known = OF_PIP.contains(&key.trim().replace('_', "-").as_str());
        let line = is_known.then(|| setting(&format!("{} = ", key.trim()), value)).flatten();
        is_kept = line.is_some();
        line
    })
}

/// YAML: keys that are known, and names of scopes.
pub(super) fn yarn(text: &str) -> String {
    kept(text, |line| {
        let (key, value) = line.split_once(':')?;
        let name = key.trim().trim_matches(['"', '\'']);
        let is_scope = value.trim().is_empty() && (name == "npmScopes" || key.starts_with(' '));
        let is_known = is_scope || OF_YARN.contains(&name);
        is_known.then(|| setting(&format!("{key}: "), value)).flatten()
    })
}

/// Only the mirrors and the local repository: passwords are in `servers`, and profiles may hold anything.
pub(super) fn maven(text: &str) -> String {
    let text = without_comments(&text.replace("\r\n", "\n"));
    let part = |name: &str, elements: &[&str]| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let inner = text.split_once(&open)?.1.split_once(&close)?.0;
        let mut tags = inner.split('<').skip(1);
        let is_known = tags.all(|tag| {
            let name = tag.split_once('>').map(|(name, _)| name.trim_start_matches('/'));
            name.is_some_and(|name| elements.contains(&name))
        });
        let is_safe = is_known && without_user(inner) == inner && is_plain(inner);
        is_safe.then(|| format!("{open}{inner}{close}\n"))
    };
    let parts = [("localRepository", &[][..]), ("offline", &[][..]), ("mirrors", OF_MAVEN)];
    let parts: String = parts.into_iter().filter_map(|(name, elements)| part(name, elements)).collect();
    format!("<settings>\n{parts}</settings>\n")
}

/// XML without comments, which can contain what was a setting.
fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        clean.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    clean + rest
}

/// `key=value` lines. A setting that goes on in the next line is left out.
pub(super) fn gradle(text: &str) -> String {
    let is_comment = |line: &str| line.trim_start().starts_with(['#', '!']);
    let mut goes_on = false;
    let whole = text.lines().filter(|line| {
        let is_rest = goes_on;
        let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
        goes_on = backslashes % 2 == 1 && (is_rest || !is_comment(line));
        !is_rest && !goes_on
    });
    let whole: Vec<&str> = whole.collect();
    kept(&whole.join("\n"), |line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim();
        // Properties of the virtual machine can be passwords.
        let is_harmless = !value.contains("-D");
        ((OF_GRADLE.contains(&key) || PROXIES_OF_GRADLE.contains(&key)) && is_harmless)
            .then(|| setting(&format!("{key}="), value))
            .flatten()
    })
}

/// YAML: keys that are known, with their lists.
pub(super) fn conda(text: &str) -> String {
    let (mut is_kept, mut is_dropped) = (false, false);
    kept(text, |line| {
        if !line.starts_with([' ', '-']) {
            is_kept = line.split_once(':').is_some_and(|(key, _)| OF_CONDA.contains(&key.trim()));
        }
        // What follows a line that was left out, and is no item of its own, belongs to it.
        let item = line.trim_start();
        let is_rest = is_dropped && !item.starts_with('-') && !item.contains(": ") && !item.ends_with(':');
        let line = (is_kept && !is_rest).then(|| setting("", line)).flatten();
        is_dropped = line.is_none();
        line
    })
}

/// The lines that stay. Comments can contain what was a setting.
fn kept(text: &str, mut keep: impl FnMut(&str) -> Option<String>) -> String {
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ';']));
    lines.filter_map(|line| keep(line).map(|line| line + "\n")).collect()
}

/// A setting whose value has no secret. A user in an address is removed.
fn setting(before: &str, value: &str) -> Option<String> {
    let value = without_user(value);
    let value = if before.trim().is_empty() { value.as_str() } else { value.trim() };
    // Escapes could stand for any character; certificates contain the ends of their lines.
    let is_escaped = value.replace("\\n", "").contains('\\') || (value.contains("//") && value.contains('%'));
    (is_plain(value) && !is_escaped).then(|| format!("{before}{value}"))
}

/// Whether nothing in a text looks like a secret, and no address in it has a part that is often one.
pub(super) fn is_plain(text: &str) -> bool {
    let is_git = |before: &str| before.is_empty() || before.ends_with("://");
    let mut users = text.match_indices('@').map(|(at, _)| text.get(..at).unwrap_or_default());
    let has_user = users.any(|before| !before.strip_suffix("git").is_some_and(is_git));
    // Some servers take a token as a part of the path: `/t/<token>/`.
    let mut parts = text.split(['/', '\\']);
    let has_token = text.contains(['/', '\\'])
        && parts.any(|part| TOKEN_FOLLOWS.iter().any(|name| part.trim().eq_ignore_ascii_case(name)));
    let is_odd = |c: char| matches!(c, '?' | '#') || (c.is_control() && !matches!(c, '\t' | '\n'));
    !has_user && !has_token && !text.contains(is_odd) && find(text).is_empty()
}

/// A text whose addresses have no user and no password, except `git@`.
pub(super) fn without_user(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end =
            after.find(|c: char| c == '/' || c.is_whitespace() || "\"'<,".contains(c)).unwrap_or(after.len());
        let (authority, beyond) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) if user != "git" => clean.push_str(host),
            _ => clean.push_str(authority),
        }
        rest = beyond;
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_stay_and_tokens_go() {
        let npmrc = "registry=https://npm.corp.example/\n@corp:registry = https://u:SECRET@npm.corp.example/corp/\n\
                     //npm.corp.example/:_authToken=SECRET\n_auth=SECRET\nemail=a@b\n# registry=SECRET\nstrict-ssl=false\n\
                     key=\"-----BEGIN SECRET\"\nproxy=http://u:SECRET@proxy\n";
        assert_eq!(
            npm(npmrc),
            "registry=https://npm.corp.example/\n@corp:registry=https://npm.corp.example/corp/\nstrict-ssl=false\n"
        );
        let conf = "[global]\nindex-url = https://SECRET@pypi.corp.example/simple\nextra-index-url =\n    https://x.example/s\n    \
                    https://u:SECRET@y.example/s\nproxy = http://u:SECRET@p\nkeyring-provider = x\n  SECRET\n[install]\ntrusted_host: a\n";
        assert_eq!(
            pip(conf),
            "[global]\nindex-url = https://pypi.corp.example/simple\nextra-index-url = \n        https://x.example/s\n        \
             https://y.example/s\n[install]\ntrusted_host = a\n"
        );
        let yarnrc = "npmRegistryServer: \"https://npm.corp.example\"\nnpmAuthToken: SECRET\nnpmScopes:\n  corp:\n    \
                      npmRegistryServer: https://c.example\n    npmAuthToken: SECRET\n    npmAuthIdent: SECRET\nnodeLinker: pnp\n";
        assert_eq!(
            yarn(yarnrc),
            "npmRegistryServer: \"https://npm.corp.example\"\nnpmScopes: \n  corp: \n    npmRegistryServer: https://c.example\nnodeLinker: pnp\n"
        );
        let settings = "<settings><servers><server><password>SECRET</password></server></servers>\
                        <mirrors><mirror><id>m</id><url>https://maven.corp.example</url></mirror></mirrors></settings>";
        let scrubbed = maven(settings);
        assert!(
            scrubbed.contains("https://maven.corp.example") && !scrubbed.contains("SECRET"),
            "{scrubbed}"
        );
        assert!(!maven("<mirrors><url>https://u:SECRET@x/</url></mirrors>").contains("mirrors"));
        let properties = "org.gradle.parallel=true\nnexusPassword=SECRET\norg.gradle.jvmargs=-Xmx2g -Dp=SECRET\nsystemProp.https.proxyHost=p\n";
        assert_eq!(gradle(properties), "org.gradle.parallel=true\nsystemProp.https.proxyHost=p\n");
        let condarc = "channels:\n  - https://conda.corp.example/main\n  - https://conda.corp.example/t/SECRET/x\nproxy_servers:\n  http: http://u:SECRET@p\nssl_verify: true\n";
        assert_eq!(conda(condarc), "channels:\n  - https://conda.corp.example/main\nssl_verify: true\n");
    }

    #[test]
    fn users_are_removed_from_addresses() {
        for (text, clean) in [
            ("https://a/b", "https://a/b"),
            ("https://u:p@a/b", "https://a/b"),
            ("x https://t@a https://u:p@b/", "x https://a https://b/"),
            ("ssh://git@a/b", "ssh://git@a/b"),
            ("https://a/b@c", "https://a/b@c"),
            ("https://u:p@x@a/b", "https://a/b"),
        ] {
            assert_eq!(without_user(text), clean);
        }
    }

    #[test]
    fn no_way_to_write_a_secret_into_an_address_comes_through() {
        let of_npm = [
            "registry=https://h/?token=SECRET",
            "registry=https://h/?x=SECRET",
            "registry=https://h/#SECRET",
            "@c:registry=//u:SECRET@h/",
            "registry=https:\\\\u:SECRET@h",
            "registry=https://u:SE/SECRET@h",
            "registry=\"https://u:SECRET\\u0040h\"",
            "registry=https://h/%74/SECRET/",
            "noproxy=u:SECRET@x",
        ];
        for line in of_npm {
            assert_eq!(npm(line), "", "{line}");
        }
        assert_eq!(npm("registry=https://h/a\n"), "registry=https://h/a\n");
        for path in ["/T/SECRET/x", "/t/SECRET", "/token/SECRET/"] {
            let condarc = format!("channels:\n  - https://h{path}\n  - b\nchannel_alias: https://h{path}\n");
            assert_eq!(conda(&condarc), "channels:\n  - b\n", "{path}");
        }
        assert_eq!(conda("channel_alias: \"https://h/t/\n  SECRET\"\nsolver: x\n"), "solver: x\n");
        let conf = "[global]\nindex-url = https://h/?SECRET\n    SECRET\nretries = 1\n";
        assert_eq!(pip(conf), "[global]\nretries = 1\n");
        for line in ["systemProp.http.proxyHost=u:SECRET@h", "systemProp.http.SECRET.proxyHost=h"] {
            assert_eq!(gradle(line), "", "{line}");
        }
    }

    #[test]
    fn comments_and_passwords_of_maven_stay_out() {
        let mirrors = |inner: &str| format!("<mirrors><mirror><id>m</id>{inner}</mirror></mirrors>");
        let real = mirrors("<url>https://real.example</url>");
        let text = format!("<settings><!-- {} -->{real}</settings>", mirrors("<url>SECRET</url>"));
        assert_eq!(maven(&text), format!("<settings>\n{real}\n</settings>\n"));
        for inner in ["<!-- SECRET -->", "<!-- SECRET"] {
            assert!(!maven(&mirrors(inner)).contains("SECRET"), "{inner}");
        }
        for inner in ["<password>SECRET</password>", "<url a=\"SECRET\">x</url>", "<![CDATA[SECRET]]>"] {
            assert!(!maven(&mirrors(inner)).contains("mirrors"), "{inner}");
        }
    }

    #[test]
    fn a_setting_of_gradle_in_several_lines_stays_out_as_a_whole() {
        let continued = "org.gradle.jvmargs=-Xmx2g \\\n  -Dx=SECRET \\\n#SECRET\norg.gradle.daemon=true\n";
        assert_eq!(gradle(continued), "org.gradle.daemon=true\n");
        // The second line is not a setting.
        assert_eq!(gradle("nexusPassword=\\\norg.gradle.console=SECRET\n"), "");
        assert_eq!(gradle("# note \\\norg.gradle.console=plain\n"), "org.gradle.console=plain\n");
    }
}
