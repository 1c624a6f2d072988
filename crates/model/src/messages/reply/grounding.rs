//! What the server looked up for a reply, and what of it the reply quotes.

use pollux_domain::JsonObject;
use pollux_domain::model::{Citation, GroundingInfo, GroundingSource, GroundingSupport, RetrievedPage};
use serde_json::Value;

use crate::messages::BLOCK;

/// Collected while the reply arrives.
#[derive(Default)]
pub(super) struct Sources {
    info: GroundingInfo,
    citations: Vec<Citation>,
    /// The length of the reply's text so far.
    length: u64,
    /// What the block under way quotes.
    quoted: Vec<u64>,
}

impl Sources {
    pub(super) fn text(&mut self, text: &str) {
        self.length += text.len() as u64;
    }

    /// A passage of the block under way rests on this.
    pub(super) fn cite(&mut self, citation: &Value) {
        let Some(uri) = text(citation, "url") else { return };
        let title = text(citation, "title");
        let found = self.info.sources.iter().position(|source| source.uri.as_ref() == Some(&uri));
        let at = found.unwrap_or_else(|| {
            self.info.sources.push(GroundingSource { title: title.clone(), uri: Some(uri.clone()) });
            self.info.sources.len() - 1
        });
        if !self.quoted.contains(&(at as u64)) {
            self.quoted.push(at as u64);
        }
        if !self.citations.iter().any(|known| known.uri == uri) {
            self.citations.push(Citation { title, uri });
        }
    }

    pub(super) fn text_ends(&mut self) {
        if !self.quoted.is_empty() {
            let sources = std::mem::take(&mut self.quoted);
            self.info.supports.push(GroundingSupport { end: self.length, sources });
        }
    }

    /// Results of the server's tools.
    pub(super) fn look_at(&mut self, fields: &JsonObject) {
        let Some(block) = fields.get(BLOCK) else { return };
        match block.get("type").and_then(Value::as_str) {
            Some("web_search_tool_result") => {
                for found in block.get("content").and_then(Value::as_array).into_iter().flatten() {
                    let (title, uri) = (text(found, "title"), text(found, "url"));
                    if uri.is_some() && !self.info.sources.iter().any(|known| known.uri == uri) {
                        self.info.sources.push(GroundingSource { title, uri });
                    }
                }
            }
            Some("web_fetch_tool_result") => {
                let content = block.get("content");
                if let Some(uri) = content.and_then(|content| text(content, "url")) {
                    let status = Some("URL_RETRIEVAL_STATUS_SUCCESS".to_owned());
                    self.info.pages.push(RetrievedPage { uri, status });
                }
            }
            _ => {}
        }
    }

    pub(super) fn told(self) -> (Vec<Citation>, Option<Box<GroundingInfo>>) {
        let info = (self.info != GroundingInfo::default()).then(|| Box::new(self.info));
        (self.citations, info)
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}
