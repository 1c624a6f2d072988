//! The screen as a front end: what a conversation wants becomes messages to the screen's thread.

use std::sync::Arc;

use pollux_domain::approval::ApprovalMode;
use pollux_domain::event::{Event, Severity};
use pollux_domain::exit::ExitKind;
use pollux_domain::failure::Failure;
use pollux_domain::panel::Panel;
use pollux_host::{Conversation, Loaded, Prepared, Said};
use pollux_output::Console;
use pollux_tui::app::Facts;
use pollux_tui::dialog::{Entry, Picker, Row};
use pollux_tui::theme::Theme;
use pollux_tui::transcript::Item;
use tokio::sync::{mpsc, oneshot};

use super::look::{footer, settings};
use super::{Desk, IN_ORDER, Message, PROMPTLY, Screen, WAITING};
use crate::choice::{Choice, ListEvent};
use crate::front_end::{FrontEnd, Pending};
use crate::input::Input;
use crate::presentation::path_display;

impl FrontEnd for Screen {
    fn is_screen(&self) -> bool {
        true
    }

    fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    fn greet(&mut self, turn: &Prepared<'_>, _mode: ApprovalMode) {
        self.confined(turn, &turn.loaded.groups.model.name);
        self.tell(Message::Paths(Box::new(path_display(turn.loaded))));
        let auth = turn.credentials.auth_type.as_deref();
        let sign_in = auth.map(|auth| format!("Authenticated with {auth} /auth"));
        self.tell(Message::SignedIn(sign_in.unwrap_or_default()));
        let desk = crate::desk::desk(turn.loaded);
        self.tell(Message::Desk(Arc::clone(&desk) as Arc<dyn Desk>));
        self.desk = Some(desk);
    }

    fn event(&mut self, event: &Event) {
        self.console.export(event);
        self.tell(Message::Event(Box::new(event.clone())));
    }

    fn note(&mut self, text: &str) {
        self.say(Item::info(text));
    }

    fn complain(&mut self, text: &str) {
        self.say(Item::error(text));
    }

    fn panel(&mut self, panel: Panel) {
        self.say(Item::Panel(Box::new(panel)));
    }

    fn farewell(&mut self, item: Item) {
        self.tell(Message::Farewell(item));
    }

    fn remember(&mut self, said: Vec<Said>) {
        let prompts = said.iter().filter_map(|said| match said {
            Said::Prompt(text) => Some(text.clone()),
            _ => None,
        });
        self.tell(Message::Past(prompts.collect()));
        said.into_iter().for_each(|said| self.say(item(said)));
    }

    fn clear(&mut self) {
        self.tell(Message::Clear);
    }

    fn suggest(&mut self, text: &str) {
        self.tell(Message::Text(text.to_owned()));
    }

    fn sequence(&mut self, sequence: &str) {
        self.tell(Message::Sequence(sequence.to_owned()));
    }

    fn begin(&mut self, typed: &str) {
        self.tell(Message::Begin(typed.to_owned()));
    }

    fn ready(&mut self) {
        self.pending.append(&mut self.later);
        self.tell(Message::Ready);
    }

    fn offer(&mut self, conversation: &Conversation, loaded: &Loaded) {
        if let Some(desk) = &self.desk {
            desk.set_offers(conversation.offers(loaded));
        }
    }

    fn show_facts(&mut self, facts: Facts) {
        self.tell(Message::Facts(Box::new(facts)));
    }

    fn confined(&mut self, turn: &Prepared<'_>, model: &str) {
        let in_force = turn.sandbox.in_force(&turn.loaded.env);
        self.tell(Message::Footer(Box::new(footer(turn.loaded, model, Some(&in_force)))));
    }

    fn look_anew(&mut self, turn: &Prepared<'_>, model: &str) {
        if let Ok(loaded) = pollux_host::load_settings(turn.request, &turn.loaded.env) {
            self.tell(Message::Settings(Box::new(settings(&loaded).0)));
            let in_force = turn.sandbox.in_force(&turn.loaded.env);
            self.tell(Message::Footer(Box::new(footer(&loaded, model, Some(&in_force)))));
        }
    }

    fn show_theme(&mut self, theme: &Theme) {
        self.tell(Message::Theme(Box::new(theme.clone())));
    }

    fn set_vim(&mut self, on: bool) {
        self.tell(Message::Vim(on));
        self.note(&format!("Vim mode is {}.", if on { "on" } else { "off" }));
    }

    fn prefer_editor(&mut self, id: Option<&str>) {
        if let Some(desk) = &self.desk {
            desk.prefer_editor(id);
        }
    }

    /// A box for what a command of the person's prints.
    fn begin_shell(&mut self, command: &str) -> Box<dyn Fn(&str) + Send + Sync> {
        self.begin(&format!("!{command}"));
        let to = self.to.clone();
        Box::new(move |text: &str| to.send(Message::ShellOutput(text.to_owned())))
    }

    fn end_shell(&mut self, said: Option<&str>) {
        self.tell(Message::ShellEnded(said.map(str::to_owned)));
    }

    fn input(&mut self) -> Pending<'_, Input> {
        Box::pin(async move {
            match self.pending.pop_front() {
                Some(input) => input,
                None => self.from.recv().await.unwrap_or(Input::Gone),
            }
        })
    }

    fn say_first(&mut self, prompt: String) {
        self.pending.push_back(Input::Said(prompt));
    }

    fn put_back(&mut self, input: Input) {
        self.later.push_back(input);
    }

    fn entry<'a>(&'a mut self, question: &'a str, secret: bool) -> Pending<'a, Option<String>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.tell(Message::Enter(Entry::new(question, secret), answer));
            answered.await.ok().flatten()
        })
    }

    fn agrees<'a>(&'a mut self, question: &'a str) -> Pending<'a, bool> {
        Box::pin(async move {
            let choice = Choice::of(question, [("yes", "Yes"), ("no", "No")]);
            self.choose(choice).await.is_some_and(|chosen| chosen.key == "yes")
        })
    }

    fn present(&mut self, choice: Choice) {
        // What was done before the list changed still counts.
        let events = match self.picking.as_ref().and_then(mpsc::WeakSender::upgrade) {
            Some(events) => events,
            None => {
                let (events, done) = mpsc::channel(WAITING);
                self.list_events = Some(done);
                events
            }
        };
        self.picking = Some(events.downgrade());
        self.tell(Message::Pick(Box::new(picker(choice)), events));
    }

    fn list_event(&mut self) -> Pending<'_, Option<ListEvent>> {
        Box::pin(async move { self.list_events.as_mut()?.recv().await })
    }

    fn show_preview(&mut self, key: String, lines: Vec<String>) {
        self.tell(Message::Preview(key, lines));
    }

    fn show_hits(&mut self, words: String, hits: Vec<(String, String)>) {
        self.tell(Message::Hits(words, hits));
    }

    fn close(&mut self) {
        self.tell(Message::Close);
    }

    fn leave(mut self: Box<Self>, signalled: bool, ended: Result<(), Failure>) -> ExitKind {
        self.end(Vec::new(), if signalled { PROMPTLY } else { IN_ORDER });
        let style = self.style.clone();
        drop(self);
        match ended {
            Ok(()) => ExitKind::Success,
            Err(failure) => Console::of_process(style).fail(&failure),
        }
    }
}

fn picker(choice: Choice) -> Picker {
    let rows = choice.rows.into_iter().map(|row| Row {
        key: row.key,
        columns: row.columns,
        preview: row.preview,
        sample: row.sample,
    });
    let mut picker = Picker::new(choice.title, &choice.headings, rows.collect())
        .manner(choice.manner)
        .note(choice.note)
        .about(choice.about)
        .foot(choice.foot);
    if let Some(hint) = choice.hint {
        picker = picker.hint(hint);
    }
    if let Some(key) = &choice.marked {
        picker = picker.mark(key);
    }
    let letters = choice.letters.iter();
    letters.fold(picker, |picker, letter| picker.letter(letter.letter, letter.about, letter.grave))
}

fn item(said: Said) -> Item {
    match said {
        Said::Prompt(text) => Item::Prompt(text),
        Said::Answer(text) => Item::Answer { text, goes_on: false },
        Said::Call { name, about, went_well } => Item::Call { name, about, went_well },
        Said::Note(Severity::Info, text) => Item::info(text),
        Said::Note(Severity::Warning, text) => Item::warning(text),
        Said::Note(Severity::Error, text) => Item::error(text),
    }
}
