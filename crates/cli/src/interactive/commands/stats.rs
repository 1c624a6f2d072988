//! `/stats`: requests, tokens, calls and time.

use std::time::Duration;

use pollux_domain::terminal_text::one_line;

use super::super::Front;
use crate::headless::Stats;
use crate::wire;

impl Front<'_, '_> {
    /// `/stats`
    pub(super) async fn stats(&mut self, _rest: &str, _conversation: &mut wire::Conversation) {
        self.face.note(&self.stats_text());
    }

    /// What can be said at any time, also while a turn runs.
    pub(super) fn stats_text(&self) -> String {
        stats(&self.stats, self.started.elapsed()).trim_end().to_owned()
    }

    /// What the conversation came to, for whoever leaves it.
    pub(in crate::interactive) fn sum_up(&mut self) {}
}

fn stats(stats: &Stats, elapsed: Duration) -> String {
    let minutes = elapsed.as_secs() / 60;
    let mut text = format!("This conversation has taken {minutes} min {} s.\n", elapsed.as_secs() % 60);
    for (model, counts) in &stats.models {
        let (api, usage) = (&counts.api, &counts.api.usage);
        text.push_str(&format!(
            "{}: {} requests ({} failed), {} s; {} tokens in ({} of them cached), {} out\n",
            one_line(model),
            api.requests,
            api.errors,
            api.latency.as_secs(),
            usage.prompt,
            usage.cached,
            usage.candidates,
        ));
    }
    let tools = &stats.tools;
    text.push_str(&format!(
        "Calls: {} ({} succeeded, {} failed or not run), {} s\n",
        tools.calls,
        tools.success,
        tools.fail,
        tools.duration.as_secs()
    ));
    for (name, totals) in &stats.by_tool {
        text.push_str(&format!("  {}: {}\n", one_line(name), totals.calls));
    }
    text.push_str(&format!("Lines: {} added, {} removed\n", stats.lines_added, stats.lines_removed));
    text
}
