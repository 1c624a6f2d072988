//! Heads as they are forwarded.

use super::{Fields, Framing, HeadError, RequestHead, ResponseHead};
use crate::host::Authority;

/// A request's head for the server: the given target, one `Host`, no fields of the connection to the client.
pub(crate) fn forward_request(
    head: &RequestHead,
    target: &str,
    authority: &Authority,
    default_port: u16,
    extra: &[(&str, &str)],
) -> Result<Vec<u8>, HeadError> {
    let framing = head.framing()?;
    let version = if head.is_1_1 { "HTTP/1.1" } else { "HTTP/1.0" };
    let mut out = format!("{} {target} {version}\r\n", head.method).into_bytes();
    let host =
        if authority.port == default_port { authority.host.to_string() } else { authority.to_string() };
    line(&mut out, "host", host.as_bytes());
    for (name, value) in head.fields.end_to_end()? {
        if name != "host" {
            line(&mut out, name, value);
        }
    }
    for (name, value) in extra {
        line(&mut out, name, value.as_bytes());
    }
    if framing == Framing::Chunked {
        line(&mut out, "transfer-encoding", b"chunked");
    }
    if head.is_websocket() {
        line(&mut out, "connection", b"upgrade");
        line(&mut out, "upgrade", b"websocket");
    } else if !head.is_1_1 {
        line(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

/// A response's head for the client. `keep` says whether another request may follow on the connection.
pub(crate) fn forward_response(
    head: &ResponseHead,
    framing: Framing,
    keep: bool,
) -> Result<Vec<u8>, HeadError> {
    let mut out = format!("HTTP/1.1 {} ", head.status).into_bytes();
    out.extend_from_slice(&head.reason);
    out.extend_from_slice(b"\r\n");
    fields(&mut out, &head.fields)?;
    if framing == Framing::Chunked {
        line(&mut out, "transfer-encoding", b"chunked");
    }
    if head.status == 101 {
        line(&mut out, "connection", b"upgrade");
        line(&mut out, "upgrade", b"websocket");
    } else if !keep && head.status >= 200 {
        line(&mut out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

fn fields(out: &mut Vec<u8>, fields: &Fields) -> Result<(), HeadError> {
    for (name, value) in fields.end_to_end()? {
        line(out, name, value);
    }
    Ok(())
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
