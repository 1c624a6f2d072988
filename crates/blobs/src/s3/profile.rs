//! Keys and the region in the files of AWS's command line.

use std::path::{Path, PathBuf};

use pollux_config::env::Env;
use pollux_config::files::{self, FileError};
use pollux_config::groups::Secret;

use super::sign::AwsKeys;

/// What the files say of one profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) keys: Option<AwsKeys>,
    pub(super) region: Option<String>,
    /// Way of getting keys that is not supported, by the name of its setting.
    pub(super) unsupported: Option<&'static str>,
    /// Whether the profile is there at all.
    pub(super) exists: bool,
}

const UNSUPPORTED: &[&str] =
    &["role_arn", "sso_session", "sso_start_url", "credential_process", "login_session"];

/// Reads `~/.aws/credentials` and `~/.aws/config`, or the files that the variables name.
pub(super) fn read(env: &Env, user_home: &Path, name: &str) -> Result<Profile, FileError> {
    let place = |variable: &str, usual: &str| -> PathBuf {
        env.non_empty(variable)
            .map_or_else(|| user_home.join(".aws").join(usual), |path| env.cwd().join(path))
    };
    let credentials = files::read_text(&place("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
    let config = files::read_text(&place("AWS_CONFIG_FILE", "config"))?;
    let mut settings = Vec::new();
    let mut exists = false;
    let sections = [(credentials, name.to_owned()), (config, config_section(name))];
    for (text, section) in sections {
        if let Some(found) = text.as_deref().and_then(|text| section_of(text, &section)) {
            exists = true;
            settings.extend(found);
        }
    }
    let value = |wanted: &str| settings.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone());
    let keys = value("aws_access_key_id").zip(value("aws_secret_access_key")).map(|(id, secret)| AwsKeys {
        id,
        secret: Secret::new(secret),
        token: value("aws_session_token").map(Secret::new),
    });
    let unsupported = UNSUPPORTED.iter().copied().find(|key| value(key).is_some());
    Ok(Profile { keys, region: value("region"), unsupported, exists })
}

/// Other profiles than the default one have a word before their name in the file for settings.
fn config_section(name: &str) -> String {
    if name == "default" { name.to_owned() } else { format!("profile {name}") }
}

/// The settings of one section; nested ones are left out.
fn section_of(text: &str, name: &str) -> Option<Vec<(String, String)>> {
    let mut found = None;
    let mut inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = trimmed.strip_prefix('[') {
            let title = header.split(']').next().unwrap_or_default();
            inside = title.split_whitespace().eq(name.split_whitespace());
            if inside {
                found.get_or_insert_with(Vec::new);
            }
            continue;
        }
        let is_nested = line.starts_with([' ', '\t']);
        if let (true, false, Some((key, value))) = (inside, is_nested, trimmed.split_once('=')) {
            let value = value.split(" #").next().unwrap_or_default();
            let pair = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
            found.get_or_insert_with(Vec::new).push(pair);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_put_together_from_both_files() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".aws");
        let write = |name: &str, text: &str| {
            files::replace(&folder.join(name), text.as_bytes(), files::Mode::Private).unwrap();
        };
        write(
            "credentials",
            "[default]\naws_access_key_id = D\naws_secret_access_key=ds\n# no\n[ work ]\naws_access_key_id=W\n\
             aws_secret_access_key=a=b/c\naws_session_token = t\n",
        );
        write(
            "config",
            "[default]\nregion=us-west-1\n[profile work]\ns3 =\n  region = nested\nregion = eu-1 # here\n\
             [profile sso]\nsso_session = x\n",
        );
        let env = Env::new([], home.path().to_owned());
        let work = read(&env, home.path(), "work").unwrap();
        let keys = work.keys.clone().unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.reveal()), ("W", "a=b/c"));
        assert_eq!((keys.token.unwrap().reveal(), work.region.as_deref()), ("t", Some("eu-1")));
        assert!(!format!("{work:?}").contains("a=b/c"));
        let default = read(&env, home.path(), "default").unwrap();
        assert_eq!((default.keys.unwrap().id.as_str(), default.region.as_deref()), ("D", Some("us-west-1")));
        assert_eq!(read(&env, home.path(), "sso").unwrap().unsupported, Some("sso_session"));
        assert!(!read(&env, home.path(), "other").unwrap().exists);
    }
}
