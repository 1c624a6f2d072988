//! Servers that want wider rights, and clients that an address describes.

use super::*;

const WIDER: &str = r#"Bearer error="insufficient_scope", scope="read admin""#;

async fn signed_in_again(oauth: &OAuth, server: &OAuthServer, challenge: Option<&str>) -> String {
    let login = oauth.begin_login(server, challenge).await.unwrap();
    let (url, state) = (login.url().to_owned(), parameter(login.url(), "state"));
    let granted = login.pasted(&format!("code=c&state={state}")).unwrap();
    login.finish(granted).await.unwrap();
    url
}

#[tokio::test]
async fn a_server_that_wants_more_gets_a_sign_in_with_what_there_was_and_what_it_wants() {
    let scene = Scene::new(Ways::default());
    let (oauth, server) = (scene.oauth(), scene.server());
    signed_in_again(&oauth, &server, None).await;
    assert_eq!(scene.stored().token.scope.as_deref(), Some("read write"));
    assert_eq!(oauth.widen(&server, WIDER).await.unwrap(), WiderScopes::Person);
    // Another program that signs in later, and knows nothing of the refusal, asks for it all.
    let later = scene.oauth();
    let login = later.begin_login(&server, None).await.unwrap();
    assert_eq!(login.scopes(), ["read", "write", "admin"]);
    let url = signed_in_again(&oauth, &server, Some(WIDER)).await;
    assert_eq!(parameter(&url, "scope"), "read admin write");
    // The wish is not carried along for ever.
    let login = scene.oauth().begin_login(&server, None).await.unwrap();
    assert_eq!(login.scopes(), ["read", "write"]);
}

#[tokio::test]
async fn the_same_wish_is_followed_once() {
    let scene = Scene::new(Ways::default());
    scene.signed_in(3600);
    let (oauth, server) = (scene.oauth(), scene.server());
    assert_eq!(oauth.widen(&server, WIDER).await.unwrap(), WiderScopes::Person);
    let same = r#"Bearer scope="admin read", error="insufficient_scope""#;
    assert_eq!(oauth.widen(&server, same).await.unwrap(), WiderScopes::Refused);
    // What the token has is refused for another reason than its rights.
    let held = Scene::new(Ways::default());
    let oauth = held.oauth();
    signed_in_again(&oauth, &held.server(), None).await;
    let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
    assert_eq!(oauth.widen(&held.server(), challenge).await.unwrap(), WiderScopes::Refused);
}

#[tokio::test]
async fn a_server_that_reads_descriptions_is_told_where_ours_is() {
    let address = "https://example.com/pollux/client.json";
    for (reads, expected) in [(true, address), (false, "client-9")] {
        let mut scene = Scene::new(Ways { reads_descriptions: reads, ..Ways::default() });
        scene.metadata_url = Some(address.to_owned());
        let (oauth, server) = (scene.oauth(), scene.server());
        let url = signed_in_again(&oauth, &server, None).await;
        assert_eq!(parameter(&url, "client_id"), expected);
        assert_eq!(scene.idp.requests_to("/register").is_empty(), reads);
        let asked = scene.idp.requests_to("/token").pop().unwrap();
        assert_eq!(asked.form("client_id").as_deref(), Some(expected));
    }
    // A client that the settings name stands above it.
    let mut scene = Scene::new(Ways { reads_descriptions: true, ..Ways::default() });
    scene.metadata_url = Some(address.to_owned());
    let mut server = scene.server();
    server.config.client_id = Some("mine".into());
    let login = scene.oauth().begin_login(&server, None).await.unwrap();
    assert_eq!(parameter(login.url(), "client_id"), "mine");
    for bad in [
        "http://example.com/c.json",
        "https://example.com/",
        "https://example.com",
        "c.json",
        "https://u@e.com/c",
    ] {
        scene.metadata_url = Some(bad.to_owned());
        let error = scene.oauth().begin_login(&scene.server(), None).await.err().unwrap();
        assert!(
            matches!(error, LoginError::Registration(RegistrationError::BadDescription(_))),
            "{bad}: {error:?}"
        );
    }
}
