//! Elicitation: turns a server's form into questions for the user, and the answers into its response.

use pollux_domain::JsonObject;
use pollux_domain::approval::{ApprovalAnswer, Choice, Person, Question, QuestionForm};
use reqwest::Url;
use rmcp::model::{ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::offer::bounded;

/// Fields of a form; nobody answers more.
const MAX_FIELDS: usize = 20;
const MAX_CHOICES: usize = 50;

/// Asks, and gives the server what was answered.
pub(crate) async fn ask(
    person: &dyn Person,
    server: &str,
    message: &str,
    schema: &Value,
    cancel: &CancellationToken,
) -> ElicitResult {
    let fields = fields(schema);
    if fields.len() > MAX_FIELDS {
        return ElicitResult::new(ElicitationAction::Decline);
    }
    let questions = questions(server, message, &fields);
    match person.ask(server, questions, cancel).await {
        ApprovalAnswer::Replies(replies) => match content(&fields, &replies) {
            Some(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            None => ElicitResult::new(ElicitationAction::Decline),
        },
        ApprovalAnswer::Refuse(_) => ElicitResult::new(ElicitationAction::Decline),
        _ => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// Shows an address that the server wants the person to open; nothing is opened here. What is done there goes to
/// its owner and never through us.
pub(crate) async fn show(
    person: &dyn Person,
    server: &str,
    message: &str,
    url: &str,
    cancel: &CancellationToken,
) -> ElicitResult {
    let Some((url, host)) = address(url) else { return ElicitResult::new(ElicitationAction::Decline) };
    let text = format!(
        "The MCP server `{server}` says: {}\nIt asks you to open this URL at `{host}` in a browser:\n\n{url}\n\n\
         Continue only if you expect this and know the host. Do you agree?",
        bounded(message, 2000)
    );
    let question = Question { header: server.to_owned(), text, form: QuestionForm::YesNo };
    let action = match person.ask(server, vec![question], cancel).await {
        ApprovalAnswer::Replies(replies) if replies.first().is_some_and(|reply| yes(reply) == Some(true)) => {
            ElicitationAction::Accept
        }
        ApprovalAnswer::Replies(_) | ApprovalAnswer::Refuse(_) => ElicitationAction::Decline,
        _ => ElicitationAction::Cancel,
    };
    ElicitResult::new(action)
}

/// An address that a person may be shown, with its host: written out as it would be asked for, so that letters
/// which only look like others are seen, and without a name that hides the host.
fn address(text: &str) -> Option<(String, String)> {
    let url = Url::parse(text).ok()?;
    let host = url.host_str()?.to_owned();
    let on_this_machine = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    let right = url.scheme() == "https" || (url.scheme() == "http" && on_this_machine);
    let plain = url.username().is_empty() && url.password().is_none() && url.as_str().len() <= 4000;
    (right && plain).then(|| (url.to_string(), host))
}

/// One thing that is asked for.
struct Field {
    name: String,
    about: String,
    kind: Kind,
    default: Option<Value>,
    required: bool,
}

enum Kind {
    Text,
    Number {
        whole: bool,
    },
    Switch,
    /// Values with what is shown for them.
    Choice {
        options: Vec<(String, String)>,
        several: bool,
    },
}

fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, property)| field(name, property, &required)).collect()
}

fn field(name: &str, property: &Value, required: &[&str]) -> Field {
    let text = |key: &str| property.get(key).and_then(Value::as_str).unwrap_or_default();
    let title = if text("title").is_empty() { name } else { text("title") };
    let about = if text("description").is_empty() {
        title.to_owned()
    } else {
        format!("{title}: {}", text("description"))
    };
    let kind = match text("type") {
        "boolean" => Kind::Switch,
        "integer" => Kind::Number { whole: true },
        "number" => Kind::Number { whole: false },
        "array" => {
            Kind::Choice { options: options(property.get("items").unwrap_or(&Value::Null)), several: true }
        }
        _ => match options(property) {
            options if options.is_empty() => Kind::Text,
            options => Kind::Choice { options, several: false },
        },
    };
    let default = property.get("default").filter(|value| !value.is_null()).cloned();
    Field {
        name: name.to_owned(),
        about: bounded(&about, 1000),
        kind,
        default,
        required: required.contains(&name),
    }
}

/// `enum` with or without `enumNames`, or `oneOf`/`anyOf` of constants with titles.
fn options(property: &Value) -> Vec<(String, String)> {
    let list = |key: &str| property.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = list("enumNames");
    let plain = list("enum").iter().enumerate().filter_map(|(index, value)| {
        let value = value.as_str()?;
        let name = names.get(index).and_then(Value::as_str).unwrap_or(value);
        Some((value.to_owned(), name.to_owned()))
    });
    let titled = list("oneOf").iter().chain(list("anyOf")).filter_map(|option| {
        let value = option.get("const").and_then(Value::as_str)?;
        let title = option.get("title").and_then(Value::as_str).unwrap_or(value);
        Some((value.to_owned(), title.to_owned()))
    });
    plain.chain(titled).take(MAX_CHOICES).collect()
}

fn questions(server: &str, message: &str, fields: &[Field]) -> Vec<Question> {
    let message = bounded(message, 2000);
    let says = format!("The MCP server `{server}` says: {message}");
    if fields.is_empty() {
        return vec![Question {
            header: server.to_owned(),
            text: format!("{says} Continue?"),
            form: QuestionForm::YesNo,
        }];
    }
    let mut questions = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let default = field.default.as_ref().map(|value| format!(" (empty: {})", shown(value)));
        let asked = format!("{}{}", field.about, default.unwrap_or_default());
        let text = if index == 0 { format!("{says}\n{asked}") } else { asked };
        let form = match &field.kind {
            Kind::Text | Kind::Number { .. } => {
                QuestionForm::Text { placeholder: field.default.as_ref().map(shown).unwrap_or_default() }
            }
            Kind::Switch => QuestionForm::YesNo,
            Kind::Choice { options, several } => QuestionForm::Choice {
                options: options
                    .iter()
                    .map(|(value, title)| Choice { label: title.clone(), description: value.clone() })
                    .collect(),
                several: *several,
            },
        };
        questions.push(Question { header: server.to_owned(), text, form });
    }
    questions
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => bounded(text, 200),
        other => bounded(&other.to_string(), 200),
    }
}

/// The answers in the form that was asked for; `None` if one does not fit.
fn content(fields: &[Field], replies: &[String]) -> Option<JsonObject> {
    if fields.is_empty() {
        return replies.first().is_some_and(|reply| yes(reply) == Some(true)).then(Map::new);
    }
    let mut content = Map::new();
    for (field, reply) in fields.iter().zip(replies) {
        let reply = reply.trim();
        let value = match reply {
            "" => match (&field.default, field.required) {
                (Some(default), _) => default.clone(),
                (None, false) => continue,
                (None, true) => return None,
            },
            reply => field.value(reply)?,
        };
        content.insert(field.name.clone(), value);
    }
    Some(content)
}

fn yes(reply: &str) -> Option<bool> {
    match reply.trim().to_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

impl Field {
    fn value(&self, reply: &str) -> Option<Value> {
        match &self.kind {
            Kind::Text => Some(Value::from(reply)),
            Kind::Number { whole: true } => reply.parse::<i64>().ok().map(Value::from),
            Kind::Number { whole: false } => {
                reply.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number)
            }
            Kind::Switch => yes(reply).map(Value::Bool),
            Kind::Choice { options, several } => {
                let value = |word: &str| {
                    let word = word.trim();
                    let found = options.iter().find(|(value, title)| value == word || title == word);
                    found.map(|(value, _)| Value::from(value.as_str()))
                };
                // A title may have a comma itself.
                match (several, value(reply)) {
                    (false, one) => one,
                    (true, Some(one)) => Some(Value::Array(vec![one])),
                    (true, None) => reply.split(',').map(value).collect::<Option<Vec<_>>>().map(Value::Array),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollux_domain::BoxFuture;
    use serde_json::json;
    use std::sync::Mutex;

    struct Scripted(ApprovalAnswer, Mutex<Vec<Question>>);

    impl Person for Scripted {
        fn ask<'a>(
            &'a self,
            _: &'a str,
            questions: Vec<Question>,
            _: &'a CancellationToken,
        ) -> BoxFuture<'a, ApprovalAnswer> {
            *self.1.lock().unwrap() = questions;
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    async fn answered(schema: Value, answer: ApprovalAnswer) -> (ElicitResult, Vec<Question>) {
        let person = Scripted(answer, Mutex::default());
        let result = ask(&person, "srv", "Who are you?", &schema, &CancellationToken::new()).await;
        (result, person.1.into_inner().unwrap())
    }

    fn replies(texts: &[&str]) -> ApprovalAnswer {
        ApprovalAnswer::Replies(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn form() -> Value {
        json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "Name"},
            "age": {"type": "integer", "default": 30},
            "ok": {"type": "boolean", "default": true},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "many": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
        }})
    }

    #[tokio::test]
    async fn a_form_becomes_questions_and_answers_become_values() {
        let (result, questions) = answered(form(), replies(&["Ada", "", "no", "Green", "a, c"])).await;
        assert_eq!(result.action, ElicitationAction::Accept);
        assert_eq!(
            result.content,
            Some(json!({"name": "Ada", "age": 30, "ok": false, "colour": "g", "many": ["a", "c"]}))
        );
        assert!(questions[0].text.starts_with("The MCP server `srv` says: Who are you?\nName"));
        assert_eq!(questions[1].text, "age (empty: 30)");
        assert_eq!(questions[2].form, QuestionForm::YesNo);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_a_refusal() {
        for texts in [
            ["", "", "", "", ""],
            ["Ada", "old", "", "", ""],
            ["Ada", "", "perhaps", "", ""],
            ["Ada", "", "", "Blue", ""],
        ] {
            assert_eq!(
                answered(form(), replies(&texts)).await.0.action,
                ElicitationAction::Decline,
                "{texts:?}"
            );
        }
        assert_eq!(
            answered(form(), ApprovalAnswer::Refuse("no".into())).await.0.action,
            ElicitationAction::Decline
        );
        assert_eq!(answered(form(), ApprovalAnswer::Cancel).await.0.action, ElicitationAction::Cancel);
        let empty = json!({"type": "object", "properties": {}});
        assert_eq!(answered(empty.clone(), replies(&["yes"])).await.0.content, Some(json!({})));
        assert_eq!(answered(empty, replies(&["no"])).await.0.action, ElicitationAction::Decline);
        let huge: Map<String, Value> = (0..100).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        let (result, questions) = answered(json!({"properties": huge}), replies(&[])).await;
        assert_eq!((result.action, questions.len()), (ElicitationAction::Decline, 0));
    }

    #[tokio::test]
    async fn a_url_is_shown_with_its_host_and_never_opened_automatically() {
        let shown = async |url: &str, answer: ApprovalAnswer| {
            let person = Scripted(answer, Mutex::default());
            let result = show(&person, "srv", "Pay here", url, &CancellationToken::new()).await;
            (result.action, person.1.into_inner().unwrap())
        };
        let (action, questions) = shown("https://pay.example/x?y=1", replies(&["yes"])).await;
        assert_eq!((action, questions[0].form.clone()), (ElicitationAction::Accept, QuestionForm::YesNo));
        let text = &questions[0].text;
        for words in ["`srv`", "Pay here", "at `pay.example`", "\nhttps://pay.example/x?y=1\n"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(shown("https://pay.example", replies(&["no"])).await.0, ElicitationAction::Decline);
        assert_eq!(shown("https://pay.example", ApprovalAnswer::Cancel).await.0, ElicitationAction::Cancel);
        // Letters of another script are written out.
        assert!(shown("https://p\u{430}y.example", replies(&["y"])).await.1[0].text.contains("xn--"));
        for bad in [
            "http://pay.example",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://bank.example@evil.example",
            "",
        ] {
            let (action, questions) = shown(bad, replies(&["yes"])).await;
            assert_eq!((action, questions.len()), (ElicitationAction::Decline, 0), "{bad}");
        }
    }
}
