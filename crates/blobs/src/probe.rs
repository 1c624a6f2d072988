//! Tries whether a store keeps its conditions.

use uuid::Uuid;

use crate::key::Key;
use crate::port::{Blobs, Condition, Consistency, PutError, StoreError, StoreErrorKind};

/// Creates an object twice, then overwrites and deletes it with an old version.
pub(crate) async fn run<S: Blobs + ?Sized>(store: &S) -> Result<Consistency, StoreError> {
    let key = Key::parse(&format!("probe/{}", Uuid::new_v4())).map_err(|error| StoreError {
        kind: StoreErrorKind::Unusable,
        action: "probe".to_owned(),
        place: store.place(),
        message: error.to_string(),
    })?;
    let result = steps(store, &key).await;
    // An object left behind does no harm.
    let _ = store.delete(&key, Condition::Any).await;
    result
}

async fn steps<S: Blobs + ?Sized>(store: &S, key: &Key) -> Result<Consistency, StoreError> {
    let conflict = |key: &Key| StoreError {
        kind: StoreErrorKind::Unusable,
        action: format!("probe `{key}`"),
        place: store.place(),
        message: "it refused a write whose condition was met".to_owned(),
    };
    let done = |result: Result<_, PutError>| match result {
        Ok(version) => Ok(version),
        Err(PutError::Conflict(key)) => Err(conflict(&key)),
        Err(PutError::Store(error)) => Err(error),
    };
    let first = done(store.put(key, b"1", Condition::Absent).await)?;
    let creates = refused(store.put(key, b"2", Condition::Absent).await)?;
    let stale = if creates { first } else { done(store.put(key, b"3", Condition::Any).await)? };
    done(store.put(key, b"4", Condition::Version(stale.clone())).await)?;
    let updates = refused(store.put(key, b"5", Condition::Version(stale.clone())).await)?;
    let deletes = refused(store.delete(key, Condition::Version(stale)).await)?;
    Ok(Consistency { creates, updates, deletes })
}

fn refused<T>(result: Result<T, PutError>) -> Result<bool, StoreError> {
    match result {
        Ok(_) => Ok(false),
        Err(PutError::Conflict(_)) => Ok(true),
        Err(PutError::Store(error)) => Err(error),
    }
}
