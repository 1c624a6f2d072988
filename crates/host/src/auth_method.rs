//! How requests to a model are authenticated.

use pollux_model::providers::{Providers, read_settings};
use pollux_model::router::is_alias;

use crate::auth::kind_of_google;
use crate::prepared::Prepared;
use crate::providers::{GOOGLE, own_env, users_key};

impl Prepared<'_> {
    /// How requests to this model are authenticated: Google's method, or the provider's id.
    pub fn auth_method(&self, model: &str) -> Option<String> {
        let start = &self.credentials;
        if model == start.model {
            return start.auth_type.clone();
        }
        let (settings, _) = read_settings(&self.loaded.groups.model.providers);
        let env = own_env(self.loaded);
        let providers = Providers::new(&env, &settings);
        let has_key = |id: &str| GOOGLE.contains(&id) || users_key(&providers, id).is_some();
        match providers.split(model, has_key).provider {
            Some(id) if !GOOGLE.contains(&id.as_str()) => Some(id),
            // A bare name stays with the provider in use; aliases are Google's.
            None if start.auth.is_none() && !is_alias(model) => start.auth_type.clone(),
            Some(_) | None if start.auth.is_some() => start.auth_type.clone(),
            Some(_) | None => kind_of_google(self.loaded),
        }
    }
}
