//! Stores to test, with short pauses between attempts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pollux_blobs::{Blobs, Key, Prefix, StoreOptions, open};
use pollux_config::env::Env;
use pollux_domain::time::SystemClock;
use pollux_net::client::ClientOptions;
use pollux_test_support::FakeBlobs;

pub(crate) const SECRET: &str = "wJalrXUtnFEMIsecret";

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

pub(crate) fn prefix(text: &str) -> Prefix {
    Prefix::parse(text).unwrap()
}

pub(crate) fn options(home: &Path, variables: &[(&str, &str)]) -> StoreOptions {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let env = Env::new(variables, home.to_owned());
    let mut options =
        StoreOptions::new(env, home.to_owned(), ClientOptions::new("test"), Arc::new(SystemClock));
    options.retries = vec![Duration::from_millis(20); 3];
    options
}

/// A store and what it needs to stay.
pub(crate) struct Scene {
    pub(crate) store: Arc<dyn Blobs>,
    pub(crate) fake: Option<FakeBlobs>,
    pub(crate) home: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn fake(&self) -> &FakeBlobs {
        self.fake.as_ref().unwrap()
    }

    fn local(url: impl Fn(&Path) -> String) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = open(&url(home.path()), &options(home.path(), &[])).unwrap();
        Self { store, fake: None, home }
    }

    pub(crate) fn memory() -> Self {
        Self::local(|_| "memory:".to_owned())
    }

    pub(crate) fn file() -> Self {
        Self::local(|home| format!("file:{}", home.join("store").display()))
    }

    pub(crate) fn s3() -> Self {
        let (home, fake) = (tempfile::tempdir().unwrap(), FakeBlobs::start());
        let url = format!("s3://bucket/some/prefix?endpoint={}", fake.url());
        let store = open(&url, &options(home.path(), &aws_keys())).unwrap();
        Self { store, fake: Some(fake), home }
    }

    pub(crate) fn gs() -> Self {
        let (home, fake) = (tempfile::tempdir().unwrap(), FakeBlobs::start());
        let host = fake.authority();
        let variables = [("STORAGE_EMULATOR_HOST", host.as_str()), ("GOOGLE_CLOUD_PROJECT", "p")];
        let store = open("gs://bucket/some/prefix", &options(home.path(), &variables)).unwrap();
        Self { store, fake: Some(fake), home }
    }
}

pub(crate) fn aws_keys() -> [(&'static str, &'static str); 3] {
    [
        ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "session-secret"),
    ]
}
