//! The environment that points programs at the proxy.

use crate::server::ProxyAddress;

/// Where programs inside the sandbox find the proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    port: u16,
    token: Option<String>,
}

impl Endpoint {
    /// A listener inside the namespace, which needs no token.
    pub fn inside(port: u16) -> Self {
        Self { port, token: None }
    }

    /// A proxy that listens on loopback itself; `None` for one on a Unix socket or on handed listeners, which only a listener inside the
    /// namespace can offer to programs.
    pub fn of(address: &ProxyAddress) -> Option<Self> {
        match address {
            ProxyAddress::Unix(_) | ProxyAddress::Handed => None,
            ProxyAddress::Loopback { port, token } => Some(Self { port: *port, token: Some(token.clone()) }),
        }
    }

    fn authority(&self) -> String {
        // Python sends a user only together with a password, so there is one that means nothing.
        let user = self.token.as_ref().map(|token| format!("{token}:x@")).unwrap_or_default();
        format!("{user}127.0.0.1:{}", self.port)
    }
}

/// What depends on the command rather than on the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForCommand<'a> {
    /// The name of the program, if it is known.
    pub program: Option<&'a str>,
    /// For git over ssh.
    pub ssh: Option<SshConnector<'a>>,
}

/// How ssh reaches its host: a program that connects its standard streams through the proxy, and a copy of the known
/// hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshConnector<'a> {
    /// The program with its arguments; host and port are added.
    pub command: &'a [&'a str],
    pub known_hosts: &'a str,
}

/// Programs of the JVM, which read no proxy variables. Only they get `JAVA_TOOL_OPTIONS`: any other Java program
/// would print a line about it.
const JVM: &[&str] = &["java", "gradle", "gradlew", "mvn", "mvnw"];

/// Own loopback is reached directly.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// The variables for a command. They replace those of the user's own proxy, which is used by ours.
pub fn variables(endpoint: &Endpoint, command: &ForCommand<'_>) -> Vec<(String, String)> {
    let authority = endpoint.authority();
    let (http, socks) = (format!("http://{authority}"), format!("socks5h://{authority}"));
    let mut found: Vec<(&str, String)> = Vec::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        found.push((name, http.clone()));
    }
    for name in ["ALL_PROXY", "all_proxy"] {
        found.push((name, socks.clone()));
    }
    for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
        found.push((name, NO_PROXY.to_owned()));
    }
    for name in [
        "npm_config_proxy",
        "npm_config_https_proxy",
        "YARN_HTTP_PROXY",
        "YARN_HTTPS_PROXY",
        "CARGO_HTTP_PROXY",
    ] {
        found.push((name, http.clone()));
    }
    found.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    found.push(("CARGO_NET_GIT_FETCH_WITH_CLI", "true".to_owned()));
    if let Some(ssh) = &command.ssh {
        found.push(("GIT_SSH_COMMAND", ssh_command(ssh)));
    }
    if command.program.is_some_and(|program| JVM.contains(&program)) {
        let options = jvm_options(endpoint);
        for name in ["JAVA_TOOL_OPTIONS", "GRADLE_OPTS", "MAVEN_OPTS"] {
            found.push((name, options.clone()));
        }
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl SshConnector<'_> {
    /// The value of ssh's `ProxyCommand`.
    pub fn proxy_command(&self) -> String {
        let words: Vec<String> =
            self.command.iter().map(|word| shell_word(word).replace('%', "%%")).collect();
        format!("{} %h %p", words.join(" "))
    }
}

fn ssh_command(ssh: &SshConnector<'_>) -> String {
    let connect = format!("ProxyCommand={}", ssh.proxy_command());
    let known = format!("UserKnownHostsFile={}", ssh.known_hosts);
    format!("ssh -o {} -o {}", shell_word(&connect), shell_word(&known))
}

/// A text as one word for a shell.
fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-=".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn jvm_options(endpoint: &Endpoint) -> String {
    let mut options = Vec::new();
    for scheme in ["http", "https"] {
        options.push(format!("-D{scheme}.proxyHost=127.0.0.1"));
        options.push(format!("-D{scheme}.proxyPort={}", endpoint.port));
        if let Some(token) = &endpoint.token {
            options.push(format!("-D{scheme}.proxyUser={token} -D{scheme}.proxyPassword=x"));
        }
    }
    if endpoint.token.is_some() {
        // Java refuses to send a user to the proxy of an https connection unless told otherwise.
        options.push("-Djdk.http.auth.tunneling.disabledSchemes=".to_owned());
    }
    options.push("-Dhttp.nonProxyHosts=localhost|127.0.0.1|[::1]".to_owned());
    options.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(found: &[(String, String)], name: &str) -> Option<String> {
        found.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn programs_are_pointed_at_the_listener_inside() {
        let found = variables(&Endpoint::inside(3128), &ForCommand::default());
        for name in ["HTTP_PROXY", "https_proxy", "npm_config_proxy", "YARN_HTTPS_PROXY", "CARGO_HTTP_PROXY"]
        {
            assert_eq!(value(&found, name).as_deref(), Some("http://127.0.0.1:3128"), "{name}");
        }
        assert_eq!(value(&found, "ALL_PROXY").as_deref(), Some("socks5h://127.0.0.1:3128"));
        assert_eq!(value(&found, "no_proxy").as_deref(), Some("localhost,127.0.0.1,::1"));
        assert_eq!(value(&found, "NODE_USE_ENV_PROXY").as_deref(), Some("1"));
        for name in ["JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "GOFLAGS", "SSL_CERT_FILE"] {
            assert_eq!(value(&found, name), None, "{name}");
        }
        let mut names: Vec<&String> = found.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), found.len(), "each variable once");
    }

    #[test]
    fn a_token_stands_in_the_user_part() {
        let address = ProxyAddress::Loopback { port: 5000, token: "t0k".to_owned() };
        let endpoint = Endpoint::of(&address).unwrap();
        let found = variables(&endpoint, &ForCommand { program: Some("mvn"), ssh: None });
        assert_eq!(value(&found, "HTTPS_PROXY").as_deref(), Some("http://t0k:x@127.0.0.1:5000"));
        assert_eq!(value(&found, "all_proxy").as_deref(), Some("socks5h://t0k:x@127.0.0.1:5000"));
        let java = value(&found, "MAVEN_OPTS").unwrap();
        assert!(java.contains("-Dhttps.proxyPort=5000") && java.contains("-Dhttp.proxyUser=t0k"), "{java}");
        assert!(Endpoint::of(&ProxyAddress::Unix("/run/x".into())).is_none());
    }

    #[test]
    fn ssh_goes_through_the_connector() {
        let ssh = SshConnector {
            command: &["/run/pollux/it's", "__connect"],
            known_hosts: "/run/pollux/known_hosts",
        };
        let found = variables(&Endpoint::inside(3128), &ForCommand { program: Some("git"), ssh: Some(ssh) });
        let command = value(&found, "GIT_SSH_COMMAND").unwrap();
        let out = std::process::Command::new("sh")
            .args(["-c", &format!("printf '<%s>' {command}")])
            .output()
            .unwrap();
        let words = String::from_utf8(out.stdout).unwrap();
        let expected = r"<ssh><-o><ProxyCommand='/run/pollux/it'\''s' __connect %h %p><-o><UserKnownHostsFile=/run/pollux/known_hosts>";
        assert_eq!(words, expected);
    }
}
