//! The certificate and key that a server shows, read again when their files change.

use std::cell::{Cell, RefCell};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The largest file of a certificate or key.
const MAX_FILE: u64 = 1024 * 1024;

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("could not read `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot use the key `{}`: other users can read it", .0.display())]
    Exposed(PathBuf),
    #[error("`{}` contains no certificate in PEM format", .0.display())]
    NoCertificate(PathBuf),
    #[error("`{}` contains no private key in PEM format", .0.display())]
    NoKey(PathBuf),
    #[error("cannot use the certificate `{}` with its key", path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
}

/// A certificate with its key.
pub struct TlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    config: RefCell<Arc<ServerConfig>>,
    stamps: Cell<[Stamp; 2]>,
}

/// What a file was when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { inode: metadata.ino(), size: metadata.len(), changed }
    }
}

impl TlsIdentity {
    /// Reads both files. A key that other users can read is refused.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let (config, stamps) = read(certificate, key)?;
        Ok(Self {
            certificate: certificate.to_path_buf(),
            key: key.to_path_buf(),
            config: RefCell::new(config),
            stamps: Cell::new(stamps),
        })
    }

    /// Reads the files again if they have changed; says whether they have. After an error the old ones stay in use, and
    /// the next call tries again.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let stamp = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source));
            metadata.map(|metadata| Stamp::of(&metadata))
        };
        if [stamp(&self.certificate)?, stamp(&self.key)?] == self.stamps.get() {
            return Ok(false);
        }
        let (config, stamps) = read(&self.certificate, &self.key)?;
        self.config.replace(config);
        self.stamps.set(stamps);
        Ok(true)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.borrow()))
    }
}

fn unreadable(path: &Path, source: io::Error) -> TlsError {
    TlsError::Unreadable { path: path.to_path_buf(), source }
}

fn open(path: &Path) -> Result<(File, Metadata), TlsError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    Ok((file, metadata))
}

fn content(path: &Path, file: File) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(|source| unreadable(path, source))?;
    Ok(bytes)
}

fn read(certificate: &Path, key: &Path) -> Result<(Arc<ServerConfig>, [Stamp; 2]), TlsError> {
    let (certificate_file, certificate_data) = open(certificate)?;
    let (key_file, key_data) = open(key)?;
    if key_data.mode() & 0o077 != 0 {
        return Err(TlsError::Exposed(key.to_path_buf()));
    }
    let stamps = [Stamp::of(&certificate_data), Stamp::of(&key_data)];
    let bytes = content(certificate, certificate_file)?;
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_path_buf()));
    }
    let private = PrivateKeyDer::from_pem_slice(&content(key, key_file)?)
        .map_err(|_| TlsError::NoKey(key.to_path_buf()))?;
    let unusable = |source| TlsError::Unusable { path: certificate.to_path_buf(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), stamps))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "scratch files need no care")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn place(folder: &Path, name: &str, mode: u32) -> [PathBuf; 2] {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::copy(fixtures.join(format!("{name}.pem")), &certificate).unwrap();
        let _ = fs::remove_file(&key);
        fs::copy(fixtures.join(format!("{name}.key")), &key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        [certificate, key]
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let [certificate, key] = place(dir.path(), "first", mode);
            assert!(matches!(TlsIdentity::load(&certificate, &key), Err(TlsError::Exposed(_))), "{mode:o}");
        }
        for mode in [0o600, 0o400] {
            let [certificate, key] = place(dir.path(), "first", mode);
            assert!(TlsIdentity::load(&certificate, &key).is_ok(), "{mode:o}");
        }
    }

    #[test]
    fn files_that_are_not_a_certificate_and_its_key_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = place(dir.path(), "first", 0o600);
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        let [_, foreign] = place(&other, "second", 0o600);
        assert!(matches!(TlsIdentity::load(&certificate, &foreign), Err(TlsError::Unusable { .. })));
        assert!(matches!(TlsIdentity::load(&key, &key), Err(TlsError::NoCertificate(_))));
        let missing = dir.path().join("missing");
        assert!(matches!(TlsIdentity::load(&missing, &key), Err(TlsError::Unreadable { .. })));
        fs::write(&foreign, "-----BEGIN").unwrap();
        assert!(matches!(TlsIdentity::load(&certificate, &foreign), Err(TlsError::NoKey(_))));
    }

    #[test]
    fn changed_files_are_read_again_and_broken_ones_are_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = place(dir.path(), "first", 0o600);
        let identity = TlsIdentity::load(&certificate, &key).unwrap();
        let shown = || Arc::as_ptr(&identity.config.borrow());
        let first = shown();
        assert!(!identity.reload_if_changed().unwrap());
        fs::write(&certificate, "nothing").unwrap();
        assert!(identity.reload_if_changed().is_err());
        assert_eq!(shown(), first);
        place(dir.path(), "second", 0o600);
        assert!(identity.reload_if_changed().unwrap());
        assert_ne!(shown(), first);
    }
}
