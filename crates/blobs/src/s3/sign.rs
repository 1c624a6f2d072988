//! Signatures of requests (AWS Signature Version 4).

use pollux_config::groups::Secret;
use pollux_domain::hex;
use pollux_domain::percent::{UNRESERVED, encode};
use pollux_domain::time::Timestamp;
use reqwest::Url;
use ring::hmac::{HMAC_SHA256, Key, Tag, sign};

use crate::checksum::sha256;

/// Keys that sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwsKeys {
    pub(crate) id: String,
    pub(crate) secret: Secret,
    /// Of keys that expire.
    pub(crate) token: Option<Secret>,
}

/// What is signed.
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a Url,
    /// In lower case, without the host.
    pub(super) headers: &'a [(String, String)],
    /// SHA-256 of the body in hexadecimal digits.
    pub(super) body_hash: &'a str,
    pub(super) region: &'a str,
    pub(super) now: Timestamp,
}

/// A moment as signatures write it: `20130524T000000Z`.
pub(super) fn stamp(now: Timestamp) -> String {
    let iso = now.to_iso();
    let seconds = iso.split('.').next().unwrap_or_default();
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

/// A query in the form that is signed and sent.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| encode(text.as_bytes(), UNRESERVED);
    let mut pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.sort();
    pairs.join("&")
}

/// The value of the header `authorization`.
pub(super) fn authorization(what: &Signable<'_>, keys: &AwsKeys) -> Secret {
    let mut headers: Vec<(&str, &str)> =
        what.headers.iter().map(|(name, value)| (name.as_str(), value.trim())).collect();
    let host = host(what.url);
    headers.push(("host", &host));
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let (path, query) = (what.url.path(), what.url.query().unwrap_or_default());
    let canonical = format!("{}\n{path}\n{query}\n{lines}\n{names}\n{}", what.method, what.body_hash);
    let time = stamp(what.now);
    let day: String = time.chars().take(8).collect();
    let scope = format!("{day}/{}/s3/aws4_request", what.region);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let first = Key::new(HMAC_SHA256, format!("AWS4{}", keys.secret.reveal()).as_bytes());
    let key = [what.region, "s3", "aws4_request"]
        .iter()
        .fold(sign(&first, day.as_bytes()), |key, part| chained(&key, part));
    let signature = hex::encode(chained(&key, &text).as_ref());
    let id = &keys.id;
    Secret::new(format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}"
    ))
}

fn chained(key: &Tag, text: &str) -> Tag {
    sign(&Key::new(HMAC_SHA256, key.as_ref()), text.as_bytes())
}

/// The header `host` as the HTTP client sends it.
fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Amazon's documentation, with its example keys.
    #[test]
    fn signatures_equal_the_published_ones() {
        let keys = AwsKeys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            token: None,
        };
        let now = Timestamp::parse("2013-05-24T00:00:00Z").unwrap();
        let empty = sha256(b"");
        let welcome = sha256(b"Welcome to Amazon S3.");
        let cases = [
            (
                "GET",
                "/test.txt",
                &[("range", "bytes=0-9")][..],
                &empty,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test$file.text",
                &[("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
                &welcome,
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/?lifecycle=",
                &[],
                &empty,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/?max-keys=2&prefix=J",
                &[],
                &empty,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ];
        for (method, path, more, body_hash, expected) in cases {
            let path = path.replace('$', "%24");
            let url = Url::parse(&format!("https://examplebucket.s3.amazonaws.com{path}")).unwrap();
            let mut headers: Vec<(String, String)> =
                more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            headers.push(("x-amz-content-sha256".to_owned(), body_hash.to_owned()));
            headers.push(("x-amz-date".to_owned(), stamp(now)));
            let what = Signable { method, url: &url, headers: &headers, body_hash, region: "us-east-1", now };
            let value = authorization(&what, &keys);
            assert!(value.reveal().ends_with(&format!("Signature={expected}")), "{path}: {}", value.reveal());
        }
    }

    #[test]
    fn a_query_is_sorted_and_encoded() {
        assert_eq!(query(&[("uploads", ""), ("a", "x y/+")]), "a=x%20y%2F%2B&uploads=");
    }
}
