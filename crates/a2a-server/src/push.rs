//! Webhooks that clients register for a task: how requests name them, and how answers show them.

use pollux_a2a::protocol::{Dialect, Version};
use pollux_config::groups::Secret;
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::A2aError;
use crate::store::is_task_id;

/// The longest address, and the longest token or credentials.
const MAX_URL: usize = 2_048;
const MAX_SECRET: usize = 8_192;
/// Where clients put a webhook into the configuration of a message.
const IN_MESSAGE: [&str; 3] = ["taskPushNotificationConfig", "pushNotificationConfig", "pushNotification"];

/// A webhook of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushConfig {
    pub(crate) id: String,
    pub(crate) url: Url,
    /// Sent along, so that the webhook knows who calls.
    pub(crate) token: Option<Secret>,
    /// The scheme of `Authorization`, and what follows it.
    pub(crate) scheme: Option<String>,
    pub(crate) credentials: Option<Secret>,
    /// Of the request that registered it; what is sent has the same.
    pub(crate) version: Version,
}

/// What a request about webhooks names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PushTarget {
    pub(crate) task: String,
    pub(crate) config: Option<String>,
}

impl PushTarget {
    /// Reads the names. In 0.3, `id` is the task's; in 1.0 it is the webhook's next to `taskId`.
    pub(crate) fn read(params: &Value) -> Result<Self, A2aError> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = text("name").or_else(|| params.pointer("/config/name").and_then(Value::as_str));
        let (of_name, config_of_name) = match name.map(|name| name.trim_start_matches("tasks/")) {
            Some(name) => match name.split_once("/pushNotificationConfigs/") {
                Some((task, config)) => (Some(task), Some(config)),
                None => (Some(name), None),
            },
            None => (None, None),
        };
        let parent = text("parent").map(|parent| parent.trim_start_matches("tasks/"));
        let task = text("taskId").or_else(|| text("id")).or(parent).or(of_name);
        let task = task.map(|task| task.strip_prefix("tasks/").unwrap_or(task));
        let task = task.ok_or_else(|| A2aError::params("`taskId` is missing"))?;
        let config = text("pushNotificationConfigId")
            .or_else(|| text("configId"))
            .or_else(|| text("id").filter(|_| text("taskId").is_some()))
            .or(config_of_name);
        if config.is_some_and(|config| !is_task_id(config)) {
            return Err(A2aError::params("invalid id of a push notification configuration"));
        }
        Ok(Self { task: task.to_owned(), config: config.map(str::to_owned) })
    }
}

impl PushConfig {
    /// The webhook of a request that registers one.
    pub(crate) fn of_request(
        params: &Value,
        target: &PushTarget,
        version: Version,
    ) -> Result<Self, A2aError> {
        let places = ["/config/pushNotificationConfig", "/pushNotificationConfig", "/config"];
        let given = places.iter().find_map(|place| params.pointer(place).filter(|value| value.is_object()));
        // Over HTTP, `id` is always there, and is the task's.
        let config = target.config.as_deref().filter(|config| *config != target.task);
        Self::read(given.unwrap_or(params), config, &target.task, version)
    }

    /// The webhook that a message registers, if it does.
    pub(crate) fn of_message(params: &Value, task: &str, version: Version) -> Result<Option<Self>, A2aError> {
        let Some(given) = given_with_message(params) else { return Ok(None) };
        let nested = given.get("pushNotificationConfig").filter(|nested| nested.is_object());
        Self::read(nested.unwrap_or(given), None, task, version).map(Some)
    }

    fn read(given: &Value, id: Option<&str>, task: &str, version: Version) -> Result<Self, A2aError> {
        let text = |value: &Value, key: &str| {
            let text = value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let secret = |value: &Value, key: &str| match text(value, key) {
            Some(secret) if secret.len() > MAX_SECRET || HeaderValue::from_str(&secret).is_err() => {
                Err(A2aError::params(format!("`{key}` cannot be sent in a header")))
            }
            secret => Ok(secret.map(Secret::new)),
        };
        let own = text(given, "id").filter(|own| own != task);
        let id = id.map(str::to_owned).or(own);
        if id.as_ref().is_some_and(|id| !is_task_id(id)) {
            return Err(A2aError::params("invalid id of a push notification configuration"));
        }
        let id = id.unwrap_or_else(|| match version {
            // A client of 0.3 that gives no id has one webhook, which it replaces.
            Version::Old => task.to_owned(),
            Version::One => Uuid::new_v4().to_string(),
        });
        let url = text(given, "url").filter(|url| url.len() <= MAX_URL).and_then(|url| Url::parse(&url).ok());
        let url =
            url.ok_or_else(|| A2aError::params("`url` of the push notification configuration is invalid"))?;
        let authentication = given.get("authentication").unwrap_or(&Value::Null);
        let first = authentication.get("schemes").and_then(|schemes| schemes.get(0)).and_then(Value::as_str);
        let scheme = text(authentication, "scheme").or_else(|| first.map(str::to_owned));
        let is_scheme = |scheme: &String| {
            (1..=50).contains(&scheme.len())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        if scheme.as_ref().is_some_and(|scheme| !is_scheme(scheme)) {
            return Err(A2aError::params("invalid `scheme` of the push notification configuration"));
        }
        Ok(Self {
            id,
            url,
            token: secret(given, "token")?,
            credentials: secret(authentication, "credentials")?,
            scheme,
            version,
        })
    }

    /// The value of `Authorization`.
    pub(crate) fn authorization(&self) -> Option<String> {
        let credentials = self.credentials.as_ref()?.reveal();
        Some(format!("{} {credentials}", self.scheme.as_deref().unwrap_or("Bearer")))
    }

    /// As clients read it. Token and credentials are never told.
    pub(crate) fn to_json(&self, task: &str, dialect: Dialect) -> Value {
        let mut config = json!({"id": self.id, "url": self.url.as_str()});
        if let (Some(scheme), Some(fields)) = (&self.scheme, config.as_object_mut()) {
            let authentication = match dialect {
                Dialect::Tagged | Dialect::OldBuffers => json!({"schemes": [scheme]}),
                Dialect::One => json!({"scheme": scheme}),
            };
            fields.insert("authentication".to_owned(), authentication);
        }
        match dialect {
            Dialect::Tagged => json!({"taskId": task, "pushNotificationConfig": config}),
            Dialect::OldBuffers => {
                let name = format!("tasks/{task}/pushNotificationConfigs/{}", self.id);
                json!({"name": name, "pushNotificationConfig": config})
            }
            Dialect::One => {
                if let Some(fields) = config.as_object_mut() {
                    fields.insert("taskId".to_owned(), json!(task));
                }
                config
            }
        }
    }

    /// Everything about it, for the store. The task is named, so that it counts for no other.
    pub(crate) fn to_stored(&self, task: &str) -> Value {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        json!({
            "task": task,
            "id": self.id,
            "url": self.url.as_str(),
            "token": secret(&self.token),
            "scheme": self.scheme,
            "credentials": secret(&self.credentials),
            "version": self.version.as_str(),
        })
    }

    pub(crate) fn from_stored(value: &Value, task: &str) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if text("task")? != task {
            return None;
        }
        Some(Self {
            id: text("id")?,
            url: Url::parse(&text("url")?).ok()?,
            token: text("token").map(Secret::new),
            scheme: text("scheme"),
            credentials: text("credentials").map(Secret::new),
            version: Version::read(&text("version")?).ok()??,
        })
    }
}

/// What a message says about a webhook.
pub(crate) fn given_with_message(params: &Value) -> Option<&Value> {
    let configuration = params.get("configuration")?;
    IN_MESSAGE.iter().find_map(|key| configuration.get(key)).filter(|given| given.is_object())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: Value, version: Version) -> Result<(PushTarget, PushConfig), A2aError> {
        let target = PushTarget::read(&params)?;
        let config = PushConfig::of_request(&params, &target, version)?;
        Ok((target, config))
    }

    #[test]
    fn every_spelling_of_a_request_names_task_and_webhook() {
        let url = "https://hooks.example/x";
        let named = |params: Value, version| {
            let (target, config) = read(params, version).unwrap();
            assert_eq!((target.task.as_str(), config.url.as_str()), ("t", url));
            config
        };
        let old = json!({"taskId": "t", "pushNotificationConfig": {"id": "c", "url": url, "token": "s",
            "authentication": {"schemes": ["Basic"], "credentials": "x y"}}});
        let config = named(old, Version::Old);
        assert_eq!((config.id.as_str(), config.authorization().as_deref()), ("c", Some("Basic x y")));
        assert_eq!(
            named(json!({"taskId": "t", "pushNotificationConfig": {"url": url}}), Version::Old).id,
            "t"
        );
        let one = json!({"taskId": "t", "id": "c", "url": url, "authentication": {"scheme": "Bearer"}});
        let config = named(one, Version::One);
        assert_eq!((config.id.as_str(), config.authorization()), ("c", None));
        // Over HTTP the task is in the path.
        assert_eq!(named(json!({"id": "t", "configId": "c", "url": url}), Version::One).id, "c");
        assert_eq!(named(json!({"id": "t", "taskId": "t", "url": url}), Version::One).id.len(), 36);
        let buffers = json!({"id": "t", "parent": "tasks/t", "config": {
            "name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": {"url": url}}});
        assert_eq!(named(buffers, Version::Old).id, "c");
        for params in [
            json!({"id": "t", "pushNotificationConfigId": "c"}),
            json!({"taskId": "t", "id": "c"}),
            json!({"name": "tasks/t/pushNotificationConfigs/c"}),
            json!({"id": "t", "taskId": "t", "configId": "c"}),
        ] {
            let target = PushTarget::read(&params).unwrap();
            assert_eq!(target, PushTarget { task: "t".into(), config: Some("c".into()) }, "{params}");
        }
        // The webhook of a client of 0.3 that gave no name has that of the task.
        for params in [json!({"id": "t", "pushNotificationConfigId": "t"}), json!({"taskId": "t", "id": "t"})]
        {
            assert_eq!(PushTarget::read(&params).unwrap().config.as_deref(), Some("t"), "{params}");
        }
    }

    #[test]
    fn what_cannot_be_stored_or_sent_is_refused() {
        let url = "https://hooks.example/";
        for wrong in [
            json!({"taskId": "t"}),
            json!({"url": url}),
            json!({"taskId": "t", "url": "not a url"}),
            json!({"taskId": "t", "url": format!("{url}{}", "x".repeat(3_000))}),
            json!({"taskId": "t", "id": "../x", "url": url}),
            json!({"taskId": "t", "url": url, "token": "a\r\nX-Evil: 1"}),
            json!({"taskId": "t", "url": url, "authentication": {"scheme": "Bearer", "credentials": "a\nb"}}),
            json!({"taskId": "t", "url": url, "authentication": {"scheme": "Bea rer", "credentials": "a"}}),
        ] {
            assert!(read(wrong.clone(), Version::One).is_err(), "{wrong}");
        }
    }

    #[test]
    fn secrets_are_stored_and_never_shown() {
        let params = json!({"taskId": "t", "id": "c", "url": "https://hooks.example/", "token": "token-1",
            "authentication": {"scheme": "Bearer", "credentials": "secret-1"}});
        let (_, config) = read(params, Version::One).unwrap();
        assert_eq!(PushConfig::from_stored(&config.to_stored("t"), "t"), Some(config.clone()));
        assert_eq!(
            PushConfig::from_stored(&config.to_stored("t"), "other"),
            None,
            "it counts for its task only"
        );
        for dialect in [Dialect::Tagged, Dialect::OldBuffers, Dialect::One] {
            let shown = format!("{} {config:?}", config.to_json("t", dialect));
            assert!(!shown.contains("token-1") && !shown.contains("secret-1"), "{shown}");
        }
    }
}
