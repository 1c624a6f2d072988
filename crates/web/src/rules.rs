//! Checks that every request must pass, and headers that every response has.
//!
//! A browser lends its user's access to any page it shows. These rules make it do so for this page only: the name in
//! `Host` keeps out names that were made to lead here, `Origin` keeps out other pages, and a header that forms and
//! images cannot send keeps out what browsers send without asking.

use pollux_serve::{Head, Response, StatusCode, header};
use serde_json::json;

/// Cookies of our name that are looked at.
const MAX_COOKIES: usize = 8;

/// Headers of every response.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Says to browsers how a response may be used. There is no header that lets other origins read it.
pub(crate) fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response = response.header(header::HeaderName::from_static(name), value);
    }
    response
}

/// A refusal, with its reason for the page.
pub(crate) fn refuse(status: StatusCode, why: &str) -> Box<Response> {
    Box::new(Response::json(status, &json!({"error": why})))
}

/// The request comes from our own page: the browser says so, and nothing it says contradicts.
pub(crate) fn check_origin(head: &Head) -> Result<(), Box<Response>> {
    let says = |name: &str, own: &str| -> Option<bool> {
        head.headers.contains_key(name).then(|| head.only(name) == Some(own))
    };
    let origin = says("origin", &format!("http://{}", head.only("host").unwrap_or_default()));
    let site = says("sec-fetch-site", "same-origin");
    match (origin, site) {
        (Some(false), _) | (_, Some(false)) | (None, None) => {
            Err(refuse(StatusCode::FORBIDDEN, "requests must come from this page"))
        }
        _ => Ok(()),
    }
}

/// A request that changes something is one that no form, image or link can send.
pub(crate) fn check_change(head: &Head) -> Result<(), Box<Response>> {
    let kind = head.only("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be `application/json`"));
    }
    match head.only("x-pollux") {
        Some("1") => Ok(()),
        _ => Err(refuse(StatusCode::FORBIDDEN, "the header `X-Pollux` is missing")),
    }
}

/// The name of the cookie. Cookies belong to all ports of a machine, so it has the port.
fn cookie_name(port: u16) -> String {
    format!("pollux_{port}")
}

/// The header that sets the cookie of a login. It ends with the browser, and the login behind it after 12 hours.
pub(crate) fn set_cookie(response: Response, port: u16, secret: &str) -> Response {
    let cookie = format!("{}={secret}; HttpOnly; SameSite=Strict; Path=/", cookie_name(port));
    response.header(header::SET_COOKIE, &cookie)
}

/// The secrets that a request shows: its cookies, and the key of its page. Other servers of this machine can add cookies
/// of the same name.
pub(crate) fn secrets(head: &Head, port: u16) -> Option<(Vec<&str>, &str)> {
    let name = cookie_name(port);
    let headers = head.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = headers.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let cookies = pairs.filter(|(known, _)| *known == name).map(|(_, cookie)| cookie);
    Some((cookies.take(MAX_COOKIES).collect(), head.only("x-pollux-key")?))
}

#[cfg(test)]
mod tests {
    use pollux_serve::{HeaderMap, Method, Query};

    use super::*;

    fn head(headers: &[(&'static str, &str)]) -> Head {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let (path, query, peer) = ("/".to_owned(), Query::default(), ([127, 0, 0, 1], 1).into());
        Head { method: Method::POST, path, query, headers: map, peer, local: peer }
    }

    #[test]
    fn only_our_own_page_may_ask() {
        let host = ("host", "127.0.0.1:80");
        let right: [&[(&'static str, &str)]; 3] = [
            &[host, ("origin", "http://127.0.0.1:80")],
            &[host, ("sec-fetch-site", "same-origin")],
            &[host, ("origin", "http://127.0.0.1:80"), ("sec-fetch-site", "same-origin")],
        ];
        for headers in right {
            assert!(check_origin(&head(headers)).is_ok(), "{headers:?}");
        }
        let wrong: [&[(&'static str, &str)]; 10] = [
            &[host],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://localhost:80")],
            &[host, ("origin", "http://127.0.0.1:3000")],
            &[host, ("origin", "http://127.0.0.1")],
            &[host, ("origin", "https://127.0.0.1:80")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "none")],
            &[host, ("origin", "http://evil.test"), ("sec-fetch-site", "same-origin")],
            &[host, ("origin", "http://127.0.0.1:80"), ("sec-fetch-site", "cross-site")],
        ];
        for headers in wrong {
            assert_eq!(
                check_origin(&head(headers)).unwrap_err().status,
                StatusCode::FORBIDDEN,
                "{headers:?}"
            );
        }
    }

    #[test]
    fn a_change_needs_what_forms_cannot_send() {
        let json = ("content-type", "application/json; charset=utf-8");
        assert!(check_change(&head(&[json, ("x-pollux", "1")])).is_ok());
        assert_eq!(check_change(&head(&[json])).unwrap_err().status, StatusCode::FORBIDDEN);
        assert_eq!(
            check_change(&head(&[json, ("x-pollux", "0")])).unwrap_err().status,
            StatusCode::FORBIDDEN
        );
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            let refused = check_change(&head(&[("content-type", kind), ("x-pollux", "1")])).unwrap_err();
            assert_eq!(refused.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
        }
    }

    #[test]
    fn the_cookie_is_found_by_its_name_with_the_port() {
        let key = ("x-pollux-key", "k");
        let found = |cookie: &str| -> Vec<String> {
            let head = head(&[("cookie", cookie), key]);
            let (cookies, key) = secrets(&head, 80).unwrap();
            assert_eq!(key, "k");
            cookies.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(found("a=b; pollux_80=c"), ["c"]);
        assert_eq!(found("pollux_80=x; pollux_80=c"), ["x", "c"]);
        assert!(found("pollux_81=c").is_empty() && found("xpollux_80=c").is_empty());
        assert_eq!(secrets(&head(&[("cookie", "pollux_80=c")]), 80), None);
    }
}
