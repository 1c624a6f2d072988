//! The system's keychain, accessed on a separate thread, so that a hanging keychain cannot block the program.

#[cfg(all(feature = "keychain", target_os = "macos"))]
mod macos;
pub(crate) mod memory;
#[cfg(all(feature = "keychain", target_os = "linux"))]
mod secret_service;

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use pollux_domain::hex;
use pollux_domain::sync::Locked as _;

use crate::random;

/// How long the keychain may take for one answer; upstream's number.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// How much longer it may take to store or delete something. A busy machine must not decide where a secret is kept, and a
/// keychain that answers later would have it twice.
const FOR_CHANGES: u32 = 5;
/// Prefix of the probe's accounts; upstream's value.
pub(super) const PROBE_PREFIX: &str = "__keychain_test__";

/// Why the keychain could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeychainError {
    #[error("this build has no keychain support")]
    Unsupported,
    #[error("no D-Bus session is available")]
    NoSession,
    #[error("no keychain is available ({0})")]
    Unreachable(String),
    #[error("the keychain is locked")]
    Locked,
    #[error("the keychain did not respond within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("the keychain failed ({0})")]
    Failed(String),
    #[error("the keychain returned a different value than was stored")]
    Forgetful,
}

impl KeychainError {
    /// Whether this machine has no keychain, rather than one that does not respond.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::Unsupported | Self::NoSession | Self::Unreachable(_) => true,
            Self::Locked | Self::TimedOut(_) | Self::Failed(_) | Self::Forgetful => false,
        }
    }
}

/// Passwords by service and account. Calls may block.
pub(crate) trait Keychain {
    fn get(&mut self, service: &str, account: &str) -> Result<Option<String>, KeychainError>;
    fn set(&mut self, service: &str, account: &str, value: &str) -> Result<(), KeychainError>;
    fn delete(&mut self, service: &str, account: &str) -> Result<bool, KeychainError>;
    fn accounts(&mut self, service: &str) -> Result<Vec<String>, KeychainError>;
}

/// Connects to a keychain; runs on the keychain's thread.
pub(crate) type Opener = Box<dyn FnOnce() -> Result<Box<dyn Keychain>, KeychainError> + Send>;

/// How the system's keychain is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeychainAddress {
    /// It is not.
    #[default]
    None,
    /// No session bus is available.
    NoBus,
    /// A D-Bus address; the Keychain of macOS needs none.
    Bus(String),
}

type Job = Box<dyn FnOnce(Result<&mut dyn Keychain, &KeychainError>) + Send>;

/// A keychain behind a time limit.
pub(super) struct TimedKeychain {
    state: Mutex<State>,
    patience: Duration,
}

enum State {
    Unopened(Opener),
    Open(SyncSender<Job>),
    /// It did not respond once, so it is not tried again.
    Lost(KeychainError),
}

impl TimedKeychain {
    pub(super) fn new(opener: Opener, patience: Duration) -> Self {
        Self { state: Mutex::new(State::Unopened(opener)), patience }
    }

    pub(super) fn get(&self, service: &str, account: &str) -> Result<Option<String>, KeychainError> {
        let (service, account) = (service.to_owned(), account.to_owned());
        self.ask(self.patience, move |keychain| keychain.get(&service, &account))
    }

    /// Stores and reads back.
    pub(super) fn set(&self, service: &str, account: &str, value: &str) -> Result<(), KeychainError> {
        let (service, account, value) = (service.to_owned(), account.to_owned(), value.to_owned());
        self.ask(self.patience * FOR_CHANGES, move |keychain| {
            keychain.set(&service, &account, &value)?;
            let kept = keychain.get(&service, &account)?;
            if kept.as_deref() == Some(value.as_str()) { Ok(()) } else { Err(KeychainError::Forgetful) }
        })
    }

    pub(super) fn delete(&self, service: &str, account: &str) -> Result<bool, KeychainError> {
        let (service, account) = (service.to_owned(), account.to_owned());
        self.ask(self.patience * FOR_CHANGES, move |keychain| keychain.delete(&service, &account))
    }

    pub(super) fn accounts(&self, service: &str) -> Result<Vec<String>, KeychainError> {
        let service = service.to_owned();
        self.ask(self.patience, move |keychain| keychain.accounts(&service))
    }

    /// Writes, reads and deletes an entry that means nothing.
    pub(super) fn probe(&self, service: &str) -> Result<(), KeychainError> {
        let random: [u8; 8] = random::bytes().map_err(|error| KeychainError::Failed(error.to_string()))?;
        let account = format!("{PROBE_PREFIX}{}", hex::encode(&random));
        let service = service.to_owned();
        self.ask(self.patience * FOR_CHANGES, move |keychain| {
            keychain.set(&service, &account, "test")?;
            let kept = keychain.get(&service, &account)?;
            let deleted = keychain.delete(&service, &account)?;
            let works = deleted && kept.as_deref() == Some("test");
            if works { Ok(()) } else { Err(KeychainError::Forgetful) }
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut dyn Keychain) -> Result<T, KeychainError> + Send + 'static,
    ) -> Result<T, KeychainError> {
        let (sender, answer) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |keychain| {
            let result = keychain.map_err(|error| error.clone()).and_then(work);
            // The caller may have stopped waiting.
            let _ = sender.send(result);
        });
        // Held while waiting: one question at a time is all that the thread can answer.
        let mut state = self.state.locked();
        let line = open(&mut state)?;
        let gone = || KeychainError::Failed("its worker thread ended".to_owned());
        let result = match line.send(job) {
            Ok(()) => answer.recv_timeout(patience).map_err(|error| match error {
                RecvTimeoutError::Timeout => KeychainError::TimedOut(patience),
                RecvTimeoutError::Disconnected => gone(),
            }),
            Err(_) => Err(gone()),
        };
        result.unwrap_or_else(|error| {
            *state = State::Lost(error.clone());
            Err(error)
        })
    }
}

fn open(state: &mut State) -> Result<SyncSender<Job>, KeychainError> {
    match state {
        State::Open(line) => return Ok(line.clone()),
        State::Lost(error) => return Err(error.clone()),
        State::Unopened(_) => {}
    }
    let (line, jobs) = mpsc::sync_channel(1);
    let State::Unopened(opener) = std::mem::replace(state, State::Open(line.clone())) else {
        return Ok(line);
    };
    let started = thread::Builder::new().name("keychain".to_owned()).spawn(move || serve(opener, &jobs));
    match started {
        // Not joined: a thread that hangs in the keychain would keep the program from ending.
        Ok(_) => Ok(line),
        Err(error) => {
            let error = KeychainError::Failed(error.to_string());
            *state = State::Lost(error.clone());
            Err(error)
        }
    }
}

fn serve(opener: Opener, jobs: &Receiver<Job>) {
    let mut keychain = opener();
    while let Ok(job) = jobs.recv() {
        match &mut keychain {
            Ok(keychain) => job(Ok(&mut **keychain)),
            Err(error) => job(Err(error)),
        }
    }
}

/// The system's keychain, or why none is available; does not connect yet.
pub(super) fn system(address: &KeychainAddress) -> Result<Opener, KeychainError> {
    match address {
        KeychainAddress::None => Err(KeychainError::Unsupported),
        KeychainAddress::NoBus => Err(KeychainError::NoSession),
        KeychainAddress::Bus(address) => {
            #[cfg(all(feature = "keychain", target_os = "linux"))]
            {
                let address = address.clone();
                Ok(Box::new(move || secret_service::open(&address)))
            }
            #[cfg(all(feature = "keychain", target_os = "macos"))]
            {
                let _ = address;
                Ok(Box::new(macos::open))
            }
            #[cfg(not(all(feature = "keychain", any(target_os = "linux", target_os = "macos"))))]
            {
                let _ = address;
                Err(KeychainError::Unsupported)
            }
        }
    }
}
