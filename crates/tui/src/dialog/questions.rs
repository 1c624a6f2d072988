//! The model's own questions.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pollux_domain::approval::{ApprovalAnswer, Question, QuestionForm};
use pollux_domain::id::CallId;
use pollux_domain::terminal_text::{one_line, visible};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::choices::Choices;
use super::field::Field;
use super::{Room, Verdict};
use crate::keys::KeyMap;
use crate::wrap::{Margin, wrap};

/// Questions, asked one after another.
#[derive(Debug)]
pub struct Questions {
    call: CallId,
    questions: Vec<Question>,
    replies: Vec<String>,
    choices: Choices,
    /// Which of the choices are taken, where several may be.
    taken: Vec<bool>,
    /// Words of the person's own.
    words: Option<Field>,
}

const OWN_WORDS: &str = "Enter a custom value";
const DONE: &str = "Done";

impl Questions {
    pub(super) fn new(call: CallId, questions: Vec<Question>) -> Self {
        let mut new = Self {
            call,
            questions,
            replies: Vec::new(),
            choices: Choices::new(Vec::new()),
            taken: Vec::new(),
            words: None,
        };
        new.begin();
        new
    }

    pub(super) fn call(&self) -> &CallId {
        &self.call
    }

    /// Whether an answer is being typed.
    pub(super) fn is_written(&self) -> bool {
        self.words.is_some()
    }

    fn question(&self) -> Option<&Question> {
        self.questions.get(self.replies.len())
    }

    fn begin(&mut self) {
        let Some(question) = self.question() else { return };
        let form = question.form.clone();
        self.words = matches!(form, QuestionForm::Text { .. }).then(|| Field::new(false));
        self.taken = match &form {
            QuestionForm::Choice { options, several: true } => vec![false; options.len()],
            _ => Vec::new(),
        };
        let choices = Choices::new(labels(&form, &self.taken));
        self.choices = if form == QuestionForm::YesNo { choices.with_no(1) } else { choices };
    }

    /// Resets the mark, because the keys were meant for the prompt.
    pub(super) fn restart(&mut self) {
        self.choices.restart();
    }

    pub(super) fn key(&mut self, key: KeyEvent, keys: &KeyMap) -> Verdict {
        let ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if ctrl_c {
            return self.answered(ApprovalAnswer::Cancel);
        }
        let (asks_yes_or_no, has_choices) = (self.asks_yes_or_no(), self.has_choices());
        match &mut self.words {
            Some(words) => match key.code {
                KeyCode::Enter => {
                    let reply = words.text().trim().to_owned();
                    return self.reply(reply);
                }
                KeyCode::Esc if has_choices => self.words = None,
                KeyCode::Esc => return self.answered(ApprovalAnswer::Cancel),
                _ => words.key(key, keys),
            },
            None if key.code == KeyCode::Esc => return self.answered(ApprovalAnswer::Cancel),
            // They mark; Enter says it.
            None if asks_yes_or_no && matches!(key.code, KeyCode::Char('y' | 'n')) => {
                self.choices.mark(usize::from(key.code == KeyCode::Char('n')));
            }
            None => {
                if let Some(index) = self.choices.key(key) {
                    return self.choose(index);
                }
            }
        }
        Verdict::Open
    }

    pub(super) fn asks_yes_or_no(&self) -> bool {
        self.question().is_some_and(|question| question.form == QuestionForm::YesNo)
    }

    fn has_choices(&self) -> bool {
        self.question().is_some_and(|question| !matches!(question.form, QuestionForm::Text { .. }))
    }

    fn choose(&mut self, index: usize) -> Verdict {
        let Some(form) = self.question().map(|question| question.form.clone()) else { return Verdict::Open };
        match form {
            QuestionForm::Text { .. } => Verdict::Open,
            QuestionForm::YesNo => self.reply(if index == 0 { "yes" } else { "no" }.to_owned()),
            QuestionForm::Choice { options, several } => match (options.get(index), several) {
                (Some(option), false) => self.reply(option.label.clone()),
                (Some(_), true) => {
                    if let Some(taken) = self.taken.get_mut(index) {
                        *taken = !*taken;
                    }
                    let marked = self.choices.marked();
                    let form = QuestionForm::Choice { options, several };
                    self.choices = Choices::new(labels(&form, &self.taken));
                    self.choices.mark(marked);
                    Verdict::Open
                }
                (None, true) if index == options.len() => {
                    let taken = options.iter().zip(&self.taken).filter(|(_, taken)| **taken);
                    let reply: Vec<String> = taken.map(|(option, _)| option.label.clone()).collect();
                    self.reply(reply.join(", "))
                }
                (None, _) => {
                    self.words = Some(Field::new(false));
                    Verdict::Open
                }
            },
        }
    }

    fn reply(&mut self, reply: String) -> Verdict {
        self.replies.push(reply);
        if self.question().is_some() {
            self.begin();
            return Verdict::Open;
        }
        self.answered(ApprovalAnswer::Replies(self.replies.clone()))
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(words) = &mut self.words {
            words.paste(text);
        }
    }

    fn answered(&self, answer: ApprovalAnswer) -> Verdict {
        Verdict::Answered { call: self.call.clone(), answer }
    }

    pub(super) fn lines(&mut self, room: Room<'_>) -> Vec<Line<'static>> {
        let Some(question) = self.question() else { return Vec::new() };
        let bold = room.theme.text().add_modifier(Modifier::BOLD);
        let position = match self.questions.len() {
            0 | 1 => String::new(),
            all => format!("  {} of {all}", self.replies.len() + 1),
        };
        let header = Span::styled(one_line(&question.header), room.theme.warning());
        let mut lines = vec![Line::from(vec![header, Span::styled(position, room.theme.secondary())])];
        let text = visible(&question.text).into_owned();
        lines.extend(
            text.lines().flat_map(|line| {
                wrap(&[Span::styled(line.to_owned(), bold)], room.width, &Margin::default())
            }),
        );
        match (&self.words, &question.form) {
            (Some(words), form) => {
                let hint = match form {
                    QuestionForm::Text { placeholder } if words.is_empty() => one_line(placeholder),
                    _ => String::new(),
                };
                let spans = [
                    Span::styled("> ", room.theme.accent()),
                    words.span(room.theme.text()),
                    Span::styled(hint, room.theme.secondary()),
                ];
                lines.extend(wrap(&spans, room.width, &Margin::default()));
            }
            (None, _) => lines.extend(self.choices.lines(room)),
        }
        lines
    }
}

fn labels(form: &QuestionForm, taken: &[bool]) -> Vec<String> {
    match form {
        QuestionForm::Text { .. } => Vec::new(),
        QuestionForm::YesNo => vec!["Yes".to_owned(), "No".to_owned()],
        QuestionForm::Choice { options, several } => {
            let named = options.iter().enumerate().map(|(index, option)| {
                let mark = match taken.get(index) {
                    Some(true) => "[x] ",
                    Some(false) => "[ ] ",
                    None => "",
                };
                let label = one_line(&option.label);
                match option.description.is_empty() {
                    true => format!("{mark}{label}"),
                    false => format!("{mark}{label}: {}", one_line(&option.description)),
                }
            });
            let mut labels: Vec<String> = named.collect();
            labels.extend(several.then(|| DONE.to_owned()));
            labels.push(OWN_WORDS.to_owned());
            labels
        }
    }
}
