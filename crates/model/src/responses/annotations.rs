//! The sources that a reply quotes.

use pollux_domain::model::{Citation, GroundingInfo, GroundingSource, GroundingSupport};
use serde_json::Value;

use super::values::{entries, text};

/// What was quoted so far.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    pub(super) citations: Vec<Citation>,
    pub(super) grounding: GroundingInfo,
}

/// A page that a piece of text rests on.
pub(super) fn citation(annotation: &Value) -> Option<Citation> {
    let is_page = text(annotation, "type") == Some("url_citation");
    let uri = text(annotation, "url").filter(|_| is_page)?;
    Some(Citation { title: text(annotation, "title").map(str::to_owned), uri: uri.to_owned() })
}

/// Reads the annotations of a text that begins so many bytes after the start of the reply.
pub(super) fn read(piece: &Value, said: &str, before: usize, annotated: &mut Annotated) {
    for annotation in entries(piece, "annotations") {
        let Some(found) = citation(annotation) else { continue };
        let grounding = &mut annotated.grounding;
        let known = grounding.sources.iter().position(|source| source.uri.as_deref() == Some(&found.uri));
        let source = known.unwrap_or_else(|| {
            grounding
                .sources
                .push(GroundingSource { title: found.title.clone(), uri: Some(found.uri.clone()) });
            grounding.sources.len() - 1
        });
        if let Some(end) = annotation.get("end_index").and_then(Value::as_u64) {
            let end = (before + byte_position(said, end)) as u64;
            grounding.supports.push(GroundingSupport { end, sources: vec![source as u64] });
        }
        annotated.citations.push(found);
    }
}

/// The API counts characters.
fn byte_position(text: &str, characters: u64) -> usize {
    let characters = usize::try_from(characters).unwrap_or(usize::MAX);
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}
