//! Each decision about the hub, with sessions that follow a script.

mod questions;
mod readers;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pollux_agent::Operations;
use pollux_domain::content::Part;
use pollux_domain::event::{
    Asked, Event, FrontId, NoticeCode, Op, OpResult, RefusalCode, RequestId, TurnEnd, WaitingPrompt,
};
use pollux_domain::id::SessionId;
use tokio::sync::mpsc;

use super::*;

/// What a scripted session holds.
struct Stage {
    inbox: mpsc::Receiver<Asked>,
    events: mpsc::Sender<Event>,
}

impl Stage {
    async fn tell(&self, event: Event) {
        self.events.send(event).await.unwrap();
    }

    async fn accept(&self, asked: &Asked) {
        let (id, by, result) = (asked.id.clone(), asked.by.clone(), OpResult::Accepted);
        self.tell(Event::Acknowledged { id, by, result }).await;
    }

    /// Waits for a prompt and begins its turn; what was typed.
    async fn prompted(&mut self) -> Option<String> {
        loop {
            let asked = self.inbox.recv().await?;
            self.accept(&asked).await;
            if let Op::Prompt { typed, .. } = asked.op {
                let (prompt_id, message) = (typed.clone(), None);
                self.tell(Event::PromptAccepted { typed: typed.clone(), prompt_id, message, by: asked.by })
                    .await;
                return Some(typed);
            }
        }
    }
}

/// A session that does what the script says.
fn scripted<F: Future<Output = ()> + Send + 'static>(script: impl FnOnce(Stage) -> F) -> Link {
    let (sender, inbox) = mpsc::channel(16);
    let (events, receiver) = mpsc::channel(256);
    let task = tokio::spawn(script(Stage { inbox, events }));
    Link { ops: Operations::new(sender), events: receiver, task }
}

/// A session that ends every turn at once.
fn obedient() -> Link {
    scripted(|mut stage| async move {
        while stage.prompted().await.is_some() {
            stage.tell(Event::TurnEnded(TurnEnd::Finished(None))).await;
        }
    })
}

fn prompt(text: &str) -> Op {
    Op::Prompt { parts: vec![Part::text(text)], typed: text.to_owned() }
}

fn text(number: usize) -> Event {
    Event::Text(format!("{number} "))
}

fn start(link: Link) -> Arc<Hosted> {
    Hosted::start(link, Limits::default())
}

/// The events up to one that fits, which is the last.
async fn until(events: &mut Subscription, fits: impl Fn(&Event) -> bool) -> Vec<Numbered> {
    let mut seen = Vec::new();
    loop {
        match events.next().await.expect("the session ended early") {
            Delivery::Event(event) => {
                seen.push(event.clone());
                if fits(&event.event) {
                    return seen;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::TurnEnded(_))
}

fn waiting(event: &Event) -> Vec<String> {
    match event {
        Event::QueueChanged(prompts) => prompts.iter().map(|prompt| prompt.typed.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_is_drained_without_readers_and_outlives_its_front_ends() {
    let (done, finished) = tokio::sync::oneshot::channel();
    let hosted = start(scripted(|mut stage| async move {
        for number in 0..10_000 {
            stage.tell(text(number)).await;
        }
        let _ = done.send(());
        while stage.prompted().await.is_some() {}
    }));
    let front = hosted.attach("one", Scopes::ALL).unwrap();
    drop(front);
    finished.await.unwrap();
    assert_eq!(hosted.state(), SessionState::Alive);
    assert!(hosted.attach("two", Scopes::ALL).unwrap().ask(Op::Describe).is_ok());
}

#[tokio::test]
async fn prompts_wait_their_turn_and_can_be_taken_back() {
    let (go, mut may_end) = mpsc::channel::<()>(1);
    let hosted = start(scripted(|mut stage| async move {
        while stage.prompted().await.is_some() {
            if may_end.recv().await.is_none() {
                return;
            }
            stage.tell(Event::TurnEnded(TurnEnd::Finished(None))).await;
        }
    }));
    let (one, two) = (hosted.attach("one", Scopes::ALL).unwrap(), hosted.attach("two", Scopes::ALL).unwrap());
    let mut events = two.subscribe(Some(0)).unwrap();
    one.ask(prompt("first")).unwrap();
    let second = two.ask(prompt("second")).unwrap();
    let third = one.ask(prompt("third")).unwrap();
    let is_queue = |event: &Event| matches!(event, Event::QueueChanged(prompts) if prompts.len() == 2);
    let seen = until(&mut events, is_queue).await;
    assert_eq!(waiting(&seen.last().unwrap().event), ["second", "third"]);
    let Event::QueueChanged(queue) = &*seen.last().unwrap().event else { panic!() };
    let owner = WaitingPrompt { id: second.clone(), by: FrontId::new("two"), typed: "second".into() };
    assert_eq!(queue.first(), Some(&owner));
    // Any front end with the right to drive may remove it; its sender is told.
    one.ask(Op::Withdraw { prompt: second.clone() }).unwrap();
    let missing = one.ask(Op::Withdraw { prompt: RequestId::new("nonsense") }).unwrap_err();
    assert_eq!(missing.code, RefusalCode::NotFound);
    let told = |event: &Event| matches!(event, Event::Acknowledged { id, .. } if *id == second);
    let seen = until(&mut events, told).await;
    let Event::Acknowledged { result, by, .. } = &*seen.last().unwrap().event else { panic!() };
    assert_eq!((result.refusal().unwrap().code, by.as_str()), (RefusalCode::Dropped, "two"));
    go.send(()).await.unwrap();
    let accepted = |event: &Event| matches!(event, Event::Acknowledged { id, .. } if *id == third);
    let seen = until(&mut events, accepted).await;
    assert!(seen.iter().any(|event| is_end(&event.event)), "the first turn ended undisturbed");
    assert!(hosted.snapshot().waiting.is_empty() && hosted.snapshot().busy);
    for number in 0..16 {
        one.ask(prompt(&number.to_string())).unwrap();
    }
    assert_eq!(one.ask(prompt("one too many")).unwrap_err().code, RefusalCode::QueueFull);
    assert_eq!(hosted.snapshot().waiting.len(), 16);
}

#[tokio::test]
async fn rights_come_from_the_server() {
    use pollux_domain::approval::ApprovalMode;
    let hosted = start(obedient());
    let none = Scopes::default();
    let cases = [
        (Op::Describe, Scopes { watch: true, ..none }),
        (prompt("x"), Scopes { drive: true, ..none }),
        (Op::Cancel, Scopes { drive: true, ..none }),
        (Op::SetMode(ApprovalMode::Plan), Scopes { drive: true, ..none }),
        (Op::SetMode(ApprovalMode::Yolo), Scopes { drive: true, approve: true, ..none }),
        (Op::Shell { command: "ls".into() }, Scopes { drive: true, approve: true, ..none }),
        (Op::End { cleared: false }, Scopes { admin: true, ..none }),
    ];
    for (op, enough) in cases {
        let code = |scopes| hosted.attach("x", scopes).unwrap().ask(op.clone()).err().map(|no| no.code);
        assert_eq!(code(enough), None, "{op:?}");
        let less = [
            Scopes { watch: false, ..Scopes::ALL },
            Scopes { drive: false, ..Scopes::ALL },
            Scopes { approve: false, ..Scopes::ALL },
            Scopes { admin: false, ..Scopes::ALL },
        ];
        let refused = less.into_iter().filter(|scopes| code(*scopes) == Some(RefusalCode::NotAllowed));
        let wanted = [enough.watch, enough.drive, enough.approve, enough.admin];
        assert_eq!(refused.count(), wanted.into_iter().filter(|wanted| *wanted).count(), "{op:?}");
    }
    let blind = hosted.attach("x", Scopes { watch: false, ..Scopes::ALL }).unwrap();
    assert_eq!(blind.subscribe(None).unwrap_err().code, RefusalCode::NotAllowed);
}

#[tokio::test]
async fn a_session_that_panics_ends_and_the_others_continue() {
    let hub = Hub::default();
    let (bad, good) = (SessionId::from_file("bad"), SessionId::from_file("good"));
    let doomed = scripted(|mut stage| async move {
        stage.prompted().await;
        panic!("a bug in a session");
    });
    let crashing = hub.add(&bad, doomed, Limits::default());
    let going_on = hub.add(&good, obedient(), Limits::default());
    let front = crashing.attach("one", Scopes::ALL).unwrap();
    let mut events = front.subscribe(Some(0)).unwrap();
    front.ask(prompt("go")).unwrap();
    let second = front.ask(prompt("and on")).unwrap();
    assert_eq!(crashing.ended().await, SessionState::Crashed);
    let mut told = (false, false);
    while let Some(Delivery::Event(event)) = events.next().await {
        match &*event.event {
            Event::Notice { code: NoticeCode::Crashed, .. } => told.0 = true,
            Event::Acknowledged { id, result, .. } if *id == second => told.1 = result.refusal().is_some(),
            _ => {}
        }
    }
    assert_eq!(told, (true, true));
    assert_eq!(front.ask(Op::Cancel).unwrap_err().code, RefusalCode::Ended);
    let front = going_on.attach("one", Scopes::ALL).unwrap();
    let mut events = front.subscribe(Some(0)).unwrap();
    front.ask(prompt("go")).unwrap();
    until(&mut events, is_end).await;
    let states: Vec<SessionState> = hub.list().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, [SessionState::Crashed, SessionState::Alive]);
    assert!(hub.remove(&bad).is_some() && hub.get(&bad).is_none());
}

/// Several sessions share a process: none may change what all of them have.
#[test]
fn no_library_changes_the_folder_or_the_environment_of_the_process() {
    fn look(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "tests" && name != "benches") {
                    look(&path, found);
                }
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let changes =
                [concat!("set_current", "_dir("), concat!("env::set", "_var("), concat!("remove", "_var(")];
            if changes.iter().any(|change| code.contains(change)) {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn an_unreferenced_session_ends() {
    let (gone, ended) = tokio::sync::oneshot::channel::<()>();
    let hosted = start(scripted(|mut stage| async move {
        while stage.prompted().await.is_some() {}
        drop(gone);
    }));
    drop(hosted);
    assert!(tokio::time::timeout(Duration::from_secs(5), ended).await.is_ok());
}

#[tokio::test]
async fn namesakes_do_not_share_acknowledgements() {
    let hosted = start(obedient());
    let (one, other) = (hosted.attach("x", Scopes::ALL).unwrap(), hosted.attach("x", Scopes::ALL).unwrap());
    assert_eq!((one.id().as_str(), other.id().as_str()), ("x", "x-2"));
    assert_ne!(one.ask(Op::Describe).unwrap(), other.ask(Op::Describe).unwrap());
    drop(one);
    assert_eq!(hosted.attach("x", Scopes::ALL).unwrap().id().as_str(), "x-3", "nor with one that is gone");
}

#[tokio::test]
async fn front_ends_learn_who_else_is_attached_until_nobody_else_is() {
    let hosted = Hosted::start(obedient(), Limits::default());
    let one = hosted.attach("one", Scopes::ALL).unwrap();
    let mut events = one.subscribe(Some(0)).unwrap();
    let two = hosted.attach("two", Scopes::ALL).unwrap();
    drop(two);
    let alone = |event: &Event| matches!(event, Event::FrontsChanged(fronts) if fronts.len() == 1);
    let seen = until(&mut events, alone).await;
    let fronts = |event: &Event| match event {
        Event::FrontsChanged(fronts) => {
            Some(fronts.iter().map(|front| front.to_string()).collect::<Vec<_>>())
        }
        _ => None,
    };
    let told: Vec<Vec<String>> = seen.iter().filter_map(|numbered| fronts(&numbered.event)).collect();
    assert_eq!(told, [vec!["one".to_owned(), "two".to_owned()], vec!["one".to_owned()]]);
}
