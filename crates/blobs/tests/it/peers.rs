//! Servers of others, where `scripts/object-stores.sh` could install them: moto for S3, Google's testbench.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pollux_blobs::{Condition, StoreErrorKind, open};
use pollux_test_support::Listening;

use crate::contract;
use crate::scene::{aws_keys, key, options, prefix};

/// Servers of others start slowly on a loaded machine.
const START: Duration = Duration::from_secs(60);

struct Server(Listening);

impl Server {
    /// Starts a server unless it is not installed.
    fn start(folder: &str, program: &str, arguments: impl Fn(u16) -> Vec<String>) -> Option<Self> {
        let place = target().join(folder);
        if !place.join("installed").exists() {
            let _ =
                writeln!(std::io::stderr(), "skipped: scripts/object-stores.sh has not installed {folder}");
            return None;
        }
        Some(Self(Listening::start(START, |port| {
            let mut command = Command::new(place.join("python/bin").join(program));
            command.args(arguments(port)).current_dir(&place).stdout(Stdio::null()).stderr(Stdio::null());
            command
        })))
    }
}

/// Where the scripts install.
fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

/// Runs moto so that it answers one request after the other: between its check of a condition and its write, another
/// request could get in. S3 has no such gap.
const ONE_AT_A_TIME: &str = r#"
import sys, threading
from moto import server
application = server.DomainDispatcherApplication
lock, answer = threading.Lock(), application.__call__
def answer_alone(*request):
    with lock:
        return answer(*request)
application.__call__ = answer_alone
server.main(sys.argv[1:])
"#;

fn moto_arguments(port: u16) -> Vec<String> {
    ["-c", ONE_AT_A_TIME, "-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn moto_fulfils_the_contract_of_s3() {
    let Some(server) = Server::start("s3-server", "python", moto_arguments) else { return };
    let home = tempfile::tempdir().unwrap();
    let port = server.0.port();
    // It ignores `If-Match` when an upload in parts is completed; S3 does not.
    contract::all(&["large_objects_keep_versions"], |part| {
        let url = format!("s3://bucket/{part}?endpoint=http://127.0.0.1:{port}&region=eu-west-1");
        open(&url, &options(home.path(), &aws_keys())).unwrap()
    })
    .await;
}

/// Creates a user in moto, prints the keys, and has every signature checked from then on (by Amazon's own library).
const CHECK_SIGNATURES: &str = r#"
import json, sys, urllib.request, boto3
url = sys.argv[1]
iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
iam.create_user(UserName="pollux")
statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
iam.put_user_policy(UserName="pollux", PolicyName="all", PolicyDocument=policy)
key = iam.create_access_key(UserName="pollux")["AccessKey"]
headers = {"Content-Type": "text/plain"}
request = urllib.request.Request(url + "/moto-api/reset-auth", data=b"0", method="POST", headers=headers)
urllib.request.urlopen(request).read()
print(key["AccessKeyId"], key["SecretAccessKey"])
"#;

#[tokio::test]
async fn moto_accepts_our_signatures_and_refuses_wrong_ones() {
    let Some(server) = Server::start("s3-server", "python", moto_arguments) else { return };
    let url = format!("http://127.0.0.1:{}", server.0.port());
    let python = target().join("s3-server/python/bin/python");
    let output = Command::new(python).args(["-c", CHECK_SIGNATURES, &url]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (id, secret) = text.trim().split_once(' ').unwrap();
    let home = tempfile::tempdir().unwrap();
    let opened = |secret: &str| {
        let keys = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)];
        open(&format!("s3://bucket/a?endpoint={url}"), &options(home.path(), &keys)).unwrap()
    };
    let store = opened(secret);
    store.ensure_bucket().await.unwrap();
    for bytes in [vec![], b"small".to_vec(), vec![1; 9 << 20]] {
        let name = key(&format!("object-{}", bytes.len()));
        store.put(&name, &bytes, Condition::Absent).await.unwrap();
        assert!(store.get(&name).await.unwrap().unwrap().bytes == bytes);
    }
    let page = store.list(&prefix("object-"), Some(&key("object-0")), 10).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    store.delete(&key("object-0"), Condition::Any).await.unwrap();
    let error = opened("wrong").get(&key("object-5")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.to_string().ends_with("status 403 (SignatureDoesNotMatch)"), "{error}");
}

#[tokio::test]
async fn the_testbench_fulfils_the_contract_of_google() {
    let arguments = |port: u16| {
        let bind = format!("127.0.0.1:{port}");
        ["--bind", &bind, "--worker-class", "sync", "--threads", "10", "testbench:run()"]
            .map(str::to_owned)
            .to_vec()
    };
    let Some(server) = Server::start("storage-testbench", "gunicorn", arguments) else { return };
    let home = tempfile::tempdir().unwrap();
    let host = format!("127.0.0.1:{}", server.0.port());
    contract::all(&[], |part| {
        let variables = [("STORAGE_EMULATOR_HOST", host.as_str()), ("GOOGLE_CLOUD_PROJECT", "p")];
        open(&format!("gs://bucket/{part}"), &options(home.path(), &variables)).unwrap()
    })
    .await;
}
