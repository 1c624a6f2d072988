//! Web pages where an API should answer: portals, proxies, wrong addresses.

/// The title of a text that is HTML, empty if it has none.
pub(crate) fn web_page(text: &str) -> Option<String> {
    let lower = text.trim_start().to_ascii_lowercase();
    if !(lower.starts_with("<!doctype") || lower.starts_with("<html") || lower.starts_with("<head")) {
        return None;
    }
    let trimmed = text.trim_start();
    let title = lower.find("<title").and_then(|at| {
        let rest = trimmed.get(at..)?;
        let (_, rest) = rest.split_once('>')?;
        rest.split('<').next()
    });
    Some(title.unwrap_or_default().trim().chars().take(200).collect())
}

/// Names an answer that is not from the API at all: the title of a page, or its first words.
pub(crate) fn name_of_answer(text: &str) -> String {
    match web_page(text) {
        Some(title) if title.is_empty() => "a web page".to_owned(),
        Some(title) => format!("a web page with the title \"{title}\""),
        None => format!("\"{}\"", text.trim().chars().take(120).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::web_page;

    #[test]
    fn a_page_is_known_by_its_first_words_and_named_by_its_title() {
        assert_eq!(web_page("<!DOCTYPE html><head><title>Sign in</title>").as_deref(), Some("Sign in"));
        assert_eq!(web_page(" <html><body>x").as_deref(), Some(""));
        assert_eq!(web_page("{\"a\": \"<html>\"}"), None);
    }
}
