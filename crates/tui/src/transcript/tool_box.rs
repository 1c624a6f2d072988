//! A call of a tool.

use pollux_domain::JsonObject;
use pollux_domain::approval::ApprovalRequest;
use pollux_domain::event::{CallReport, CallStatus};
use pollux_domain::id::CallId;
use pollux_domain::terminal_text::{Stripper, one_line, plain};
use pollux_domain::tool::{Display, LineDelta};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::item::Look;
use crate::diff;
use crate::wrap::{Margin, chop, wrap};

/// Output that is kept of a running call, in bytes; only its end is shown.
const KEPT: usize = 64 * 1024;

/// How a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Asked,
    Over(CallStatus),
}

/// A call from the model's wish to its result.
#[derive(Debug)]
pub(super) struct ToolBox {
    id: CallId,
    name: String,
    /// What it is about, in one line.
    about: String,
    state: State,
    output: String,
    stripper: Stripper,
    display: Display,
    lines: LineDelta,
    error: Option<String>,
}

impl ToolBox {
    pub(super) fn new(id: CallId, name: &str, args: &JsonObject) -> Self {
        Self {
            id,
            name: title(name),
            about: about(args),
            state: State::Runs,
            output: String::new(),
            stripper: Stripper::default(),
            display: Display::Nothing,
            lines: LineDelta::default(),
            error: None,
        }
    }

    pub(super) fn id(&self) -> &CallId {
        &self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    pub(super) fn asked(&mut self, request: &ApprovalRequest) {
        self.state = State::Asked;
        self.name = one_line(&request.display_name);
    }

    pub(super) fn runs(&mut self) {
        self.state = State::Runs;
    }

    pub(super) fn output(&mut self, text: &str) {
        self.output.push_str(&self.stripper.push(text));
        if self.output.len() > 2 * KEPT {
            let from = self.output.len() - KEPT;
            let from = (from..).find(|at| self.output.is_char_boundary(*at)).unwrap_or(from);
            self.output.drain(..from);
        }
    }

    pub(super) fn finish(&mut self, report: &CallReport) {
        self.state = State::Over(report.status);
        self.display = report.display.clone();
        self.lines = report.lines;
        self.error = report.error.as_ref().map(|(_, message)| message.clone());
    }

    /// A command of the person's is over; a word about how, unless it went well.
    pub(super) fn end(&mut self, said: Option<&str>) {
        self.state = State::Over(if said.is_some() { CallStatus::Error } else { CallStatus::Success });
        self.error = said.map(str::to_owned);
        self.display = Display::Text(std::mem::take(&mut self.output));
    }

    /// The turn is over; nothing more will come.
    pub(super) fn give_up(&mut self) {
        if !self.is_over() {
            self.state = State::Over(CallStatus::Cancelled);
        }
    }

    pub(super) fn lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let mut lines = vec![Line::default()];
        lines.extend(self.heading(look));
        lines.extend(self.body(look));
        lines
    }

    fn heading(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        let (sign, style) = match self.state {
            State::Runs => ("⊷", theme.accent()),
            State::Asked => ("?", theme.warning()),
            State::Over(CallStatus::Success) => ("✓", theme.success()),
            State::Over(CallStatus::Error) => ("x", theme.error()),
            State::Over(CallStatus::Cancelled) => ("-", theme.secondary()),
        };
        let bold = theme.text().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(self.name.clone(), bold)];
        if !self.about.is_empty() {
            spans.push(Span::styled(format!("  {}", self.about), theme.secondary()));
        }
        if self.lines != LineDelta::default() {
            let counted = format!("  (+{}, -{})", self.lines.added, self.lines.removed);
            spans.push(Span::styled(counted, theme.secondary()));
        }
        wrap(&spans, look.width, &Margin::hanging(Span::styled(format!("{sign}  "), style)))
    }

    fn body(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let room = look.width.saturating_sub(2).max(1);
        let lines = match (&self.display, &self.error) {
            (_, Some(error)) => text_lines(error, room, look.theme.error()),
            (Display::Diff(change), None) => diff::render(change, room, look.theme),
            (Display::Text(text), None) => text_lines(text, room, look.theme.text()),
            (Display::List { summary, items }, None) => {
                let text = [std::slice::from_ref(summary), items.as_slice()].concat().join("\n");
                text_lines(&text, room, look.theme.text())
            }
            (Display::Agent(end), None) => text_lines(&end.result, room, look.theme.text()),
            (Display::Nothing, None) => text_lines(&self.output, room, look.theme.text()),
        };
        let whole = lines.len();
        let cut = whole.saturating_sub(look.box_lines);
        // Of a change its beginning counts, of output its end.
        let is_change = matches!(self.display, Display::Diff(_));
        let shown: Vec<Line<'static>> = match is_change {
            true => lines.into_iter().take(look.box_lines).collect(),
            false => lines.into_iter().skip(cut).collect(),
        };
        let note = (cut > 0).then(|| {
            let place = if is_change { "more" } else { "earlier" };
            let text = format!("… {cut} {place} lines (Ctrl+O shows them)");
            Line::from(Span::styled(text, look.theme.secondary()))
        });
        let (before, after) = if is_change { (None, note) } else { (note, None) };
        before.into_iter().chain(shown).chain(after).map(|line| behind_bar(line, look)).collect()
    }
}

fn behind_bar(line: Line<'static>, look: Look<'_>) -> Line<'static> {
    let bar = Span::styled("│ ", look.theme.border());
    Line::from([vec![bar], line.spans].concat())
}

fn text_lines(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let text = plain(text.trim_end());
    let lines = text.lines().map(|line| vec![Span::styled(line.to_owned(), style)]);
    lines.flat_map(|line| chop(&line, width, &Margin::default())).collect()
}

/// `run_shell_command` → `Run shell command`, for tools that nobody has named better yet.
fn title(name: &str) -> String {
    let known = TITLES.iter().find(|(tool, _)| *tool == name).map(|(_, title)| *title);
    known.map_or_else(|| one_line(name), str::to_owned)
}

const TITLES: &[(&str, &str)] = &[
    ("run_shell_command", "Shell"),
    ("read_file", "ReadFile"),
    ("read_many_files", "ReadManyFiles"),
    ("write_file", "WriteFile"),
    ("replace", "Edit"),
    ("list_directory", "ReadFolder"),
    ("glob", "FindFiles"),
    ("grep_search", "SearchText"),
    ("google_web_search", "GoogleSearch"),
    ("web_fetch", "WebFetch"),
    ("save_memory", "SaveMemory"),
    ("write_todos", "WriteTodos"),
    ("ask_user", "AskUser"),
    ("invoke_agent", "Agent"),
    ("activate_skill", "Skill"),
];

/// The argument that says most.
fn about(args: &JsonObject) -> String {
    const TELLING: &[&str] = &[
        "command",
        "file_path",
        "path",
        "absolute_path",
        "pattern",
        "query",
        "url",
        "prompt",
        "dir_path",
        "name",
        "agent_name",
        "fact",
    ];
    let found = TELLING.iter().find_map(|key| args.get(*key).and_then(|value| value.as_str()));
    let text = one_line(found.unwrap_or_default());
    match text.width() > 200 {
        true => text.chars().take(199).chain(['…']).collect(),
        false => text,
    }
}
