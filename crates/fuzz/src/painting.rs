//! The screen, whatever a model, a tool, a file or a server says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalMode, ApprovalRequest, Offer, Outcome, Subject, Why};
use pollux_domain::event::{
    Activity, ActivityKind, CallOutcome, CallReport, CallRequest, Event, NoticeCode, Severity, Thought,
    TurnEnd,
};
use pollux_domain::id::CallId;
use pollux_domain::tool::{Display, LineDelta, ToolKind};
use pollux_tui::app::{App, Footer, Header, Settings, Titles};
use pollux_tui::screen::Screen;

use crate::pieces::steering;

const SIZES: &[(u16, u16)] = &[(1, 1), (2, 3), (13, 5), (40, 12), (80, 24), (200, 60)];
/// Sequences that switch a mode of the terminal and are our own.
const OWN_MODES: &[&str] = &["?2026h", "?2026l", "?25h", "?25l", "?7l", "?7h"];

/// Events come from the segments of the input, which end with the byte 0xFF; the first byte of each says which kind.
/// Nothing reaches the terminal but text and our own sequences, and no frame is higher than the window.
pub(crate) fn screen(bytes: &[u8]) {
    let ([size, form], script) = steering(bytes);
    let (columns, rows) = SIZES[usize::from(size) % SIZES.len()];
    let settings = Settings {
        thoughts: true,
        alternate: form & 1 == 1,
        compact: form & 2 == 2,
        titles: Some(Titles::default()),
        ..Settings::default()
    };
    let whole = settings.alternate;
    let mut screen = if whole {
        Screen::whole(Vec::new(), columns, form & 4 == 0)
    } else {
        Screen::new(Vec::new(), columns, form & 4 == 0)
    };
    let mut app = App::new(settings, Header::default(), Footer::default(), ApprovalMode::Default);
    let mut now = Instant::now();
    for segment in script.split(|byte| *byte == 0xff).take(16) {
        let ([kind], text) = steering(segment);
        take(&mut app, kind, &String::from_utf8_lossy(text), now);
        now += Duration::from_millis(700);
        let frame = app.frame(columns, rows, now);
        assert!(frame.live.area.height <= rows.max(2), "{} rows of {rows}", frame.live.area.height);
        screen.paint(&frame).expect("memory can be written");
        let sent = String::from_utf8(std::mem::take(screen.out())).expect("text");
        assert_eq!(foreign(&sent, whole), None, "in {sent:?}");
        let title = app.title().unwrap_or_default();
        assert!(!title.chars().any(char::is_control), "{title:?}");
    }
}

fn take(app: &mut App, kind: u8, text: &str, now: Instant) {
    match kind % 16 {
        0 => app.begin_turn(text, false, now),
        1 => drop(app.paste(text, now, &|_| false)),
        2 => {
            text.clone_into(&mut app.footer.workspace);
            text.clone_into(&mut app.footer.branch);
            text.clone_into(&mut app.facts.context);
        }
        3 => app.toast(text, now),
        other => app.event(&event(other, text), now),
    }
}

fn event(kind: u8, text: &str) -> Event {
    let call = CallId::from_file("c");
    let owned = || text.to_owned();
    match kind {
        4 => Event::Thought(Thought { subject: owned(), description: owned() }),
        5 => requested(text),
        6 => Event::CallOutput { call, text: owned() },
        7 => wanted(text),
        8 => Event::ApprovalSettled { call, outcome: Outcome::Once, by: None },
        9 => finished(text),
        10 => Event::Notice { severity: Severity::Warning, code: NoticeCode::Policy, message: owned() },
        11 => Event::TurnEnded(TurnEnd::Loop(owned())),
        12 => {
            let what = ActivityKind::CallStarted {
                call: CallId::from_file("d"),
                name: owned(),
                display_name: owned(),
                description: owned(),
                args: JsonObject::new(),
            };
            Event::Activity(Arc::new(Activity { call, agent: owned(), what }))
        }
        // Most of what is painted is Markdown of the model.
        _ => Event::Text(owned()),
    }
}

fn requested(text: &str) -> Event {
    let args = [("command".to_owned(), text.into())].into_iter().collect();
    Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file("c"), text, args)))
}

fn wanted(text: &str) -> Event {
    let offer = |outcome| Offer { outcome, covers: text.to_owned() };
    Event::ApprovalWanted(Arc::new(ApprovalRequest {
        call: CallId::from_file("c"),
        tool: text.to_owned(),
        display_name: text.to_owned(),
        args: JsonObject::new(),
        subject: Subject::Command { command: text.to_owned(), directory: PathBuf::from(text) },
        destroys: None,
        why: Why::default(),
        offers: vec![offer(Outcome::Once), offer(Outcome::Refuse)],
    }))
}

fn finished(text: &str) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::from_file("c"),
        name: text.to_owned(),
        kind: ToolKind::Execute,
        args: JsonObject::new(),
        outcome: CallOutcome::Succeeded,
        display: Display::Text(text.to_owned()),
        lines: LineDelta::default(),
        duration: Duration::ZERO,
        decision: None,
        answer: text.to_owned(),
        prompt_id: String::new(),
        paths: Vec::new(),
        parts: Vec::new(),
        sandbox: None,
        permit: None,
    }))
}

/// A sequence or a control character that we do not send ourselves, or a sign that turns text around.
fn foreign(sent: &str, whole: bool) -> Option<String> {
    let mut rest = sent;
    while let Some((_, after)) = rest.split_once('\u{1b}') {
        let Some(body) = after.strip_prefix('[') else { return Some(after.chars().take(9).collect()) };
        let end = body.find(|character: char| character.is_ascii_alphabetic());
        let sequence = end.and_then(|end| body.get(..=end)).unwrap_or(body);
        let ours = match sequence.chars().last() {
            Some('m' | 'A' | 'B' | 'C') => true,
            Some('K' | 'J') => sequence.len() == 1,
            Some('H') => whole,
            Some('h' | 'l') => OWN_MODES.contains(&sequence),
            _ => false,
        };
        if !ours {
            return Some(sequence.to_owned());
        }
        rest = after;
    }
    let is_loose = |c: &char| {
        c.is_control() && !matches!(c, '\u{1b}' | '\r' | '\n')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    sent.chars().find(is_loose).map(|character| format!("{character:?}"))
}
