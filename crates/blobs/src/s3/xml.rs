//! The little XML that S3 answers with.

/// The text of the first element of that name, decoded.
pub(super) fn text(xml: &str, name: &str) -> Option<String> {
    elements(xml, name).next().map(decode)
}

/// The content of every element of that name, as it is. Elements of one name are never nested here.
pub(super) fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&open)?;
        let (inside, after) = after.split_once(&close)?;
        rest = after;
        Some(inside)
    })
}

/// Text for an element.
pub(super) fn encode(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn decode(text: &str) -> String {
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&apos;", "'");
    plain.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_their_text_decoded() {
        let xml = "<?xml version=\"1.0\"?><R xmlns=\"x\"><C><Key>a&amp;b</Key></C><C><Key>&quot;c&quot;</Key></C><More>";
        let keys: Vec<_> = elements(xml, "C").filter_map(|inside| text(inside, "Key")).collect();
        assert_eq!(keys, ["a&b", "\"c\""]);
        assert_eq!(text(xml, "More"), None);
        assert_eq!(text("<ETag>&amp;lt;</ETag>", "ETag").as_deref(), Some("&lt;"));
        assert_eq!(decode(&encode("\"<&>\"")), "\"<&>\"");
    }
}
