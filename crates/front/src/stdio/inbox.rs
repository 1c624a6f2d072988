//! The input of a conversation that a program drives.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::input::Input;

/// The program at the other end, as the inbox sees it.
pub trait Driver {
    /// Whether a prompt is being carried out.
    fn is_busy(&self) -> bool;

    /// The conversation takes the prompt that was sent to it.
    fn taken(&self);
}

/// What a program sends to a conversation, in order.
pub struct Inbox {
    input: mpsc::UnboundedReceiver<Input>,
    /// Input for the next time a prompt is awaited.
    deferred: VecDeque<Input>,
    ready: VecDeque<Input>,
}

impl Inbox {
    /// An inbox whose input comes from this receiver.
    pub fn new(input: mpsc::UnboundedReceiver<Input>) -> Self {
        Self { input, deferred: VecDeque::new(), ready: VecDeque::new() }
    }

    /// A prompt is awaited: what was deferred is due.
    pub fn await_prompt(&mut self) {
        self.ready.append(&mut self.deferred);
    }

    /// A prompt that comes before everything that was not taken yet.
    pub fn queue_prompt(&mut self, prompt: String) {
        self.ready.push_back(Input::Said(prompt));
    }

    /// Keeps input until a prompt is awaited.
    pub fn defer(&mut self, input: Input) {
        self.deferred.push_back(input);
    }

    /// The next input. Can be dropped and called again.
    pub async fn next(&mut self, driver: &dyn Driver) -> Input {
        loop {
            let input = match self.ready.pop_front() {
                Some(input) => input,
                // The driver holds the sender, so this cannot end before the conversation does.
                None => self.input.recv().await.unwrap_or(Input::Gone),
            };
            match input {
                Input::Prompt(prompt) => {
                    driver.taken();
                    return Input::Prompt(prompt);
                }
                // It was meant for a turn that has ended.
                Input::Interrupt if !driver.is_busy() => {}
                input => return input,
            }
        }
    }
}
