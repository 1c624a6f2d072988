//! A tool call in the transcript.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalRequest, Subject};
use pollux_domain::call_summary::call_summary;
use pollux_domain::event::{Activity, CallReport, CallStatus};
use pollux_domain::id::CallId;
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_screen::TerminalScreen;
use pollux_domain::terminal_text::{Stripper, one_line, plain};
use pollux_domain::tool::{Display, FileDiff, LineDelta};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::activity::Activities;
use super::command_screen::CommandScreen;
use super::look::Look;
use super::report;
use crate::diff;
use crate::wrap::{Margin, chop, clip, short, wrap};

/// Output that is kept of a running call, in bytes; only its end is shown.
const KEPT: usize = 64 * 1024;
/// The narrowest box.
const NARROWEST: u16 = 12;
/// Before every row below a heading.
const EDGE: &str = "  │ ";
/// Calls that take longer show their duration.
const WORTH_SAYING: Duration = Duration::from_secs(3);

/// How a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For the calls before it, or for the decision whether it may run.
    Waits,
    Runs,
    Asked,
    Over(CallStatus),
}

/// A call from the model's wish to its result.
#[derive(Debug)]
pub(crate) struct ToolBox {
    id: CallId,
    name: String,
    /// Its one-line summary.
    about: String,
    state: State,
    /// It has begun to run; a question can still interrupt it.
    started: bool,
    output: String,
    stripper: Stripper,
    /// The screen of a command in a terminal; after its end, only if it shows the end of the result.
    screen: Option<CommandScreen>,
    display: Display,
    /// The change that the person was asked about, to be read after a refusal.
    proposed: Option<Box<FileDiff>>,
    lines: LineDelta,
    error: Option<String>,
    /// How a command of the person's ended, unless it went well.
    ending: Option<String>,
    /// How the command failed, such as `exit 2`.
    failed: Option<String>,
    activities: Activities,
    since: Instant,
    whole: bool,
}

impl ToolBox {
    pub(super) fn new(id: CallId, name: &str, args: &JsonObject, paths: &PathDisplay, now: Instant) -> Self {
        Self {
            id,
            name: match (name, args.get("agent_name").and_then(|agent| agent.as_str())) {
                ("invoke_agent", Some(agent)) => format!("{} {}", title(name), one_line(agent)),
                _ => title(name),
            },
            about: match name {
                // Its name is in the title already.
                "invoke_agent" => {
                    one_line(args.get("prompt").and_then(|task| task.as_str()).unwrap_or_default())
                }
                _ => call_summary(args, paths),
            },
            state: State::Waits,
            started: false,
            output: String::new(),
            stripper: Stripper::default(),
            screen: None,
            display: Display::Nothing,
            proposed: None,
            lines: LineDelta::default(),
            error: None,
            ending: None,
            failed: None,
            activities: Activities::default(),
            since: now,
            whole: false,
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

    pub(super) fn is_asked(&self) -> bool {
        self.state == State::Asked
    }

    pub(super) fn asked(&mut self, request: &ApprovalRequest) {
        self.state = State::Asked;
        if request.tool != "invoke_agent" {
            self.name = one_line(&request.display_name);
        }
        if let Subject::Edit { diff: Some(diff), .. } = &request.subject {
            self.proposed = Some(diff.clone());
        }
    }

    /// Nobody is asked any more.
    pub(super) fn settled(&mut self) {
        self.state = if self.started { State::Runs } else { State::Waits };
    }

    pub(super) fn runs(&self) -> bool {
        self.state == State::Runs
    }

    /// It runs from now on.
    pub(super) fn start(&mut self, now: Instant) {
        (self.state, self.started, self.since) = (State::Runs, true, now);
    }

    /// Nothing ran for so long, because a person was asked.
    pub(super) fn waited(&mut self, time: Duration) {
        self.since += time;
    }

    pub(super) fn output(&mut self, text: &str) {
        self.output.push_str(&self.stripper.push(text));
        if self.output.len() > 2 * KEPT {
            let from = self.output.len() - KEPT;
            let from = (from..).find(|at| self.output.is_char_boundary(*at)).unwrap_or(from);
            self.output.drain(..from);
        }
    }

    pub(super) fn screen(&self) -> Option<&TerminalScreen> {
        self.screen.as_ref().map(|command| &*command.screen)
    }

    pub(super) fn show(&mut self, screen: &Arc<TerminalScreen>, colours: bool) {
        let focused = self.screen.as_ref().is_some_and(|command| command.focused);
        self.screen = Some(CommandScreen { screen: Arc::clone(screen), colours, focused });
    }

    pub(super) fn set_focus(&mut self, focused: bool) {
        self.screen.iter_mut().for_each(|command| command.focused = focused);
    }

    /// Whether the person uses the command, or a full-screen program runs.
    pub(super) fn needs_room(&self) -> bool {
        self.screen.as_ref().is_some_and(|command| command.focused || command.screen.alternate)
    }

    /// All that a command in a terminal printed.
    pub(super) fn printed(&mut self, text: &str) {
        if self.screen.is_some() {
            self.output.clear();
            self.output(text);
        }
    }

    /// Keeps the screen of a command that ended if it shows the end of the result in colours.
    fn keep_screen(&mut self, text: &str) {
        self.set_focus(false);
        let _ = self.screen.take_if(|command| !command.is_end_of(text));
    }

    pub(super) fn finish(&mut self, report: &CallReport) {
        self.state = State::Over(report.outcome.status());
        if let Some(screen) = self.screen() {
            self.output = screen.text();
        }
        self.display = report.display.listed().into_owned();
        if let (CallStatus::Cancelled, Display::Text(said)) = (report.outcome.status(), &self.display)
            && !self.output.trim().is_empty()
        {
            // What a cancelled command printed may be the reason why it was cancelled.
            self.display = Display::Text(format!("{}\n{said}", self.output.trim_end()));
        }
        match report.display.listed().as_ref() {
            Display::Text(text) => self.keep_screen(text),
            _ => self.screen = None,
        }
        self.lines = report.lines;
        let failure = report.outcome.failure().filter(|failure| failure.run.is_none());
        self.error = failure.map(|failure| failure.message.clone());
        self.failed = report.outcome.run_failure().map(|run| one_line(&run.label()));
    }

    /// A command of the person's is over; a word about how, unless it went well.
    pub(super) fn end(&mut self, said: Option<&str>) {
        self.state = State::Over(if said.is_some() { CallStatus::Error } else { CallStatus::Success });
        let mut text = std::mem::take(&mut self.output);
        self.keep_screen(&text);
        self.ending = said.map(str::to_owned);
        if let Some(said) = said {
            // The output often contains the reason.
            text.push_str(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
            text.push_str(said);
        }
        self.display = Display::Text(text);
    }

    /// The turn is over; nothing more will come.
    pub(super) fn give_up(&mut self) {
        if !self.is_over() {
            self.state = State::Over(CallStatus::Cancelled);
        }
    }

    /// From now on it is shown whole.
    pub(super) fn show_whole(&mut self) {
        self.whole = true;
    }

    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether more of it can be shown.
    pub(super) fn hides_something(&self, look: Look<'_>) -> bool {
        // A list without entries has nothing but its summary, which the heading repeats.
        let is_summary = matches!(&self.display, Display::List { items, .. } if items.is_empty());
        let whole = Look { box_lines: usize::MAX, compact: false, ..look };
        !self.whole && !is_summary && self.lines(whole).len() > self.lines(look).len()
    }

    pub(super) fn activity(&mut self, activity: &Activity) {
        self.activities.take(activity);
    }

    pub(super) fn lines(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let look = if self.whole { Look { box_lines: usize::MAX, compact: false, ..look } } else { look };
        let mut lines = vec![Line::default()];
        let is_small = look.compact
            && self.error.is_none()
            && matches!(self.display, Display::Diff(_) | Display::List { .. })
            && self.is_over();
        if is_small {
            lines.extend(self.heading(look.width, look));
            lines.extend(self.small_body(look));
            return lines;
        }
        lines.extend(self.heading(look.width, look));
        lines.extend(edged(self.body(narrowed(look)), look));
        lines
    }

    fn heading(&self, width: u16, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        let (sign, style) = match self.state {
            State::Waits => ("o", theme.secondary()),
            State::Runs => ("⊷", theme.accent()),
            State::Asked => ("?", theme.warning()),
            State::Over(CallStatus::Success) => ("✓", theme.success()),
            State::Over(CallStatus::Error) => ("✕", theme.error()),
            State::Over(CallStatus::Cancelled) => ("-", theme.secondary()),
        };
        let bold = theme.text().add_modifier(Modifier::BOLD);
        let mut spans = vec![Span::styled(self.name.clone(), bold)];
        if !self.about.is_empty() {
            spans.push(Span::styled(format!("  {}", self.about), theme.secondary()));
        }
        spans.extend(self.outcome(look).map(|text| Span::styled(text, theme.secondary())));
        spans.extend(self.failed.as_ref().map(|label| Span::styled(format!("  {label}"), theme.error())));
        wrap(&spans, width, &Margin::hanging(Span::styled(format!("{sign}  "), style)))
    }

    /// The end of the heading.
    fn outcome(&self, look: Look<'_>) -> Option<String> {
        let elapsed = look.now.saturating_duration_since(self.since);
        match (self.state, &self.display) {
            (State::Waits, _) => Some("  (waiting)".to_owned()),
            (State::Runs, _) if elapsed >= WORTH_SAYING => Some(format!("  ({})", short(elapsed))),
            (State::Over(CallStatus::Success), Display::Diff(_)) => {
                Some(format!(" → Accepted (+{}, -{})", self.lines.added, self.lines.removed))
            }
            (State::Over(CallStatus::Success), Display::List { summary, .. }) if look.compact => {
                Some(format!(" → {}", one_line(summary))).filter(|text| text.len() > " → ".len())
            }
            (State::Over(_), _) if self.lines != LineDelta::default() => {
                Some(format!("  (+{}, -{})", self.lines.added, self.lines.removed))
            }
            _ => None,
        }
    }

    /// The lines under a heading without a box.
    fn small_body(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let Display::Diff(change) = &self.display else { return Vec::new() };
        let narrow = narrowed(look);
        let (lines, more) = diff::beginning(change, narrow.width, look.theme, look.box_lines);
        let more = (more > 0).then(|| note(more, "more", look));
        edged(lines.into_iter().chain(more), look)
    }

    /// The change that was refused: folded to one line, and whole when everything is shown.
    fn refused(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let is_over = matches!(self.state, State::Over(CallStatus::Cancelled | CallStatus::Error));
        let Some(change) = self.proposed.as_ref().filter(|_| is_over) else { return Vec::new() };
        if look.box_lines < usize::MAX {
            let stat = change.stat;
            let text = format!(
                "Not applied: +{}, -{} lines (Ctrl+O shows the change)",
                stat.added_lines, stat.removed_lines
            );
            return vec![Line::from(Span::styled(text, look.theme.secondary()))];
        }
        diff::render(change, look.width, look.theme)
    }

    fn body(&self, look: Look<'_>) -> Vec<Line<'static>> {
        let theme = look.theme;
        let (lines, hidden) = match (&self.display, &self.error) {
            (_, Some(error)) => ending(error, theme.error(), look),
            (Display::Diff(change), None) => {
                let (mut lines, more) = diff::beginning(change, look.width, theme, look.box_lines);
                lines.extend((more > 0).then(|| note(more, "more", look)));
                return lines;
            }
            (Display::Text(text), None) => match self.screen.as_ref().filter(|_| look.box_lines < usize::MAX)
            {
                Some(command) => self.last_screen(command, text, look),
                None => ending(text, theme.text(), look),
            },
            (Display::List { summary, items }, None) => {
                let text = [std::slice::from_ref(summary), items.as_slice()].concat().join("\n");
                ending(&text, theme.text(), look)
            }
            (Display::Todos(_), None) => return Vec::new(),
            (Display::Agent(end), None) => {
                let mut lines = report::lines(&end.result, look);
                let more = lines.len().saturating_sub(look.box_lines);
                lines.truncate(look.box_lines);
                lines.extend((more > 0).then(|| note(more, "more", look)));
                return lines;
            }
            (Display::Nothing, None) if !self.activities.is_empty() => {
                let lines: Vec<_> = self.activities.spans(theme);
                let rows = lines
                    .iter()
                    .flat_map(|line| wrap(line, look.width, &Margin::default()).into_iter().take(1));
                let rows: Vec<Line<'static>> = rows.collect();
                let cut = rows.len().saturating_sub(look.box_lines);
                return rows.into_iter().skip(cut).collect();
            }
            (Display::Nothing, None) => match &self.screen {
                Some(command) if !self.is_over() => command.lines(look.box_lines, theme.text()),
                _ => ending(&self.output, theme.text(), look),
            },
        };
        let note = (hidden > 0).then(|| note(hidden, "earlier", look));
        note.into_iter().chain(lines).chain(self.refused(look)).collect()
    }
}

impl ToolBox {
    /// The end of a result in the colours of the terminal, and the number of lines above.
    fn last_screen(
        &self,
        command: &CommandScreen,
        text: &str,
        look: Look<'_>,
    ) -> (Vec<Line<'static>>, usize) {
        let (mut lines, _) = command.lines(look.box_lines, look.theme.text());
        let said = self.ending.iter().map(|said| Line::from(Span::styled(one_line(said), look.theme.text())));
        lines.extend(said);
        let hidden = text.trim_end().lines().count().saturating_sub(lines.len());
        (lines, hidden)
    }
}

/// The same look for rows behind the edge.
fn narrowed(look: Look<'_>) -> Look<'_> {
    let width = if look.width < NARROWEST { look.width } else { look.width - 4 };
    Look { width, ..look }
}

/// Rows behind an edge. It is only on their left: a frame around them would wrap when the window shrinks.
fn edged(rows: impl IntoIterator<Item = Line<'static>>, look: Look<'_>) -> Vec<Line<'static>> {
    let room = usize::from(narrowed(look).width);
    let rows = rows.into_iter().map(|row| clip(row, room));
    if look.width < NARROWEST {
        return rows.collect();
    }
    let edge = || vec![Span::styled(EDGE, look.theme.border())];
    rows.map(|row| Line::from([edge(), row.spans].concat()).style(row.style)).collect()
}

fn note(count: usize, place: &str, look: Look<'_>) -> Line<'static> {
    let text = format!("… {count} {place} lines (Ctrl+O shows them)");
    Line::from(Span::styled(text, look.theme.secondary()))
}

/// Lines in a box no wider than they are. Nothing can reach over its border.
pub(super) fn boxed(lines: Vec<Line<'static>>, border: Style, look: Look<'_>) -> Vec<Line<'static>> {
    if look.width < NARROWEST {
        return lines;
    }
    let widest = lines.iter().map(Line::width).max().unwrap_or_default();
    let inner = widest.min(usize::from(look.width - 4));
    let rule = |left: char, right: char| {
        let text = format!("{left}{}{right}", "─".repeat(inner + 2));
        Line::from(Span::styled(text, border))
    };
    let mut drawn = vec![rule('╭', '╮')];
    for line in lines {
        let line = clip(line, inner);
        let blanks = inner.saturating_sub(line.width());
        let mut spans = vec![Span::styled("│ ", border)];
        spans.extend(line.spans);
        spans.push(Span::raw(" ".repeat(blanks)));
        spans.push(Span::styled(" │", border));
        drawn.push(Line::from(spans));
    }
    drawn.push(rule('╰', '╯'));
    drawn
}

/// The last lines of a text and the number of lines before them, without processing the latter.
fn ending(text: &str, style: Style, look: Look<'_>) -> (Vec<Line<'static>>, usize) {
    let text = text.trim_end();
    let most = look.box_lines;
    let whole = text.lines().count();
    let taken = most.min(whole);
    let mut last: Vec<&str> = text.lines().rev().take(taken).collect();
    last.reverse();
    let wide = usize::from(look.width).saturating_mul(most).saturating_mul(4);
    let rows = last.into_iter().flat_map(|line| {
        let from = line.len().saturating_sub(wide);
        let from = (from..line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or(from);
        let shown = plain(line.get(from..).unwrap_or(line)).into_owned();
        chop(&[Span::styled(shown, style)], look.width, &Margin::default())
    });
    let rows: Vec<Line<'static>> = rows.collect();
    let cut = rows.len().saturating_sub(most);
    (rows.into_iter().skip(cut).collect(), whole - taken + cut)
}

/// `run_shell_command` → `Run shell command`, for tools without a display name.
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
