//! A small HTTP/1.1 server for front ends on the network.
//!
//! Use it to answer requests with documents or streams of server-sent events: implement [`Site`], put its addresses into
//! [`Routes`], and call [`serve`], or [`serve_tls`] with a certificate. Everything that arrives is limited in size and time. It knows no protocol above HTTP
//! and no users; [`SecretDigest`] is for sites that do.

mod body;
mod listen;
mod loopback;
mod message;
mod patient;
mod routes;
mod secret;
mod tls;

pub use body::{EventSender, events};
pub use hyper::header;
pub use hyper::{HeaderMap, Method, StatusCode};
pub use listen::{Limits, Site, serve, serve_tls};
pub use loopback::{bind_loopback, check_loopback_host};
pub use message::{Head, Query, Request, Response};
pub use routes::{Params, RouteMatch, Routes};
pub use secret::{SecretDigest, random_secret, read_secret_file};
pub use tls::{TlsError, TlsIdentity};
