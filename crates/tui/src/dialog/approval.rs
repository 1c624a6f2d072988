//! May this call run?

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::approval::{ApprovalAnswer, ApprovalRequest, Offer, Outcome, Subject};
use pollux_domain::id::CallId;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::{one_line, visible};
use pollux_domain::text::shortened;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::body::Reading;
use super::choices::Choices;
use super::field::Field;
use super::{Room, Verdict};
use crate::keys::KeyMap;
use crate::wrap::{Margin, chop, cut, wrap};
use crate::{code, diff, markdown};

/// Bytes of an old or a new text that still stand in the heading.
const FEW: usize = 30;
/// Characters of a call's summary in a heading.
const HEADING: usize = 60;
/// Rows of what is asked about that stay visible in any window that has them.
const BODY: usize = 2;

/// The question whether a call may run.
#[derive(Debug)]
pub struct Approval {
    request: ApprovalRequest,
    paths: PathDisplay,
    /// Which of how many questions this is.
    position: (usize, usize),
    choices: Choices,
    reading: Reading,
    why_shown: bool,
    /// The arguments of a server's tool are set out line by line.
    spread: bool,
    /// The instruction that the person is typing.
    instead: Option<Field>,
}

impl Approval {
    pub(super) fn new(mut request: ApprovalRequest, paths: PathDisplay) -> Self {
        request.offers.sort_by_key(|offer| offer.outcome.digit());
        let no = request.offers.iter().position(|offer| offer.outcome == Outcome::Refuse);
        let labels =
            request.offers.iter().map(|offer| (offer.outcome.digit(), label(offer, &request.subject)));
        let mut choices = Choices::numbered(labels.collect(), no);
        // Enter alone must not approve what cannot be undone.
        if let Some(no) = no.filter(|_| request.destroys.is_some()) {
            choices.start_at(no);
        }
        Self {
            request,
            paths,
            position: (1, 1),
            choices,
            reading: Reading::default(),
            why_shown: false,
            spread: false,
            instead: None,
        }
    }

    /// Whether an instruction is being typed.
    pub(super) fn is_written(&self) -> bool {
        self.instead.is_some()
    }

    pub(super) fn set_position(&mut self, which: usize, all: usize) {
        self.position = (which, all);
    }

    pub(super) fn call(&self) -> &CallId {
        &self.request.call
    }

    /// Resets the mark, because the keys were meant for the prompt.
    pub(super) fn restart(&mut self) {
        self.choices.restart();
    }

    pub(super) fn key(&mut self, key: KeyEvent, keys: &KeyMap) -> Verdict {
        if self.instead.is_some() {
            return self.write(key, keys);
        }
        if key.code == KeyCode::Esc || is_ctrl_c(key) {
            return self.answered(ApprovalAnswer::Cancel);
        }
        if self.reading.key(key) {
            return Verdict::Open;
        }
        if key.code == KeyCode::Char('o') && key.modifiers.contains(KeyModifiers::CONTROL) {
            self.spread = !self.spread;
            return Verdict::Open;
        }
        if key.code == KeyCode::Char('?') {
            self.why_shown = !self.why_shown;
            return Verdict::Open;
        }
        // They mark only: Enter says it.
        let meant = match key.code {
            _ if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => None,
            KeyCode::Char('y') => Some(Outcome::Once),
            KeyCode::Char('n') => Some(Outcome::Refuse),
            _ => None,
        };
        if let Some(meant) = meant {
            let place = self.request.offers.iter().position(|offer| offer.outcome == meant);
            place.into_iter().for_each(|place| self.choices.mark(place));
            return Verdict::Open;
        }
        let chosen =
            self.choices.key(key).and_then(|index| self.request.offers.get(index)).map(|offer| offer.outcome);
        match chosen {
            Some(outcome) => self.choose(outcome),
            None => Verdict::Open,
        }
    }

    fn choose(&mut self, outcome: Outcome) -> Verdict {
        // Only a body that was shown completely can be approved.
        if !matches!(outcome, Outcome::Refuse | Outcome::Edit) && !self.reading.is_read() {
            self.reading.next_page();
            return Verdict::Open;
        }
        match outcome {
            Outcome::Once => self.answered(ApprovalAnswer::Once),
            Outcome::Session => self.answered(ApprovalAnswer::Session),
            Outcome::SessionServer => self.answered(ApprovalAnswer::SessionServer),
            Outcome::Project => self.answered(ApprovalAnswer::Project),
            Outcome::Saved => self.answered(ApprovalAnswer::Saved),
            Outcome::Edit => Verdict::Edit { call: self.request.call.clone() },
            Outcome::Refuse if matches!(self.request.subject, Subject::Sandbox(_)) => {
                self.answered(ApprovalAnswer::Refuse(String::new()))
            }
            Outcome::Refuse => {
                self.instead = Some(Field::new(false));
                Verdict::Open
            }
        }
    }

    /// A key while an instruction is being typed.
    fn write(&mut self, key: KeyEvent, keys: &KeyMap) -> Verdict {
        let Some(text) = &mut self.instead else { return Verdict::Open };
        match key.code {
            _ if is_ctrl_c(key) => return self.answered(ApprovalAnswer::Cancel),
            KeyCode::Esc => self.instead = None,
            KeyCode::Enter => {
                let text = text.text().trim().to_owned();
                let answer =
                    if text.is_empty() { ApprovalAnswer::Cancel } else { ApprovalAnswer::Refuse(text) };
                return self.answered(answer);
            }
            _ => text.key(key, keys),
        }
        Verdict::Open
    }

    pub(super) fn paste(&mut self, pasted: &str) {
        if let Some(text) = &mut self.instead {
            text.paste(pasted);
        }
    }

    fn answered(&self, answer: ApprovalAnswer) -> Verdict {
        Verdict::Answered { call: self.request.call.clone(), answer }
    }

    /// What is asked about, as much of it as fits, and the choices. In a small window the choices give way first: what
    /// was not drawn cannot be approved.
    pub(super) fn lines(&mut self, room: Room<'_>) -> Vec<Line<'static>> {
        let height = usize::from(room.height);
        let why = if self.why_shown { self.why(room) } else { Vec::new() };
        let mut body = body(&self.request, &self.paths, self.spread, room);
        let (mut lines, mut tail) = (self.heading(room), self.tail(room));
        if lines.len() + why.len() + tail.len() + BODY > height {
            lines = vec![self.short_heading(room)];
            tail = self.short_tail(height.saturating_sub(lines.len() + BODY), room);
            body.extend(why);
        } else {
            tail.splice(0..0, why);
        }
        let left = height.saturating_sub(lines.len() + tail.len());
        lines.extend(self.reading.part(body, left, room));
        lines.extend(tail);
        lines
    }

    fn tail(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let mut tail = vec![Line::default()];
        tail.extend(self.warning(room));
        match &self.instead {
            Some(text) => tail.extend(self.instruction(text, room)),
            None => {
                tail.extend(self.question_rows(room));
                tail.extend(self.choices.lines(room));
                let hint = Span::styled(self.hint(), room.theme.secondary());
                tail.extend(wrap(&[hint], room.width, &Margin::default()));
            }
        }
        tail
    }

    /// The warning and the choices in at most so many rows, but at least one.
    fn short_tail(&self, most: usize, room: Room<'_>) -> Vec<Line<'static>> {
        let most = most.max(1);
        let mut tail = self.warning(room);
        tail.truncate(most - 1);
        match &self.instead {
            Some(text) => {
                let rows = self.instruction(text, room);
                let hidden = rows.len().saturating_sub(most - tail.len());
                tail.extend(rows.into_iter().skip(hidden));
            }
            None => {
                let free = most - tail.len();
                // What a choice covers is cut only where the choices would not fit otherwise.
                let whole = self.choices.lines(room);
                let choices = if whole.len() <= free { whole } else { self.choices.rows(free, room) };
                let question = self.question_rows(room);
                if question.len() + choices.len() <= free {
                    tail.extend(question);
                }
                tail.extend(choices);
            }
        }
        tail
    }

    fn warning(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let Some(destroys) = &self.request.destroys else { return Vec::new() };
        let red = room.theme.error().add_modifier(Modifier::BOLD);
        let sign = Margin::hanging(Span::styled("⚠ ", red));
        wrap(&[Span::styled(one_line(destroys), red)], room.width, &sign)
    }

    fn instruction(&self, text: &Field, room: Room<'_>) -> Vec<Line<'static>> {
        let asked = Span::styled("Denied. What to do instead? (empty to end the turn) ", room.theme.text());
        wrap(&[asked, text.span(room.theme.accent())], room.width, &Margin::default())
    }

    fn hint(&self) -> String {
        let why = if self.why_shown { "? hides the reason" } else { "? shows the reason" };
        match self.request.subject {
            Subject::Server { .. } => {
                let spread = if self.spread { "in short" } else { "line by line" };
                format!("{why} · Ctrl+O arguments {spread}")
            }
            _ => why.to_owned(),
        }
    }

    fn short_heading(&self, room: Room<'_>) -> Line<'static> {
        let name = one_line(&self.request.display_name);
        let text = format!("? {name}  {}", one_line(&self.about()));
        Line::from(Span::styled(cut(&text, room.width), room.theme.text().add_modifier(Modifier::BOLD)))
    }

    fn about(&self) -> String {
        match &self.request.subject {
            Subject::Edit { path, .. } => edited(&self.request, &self.paths, path),
            // The folder of plans is the program's own.
            Subject::Plan { path, .. } => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Subject::Command { command, .. } => command.clone(),
            Subject::Server { server, tool } => format!("{tool} ({server} MCP Server)"),
            Subject::Sandbox(question) => question.right.to_string(),
            _ => String::new(),
        }
    }

    fn heading(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let bold = room.theme.text().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(one_line(&self.request.display_name), bold)];
        let about = self.about();
        if !about.is_empty() {
            spans.push(Span::styled(
                format!("  {}", shortened(&one_line(&about), HEADING)),
                room.theme.secondary(),
            ));
        }
        let (which, all) = self.position;
        if all > 1 {
            spans.push(Span::styled(format!("  {which} of {all}"), room.theme.secondary()));
        }
        let mut lines = wrap(&spans, room.width, &Margin::hanging(Span::styled("? ", room.theme.warning())));
        if !matches!(self.request.subject, Subject::Edit { .. } | Subject::Command { .. }) {
            lines.insert(0, Line::from(Span::styled("Action Required", room.theme.warning())));
        }
        lines
    }

    fn question_rows(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let question = Span::styled(self.question(), room.theme.text().add_modifier(Modifier::BOLD));
        wrap(&[question], room.width, &Margin::default())
    }

    fn question(&self) -> String {
        match &self.request.subject {
            Subject::Edit { .. } => "Apply this change?".to_owned(),
            Subject::Command { .. } => {
                format!("Allow execution of [{}]?", one_line(&self.request.display_name))
            }
            Subject::Server { server, tool } => {
                format!(
                    "Allow execution of MCP tool \"{}\" from server \"{}\"?",
                    one_line(tool),
                    one_line(server)
                )
            }
            Subject::EnterPlan { .. } => "Enter plan mode?".to_owned(),
            Subject::Plan { .. } => "Execute this plan?".to_owned(),
            Subject::Sandbox(question) if question.rerun => "Allow it and run the command again?".to_owned(),
            Subject::Sandbox(_) => "Allow it? The command waits.".to_owned(),
            Subject::Fetch(_) | Subject::Other(_) | Subject::Questions(_) => {
                "Do you want to proceed?".to_owned()
            }
        }
    }

    fn why(&self, room: Room<'_>) -> Vec<Line<'static>> {
        let why = &self.request.why;
        let mut texts = vec![format!("Why: {}", why.reason)];
        texts.extend(why.rule.as_ref().map(|rule| format!("Rule: {rule}")));
        texts.extend(
            why.parts.iter().map(|part| format!("{:5} {}: {}", part.decision, part.text, part.reason)),
        );
        let line = |text: String| {
            let span = Span::styled(visible(&text).into_owned(), room.theme.secondary());
            wrap(&[span], room.width, &Margin::default())
        };
        texts.into_iter().flat_map(line).collect()
    }
}

fn is_ctrl_c(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// A short summary of an edit: the file, and the replaced text if it is short.
fn edited(request: &ApprovalRequest, paths: &PathDisplay, path: &std::path::Path) -> String {
    let asked = request.args.get("file_path").and_then(Value::as_str);
    let name = paths.linked(asked, path);
    let word = |key: &str| request.args.get(key).and_then(Value::as_str).filter(|text| text.len() <= FEW);
    match (word("old_string"), word("new_string")) {
        (Some(old), Some(new)) if !old.is_empty() => format!("{name}: {old} => {new}"),
        _ => name,
    }
}

/// Whether a command sends its output or takes its input elsewhere, outside of quotes.
fn redirects(command: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for character in command.chars() {
        match (quote, character) {
            _ if std::mem::take(&mut escaped) => {}
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (None, '>' | '<') => return true,
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    false
}

/// The complete body of a request, with hidden characters made visible.
fn body(request: &ApprovalRequest, paths: &PathDisplay, spread: bool, room: Room<'_>) -> Vec<Line<'static>> {
    let plain = |text: &str| -> Vec<Line<'static>> {
        let text = visible(text).into_owned();
        let lines = text.lines().map(|line| vec![Span::styled(line.to_owned(), room.theme.text())]);
        lines.flat_map(|line| chop(&line, room.width, &Margin::default())).collect()
    };
    let arguments = || serde_json::to_string_pretty(&Value::Object(request.args.clone())).unwrap_or_default();
    match &request.subject {
        Subject::Edit { diff: Some(change), .. } => diff::render(change, room.width, room.theme),
        Subject::Edit { diff: None, .. } => plain("(diff unavailable)"),
        Subject::Command { command, directory } => {
            let written = code::highlight("bash", &visible(command), room.theme);
            let mut lines: Vec<Line<'static>> =
                written.iter().flat_map(|line| chop(line, room.width, &Margin::default())).collect();
            let redirected = if redirects(command) { " · Redirection detected." } else { "" };
            let place = format!("in {}{redirected}", one_line(&paths.folder(directory)));
            lines.extend(wrap(
                &[Span::styled(place, room.theme.secondary())],
                room.width,
                &Margin::default(),
            ));
            lines
        }
        Subject::Fetch(urls) => plain(&format!("URLs to fetch:\n{}", urls.join("\n"))),
        Subject::Server { server, tool } => {
            let written = match spread {
                true => arguments(),
                false => Value::Object(request.args.clone()).to_string(),
            };
            plain(&format!("MCP Server: {server}\nTool: {tool}\nArguments: {written}"))
        }
        Subject::EnterPlan { reason } => plain(reason),
        Subject::Plan { text, .. } => {
            let look = markdown::Look { theme: room.theme, width: room.width, line_numbers: false };
            markdown::render(&visible(text), look)
        }
        Subject::Questions(_) => Vec::new(),
        Subject::Sandbox(question) => {
            let run = question.command.as_ref().map(|command| format!("\n\n{command}")).unwrap_or_default();
            plain(&format!("{}.{run}", question.sentence()))
        }
        Subject::Other(text) => plain(&format!("{text}\n{}", arguments())),
    }
}

/// The label of an offer, with the exact extent of a lasting approval.
fn label(offer: &Offer, subject: &Subject) -> String {
    let plain = match (offer.outcome, subject) {
        (Outcome::Once, Subject::Plan { .. }) => "Yes, and ask before each change",
        (Outcome::Session, Subject::Plan { .. }) => "Yes, and accept edits without asking",
        (Outcome::Once, Subject::EnterPlan { .. }) => "Yes",
        (Outcome::Once, _) => "Allow once",
        (Outcome::Session, Subject::Server { .. }) => "Allow tool for this session",
        (Outcome::Session, _) => "Allow for this session",
        (Outcome::SessionServer, Subject::Sandbox(_)) => "Allow package downloads for this session",
        (Outcome::SessionServer, _) => "Allow all server tools for this session",
        (Outcome::Project, _) => "Allow for this project",
        (Outcome::Saved, Subject::Edit { .. }) => "Allow for this file in all future sessions",
        (Outcome::Saved, Subject::Command { .. }) => "Allow this command for all future sessions",
        (Outcome::Saved, Subject::Server { .. }) => "Allow tool for all future sessions",
        (Outcome::Saved, _) => "Allow for all future sessions",
        (Outcome::Edit, _) => "Modify with external editor",
        (Outcome::Refuse, Subject::Sandbox(_)) => "No (esc)",
        (Outcome::Refuse, _) => "No, suggest changes (esc)",
    };
    let covers = visible(&offer.covers);
    if covers.is_empty() { plain.to_owned() } else { format!("{plain}: {covers}") }
}
