//! An object store over HTTP, in the dialects of S3 and of Google's JSON API, with faults by script.

mod gs;
mod s3;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::http::{FakeHttp, HttpAnswer, HttpRequest};

/// What happens to a request instead of being served.
#[derive(Debug, Clone)]
pub enum BlobFault {
    /// Answered with this status; nothing happens in the store.
    Status(u16),
    /// Never reaches the store: the connection ends.
    LostRequest,
    /// Served, but the connection ends before the answer.
    LostResponse,
    /// Served after a pause.
    Delay(Duration),
    /// Sent to another address.
    Redirect(String),
    /// Served, with one byte of the body changed.
    Damage,
}

/// The server. Stops when dropped.
pub struct FakeBlobs {
    server: FakeHttp,
    state: Arc<Mutex<State>>,
    route: Arc<Mutex<Route>>,
}

/// What went over the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlobTraffic {
    pub requests: usize,
    /// Bodies of requests.
    pub sent: usize,
    /// Bodies of answers.
    pub received: usize,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Vec<u8>,
    generation: u64,
    /// From the content, as S3 does it.
    etag: String,
    /// Headers that S3 keeps with an object.
    headers: Vec<(String, String)>,
    /// What Google keeps with an object.
    metadata: serde_json::Value,
}

type Matches = dyn Fn(&HttpRequest) -> bool + Send;

struct Planned {
    matches: Box<Matches>,
    fault: BlobFault,
    times: usize,
}

#[derive(Default)]
struct State {
    buckets: BTreeSet<String>,
    objects: BTreeMap<(String, String), Object>,
    uploads: BTreeMap<String, Upload>,
    last_number: u64,
    /// Agrees to every write, as some servers do.
    ignores_conditions: bool,
    /// Writes that took effect, by name.
    written: Vec<String>,
}

/// The way from one address to the store.
#[derive(Default)]
struct Route {
    plan: Vec<Planned>,
    traffic: BlobTraffic,
}

/// A large object on its way.
struct Upload {
    bucket: String,
    name: String,
    parts: BTreeMap<u64, Vec<u8>>,
    condition: Option<u64>,
    headers: Vec<(String, String)>,
    metadata: serde_json::Value,
}

impl FakeBlobs {
    /// Starts an empty store.
    pub fn start() -> Self {
        Self::serve(Arc::default())
    }

    /// The same store at another address, with faults and requests of its own: the way of another client.
    pub fn another_route(&self) -> Self {
        Self::serve(Arc::clone(&self.state))
    }

    fn serve(state: Arc<Mutex<State>>) -> Self {
        let route = Arc::<Mutex<Route>>::default();
        let (store, way) = (Arc::clone(&state), Arc::clone(&route));
        let server = FakeHttp::start_with_url(move |url, request| {
            let answer = answer(&store, &way, url, request);
            let traffic = &mut lock(&way).traffic;
            traffic.requests += 1;
            traffic.sent += request.body.len();
            traffic.received += answer.body.len();
            answer
        });
        Self { server, state, route }
    }

    /// The server's address.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.server.authority()
    }

    /// Plans a fault for the next `times` requests that match.
    pub fn fault(
        &self,
        matches: impl Fn(&HttpRequest) -> bool + Send + 'static,
        fault: BlobFault,
        times: usize,
    ) {
        lock(&self.route).plan.push(Planned { matches: Box::new(matches), fault, times });
    }

    /// Forgets every planned fault.
    pub fn heal(&self) {
        lock(&self.route).plan.clear();
    }

    /// Agrees to every write from now on.
    pub fn ignore_conditions(&self) {
        self.state().ignores_conditions = true;
    }

    /// Puts an object there as another program would.
    pub fn insert(&self, bucket: &str, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        state.buckets.insert(bucket.to_owned());
        state.write(bucket, name, bytes.to_vec(), Vec::new(), serde_json::Value::Null);
    }

    /// The content of an object.
    pub fn object(&self, bucket: &str, name: &str) -> Option<Vec<u8>> {
        self.state().objects.get(&(bucket.to_owned(), name.to_owned())).map(|object| object.bytes.clone())
    }

    /// How many writes of an object took effect.
    pub fn writes(&self, name: &str) -> usize {
        self.state().written.iter().filter(|written| *written == name).count()
    }

    /// Uploads that were begun and neither finished nor given up.
    pub fn open_uploads(&self) -> usize {
        self.state().uploads.len()
    }

    /// What went over this address so far.
    pub fn traffic(&self) -> BlobTraffic {
        lock(&self.route).traffic
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.server.requests()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Route {
    fn planned(&mut self, request: &HttpRequest) -> Option<BlobFault> {
        let planned = self.plan.iter_mut().find(|planned| planned.times > 0 && (planned.matches)(request))?;
        planned.times -= 1;
        Some(planned.fault.clone())
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn write(
        &mut self,
        bucket: &str,
        name: &str,
        bytes: Vec<u8>,
        headers: Vec<(String, String)>,
        metadata: serde_json::Value,
    ) -> Object {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let object = Object { bytes, generation: self.number(), etag, headers, metadata };
        self.objects.insert((bucket.to_owned(), name.to_owned()), object.clone());
        self.written.push(name.to_owned());
        object
    }

    fn serve(&mut self, url: &str, request: &HttpRequest) -> HttpAnswer {
        if request.path.starts_with("/storage/v1/") || request.path.starts_with("/upload/storage/v1/") {
            gs::serve(self, url, request)
        } else {
            s3::serve(self, request)
        }
    }
}

fn answer(state: &Mutex<State>, route: &Mutex<Route>, url: &str, request: &HttpRequest) -> HttpAnswer {
    let serve = || lock(state).serve(url, request);
    let fault = lock(route).planned(request);
    match fault {
        None => serve(),
        Some(BlobFault::Status(status)) => HttpAnswer::status(status).header("retry-after", "1"),
        Some(BlobFault::LostRequest) => HttpAnswer::hang_up(),
        Some(BlobFault::LostResponse) => {
            serve();
            HttpAnswer::hang_up()
        }
        Some(BlobFault::Delay(time)) => {
            std::thread::sleep(time);
            serve()
        }
        Some(BlobFault::Redirect(place)) => HttpAnswer::status(307).header("location", &place),
        Some(BlobFault::Damage) => {
            let mut answer = serve();
            if let Some(byte) = answer.body.first_mut() {
                *byte ^= 1;
            }
            answer
        }
    }
}

/// The names of a bucket that a listing gives: after `start` or at it, at most `limit`, and whether there are more.
fn listed(
    state: &State,
    bucket: &str,
    prefix: &str,
    limit: usize,
    begins: impl Fn(&str) -> bool,
) -> (Vec<(String, Object)>, bool) {
    let mut found: Vec<(String, Object)> = state
        .objects
        .iter()
        .filter(|((place, name), _)| place == bucket && name.starts_with(prefix) && begins(name))
        .map(|((_, name), object)| (name.clone(), object.clone()))
        .collect();
    let more = found.len() > limit;
    found.truncate(limit);
    (found, more)
}
