//! Heads of HTTP/1 messages, read strictly.
//!
//! Two readers of one message must not see two messages, so everything that servers are known to disagree about
//! is refused: bare line feeds, folded fields, spaces before a colon, several lengths, a length together with an
//! encoding. What is forwarded is written again from the parsed head.

mod body;
mod rewrite;

pub(crate) use body::Chunks;
pub(crate) use rewrite::{forward_request, forward_response};

/// Maximum number of fields in a head.
const MAX_FIELDS: usize = 256;

/// Fields that belong to one connection and are not forwarded.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-authentication-info",
];

/// Fields that `Connection` must not name: dropping them would change the meaning of the message.
const NOT_NOMINATED: &[&str] = &["host", "content-length", "transfer-encoding", "authorization", "cookie"];

/// Why a head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("malformed request line")]
    StartLine,
    #[error("unsupported HTTP version")]
    Version,
    #[error("malformed header field")]
    Field,
    #[error("line ends without carriage return")]
    BareLineFeed,
    #[error("folded header field")]
    Folded,
    #[error("too many header fields")]
    TooManyFields,
    #[error("conflicting message length")]
    Length,
    #[error("unsupported transfer encoding")]
    Encoding,
    #[error("malformed Connection field")]
    Connection,
}

/// The fields of a head in their order; names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Vec<u8>)>);

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    pub method: String,
    pub target: String,
    /// `HTTP/1.1`; otherwise `HTTP/1.0`.
    pub is_1_1: bool,
    pub fields: Fields,
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub reason: Vec<u8>,
    pub is_1_1: bool,
    pub fields: Fields,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Empty,
    Length(u64),
    Chunked,
    /// Until the connection ends; responses only.
    Close,
}

/// The length of the head at the beginning of the bytes, with its empty line; `None` if it is not complete. A
/// line feed without carriage return is refused as soon as it is seen.
pub fn head_length(bytes: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut from = 0;
    while let Some(at) = bytes.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n')) {
        let end = from + at;
        if end == 0 || bytes.get(end - 1) != Some(&b'\r') {
            return Err(HeadError::BareLineFeed);
        }
        if end - 1 == from {
            return Ok(Some(end + 1));
        }
        from = end + 1;
    }
    Ok(None)
}

impl RequestHead {
    /// Reads a complete head, as measured by [`head_length`].
    pub fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let (first, fields) = lines(bytes)?;
        let line = std::str::from_utf8(first).map_err(|_| HeadError::StartLine)?;
        let mut parts = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(HeadError::StartLine);
        };
        let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if method.is_empty() || !method.bytes().all(is_token) || !visible(target) {
            return Err(HeadError::StartLine);
        }
        let is_1_1 = minor_version(version)?;
        Ok(Self { method: method.to_owned(), target: target.to_owned(), is_1_1, fields })
    }

    /// How long the body is.
    pub fn framing(&self) -> Result<Framing, HeadError> {
        let framing = self.fields.framing(self.is_1_1)?;
        Ok(framing.unwrap_or(Framing::Empty))
    }

    /// Whether the client asks for a WebSocket, the only upgrade that is passed on.
    pub fn is_websocket(&self) -> bool {
        self.method == "GET"
            && self.is_1_1
            && self.fields.lists("connection", "upgrade")
            && self.fields.only("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
    }

    /// Whether the client keeps the connection open for another request.
    pub fn keeps_open(&self) -> bool {
        let closes =
            self.fields.lists("connection", "close") || self.fields.lists("proxy-connection", "close");
        self.is_1_1 && !closes
    }
}

impl ResponseHead {
    /// Reads a complete head, as measured by [`head_length`].
    pub fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let (first, fields) = lines(bytes)?;
        let mut parts = first.splitn(3, |byte| *byte == b' ');
        let version = parts.next().and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default();
        let is_1_1 = minor_version(version)?;
        let status = parts.next().unwrap_or_default();
        let digits = status.len() == 3 && status.iter().all(u8::is_ascii_digit);
        let status = std::str::from_utf8(status).ok().and_then(|text| text.parse().ok());
        let status =
            status.filter(|status| digits && (100..600).contains(status)).ok_or(HeadError::StartLine)?;
        let reason = parts.next().unwrap_or_default();
        if !reason.iter().all(|byte| is_field_byte(*byte)) {
            return Err(HeadError::StartLine);
        }
        Ok(Self { status, reason: reason.to_vec(), is_1_1, fields })
    }

    /// How long the body is, as the answer to a request with this method.
    pub fn framing(&self, method: &str) -> Result<Framing, HeadError> {
        let framing = self.fields.framing(self.is_1_1)?;
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::Empty);
        }
        Ok(framing.unwrap_or(Framing::Close))
    }

    /// Whether the server keeps the connection open.
    pub fn keeps_open(&self) -> bool {
        self.is_1_1 && !self.fields.lists("connection", "close")
    }
}

impl Fields {
    /// The value of a field that must occur at most once; `None` if it is missing or repeated.
    pub fn only(&self, name: &str) -> Option<&[u8]> {
        match self.all(name).as_slice() {
            [value] => Some(value),
            _ => None,
        }
    }

    /// How often a field occurs.
    pub fn count(&self, name: &str) -> usize {
        self.all(name).len()
    }

    fn all(&self, name: &str) -> Vec<&[u8]> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_slice()).collect()
    }

    /// The members of a field that is a list, in lower case.
    fn members(&self, name: &str) -> Vec<String> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).to_ascii_lowercase();
        let values: Vec<String> = self.all(name).into_iter().map(text).collect();
        let members = values.iter().flat_map(|value| value.split(','));
        members.map(str::trim).filter(|member| !member.is_empty()).map(str::to_owned).collect()
    }

    fn lists(&self, name: &str, member: &str) -> bool {
        self.members(name).iter().any(|known| known == member)
    }

    fn framing(&self, is_1_1: bool) -> Result<Option<Framing>, HeadError> {
        let lengths = self.count("content-length");
        match self.count("transfer-encoding") {
            0 => {}
            1 if lengths == 0 && is_1_1 => {
                let chunked = self
                    .only("transfer-encoding")
                    .is_some_and(|value| value.eq_ignore_ascii_case(b"chunked"));
                return if chunked { Ok(Some(Framing::Chunked)) } else { Err(HeadError::Encoding) };
            }
            _ => return Err(HeadError::Length),
        }
        if lengths == 0 {
            return Ok(None);
        }
        let value = self.only("content-length").ok_or(HeadError::Length)?;
        let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
        length.map(|length| Some(Framing::Length(length))).ok_or(HeadError::Length)
    }

    /// The fields that are forwarded.
    fn end_to_end(&self) -> Result<impl Iterator<Item = &(String, Vec<u8>)>, HeadError> {
        let nominated = self.members("connection");
        if nominated.iter().any(|name| NOT_NOMINATED.contains(&name.as_str())) {
            return Err(HeadError::Connection);
        }
        let kept = move |(name, _): &&(String, Vec<u8>)| {
            !HOP_BY_HOP.contains(&name.as_str()) && !nominated.iter().any(|other| other == name)
        };
        Ok(self.0.iter().filter(kept))
    }
}

/// The first line and the fields of a head.
fn lines(bytes: &[u8]) -> Result<(&[u8], Fields), HeadError> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(HeadError::StartLine)?;
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    if first.contains(&b'\r') || first.contains(&0) {
        return Err(HeadError::StartLine);
    }
    let mut fields = Vec::new();
    for line in lines {
        if fields.len() == MAX_FIELDS {
            return Err(HeadError::TooManyFields);
        }
        fields.push(field(line)?);
    }
    Ok((first, Fields(fields)))
}

fn field(line: &[u8]) -> Result<(String, Vec<u8>), HeadError> {
    if line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(HeadError::Folded);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(HeadError::Field)?;
    let (name, value) = line.split_at(colon);
    let value = trimmed(value.get(1..).unwrap_or_default());
    if name.is_empty()
        || !name.iter().all(|byte| is_token(*byte))
        || !value.iter().all(|byte| is_field_byte(*byte))
    {
        return Err(HeadError::Field);
    }
    Ok((String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()))
}

/// The value without spaces and tabs around it; other control characters stay and are refused.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn minor_version(version: &str) -> Result<bool, HeadError> {
    match version {
        "HTTP/1.1" => Ok(true),
        "HTTP/1.0" => Ok(false),
        _ => Err(HeadError::Version),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

#[cfg(test)]
mod tests;
