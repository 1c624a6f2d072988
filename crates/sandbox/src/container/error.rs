//! Why a container cannot be used, with a hint for each reason.

use std::path::PathBuf;

use super::Engine;

/// Why a container cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    #[error("`{0}` not found in `PATH`")]
    NotInstalled(Engine),
    #[error("the {0} daemon is not running")]
    NotRunning(Engine),
    #[error("no permission to use the {0} daemon")]
    NoPermission(Engine),
    #[error("`{variable}` points to a remote engine: `{value}`")]
    Remote { variable: &'static str, value: String },
    #[error("no container image is set")]
    NoImage,
    #[error("invalid image name `{0}`")]
    ImageName(String),
    #[error("{engine} has no image `{image}`")]
    ImageMissing { engine: Engine, image: String },
    #[error("could not load the image from `{}`: {said}", file.display())]
    Load { file: PathBuf, said: String },
    #[error("could not read `{}`: {why}", file.display())]
    Dockerfile { file: PathBuf, why: String },
    #[error("could not build `.gemini/sandbox.Dockerfile`: {said}")]
    Build { engine: Engine, command: String, said: String },
    #[error("invalid mount `{spec}` in `SANDBOX_MOUNTS`: {why}")]
    Mount { spec: String, why: String },
    #[error("invalid `{variable}`: {why}")]
    Variable { variable: &'static str, why: String },
    #[error("`{}` cannot be mounted: its name contains a line break", .0.display())]
    Name(PathBuf),
    #[error("could not prepare the container: {0}")]
    Prepare(String),
    #[error("{engine} could not start a container: {said}")]
    Start { engine: Engine, said: String },
}

impl ContainerError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotInstalled(engine) => format!(
                "install {engine} outside your home directory and the workspace, or use `--sandbox=namespaces`"
            ),
            Self::NotRunning(engine) => format!("start it, and check it with `{engine} info`"),
            Self::NoPermission(engine) => {
                format!("use rootless {engine} or podman, or ask an administrator for access")
            }
            Self::Remote { .. } => "use a local engine; a remote one cannot mount the workspace".to_owned(),
            Self::NoImage => {
                "set `GEMINI_SANDBOX_IMAGE` or `tools.sandbox.image`, or add `.gemini/sandbox.Dockerfile` to a \
                 trusted project"
                    .to_owned()
            }
            Self::ImageName(_) => "use letters, digits and `_ . : / @ -`".to_owned(),
            Self::ImageMissing { engine, image } => {
                format!("Pollux does not download images; run `{engine} pull {image}`")
            }
            Self::Load { .. } => "check `tools.sandbox.imageArchive`".to_owned(),
            Self::Dockerfile { .. } => "it must be a file in the project's own `.gemini` folder".to_owned(),
            Self::Build { command, .. } => format!("run `{command}` to see its output"),
            Self::Mount { .. } => "use comma-separated `/from[:/to[:ro|rw]]` entries; folders that the sandbox hides cannot be mounted".to_owned(),
            Self::Variable { variable, .. } => match *variable {
                "SANDBOX_ENV" => "use comma-separated `NAME=value` pairs".to_owned(),
                "SANDBOX_PORTS" => "use comma-separated port numbers".to_owned(),
                _ => "close every quote".to_owned(),
            },
            Self::Name(_) => "rename it".to_owned(),
            Self::Prepare(_) => "check the folder for temporary files and free disk space".to_owned(),
            Self::Start { engine, .. } => {
                format!("check `SANDBOX_FLAGS`, and whether `{engine} run` works with this image")
            }
        }
    }
}
