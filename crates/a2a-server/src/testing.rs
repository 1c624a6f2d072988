//! A service with a store that fails on demand and a scripted model.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pollux_a2a::protocol::{Dialect, Method, TaskState};
use pollux_blobs::{
    Blob, Blobs, Condition, Fetched, Key, MemoryBlobs, Page, Prefix, PutError, StoreError, Version,
};
use pollux_config::env::Env;
use pollux_config::groups::Secret;
use pollux_domain::BoxFuture;
use pollux_host::request::{Replies, ReplyOrder, Request, ScriptedModel};
use pollux_net::client::ClientOptions;
use pollux_net::guarded::Resolver;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::access::{Access, Caller};
use crate::audit::Audit;
use crate::error::A2aError;
use crate::manner::CallManner;
use crate::operations::{MethodAnswer, call};
use crate::options::{Config, ServeOptions};
use crate::service::{Parts, Service};
use crate::store::TaskStore;
use crate::task::Task;
use crate::webhooks::{self, WebhookOptions, Webhooks};

/// How long anything may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It fails without effect.
    Fail,
    /// It takes effect and fails.
    FailAfterwards,
    /// It takes effect, and the answer comes so much later.
    Late(Duration),
    /// It never takes effect and is never answered.
    Hang,
}

type Rule = Arc<dyn Fn(&str, &str) -> Fault + Send + Sync>;

/// A store in memory that does what a rule says about `get`, `put`, `list` and `delete` of a key.
pub(crate) struct FaultyBlobs {
    inner: MemoryBlobs,
    rule: Mutex<Rule>,
    log: Mutex<Vec<String>>,
    written: Mutex<Vec<(String, Vec<u8>)>>,
}

impl FaultyBlobs {
    fn new(inner: MemoryBlobs) -> Self {
        Self {
            inner,
            rule: Mutex::new(Arc::new(|_, _| Fault::None)),
            log: Mutex::default(),
            written: Mutex::default(),
        }
    }

    pub(crate) fn rule(&self, rule: impl Fn(&str, &str) -> Fault + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Arc::new(rule);
    }

    /// The operations so far, as `put key`.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// What was sent to be written since the last call, with its keys.
    pub(crate) fn take_written(&self) -> Vec<(String, Vec<u8>)> {
        std::mem::take(&mut *self.written.lock().unwrap())
    }

    async fn run<T, E: From<StoreError>>(
        &self,
        operation: &str,
        key: &str,
        run: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.log.lock().unwrap().push(format!("{operation} {key}"));
        let rule = Arc::clone(&self.rule.lock().unwrap());
        match rule(operation, key) {
            Fault::None => run.await,
            Fault::Fail => Err(fault(operation, key).into()),
            Fault::FailAfterwards => {
                run.await?;
                Err(fault(operation, key).into())
            }
            Fault::Late(pause) => {
                let done = run.await;
                sleep(pause).await;
                done
            }
            Fault::Hang => std::future::pending().await,
        }
    }
}

fn fault(operation: &str, key: &str) -> StoreError {
    StoreError::unavailable(&format!("{operation} `{key}`"), "the test", "as planned")
}

impl Blobs for FaultyBlobs {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Blob>, StoreError>> {
        Box::pin(self.run("get", key.as_str(), self.inner.get(key)))
    }

    fn get_if_changed<'a>(
        &'a self,
        key: &'a Key,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<Fetched, StoreError>> {
        Box::pin(self.run("get", key.as_str(), self.inner.get_if_changed(key, version)))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: &'a [u8],
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        self.written.lock().unwrap().push((key.as_str().to_owned(), bytes.to_vec()));
        Box::pin(self.run("put", key.as_str(), self.inner.put(key, bytes, condition)))
    }

    fn put_file<'a>(
        &'a self,
        key: &'a Key,
        from: &'a Path,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Version, PutError>> {
        Box::pin(self.run("put", key.as_str(), self.inner.put_file(key, from, condition)))
    }

    fn get_file<'a>(
        &'a self,
        key: &'a Key,
        into: &'a Path,
    ) -> BoxFuture<'a, Result<Option<Version>, StoreError>> {
        Box::pin(self.run("get", key.as_str(), self.inner.get_file(key, into)))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(self.run("list", prefix.as_str(), self.inner.list(prefix, after, limit)))
    }

    fn delete<'a>(&'a self, key: &'a Key, condition: Condition) -> BoxFuture<'a, Result<(), PutError>> {
        Box::pin(self.run("delete", key.as_str(), self.inner.delete(key, condition)))
    }

    fn ensure_bucket(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.ensure_bucket()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

/// How a machine calls webhooks.
#[derive(Clone)]
pub(crate) struct Push {
    pub(crate) allowed: &'static [&'static str],
    pub(crate) resolver: Resolver,
    pub(crate) secret: &'static str,
}

impl Push {
    fn webhooks(&self) -> Webhooks {
        Webhooks::new(WebhookOptions {
            client: ClientOptions::new("test"),
            allowed: self.allowed.iter().map(|host| (*host).to_owned()).collect(),
            resolver: Arc::clone(&self.resolver),
            key: webhooks::key(&Secret::new(self.secret)).unwrap(),
            pauses: [Duration::from_millis(20); 2],
        })
        .unwrap()
    }
}

/// A machine with a home, a script and a way to the store.
pub(crate) struct Machine {
    dir: TempDir,
    push: Option<Push>,
    pub(crate) blobs: Arc<FaultyBlobs>,
    pub(crate) service: Rc<Service>,
}

impl Machine {
    pub(crate) fn new(options: &ServeOptions) -> Self {
        Self::with_store(options, MemoryBlobs::new(), None)
    }

    /// One whose clients may register webhooks.
    pub(crate) fn with_push(options: &ServeOptions, push: Push) -> Self {
        Self::with_store(options, MemoryBlobs::new(), Some(push))
    }

    /// Another machine with the same store and another way to webhooks.
    pub(crate) fn other_with_push(&self, options: &ServeOptions, push: Push) -> Self {
        Self::with_store(options, self.blobs.inner.clone(), Some(push))
    }

    /// Another machine with the same store.
    pub(crate) fn other(&self, options: &ServeOptions) -> Self {
        Self::with_store(options, self.blobs.inner.clone(), self.push.clone())
    }

    fn with_store(options: &ServeOptions, store: MemoryBlobs, push: Option<Push>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".gemini")).unwrap();
        let blobs = Arc::new(FaultyBlobs::new(store));
        let service = service(dir.path(), &blobs, options, push.as_ref());
        Self { dir, push, blobs, service }
    }

    /// Another process with the same home and store.
    pub(crate) fn on_same_machine(&self, options: &ServeOptions) -> Rc<Service> {
        let blobs = Arc::new(FaultyBlobs::new(self.blobs.inner.clone()));
        service(self.dir.path(), &blobs, options, self.push.as_ref())
    }

    /// The process ends, and another one starts here.
    pub(crate) fn restart(&mut self, options: &ServeOptions) {
        self.blobs = Arc::new(FaultyBlobs::new(self.blobs.inner.clone()));
        self.service = service(self.dir.path(), &self.blobs, options, self.push.as_ref());
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Replies that every session gives from the first on.
    pub(crate) fn script(&self, replies: &[Value]) {
        let line = |part: &Value| {
            let content = json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]});
            json!({"method": "generateContentStream", "response": [content]}).to_string()
        };
        let lines: Vec<String> = replies.iter().map(line).collect();
        fs::write(script(self.home()), lines.join("\n")).unwrap();
    }

    /// The own workspace of a task.
    pub(crate) fn workspace(&self, task: &Task) -> PathBuf {
        self.home().join("workspaces/local").join(&task.id)
    }

    /// Calls a method as a client of 0.3.
    pub(crate) async fn call(&self, method: Method, params: Value) -> Result<Value, A2aError> {
        self.call_in(Dialect::Tagged, method, params).await
    }

    pub(crate) async fn call_in(
        &self,
        dialect: Dialect,
        method: Method,
        params: Value,
    ) -> Result<Value, A2aError> {
        let manner = CallManner { dialect, with_metadata: true };
        let answer = timeout(PATIENCE, call(&self.service, &caller(), method, &params, manner)).await;
        match answer.expect("it takes too long")? {
            MethodAnswer::Value(value) => Ok(value),
            MethodAnswer::Stream(_) => panic!("a stream"),
        }
    }

    /// Sends a message and waits until its task rests.
    pub(crate) async fn send(&self, message: Value) -> Result<Value, A2aError> {
        self.call(Method::Send, message).await
    }

    pub(crate) async fn task(&self, id: &Value) -> Rc<Task> {
        self.service.find(&caller(), id.as_str().unwrap()).await.unwrap()
    }

    /// The names of the objects below a prefix.
    pub(crate) async fn objects(&self, prefix: &str) -> Vec<String> {
        let page = self.blobs.inner.list(&Prefix::parse(prefix).unwrap(), None, 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key.as_str().to_owned()).collect()
    }

    pub(crate) async fn get(&self, key: &str) -> Vec<u8> {
        self.blobs.inner.get(&Key::parse(key).unwrap()).await.unwrap().unwrap().bytes
    }

    pub(crate) async fn put(&self, key: &str, bytes: &[u8]) {
        self.blobs.inner.put(&Key::parse(key).unwrap(), bytes, Condition::Any).await.unwrap();
    }
}

fn script(home: &Path) -> PathBuf {
    home.join("script.jsonl")
}

fn service(
    home: &Path,
    blobs: &Arc<FaultyBlobs>,
    options: &ServeOptions,
    push: Option<&Push>,
) -> Rc<Service> {
    let path = std::env::split_paths(option_env!("PATH").unwrap_or("/usr/bin:/bin"));
    let path = std::env::join_paths(path.chain(["/usr/bin".into(), "/bin".into()])).unwrap();
    let vars = [
        ("HOME", home.to_str().unwrap()),
        ("PATH", path.to_str().unwrap()),
        ("GEMINI_API_KEY", "key-for-tests-00000000"),
    ];
    let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let env = Env::new(vars, home.to_path_buf());
    let root = home.join("workspaces");
    let options = ServeOptions { workspace_root: Some(root), ..options.clone() };
    let config = Config::new(&options, &env, 0).unwrap();
    let replies = Replies { file: script(home), order: ReplyOrder::FirstFitting };
    let request = Request {
        sandbox: Some("false".to_owned()),
        script: ScriptedModel { replies: Some(replies), record: None },
        ..Request::default()
    };
    let store = TaskStore {
        blobs: Arc::clone(blobs) as Arc<dyn Blobs>,
        replica: config.replica.clone(),
        is_shared: true,
        sole_owner: Some("local".to_owned()),
    };
    Service::new(Parts {
        config,
        request,
        env,
        access: Access::default(),
        store,
        audit: Audit::open(None).unwrap(),
        scratch: tempfile::tempdir().unwrap(),
        webhooks: push.map(Push::webhooks),
        signing_key: None,
        url: "http://localhost:1".to_owned(),
        log: Box::new(|_| {}),
    })
}

pub(crate) fn caller() -> Caller {
    Caller { owner: "local".to_owned(), subject: None, peer: ([127, 0, 0, 1], 1).into() }
}

/// A message whose calls need no approval.
pub(crate) fn message(id: &str, task: Option<&Value>) -> Value {
    let mut message = json!({
        "messageId": id,
        "role": "user",
        "parts": [{"kind": "text", "text": id}],
        "metadata": {"coderAgent": {"kind": "agent-settings", "autoExecute": true}},
    });
    if let Some(task) = task {
        message["taskId"] = task.clone();
    }
    json!({"message": message})
}

pub(crate) fn says(text: &str) -> Value {
    json!({"text": text})
}

pub(crate) fn runs(command: &str) -> Value {
    json!({"functionCall": {"name": "run_shell_command", "args": {"command": command}}})
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "it takes too long: {what}");
}

pub(crate) fn state(task: &Task) -> TaskState {
    task.read(|record| record.state)
}
