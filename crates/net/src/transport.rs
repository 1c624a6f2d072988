//! Describes failed transfers for users, without URLs that could contain secrets.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// What a connection says that the other side ended.
const HUNG_UP: &[io::ErrorKind] =
    &[io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
/// The same in the words of the HTTP library, whose error type is not public here.
const INCOMPLETE: &str = "connection closed before message completed";
const DNS: &str = "dns error";

/// A transfer that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportFailure {
    /// The cause, for people; holds no address.
    pub message: String,
    /// Whether another attempt could end differently.
    pub may_pass: bool,
    /// Nothing listens there.
    pub refused: bool,
    /// The name of the host has no address, or nobody could be asked for it.
    pub unresolved: bool,
    /// The server ended the connection without an answer.
    pub hung_up: bool,
}

impl TransportFailure {
    fn new(message: String, may_pass: bool) -> Self {
        Self { message, may_pass, refused: false, unresolved: false, hung_up: false }
    }
}

/// Looks through an error's causes.
pub fn describe(error: &reqwest::Error) -> TransportFailure {
    let causes = causes(error);
    if let Some(certificate) = causes.iter().find_map(|cause| certificate_problem(*cause)) {
        return TransportFailure::new(certificate, false);
    }
    if error.is_builder() {
        return TransportFailure::new(innermost(&causes, "invalid request"), false);
    }
    // A tunnel is only made through a proxy, and its failure says nothing of the server behind.
    if causes.iter().any(|cause| cause.to_string().contains("tunnel")) {
        let reason = innermost(&causes, "the connection failed");
        let may_pass = !reason.contains("authorization");
        return TransportFailure::new(format!("the proxy failed: {reason}"), may_pass);
    }
    let is_any = |kinds: &[io::ErrorKind]| {
        let kind = |cause: &&(dyn Error + 'static)| cause.downcast_ref::<io::Error>().map(io::Error::kind);
        causes.iter().filter_map(kind).any(|kind| kinds.contains(&kind))
    };
    let refused = is_any(&[io::ErrorKind::ConnectionRefused]);
    let unresolved = causes.iter().any(|cause| cause.to_string().starts_with(DNS));
    let message = if error.is_timeout() {
        "the connection timed out".to_owned()
    } else if refused {
        "connection refused (no server is listening on this port)".to_owned()
    } else if unresolved {
        "the host name could not be resolved (no network?)".to_owned()
    } else {
        without_number(&innermost(&causes, "the connection failed"))
    };
    let incomplete = causes.iter().any(|cause| cause.to_string().contains(INCOMPLETE));
    TransportFailure {
        refused,
        unresolved,
        hung_up: !error.is_connect() && (incomplete || is_any(HUNG_UP)),
        ..TransportFailure::new(message, true)
    }
}

/// The chain below reqwest's own error, whose text would name the address.
fn causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = cause.source();
    }
    causes
}

/// The text of a system error without its number, which says nothing to people.
fn without_number(text: &str) -> String {
    text.split_once(" (os error ").map_or(text, |(text, _)| text).to_owned()
}

fn innermost(causes: &[&(dyn Error + 'static)], otherwise: &str) -> String {
    causes.last().map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

fn certificate_problem(cause: &(dyn Error + 'static)) -> Option<String> {
    match tls_error(cause)? {
        rustls::Error::InvalidCertificate(problem) => Some(format!(
            "the server's certificate was refused: {}; behind a proxy that inspects TLS, \
             set `NODE_EXTRA_CA_CERTS` to its certificate file",
            certificate_fault(problem)
        )),
        rustls::Error::General(text) => Some(text.clone()),
        _ => None,
    }
}

fn certificate_fault(problem: &CertificateError) -> String {
    use CertificateError as Fault;
    let text = match problem {
        Fault::Expired | Fault::ExpiredContext { .. } => "it has expired",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "it is not valid yet",
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => "it belongs to another host",
        Fault::UnknownIssuer => "its issuer is not trusted",
        Fault::Revoked => "it was revoked",
        Fault::BadEncoding => "it cannot be read",
        // The verifier of certificates names its faults by identifiers only.
        Fault::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is the certificate of an authority, not of a server"
        }
        Fault::Other(other) => return other.to_string(),
        other => return format!("{other:?}"),
    };
    text.to_owned()
}

/// The error of TLS inside errors of I/O, which may be wrapped several times and do not name what they wrap as
/// their source.
fn tls_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = cause;
    loop {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Some(tls);
        }
        let inner: &'a (dyn Error + Send + Sync + 'static) = cause.downcast_ref::<io::Error>()?.get_ref()?;
        cause = inner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientOptions, client};

    #[tokio::test]
    async fn a_refused_connection_is_described_without_its_address() {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let client = client(&ClientOptions::new("test")).unwrap();
        let error = client.get(format!("http://127.0.0.1:{port}/?key=hunter2")).send().await.unwrap_err();
        let failure = describe(&error);
        assert!(failure.may_pass && failure.refused);
        assert!(failure.message.to_lowercase().contains("refused"), "{failure:?}");
        assert!(!failure.message.contains("hunter2") && !failure.message.contains("os error"));
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_told_in_plain_words() {
        let client = client(&ClientOptions::new("test")).unwrap();
        let error = client.get("http://pollux-test.invalid/").send().await.unwrap_err();
        let failure = describe(&error);
        assert!(failure.may_pass && failure.unresolved && !failure.refused, "{failure:?}");
        assert_eq!(failure.message, "the host name could not be resolved (no network?)");
    }

    #[test]
    fn a_certificate_is_found_however_deep_it_is_wrapped() {
        let refused = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::other(io::Error::other(refused)));
        assert!(certificate_problem(&wrapped).is_some_and(|text| text.contains("its issuer is not trusted")));
        assert_eq!(certificate_problem(&io::Error::other("something else")), None);
    }

    #[tokio::test]
    async fn a_connection_that_ends_without_an_answer_is_told_from_one_that_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { drop(listener.accept().await) });
        let client = client(&ClientOptions::new("test")).unwrap();
        let error = client.get(format!("http://{address}/")).send().await.unwrap_err();
        let failure = describe(&error);
        assert!(failure.hung_up && !failure.refused, "{failure:?}");
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_not_tried_again() {
        let client = client(&ClientOptions::new("test")).unwrap();
        let error = client.get("not a url").send().await.unwrap_err();
        assert!(!describe(&error).may_pass);
    }
}
