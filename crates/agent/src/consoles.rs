//! The terminals of running commands: who looks at them, and how the person's keys reach them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pollux_domain::event::{Event, OpResult, RefusalCode};
use pollux_domain::id::CallId;
use pollux_domain::sync::Locked as _;
use pollux_domain::terminal_screen::{TerminalScreen, TerminalSize};
use pollux_domain::terminals::{CommandInput, CommandTerminal};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

type Open = Mutex<HashMap<CallId, mpsc::Sender<CommandInput>>>;

/// The terminals of a session's commands.
#[derive(Debug)]
pub(crate) struct Consoles {
    /// `tools.shell.enableInteractiveShell`
    enabled: bool,
    /// `None` until a front end says that it shows terminals.
    size: Mutex<Option<TerminalSize>>,
    open: Arc<Open>,
}

/// A terminal that is open; it closes when dropped.
pub(crate) struct Console {
    pub(crate) terminal: CommandTerminal,
    call: CallId,
    open: Arc<Open>,
}

impl Drop for Console {
    fn drop(&mut self) {
        self.open.locked().remove(&self.call);
    }
}

impl Consoles {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, size: Mutex::default(), open: Arc::default() }
    }

    /// The terminal for a command; `None` if commands have none.
    pub(crate) fn open(
        &self,
        call: &CallId,
        show: impl Fn(TerminalScreen) -> bool + Send + Sync + 'static,
    ) -> Option<Console> {
        let size = self.size.locked().filter(|_| self.enabled)?;
        let (terminal, inputs) = CommandTerminal::new(size, show);
        self.open.locked().insert(call.clone(), inputs);
        Some(Console { terminal, call: call.clone(), open: Arc::clone(&self.open) })
    }

    /// The same for a tool call. A screen that finds the event queue full is dropped; a later one takes its place.
    pub(crate) fn open_for_call(&self, call: &CallId, events: &mpsc::Sender<Event>) -> Option<Console> {
        let (events, id) = (events.clone(), call.clone());
        self.open(call, move |screen| {
            let event = Event::CallScreen { call: id.clone(), screen: Arc::new(screen) };
            events.try_send(event).is_ok()
        })
    }

    pub(crate) fn set_size(&self, size: TerminalSize) -> OpResult {
        *self.size.locked() = Some(size);
        for inputs in self.open.locked().values() {
            // A command that does not take its input has other problems than its size.
            let _ = inputs.try_send(CommandInput::Resized(size));
        }
        OpResult::Accepted
    }

    /// Passes input on to a running command.
    pub(crate) fn pass(&self, call: &CallId, input: CommandInput) -> OpResult {
        match self.open.locked().get(call).map(|inputs| inputs.try_send(input)) {
            Some(Ok(())) => OpResult::Accepted,
            Some(Err(TrySendError::Full(_))) => {
                OpResult::refused(RefusalCode::QueueFull, "the command does not read its input")
            }
            Some(Err(TrySendError::Closed(_))) | None => not_running(),
        }
    }
}

pub(crate) fn not_running() -> OpResult {
    OpResult::refused(RefusalCode::NotFound, "no such command is running in a terminal")
}

#[cfg(test)]
mod tests {
    use pollux_domain::terminal_screen::TypedBytes;

    use super::*;

    const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

    fn code(result: &OpResult) -> Option<RefusalCode> {
        result.refusal().map(|refusal| refusal.code)
    }

    #[tokio::test]
    async fn input_reaches_the_command_it_is_for_while_it_runs() {
        let (consoles, call) = (Consoles::new(true), CallId::from_file("1"));
        assert!(consoles.open(&call, |_| true).is_none(), "no front end shows terminals");
        consoles.set_size(SIZE);
        let console = consoles.open(&call, |_| true).unwrap();
        assert_eq!(console.terminal.size(), SIZE);
        let typed = CommandInput::Typed(TypedBytes(b"x".to_vec()));
        assert_eq!(code(&consoles.pass(&call, typed.clone())), None);
        assert_eq!(console.terminal.next_input().await, typed);
        let larger = TerminalSize { columns: 90, ..SIZE };
        consoles.set_size(larger);
        assert_eq!(console.terminal.next_input().await, CommandInput::Resized(larger));
        assert_eq!(console.terminal.size(), larger);
        let other = CallId::from_file("2");
        assert_eq!(code(&consoles.pass(&other, typed.clone())), Some(RefusalCode::NotFound));
        let full = (0..1000).find_map(|_| code(&consoles.pass(&call, typed.clone())));
        assert_eq!(full, Some(RefusalCode::QueueFull));
        drop(console);
        assert_eq!(code(&consoles.pass(&call, typed)), Some(RefusalCode::NotFound));
    }

    #[test]
    fn the_setting_turns_terminals_off() {
        let consoles = Consoles::new(false);
        consoles.set_size(SIZE);
        assert!(consoles.open(&CallId::from_file("1"), |_| true).is_none());
    }
}
