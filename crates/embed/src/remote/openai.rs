//! OpenAI's JSON: `/embeddings`.

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Reply {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Some servers omit it; the order is used then.
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

pub(super) fn request(model: &str, texts: &[String], dimensions: Option<u32>) -> (String, Value) {
    let mut body = json!({ "model": model, "input": texts });
    if let Some(dimensions) = dimensions {
        body["dimensions"] = dimensions.into();
    }
    ("/embeddings".to_owned(), body)
}

/// `None` if it is not a response of this API, or if its numbering has gaps.
pub(super) fn vectors(body: &[u8]) -> Option<Vec<Vec<f32>>> {
    let mut items = serde_json::from_slice::<Reply>(body).ok()?.data;
    if items.iter().all(|item| item.index.is_none()) {
        return Some(items.into_iter().map(|item| item.embedding).collect());
    }
    items.sort_by_key(|item| item.index);
    let in_order = items.iter().enumerate().all(|(at, item)| item.index == Some(at));
    in_order.then(|| items.into_iter().map(|item| item.embedding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_put_in_order_and_must_all_be_there() {
        let read = |json: &str| vectors(json.as_bytes());
        assert_eq!(
            read(r#"{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}"#),
            Some(vec![vec![1.0], vec![2.0]])
        );
        assert_eq!(read(r#"{"data":[{"embedding":[1]}]}"#), Some(vec![vec![1.0]]));
        assert_eq!(read(r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#), None);
        assert_eq!(read(r#"{"data":[{"index":1,"embedding":[1]}]}"#), None);
        assert_eq!(read(r#"{"data":"x"}"#), None);
    }
}
