use pollux_domain::time::SystemClock;

use super::*;

fn options(variables: &[(&str, &str)]) -> StoreOptions {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let env = Env::new(variables, PathBuf::from("/here"));
    StoreOptions::new(env, PathBuf::from("/nowhere"), ClientOptions::new("test"), Arc::new(SystemClock))
}

fn s3_base(url: &str, variables: &[(&str, &str)]) -> String {
    let known = ["endpoint", "region", "path-style", "profile", "allow-http"];
    let s3 = open_s3(&Address::parse(url, &known).unwrap(), &options(variables)).unwrap();
    format!("{} {}", s3.base, s3.region)
}

#[test]
fn every_kind_of_address_opens_its_store() {
    for (url, place) in [
        ("memory:", "memory:"),
        ("file:tasks", "file:/here/tasks"),
        ("file:/srv/tasks", "file:/srv/tasks"),
        ("file:///srv/tasks", "file:/srv/tasks"),
        ("file:~/tasks", "file:/nowhere/tasks"),
        ("s3://bucket", "s3://bucket/"),
        ("s3://bucket/a/b/?region=eu-1", "s3://bucket/a/b/"),
        ("gs://bucket/a", "gs://bucket/a/"),
    ] {
        assert_eq!(open(url, &options(&[])).unwrap_or_else(|error| panic!("{url}: {error}")).place(), place);
    }
}

#[test]
fn other_addresses_are_refused_without_showing_their_secrets() {
    for url in [
        "",
        "memory",
        "file:",
        "bucket/prefix",
        "http://bucket/x?hunter2",
        "s3://b",
        "s3://Bucket_with:80/x",
        "s3://bucket/../x",
        "s3://bucket/a b",
        "s3://bucket/a//b",
        "s3://bucket?secret=hunter2",
        "s3://key:hunter2@bucket",
        "s3://bucket?path-style=hunter2",
        "s3://bucket?region=a/b",
        "s3://bucket?endpoint=hunter2",
        "s3://bucket?endpoint=https://u:hunter2@host",
        "s3://bucket?endpoint=https://host/hunter2",
        "s3://bucket?endpoint=ftp://host",
        "gs://bucket?region=x",
    ] {
        let Err(error) = open(url, &options(&[])) else { panic!("{url} was opened") };
        assert!(!url.contains("?") || !error.to_string().contains("hunter2"), "{error}");
        assert!(!error.to_string().contains("key:hunter2"), "{error}");
    }
}

#[test]
fn plain_http_is_for_near_servers_unless_allowed() {
    for (endpoint, near) in [
        ("http://127.0.0.1:9000", true),
        ("http://localhost:9000", true),
        ("http://10.0.0.7:9000", true),
        ("https://minio.example.com", true),
        ("http://minio.example.com", false),
        ("http://1.2.3.4", false),
    ] {
        let url = format!("s3://bucket?endpoint={endpoint}");
        assert_eq!(open(&url, &options(&[])).is_ok(), near, "{endpoint}");
        assert_eq!(
            open("s3://bucket", &options(&[("AWS_ENDPOINT_URL", endpoint)])).is_ok(),
            near,
            "{endpoint}"
        );
        let bare = endpoint.trim_start_matches("http://");
        assert_eq!(
            open("gs://bucket", &options(&[("STORAGE_EMULATOR_HOST", bare)])).is_ok(),
            near,
            "{endpoint}"
        );
        assert!(open(&format!("{url}&allow-http=true"), &options(&[])).is_ok(), "{endpoint}");
    }
}

#[test]
fn a_bucket_stands_in_the_host_or_in_the_path() {
    for (url, expected) in [
        ("s3://bucket", "https://bucket.s3.us-east-1.amazonaws.com/ us-east-1"),
        ("s3://bucket?region=eu-1&path-style=true", "https://s3.eu-1.amazonaws.com/bucket/ eu-1"),
        ("s3://my.bucket", "https://s3.us-east-1.amazonaws.com/my.bucket/ us-east-1"),
        ("s3://bucket?endpoint=https://minio.example", "https://bucket.minio.example/ us-east-1"),
        ("s3://bucket?endpoint=http://127.0.0.1:9", "http://127.0.0.1:9/bucket/ us-east-1"),
        ("s3://bucket?endpoint=http://[::1]:9", "http://[::1]:9/bucket/ us-east-1"),
    ] {
        assert_eq!(s3_base(url, &[]), expected, "{url}");
    }
    let variables =
        [("AWS_DEFAULT_REGION", "b"), ("AWS_REGION", "a"), ("AWS_ENDPOINT_URL_S3", "https://h.example")];
    assert_eq!(s3_base("s3://bucket", &variables), "https://bucket.h.example/ a");
    assert_eq!(
        s3_base("s3://bucket?region=c&endpoint=https://i.example", &variables),
        "https://bucket.i.example/ c"
    );
}
