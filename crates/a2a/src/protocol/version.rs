//! Versions of the protocol, and how each is spelled.

/// The header that names the version of a request.
pub const VERSION_HEADER: &str = "a2a-version";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 0.3, and whatever names no version.
    Old,
    /// 1.0
    One,
}

/// A version that neither side of this program speaks.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unsupported protocol version `{0}`; supported versions are 1.0 and 0.3")]
pub struct UnknownVersion(pub String);

impl Version {
    /// Reads the value of the version header; `None` if it is empty.
    pub fn read(text: &str) -> Result<Option<Self>, UnknownVersion> {
        let mut numbers = text.trim().split('.');
        match (numbers.next(), numbers.next()) {
            (Some(""), None) => Ok(None),
            (Some("1"), None | Some("0")) => Ok(Some(Self::One)),
            (Some("0"), Some("3" | "2")) => Ok(Some(Self::Old)),
            _ => Err(UnknownVersion(text.trim().chars().take(40).collect())),
        }
    }

    /// The version as a card names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => "0.3",
            Self::One => "1.0",
        }
    }
}

/// How messages are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// JSON-RPC of 0.3: objects are tagged by `kind`.
    Tagged,
    /// HTTP+JSON of 0.3, which spells as its protocol buffers do.
    OldBuffers,
    /// 1.0, on every transport.
    One,
}

impl Dialect {
    /// The dialect of JSON-RPC in this version.
    pub fn of_rpc(version: Version) -> Self {
        match version {
            Version::Old => Self::Tagged,
            Version::One => Self::One,
        }
    }

    /// The dialect of HTTP+JSON in this version.
    pub fn of_http(version: Version) -> Self {
        match version {
            Version::Old => Self::OldBuffers,
            Version::One => Self::One,
        }
    }

    pub fn version(self) -> Version {
        match self {
            Self::Tagged | Self::OldBuffers => Version::Old,
            Self::One => Version::One,
        }
    }

    pub(crate) fn is_tagged(self) -> bool {
        self == Self::Tagged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_by_major_and_minor_number() {
        for (text, version) in [
            ("1.0", Some(Version::One)),
            ("1", Some(Version::One)),
            ("1.0.1", Some(Version::One)),
            ("0.3", Some(Version::Old)),
            ("0.3.0", Some(Version::Old)),
            (" ", None),
        ] {
            assert_eq!(Version::read(text), Ok(version), "{text}");
        }
        for text in ["2.0", "1.7", "0.9", "x", "0", "1.x"] {
            assert!(Version::read(text).is_err(), "{text}");
        }
    }
}
