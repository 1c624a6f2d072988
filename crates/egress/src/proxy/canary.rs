//! The proxy's test of itself: after each change of the rules it must refuse what nobody allows.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Core, Peer, Source, serve};
use crate::rules::Unlisted;

/// A name that cannot exist and that no rule may allow.
const NAME: &str = "pollux-canary.invalid:443";
/// An address that no rule can allow.
const ADDRESS: &str = "0.0.0.0:443";
/// How long an answer may take: a busy machine is not a failure of the proxy.
const LIMIT: Duration = Duration::from_secs(60);

/// The proxy let through what it must refuse, and was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the egress proxy failed its self-test and was closed: it did not refuse `{0}`")]
pub struct CanaryError(&'static str);

impl Core {
    /// Asks this proxy, through its own front door, for targets that must be refused.
    pub(crate) async fn check_canary(self: &Arc<Self>) -> Result<(), CanaryError> {
        let targets: &[&'static str] = match self.rules.snapshot().unlisted() {
            Unlisted::Ask => &[NAME, ADDRESS],
            // Every public name is allowed; addresses still are not.
            Unlisted::Public => &[ADDRESS],
        };
        for target in targets {
            let refused = tokio::time::timeout(LIMIT, self.refuses(target)).await.unwrap_or(false);
            if !refused {
                return Err(CanaryError(target));
            }
        }
        Ok(())
    }

    async fn refuses(self: &Arc<Self>, target: &str) -> bool {
        let (mut ours, theirs) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(theirs);
        let peer = Peer { is_canary: true, ..Peer::default() };
        let serving = serve(Arc::clone(self), Source::new(Box::new(reader)), Box::new(writer), None, peer);
        let asking = async {
            let request = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n");
            ours.write_all(request.as_bytes()).await.ok()?;
            let mut status = [0; 12];
            ours.read_exact(&mut status).await.ok()?;
            drop(ours);
            Some(status == *b"HTTP/1.1 403")
        };
        let ((), refused) = tokio::join!(serving, asking);
        refused == Some(true)
    }
}
