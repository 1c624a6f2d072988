//! The output of the command.

use pollux_domain::model::{InfoSource, MicroUsd, ModelInfo, Prices};
use pollux_domain::terminal_text::plain;
use pollux_host::providers::set::{ModelRow, prices_as_of};
use serde_json::{Value, json};

use crate::columns::columns;

pub(super) fn list(rows: &[ModelRow], as_json: bool) -> String {
    if as_json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        return format!("{:#}\n", Value::Array(rows));
    }
    if rows.is_empty() {
        return "No known models. Run `pollux models --refresh` to query the servers.\n".to_owned();
    }
    let heading = ["model", "context", "output", "price", "capabilities", "source"].map(str::to_owned);
    let lines = rows.iter().map(|row| {
        let info = &row.info;
        [
            row.name.clone(),
            tokens(info.context_window),
            info.max_output.map_or_else(|| "-".to_owned(), tokens),
            price(row),
            capabilities(row),
            source(info.source).to_owned(),
        ]
    });
    let mut text = columns(std::iter::once(heading).chain(lines), &[1, 2, 3]);
    text.push_str(&format!(
        "\nPrices are USD per million input/output tokens, as of {}; `≈` marks prices that sources disagree on.\n",
        prices_as_of()
    ));
    plain(&text).into_owned()
}

fn row_json(row: &ModelRow) -> Value {
    let ModelInfo { provider, context_window, max_output, caps, prices, source: said_by, id, .. } = &row.info;
    let efforts: Vec<&str> = caps.efforts.iter().map(|effort| effort.as_str()).collect();
    json!({
        "name": row.name,
        "provider": provider.as_str(),
        "model": id,
        "context": context_window,
        "output": max_output,
        "price": prices.as_ref().map(price_json),
        "priceApproximate": row.approximate,
        "pricesAsOf": prices_as_of(),
        "tools": caps.tools,
        "images": caps.images,
        "pdf": caps.pdf,
        "reasoning": caps.reasoning,
        "efforts": efforts,
        "ends": row.ends,
        "source": source(*said_by),
    })
}

fn price_json(prices: &Prices) -> Value {
    json!({
        "input": dollars(prices.input),
        "output": dollars(prices.output),
        "cacheRead": dollars(prices.cached),
        "cacheWrite": dollars(prices.cache_write),
        "above": prices.above.as_ref().map(|(tokens, prices)| json!({
            "tokens": tokens,
            "input": dollars(prices.input),
            "output": dollars(prices.output),
            "cacheRead": dollars(prices.cached),
            "cacheWrite": dollars(prices.cache_write),
        })),
    })
}

fn source(source: InfoSource) -> &'static str {
    match source {
        InfoSource::Catalogue => "catalogue",
        InfoSource::User => "user",
        InfoSource::Server => "server",
        InfoSource::Guess => "guess",
    }
}

fn capabilities(row: &ModelRow) -> String {
    let caps = &row.info.caps;
    let words = [("tools", caps.tools), ("images", caps.images), ("reasoning", caps.reasoning)];
    let words: Vec<&str> = words.into_iter().filter(|(_, able)| *able).map(|(word, _)| word).collect();
    let words = if words.is_empty() { "-".to_owned() } else { words.join(",") };
    match &row.ends {
        Some(date) => format!("{words} (until {date})"),
        None => words,
    }
}

fn price(row: &ModelRow) -> String {
    let mark = if row.approximate { "≈" } else { "" };
    match &row.info.prices {
        Some(prices) if prices.input.0 == 0 && prices.output.0 == 0 => "free".to_owned(),
        Some(prices) => format!("{mark}{}/{}", dollars(prices.input), dollars(prices.output)),
        None => "-".to_owned(),
    }
}

/// USD. Prices are small enough to be exact as a float.
#[expect(clippy::cast_precision_loss, reason = "prices are far below 2^52 millionths")]
fn dollars(amount: MicroUsd) -> f64 {
    amount.0 as f64 / 1e6
}

/// A count of tokens as people read it: `131k`, `1.05M`.
fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => {
            let hundredths = count / 10_000;
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{}M", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn counts_are_short() {
        let cases = [(512, "512"), (8_192, "8k"), (131_072, "131k"), (1_000_000, "1M"), (1_048_576, "1.04M")];
        for (count, shown) in cases {
            assert_eq!(tokens(count), shown);
        }
    }
}
