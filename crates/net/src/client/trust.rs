//! Certificate verification with the system's roots, loaded at the first TLS handshake.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A verifier that costs nothing until a server is to be verified.
#[derive(Debug)]
pub(super) struct LazyTrust {
    provider: Arc<CryptoProvider>,
    extra_ca_files: Vec<PathBuf>,
    loaded: OnceLock<Result<Loaded, Error>>,
}

#[derive(Debug)]
struct Loaded {
    verifier: Verifier,
    /// An extra file that could not be read; told only when a server is refused.
    problem: Option<String>,
}

impl LazyTrust {
    pub(super) fn new(provider: Arc<CryptoProvider>, extra_ca_files: Vec<PathBuf>) -> Self {
        Self { provider, extra_ca_files, loaded: OnceLock::new() }
    }

    fn loaded(&self) -> Result<&Loaded, Error> {
        let loaded = self.loaded.get_or_init(|| {
            let mut extra = Vec::new();
            let mut problem = None;
            for path in &self.extra_ca_files {
                match CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
                    Ok(found) => extra.extend(found.into_iter().filter(is_usable)),
                    Err(error) => {
                        let path = path.display();
                        problem = Some(format!("could not read the certificates in `{path}`: {error}"));
                    }
                }
            }
            let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&self.provider))?;
            Ok(Loaded { verifier, problem })
        });
        loaded.as_ref().map_err(Clone::clone)
    }
}

/// One odd certificate in a bundle must not spoil the others.
fn is_usable(certificate: &CertificateDer<'static>) -> bool {
    RootCertStore::empty().add(certificate.clone()).is_ok()
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
        let Loaded { verifier, problem } = self.loaded()?;
        let verdict = verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verdict.map_err(|error| match problem {
            Some(problem) => Error::General(format!("{error}; {problem}")),
            None => error,
        })
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
        assert!(trust.loaded.get().is_none());
        let name = ServerName::try_from("localhost").unwrap();
        let forged = CertificateDer::from(vec![1, 2, 3]);
        let refused = trust.verify_server_cert(&forged, &[], &name, &[], UnixTime::now());
        assert!(refused.is_err());
        assert!(trust.loaded.get().is_some());
        // Where the machine has certificates at all, the missing file is named next to the refusal.
        if let Ok(loaded) = trust.loaded() {
            assert!(loaded.problem.as_ref().is_some_and(|problem| problem.contains("/nonexistent/ca.pem")));
        }
    }
}
