//! Reading the clipboard with external programs.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use pollux_config::env::Env;
use pollux_config::files::{self, Mode};
use pollux_domain::time::{Clock, SystemClock};
use pollux_front::editors::find_program;
use pollux_host::helpers::with_safe_path;

use super::Clip;

/// Maximum size of the clipboard's content.
const MOST_BYTES: u64 = 20 * 1024 * 1024;
/// The clipboard's owner may never answer. On a busy machine it takes seconds.
const LIMIT: Duration = Duration::from_secs(10);
/// Older images are deleted.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

const NO_PROGRAM: &str = "Cannot read the clipboard; install wl-clipboard, xclip or xsel.";

/// A clipboard program and its arguments for images and text.
struct Way {
    program: &'static str,
    /// The environment variable it needs.
    needs: &'static str,
    picture: &'static [&'static str],
    text: &'static [&'static str],
}

const WAYS: &[Way] = &[
    Way {
        program: "wl-paste",
        needs: "WAYLAND_DISPLAY",
        picture: &["--no-newline", "--type", "image/png"],
        text: &["--no-newline", "--type", "text/plain"],
    },
    Way {
        program: "xclip",
        needs: "DISPLAY",
        picture: &["-selection", "clipboard", "-target", "image/png", "-out"],
        text: &["-selection", "clipboard", "-out"],
    },
    Way { program: "xsel", needs: "DISPLAY", picture: &[], text: &["--clipboard", "--output"] },
    Way { program: "osascript", needs: "", picture: &["-e", "the clipboard as «class PNGf»"], text: &[] },
    Way { program: "pbpaste", needs: "", picture: &[], text: &[] },
];

/// The clipboard's content: an image, saved to a file in this folder, or text.
pub(super) fn look(env: &Env, folder: &Path) -> Clip {
    look_within(LIMIT, env, folder)
}

pub(super) fn look_within(limit: Duration, env: &Env, folder: &Path) -> Clip {
    let until = Instant::now() + limit;
    let is_useful = |way: &&Way| way.needs.is_empty() || env.non_empty(way.needs).is_some();
    let ways: Vec<(&Way, PathBuf)> = WAYS
        .iter()
        .filter(is_useful)
        .filter_map(|way| Some((way, find_program(way.program, env)?)))
        .collect();
    if ways.is_empty() {
        return Clip::Nothing(NO_PROGRAM.to_owned());
    }
    for (way, program) in ways.iter().filter(|(way, _)| !way.picture.is_empty()) {
        match printed(program, way.picture, env, until) {
            Ok(bytes) => {
                if let Some(picture) = picture(bytes) {
                    return saved(&picture, folder);
                }
            }
            Err(unread) => return Clip::Nothing(unread.message("image")),
        }
    }
    let has_text = |way: &Way| !way.text.is_empty() || way.program == "pbpaste";
    for (way, program) in ways.iter().filter(|(way, _)| has_text(way)) {
        match printed(program, way.text, env, until) {
            Ok(bytes) if !bytes.is_empty() => {
                return Clip::Text(String::from_utf8_lossy(&bytes).into_owned());
            }
            Ok(_) => {}
            Err(unread) => return Clip::Nothing(unread.message("text")),
        }
    }
    Clip::Nothing("The clipboard has neither text nor an image.".to_owned())
}

/// Why the output of a clipboard program is not known.
enum Unread {
    TooMuch,
    TimedOut,
}

impl Unread {
    fn message(&self, what: &str) -> String {
        match self {
            Self::TooMuch => format!("The {what} on the clipboard exceeds 20 MB."),
            Self::TimedOut => "The clipboard did not answer in time. Try again.".to_owned(),
        }
    }
}

/// The output of a program; empty if it fails.
fn printed(program: &Path, arguments: &[&str], env: &Env, until: Instant) -> Result<Vec<u8>, Unread> {
    let started = Command::new(program)
        .args(arguments)
        .current_dir(env.cwd())
        .env_clear()
        .envs(with_safe_path(env.iter(), env))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return Ok(Vec::new()) };
    let Some(out) = child.stdout.take() else { return Ok(ended(child, Vec::new())) };
    let (done, reads) = mpsc::channel();
    let reader = std::thread::Builder::new().name("clipboard".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = out.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| bytes).unwrap_or_default());
    });
    let left = until.saturating_duration_since(Instant::now());
    let bytes = if reader.is_ok() { reads.recv_timeout(left).ok() } else { None };
    match bytes {
        None => {
            let _ = child.kill();
            drop(ended(child, Vec::new()));
            Err(Unread::TimedOut)
        }
        Some(bytes) if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES => {
            let _ = child.kill();
            drop(ended(child, bytes));
            Err(Unread::TooMuch)
        }
        Some(bytes) => Ok(ended(child, bytes)),
    }
}

/// Waits for a program; its output if it succeeded.
fn ended(mut child: Child, bytes: Vec<u8>) -> Vec<u8> {
    match child.wait() {
        Ok(status) if status.success() => bytes,
        _ => Vec::new(),
    }
}

/// The bytes of an image. AppleScript prints them as `«data PNGf89504E…»`.
fn picture(bytes: Vec<u8>) -> Option<Vec<u8>> {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
    if bytes.starts_with(PNG) {
        return Some(bytes);
    }
    let text = std::str::from_utf8(&bytes).ok()?;
    let digits = text.trim().strip_prefix("«data PNGf")?.strip_suffix('»')?;
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<Vec<u8>>>().filter(|bytes| bytes.starts_with(PNG))
}

fn saved(picture: &[u8], folder: &Path) -> Clip {
    remove_old(folder);
    let path = folder.join(format!("clipboard-{}.png", SystemClock.now().millis()));
    let saved = files::create_folder(folder, Mode::Private)
        .and_then(|()| files::replace(&path, picture, Mode::Private));
    match saved {
        Ok(()) => Clip::Picture(path.canonicalize().unwrap_or(path).display().to_string()),
        Err(error) => Clip::Nothing(format!("Cannot save the image from the clipboard: {error}")),
    }
}

fn remove_old(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("clipboard-"));
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if is_ours && age.is_some_and(|age| age > KEPT) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
