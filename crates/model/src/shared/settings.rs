//! Settings of a request in neutral words.

use pollux_domain::model::{Dialect, GenerationSettings, ModelRequest};

use crate::gemini::words;

/// The settings of a request, with what people wrote in `generateContentConfig` translated. What of it only Gemini
/// knows stays among Gemini's words, which no other wire sends.
pub(crate) fn neutral(request: &ModelRequest) -> GenerationSettings {
    let mut over = request.settings.clone();
    let mut settings =
        over.extra.remove(&Dialect::GEMINI).map(|words| words::read(&words)).unwrap_or_default();
    settings.lay(over);
    settings
}
