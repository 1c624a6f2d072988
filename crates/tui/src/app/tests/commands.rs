//! Commands that run in a terminal.

use pollux_domain::editor::EditorStatus;
use pollux_domain::event::{BackgroundCommand, CallOutcome, CallReport, CallRequest, ShellReport, TurnEnd};
use pollux_domain::terminal_screen::{
    CellStyle, KeyModes, ScreenColor, ScreenPosition, ScreenRun, TerminalScreen, TypedBytes,
};
use pollux_domain::tool::{Display, LineDelta, ToolKind};

use super::*;

fn id() -> CallId {
    CallId::from_file("c1")
}

fn screen(rows: &[&str]) -> TerminalScreen {
    let run = |text: &&str| vec![ScreenRun { text: (*text).to_owned(), style: None }];
    let row = u16::try_from(rows.len().saturating_sub(1)).unwrap_or_default();
    let column = rows.last().map_or(0, |row| u16::try_from(row.len()).unwrap_or_default());
    let cursor = Some(ScreenPosition { row, column });
    TerminalScreen { rows: rows.iter().map(run).collect(), cursor, ..TerminalScreen::default() }
}

fn shows(call: CallId, screen: TerminalScreen) -> Event {
    Event::CallScreen { call, screen: Arc::new(screen) }
}

/// A call of the model runs in a terminal.
fn running(rows: &[&str]) -> Stage {
    let mut stage = Stage::new(80, 30);
    stage.app.begin_turn("go", false, stage.now);
    let mut request = CallRequest::new(id(), "run_shell_command", JsonObject::new());
    request.kind = ToolKind::Execute;
    stage.event(Event::CallRequested(Arc::new(request)));
    stage.event(Event::CallStarted { call: id() });
    stage.event(shows(id(), screen(rows)));
    stage
}

/// A command of the person's runs in a terminal.
fn own(screen: TerminalScreen) -> Stage {
    let mut stage = Stage::new(80, 30);
    let call = CallId::from_file("shell-1");
    stage.event(Event::ShellStarted { call: call.clone(), command: "x".into(), by: FrontId::local() });
    stage.app.begin_turn("x", true, stage.now);
    stage.event(shows(call, screen));
    stage
}

fn ended(text: &str) -> Event {
    Event::CallFinished(Arc::new(CallReport {
        call: id(),
        name: "run_shell_command".to_owned(),
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

fn types(text: &str) -> Vec<Action> {
    vec![Action::Type { call: id(), input: TypedBytes(text.as_bytes().to_vec()) }]
}

#[test]
fn tab_gives_the_command_the_keyboard_and_shift_tab_takes_it_back() {
    let mut stage = running(&["Your name?"]);
    let shown = stage.shown();
    assert!(shown.contains("Your name?"), "{shown}");
    assert!(shown.contains("Tab to type into the command, Ctrl+B for background"), "{shown}");
    assert_eq!(stage.write("a"), []);
    assert_eq!(stage.press(KeyCode::Backspace, KeyModifiers::NONE), []);
    assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), []);
    let shown = stage.shown();
    assert!(shown.contains("Typing into the command (Shift+Tab to return)"), "{shown}");
    assert_eq!(stage.write("A"), types("A"));
    assert_eq!(stage.enter(), types("\r"));
    // The keys that do something here belong to the command now.
    assert_eq!(stage.press(KeyCode::Char('c'), KeyModifiers::CONTROL), types("\u{3}"));
    assert_eq!(stage.press(KeyCode::Esc, KeyModifiers::NONE), types("\u{1b}"));
    assert_eq!(stage.press(KeyCode::Char('z'), KeyModifiers::CONTROL), types("\u{1a}"));
    assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), types("\t"));
    assert!(stage.shown().contains("Shift+Tab returns to the prompt."));
    assert_eq!(stage.app.paste("two\nlines", stage.now, &|_| false), types("two\rlines"));
    assert_eq!(stage.press(KeyCode::BackTab, KeyModifiers::SHIFT), []);
    assert_eq!(stage.write("next"), []);
    assert!(stage.shown().contains("> next"), "{}", stage.shown());
}

#[test]
fn keys_of_one_read_stay_in_order() {
    let mut stage = running(&[""]);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let keys = [KeyCode::Char('a'), KeyCode::Up, KeyCode::BackTab, KeyCode::Char('b')].map(key);
    stage.now += Duration::from_secs(1);
    assert_eq!(stage.app.keys(&keys, stage.now), types("a\u{1b}[A"));
    assert!(stage.shown().contains("> b"), "{}", stage.shown());
}

#[test]
fn keys_after_tab_in_one_read_reach_the_command() {
    let mut stage = running(&["Password:"]);
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let keys = [KeyCode::Tab, KeyCode::Char('s'), KeyCode::Char('3'), KeyCode::Enter].map(key);
    let sent: Vec<u8> = stage
        .app
        .keys(&keys, stage.now)
        .into_iter()
        .flat_map(|action| match action {
            Action::Type { input, .. } => input.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent, b"s3\r");
    assert!(!stage.shown().contains("s3"), "{}", stage.shown());
}

#[test]
fn keys_typed_as_a_command_ends_do_not_reach_the_prompt() {
    let mut stage = running(&["Password:"]);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    stage.write("x");
    stage.event(ended("Password:"));
    assert_eq!(stage.write("hunter2"), []);
    assert_eq!(stage.press(KeyCode::Enter, KeyModifiers::NONE), []);
    let shown = stage.shown();
    assert!(!shown.contains("hunter2") && !shown.contains("unter2"), "{shown}");
    assert!(shown.contains("The command has ended; pause before you type"), "{shown}");
    assert!(stage.app.deadline(stage.now).is_some_and(|redraw| redraw <= stage.now + STILL));
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    stage.now += STILL;
    assert!(!stage.shown().contains("has ended"));
    stage.write("hello");
    assert!(stage.shown().contains("> hello"), "{}", stage.shown());
}

#[test]
fn keys_long_after_the_last_one_for_a_command_reach_the_prompt_at_once() {
    let mut stage = running(&["working"]);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    stage.write("x");
    stage.now += 2 * STILL;
    stage.event(ended("working"));
    stage.write("hello");
    assert!(stage.shown().contains("> hello"), "{}", stage.shown());
}

#[test]
fn a_question_waits_for_the_person_who_types_into_a_command() {
    let mut stage = running(&["$"]);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    stage.event(wanted("rm -rf build"));
    stage.now += 2 * STILL;
    assert_eq!(stage.write("1"), types("1"));
    assert!(stage.shown().contains("Typing into the command"), "{}", stage.shown());
    stage.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    stage.now += 2 * STILL;
    assert!(matches!(stage.write("1")[..], [Action::Decide { .. }]));
}

#[test]
fn ctrl_b_moves_the_command_and_then_shows_what_is_there() {
    let ctrl_b = |stage: &mut Stage| stage.press(KeyCode::Char('b'), KeyModifiers::CONTROL);
    let mut stage = running(&["serving"]);
    assert_eq!(ctrl_b(&mut stage), [Action::MoveToBackground(id())]);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(ctrl_b(&mut stage), [Action::MoveToBackground(id())]);
    stage.event(ended("Command moved to background (PID: 7)."));
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    stage.now += STILL;
    assert_eq!(ctrl_b(&mut stage), []);
    assert!(stage.shown().contains("No commands are running in the background."));
    let command = BackgroundCommand { pid: 7, command: "serve".to_owned() };
    stage.event(Event::BackgroundChanged(vec![command]));
    let shown = stage.shown();
    assert!(shown.contains("1 in background"), "{shown}");
    assert_eq!(ctrl_b(&mut stage), [Action::Submit { text: "/tasks".to_owned(), shell: false }]);
    stage.event(Event::BackgroundChanged(Vec::new()));
    assert!(!stage.shown().contains("in background"));
}

#[test]
fn the_footer_shows_the_connected_editor() {
    let mut stage = running(&[]);
    let editor = |open_files| Some(EditorStatus { name: "VS\u{1b}[2J Code".to_owned(), open_files });
    stage.event(Event::EditorChanged(editor(0)));
    assert!(stage.shown().contains("VS Code") && !stage.shown().contains("VS Code ("));
    stage.event(Event::EditorChanged(editor(2)));
    assert!(stage.shown().contains("VS Code (2 files)"), "{}", stage.shown());
    stage.event(Event::EditorChanged(None));
    assert!(!stage.shown().contains("VS Code"));
}

#[test]
fn colours_are_shown_while_a_command_runs_and_after_it() {
    let red = CellStyle { foreground: ScreenColor::Palette(1), ..CellStyle::default() };
    let mut coloured = screen(&[]);
    coloured.rows = vec![vec![ScreenRun { text: "failed".to_owned(), style: Some(red) }]];
    let colour_of = |stage: &mut Stage| {
        stage.draw();
        let screen = stage.terminal.screen();
        let row = screen.rows(0, 80).position(|row| row.contains("failed")).expect("the output");
        let column = screen.rows(0, 80).nth(row).and_then(|row| row.find("failed")).expect("the output");
        let before = screen.rows(0, 80).nth(row).and_then(|text| text.get(..column).map(str::to_owned));
        let width = before.map_or(0, |text| text.chars().count());
        screen.cell(row as u16, width as u16).map(|cell| cell.fgcolor())
    };
    let mut stage = running(&[""]);
    stage.event(shows(id(), coloured.clone()));
    assert_eq!(colour_of(&mut stage), Some(vt100::Color::Idx(1)));
    stage.event(ended("failed"));
    assert_eq!(colour_of(&mut stage), Some(vt100::Color::Idx(1)));

    let mut stage = running(&[""]);
    stage.app.set_settings(Settings { command_colours: false, ..Settings::default() });
    stage.event(shows(id(), coloured));
    assert_ne!(colour_of(&mut stage), Some(vt100::Color::Idx(1)));
}

#[test]
fn a_result_that_the_screen_does_not_show_is_plain() {
    let mut stage = running(&["old screen"]);
    stage.event(ended("first\nsecond"));
    let shown = stage.shown();
    assert!(shown.contains("second") && !shown.contains("old screen"), "{shown}");
}

#[test]
fn a_full_screen_program_of_the_person_takes_the_keyboard_once() {
    let keys = KeyModes { application_cursor: true, bracketed_paste: true };
    let full = TerminalScreen { alternate: true, keys, ..screen(&["~", "~", "-- INSERT --"]) };
    let call = CallId::from_file("shell-1");
    let typed =
        |text: &str| vec![Action::Type { call: call.clone(), input: TypedBytes(text.as_bytes().to_vec()) }];
    let mut stage = own(full.clone());
    assert!(stage.shown().contains("-- INSERT --"), "{}", stage.shown());
    assert_eq!(stage.press(KeyCode::Up, KeyModifiers::NONE), typed("\u{1b}OA"));
    assert_eq!(stage.app.paste("x", stage.now, &|_| false), typed("\u{1b}[200~x\u{1b}[201~"));
    stage.press(KeyCode::BackTab, KeyModifiers::SHIFT);
    stage.event(shows(call.clone(), full));
    assert_eq!(stage.write("draft"), []);
    let report = ShellReport { call, command: "x".into(), output: String::new(), ending: None };
    stage.event(Event::ShellEnded(Arc::new(report)));
    stage.app.shell_ended(None, stage.now);
    let shown = stage.shown();
    assert!(!shown.contains("INSERT") && shown.contains("> draft"), "{shown}");
}

#[test]
fn a_command_of_the_person_keeps_its_whole_output() {
    let rows: Vec<String> = (10..20).map(|number| format!("row {number}")).collect();
    let mut stage = own(screen(&rows.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(stage.shown().contains("row 19"));
    let output: Vec<String> = (0..20).map(|number| format!("row {number}")).collect();
    let call = CallId::from_file("shell-1");
    let ending = Some("[exit code 3]".to_owned());
    let report = ShellReport { call, command: "x".into(), output: output.join("\n"), ending };
    stage.event(Event::ShellEnded(Arc::new(report)));
    stage.app.shell_ended(Some("[exit code 3]"), stage.now);
    let shown = stage.shown();
    assert!(shown.contains("row 19\n  │ [exit code 3]") && shown.contains("earlier lines"), "{shown}");
    stage.press(KeyCode::Char('o'), KeyModifiers::CONTROL);
    assert!(stage.shown().contains("row 0\n"), "{}", stage.shown());
}

#[test]
fn a_screen_never_controls_the_terminal() {
    let mut stage = running(&["a\u{1b}]0;title\u{7}\u{1b}[2Jb\u{202e}c"]);
    let shown = stage.shown();
    assert!(shown.contains("abc"), "{shown}");
    assert!(stage.shown().contains("Type your"), "{shown}");
}

#[test]
fn any_screen_fits_any_window() {
    for (columns, rows) in [(1, 1), (10, 3), (20, 6), (80, 24), (200, 60)] {
        let size = command_terminal(columns, rows);
        assert!(size.columns >= 20 && size.rows >= 4);
        let mut stage = running(&["x"]);
        stage.size = (columns, rows);
        stage.terminal = vt100::Parser::new(rows, columns, 100);
        stage.press(KeyCode::Tab, KeyModifiers::NONE);
        let wide = "日本".repeat(usize::from(size.columns) / 4);
        let mut full = screen(&vec![wide.as_str(); usize::from(size.rows)]);
        for (row, column) in [(0, 0), (size.rows - 1, size.columns - 1), (u16::MAX, u16::MAX)] {
            full.cursor = Some(ScreenPosition { row, column });
            full.alternate = !full.alternate;
            stage.event(shows(id(), full.clone()));
        }
    }
}
