//! What a request cost.

use std::ops::AddAssign;

/// Tokens of one request and its reply.
///
/// `input` holds all that was sent: `cached`, `cache_write_short` and `cache_write_long` are parts of it. `output`
/// does not hold `reasoning`. Clients convert where their provider counts otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    /// What the model said, calls included.
    pub output: u64,
    /// Read from the provider's cache.
    pub cached: u64,
    /// Written into the provider's cache for minutes.
    pub cache_write_short: u64,
    /// Written into the provider's cache for longer.
    pub cache_write_long: u64,
    pub reasoning: u64,
    /// What tools of the provider's own added to the input.
    pub tool_input: u64,
    /// Calls of tools that run at the provider, such as a web search.
    pub server_tool_calls: u32,
    pub total: u64,
    /// What the provider says it charges.
    pub cost_reported: Option<MicroUsd>,
    /// The provider counted nothing; these are estimates.
    pub estimated: bool,
}

/// Millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(pub u64);

impl AddAssign for MicroUsd {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Usage {
    /// All that the model wrote.
    pub fn written(&self) -> u64 {
        self.output.saturating_add(self.reasoning)
    }

    /// All that was written into the provider's cache.
    pub fn cache_written(&self) -> u64 {
        self.cache_write_short.saturating_add(self.cache_write_long)
    }

    /// Adds another request's counts.
    pub fn add(&mut self, other: Usage) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_write_short = self.cache_write_short.saturating_add(other.cache_write_short);
        self.cache_write_long = self.cache_write_long.saturating_add(other.cache_write_long);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.tool_input = self.tool_input.saturating_add(other.tool_input);
        self.server_tool_calls = self.server_tool_calls.saturating_add(other.server_tool_calls);
        self.total = self.total.saturating_add(other.total);
        if let Some(cost) = other.cost_reported {
            *self.cost_reported.get_or_insert_default() += cost;
        }
        self.estimated |= other.estimated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_huge_counts_does_not_overflow() {
        let huge = Usage {
            input: u64::MAX,
            output: u64::MAX,
            reasoning: u64::MAX,
            server_tool_calls: u32::MAX,
            total: u64::MAX,
            ..Usage::default()
        };
        let mut sum = huge;
        sum.add(huge);
        assert_eq!((sum, sum.written()), (huge, u64::MAX));
    }

    #[test]
    fn a_sum_knows_what_was_charged_and_whether_any_of_it_is_a_guess() {
        let mut sum = Usage { input: 3, total: 3, ..Usage::default() };
        sum.add(Usage { output: 2, total: 2, cost_reported: Some(MicroUsd(40)), ..Usage::default() });
        assert_eq!((sum.input, sum.output, sum.total, sum.estimated), (3, 2, 5, false));
        sum.add(Usage { cost_reported: Some(MicroUsd(2)), estimated: true, ..Usage::default() });
        assert_eq!((sum.cost_reported, sum.estimated), (Some(MicroUsd(42)), true));
    }
}
