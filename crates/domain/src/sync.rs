//! Locks that stay usable after a thread holding one has panicked.
//!
//! For values that are whole between any two statements, so that a panic elsewhere must not spread.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex, ignoring poisoning.
pub trait Locked<T: ?Sized> {
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T: ?Sized> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for a lock with many readers.
pub trait SharedLocked<T: ?Sized> {
    fn read_locked(&self) -> RwLockReadGuard<'_, T>;
    fn write_locked(&self) -> RwLockWriteGuard<'_, T>;
}

impl<T: ?Sized> SharedLocked<T> for RwLock<T> {
    fn read_locked(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_locked(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_keeps_nobody_out() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let (_mutex, _shared) = (mutex.locked(), shared.write_locked());
                panic!("on purpose");
            });
            holder.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned() && shared.is_poisoned());
        *mutex.locked() += 1;
        *shared.write_locked() += 1;
        assert_eq!((*mutex.locked(), *shared.read_locked()), (2, 2));
    }
}
