//! The server name of a TLS ClientHello, read without ending the encryption.
//!
//! Reads only as much as the first handshake message needs; nothing is decrypted or changed.

/// Maximum size of a record's content.
const MAX_RECORD: usize = 16 * 1024;
/// Maximum size of the whole message.
pub(crate) const MAX_HELLO: usize = 64 * 1024;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// What the first bytes of a connection say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// The message is not complete yet.
    Partial,
    /// A complete ClientHello with the name it asks for.
    Complete { server_name: Option<String> },
}

/// Why the bytes are not a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    #[error("not a TLS handshake")]
    NotTls,
    #[error("malformed TLS ClientHello")]
    Malformed,
    #[error("TLS ClientHello exceeds 64 KiB")]
    TooLarge,
}

/// Whether a connection that begins with this byte is TLS.
pub(crate) fn starts_tls(byte: u8) -> bool {
    byte == HANDSHAKE
}

/// Reads the ClientHello at the beginning of a connection; it may be split over several records.
pub fn read(bytes: &[u8]) -> Result<Hello, HelloError> {
    let mut message: Vec<u8> = Vec::new();
    let mut rest = bytes;
    loop {
        if let Some(body) = complete(&message)? {
            return client_hello(body).map(|server_name| Hello::Complete { server_name });
        }
        let Some(fragment) = record(&mut rest)? else { return Ok(Hello::Partial) };
        message.extend_from_slice(fragment);
        if message.len() > MAX_HELLO {
            return Err(HelloError::TooLarge);
        }
    }
}

/// The content of the next record; `None` if it is not all there.
fn record<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, HelloError> {
    let bytes = *rest;
    if bytes.first().is_some_and(|kind| *kind != HANDSHAKE) || bytes.get(1).is_some_and(|major| *major != 3) {
        return Err(HelloError::NotTls);
    }
    let Some(header) = bytes.get(..5) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length == 0 || length > MAX_RECORD {
        return Err(HelloError::Malformed);
    }
    let Some(content) = bytes.get(5..5 + length) else { return Ok(None) };
    *rest = bytes.get(5 + length..).unwrap_or_default();
    Ok(Some(content))
}

/// The body of the handshake message, once it is complete.
fn complete(message: &[u8]) -> Result<Option<&[u8]>, HelloError> {
    if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
        return Err(HelloError::NotTls);
    }
    let Some(header) = message.get(..4) else { return Ok(None) };
    let length = usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3]);
    if length > MAX_HELLO {
        return Err(HelloError::TooLarge);
    }
    Ok(message.get(4..4 + length))
}

fn client_hello(body: &[u8]) -> Result<Option<String>, HelloError> {
    let mut cursor = Cursor(body);
    cursor.take(2 + 32)?;
    let session_id = usize::from(cursor.byte()?);
    cursor.take(session_id)?;
    let suites = cursor.length()?;
    cursor.take(suites)?;
    let methods = usize::from(cursor.byte()?);
    cursor.take(methods)?;
    if cursor.0.is_empty() {
        return Ok(None);
    }
    let length = cursor.length()?;
    let mut extensions = Cursor(cursor.take(length)?);
    if !cursor.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = u16::try_from(extensions.length()?).unwrap_or(u16::MAX);
        let length = extensions.length()?;
        let content = extensions.take(length)?;
        if kind == SERVER_NAME && name.replace(server_name(content)?).is_some() {
            // Two extensions: the server might read the other one.
            return Err(HelloError::Malformed);
        }
    }
    Ok(name)
}

/// The only name of the extension's list.
fn server_name(content: &[u8]) -> Result<String, HelloError> {
    let mut cursor = Cursor(content);
    let length = cursor.length()?;
    let mut list = Cursor(cursor.take(length)?);
    let kind = list.byte()?;
    let length = list.length()?;
    let name = list.take(length)?;
    if kind != 0 || !list.0.is_empty() || !cursor.0.is_empty() {
        return Err(HelloError::Malformed);
    }
    String::from_utf8(name.to_vec()).map_err(|_| HelloError::Malformed)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, HelloError> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A number of two bytes.
    fn length(&mut self) -> Result<usize, HelloError> {
        self.take(2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefixed(content: &[u8]) -> Vec<u8> {
        let mut out = u16::try_from(content.len()).unwrap().to_be_bytes().to_vec();
        out.extend_from_slice(content);
        out
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut out = kind.to_be_bytes().to_vec();
        out.extend(prefixed(content));
        out
    }

    fn name_extension(names: &[&str]) -> Vec<u8> {
        let mut list = Vec::new();
        for name in names {
            list.push(0);
            list.extend(prefixed(name.as_bytes()));
        }
        extension(0, &prefixed(&list))
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(prefixed(&[0x13, 0x01]));
        body.extend([1, 0]);
        body.extend(prefixed(&extensions.concat()));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let mut out = vec![1, length[1], length[2], length[3]];
        out.extend(body);
        out
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [vec![22, 3, 1], prefixed(part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn found(name: Option<&str>) -> Result<Hello, HelloError> {
        Ok(Hello::Complete { server_name: name.map(str::to_owned) })
    }

    #[test]
    fn the_name_is_found_in_one_record_and_in_many() {
        let hello = message(&[extension(10, &[0; 8]), name_extension(&["good.example"])]);
        for size in [1, 2, 7, 100, 16_000] {
            let bytes = records(&hello, size);
            assert_eq!(read(&bytes), found(Some("good.example")), "records of {size}");
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Ok(Hello::Partial), "cut at {cut}");
            }
        }
        assert_eq!(read(&records(&message(&[]), 999)), found(None));
    }

    #[test]
    fn ambiguous_and_foreign_messages_are_refused() {
        let twice = message(&[name_extension(&["good.example"]), name_extension(&["evil.example"])]);
        assert_eq!(read(&records(&twice, 999)), Err(HelloError::Malformed));
        let two_names = message(&[name_extension(&["good.example", "evil.example"])]);
        assert_eq!(read(&records(&two_names, 999)), Err(HelloError::Malformed));
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Err(HelloError::NotTls));
        assert_eq!(read(b"SSH-2.0-x\r\n"), Err(HelloError::NotTls));
        assert_eq!(read(&[22, 3, 1, 0, 0]), Err(HelloError::Malformed));
        assert_eq!(read(&[22, 3, 1, 0xff, 0xff]), Err(HelloError::Malformed));
        assert_eq!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Err(HelloError::NotTls));
        assert_eq!(read(&[22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff]), Err(HelloError::TooLarge));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300), tls: bool) {
            if tls {
                bytes.splice(0..0, [22, 3, 1]);
            }
            let _ = read(&bytes);
        }

        #[test]
        fn a_changed_hello_is_partial_refused_or_names_one_host(
            at in 0usize..200, value: u8, size in 1usize..80,
        ) {
            let mut hello = message(&[name_extension(&["good.example"]), extension(16, &[1, 2, 3])]);
            let at = at % hello.len();
            hello[at] = value;
            if let Ok(Hello::Complete { server_name: Some(name) }) = read(&records(&hello, size)) {
                prop_assert!(name.len() <= hello.len());
            }
        }
    }
}
