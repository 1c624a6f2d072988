//! Front ends that come late, and those that do not keep up.

use super::*;

/// A session of which the test itself sends the events.
fn puppet() -> (Arc<Hosted>, mpsc::Sender<Event>) {
    let (sender, mut inbox) = mpsc::channel(16);
    let (session, events) = mpsc::channel(256);
    let task = tokio::spawn(async move { while inbox.recv().await.is_some() {} });
    (start(Link { ops: Operations::new(sender), events, task }), session)
}

#[tokio::test]
async fn events_are_numbered_from_one_and_those_who_come_late_miss_nothing() {
    let (hosted, session) = puppet();
    for number in 0..10 {
        session.send(text(number)).await.unwrap();
    }
    session.send(Event::StepCommitted).await.unwrap();
    let front = hosted.attach("one", Scopes::WATCH).unwrap();
    let mut early = front.subscribe(Some(0)).unwrap();
    let seen = until(&mut early, |event| matches!(event, Event::StepCommitted)).await;
    assert_eq!(seen.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=11).collect::<Vec<_>>());
    let mut late = front.subscribe(Some(9)).unwrap();
    let Some(Delivery::Event(next)) = late.next().await else { panic!() };
    assert_eq!(next.seq, 10);
    let mut from_now = front.subscribe(None).unwrap();
    session.send(Event::Titled("t".into())).await.unwrap();
    let Some(Delivery::Event(next)) = from_now.next().await else { panic!() };
    assert_eq!(next.seq, 12);
}

#[tokio::test]
async fn events_older_than_the_log_come_as_a_snapshot() {
    let (hosted, session) = puppet();
    let ready = Event::SessionReady {
        session: SessionId::from_file("s"),
        model: "m".into(),
        resolved: "m".into(),
        roots: Vec::new(),
    };
    session.send(ready).await.unwrap();
    for number in 0..5_000 {
        session.send(text(number)).await.unwrap();
    }
    session.send(Event::Titled("A title".into())).await.unwrap();
    let front = hosted.attach("one", Scopes::WATCH).unwrap();
    let mut last = front.subscribe(Some(5_001 - 4_000)).unwrap();
    until(&mut last, |event| matches!(event, Event::Titled(_))).await;
    let mut late = front.subscribe(Some(0)).unwrap();
    let Some(Delivery::Snapshot(snapshot)) = late.next().await else { panic!() };
    assert_eq!((snapshot.seq, snapshot.title.as_deref()), (5_002, Some("A title")));
    assert_eq!((snapshot.model.as_str(), snapshot.answer.starts_with("0 1 2 ")), ("m", true));
    session.send(Event::StepCommitted).await.unwrap();
    let Some(Delivery::Event(next)) = late.next().await else { panic!() };
    assert_eq!(next.seq, 5_003, "nothing between the snapshot and what follows");
    // A number that was never given is no place to go on from.
    let mut lost = front.subscribe(Some(1_000_000)).unwrap();
    assert!(matches!(lost.next().await, Some(Delivery::Snapshot(_))));
}

#[tokio::test]
async fn a_slow_reader_gets_joined_pieces_and_loses_nothing_of_them() {
    let (hosted, session) = puppet();
    let front = hosted.attach("slow", Scopes::WATCH).unwrap();
    let mut slow = front.subscribe(Some(0)).unwrap();
    let mut quick = front.subscribe(Some(0)).unwrap();
    let mut whole = String::new();
    for number in 0..3_000 {
        session.send(text(number)).await.unwrap();
        let Some(Delivery::Event(event)) = quick.next().await else { panic!() };
        assert_eq!(event.seq, number as u64 + 1, "the quick one is not held up");
        whole.push_str(&format!("{number} "));
    }
    session.send(Event::StepCommitted).await.unwrap();
    let seen = until(&mut slow, |event| matches!(event, Event::StepCommitted)).await;
    assert!(seen.len() <= 1_025, "{}", seen.len());
    let heard: String = seen
        .iter()
        .filter_map(|event| match &*event.event {
            Event::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(heard, whole);
    let mut next = 1;
    for event in &seen {
        assert_eq!(event.first, next, "numbers have no gaps");
        next = event.seq + 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_lags_and_is_cut_off() {
    let (send, mut wanted) = mpsc::channel::<Event>(1);
    let hosted = start(scripted(|stage| async move {
        while let Some(event) = wanted.recv().await {
            stage.tell(event).await;
        }
    }));
    let front = hosted.attach("stuck", Scopes::WATCH).unwrap();
    let mut stuck = front.subscribe(Some(0)).unwrap();
    let mut brisk = front.subscribe(Some(0)).unwrap();
    let mut tell = async |count: usize| {
        for _ in 0..count {
            send.send(Event::StepCommitted).await.unwrap();
            assert!(matches!(brisk.next().await, Some(Delivery::Event(_))));
        }
    };
    // These cannot be joined.
    tell(1_025).await;
    let Some(Delivery::Lagged { from: 1, to: 1_025 }) = stuck.next().await else { panic!() };
    tell(1).await;
    let Some(Delivery::Event(event)) = stuck.next().await else { panic!() };
    assert_eq!(event.seq, 1_026, "it goes on after that");
    tell(1_100).await;
    tokio::time::advance(Duration::from_secs(31)).await;
    tell(1).await;
    assert!(stuck.next().await.is_none());
    assert!(stuck.was_cut_off());
    tell(1).await;
}

#[tokio::test]
async fn the_only_reader_of_a_process_is_waited_for() {
    let hosted = start(scripted(|stage| async move {
        for _ in 0..5_000 {
            stage.tell(Event::StepCommitted).await;
        }
    }));
    let front = hosted.attach("alone", Scopes::ALL).unwrap();
    let mut events = front.subscribe_alone().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(hosted.state(), SessionState::Alive, "it waits");
    let mut count = 0;
    while let Some(delivery) = events.next().await {
        assert!(matches!(delivery, Delivery::Event(_)));
        count += 1;
    }
    assert_eq!(count, 5_000);
    assert_eq!(hosted.ended().await, SessionState::Ended);
}

#[tokio::test]
async fn events_of_the_host_are_numbered_too() {
    let hosted = start(obedient());
    let front = hosted.attach("one", Scopes::ALL).unwrap();
    let mut events = front.subscribe(Some(0)).unwrap();
    hosted.tell(Event::Titled("t".into())).await;
    front.ask(prompt("go")).unwrap();
    let seen = until(&mut events, is_end).await;
    let numbers: Vec<u64> = seen.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}
