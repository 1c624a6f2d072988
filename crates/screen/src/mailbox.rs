//! The queue of messages to the screen.
//!
//! The screen may not read for minutes, while an editor runs or the process is stopped. Senders never block and the queue
//! is bounded: adjacent text is merged, only the end of long output is kept, and beyond a limit the oldest display-only
//! messages are dropped and counted. Questions, turn ends and
//! other state are never dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use pollux_domain::event::Event;
use pollux_domain::sync::Locked as _;
use pollux_tui::transcript::Item;
use tokio::sync::Notify;

use crate::message::Message;

/// Maximum number of waiting messages.
const MOST: usize = 4096;
/// Bytes of one call's output that may wait.
const OUTPUT: usize = 64 * 1024;

/// A handle to the queue.
#[derive(Clone, Default)]
pub(crate) struct Mailbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    bell: Notify,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Message>,
    /// Dropped messages.
    dropped: usize,
    closed: bool,
}

impl Mailbox {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.locked()
    }

    pub(crate) fn send(&self, message: Message) {
        self.inner().put(message);
        self.0.bell.notify_one();
    }

    /// Ends the queue.
    pub(crate) fn close(&self) {
        self.inner().closed = true;
        self.0.bell.notify_one();
    }

    /// The next message; `None` at the end. Dropping the future loses nothing.
    pub(crate) async fn recv(&self) -> Option<Message> {
        loop {
            // Registered before checking, so that no message is missed.
            let rings = self.0.bell.notified();
            {
                let mut inner = self.inner();
                if let Some(message) = inner.take() {
                    return Some(message);
                }
                if inner.closed {
                    return None;
                }
            }
            rings.await;
        }
    }

    /// The next waiting message.
    pub(crate) fn try_recv(&self) -> Option<Message> {
        self.inner().take()
    }
}

impl Inner {
    fn put(&mut self, message: Message) {
        let Some(message) = self.joined(message) else { return };
        self.queue.push_back(message);
        if self.queue.len() > MOST
            && let Some(oldest) = self.queue.iter().position(is_for_looking)
        {
            self.queue.remove(oldest);
            self.dropped += 1;
        }
    }

    /// Merges it into the last message if both are text of the same source; otherwise returns it.
    fn joined(&mut self, message: Message) -> Option<Message> {
        let (last, text) = match (self.queue.back_mut(), &message) {
            (Some(Message::ShellOutput(last)), Message::ShellOutput(text)) => (last, text),
            (Some(Message::Event(last)), Message::Event(new)) => match (&mut **last, &**new) {
                (Event::Text(last), Event::Text(text)) => {
                    last.push_str(text);
                    return None;
                }
                (Event::CallOutput { call: one, text: last }, Event::CallOutput { call: other, text })
                    if one == other =>
                {
                    (last, text)
                }
                (
                    Event::CallScreen { call: one, screen: last },
                    Event::CallScreen { call: other, screen },
                ) if one == other => {
                    *last = Arc::clone(screen);
                    return None;
                }
                _ => return Some(message),
            },
            _ => return Some(message),
        };
        last.push_str(text);
        cut(last);
        None
    }

    fn take(&mut self) -> Option<Message> {
        match std::mem::take(&mut self.dropped) {
            0 => self.queue.pop_front(),
            1 => Some(Message::Say(Item::warning("… 1 message not shown"))),
            more => Some(Message::Say(Item::warning(format!("… {more} messages not shown")))),
        }
    }
}

/// Keeps the end of an output and the number of dropped lines.
fn cut(output: &mut String) {
    if output.len() <= 2 * OUTPUT {
        return;
    }
    let (before, rest) = lines_not_shown(output);
    let from = (rest.len() - OUTPUT..rest.len()).find_map(|at| rest.split_at_checked(at));
    let (mut gone, mut kept) = from.unwrap_or(("", rest));
    // Whole lines, if possible.
    if let Some((half, whole)) = kept.split_once('\n') {
        gone = rest.get(..gone.len() + half.len() + 1).unwrap_or(gone);
        kept = whole;
    }
    let lines = before + gone.matches('\n').count();
    *output = format!("{}{kept}", not_shown(lines));
}

fn not_shown(lines: usize) -> String {
    format!("… {lines} lines not shown\n")
}

/// The number of lines already dropped from an output, and the rest of it.
fn lines_not_shown(output: &str) -> (usize, &str) {
    let said = || {
        let (first, rest) = output.split_once('\n')?;
        let count = first.strip_prefix("… ")?.strip_suffix(" lines not shown")?.parse().ok()?;
        Some((count, rest))
    };
    said().unwrap_or((0, output))
}

/// Whether a message only affects the display.
fn is_for_looking(message: &Message) -> bool {
    match message {
        Message::Say(_) | Message::ShellOutput(_) | Message::Preview(..) | Message::Hits(..) => true,
        Message::Event(event) => matches!(
            &**event,
            Event::Text(_)
                | Event::Thought(_)
                | Event::CallRequested(_)
                | Event::CallOutput { .. }
                | Event::CallScreen { .. }
                | Event::CallFinished(_)
                | Event::Activity(_)
                | Event::HookRan(_)
                | Event::Notice { .. }
                | Event::RequestSent(_)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::event::TurnEnd;
    use pollux_domain::id::CallId;

    fn output(call: &str, text: &str) -> Message {
        Message::Event(Box::new(Event::CallOutput { call: CallId::from_file(call), text: text.to_owned() }))
    }

    fn all(mailbox: &Mailbox) -> Vec<Message> {
        std::iter::from_fn(|| mailbox.try_recv()).collect()
    }

    #[test]
    fn output_that_nobody_looks_at_stays_small_and_says_what_went() {
        let mailbox = Mailbox::default();
        for number in 0..200_000 {
            mailbox.send(output("1", &format!("line {number}\n")));
        }
        let waiting = all(&mailbox);
        let [Message::Event(event)] = waiting.as_slice() else { panic!("{}", waiting.len()) };
        let Event::CallOutput { text, .. } = &**event else { panic!("{event:?}") };
        assert!(text.len() <= 2 * OUTPUT + 64, "{}", text.len());
        assert!(text.ends_with("line 199999\n"));
        let (gone, rest) = lines_not_shown(text);
        assert_eq!(gone + rest.lines().count(), 200_000);
        assert!(rest.starts_with(&format!("line {gone}\n")));
    }

    #[test]
    fn what_must_be_known_is_never_dropped_and_what_went_is_counted() {
        let mailbox = Mailbox::default();
        for number in 0..3 * MOST {
            mailbox.send(output(&number.to_string(), "x"));
            if number % MOST == 0 {
                mailbox.send(Message::Event(Box::new(Event::TurnEnded(TurnEnd::Cancelled))));
                mailbox.send(Message::TurnStarted(number.to_string()));
            }
        }
        let waiting = all(&mailbox);
        assert!(waiting.len() <= MOST + 1, "{}", waiting.len());
        let Some(Message::Say(Item::Warning(said))) = waiting.first() else { panic!("nothing is said") };
        let dropped = 3 * MOST + 6 - (waiting.len() - 1);
        assert_eq!(*said, format!("… {dropped} messages not shown"));
        let ends = waiting.iter().filter(|message| matches!(message, Message::TurnStarted(_))).count();
        assert_eq!(ends, 3);
    }

    #[test]
    fn an_answer_keeps_every_letter() {
        let mailbox = Mailbox::default();
        let pieces: Vec<String> = (0..10_000).map(|number| format!("{number} ")).collect();
        pieces.iter().for_each(|text| mailbox.send(Message::Event(Box::new(Event::Text(text.clone())))));
        let waiting = all(&mailbox);
        let [Message::Event(event)] = waiting.as_slice() else { panic!("{}", waiting.len()) };
        assert!(matches!(&**event, Event::Text(text) if *text == pieces.concat()));
    }

    #[tokio::test]
    async fn the_end_comes_after_everything_else() {
        let mailbox = Mailbox::default();
        mailbox.send(Message::AwaitPrompt);
        mailbox.close();
        assert!(matches!(mailbox.recv().await, Some(Message::AwaitPrompt)));
        assert!(mailbox.recv().await.is_none());
    }
}
