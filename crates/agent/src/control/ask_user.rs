//! `ask_user`: the model's questions to the user.

use std::sync::Arc;

use pollux_domain::approval::{ApprovalAnswer, Choice, Outcome, Question, QuestionForm, Subject};
use pollux_domain::tool::{
    ArgError, Display, Effect, Invocation, Tool, ToolContext, ToolKind, ToolOutcome, ToolSpec,
};
use pollux_domain::{BoxFuture, JsonObject};
use serde_json::{Value, json};

use super::dialog::{question, spec};
use crate::pending_questions::PendingQuestions;

const DESCRIPTION: &str = "Asks the user one to four questions and waits for the answers. Use it when a decision is \
the user's to make: unclear requirements, a choice between ways that differ in effect, a preference. Do not use it \
for permission to run a tool, which is requested automatically, nor for what you can find out with the other tools.";

pub(super) struct AskUser {
    spec: Arc<ToolSpec>,
    pending: Arc<PendingQuestions>,
}

impl AskUser {
    pub(super) fn new(pending: Arc<PendingQuestions>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 4,
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string", "description": "The whole question."},
                            "header": {"type": "string", "description": "One or two words that name the topic."},
                            "type": {
                                "type": "string",
                                "enum": ["choice", "text", "yesno"],
                                "description": "What an answer looks like.",
                            },
                            "options": {
                                "type": "array",
                                "description": "For `choice`: two to four answers. The user can always type another.",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "label": {"type": "string", "description": "A few words."},
                                        "description": {"type": "string", "description": "What it would mean."},
                                    },
                                    "required": ["label", "description"],
                                },
                            },
                            "multiSelect": {"type": "boolean", "description": "For `choice`: allow several answers."},
                            "placeholder": {"type": "string", "description": "For `text`: placeholder shown in the empty field."},
                        },
                        "required": ["question", "header", "type"],
                    },
                },
            },
            "required": ["questions"],
        });
        Self { spec: spec("ask_user", "Ask User", ToolKind::Communicate, DESCRIPTION, parameters), pending }
    }
}

struct Call {
    spec: Arc<ToolSpec>,
    pending: Arc<PendingQuestions>,
    questions: Vec<Question>,
}

impl Tool for AskUser {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn prepare(&self, args: &JsonObject) -> Result<Box<dyn Invocation>, ArgError> {
        let given = args.get("questions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if given.is_empty() || given.len() > 4 {
            return Err(ArgError("Between one and four questions must be given.".to_owned()));
        }
        let questions: Result<Vec<Question>, ArgError> =
            given.iter().enumerate().map(|(index, value)| read(index + 1, value)).collect();
        Ok(Box::new(Call {
            spec: Arc::clone(&self.spec),
            pending: Arc::clone(&self.pending),
            questions: questions?,
        }))
    }
}

fn read(number: usize, value: &Value) -> Result<Question, ArgError> {
    // Models write line breaks as two characters at times.
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().replace("\\n", "\n").trim().to_owned()
    };
    let asked = text(value, "question");
    if asked.is_empty() {
        return Err(ArgError(format!("Question {number}: `question` must not be empty.")));
    }
    let form = match value.get("type").and_then(Value::as_str) {
        Some("yesno") => QuestionForm::YesNo,
        Some("text") => QuestionForm::Text { placeholder: text(value, "placeholder") },
        _ => {
            let options = value.get("options").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            if !(2..=4).contains(&options.len()) {
                return Err(ArgError(format!("Question {number}: `choice` needs two to four `options`.")));
            }
            let options: Vec<Choice> = options
                .iter()
                .map(|option| Choice {
                    label: text(option, "label"),
                    description: text(option, "description"),
                })
                .collect();
            if options.iter().any(|option| option.label.is_empty()) {
                return Err(ArgError(format!("Question {number}: an option's `label` must not be empty.")));
            }
            let several = value.get("multiSelect").and_then(Value::as_bool) == Some(true);
            QuestionForm::Choice { options, several }
        }
    };
    Ok(Question { header: text(value, "header"), text: asked, form })
}

impl Invocation for Call {
    fn describe(&self) -> String {
        let texts: Vec<&str> = self.questions.iter().map(|question| question.text.as_str()).collect();
        format!("Asking user: {}", texts.join(", "))
    }

    fn effect(&self) -> Effect {
        Effect::Dialog
    }

    fn run<'a>(self: Box<Self>, context: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let subject = Subject::Questions(self.questions.clone());
            let request = question(&context.call, &self.spec, subject, &[(Outcome::Refuse, "")]);
            match self.pending.ask(request, &context.cancel).await {
                ApprovalAnswer::Replies(replies) => {
                    let answers: JsonObject = replies
                        .iter()
                        .enumerate()
                        .map(|(index, reply)| (index.to_string(), Value::from(reply.as_str())))
                        .collect();
                    let lines = self.questions.iter().zip(&replies);
                    let shown: Vec<String> =
                        lines.map(|(question, reply)| format!("{}: {reply}", question.header)).collect();
                    ToolOutcome::text(
                        json!({"answers": answers}).to_string(),
                        Display::Text(shown.join("\n")),
                    )
                }
                _ if context.cancel.is_cancelled() => ToolOutcome::Cancelled { partial: None },
                _ => {
                    let text = "User dismissed ask_user dialog without answering.";
                    ToolOutcome::text(text, Display::Text("Not answered".to_owned()))
                }
            }
        })
    }
}
