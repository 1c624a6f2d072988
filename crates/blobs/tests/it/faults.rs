//! Stores that are slow, down, lossy or dishonest.

use std::time::Duration;

use pollux_blobs::{Condition, PutError, StoreErrorKind, open};
use pollux_test_support::{BlobFault, FakeBlobs, FakeHttp, HttpAnswer};
use serde_json::json;

use crate::scene::{SECRET, Scene, aws_keys, key, options, prefix};

async fn remotes() -> Vec<Scene> {
    let scenes = vec![Scene::s3(), Scene::gs()];
    for scene in &scenes {
        scene.store.ensure_bucket().await.unwrap();
    }
    scenes
}

fn is_write(request: &pollux_test_support::HttpRequest) -> bool {
    matches!(request.method.as_str(), "PUT" | "POST")
}

#[tokio::test]
async fn a_write_whose_response_is_lost_is_no_conflict_and_happens_once() {
    for scene in remotes().await {
        let (store, fake) = (&scene.store, scene.fake());
        let name = key("lease");
        fake.fault(is_write, BlobFault::LostResponse, 1);
        let first = store.put(&name, b"one", Condition::Absent).await.unwrap();
        assert_eq!(store.get(&name).await.unwrap().unwrap().version, first);
        fake.fault(is_write, BlobFault::LostResponse, 1);
        let second = store.put(&name, b"two", Condition::Version(first)).await.unwrap();
        assert_eq!(store.get(&name).await.unwrap().unwrap().version, second);
        assert_eq!(fake.writes("some/prefix/lease"), 2);
        fake.fault(|request| request.method == "DELETE", BlobFault::LostResponse, 1);
        store.delete(&name, Condition::Version(second)).await.unwrap();
        assert_eq!(store.get(&name).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_lost_response_does_not_turn_the_write_of_another_into_ours() {
    for scene in remotes().await {
        let (store, fake) = (&scene.store, scene.fake());
        // The other one wrote the same bytes, and our request was lost on its way.
        store.put(&key("lease"), b"same", Condition::Absent).await.unwrap();
        fake.fault(is_write, BlobFault::LostRequest, 1);
        let result = store.put(&key("lease"), b"same", Condition::Absent).await;
        assert!(matches!(result, Err(PutError::Conflict(_))), "{result:?}");
    }
}

#[tokio::test]
async fn the_last_request_of_a_large_write_may_be_lost_too() {
    for scene in remotes().await {
        let (store, fake) = (&scene.store, scene.fake());
        let bytes = vec![7; 9 * 1024 * 1024];
        let is_last = |request: &pollux_test_support::HttpRequest| {
            let range = request.header("content-range").unwrap_or_default();
            (request.method == "POST" && request.query.starts_with("uploadId="))
                || range.contains("-9437183/")
        };
        fake.fault(is_last, BlobFault::LostResponse, 1);
        let version = store.put(&key("big"), &bytes, Condition::Absent).await.unwrap();
        let blob = store.get(&key("big")).await.unwrap().unwrap();
        assert!(blob.bytes == bytes && blob.version == version);
        assert_eq!((fake.writes("some/prefix/big"), fake.open_uploads()), (1, 0));
        // A part in the middle, and a refusal of the whole.
        fake.fault(|request| request.body.len() > 1_000_000, BlobFault::LostResponse, 1);
        fake.fault(|request| request.body.len() > 1_000_000, BlobFault::Status(503), 1);
        store.put(&key("big2"), &bytes, Condition::Absent).await.unwrap();
        assert!(store.get(&key("big2")).await.unwrap().unwrap().bytes == bytes);
    }
}

#[tokio::test]
async fn failures_are_retried_three_times_and_then_named() {
    for scene in remotes().await {
        let (store, fake) = (&scene.store, scene.fake());
        for fault in
            [BlobFault::Status(503), BlobFault::Status(500), BlobFault::Status(429), BlobFault::LostRequest]
        {
            fake.fault(|_| true, fault.clone(), 3);
            store.put(&key("a"), b"x", Condition::Any).await.unwrap();
            fake.fault(|_| true, fault, 3);
            store.get(&key("a")).await.unwrap().unwrap();
        }
        let before = fake.requests().len();
        fake.fault(|_| true, BlobFault::Status(503), 4);
        let error = store.get(&key("a")).await.unwrap_err();
        assert!(error.may_pass() && error.kind() == StoreErrorKind::Unavailable);
        assert_eq!(fake.requests().len(), before + 4);
        assert!(error.to_string().starts_with("could not read `a` in "), "{error}");
        fake.fault(|_| true, BlobFault::Status(403), 1);
        let error = store.list(&prefix(""), None, 1).await.unwrap_err();
        assert_eq!((error.kind(), error.hint().is_some()), (StoreErrorKind::Denied, true));
        assert_eq!(fake.requests().len(), before + 5);
    }
}

#[tokio::test]
async fn a_slow_store_is_waited_for() {
    for scene in remotes().await {
        scene.fake().fault(|_| true, BlobFault::Delay(Duration::from_millis(300)), 1);
        scene.store.put(&key("a"), b"x", Condition::Absent).await.unwrap();
        assert_eq!(scene.fake().writes("some/prefix/a"), 1);
    }
}

#[tokio::test]
async fn damaged_content_is_fetched_again_and_never_given_out() {
    for scene in remotes().await {
        let is_read = |request: &pollux_test_support::HttpRequest| request.method == "GET";
        scene.store.put(&key("a"), b"content", Condition::Any).await.unwrap();
        scene.fake().fault(is_read, BlobFault::Damage, 1);
        assert_eq!(scene.store.get(&key("a")).await.unwrap().unwrap().bytes, b"content");
        scene.fake().fault(is_read, BlobFault::Damage, 4);
        let error = scene.store.get(&key("a")).await.unwrap_err();
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_found_out() {
    for scene in remotes().await {
        scene.fake().ignore_conditions();
        let found = scene.store.probe().await.unwrap();
        assert!(!found.can_be_shared() && !found.creates && !found.updates && !found.deletes, "{found:?}");
        assert!(found.problem().is_some());
    }
}

#[tokio::test]
async fn a_missing_bucket_is_told_from_a_missing_object() {
    for scene in [Scene::s3(), Scene::gs(), Scene::file()] {
        let error = scene.store.get(&key("a")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NoBucket, "{error}");
        let error = scene.store.list(&prefix(""), None, 1).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NoBucket, "{error}");
        match scene.store.put(&key("a"), b"", Condition::Any).await {
            Err(PutError::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::NoBucket, "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn objects_of_other_programs_are_read_and_odd_names_are_left_out_of_listings() {
    for scene in remotes().await {
        let fake = scene.fake();
        for name in ["a b", "a\"c", "b&<", "z z", "q/"] {
            fake.insert("bucket", &format!("some/prefix/{name}"), b"x");
        }
        fake.insert("bucket", "some/prefix/m", b"foreign");
        fake.insert("bucket", "some/prefixed", b"elsewhere");
        assert_eq!(scene.store.get(&key("m")).await.unwrap().unwrap().bytes, b"foreign");
        for limit in [1, 2, 100] {
            let page = scene.store.list(&prefix(""), None, limit).await.unwrap();
            let names: Vec<&str> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(names, ["m"], "{limit}");
        }
        scene.store.put(&key("m"), b"ours", Condition::Any).await.unwrap();
        assert_eq!(fake.object("bucket", "some/prefix/m").unwrap(), b"ours");
    }
}

#[tokio::test]
async fn credentials_do_not_follow_a_redirect_and_are_in_no_error() {
    let thief = FakeHttp::start(|_| HttpAnswer::status(200).header("etag", "\"1\""));
    for scene in remotes().await {
        let fake = scene.fake();
        fake.fault(|_| true, BlobFault::Redirect(format!("{}/x", thief.url())), 1);
        let error = scene.store.get(&key("a")).await.unwrap_err();
        assert!(error.to_string().contains("307"), "{error}");
        assert!(thief.requests().is_empty());
        for status in [400, 401, 403, 404, 500] {
            fake.fault(|_| true, BlobFault::Status(status), 9);
            let text = format!("{:?}", scene.store.put(&key("a"), b"x", Condition::Any).await);
            fake.heal();
            for secret in [SECRET, "session-secret", "AKIA", "Signature"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn no_upload_is_sent_to_another_server() {
    let thief = FakeHttp::start(|_| HttpAnswer::status(200));
    let place = format!("{}/steal", thief.url());
    let server = FakeHttp::start(move |_| HttpAnswer::status(200).header("location", &place));
    let home = tempfile::tempdir().unwrap();
    let host = server.authority();
    let store =
        open("gs://bucket", &options(home.path(), &[("STORAGE_EMULATOR_HOST", host.as_str())])).unwrap();
    let result = store.put(&key("a"), &vec![0; 9 << 20], Condition::Any).await;
    assert!(matches!(result, Err(PutError::Store(_))), "{result:?}");
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_refused_google_token_is_replaced_once() {
    let fake = FakeBlobs::start();
    fake.insert("bucket", "a", b"x");
    let tokens =
        FakeHttp::start(|_| HttpAnswer::json(&json!({"access_token": "secret-token", "expires_in": 3600})));
    let home = tempfile::tempdir().unwrap();
    let host = tokens.authority();
    let url = format!("gs://bucket?endpoint={}", fake.url());
    let store = open(&url, &options(home.path(), &[("GCE_METADATA_HOST", host.as_str())])).unwrap();
    store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(fake.requests()[0].header("authorization"), Some("Bearer secret-token"));
    fake.fault(|_| true, BlobFault::Status(401), 1);
    store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(tokens.requests().len(), 2);
    fake.fault(|_| true, BlobFault::Status(401), 2);
    let error = store.get(&key("a")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(!format!("{error:?}").contains("secret-token"));
}

#[tokio::test]
async fn missing_credentials_are_named_before_anything_is_sent() {
    let fake = FakeBlobs::start();
    let home = tempfile::tempdir().unwrap();
    let off = [("AWS_EC2_METADATA_DISABLED", "true"), ("CLOUDSDK_CONFIG", "none")];
    for scheme in ["s3", "gs"] {
        let url = format!("{scheme}://bucket?endpoint={}", fake.url());
        let store = open(&url, &options(home.path(), &off)).unwrap();
        let error = store.ensure_bucket().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("credentials"), "{error}");
    }
    assert!(fake.requests().is_empty());
    assert_eq!(aws_keys().len(), 3);
}
