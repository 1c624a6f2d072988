//! Counts in answers of servers, which may hold anything.

use serde_json::Value;

/// No reply has more tokens than this; larger numbers would only overflow sums.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// A count of tokens; some gateways write it as text or as a float. What cannot be one is `None`.
pub(crate) fn tokens(value: &Value) -> Option<u64> {
    let text = || value.as_str().and_then(|text| text.trim().parse().ok());
    let float = || value.as_f64().filter(|count| (0.0..1e18).contains(count)).map(|count| count as u64);
    value.as_u64().or_else(text).or_else(float).filter(|count| *count <= MAX_COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_can_be_a_count_is_one() {
        for (value, expected) in [
            (json!(7), Some(7)),
            (json!(" 7 "), Some(7)),
            (json!(7.0), Some(7)),
            (json!(0), Some(0)),
            (json!(-1), None),
            (json!(u64::MAX), None),
            (json!(1e300), None),
            (json!("18446744073709551615"), None),
            (json!(null), None),
            (json!([7]), None),
        ] {
            assert_eq!(tokens(&value), expected, "{value}");
        }
    }
}
