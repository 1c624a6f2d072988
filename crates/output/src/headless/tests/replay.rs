//! A recorded log is all that an output format needs.

use super::*;

/// Events as another process reads them.
fn recorded(events: &[Event]) -> Vec<Event> {
    let log: Vec<String> = events.iter().map(|event| event.to_json().to_string()).collect();
    let read = log.iter().map(|line| Event::from_json(serde_json::from_str(line).unwrap()).unwrap());
    read.collect()
}

#[test]
fn a_log_that_was_written_and_read_gives_the_same_output() {
    let agent = AgentEnd {
        agent: "helper".into(),
        record: None,
        state: "error".into(),
        reason: "ERROR".into(),
        result: "no luck".into(),
    };
    let mut events = busy();
    let (severity, code) = (Severity::Warning, NoticeCode::Workspace);
    events.insert(1, Event::Notice { severity, code, message: "a folder is missing".into() });
    events.push(run_failed(RunFailure::ExitCode(3), Display::Text("hi".into())));
    events.push(run_failed(RunFailure::Signal(9), Display::Agent(Box::new(agent))));
    for end in [done(), bad_request(), invalid(), TurnEnd::Loop("again".into())] {
        let mut log = events.clone();
        log.push(Event::TurnEnded(end.clone()));
        let replayed = recorded(&log);
        let Some(Event::TurnEnded(end_read)) = replayed.last() else { panic!() };
        for format in [OutputFormat::Text, OutputFormat::Json, OutputFormat::StreamJson] {
            for dialect in [Dialect::Pollux, Dialect::GeminiCli] {
                let live = render(format, dialect, &log, &end);
                assert_eq!(render(format, dialect, &replayed, end_read), live);
                assert!(!live.out.is_empty() || !live.err.is_empty());
            }
        }
    }
}
