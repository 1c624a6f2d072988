//! The client's side of a tunnel, for programs of ours that speak through the proxy themselves.

use std::io::{self, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::host::Authority;
use crate::http::{ResponseHead, head_length};

/// Maximum size of the proxy's answer.
const MAX_HEAD: usize = 16 * 1024;

/// Why a tunnel could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("the sandbox does not allow {0}")]
    Refused(Authority),
    #[error("the egress proxy could not reach {target} (status {status})")]
    Failed { target: Authority, status: u16 },
    #[error("could not talk to the egress proxy")]
    Proxy(#[from] io::Error),
}

/// Opens a tunnel on a fresh connection to the proxy; after it, the stream is connected to the target.
pub fn open_tunnel(
    stream: &mut (impl Read + Write),
    target: &Authority,
    token: Option<&str>,
) -> Result<(), TunnelError> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n");
    if let Some(token) = token {
        let user = STANDARD.encode(format!("{token}:x"));
        request.push_str(&format!("proxy-authorization: Basic {user}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;
    let head = read_head(stream)?;
    match head.status {
        200..300 => Ok(()),
        403 if head.fields.count("x-pollux-refused") > 0 => Err(TunnelError::Refused(target.clone())),
        status => Err(TunnelError::Failed { target: target.clone(), status }),
    }
}

/// Reads the answer byte by byte: what follows belongs to the target.
fn read_head(stream: &mut impl Read) -> io::Result<ResponseHead> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while bytes.len() < MAX_HEAD {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if head_length(&bytes).map_err(invalid)?.is_some() {
            return ResponseHead::parse(&bytes).map_err(invalid);
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}
