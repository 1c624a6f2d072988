//! What a reply rests on: pages that the provider looked up and sources that the model quotes.

/// What a grounded reply rests on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundingInfo {
    /// In the provider's order; [`GroundingSupport::sources`] counts from 0 in it.
    pub sources: Vec<GroundingSource>,
    pub supports: Vec<GroundingSupport>,
    /// Pages that the provider fetched, or tried to.
    pub pages: Vec<RetrievedPage>,
}

/// A page that a grounded reply used. Either text may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundingSource {
    pub title: Option<String>,
    pub uri: Option<String>,
}

/// A stretch of the reply's text and the sources it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroundingSupport {
    /// Where the stretch ends: UTF-8 bytes from the start of the reply's text.
    pub end: u64,
    pub sources: Vec<u64>,
}

/// How fetching one page went, in the provider's word, such as `URL_RETRIEVAL_STATUS_SUCCESS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetrievedPage {
    pub uri: String,
    pub status: Option<String>,
}

/// A source that the reply quotes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Citation {
    pub title: Option<String>,
    pub uri: String,
}
