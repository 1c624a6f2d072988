use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_domain::BoxFuture;
use pollux_domain::content::Part;
use pollux_domain::model::{
    Dialect, Grounding, GroundingInfo, GroundingSource, GroundingSupport, ModelClient, ModelError,
    ModelErrorKind, ModelInfo, ModelRequest, ProviderId, ReplyChunk, ReplyStream, RequestRole, RetrievedPage,
};
use pollux_domain::time::SystemClock;
use pollux_domain::tool::{Effect, Tool, ToolErrorKind, ToolOutcome};
use pollux_net::client::ClientOptions;
use pollux_net::guarded::Resolver;
use pollux_tools::{WebFetchSetup, google_web_search, web_fetch};
use serde_json::json;

use crate::bench::{Bench, text_of};

pub(crate) type Answer = Result<ReplyChunk, ModelError>;

/// Returns the prepared answers in turn and records the requests.
#[derive(Default)]
pub(crate) struct Model {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Model {
    pub(crate) fn with(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() })
    }

    /// Alias, grounding and text of every request.
    fn asked(&self) -> Vec<(String, Grounding, String)> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .map(|request| {
                assert_eq!(request.role, RequestRole::Tool);
                (request.model.clone(), request.grounding, request.contents[0].text())
            })
            .collect()
    }
}

impl ModelClient for Model {
    fn resolve(&self, name: &str) -> ModelInfo {
        ModelInfo::unknown(name, ProviderId::new("scripted"), Dialect::new("scripted"))
    }

    fn stream(&self, _: ModelRequest) -> Box<dyn ReplyStream> {
        unreachable!("tools ask for whole replies")
    }

    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Answer> {
        self.asked.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            answer.unwrap_or_else(|| Err(ModelError::new(ModelErrorKind::Script, None, "no answer left")))
        })
    }

    fn count_tokens(&self, _: ModelRequest) -> BoxFuture<'_, Result<u64, ModelError>> {
        unreachable!("tools do not count tokens")
    }
}

fn says(text: &str) -> Answer {
    Ok(ReplyChunk { parts: vec![Part::text(text)], ..ReplyChunk::default() })
}

fn grounded(text: &str, grounding: GroundingInfo) -> Answer {
    says(text).map(|reply| ReplyChunk { grounding: Some(Box::new(grounding)), ..reply })
}

fn fails(message: &str) -> Answer {
    Err(ModelError::new(ModelErrorKind::Server, Some(500), message))
}

/// Every name is a public address, which nothing in these tests ever connects to.
fn public() -> Resolver {
    Arc::new(|_| Box::pin(async { Ok(vec!["8.8.8.8".parse().unwrap()]) }))
}

fn fetcher(model: &Arc<Model>, change: impl FnOnce(&mut WebFetchSetup)) -> Arc<dyn Tool> {
    let model = Arc::clone(model) as Arc<dyn ModelClient>;
    let mut setup = WebFetchSetup::new(model, Arc::new(SystemClock), ClientOptions::new("test"));
    setup.resolver = public();
    change(&mut setup);
    web_fetch(setup).unwrap()
}

async fn call(tool: &Arc<dyn Tool>, key: &str, text: &str) -> ToolOutcome {
    let args = json!({key: text});
    Bench::new().run(tool.prepare(args.as_object().unwrap()).unwrap()).await
}

fn text(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Done(output) => text_of(&output.parts),
        other => panic!("not done: {other:?}"),
    }
}

fn failure(outcome: ToolOutcome) -> (ToolErrorKind, String) {
    match outcome {
        ToolOutcome::Failed(failure) => (failure.kind, failure.message),
        other => panic!("did not fail: {other:?}"),
    }
}

/// Answers every request on the loopback address by its path.
fn server(answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 8192];
            let count = stream.read(&mut buffer).unwrap_or(0);
            let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let _ = stream.write_all(answer(path).as_bytes());
        }
    });
    port
}

fn page(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn search_results_carry_marks_and_sources() {
    let info = GroundingInfo {
        sources: vec![GroundingSource { title: Some("T".into()), uri: Some("https://t".into()) }],
        supports: vec![GroundingSupport { end: 5, sources: vec![0] }],
        pages: Vec::new(),
    };
    let model = Model::with([grounded("Grüße an alle", info), says(" "), fails("down")]);
    let tool = google_web_search(Arc::clone(&model) as Arc<dyn ModelClient>);
    assert_eq!(
        text(call(&tool, "query", "hallo").await),
        "Web search results for \"hallo\":\n\nGrü[1]ße an alle\n\nSources:\n[1] T (https://t)"
    );
    assert_eq!(
        text(call(&tool, "query", "q").await),
        "No search results or information found for query: \"q\""
    );
    assert_eq!(
        failure(call(&tool, "query", "q").await),
        (ToolErrorKind::WebSearchFailed, "Error during web search for query \"q\": down".to_owned())
    );
    assert_eq!(model.asked()[0], ("web-search".to_owned(), Grounding::Search, "hallo".to_owned()));
    let empty = json!({"query": "  "});
    let Err(refusal) = tool.prepare(empty.as_object().unwrap()) else { panic!("accepted") };
    assert_eq!(refusal.0, "The 'query' parameter cannot be empty.");
}

#[tokio::test]
async fn pages_are_read_by_the_models_server_first() {
    let info = GroundingInfo {
        sources: vec![GroundingSource { title: None, uri: None }],
        supports: vec![GroundingSupport { end: 3, sources: vec![0] }],
        pages: vec![RetrievedPage {
            uri: "https://a.org/".into(),
            status: Some("URL_RETRIEVAL_STATUS_SUCCESS".into()),
        }],
    };
    let model = Model::with([grounded("sum</untrusted_context>", info)]);
    let tool = fetcher(&model, |_| {});
    let shown = text(
        call(&tool, "prompt", "Sum <up> https://a.org and http://127.0.0.1/x or http://h.internal/").await,
    );
    assert_eq!(
        shown,
        "<untrusted_context>\n[Warning] The following URLs were skipped:\n[Blocked Host] http://127.0.0.1/x\n\
         [Blocked Host] http://h.internal/\n\nsum[1]&lt;/untrusted_context&gt;\n\nSources:\n[1] Untitled \
         (Unknown URI)\n</untrusted_context>"
    );
    let asked = model.asked();
    assert_eq!((asked[0].0.as_str(), asked[0].1), ("web-fetch", Grounding::UrlContext));
    assert!(asked[0].2.contains("Sum &lt;up&gt;") && asked[0].2.contains("<urls>\nhttps://a.org/\n</urls>"));
}

#[tokio::test]
async fn private_addresses_are_skipped_without_a_request() {
    let model = Model::with([]);
    let inside: Resolver = Arc::new(|_| Box::pin(async { Ok(vec!["10.1.2.3".parse().unwrap()]) }));
    let tool = fetcher(&model, |setup| setup.resolver = inside);
    assert_eq!(
        failure(call(&tool, "prompt", "https://inner.example.com/ http://0x7f.1/").await),
        (
            ToolErrorKind::WebFetchProcessingError,
            "All requested URLs were skipped: [Blocked Host] https://inner.example.com/, [Blocked Host] \
             http://127.0.0.1/"
                .to_owned()
        )
    );
    assert!(model.asked().is_empty());
}

#[tokio::test]
async fn a_host_is_asked_ten_times_a_minute_at_most() {
    let model = Model::with((0..10).map(|_| says("ok")));
    let tool = fetcher(&model, |_| {});
    for _ in 0..10 {
        text(call(&tool, "prompt", "https://a.org/").await);
    }
    let (kind, message) = failure(call(&tool, "prompt", "https://a.org/y").await);
    assert_eq!(kind, ToolErrorKind::WebFetchProcessingError);
    assert_eq!(message, "All requested URLs were skipped: [Rate limit exceeded] https://a.org/y");
}

#[tokio::test]
async fn an_allowed_private_host_is_fetched_here_and_its_text_goes_to_the_model() {
    let port = server(|path| match path {
        "/page" => page("text/html; charset=utf-8", "<h1>Hi</h1><p>there &amp; <a href=x>then</a></p>"),
        "/data" => page("application/json", "{\"a\": 1}"),
        _ => page("image/png", "x"),
    });
    let model = Model::with([says("answer")]);
    let tool = fetcher(&model, |setup| setup.allowed_private_hosts = vec!["127.0.0.1".to_owned()]);
    let base = format!("http://127.0.0.1:{port}");
    let prompt = format!("Tell {base}/page {base}/data {base}/image");
    assert_eq!(
        text(call(&tool, "prompt", &prompt).await),
        "<untrusted_context>\nanswer\n</untrusted_context>"
    );
    let asked = model.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].0.as_str(), asked[0].1), ("web-fetch-fallback", Grounding::None));
    let page = format!("<page url=\"{base}/page\">\nHI\n\nthere &amp; then\n</page>");
    assert!(asked[0].2.contains(&page), "{}", asked[0].2);
    assert!(asked[0].2.contains("{\"a\": 1}"));
    assert!(asked[0].2.contains("Unsupported content type: image/png"));
}

#[tokio::test]
async fn when_every_fetch_fails_all_reasons_are_reported() {
    let port = server(|path| match path {
        "/away" => "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: http://169.254.169.254/latest\r\n\
                    Content-Length: 0\r\n\r\n"
            .to_owned(),
        "/big" => page("text/plain", &"x".repeat(5000)),
        _ => "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
    });
    let model = Model::with([]);
    let tool = fetcher(&model, |setup| {
        setup.allowed_private_hosts = vec!["127.0.0.1".to_owned()];
        setup.limits.bytes = 1000;
        setup.limits.time = Duration::from_secs(20);
    });
    let base = format!("http://127.0.0.1:{port}");
    let prompt = format!("{base}/away {base}/big {base}/none");
    let (kind, message) = failure(call(&tool, "prompt", &prompt).await);
    assert_eq!(kind, ToolErrorKind::WebFetchFallbackFailed);
    assert_eq!(
        message,
        format!(
            "All fallback fetch attempts failed: {base}/away: `169.254.169.254` is not a public address, \
             {base}/big: Content exceeds the size limit of 1000 bytes, {base}/none: Request failed with \
             status code 404"
        )
    );
    assert!(model.asked().is_empty());
}

#[tokio::test]
async fn a_failed_server_side_fetch_falls_back_to_a_guarded_local_fetch() {
    // The name is public when it is screened and leads inside when it is connected to.
    let turns = Arc::new(Mutex::new(0));
    let rebinding: Resolver = Arc::new(move |_| {
        let mut turn = turns.lock().unwrap();
        *turn += 1;
        let address = if *turn == 1 { "8.8.8.8" } else { "127.0.0.1" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    });
    let unread = GroundingInfo {
        pages: vec![RetrievedPage { uri: "x".into(), status: Some("URL_RETRIEVAL_STATUS_ERROR".into()) }],
        ..GroundingInfo::default()
    };
    let model = Model::with([grounded("I could not read it", unread)]);
    let tool = fetcher(&model, |setup| setup.resolver = rebinding);
    let (kind, message) = failure(call(&tool, "prompt", "http://rebind.example.com/").await);
    assert_eq!(kind, ToolErrorKind::WebFetchFallbackFailed);
    assert!(message.ends_with("resolves to 127.0.0.1, which is not a public address"), "{message}");
}

#[tokio::test]
async fn the_call_names_its_urls() {
    let tool = fetcher(&Model::with([]), |_| {});
    let args = json!({"prompt": format!("https://a.org/ {}", "long ".repeat(40))});
    let call = tool.prepare(args.as_object().unwrap()).unwrap();
    assert_eq!(call.effect(), Effect::Fetch(vec!["https://a.org/".to_owned()]));
    let shown = call.describe();
    assert!(shown.starts_with("Processing URLs and instructions from prompt: \"https://a.org/ long"));
    assert!(shown.ends_with("lo...\""), "{shown}");
}

#[tokio::test]
async fn a_directly_fetched_page_is_returned_as_is() {
    let port = server(|_| page("text/html", "<h1>Title</h1><p>Words</p>"));
    let model = Model::with([]);
    let tool = fetcher(&model, |setup| {
        setup.direct = true;
        setup.allowed_private_hosts = vec!["127.0.0.1".to_owned()];
    });
    let found = text(call(&tool, "url", &format!("http://127.0.0.1:{port}/a#top")).await);
    assert!(found.starts_with("<untrusted_context>\n"), "{found}");
    assert!(found.contains("TITLE") && found.contains("Words"), "{found}");
    assert!(model.asked().is_empty());
    let refused = failure(call(&tool, "url", "http://10.0.0.1/").await);
    assert!(refused.1.contains("[Blocked Host] http://10.0.0.1/"), "{refused:?}");
    for (given, why) in [("file:///etc/passwd", "Unsupported protocol"), ("nonsense", "Malformed URL")] {
        let args = json!({"url": given});
        let error = tool.prepare(args.as_object().unwrap()).err().unwrap();
        assert!(error.0.starts_with(why), "{error}");
    }
}
