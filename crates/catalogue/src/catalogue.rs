//! The public interface of the index; it always returns a result.

use std::path::{Path, PathBuf};

use pollux_domain::time::Timestamp;
use rusqlite::{Connection, Error, Result};

use crate::database::{self, Remedy};
use crate::listing::{self, Filter, Listed};
use crate::refresh::{self, Progress, Refreshed};
use crate::scope::Scopes;
use crate::search::{self, Hit};
use crate::source::Source;
use crate::statistics::{self, Statistics};
use crate::text_index;

/// An index over the sessions of some sources.
#[derive(Debug)]
pub struct Catalogue {
    /// `None` only where there is not even memory for one.
    connection: Option<Connection>,
    /// Its file; `None` once it is only in memory.
    file: Option<PathBuf>,
    sources: Vec<Source>,
    scopes: Scopes,
    has_texts: bool,
}

impl Catalogue {
    /// Opens the index in this file or creates it; if that is not possible, it is created in memory.
    pub fn open(file: &Path) -> Self {
        let kept = database::open(file).ok();
        let file = kept.is_some().then(|| file.to_owned());
        let connection = kept.or_else(|| database::in_memory().ok());
        Self { connection, file, sources: Vec::new(), scopes: Scopes::default(), has_texts: false }
    }

    /// An index for this process only, where no file should be created.
    pub fn in_memory() -> Self {
        let connection = database::in_memory().ok();
        Self { connection, file: None, sources: Vec::new(), scopes: Scopes::default(), has_texts: false }
    }

    /// Whether the index outlives this process.
    pub fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// Updates the index from these sources, which are listed and searched from now on. Only changed files are
    /// read.
    pub fn refresh(&mut self, sources: &[Source], progress: &mut dyn FnMut(Progress)) -> Refreshed {
        self.sources = sources.to_vec();
        self.has_texts = false;
        self.attempt(&mut |catalogue| catalogue.try_refresh(progress))
    }

    /// Selects these sources for listing as the index knows them; no file is read.
    pub fn look_at(&mut self, sources: &[Source]) {
        self.sources = sources.to_vec();
        self.has_texts = false;
        self.attempt(&mut |catalogue| {
            catalogue.scopes = Scopes::of(catalogue.connected()?, &catalogue.sources)?;
            Ok(())
        });
    }

    /// Updates the texts of the sessions; only needed before a search.
    pub fn refresh_texts(&mut self, progress: &mut dyn FnMut(Progress)) {
        self.attempt(&mut |catalogue| catalogue.try_refresh_texts(progress));
    }

    /// The sessions, most recently updated first.
    pub fn list(&mut self, filter: &Filter) -> Vec<Listed> {
        self.attempt(&mut |catalogue| listing::list(catalogue.connected()?, &catalogue.scopes, filter))
    }

    /// Messages that contain all these words, best first; the last word may be a prefix, `"…"` is a phrase.
    pub fn search(&mut self, words: &str, filter: &Filter, now: Timestamp) -> Vec<Hit> {
        self.attempt(&mut |catalogue| {
            search::search(catalogue.connected()?, &catalogue.scopes, words, filter, now)
        })
    }

    /// How much there is.
    pub fn statistics(&mut self) -> Statistics {
        self.attempt(&mut |catalogue| statistics::collect(catalogue.connected()?, &catalogue.scopes))
    }

    fn connected(&self) -> Result<&Connection> {
        self.connection.as_ref().ok_or(Error::InvalidQuery)
    }

    fn try_refresh(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Refreshed> {
        let connection = self.connection.as_mut().ok_or(Error::InvalidQuery)?;
        let (scopes, refreshed) = refresh::run(connection, &self.sources, progress)?;
        self.scopes = scopes;
        Ok(refreshed)
    }

    fn try_refresh_texts(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        self.has_texts = true;
        let connection = self.connection.as_mut().ok_or(Error::InvalidQuery)?;
        text_index::run(connection, &self.sources, &self.scopes, progress)
    }

    /// Does something with the index; if the index is at fault, does it again with another one.
    fn attempt<T: Default>(&mut self, work: &mut dyn FnMut(&mut Self) -> Result<T>) -> T {
        let mut is_first = true;
        loop {
            match work(self) {
                Ok(done) => return done,
                Err(error) if self.file.is_some() => self.replace(&error, is_first),
                // In memory there is nothing else to try.
                Err(_) => return T::default(),
            }
            is_first = false;
        }
    }

    /// Replaces an unusable index by a new one and fills it to the same extent. A file that fails a second
    /// time is left alone.
    fn replace(&mut self, error: &Error, is_first: bool) {
        // Closed first, or its file could not be replaced.
        self.connection = None;
        let file = self.file.take().filter(|_| is_first && database::remedy(error) == Remedy::ThrowAway);
        if let Some(file) = file {
            database::throw_away(&file);
            self.connection = database::open(&file).ok();
            self.file = self.connection.is_some().then_some(file);
        }
        if self.connection.is_none() {
            self.connection = database::in_memory().ok();
        }
        let had_texts = self.has_texts;
        if self.try_refresh(&mut |_| {}).is_ok() && had_texts {
            // The work itself finds out if this did not work.
            let _ = self.try_refresh_texts(&mut |_| {});
        }
    }
}
