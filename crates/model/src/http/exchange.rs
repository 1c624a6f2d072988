//! One request and its reply, as a provider writes and reads them.

use pollux_domain::model::{ModelError, ReplyEvent};
use reqwest::Request;

use super::connection::copy;
use super::{Decoder, Failure};

/// What one reply needs: how it is asked for and how it is read.
pub(crate) trait Exchange: Send {
    /// The request of the next attempt.
    fn request(&self) -> Result<Request, ModelError>;

    /// Reads the reply of one attempt.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// The server refused the request: whether it can be changed so that it might be accepted. Asked only while
    /// nothing of the reply was told.
    fn mend(&mut self, failure: &Failure) -> Mend {
        let _ = failure;
        Mend::No
    }
}

/// What can be done about a request that was refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Mend {
    No,
    /// The request has changed; send it now, and show the notice if there is one.
    Again(Option<String>),
    /// This takes the reply's place.
    Instead(Vec<ReplyEvent>),
}

/// A request that is what it is.
pub(crate) struct FixedRequest {
    request: Result<Request, ModelError>,
    decoder: fn() -> Box<dyn Decoder>,
}

impl FixedRequest {
    pub(crate) fn new(request: Result<Request, ModelError>, decoder: fn() -> Box<dyn Decoder>) -> Self {
        Self { request, decoder }
    }
}

impl Exchange for FixedRequest {
    fn request(&self) -> Result<Request, ModelError> {
        let request = self.request.as_ref().map_err(Clone::clone)?;
        copy(request).map_err(|failure| failure.error)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        (self.decoder)()
    }
}
