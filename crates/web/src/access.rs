//! Who may use the page: codes that work once, and the logins they are exchanged for.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use pollux_host::hub::Scopes;
use pollux_resident::Attachment;
use pollux_serve::{SecretDigest, random_secret};
use tokio::time::Instant;

/// How long a code works, and a login.
pub(crate) const CODE_TIME: Duration = Duration::from_secs(60);
const LOGIN_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Wrong codes before all are withdrawn.
const WRONG: usize = 10;
/// Codes and logins that are kept; the oldest go first.
const CODES: usize = 16;
const LOGINS: usize = 64;

/// The codes and logins of a server.
#[derive(Default)]
pub(crate) struct Access {
    codes: RefCell<Codes>,
    logins: RefCell<Vec<Rc<Login>>>,
}

#[derive(Default)]
struct Codes {
    open: Vec<Code>,
    /// Wrong ones since the last was made.
    wrong: usize,
}

struct Code {
    digest: SecretDigest,
    scopes: Scopes,
    until: Instant,
}

/// A browser that has shown a code.
pub(crate) struct Login {
    cookie: SecretDigest,
    key: SecretDigest,
    pub(crate) scopes: Scopes,
    pub(crate) until: Instant,
    /// The sessions that it shows.
    shown: RefCell<Vec<(String, Weak<Attachment>)>>,
}

/// The secrets of a login. The browser sends cookies to every port of this machine, so they are not enough: the key
/// stays with the page's own origin.
pub(crate) struct LoginSecrets {
    pub(crate) cookie: String,
    pub(crate) key: String,
    pub(crate) scopes: Scopes,
}

/// Why a code was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CodeRefusal {
    /// Unknown, used or expired.
    Invalid,
    /// Too many were wrong.
    LockedOut,
}

impl Access {
    /// A new code for a login with these rights.
    pub(crate) fn new_code(&self, scopes: Scopes) -> String {
        let code = random_secret();
        let mut codes = self.codes.borrow_mut();
        codes.wrong = 0;
        codes.open.retain(|code| code.until > Instant::now());
        if codes.open.len() >= CODES {
            codes.open.remove(0);
        }
        let until = Instant::now() + CODE_TIME;
        codes.open.push(Code { digest: SecretDigest::of(&code), scopes, until });
        code
    }

    /// Takes a code. It does not work again, whatever comes of it.
    pub(crate) fn take_code(&self, code: &str) -> Result<Scopes, CodeRefusal> {
        let mut codes = self.codes.borrow_mut();
        if codes.wrong >= WRONG {
            return Err(CodeRefusal::LockedOut);
        }
        let given = SecretDigest::of(code);
        // Every code is compared, so that the time tells nothing about them.
        let at = codes.open.iter().enumerate().filter(|(_, code)| code.digest == given);
        let at = at.map(|(at, _)| at).fold(None, |_, at| Some(at));
        let taken = at.map(|at| codes.open.remove(at)).filter(|code| code.until > Instant::now());
        if let Some(code) = taken {
            return Ok(code.scopes);
        }
        codes.wrong += 1;
        if codes.wrong >= WRONG {
            codes.open.clear();
            return Err(CodeRefusal::LockedOut);
        }
        Err(CodeRefusal::Invalid)
    }

    /// Logs a browser in.
    pub(crate) fn log_in(&self, scopes: Scopes) -> LoginSecrets {
        let secrets = LoginSecrets { cookie: random_secret(), key: random_secret(), scopes };
        let login = Login {
            cookie: SecretDigest::of(&secrets.cookie),
            key: SecretDigest::of(&secrets.key),
            scopes,
            until: Instant::now() + LOGIN_TIME,
            shown: RefCell::default(),
        };
        let mut logins = self.logins.borrow_mut();
        logins.retain(|login| login.until > Instant::now());
        if logins.len() >= LOGINS {
            logins.remove(0);
        }
        logins.push(Rc::new(login));
        secrets
    }

    /// The login that these secrets belong to.
    pub(crate) fn find(&self, cookie: &str, key: &str) -> Option<Rc<Login>> {
        let (cookie, key) = (SecretDigest::of(cookie), SecretDigest::of(key));
        let logins = self.logins.borrow();
        let matching = logins.iter().filter(|login| (login.cookie == cookie) & (login.key == key));
        let found = matching.fold(None, |_, login| Some(Rc::clone(login)));
        found.filter(|login| login.until > Instant::now())
    }
}

impl Login {
    /// Notes that it shows a session.
    pub(crate) fn shows(&self, session: &str, attachment: &Rc<Attachment>) {
        let mut shown = self.shown.borrow_mut();
        shown.retain(|(_, attachment)| attachment.strong_count() > 0);
        shown.push((session.to_owned(), Rc::downgrade(attachment)));
    }

    /// The front end with which it shows a session.
    pub(crate) fn attachment(&self, session: &str) -> Option<Rc<Attachment>> {
        let shown = self.shown.borrow();
        let of_session = shown.iter().rev().filter(|(shown, _)| shown == session);
        of_session.filter_map(|(_, attachment)| attachment.upgrade()).next()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_code_works_once_and_for_a_minute() {
        let access = Access::default();
        let code = access.new_code(Scopes::WATCH);
        assert!(code.len() >= 32);
        assert_eq!(access.take_code(&code), Ok(Scopes::WATCH));
        assert_eq!(access.take_code(&code), Err(CodeRefusal::Invalid));
        let code = access.new_code(Scopes::ALL);
        advance(CODE_TIME - Duration::from_secs(1)).await;
        let other = access.new_code(Scopes::ALL);
        advance(Duration::from_secs(1)).await;
        assert_eq!(access.take_code(&code), Err(CodeRefusal::Invalid));
        assert_eq!(access.take_code(&other), Ok(Scopes::ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_wrong_codes_withdraw_the_right_one_until_the_next_is_made() {
        let access = Access::default();
        let code = access.new_code(Scopes::ALL);
        for _ in 1..WRONG {
            assert_eq!(access.take_code("0"), Err(CodeRefusal::Invalid));
        }
        assert_eq!(access.take_code("0"), Err(CodeRefusal::LockedOut));
        assert_eq!(access.take_code(&code), Err(CodeRefusal::LockedOut));
        let next = access.new_code(Scopes::ALL);
        assert_eq!(access.take_code(&code), Err(CodeRefusal::Invalid));
        assert_eq!(access.take_code(&next), Ok(Scopes::ALL));
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_needs_both_secrets_and_ends_after_twelve_hours() {
        let access = Access::default();
        let (one, other) = (access.log_in(Scopes::WATCH), access.log_in(Scopes::ALL));
        assert_eq!(access.find(&one.cookie, &one.key).map(|login| login.scopes), Some(Scopes::WATCH));
        for (cookie, key) in [(&one.cookie, &other.key), (&other.cookie, &one.key), (&one.key, &one.cookie)] {
            assert!(access.find(cookie, key).is_none());
        }
        assert!(access.find(&one.cookie, "").is_none() && access.find("", &one.key).is_none());
        advance(LOGIN_TIME).await;
        assert!(access.find(&one.cookie, &one.key).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_logins_are_kept() {
        let access = Access::default();
        let first = access.log_in(Scopes::ALL);
        let rest: Vec<LoginSecrets> = (0..LOGINS).map(|_| access.log_in(Scopes::ALL)).collect();
        assert!(access.find(&first.cookie, &first.key).is_none());
        assert!(rest.iter().all(|login| access.find(&login.cookie, &login.key).is_some()));
    }
}
