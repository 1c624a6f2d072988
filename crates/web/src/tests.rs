//! The page's server as browsers and attackers meet it: raw requests to a real listener, with sessions that follow a script.

mod attacks;
mod client;
mod sessions;

use crate::site::ROUTES;

const PAGE: &str = include_str!("page/index.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

#[test]
fn the_page_is_small_and_asks_nobody_else() {
    let all = [PAGE, SCRIPT, STYLE].concat();
    assert!(all.len() <= 60 * 1024, "{} bytes", all.len());
    for elsewhere in ["http:", "https:", "src=\"//", "url(", "@import", "WebSocket", "import("] {
        assert!(!all.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn the_page_makes_no_markup_of_texts() {
    for way in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"]
    {
        assert!(!SCRIPT.contains(way), "{way}");
    }
    // Its policy forbids what stands in the page itself.
    for inline in ["style=", "onclick=", "onload=", "<style", "javascript:"] {
        assert!(!PAGE.contains(inline), "{inline}");
    }
}

#[test]
fn every_address_that_takes_a_parameter_takes_a_session() {
    let parameters = ROUTES.0.iter().filter(|(_, path, _)| path.contains('{'));
    assert!(parameters.into_iter().all(|(_, path, _)| path.starts_with("/api/sessions/{id}/")));
    // In particular, none that enters another mode.
    assert!(ROUTES.0.iter().all(|(_, path, _)| !path.contains("mode")));
}
