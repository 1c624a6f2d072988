//! Approval questions in plain lines.

use pollux_domain::approval::{
    ApprovalAnswer, ApprovalRequest, Offer, Outcome, Question, QuestionForm, Subject,
};
use pollux_domain::path_display::PathDisplay;
use pollux_domain::terminal_text::visible;
use serde_json::Value;

use super::Lines;

/// Characters of a diff, a plan or a command that are shown.
const SHOWN: usize = 20_000;

impl Lines {
    /// Shows the request and reads the answer. End of input cancels.
    pub(super) async fn ask_request(&mut self, request: &ApprovalRequest) -> ApprovalAnswer {
        // Text typed before the question is meant for the model.
        let before = self.keyboard.typed_before();
        self.ahead.extend(before);
        if let Subject::Questions(questions) = &request.subject {
            return self.ask_questions(questions).await;
        }
        self.show(&format!("\n{}\n", described(request, &self.printer.paths)));
        if let Some(destroys) = &request.destroys {
            self.show(&format!("Warning: {}\n", visible(destroys)));
        }
        let mut offers: Vec<&Offer> =
            request.offers.iter().filter(|offer| is_possible(offer, request)).collect();
        offers.sort_by_key(|offer| offer.outcome.digit());
        for offer in &offers {
            self.show(&format!("  {}. {}\n", offer.outcome.digit(), label(offer)));
        }
        loop {
            self.show("Answer (number, or ? for the reason): ");
            let Some(line) = self.keyboard.line().await else { return ApprovalAnswer::Cancel };
            let word = line.trim();
            if word == "?" {
                self.show(&reasons(request));
                continue;
            }
            let number = word.parse::<usize>().ok();
            let chosen = offers.iter().find(|offer| Some(offer.outcome.digit()) == number);
            let outcome = match (chosen, word.to_lowercase().as_str()) {
                (Some(offer), _) => offer.outcome,
                (None, "y" | "yes") => Outcome::Once,
                (None, "n" | "no") => Outcome::Refuse,
                // Several words mean no, with an instruction.
                (None, words) if words.contains(char::is_whitespace) => {
                    return ApprovalAnswer::Refuse(word.to_owned());
                }
                (None, _) => {
                    self.show("Answer with a number, yes, no, or a few words on what to do instead.\n");
                    continue;
                }
            };
            return self.completed(outcome, request).await;
        }
    }

    /// The answer for an outcome, after asking for further text where it needs some.
    async fn completed(&mut self, outcome: Outcome, request: &ApprovalRequest) -> ApprovalAnswer {
        match outcome {
            Outcome::Once => ApprovalAnswer::Once,
            Outcome::Session => ApprovalAnswer::Session,
            Outcome::SessionServer => ApprovalAnswer::SessionServer,
            Outcome::Project => ApprovalAnswer::Project,
            Outcome::Saved => ApprovalAnswer::Saved,
            Outcome::Edit => {
                self.show("New command: ");
                match self.keyboard.line().await {
                    Some(line) if !line.trim().is_empty() => {
                        let mut args = request.args.clone();
                        args.insert("command".to_owned(), Value::from(line));
                        ApprovalAnswer::Edited(args)
                    }
                    _ => ApprovalAnswer::Cancel,
                }
            }
            Outcome::Refuse if matches!(request.subject, Subject::Sandbox(_)) => {
                ApprovalAnswer::Refuse(String::new())
            }
            Outcome::Refuse => {
                self.show("What to do instead (empty to cancel): ");
                match self.keyboard.line().await {
                    Some(line) if !line.trim().is_empty() => ApprovalAnswer::Refuse(line.trim().to_owned()),
                    _ => ApprovalAnswer::Cancel,
                }
            }
        }
    }

    async fn ask_questions(&mut self, questions: &[Question]) -> ApprovalAnswer {
        let mut replies = Vec::with_capacity(questions.len());
        for question in questions {
            let before = self.keyboard.typed_before();
            self.ahead.extend(before);
            match self.ask_question(question).await {
                Some(reply) => replies.push(reply),
                None => return ApprovalAnswer::Cancel,
            }
        }
        ApprovalAnswer::Replies(replies)
    }

    async fn ask_question(&mut self, question: &Question) -> Option<String> {
        self.show(&format!("\n{}: {}\n", visible(&question.header), visible(&question.text)));
        let (options, several) = match &question.form {
            QuestionForm::Choice { options, several } => (options.as_slice(), *several),
            QuestionForm::Text { .. } | QuestionForm::YesNo => (&[][..], false),
        };
        for (number, option) in options.iter().enumerate() {
            let (label, description) = (visible(&option.label), visible(&option.description));
            self.show(&format!("  {}. {label}: {description}\n", number + 1));
        }
        self.show(match &question.form {
            QuestionForm::Text { .. } => "Answer: ",
            QuestionForm::YesNo => "Answer (yes or no): ",
            QuestionForm::Choice { .. } if several => "Answer (comma-separated numbers, or your own text): ",
            QuestionForm::Choice { .. } => "Answer (number, or your own text): ",
        });
        let line = self.keyboard.line().await?;
        let named = |word: &str| {
            let number = word.trim().parse::<usize>().ok()?;
            options.get(number.checked_sub(1)?).map(|option| option.label.clone())
        };
        let chosen: Option<Vec<String>> = match several {
            true => line.split(',').map(named).collect(),
            false => named(&line).map(|label| vec![label]),
        };
        Some(chosen.map_or_else(|| line.trim().to_owned(), |labels| labels.join(", ")))
    }
}

/// Whether plain lines can do it: they can edit a command, but not a file.
fn is_possible(offer: &Offer, request: &ApprovalRequest) -> bool {
    offer.outcome != Outcome::Edit || matches!(request.subject, Subject::Command { .. })
}

fn described(request: &ApprovalRequest, paths: &PathDisplay) -> String {
    let text = match &request.subject {
        Subject::Edit { path, diff } => {
            let change = diff.as_ref().map_or("(diff unavailable)", |diff| &diff.unified);
            let asked = request.args.get("file_path").and_then(Value::as_str);
            let path = paths.linked(asked, path);
            format!("{} wants to edit {path}\n{}", request.display_name, change.trim_end())
        }
        Subject::Command { command, directory } => {
            format!("{} wants to run, in {}:\n  {command}", request.display_name, paths.folder(directory))
        }
        Subject::Fetch(urls) => format!("{} wants to fetch:\n  {}", request.display_name, urls.join("\n  ")),
        Subject::Server { server, tool } => {
            let args = Value::Object(request.args.clone());
            format!("The server {server} wants to run {tool} with {args}")
        }
        Subject::EnterPlan { reason } => format!("The model wants to enter plan mode. {reason}"),
        Subject::Plan { path, text } => format!("Plan ({}):\n\n{text}", paths.shown(path)),
        Subject::Questions(_) => String::new(),
        Subject::Sandbox(question) => {
            let run = question.command.as_ref().map(|command| format!("\n  {command}")).unwrap_or_default();
            format!("Sandbox: {}.{run}", question.sentence())
        }
        Subject::Other(text) => {
            let args = Value::Object(request.args.clone());
            format!("{} wants to run: {text}\n  {args}", request.display_name)
        }
    };
    let whole = text.chars().count() <= SHOWN;
    let mut shown: String = visible(&text).chars().take(SHOWN).collect();
    if !whole {
        shown.push_str("\n... (truncated)");
    }
    shown
}

fn label(offer: &Offer) -> String {
    let covers = visible(&offer.covers);
    let plain = match offer.outcome {
        Outcome::Once => "Yes, this once",
        Outcome::Session | Outcome::SessionServer => "Yes, and for the rest of this session",
        Outcome::Project => "Yes, and for this project",
        Outcome::Saved => "Yes, and for all future sessions",
        Outcome::Edit => "Edit the command",
        Outcome::Refuse => "No",
    };
    if covers.is_empty() { plain.to_owned() } else { format!("{plain}: {covers}") }
}

fn reasons(request: &ApprovalRequest) -> String {
    let mut text = format!("{}\n", request.why.reason);
    if let Some(rule) = &request.why.rule {
        text.push_str(&format!("Rule: {rule}\n"));
    }
    for part in &request.why.parts {
        text.push_str(&format!("  {:5} `{}`: {}\n", part.decision, part.text, part.reason));
    }
    visible(&text).into_owned()
}
