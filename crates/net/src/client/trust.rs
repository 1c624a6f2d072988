//! Which servers are believed: the system's certificates, loaded when the first server shows one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A verifier that costs nothing until a server is to be verified.
#[derive(Debug)]
pub(super) struct LazyTrust {
    provider: Arc<CryptoProvider>,
    extra_ca_files: Vec<PathBuf>,
    verifier: OnceLock<Result<Verifier, Error>>,
}

impl LazyTrust {
    pub(super) fn new(provider: Arc<CryptoProvider>, extra_ca_files: Vec<PathBuf>) -> Self {
        Self { provider, extra_ca_files, verifier: OnceLock::new() }
    }

    fn verifier(&self) -> Result<&Verifier, Error> {
        let loaded = self.verifier.get_or_init(|| {
            let mut extra = Vec::new();
            for path in &self.extra_ca_files {
                extra.extend(read_pem(path)?);
            }
            Verifier::new_with_extra_roots(extra, Arc::clone(&self.provider))
        });
        loaded.as_ref().map_err(Clone::clone)
    }
}

fn read_pem(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| {
        Error::General(format!("could not read the certificates in `{}`: {error}", path.display()))
    })
}

impl ServerCertVerifier for LazyTrust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verifier()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_loaded_before_a_server_shows_a_certificate() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = LazyTrust::new(provider, vec!["/nonexistent/ca.pem".into()]);
        assert!(!trust.supported_verify_schemes().is_empty());
        assert!(trust.verifier.get().is_none());
        let error = trust.verifier().unwrap_err().to_string();
        assert!(error.contains("/nonexistent/ca.pem"), "{error}");
    }
}
