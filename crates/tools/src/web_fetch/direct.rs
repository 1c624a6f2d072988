//! Fetches pages without the model and extracts their text.

use futures_util::{StreamExt as _, stream};
use pollux_net::guarded::{GuardedClient, Page};
use reqwest::Url;

use super::budget;
use crate::encoding;
use crate::html_text::text_of_html;

/// Characters of all pages together; upstream's number.
const BUDGET: usize = 250_000;
/// Never more of one page than the complete budget in the longest characters.
const MAX_TEXT_BYTES: usize = 4 * BUDGET;
const AT_ONCE: usize = 4;

/// Pages with their texts, and for the others `address: why`.
pub(super) async fn texts(client: &GuardedClient, urls: &[Url]) -> (Vec<(Url, String)>, Vec<String>) {
    let fetched: Vec<(Url, Result<String, String>)> = stream::iter(urls.to_vec())
        .map(|url| async move {
            let text = fetch(client, url.clone()).await;
            (url, text)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let (mut found, mut bodies, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (url, text) in fetched {
        match text {
            Ok(text) => {
                found.push(url);
                bodies.push(text);
            }
            Err(why) => failures.push(format!("{url}: {why}")),
        }
    }
    budget::shared(&mut bodies, BUDGET);
    (found.into_iter().zip(bodies).collect(), failures)
}

async fn fetch(client: &GuardedClient, url: Url) -> Result<String, String> {
    let page = client.get(raw_on_github(url)).await.map_err(|error| error.to_string())?;
    // A large page takes a while to read.
    let read = tokio::task::spawn_blocking(move || text_of(page)).await;
    read.unwrap_or_else(|_| Err("could not read the page".to_owned()))
}

/// GitHub shows a file inside an HTML page; the raw file has another URL.
fn raw_on_github(url: Url) -> Url {
    if url.host_str() != Some("github.com") {
        return url;
    }
    let segments: Vec<&str> = url.path_segments().map(Iterator::collect).unwrap_or_default();
    let [owner, name, "blob", rest @ ..] = segments.as_slice() else { return url };
    if rest.is_empty() {
        return url;
    }
    let raw = format!("https://raw.githubusercontent.com/{owner}/{name}/{}", rest.join("/"));
    Url::parse(&raw).unwrap_or(url)
}

fn text_of(page: Page) -> Result<String, String> {
    let kind = page.media_type.as_str();
    let is_html = matches!(kind, "text/html" | "application/xhtml+xml");
    let is_text = is_html
        || kind.is_empty()
        || kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/x-ndjson"
                | "application/x-sh"
        );
    if !is_text {
        return Err(format!("Unsupported content type: {kind}"));
    }
    let is_page = is_html || (kind.is_empty() && looks_like_html(&page.body));
    let text = encoding::decode(page.body).text;
    if is_page {
        return Ok(text_of_html(&text, MAX_TEXT_BYTES));
    }
    if text.contains('\0') {
        return Err("the page is not text".to_owned());
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    Ok(text.get(..end).unwrap_or_default().to_owned())
}

fn looks_like_html(body: &[u8]) -> bool {
    let start = body.trim_ascii_start();
    let begins = |mark: &[u8]| start.get(..mark.len()).is_some_and(|first| first.eq_ignore_ascii_case(mark));
    begins(b"<!doctype html") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(kind: &str, body: &[u8]) -> Result<String, String> {
        let url = Url::parse("https://example.com/").unwrap();
        text_of(Page { url, media_type: kind.to_owned(), body: body.to_vec() })
    }

    #[test]
    fn texts_are_read_by_their_type() {
        assert_eq!(page("text/html", b"<p>a</p>"), Ok("a".to_owned()));
        assert_eq!(page("", b" <!DOCTYPE html><p>a"), Ok("a".to_owned()));
        assert_eq!(page("text/plain", b"<p>a</p>"), Ok("<p>a</p>".to_owned()));
        assert_eq!(page("application/problem+json", b"{}"), Ok("{}".to_owned()));
        assert_eq!(page("image/png", b"x"), Err("Unsupported content type: image/png".to_owned()));
        assert!(page("", b"\x7fELF\0\0\x01").is_err());
        let long = page("text/plain", "é".repeat(MAX_TEXT_BYTES).as_bytes()).unwrap();
        assert_eq!(long.len(), MAX_TEXT_BYTES);
    }

    #[test]
    fn github_blob_urls_are_fetched_as_raw_files() {
        let raw = |text: &str| raw_on_github(Url::parse(text).unwrap()).to_string();
        assert_eq!(
            raw("https://github.com/o/r/blob/main/src/a.rs#L3"),
            "https://raw.githubusercontent.com/o/r/main/src/a.rs"
        );
        for same in [
            "https://github.com/o/r/tree/main",
            "https://gitlab.com/o/r/blob/main/a",
            "https://github.com/o/r/blob",
        ] {
            assert_eq!(raw(same), same);
        }
    }
}
