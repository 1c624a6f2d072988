use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use pollux_config::env::Env;
use pollux_host::request::Request;

use super::*;
use crate::front_end::Pending;
use crate::presentation::early_style;

/// Everything a scripted front end was asked to show.
type Told = Rc<RefCell<Vec<String>>>;

/// A front end that plays scripted input and then waits forever.
struct Script {
    console: Console,
    told: Told,
    inputs: VecDeque<Input>,
    list_events: VecDeque<ListEvent>,
}

impl Default for Script {
    fn default() -> Self {
        let style = early_style(&Request::default(), &Env::new([], PathBuf::from("/w")));
        Self {
            console: Console::new(style, Box::new(io::sink()), Box::new(io::sink())),
            told: Told::default(),
            inputs: VecDeque::new(),
            list_events: VecDeque::new(),
        }
    }
}

impl Script {
    fn tell(&self, line: impl Into<String>) {
        self.told.borrow_mut().push(line.into());
    }
}

impl FrontEnd for Script {
    fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    fn greet(&mut self, _turn: &Prepared<'_>, _mode: ApprovalMode) {}

    fn event(&mut self, _event: &Event) {}

    fn note(&mut self, text: &str) {
        self.tell(text);
    }

    fn show_history(&mut self, said: Vec<HistoryItem>) {
        self.tell(format!("{} said before", said.len()));
    }

    fn terminal_sequence(&mut self, _sequence: &str) {}

    fn await_prompt(&mut self) {}

    fn sandbox_changed(&mut self, _turn: &Prepared<'_>, _model: &str) {}

    fn shell_started(&mut self, _command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        Box::new(|_: &str| {})
    }

    fn input(&mut self) -> Pending<'_, Input> {
        match self.inputs.pop_front() {
            Some(input) => Box::pin(std::future::ready(input)),
            None => Box::pin(std::future::pending()),
        }
    }

    fn queue_prompt(&mut self, prompt: String) {
        self.inputs.push_back(Input::Said(prompt));
    }

    fn defer(&mut self, input: Input) {
        self.tell(format!("put back: {input:?}"));
    }

    fn ask_line<'a>(&'a mut self, question: &'a str, _secret: bool) -> Pending<'a, Option<String>> {
        self.tell(question);
        Box::pin(std::future::ready(Some("typed".to_owned())))
    }

    fn confirm<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        self.tell(question);
        Box::pin(std::future::ready(true))
    }

    fn present(&mut self, choice: Choice) {
        self.tell(choice.title);
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(std::future::ready(self.list_events.pop_front()))
    }

    fn leave(self: Box<Self>, signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        self.tell(format!("left, signalled: {signalled}"));
        if ended.is_ok() { ExitKind::Success } else { ExitKind::Failure }
    }
}

fn interface(script: Script) -> (UserInterface, Told) {
    let told = Rc::clone(&script.told);
    let signals = Signals::listen().expect("signals can be listened to");
    (UserInterface::new(Box::new(script), signals), told)
}

fn chosen(key: &str) -> Chosen {
    Chosen { key: key.to_owned(), action: None }
}

#[tokio::test]
async fn only_a_choice_ends_a_list() {
    let list_events = [
        ListEvent::Marked("b".to_owned()),
        ListEvent::Searched("words".to_owned()),
        ListEvent::Chosen(chosen("a")),
        ListEvent::Chosen(chosen("b")),
    ];
    let (mut ui, told) = interface(Script { list_events: list_events.into(), ..Script::default() });
    let choice = || Choice::of("Which?", [("a", "A"), ("b", "B")]);
    assert_eq!(ui.choose(choice()).await, Some(chosen("a")));
    assert_eq!(ui.choose(choice()).await, Some(chosen("b")));
    assert_eq!(ui.choose(choice()).await, None);
    assert_eq!(*told.borrow(), ["Which?", "Which?", "Which?"]);
}

#[tokio::test]
async fn nobody_is_asked_once_the_terminal_is_gone() {
    let (mut ui, told) = interface(Script { inputs: [Input::Gone].into(), ..Script::default() });
    assert!(ui.confirm("Before?").await);
    assert!(matches!(ui.input().await, Input::Leave));
    assert!(matches!(ui.input().await, Input::Leave));
    assert!(!ui.confirm("After?").await);
    assert_eq!(ui.ask_line("After?").await, None);
    assert_eq!(ui.ended_by, Some(Received::HangUp));
    assert_eq!(ui.leave(Ok(())), Received::HangUp.exit());
    assert_eq!(*told.borrow(), ["Before?", "left, signalled: true"]);
}

#[tokio::test]
async fn what_is_typed_before_an_interrupt_is_put_back() {
    let inputs = [Input::Said("later".to_owned()), Input::Interrupt];
    let (mut ui, told) = interface(Script { inputs: inputs.into(), ..Script::default() });
    ui.interrupted().await;
    assert_eq!(*told.borrow(), [r#"put back: Said("later")"#]);
    assert_eq!(ui.leave(Ok(())), ExitKind::Success);
}

#[tokio::test]
async fn what_is_typed_while_a_session_ends_waits_for_the_next_one() {
    let inputs = [Input::Said("typed ahead".to_owned()), Input::Detach, Input::Interrupt];
    let (mut ui, told) = interface(Script { inputs: inputs.into(), ..Script::default() });
    ui.cancel_requested().await;
    assert_eq!(*told.borrow(), [r#"put back: Said("typed ahead")"#]);
}

#[tokio::test]
async fn what_a_front_end_has_no_place_for_becomes_a_note_or_is_left_out() {
    let (mut ui, told) = interface(Script::default());
    ui.show_history(Vec::new(), 2);
    ui.error("It went wrong.");
    ui.shell_ended(Some("It was stopped."));
    ui.farewell(Farewell::Note("Until then.".to_owned()));
    ui.clear();
    ui.show_preview("key".to_owned(), vec!["more".to_owned()]);
    assert_eq!(
        *told.borrow(),
        [
            "2 earlier messages not shown; run `pollux sessions show` to see all.",
            "0 said before",
            "It went wrong.",
            "It was stopped.",
            "Until then.",
        ]
    );
}
