//! Which models there are to choose from.

use pollux_model::catalogue::Catalogue;

use super::Loaded;

/// Names of models with what each stands for; those that choose by themselves come first.
pub(crate) fn models(loaded: &Loaded) -> Vec<(String, String)> {
    let catalogue = Catalogue::with_settings(&loaded.groups.model.configs);
    catalogue.unwrap_or_else(|_| Catalogue::built_in()).choices()
}
