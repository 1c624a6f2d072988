//! Caches what a server declared in its last connection, so that the next run does not wait for it.
//!
//! Owns: the cache key, the file and its limits. Does not own: trust. The cache only shortens a wait: nothing is
//! called before the server has declared the same again (`tool.rs`), and callers that may not start a server must not
//! read its cache either.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_config::groups::Secret;
use pollux_config::paths::sha256_hex;
use pollux_config::search_path::SearchPath;
use pollux_exec::own_process;
use serde_json::{Value, json};

use crate::config::{Link, ServerConfig};
use crate::offer::{self, Offer, PromptSpec, ResourceOffer, ToolOffer};

/// Another number when the form of a file changes; files of another form are not found.
const FORM: u32 = 1;
/// Bytes of one file. What a server says beyond that is asked for again in each run.
const MAX_BYTES: u64 = 1 << 20;
/// Files that are kept; the ones that were not used for longest go first.
const MAX_FILES: usize = 64;
/// A file that still holds is written again after this time, so that it counts as used.
const REFRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// What a server says it has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declarations {
    pub(crate) offer: Offer,
    pub(crate) instructions: Option<String>,
}

/// The place of one server's declarations.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
    file: PathBuf,
    key: String,
}

impl Cache {
    /// The place for a server as it is defined now. Another definition or another program is another server.
    pub(crate) fn of(folder: &Path, config: &ServerConfig, directory: &Path, env: &Env) -> Self {
        let key = definition_key(config, directory, env);
        Self { folder: folder.to_owned(), file: folder.join(format!("{key}.json")), key }
    }

    /// The cached declarations; `None` if the file is missing, damaged, too long or writable by others.
    pub(crate) fn read(&self) -> Option<Declarations> {
        let own =
            |path: &Path, is_folder| fs::symlink_metadata(path).is_ok_and(|found| is_own(&found, is_folder));
        if !own(&self.folder, true) || !own(&self.file, false) {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(&self.file).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MAX_BYTES {
            return None;
        }
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        (value.get("key").and_then(Value::as_str) == Some(&self.key)).then_some(())?;
        let mut offer = Offer::default();
        offer::add(&mut offer.tools, offer::page(&value, "tools").0, offer::tool);
        offer::add(&mut offer.prompts, offer::page(&value, "prompts").0, offer::prompt);
        offer::add(&mut offer.resources, offer::page(&value, "resources").0, offer::resource);
        let instructions = value.get("instructions").and_then(Value::as_str);
        let instructions = instructions.map(|text| offer::bounded(text, offer::INSTRUCTIONS));
        (!offer.is_empty()).then_some(Declarations { offer, instructions })
    }

    /// Stores the declarations of a server. Failing to write only costs the next run a wait.
    pub(crate) fn write(&self, known: &Declarations) {
        if self.read().as_ref() == Some(known) && !self.is_old() {
            return;
        }
        let text = self.text(known).to_string();
        if text.len() as u64 > MAX_BYTES || files::create_folder(&self.folder, Mode::Private).is_err() {
            return self.forget();
        }
        if !fs::symlink_metadata(&self.folder).is_ok_and(|folder| is_own(&folder, true)) {
            return;
        }
        if fs::symlink_metadata(&self.file).is_ok_and(|file| !is_own(&file, false)) {
            // A link would lead elsewhere, and a file's rights would stay as they are.
            self.forget();
        }
        let _ = files::replace(&self.file, text.as_bytes(), Mode::Private);
        self.prune();
    }

    pub(crate) fn forget(&self) {
        let _ = fs::remove_file(&self.file);
    }

    fn is_old(&self) -> bool {
        let age = modified(&self.file).and_then(|then| SystemTime::now().duration_since(then).ok());
        age.is_some_and(|age| age > REFRESH)
    }

    fn text(&self, known: &Declarations) -> Value {
        let Offer { tools, prompts, resources } = &known.offer;
        json!({
            "key": self.key,
            "tools": tools.iter().map(tool).collect::<Vec<_>>(),
            "prompts": prompts.iter().map(prompt).collect::<Vec<_>>(),
            "resources": resources.iter().map(resource).collect::<Vec<_>>(),
            "instructions": known.instructions,
        })
    }

    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut dated: Vec<(SystemTime, PathBuf)> =
            paths.map(|path| (modified(&path).unwrap_or(UNIX_EPOCH), path)).collect();
        dated.sort();
        let surplus = dated.len().saturating_sub(MAX_FILES);
        dated.iter().take(surplus).for_each(|(_, path)| drop(fs::remove_file(path)));
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).ok()?.modified().ok()
}

/// Whether only the user can write there.
fn is_own(found: &Metadata, is_folder: bool) -> bool {
    let is_kind = if is_folder { found.is_dir() } else { found.is_file() };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let others = if is_folder { 0o022 } else { 0o077 };
        is_kind && found.uid() == own_process::user() && found.mode() & others == 0
    }
    #[cfg(not(unix))]
    is_kind
}

fn tool(tool: &ToolOffer) -> Value {
    let ToolOffer { name, description, schema, annotations } = tool;
    json!({"name": name, "description": description, "inputSchema": schema, "annotations": annotations})
}

fn prompt(prompt: &PromptSpec) -> Value {
    let arguments = prompt.arguments.iter().map(|argument| {
        json!({"name": argument.name, "description": argument.description, "required": argument.required})
    });
    json!({"name": prompt.name, "description": prompt.description, "arguments": arguments.collect::<Vec<_>>()})
}

fn resource(resource: &ResourceOffer) -> Value {
    json!({"uri": resource.uri, "name": resource.name, "description": resource.description})
}

/// A hash of a server's definition and the program that it starts. Secrets go into the hash, never in plain text.
pub(crate) fn definition_key(config: &ServerConfig, directory: &Path, env: &Env) -> String {
    let pairs = |pairs: &[(String, Secret)]| {
        let revealed = pairs.iter().map(|(name, value)| json!([name, value.reveal()]));
        revealed.collect::<Vec<_>>()
    };
    let link = match &config.link {
        Link::Stdio { command, args, env: own, cwd } => {
            let place = cwd.as_ref().map_or_else(|| directory.to_owned(), |cwd| directory.join(cwd));
            let path = own.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.reveal());
            let path = path.or_else(|| env.get("PATH")).unwrap_or_default();
            // An interpreter's script is part of the program.
            let scripts = args.iter().map(|arg| stamp(&place.join(arg))).collect::<Vec<_>>();
            json!(["stdio", command, program(command, &place, path), args, scripts, pairs(own), place])
        }
        Link::Http { url, headers, or_sse } => json!(["http", url, pairs(headers), or_sse]),
        Link::Sse { url, headers } => json!(["sse", url, pairs(headers)]),
        // Never cached: the name says nothing about the program behind it.
        Link::Client(_) => json!(["client"]),
    };
    let auth = &config.auth;
    let identity = json!([
        auth.provider,
        auth.target_audience,
        auth.target_service_account,
        auth.oauth.client_id,
        auth.oauth.scopes
    ]);
    sha256_hex(json!([FORM, config.name, link, identity]).to_string().as_bytes())
}

/// The program that a command starts: where it is, and which build of it.
fn program(command: &str, directory: &Path, path: &str) -> Value {
    let found = if command.contains('/') {
        Some(directory.join(command))
    } else {
        SearchPath::new(Some(OsStr::new(path)), &[]).candidates(command, Some(directory)).next()
    };
    let found = found.and_then(|file| fs::canonicalize(file).ok());
    found.map_or(Value::Null, |file| json!([file, stamp(&file)]))
}

/// Size and time of a file; nothing if it is none.
fn stamp(file: &Path) -> Value {
    let Some(found) = fs::metadata(file).ok().filter(Metadata::is_file) else { return Value::Null };
    let changed = found.modified().ok().and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    json!([found.len(), changed.map(|changed| changed.as_nanos().to_string())])
}

#[cfg(test)]
mod tests;
