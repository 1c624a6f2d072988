//! Who uses a server: the sessions that share it, and whose request is running.
//!
//! A server asks for something while it carries out a request. If several sessions use it, its questions go to the one
//! whose request is running; if that is not clear, to nobody.

use std::sync::{Arc, Mutex};

use pollux_domain::approval::Person;
use pollux_domain::sync::Locked as _;

/// A session that uses servers.
#[derive(Default)]
pub(crate) struct User {
    person: Mutex<Option<Arc<dyn Person>>>,
}

impl User {
    /// Whom servers may ask from now on.
    pub(crate) fn introduce(&self, person: Arc<dyn Person>) {
        *self.person.locked() = Some(person);
    }

    pub(crate) fn person(&self) -> Option<Arc<dyn Person>> {
        self.person.locked().clone()
    }
}

/// The sessions that use one server.
#[derive(Default)]
pub(crate) struct Users(Mutex<Vec<Use>>);

struct Use {
    user: Arc<User>,
    /// Its requests that are not answered yet.
    running: usize,
}

/// A request that is not answered yet.
pub(crate) struct RunningRequest<'a> {
    users: &'a Users,
    user: &'a Arc<User>,
}

impl Users {
    pub(crate) fn add(&self, user: &Arc<User>) {
        self.0.locked().push(Use { user: Arc::clone(user), running: 0 });
    }

    /// Removes a session; returns whether none is left.
    pub(crate) fn remove(&self, user: &Arc<User>) -> bool {
        let mut users = self.0.locked();
        users.retain(|other| !Arc::ptr_eq(&other.user, user));
        users.is_empty()
    }

    /// Notes a request of a session until it is dropped.
    pub(crate) fn runs<'a>(&'a self, user: &'a Arc<User>) -> RunningRequest<'a> {
        self.count(user, |running| running + 1);
        RunningRequest { users: self, user }
    }

    fn count(&self, user: &Arc<User>, change: impl FnOnce(usize) -> usize) {
        if let Some(used) = self.0.locked().iter_mut().find(|used| Arc::ptr_eq(&used.user, user)) {
            used.running = change(used.running);
        }
    }

    /// Whom the server may ask now.
    pub(crate) fn asked(&self) -> Option<Arc<dyn Person>> {
        let users = self.0.locked();
        if let [only] = users.as_slice() {
            return only.user.person();
        }
        let mut running = users.iter().filter(|used| used.running > 0);
        match (running.next(), running.next()) {
            (Some(only), None) => only.user.person(),
            _ => None,
        }
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.users.count(self.user, |running| running.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use pollux_domain::BoxFuture;
    use pollux_domain::approval::{ApprovalAnswer, Question};
    use tokio_util::sync::CancellationToken;

    use super::*;

    struct Nobody;

    impl Person for Nobody {
        fn ask<'a>(
            &'a self,
            _who: &'a str,
            _questions: Vec<Question>,
            _cancel: &'a CancellationToken,
        ) -> BoxFuture<'a, ApprovalAnswer> {
            Box::pin(std::future::ready(ApprovalAnswer::Cancel))
        }
    }

    fn user() -> (Arc<User>, Arc<dyn Person>) {
        let (user, person) = (Arc::new(User::default()), Arc::new(Nobody) as Arc<dyn Person>);
        user.introduce(Arc::clone(&person));
        (user, person)
    }

    #[test]
    fn a_shared_server_asks_only_the_session_whose_request_runs() {
        let users = Users::default();
        let ((one, first), (other, second)) = (user(), user());
        let is = |person: &Arc<dyn Person>| users.asked().is_some_and(|asked| Arc::ptr_eq(&asked, person));
        users.add(&one);
        assert!(is(&first), "the only session may always be asked");
        users.add(&other);
        assert!(users.asked().is_none());
        let running = users.runs(&other);
        assert!(is(&second));
        let both = users.runs(&one);
        assert!(users.asked().is_none(), "it is not clear whose question it is");
        drop(running);
        assert!(is(&first));
        drop(both);
        assert!(users.asked().is_none());
        assert!(!users.remove(&other));
        assert!(is(&first));
        assert!(users.remove(&one));
    }
}
