//! A conversation on the whole screen.
//!
//! The screen lives on a thread of its own (`stage.rs`), so that keys are answered whatever the conversation does.
//! This is the conversation's end of it: messages go there, what the person does comes back.

mod front_end;
mod look;
mod mailbox;
mod stage;
mod themes;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pollux_domain::event::Event;
use pollux_domain::path_display::PathDisplay;
use pollux_output::{Console, Style};
use pollux_tui::app::{App, Facts, Footer, Settings};
use pollux_tui::composer::{Item as Suggestion, Wanted};
use pollux_tui::dialog::{Entry, Picker};
use pollux_tui::terminal::Terminal;
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;
use tokio::sync::{mpsc, oneshot};

use self::mailbox::Mailbox;
use self::stage::Stage;
use self::watch::{Manner, Watchman};
use super::choice::ListEvent;
use super::input::Input;

pub(super) use self::look::{first_look, is_on, keys, manner};
pub(super) use self::themes::{chosen_theme, themes};

/// What a person does and nobody has looked at yet; more is refused, and said so.
const WAITING: usize = 1024;
/// How long a screen may take to give the terminal back when a person leaves, and when the terminal may be gone.
const IN_ORDER: Duration = Duration::from_secs(10);
const PROMPTLY: Duration = Duration::from_millis(300);

/// What the screen needs of the machine. It is called beside the screen's thread, except for [`Desk::edit`], which
/// has the terminal to itself.
pub(crate) trait Desk: Send + Sync {
    /// Says what could stand where the cursor is, best first; again when more is known.
    fn complete(&self, wanted: &Wanted, answer: &mut dyn FnMut(Vec<Suggestion>));

    /// Whether a path, as somebody would paste it, names a file.
    fn exists(&self, path: &str) -> bool;

    /// Lets the person change a text in an editor of theirs. `name` is what the file is called, for its colours.
    fn edit(&self, text: &str, name: &str) -> Result<String, String>;

    /// What the clipboard holds; a picture is put into a file.
    fn clipboard(&self) -> Clip;

    /// What was typed in earlier conversations, oldest first: prompts, and shell commands.
    fn past(&self) -> (Vec<String>, Vec<String>);
}

/// What the clipboard holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Clip {
    /// A picture, by the path of its file.
    Picture(String),
    Text(String),
    /// Nothing that can be used, and why.
    Nothing(String),
}

/// What the screen is told.
enum Message {
    Event(Box<Event>),
    Say(Item),
    /// Something to be said when everything is over.
    Farewell(Item),
    /// How the model is reached, for the greeting.
    SignedIn(String),
    /// A turn begins with this.
    Begin(String),
    /// The next prompt is awaited.
    Ready,
    /// A list; what is done with it is told until it is gone.
    Pick(Box<Picker>, mpsc::Sender<ListEvent>),
    /// More about a row of the list.
    Preview(String, Vec<String>),
    /// Rows of the list in which words are found elsewhere, with the place.
    Hits(String, Vec<(String, String)>),
    Enter(Entry, oneshot::Sender<Option<String>>),
    Close,
    /// An empty screen; what stood there can be scrolled to.
    Clear,
    /// What a command of the person's prints, and that it is over, with a word about how.
    ShellOutput(String),
    ShellEnded(Option<String>),
    Footer(Box<Footer>),
    /// Where paths are seen from.
    Paths(Box<PathDisplay>),
    /// What a conversation can use.
    Facts(Box<Facts>),
    /// How everything looks and behaves from now on.
    Settings(Box<Settings>),
    Theme(Box<Theme>),
    Vim(bool),
    /// Text for the composer.
    Text(String),
    /// What was typed before, oldest first.
    Past(Vec<String>),
    /// From now on the machine is reached this way.
    Desk(Arc<dyn Desk>),
    /// A sequence for the terminal that moves nothing.
    Sequence(String),
    /// Give the terminal back, with the last frame left on it.
    End(Vec<Item>),
}

pub(super) struct Screen {
    console: Console,
    /// How failures are told once the terminal is given back.
    style: Style,
    to: Mailbox,
    from: mpsc::Receiver<Input>,
    /// What is taken before anything that comes.
    pending: VecDeque<Input>,
    /// What is taken when the next prompt is awaited.
    later: VecDeque<Input>,
    /// What is done with the list that is open.
    list_events: Option<mpsc::Receiver<ListEvent>>,
    /// Lives as long as that list.
    picking: Option<mpsc::WeakSender<ListEvent>>,
    /// It is told what a conversation offers.
    desk: Option<Arc<crate::desk::Machine>>,
    thread: Option<JoinHandle<()>>,
    /// Notices that the terminal is gone, whatever the screen's thread is at.
    _watchman: Watchman,
}

impl Screen {
    /// Takes the terminal and shows the first frame.
    pub(super) fn open(app: App, manner: Manner, style: Style) -> io::Result<Self> {
        let terminal = Terminal::open(manner.alternate)?;
        let to = Mailbox::default();
        let (inputs, from) = mpsc::channel(WAITING);
        let stage = Stage::new(app, terminal, manner, to.clone(), inputs);
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(move || stage.run())?;
        let (pending, later) = (VecDeque::new(), VecDeque::new());
        let console = Console::new(style.clone(), Box::new(io::sink()), Box::new(io::sink()));
        Ok(Self {
            console,
            style,
            to,
            from,
            pending,
            later,
            list_events: None,
            picking: None,
            desk: None,
            thread: Some(thread),
            _watchman: Watchman::begin()?,
        })
    }

    fn tell(&self, message: Message) {
        // A screen that is gone has been left; that is noticed where input is awaited.
        self.to.send(message);
    }

    fn say(&self, item: Item) {
        self.tell(Message::Say(item));
    }

    /// Gives the terminal back; these are the last words on it. A screen that does not answer is not waited for: it
    /// may be reading from a terminal that is gone, or wait for an editor.
    fn end(&mut self, last: Vec<Item>, patience: Duration) {
        self.tell(Message::End(last));
        self.to.close();
        let Some(thread) = self.thread.take() else { return };
        let since = Instant::now();
        while !thread.is_finished() {
            if since.elapsed() > patience {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end(Vec::new(), PROMPTLY);
    }
}
