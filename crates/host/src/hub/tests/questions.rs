//! Questions that several front ends can answer.

use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::id::CallId;

use super::*;

fn question(call: &str) -> Event {
    let plain = |outcome| Offer { outcome, covers: String::new() };
    Event::ApprovalWanted(Arc::new(ApprovalRequest {
        call: CallId::from_file(call),
        tool: "run_shell_command".into(),
        display_name: "Shell".into(),
        args: serde_json::Map::new(),
        subject: Subject::Command { command: "ls".into(), directory: "/w".into() },
        destroys: None,
        why: Why::default(),
        offers: vec![plain(Outcome::Once), plain(Outcome::Refuse)],
    }))
}

/// A session that asks and passes on what it is answered, as the real one does.
fn asking() -> Link {
    scripted(|mut stage| async move {
        while stage.prompted().await.is_some() {
            stage.tell(question("c")).await;
            while let Some(asked) = stage.inbox.recv().await {
                stage.accept(&asked).await;
                let Asked { by, op: Op::Decide { call, answer }, .. } = asked else { continue };
                let outcome = answer.outcome();
                stage.tell(Event::ApprovalSettled { call, outcome, by: Some(by) }).await;
                break;
            }
            stage.tell(Event::TurnEnded(TurnEnd::Finished(None))).await;
        }
    })
}

fn decide(answer: ApprovalAnswer) -> Op {
    Op::Decide { call: CallId::from_file("c"), answer }
}

#[tokio::test]
async fn the_first_valid_answer_wins_and_all_learn_whose_it_was() {
    let hosted = start(asking());
    let (one, two) = (hosted.attach("one", Scopes::ALL).unwrap(), hosted.attach("two", Scopes::ALL).unwrap());
    let mut seen_by_one = one.subscribe(Some(0)).unwrap();
    let mut seen_by_two = two.subscribe(Some(0)).unwrap();
    one.ask(prompt("go")).unwrap();
    for events in [&mut seen_by_one, &mut seen_by_two] {
        until(events, |event| matches!(event, Event::ApprovalWanted(_))).await;
    }
    assert_eq!(hosted.snapshot().questions.len(), 1);
    // What was not offered counts for nothing, and the question stays.
    assert_eq!(one.ask(decide(ApprovalAnswer::Session)).unwrap_err().code, RefusalCode::NotOffered);
    two.ask(decide(ApprovalAnswer::Once)).unwrap();
    assert_eq!(
        one.ask(decide(ApprovalAnswer::Refuse(String::new()))).unwrap_err().code,
        RefusalCode::NotWaiting
    );
    for events in [&mut seen_by_one, &mut seen_by_two] {
        let seen = until(events, is_end).await;
        let settled = seen.iter().find_map(|event| match &*event.event {
            Event::ApprovalSettled { outcome, by, .. } => Some((*outcome, by.clone())),
            _ => None,
        });
        assert_eq!(settled, Some((Outcome::Once, Some(FrontId::new("two")))));
    }
    assert_eq!(two.ask(decide(ApprovalAnswer::Once)).unwrap_err().code, RefusalCode::NotWaiting);
    assert!(hosted.snapshot().questions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_front_end_that_can_answer_up_to_a_limit() {
    let hosted = start(asking());
    let driver = hosted.attach("driver", Scopes { approve: false, ..Scopes::ALL }).unwrap();
    let mut events = driver.subscribe(Some(0)).unwrap();
    driver.ask(prompt("go")).unwrap();
    until(&mut events, |event| matches!(event, Event::ApprovalWanted(_))).await;
    let asked = tokio::time::Instant::now();
    let seen = until(&mut events, is_end).await;
    assert!(asked.elapsed() >= Duration::from_secs(24 * 60 * 60), "{:?}", asked.elapsed());
    let refused = seen.iter().any(|event| {
        matches!(&*event.event, Event::ApprovalSettled { outcome: Outcome::Refuse, by: Some(by), .. }
            if by.as_str() == "hub")
    });
    assert!(refused);
    // While a front end is attached, there is no limit.
    let approver = hosted.attach("approver", Scopes::ALL).unwrap();
    driver.ask(prompt("again")).unwrap();
    until(&mut events, |event| matches!(event, Event::ApprovalWanted(_))).await;
    tokio::time::sleep(Duration::from_secs(72 * 60 * 60)).await;
    assert_eq!(hosted.snapshot().questions.len(), 1);
    approver.ask(decide(ApprovalAnswer::Once)).unwrap();
    until(&mut events, is_end).await;
}
