//! The report of a run: everything that was refused, and the flags that would allow it.

use std::path::{Path, PathBuf};

use pollux_config::files::{self, FileError, Mode};
use pollux_domain::sandbox::{Denial, DenialKind, Grant};
use pollux_sandbox::Level;
use serde_json::{Value, json};

use crate::mode::{NetworkMode, Profile};
use crate::right::{existing, is_broad};

/// What a report says.
pub(crate) struct Facts<'a> {
    pub(crate) level: Level,
    pub(crate) profile: Profile,
    pub(crate) network: NetworkMode,
    /// What was refused, with the commands.
    pub(crate) denials: &'a [(String, Denial)],
    pub(crate) granted: &'a [Grant],
    pub(crate) homes: &'a [PathBuf],
}

/// Replaces the file.
pub(crate) fn write(file: &Path, facts: &Facts<'_>) -> Result<(), FileError> {
    let text = format!("{:#}\n", to_json(facts));
    files::write_output(file, text.as_bytes(), Mode::Private)
}

fn to_json(facts: &Facts<'_>) -> Value {
    let Facts { denials, homes, .. } = facts;
    let mut allow: Vec<String> = denials.iter().filter_map(|(_, denial)| flag(denial, homes)).collect();
    allow.sort();
    allow.dedup();
    let listed = denials.iter().map(|(command, denial)| {
        let mut fields = denial.to_json();
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("command".to_owned(), command.as_str().into());
        }
        fields
    });
    json!({
        "level": facts.level.as_str(),
        "mode": facts.profile.as_str(),
        "network": facts.network.as_str(),
        "denials": listed.collect::<Vec<_>>(),
        "granted": facts.granted.iter().map(Grant::to_json).collect::<Vec<_>>(),
        "allow": allow,
    })
}

/// The value of `--sandbox-allow` for a denial.
fn flag(denial: &Denial, homes: &[PathBuf]) -> Option<String> {
    let target = &denial.target;
    if denial.kind != DenialKind::Connect {
        // What does not exist yet is written into the folder around it.
        let path = existing(Path::new(target)).filter(|path| !is_broad(path, homes))?;
        let kind = match denial.kind {
            DenialKind::Write => "write",
            DenialKind::Read => "read",
            DenialKind::Socket => "socket",
            DenialKind::Connect | DenialKind::Exec | DenialKind::Signal | DenialKind::Limit => return None,
        };
        return Some(format!("{kind}:{}", path.display()));
    }
    let port = denial.port?;
    Some(if target == "localhost" { format!("port:{port}") } else { format!("host:{target}:{port}") })
}
