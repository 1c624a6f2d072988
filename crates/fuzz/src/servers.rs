//! Messages of MCP servers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use pollux_domain::content::Body;
use pollux_domain::tool::ToolOutcome;
use pollux_mcp::fuzzing::{declared_schema, messages, tool_outcome};
use tokio::io::{AsyncRead, ReadBuf};

use crate::pieces::{pieces, steering};

/// Bytes of a declared schema: the limit, and the argument of our own.
const MAX_SCHEMA: usize = 100 * 1024 + 1024;

/// Output that arrives in pieces.
struct Arriving<'a>(Vec<&'a [u8]>);

impl AsyncRead for Arriving<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.0.is_empty() {
            let piece = self.0.remove(0);
            buffer.put_slice(piece);
        }
        Poll::Ready(Ok(()))
    }
}

/// A server's messages do not depend on how they arrive, what else it prints is plain, and an answer and a schema are
/// limited.
pub(crate) fn mcp(bytes: &[u8]) {
    let ([seed], output) = steering(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read = |pieces| runtime.block_on(messages(Arriving(pieces)));
    let (whole, printed) = read(vec![output]);
    assert_eq!((&whole, &printed), (&read(pieces(output, seed)).0, &printed), "the same output in pieces");
    for line in printed {
        assert!(!line.chars().any(|c| c.is_control() && c != '\t'), "{line:?}");
    }
    for message in whole {
        let result = &message["result"];
        let _ = outcome_size(&tool_outcome(result));
        for schema in [result, &result["tools"][0]["inputSchema"]] {
            let declared = declared_schema(schema).to_string().len();
            assert!(declared <= MAX_SCHEMA, "{declared} bytes");
        }
    }
}

fn outcome_size(outcome: &ToolOutcome) -> usize {
    let ToolOutcome::Done(output) = outcome else { return 0 };
    let texts = output.parts.iter().filter_map(|part| match &part.body {
        Body::Text(text) => Some(text.len()),
        _ => None,
    });
    texts.sum()
}
