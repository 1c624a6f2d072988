//! What a reply rests on: `groundingMetadata` and `urlContextMetadata` of a candidate.

use pollux_domain::JsonObject;
use pollux_domain::model::{GroundingInfo, GroundingSource, GroundingSupport, RetrievedPage};
use serde_json::{Value, json};

/// Reads a candidate; `None` if the model looked nothing up.
pub(super) fn read(candidate: &Value) -> Option<GroundingInfo> {
    let metadata = candidate.get("groundingMetadata").filter(|value| value.is_object());
    let pages = candidate.get("urlContextMetadata").filter(|value| value.is_object());
    if metadata.is_none() && pages.is_none() {
        return None;
    }
    let listed = |from: Option<&Value>, key: &str| -> Vec<Value> {
        from.and_then(|value| value.get(key)).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    Some(GroundingInfo {
        sources: listed(metadata, "groundingChunks").iter().map(source).collect(),
        supports: listed(metadata, "groundingSupports").iter().filter_map(support).collect(),
        pages: listed(pages, "urlMetadata").iter().filter_map(page).collect(),
    })
}

/// Kept even when it names nothing: supports count by position.
fn source(chunk: &Value) -> GroundingSource {
    let web = chunk.get("web").or_else(|| chunk.get("retrievedContext"));
    let field = |key: &str| web.and_then(|web| web.get(key)).and_then(Value::as_str).map(str::to_owned);
    GroundingSource { title: field("title"), uri: field("uri") }
}

fn support(value: &Value) -> Option<GroundingSupport> {
    let end = value.get("segment")?.get("endIndex")?.as_u64()?;
    let indices = value.get("groundingChunkIndices")?.as_array()?;
    Some(GroundingSupport { end, sources: indices.iter().filter_map(Value::as_u64).collect() })
}

fn page(value: &Value) -> Option<RetrievedPage> {
    Some(RetrievedPage {
        uri: value.get("retrievedUrl")?.as_str()?.to_owned(),
        status: value.get("urlRetrievalStatus").and_then(Value::as_str).map(str::to_owned),
    })
}

/// Writes what [`read`] reads into a candidate.
pub(super) fn write(info: &GroundingInfo, candidate: &mut JsonObject) {
    let sources: Vec<Value> = info
        .sources
        .iter()
        .map(|source| {
            let fields = [("uri", &source.uri), ("title", &source.title)];
            let web =
                fields.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text.as_ref()?))));
            json!({"web": web.collect::<JsonObject>()})
        })
        .collect();
    let supports: Vec<Value> = info
        .supports
        .iter()
        .map(
            |support| json!({"segment": {"endIndex": support.end}, "groundingChunkIndices": support.sources}),
        )
        .collect();
    candidate.insert(
        "groundingMetadata".into(),
        json!({"groundingChunks": sources, "groundingSupports": supports}),
    );
    if !info.pages.is_empty() {
        let pages: Vec<Value> = info
            .pages
            .iter()
            .map(|page| json!({"retrievedUrl": page.uri, "urlRetrievalStatus": page.status}))
            .collect();
        candidate.insert("urlContextMetadata".into(), json!({"urlMetadata": pages}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_survives_reading_and_writing_back() {
        let candidate = json!({
            "groundingMetadata": {
                "webSearchQueries": ["q"],
                "groundingChunks": [{"web": {"uri": "https://a", "title": "A"}}, {"other": 1}],
                "groundingSupports": [
                    {"segment": {"startIndex": 0, "endIndex": 9, "text": "t"}, "groundingChunkIndices": [0, 1]},
                    {"segment": {}, "groundingChunkIndices": [0]},
                    {"segment": {"endIndex": 3}}
                ]
            },
            "urlContextMetadata": {"urlMetadata": [
                {"retrievedUrl": "https://a", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"}, {}
            ]}
        });
        let info = read(&candidate).unwrap();
        assert_eq!(info.sources.len(), 2);
        assert_eq!(info.sources[1], GroundingSource::default());
        assert_eq!(info.supports, [GroundingSupport { end: 9, sources: vec![0, 1] }]);
        assert_eq!(info.pages[0].status.as_deref(), Some("URL_RETRIEVAL_STATUS_ERROR"));
        let mut written = JsonObject::new();
        write(&info, &mut written);
        assert_eq!(read(&Value::Object(written)), Some(info));
    }

    #[test]
    fn odd_metadata_is_nothing_or_as_much_as_can_be_read() {
        assert_eq!(read(&json!({})), None);
        assert_eq!(read(&json!({"groundingMetadata": null, "urlContextMetadata": []})), None);
        assert_eq!(
            read(&json!({"groundingMetadata": {"groundingChunks": 3}})),
            Some(GroundingInfo::default())
        );
    }
}
