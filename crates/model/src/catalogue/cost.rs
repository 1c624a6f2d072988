//! What requests cost.

use pollux_domain::model::{MicroUsd, Prices, Usage};

const MILLION: u128 = 1_000_000;

/// What a request cost. What the provider says it charged wins, but for nothing: gateways that bill elsewhere say 0.
pub fn cost(usage: &Usage, prices: &Prices) -> MicroUsd {
    if let Some(charged) = usage.cost_reported.filter(|charged| charged.0 > 0) {
        return charged;
    }
    let prices = tier(prices, usage.input);
    let stored = usage.cache_write_short.saturating_add(usage.cache_write_long);
    let fresh = usage.input.saturating_sub(usage.cached).saturating_sub(stored);
    let fresh = fresh.saturating_add(usage.tool_input);
    let written = usage.output.saturating_add(usage.reasoning);
    // What stays longer in a cache costs twice the input where minutes cost five quarters of it.
    let long = u128::from(prices.cache_write.0) * 8 / 5;
    let sum = [
        times(fresh, prices.input),
        times(usage.cached, prices.cached),
        times(usage.cache_write_short, prices.cache_write),
        u128::from(usage.cache_write_long) * long,
        times(written, prices.output),
    ];
    rounded_up(sum.into_iter().fold(0, u128::saturating_add))
}

/// The most that a request of so many tokens can cost if its reply has so many.
pub fn worst_cost(input: u64, output: u64, prices: &Prices) -> MicroUsd {
    let prices = tier(prices, input);
    // Writing into a cache may cost more than reading.
    let dearest = prices.input.max(prices.cache_write);
    rounded_up(times(input, dearest).saturating_add(times(output, prices.output)))
}

/// How many tokens of a reply are available for so much, next to the input.
pub fn affordable_output(input: u64, money: MicroUsd, prices: &Prices) -> u64 {
    let left = money.0.saturating_sub(worst_cost(input, 0, prices).0);
    match tier(prices, input).output.0 {
        0 => u64::MAX,
        price => u64::try_from(u128::from(left) * MILLION / u128::from(price)).unwrap_or(u64::MAX),
    }
}

/// Reads an amount of dollars such as `0.075`; digits below a millionth are rounded up.
pub fn micro_usd(dollars: &str) -> Option<MicroUsd> {
    let (whole, fraction) = dollars.split_once('.').unwrap_or((dollars, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let (kept, rest) = fraction.split_at(fraction.len().min(6));
    let millionths: u64 = format!("{kept:0<6}").parse().ok()?;
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let amount = whole.checked_mul(1_000_000)?.checked_add(millionths)?;
    amount.checked_add(u64::from(rest.contains(|c| c != '0'))).map(MicroUsd)
}

/// The prices for a prompt of this size.
fn tier(prices: &Prices, input: u64) -> &Prices {
    let mut prices = prices;
    while let Some((tokens, above)) = &prices.above {
        if input <= *tokens {
            break;
        }
        prices = above;
    }
    prices
}

fn times(tokens: u64, price: MicroUsd) -> u128 {
    u128::from(tokens) * u128::from(price.0)
}

fn rounded_up(sum: u128) -> MicroUsd {
    MicroUsd(u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prices() -> Prices {
        let price = |input, output, cached, cache_write, above| Prices {
            input: MicroUsd(input),
            output: MicroUsd(output),
            cached: MicroUsd(cached),
            cache_write: MicroUsd(cache_write),
            above,
        };
        let above = price(4_000_000, 18_000_000, 400_000, 5_000_000, None);
        price(2_000_000, 12_000_000, 200_000, 2_500_000, Some((200_000, Box::new(above))))
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let usage = Usage {
            input: 130,
            cached: 100,
            cache_write_short: 10,
            cache_write_long: 10,
            output: 5,
            reasoning: 2,
            total: 137,
            ..Usage::default()
        };
        // 10 × 2 + 100 × 0.2 + 10 × 2.5 + 10 × 4 + 7 × 12
        assert_eq!(cost(&usage, &prices()), MicroUsd(20 + 20 + 25 + 40 + 84));
        let charged = Usage { cost_reported: Some(MicroUsd(3)), ..usage };
        assert_eq!(cost(&charged, &prices()), MicroUsd(3));
        let uncounted = Usage { cost_reported: Some(MicroUsd(0)), ..usage };
        assert_eq!(cost(&uncounted, &prices()), cost(&usage, &prices()), "the price counts");
        let long = Usage { input: 200_001, ..Usage::default() };
        assert_eq!(cost(&long, &prices()), MicroUsd(800_004));
        let one = Usage { cached: 1, input: 1, ..Usage::default() };
        assert_eq!(cost(&one, &prices()), MicroUsd(1), "a fraction of a millionth is one");
    }

    #[test]
    fn dollars_are_read_to_the_millionth() {
        let cases = [
            ("0", Some(0)),
            ("5", Some(5_000_000)),
            ("0.075", Some(75_000)),
            (".5", Some(500_000)),
            ("1.0000001", Some(1_000_001)),
            ("0.0000000", Some(0)),
            ("", None),
            (".", None),
            ("-1", None),
            ("1e3", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(micro_usd(text), expected.map(MicroUsd), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_request_costs_more_than_its_worst(
            input in 0u64..2_000_000, cached in 0u64..2_000_000, stored in 0u64..2_000_000,
            output in 0u64..200_000, reasoning in 0u64..200_000,
        ) {
            let usage = Usage {
                input,
                cached: cached.min(input),
                cache_write_short: stored.min(input.saturating_sub(cached)),
                output,
                reasoning,
                ..Usage::default()
            };
            prop_assert!(cost(&usage, &prices()) <= worst_cost(input, output + reasoning, &prices()));
        }

        #[test]
        fn what_can_be_afforded_is_within_the_money(input in 0u64..400_000, money in 0u64..10_000_000) {
            let output = affordable_output(input, MicroUsd(money), &prices());
            if output > 0 {
                prop_assert!(worst_cost(input, output, &prices()).0 <= money);
            }
        }

        #[test]
        fn odd_counts_do_no_harm(numbers in prop::array::uniform6(any::<u64>())) {
            let [input, cached, short, long, output, reasoning] = numbers;
            let usage = Usage {
                input, cached, cache_write_short: short, cache_write_long: long, output, reasoning,
                ..Usage::default()
            };
            cost(&usage, &prices());
            worst_cost(input, output, &prices());
            affordable_output(input, MicroUsd(output), &prices());
        }
    }
}
