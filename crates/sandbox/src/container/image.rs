//! The image of a container: by name, from an archive, or built from a trusted project's file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pollux_config::paths::sha256_hex;

use super::engine::{BUILD_LIMIT, Client, last_line};
use super::offline;
use super::{ContainerError, ContainerRequest, Dockerfile, ImageSource};

/// The file in a project's `.gemini` folder, which is the context of the build.
const FILE: &str = "sandbox.Dockerfile";
const FOLDER: &str = ".gemini";
/// What a context may contain.
const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 256 << 20;

/// An image that the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) name: String,
    /// The variables that it sets.
    pub(crate) variables: Vec<(String, String)>,
}

/// Finds the image, loads it or builds it.
pub(crate) fn provide(client: &Client, request: &ContainerRequest) -> Result<Image, ContainerError> {
    let name = match &request.image {
        None => return Err(ContainerError::NoImage),
        Some(ImageSource::Named(name)) if !is_name(name) => {
            return Err(ContainerError::ImageName(name.clone()));
        }
        Some(ImageSource::Named(name)) => name.clone(),
        Some(ImageSource::Built(file)) => {
            let tag = file.tag()?;
            match client.image_variables(&tag) {
                Ok(variables) if !file.rebuild => return Ok(Image { name: tag, variables }),
                Ok(_) | Err(ContainerError::ImageMissing { .. }) => file.build(client, &tag)?,
                Err(error) => return Err(error),
            }
            tag
        }
    };
    let found = client.image_variables(&name);
    let variables = match (found, &request.archive) {
        (Err(ContainerError::ImageMissing { .. }), Some(file)) => {
            load(client, file)?;
            client.image_variables(&name)?
        }
        (found, _) => found?,
    };
    Ok(Image { name, variables })
}

/// Engines take more, but nothing that looks like an option.
fn is_name(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.:/@-".contains(letter);
    name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && name.chars().all(is_allowed)
}

fn load(client: &Client, file: &Path) -> Result<(), ContainerError> {
    let arguments = [OsStr::new("load"), OsStr::new("--input"), file.as_os_str()];
    let loaded = client.run(&arguments, BUILD_LIMIT).map(drop);
    loaded.map_err(|said| ContainerError::Load { file: file.to_owned(), said: last_line(&said) })
}

impl Dockerfile {
    fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    fn file(&self) -> PathBuf {
        self.folder().join(FILE)
    }

    /// Whether a project has one.
    pub fn exists(root: &Path) -> bool {
        root.join(FOLDER).join(FILE).symlink_metadata().is_ok()
    }

    /// The name of its image, which changes with the file and everything that it can copy.
    pub(crate) fn tag(&self) -> Result<String, ContainerError> {
        let failed = |error: &dyn std::fmt::Display| ContainerError::Dockerfile {
            file: self.file(),
            why: error.to_string(),
        };
        // A link would make another folder, such as a home, the context.
        for (path, is_right) in
            [(self.folder(), Path::is_dir as fn(&Path) -> bool), (self.file(), Path::is_file)]
        {
            let meta = path.symlink_metadata().map_err(|error| failed(&error))?;
            if meta.is_symlink() || !is_right(&path) {
                return Err(failed(&"it is a symbolic link or not a file"));
            }
        }
        let mut listed = Vec::new();
        let mut left = MAX_BYTES;
        list(&self.folder(), Path::new(""), &mut listed, &mut left).map_err(|error| failed(&error))?;
        listed.sort();
        let digest = sha256_hex(listed.join("\n").as_bytes());
        Ok(format!("localhost/pollux-sandbox:{}", digest.get(..16).unwrap_or(&digest)))
    }

    /// Refuses to build what the engine itself would fetch something for.
    fn check_offline(&self, client: &Client) -> Result<(), ContainerError> {
        let failed = |why: String| ContainerError::Dockerfile { file: self.file(), why };
        let text = fs::read_to_string(self.file()).map_err(|error| failed(error.to_string()))?;
        for image in offline::images(&text).map_err(failed)? {
            client.image_variables(&image)?;
        }
        Ok(())
    }

    fn build(&self, client: &Client, tag: &str) -> Result<(), ContainerError> {
        let (file, folder) = (self.file(), self.folder());
        let mut arguments: Vec<&OsStr> = ["build", "--tag", tag].map(OsStr::new).into();
        if client.engine == super::Engine::Podman {
            // It would hand over the user's proxy, perhaps with a password.
            arguments.push(OsStr::new("--http-proxy=false"));
        }
        if !self.network {
            self.check_offline(client)?;
            arguments.push(OsStr::new("--network=none"));
        }
        arguments.extend([OsStr::new("--file"), file.as_os_str(), folder.as_os_str()]);
        client.run(&arguments, BUILD_LIMIT).map(drop).map_err(|said| match client.classify(&said, None) {
            ContainerError::Start { engine, said } => ContainerError::Build {
                engine,
                command: format!("{engine} build --file {FOLDER}/{FILE} {FOLDER}"),
                said,
            },
            other => other,
        })
    }
}

/// The names and hashes of everything in a folder.
fn list(base: &Path, below: &Path, listed: &mut Vec<String>, left: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(base.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let meta = entry.metadata()?;
        if listed.len() >= MAX_FILES {
            return Err(io::Error::other("the folder has too many files"));
        }
        let name = path.display();
        if meta.is_dir() {
            list(base, &path, listed, left)?;
        } else if meta.is_symlink() {
            listed.push(format!("{name} -> {}", fs::read_link(entry.path())?.display()));
        } else if meta.is_file() {
            *left =
                left.checked_sub(meta.len()).ok_or_else(|| io::Error::other("the folder is too large"))?;
            listed.push(format!("{name} {}", sha256_hex(&fs::read(entry.path())?)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_options() {
        for (name, good) in [
            ("debian:12", true),
            ("a.b/c_d-e@sha256:0f", true),
            ("--privileged", false),
            ("-v", false),
            ("", false),
            ("a b", false),
            ("a;b", false),
            ("a\nb", false),
        ] {
            assert_eq!(is_name(name), good, "{name}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "scratch files need no care")]
    fn a_tag_changes_with_everything_that_is_copied_and_links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let file = Dockerfile { root: root.clone(), rebuild: false, network: true };
        assert!(file.tag().is_err() && !Dockerfile::exists(&root));
        fs::create_dir_all(root.join(".gemini/deep")).unwrap();
        fs::write(root.join(".gemini/sandbox.Dockerfile"), "FROM scratch").unwrap();
        let first = file.tag().unwrap();
        assert_eq!(first, file.tag().unwrap());
        fs::write(root.join(".gemini/deep/tool"), "1").unwrap();
        let second = file.tag().unwrap();
        fs::write(root.join(".gemini/deep/tool"), "2").unwrap();
        assert!(first != second && second != file.tag().unwrap());
        assert!(first.starts_with("localhost/pollux-sandbox:"));
        fs::remove_file(root.join(".gemini/sandbox.Dockerfile")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join(".gemini/sandbox.Dockerfile")).unwrap();
        assert!(matches!(file.tag(), Err(ContainerError::Dockerfile { .. })));
        let other = folder.path().join("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(root.join(".gemini"), other.join(".gemini")).unwrap();
        let linked = Dockerfile { root: other, ..file };
        assert!(matches!(linked.tag(), Err(ContainerError::Dockerfile { .. })));
    }
}
