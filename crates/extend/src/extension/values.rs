//! Values of an extension's settings: `.env` files for plain values, the credential store for secrets.

use std::path::{Path, PathBuf};

use pollux_config::dotenv;
use pollux_config::files::{self, FileError, FileLock, LockError, Mode};
use pollux_config::groups::Secret;

use super::manifest::{Setting, is_variable};

/// The file's name, in the extension's folder and in a workspace.
const FILE: &str = ".env";

/// The scope of a value; the workspace's takes precedence over the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueScope {
    User,
    Workspace,
}

impl ValueScope {
    /// The word in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Workspace => "Workspace",
        }
    }
}

/// Where the values of one extension are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePlaces {
    user_file: PathBuf,
    service: String,
    /// `None` where the folder is not trusted.
    workspace: Option<PathBuf>,
}

/// A setting and its value.
#[derive(Debug, Clone)]
pub struct SetValue {
    pub setting: Setting,
    pub value: Option<(Secret, ValueScope)>,
}

/// Looks a secret up: service and variable.
pub type Secrets<'a> = dyn Fn(&str, &str) -> Option<Secret> + 'a;

/// An empty secret store, for callers that need no secrets.
pub fn no_secrets(_service: &str, _variable: &str) -> Option<Secret> {
    None
}

/// Why a value was not written.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    #[error(
        "Invalid environment variable name: \"{name}\". Must contain only alphanumeric characters and underscores."
    )]
    Name { name: String },
    #[error("Invalid environment variable value for \"{name}\". Values cannot contain newlines.")]
    Newline { name: String },
    #[error("Cannot write extension settings to {} because it is a directory.", file.display())]
    Folder { file: PathBuf },
    #[error("workspace values need a trusted folder")]
    NoWorkspace,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ValuePlaces {
    /// Variables of the extension's file that would change where model requests are sent and are no settings of it.
    pub(super) fn addresses(&self, settings: &[Setting]) -> Vec<String> {
        let names = assignments(&self.user_file).into_iter().map(|set| set.name);
        let is_setting = |name: &String| settings.iter().any(|setting| setting.variable == *name);
        names.filter(|name| dotenv::is_address(name) && !is_setting(name)).collect()
    }

    /// Of the extension in a folder; the names are upstream's.
    pub fn new(folder: &Path, name: &str, id: &str, workspace: Option<&Path>) -> Self {
        Self {
            user_file: folder.join(FILE),
            service: format!("Gemini CLI Extensions {name} {id}"),
            workspace: workspace.map(Path::to_path_buf),
        }
    }

    /// The file for plain values.
    pub fn file(&self, scope: ValueScope) -> Result<PathBuf, ValueError> {
        match (scope, &self.workspace) {
            (ValueScope::User, _) => Ok(self.user_file.clone()),
            (ValueScope::Workspace, Some(workspace)) => Ok(workspace.join(FILE)),
            (ValueScope::Workspace, None) => Err(ValueError::NoWorkspace),
        }
    }

    /// The name under which the credential store contains secrets.
    pub fn service(&self, scope: ValueScope) -> Result<String, ValueError> {
        match (scope, &self.workspace) {
            (ValueScope::User, _) => Ok(self.service.clone()),
            (ValueScope::Workspace, Some(workspace)) => {
                Ok(format!("{} {}", self.service, workspace.display()))
            }
            (ValueScope::Workspace, None) => Err(ValueError::NoWorkspace),
        }
    }

    /// Every setting with its value. Secrets are looked up only if there are such settings.
    pub fn read(&self, settings: &[Setting], secrets: &Secrets<'_>) -> Vec<SetValue> {
        if settings.is_empty() {
            return Vec::new();
        }
        let scopes = [ValueScope::Workspace, ValueScope::User];
        let files: Vec<(ValueScope, Vec<dotenv::Assignment>)> = scopes
            .into_iter()
            .filter_map(|scope| Some((scope, assignments(&self.file(scope).ok()?))))
            .collect();
        let plain = |setting: &Setting| {
            files.iter().find_map(|(scope, found)| {
                let found = found.iter().find(|found| found.name == setting.variable)?;
                Some((Secret::new(found.value.clone()), *scope))
            })
        };
        let secret = |setting: &Setting| {
            scopes
                .into_iter()
                .find_map(|scope| Some((secrets(&self.service(scope).ok()?, &setting.variable)?, scope)))
        };
        let value = |setting: &Setting| match setting.sensitive {
            true => secret(setting),
            false => plain(setting),
        };
        settings.iter().map(|setting| SetValue { value: value(setting), setting: setting.clone() }).collect()
    }

    /// Writes or removes a plain value; the rest of the file is preserved.
    pub fn write(&self, scope: ValueScope, variable: &str, value: Option<&str>) -> Result<(), ValueError> {
        let file = self.file(scope)?;
        let line = match value {
            Some(value) => Some(line(variable, value)?),
            None => None,
        };
        if file.is_dir() {
            return Err(ValueError::Folder { file });
        }
        if line.is_none() && !file.exists() {
            return Ok(());
        }
        let _lock = FileLock::acquire(&file)?;
        let text = files::read_text(&file)?.unwrap_or_default();
        let text = replaced(&text, variable, line.as_deref());
        Ok(files::replace(&file, text.as_bytes(), Mode::Private)?)
    }
}

/// `NAME=value`, quoted so that all parsers of such files read the same value.
fn line(name: &str, value: &str) -> Result<String, ValueError> {
    if !is_variable(name) {
        return Err(ValueError::Name { name: name.to_owned() });
    }
    if value.contains(['\n', '\r']) {
        return Err(ValueError::Newline { name: name.to_owned() });
    }
    let bare = !value.contains([' ', '\t', '#', '"', '\'', '`']);
    Ok(if bare {
        format!("{name}={value}")
    } else if !value.contains(['"', '\\']) {
        format!("{name}=\"{value}\"")
    } else if !value.contains('\'') {
        // Within these nothing is an escape.
        format!("{name}='{value}'")
    } else if !value.contains('`') {
        format!("{name}=`{value}`")
    } else {
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    })
}

/// The text without the lines of a variable, and with a new one in place of the last.
fn replaced(text: &str, name: &str, line: Option<&str>) -> String {
    let old = dotenv::parse(text).into_iter().find(|found| found.name == name);
    let is_old = |candidate: &str| dotenv::parse(candidate).first().is_some_and(|found| found.name == name);
    let mut kept: Vec<&str> = Vec::new();
    let mut lines = text.lines().peekable();
    let mut place = None;
    while let Some(candidate) = lines.next() {
        if !is_old(candidate) {
            kept.push(candidate);
            continue;
        }
        place = Some(kept.len());
        // A quoted value may span several lines.
        let mut whole = candidate.to_owned();
        let complete = |whole: &str| {
            old.as_ref()
                .is_none_or(|old| dotenv::parse(whole).first().is_some_and(|one| one.value == old.value))
        };
        while !complete(&whole) && lines.peek().is_some_and(|next| !next.contains('=')) {
            whole.push('\n');
            whole.push_str(lines.next().unwrap_or_default());
        }
    }
    if let Some(line) = line {
        kept.insert(place.unwrap_or(kept.len()), line);
    }
    let mut text = kept.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn assignments(file: &Path) -> Vec<dotenv::Assignment> {
    files::read_text(file).ok().flatten().map(|text| dotenv::parse(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(variable: &str, sensitive: bool) -> Setting {
        Setting {
            name: variable.to_lowercase(),
            description: String::new(),
            variable: variable.into(),
            sensitive,
        }
    }

    #[test]
    fn values_are_read_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let places = ValuePlaces::new(dir.path(), "x", "id", None);
        let all = ["plain", "two words", "a#b", "C:\\new dir", "say \"hi\" now", "it's \"so\"", "$A=b", ""];
        for value in all {
            places.write(ValueScope::User, "A", Some(value)).unwrap();
            places.write(ValueScope::User, "B", Some("other")).unwrap();
            let read = places.read(&[setting("A", false)], &no_secrets);
            assert_eq!(read[0].value.as_ref().unwrap().0.reveal(), value);
        }
        assert!(matches!(places.write(ValueScope::User, "A", Some("a\nb")), Err(ValueError::Newline { .. })));
        assert!(matches!(places.write(ValueScope::User, "A B", Some("")), Err(ValueError::Name { .. })));
        places.write(ValueScope::User, "A", None).unwrap();
        let text = files::read_text(&dir.path().join(".env")).unwrap().unwrap();
        assert_eq!(text, "B=other\n");
    }

    #[test]
    fn other_content_of_the_file_is_preserved() {
        let old = "# mine\nX=1\nA=\"one\ntwo\"\nexport Y=2\nA=three\n";
        assert_eq!(
            replaced(old, "A", Some("A=new")),
            "# mine\nX=1\ntwo\"\nexport Y=2\nA=new\n".replace("two\"\n", "")
        );
        assert_eq!(replaced("X=1", "A", Some("A=n")), "X=1\nA=n\n");
        assert_eq!(replaced("A=1\n", "A", None), "");
    }

    #[test]
    fn a_workspace_value_goes_first_and_secrets_come_from_the_store() {
        let (dir, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let places = ValuePlaces::new(dir.path(), "x", "id", Some(work.path()));
        places.write(ValueScope::User, "A", Some("user")).unwrap();
        places.write(ValueScope::Workspace, "A", Some("workspace")).unwrap();
        places.write(ValueScope::User, "TOKEN", Some("in the wrong place")).unwrap();
        let store = |service: &str, variable: &str| {
            (service == "Gemini CLI Extensions x id" && variable == "TOKEN").then(|| Secret::new("hush"))
        };
        let read =
            places.read(&[setting("A", false), setting("TOKEN", true), setting("NONE", false)], &store);
        let shown: Vec<Option<(&str, ValueScope)>> = read
            .iter()
            .map(|read| read.value.as_ref().map(|(value, scope)| (value.reveal(), *scope)))
            .collect();
        assert_eq!(
            shown,
            [Some(("workspace", ValueScope::Workspace)), Some(("hush", ValueScope::User)), None]
        );
        let untrusted = ValuePlaces::new(dir.path(), "x", "id", None);
        let read = untrusted.read(&[setting("A", false)], &store);
        assert_eq!(read[0].value.as_ref().unwrap().0.reveal(), "user");
    }
}
