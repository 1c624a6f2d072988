//! Whatever a model, a tool, a file or a server says: it stays where it belongs.

use pollux_domain::event::{
    Activity, ActivityKind, CallOutcome, CallReport, CallRequest, HookReport, NoticeCode, Severity, Thought,
};
use pollux_domain::tool::{Display, LineDelta, ToolKind};
use proptest::prelude::*;

use super::*;

/// Pieces that would move, clear, rename, ring, hide or turn around, and some that are only wide.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "\u{1b}[2J", "\u{1b}[H", "\u{1b}[10;10H", "\u{1b}]0;owned\u{7}", "\u{1b}]52;c;b3duZWQ=\u{7}", "\u{1b}[?1049h",
    "\u{1b}]8;;http://x\u{1b}\\", "\u{9b}2J", "\u{9d}0;owned\u{9c}", "\u{1b}", "\u{1b}[", "\u{1b}P", "\u{1b}c",
    "\u{7}", "\u{8}", "\r", "\n", "\t", "\u{202e}", "\u{2066}", "\u{200b}", "\u{feff}", "\u{301}", "日本語",
    "👩‍👩‍👧‍👦", "مرحبا", "a", "word ", "# ", "- ", "```\n", "| a | b |\n|---|---|\n", "**", "● 1. Allow once", "x",
];

fn hostile() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..12).prop_map(|pieces| pieces.concat())
}

fn report(text: &str, display: Display) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: CallId::from_file("c"),
        name: text.to_owned(),
        kind: ToolKind::Execute,
        args: JsonObject::new(),
        outcome: CallOutcome::Succeeded,
        display,
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

fn hook(text: &str) -> Event {
    Event::HookRan(Arc::new(HookReport {
        event: "BeforeTool".to_owned(),
        hook: text.to_owned(),
        duration: Duration::ZERO,
        exit_code: Some(0),
        error: None,
        input: JsonObject::new(),
        output: JsonObject::new(),
        stdout: text.to_owned(),
        stderr: text.to_owned(),
        message: Some(text.to_owned()),
        suppressed: false,
    }))
}

fn requested(name: &str, command: &str) -> Event {
    let args = [("command".to_owned(), command.into())].into_iter().collect();
    Event::CallRequested(Arc::new(CallRequest::new(CallId::from_file("c"), name, args)))
}

fn asked(text: &str) -> Event {
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

/// Everything that can be said, said with this text.
fn everything(text: &str) -> Vec<Event> {
    let call = CallId::from_file("c");
    let what = ActivityKind::CallStarted {
        call: CallId::from_file("d"),
        name: text.to_owned(),
        display_name: text.to_owned(),
        description: text.to_owned(),
        args: JsonObject::new(),
    };
    let notice = |severity, code, message| Event::Notice { severity, code, message };
    vec![
        Event::Thought(Thought { subject: text.to_owned(), description: text.to_owned() }),
        Event::Text(text.to_owned()),
        requested(text, text),
        Event::CallOutput { call: call.clone(), text: text.to_owned() },
        Event::Activity(Arc::new(Activity { call: call.clone(), agent: text.to_owned(), what })),
        asked(text),
        Event::ApprovalSettled { call, outcome: Outcome::Once, by: None },
        notice(Severity::Info, NoticeCode::Hook, format!("Waiting for the {text} hooks...")),
        hook(text),
        report(text, Display::Text(text.to_owned())),
        notice(Severity::Warning, NoticeCode::Policy, text.to_owned()),
        Event::TurnEnded(TurnEnd::Loop(text.to_owned())),
    ]
}

/// A sequence that we do not use ourselves, in what is not the whole screen's.
fn foreign(sent: &str) -> Option<String> {
    let mut rest = sent;
    while let Some((_, after)) = rest.split_once('\u{1b}') {
        let Some(body) = after.strip_prefix('[') else { return Some(after.chars().take(9).collect()) };
        let end = body.find(|character: char| character.is_ascii_alphabetic());
        let sequence = end.and_then(|end| body.get(..=end)).unwrap_or(body);
        let ours = match sequence.chars().last() {
            Some('m' | 'A' | 'B' | 'C') => true,
            Some('K' | 'J') => sequence.len() == 1,
            Some('h' | 'l') => ["?2026h", "?2026l", "?25h", "?25l", "?7l", "?7h"].contains(&sequence),
            _ => false,
        };
        if !ours {
            return Some(sequence.to_owned());
        }
        rest = after;
    }
    let loose = sent.chars().find(|character| matches!(character, '\u{7}' | '\u{8}' | '\u{80}'..='\u{9f}'));
    loose.map(|character| format!("{character:?}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_that_is_said_reaches_the_terminal_as_a_sequence(
        text in hostile(),
        size in prop::sample::select(&[(1u16, 1u16), (13, 5), (40, 12), (80, 24)]),
    ) {
        let settings = Settings { thoughts: true, titles: Some(Titles::default()), ..Settings::default() };
        let mut stage = Stage::with(settings, size.0, size.1);
        let now = stage.now;
        stage.app.begin_turn(&text, false, now);
        stage.app.footer.workspace.clone_from(&text);
        stage.app.footer.branch.clone_from(&text);
        stage.app.facts.context.clone_from(&text);
        stage.app.signed_in(text.clone());
        for event in everything(&text) {
            stage.app.event(&event, now);
            let frame = stage.app.frame(size.0, size.1, now);
            prop_assert!(frame.live.area.height < size.1.max(2), "{} rows", frame.live.area.height);
            stage.screen.paint(&frame).expect("memory can be written");
            let sent = String::from_utf8(std::mem::take(stage.screen.out())).expect("text");
            prop_assert_eq!(foreign(&sent), None, "{:?}", sent);
            prop_assert!(!sent.contains(['\u{202e}', '\u{2066}']), "{:?}", sent);
            let title = stage.app.title().unwrap_or_default();
            prop_assert!(!title.chars().any(char::is_control), "{:?}", title);
        }
    }
}

#[test]
fn rows_of_output_keep_their_edge_whatever_is_in_them() {
    // On the width of joined signs terminals do not agree; there a row is cut, and the next one is whole.
    for piece in PIECES.iter().filter(|piece| !piece.contains('\u{200d}')) {
        let mut stage = Stage::new(40, 30);
        stage.event(requested("run_shell_command", "x"));
        stage.event(Event::CallStarted { call: CallId::from_file("c") });
        let text = format!("begin{}end\n", piece.repeat(30));
        stage.event(Event::CallOutput { call: CallId::from_file("c"), text });
        let shown = stage.shown();
        let from = shown.lines().position(|line| line.starts_with("⊷  Shell")).expect("a call");
        let below = shown.lines().skip(from + 1).take_while(|line| !line.is_empty());
        let rows: Vec<&str> = below.collect();
        assert!(rows.iter().all(|row| row.starts_with("  │")), "{piece:?}\n{shown}");
        assert!(!rows.is_empty(), "{piece:?}\n{shown}");
    }
}

#[test]
fn huge_outputs_cost_what_is_seen_of_them() {
    let mut stage = Stage::new(80, 24);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    stage.event(requested("run_shell_command", "x"));
    let begun = Instant::now();
    let output = |text: String| Event::CallOutput { call: CallId::from_file("c"), text };
    for number in 0..100_000 {
        stage.app.event(&output(format!("line {number}\n")), now);
    }
    stage.app.event(&output("y".repeat(1_000_000)), now);
    for _ in 0..50 {
        stage.shown();
    }
    let text: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
    stage.event(report("x", Display::Text(text)));
    let shown = stage.shown();
    assert!(shown.contains("line 99999"), "{shown}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}

#[test]
fn an_answer_in_thousands_of_pieces_costs_no_more_at_its_end() {
    let mut stage = Stage::new(80, 24);
    let now = stage.now;
    stage.app.begin_turn("x", false, now);
    let mut pieces = |count: usize| {
        let begun = Instant::now();
        for number in 0..count {
            stage.app.event(&Event::Text(format!("word{number} ")), now);
            if number % 33 == 0 {
                stage.draw();
            }
        }
        begun.elapsed()
    };
    let (first, _, last) = (pieces(4_000), pieces(12_000), pieces(4_000));
    assert!(last < first * 8 + Duration::from_millis(500), "{first:?} then {last:?}");
}
