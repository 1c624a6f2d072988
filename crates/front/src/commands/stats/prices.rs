//! Token prices, from public price lists.

use pollux_domain::model::Usage;

/// When the list was read.
pub(super) const AS_OF: &str = "July 2026";

/// Dollars for a million tokens: read, read from the cache, written.
struct Price {
    /// How the model's name begins; longer beginnings come first.
    model: &'static str,
    input: f64,
    cached: f64,
    output: f64,
}

const fn price(model: &'static str, input: f64, cached: f64, output: f64) -> Price {
    Price { model, input, cached, output }
}

/// The list prices of the Gemini API for prompts of up to 200,000 tokens.
const PRICES: &[Price] = &[
    price("gemini-3.5-flash", 1.5, 0.15, 9.0),
    price("gemini-3.1-flash-lite", 0.25, 0.025, 1.5),
    price("gemini-3.1-pro", 2.0, 0.2, 12.0),
    price("gemini-3-pro", 2.0, 0.2, 12.0),
    price("gemini-3-flash", 0.5, 0.05, 3.0),
    price("gemini-2.5-flash-lite", 0.1, 0.01, 0.4),
    price("gemini-2.5-flash", 0.3, 0.03, 2.5),
    price("gemini-2.5-pro", 1.25, 0.125, 10.0),
];

/// The cost in dollars; `None` for a model that is not listed.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn estimate(model: &str, usage: &Usage) -> Option<f64> {
    let price = PRICES.iter().find(|price| model.starts_with(price.model))?;
    let fresh = usage.input.saturating_sub(usage.cached) + usage.tool_input;
    let written = usage.output + usage.reasoning;
    let sum = fresh as f64 * price.input + usage.cached as f64 * price.cached + written as f64 * price.output;
    Some(sum / 1_000_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_of_a_name_decides() {
        let usage = Usage { input: 2_000_000, cached: 1_000_000, output: 1_000_000, ..Usage::default() };
        let cents = |model: &str| estimate(model, &usage).map(|dollars| (dollars * 1000.0).round());
        assert_eq!(cents("gemini-2.5-flash-lite-preview"), Some(510.0));
        assert_eq!(cents("gemini-2.5-flash"), Some(2830.0));
        assert_eq!(cents("a-model-of-mine"), None);
    }
}
