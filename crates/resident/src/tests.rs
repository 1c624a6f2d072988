//! The registry with sessions that follow a script.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, Op};
use pollux_domain::id::SessionId;
use pollux_host::SessionReport;
use pollux_host::hub::{Delivery, Hosted, Limits, Link, Operations, Scopes};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::keeper::Entering;
use crate::log::Log;
use crate::sessions::Sessions;
use crate::wire::{AttachParams, Choice, OpenParams};

/// A session that panics at the first operation if it is a weak one, and says something otherwise.
fn scripted(weak: bool) -> Link {
    let (sender, mut inbox) = mpsc::channel(16);
    let (events, receiver) = mpsc::channel(256);
    let task = tokio::spawn(async move {
        while inbox.recv().await.is_some() {
            assert!(!weak, "the session panics");
            let _ = events.send(Event::Text("still here".to_owned())).await;
        }
    });
    Link { ops: Operations::new(sender), events: receiver, task }
}

fn add(sessions: &Rc<Sessions>, id: &str, weak: bool) {
    add_with(sessions, id, scripted(weak), None);
}

fn add_with(sessions: &Rc<Sessions>, id: &str, link: Link, modes: Option<mpsc::Sender<Entering>>) {
    let hosted: Arc<Hosted> = Hosted::start(link, Limits::default());
    let report = SessionReport {
        id: SessionId::from_file(id),
        folder: "/".into(),
        file: None,
        provider: "gemini".to_owned(),
        model: "test".to_owned(),
        auth: None,
        mode: ApprovalMode::Default,
        sandbox: "no sandbox".to_owned(),
    };
    sessions.add(hosted, report, OpenParams::default(), modes);
}

fn states(sessions: &Sessions) -> Vec<(String, String)> {
    sessions.list().into_iter().map(|session| (session.session, session.state)).collect()
}

fn sessions() -> (tempfile::TempDir, Rc<Sessions>) {
    let dir = tempfile::tempdir().unwrap();
    let log = Rc::new(Log::open(dir.path().join("core.log")));
    (dir, Sessions::new(log))
}

#[tokio::test]
async fn a_session_that_panics_ends_alone_and_is_listed_as_crashed() {
    let all = async {
        let (dir, sessions) = sessions();
        add(&sessions, "strong", false);
        add(&sessions, "weak", true);
        let attach = |id: &str| {
            let params = AttachParams { session: id.to_owned(), ..AttachParams::default() };
            sessions.attach(&params, "test", Scopes::ALL)
        };
        let (weak, _, mut events) = attach("weak").unwrap();
        weak.ask(None, pollux_domain::event::Op::Describe).await.unwrap();
        let mut last = None;
        while let Some(Delivery::Event(event)) = events.next().await {
            last = Some(event);
        }
        assert!(last.is_some());
        assert_eq!(weak.ended_because(), "crashed");
        assert!(states(&sessions).contains(&("weak".to_owned(), "crashed".to_owned())));
        assert_eq!(attach("weak").err().map(|error| error.code), Some(-32002));
        let (strong, _, mut events) = attach("strong").unwrap();
        strong.ask(None, pollux_domain::event::Op::Describe).await.unwrap();
        assert!(matches!(events.next().await, Some(Delivery::Event(_))));
        sessions.close("weak", "closed").await.unwrap();
        assert_eq!(states(&sessions).len(), 1);
        let log = std::fs::read_to_string(dir.path().join("core.log")).unwrap();
        assert!(log.contains("session weak crashed"), "{log}");
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test]
async fn only_sessions_that_nobody_uses_are_unloaded() {
    let all = async {
        let (_dir, sessions) = sessions();
        add(&sessions, "used", false);
        add(&sessions, "unused", false);
        let params = AttachParams { session: "used".to_owned(), ..AttachParams::default() };
        let attached = sessions.attach(&params, "test", Scopes::ALL).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        tokio::time::timeout(Duration::from_secs(10), sessions.unload(Duration::from_millis(10)))
            .await
            .unwrap();
        assert!(states(&sessions).iter().any(|(id, state)| id == "used" && state == "idle"));
        drop(attached);
    };
    LocalSet::new().run_until(all).await;
}

/// A session that never ends and answers nothing.
fn stubborn() -> Link {
    let (sender, mut inbox) = mpsc::channel(16);
    let (events, receiver) = mpsc::channel(256);
    let task = tokio::spawn(async move {
        while inbox.recv().await.is_some() {}
        drop(events);
    });
    Link { ops: Operations::new(sender), events: receiver, task }
}

#[tokio::test]
async fn a_session_that_does_not_end_stays_listed() {
    let all = async {
        let (_dir, sessions) = sessions();
        add_with(&sessions, "stubborn", stubborn(), None);
        assert!(sessions.close("stubborn", "closed").await.is_err());
        assert_eq!(states(&sessions).len(), 1);
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test]
async fn nothing_is_opened_once_the_core_stops() {
    let all = async {
        let (dir, sessions) = sessions();
        sessions.close_all("shutdown").await;
        let params = OpenParams { cwd: dir.path().to_path_buf(), ..OpenParams::default() };
        let refused = sessions.open(params).await.err().unwrap();
        assert!(refused.message.contains("stopping"), "{}", refused.message);
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test]
async fn an_id_that_is_open_is_not_opened_again() {
    let all = async {
        let (dir, sessions) = sessions();
        add(&sessions, "taken", false);
        let choice = Choice::NewWithId { id: "taken".to_owned() };
        let params = OpenParams { cwd: dir.path().to_path_buf(), choice, ..OpenParams::default() };
        let refused = sessions.open(params).await.err().unwrap();
        assert!(refused.message.contains("already open"), "{}", refused.message);
        assert_eq!(states(&sessions).len(), 1);
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test]
async fn the_sandbox_of_a_mode_that_is_refused_does_not_stay() {
    let all = async {
        let (_dir, sessions) = sessions();
        let (modes, mut wanted) = mpsc::channel::<Entering>(8);
        // It takes nothing, so that its queue is full at some point.
        let (sender, inbox) = mpsc::channel(16);
        let (events, receiver) = mpsc::channel(256);
        let task = tokio::spawn(std::future::pending());
        add_with(&sessions, "s", Link { ops: Operations::new(sender), events: receiver, task }, Some(modes));
        let entered = Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = Rc::clone(&entered);
        tokio::task::spawn_local(async move {
            while let Some(Entering { mode, answer }) = wanted.recv().await {
                seen.borrow_mut().push(mode);
                let _ = answer.send(Ok(()));
            }
        });
        let params = AttachParams { session: "s".to_owned(), ..AttachParams::default() };
        let without = Scopes { approve: false, ..Scopes::ALL };
        let (front, ..) = sessions.attach(&params, "driver", without).unwrap();
        assert!(front.ask(None, Op::SetMode(ApprovalMode::Yolo)).await.is_err());
        assert!(entered.borrow().is_empty(), "it may not even try");
        let (front, ..) = sessions.attach(&params, "all", Scopes::ALL).unwrap();
        let mut asked = 0;
        while front.ask(None, Op::SetMode(ApprovalMode::Plan)).await.is_ok() {
            asked += 1;
            assert!(asked < 10_000, "nothing is ever refused");
        }
        assert_eq!(entered.borrow().last(), Some(&ApprovalMode::Default), "the sandbox returns");
        drop((inbox, events));
    };
    LocalSet::new().run_until(all).await;
}
