//! What is known to be private on this machine: values of variables and settings, the home, and names.

use pollux_capsule::Private;
use pollux_config::env::Env;
use pollux_config::settings::SECRET_OBJECTS;
use pollux_domain::redact::is_secret_name;
use pollux_host::Loaded;
use serde_json::Value;

/// Collects it from the environment, `.env` files and settings.
pub(super) fn private(loaded: Option<&Loaded>, env: &Env) -> Private {
    let mut private = Private::default();
    let all = loaded.map_or(env, |loaded| &loaded.env);
    for (name, value) in all.iter() {
        private.secrets_in(&format!("{name}={value}"));
        // All of it: in a line, a value ends at a blank.
        if is_secret_name(name) && name != "PWD" {
            private.secret(value);
        }
    }
    for name in ["USER", "LOGNAME", "USERNAME", "HOSTNAME"] {
        private.name(all.non_empty(name).unwrap_or_default());
    }
    private.home(all.non_empty("HOME").unwrap_or_default());
    let Some(loaded) = loaded else { return private };
    let user_home = loaded.home.user_home();
    private.home(&user_home.to_string_lossy());
    if let Ok(real) = user_home.canonicalize() {
        private.home(&real.to_string_lossy());
    }
    // Whatever their names are, the user keeps them in a file for secrets.
    for name in loaded.dotenv.loaded.iter().flat_map(|file| &file.names) {
        private.secret(loaded.env.get(name).unwrap_or_default());
    }
    for offer in &loaded.dotenv.offered {
        private.secret(offer.value.reveal());
    }
    collect(&loaded.settings.effective, false, &mut private);
    private
}

fn collect(value: &Value, is_secret: bool, private: &mut Private) {
    match value {
        Value::String(text) if is_secret => private.secret(text),
        Value::String(text) => private.secrets_in(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_secret, private)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let holds_secrets = is_secret_name(name) || SECRET_OBJECTS.contains(&name.as_str());
                collect(value, is_secret || holds_secrets, private);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
