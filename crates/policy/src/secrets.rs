//! Files that usually contain secrets; reading them for the model needs approval.

pub(crate) use pollux_domain::secret_names::{is_private_folder, is_secret_name, samples, secret_part};

/// Whether the configuration of a git repository contains credentials: a password in a URL, or a header.
pub(crate) fn config_holds_credentials(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim().to_ascii_lowercase();
        holds_login(&line)
            || ["extraheader", "token", "password", "secret"].iter().any(|word| line.contains(word))
    })
}

/// Whether a text contains a URL with a login. `ssh://git@host` names a user, not a secret.
pub(crate) fn holds_login(text: &str) -> bool {
    text.split("://").skip(1).zip(text.split("://")).any(|(rest, before)| {
        let host = rest.split('/').next().unwrap_or_default();
        host.contains('@') && !(before.to_ascii_lowercase().ends_with("ssh") && host.starts_with("git@"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_file_names_are_distinguished_from_examples() {
        for name in
            [".env", ".ENV", ".env.local", ".envrc", "id_rsa", "server.pem", "gha-creds-1.json", ".pgpass"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [".env.example", ".env.sample", "env", "main.rs", "id_rsa.pub", "keys.md"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn every_sample_is_a_secret() {
        assert_eq!(samples().filter(|name| !is_secret_name(name)).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn a_url_with_a_password_is_a_secret() {
        assert!(config_holds_credentials("[remote \"o\"]\n\turl = https://me:tok@host/x.git"));
        assert!(config_holds_credentials("url = https://ghp_abc@host/x.git"));
        assert!(config_holds_credentials("[http]\n\textraHeader = AUTHORIZATION: basic x"));
        for open in ["url = https://host/x.git", "url = git@host:a/b.git", "url = ssh://git@host/a.git"] {
            assert!(!config_holds_credentials(open), "{open}");
        }
    }
}
