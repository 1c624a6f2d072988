//! `/stats`: requests, tokens, calls and time; also shown at the end of a session.

use std::time::Duration;

use pollux_domain::budget::BudgetStatus;
use pollux_domain::model::{MicroUsd, Usage};
use pollux_domain::panel::{Panel, PanelRow};
use pollux_domain::terminal_text::one_line;
use pollux_host::models::{list_price, prices_as_of};
use pollux_output::{ApiCounts, Stats, millis};

use crate::Front;
use crate::front_end::Farewell;

/// Turns in the plot.
const PLOTTED: usize = 20;

impl Front<'_, '_> {
    /// `/stats [session|model|tools]`
    pub(super) async fn stats(&mut self, rest: &str, _conversation: &mut pollux_host::Conversation) {
        self.show_stats(rest);
    }

    /// Shows statistics at any time, also while a turn runs.
    pub(super) fn show_stats(&mut self, rest: &str) {
        let panel = match rest.trim() {
            "" | "session" => self.session_panel("Session Stats"),
            "model" | "models" => model_panel(&self.stats),
            "tool" | "tools" => tool_panel(&self.stats),
            _ => {
                self.ui.note("Usage: /stats [session|model|tools]");
                return;
            }
        };
        self.ui.panel(panel);
    }

    /// `/receipt [FILE]`: shows the receipt, or writes it to a file: JSON, or text for `.txt` and `.md`.
    pub(super) fn receipt(&mut self, rest: &str) {
        let file = rest.trim();
        if file.is_empty() {
            let text = self.receipt.text(&self.stats, list_price);
            self.ui.note(text.trim_end());
            return;
        }
        let path = self.turn.loaded.env.cwd().join(file);
        match self.receipt.save(&path, &self.stats, list_price) {
            Ok(()) => self.ui.note(&format!("Receipt written to {}.", path.display())),
            Err(error) => self.ui.error(&error.to_string()),
        }
    }

    /// Shows the statistics at the end of a session.
    pub(crate) fn show_final_stats(&mut self) {
        let panel = self.session_panel("Agent powering down. Goodbye!");
        self.ui.farewell(Farewell::Panel(panel));
    }

    fn session_panel(&self, title: &str) -> Panel {
        let stats = &self.stats;
        let auth = self.turn.auth_method(&self.model);
        let auth = auth.as_deref().unwrap_or("none");
        let mut rows =
            vec![heading("Interaction Summary"), pair("Session ID:", &self.turn.session.id.to_string())];
        rows.push(pair("Auth Method:", auth));
        rows.extend(calls(stats));
        rows.push(PanelRow::Blank);
        rows.extend(performance(stats, self.started.elapsed()));
        if !stats.models.is_empty() {
            rows.push(PanelRow::Blank);
            rows.extend(usage(stats));
        }
        if let Some(budget) = &stats.budget {
            rows.push(PanelRow::Blank);
            rows.extend(self::budget(budget));
        }
        if stats.turns.iter().filter(|turn| turn.total > 0).count() > 1 {
            rows.push(PanelRow::Blank);
            rows.extend(plot(&stats.turns));
        }
        Panel { title: title.to_owned(), rows }
    }
}

fn heading(text: &str) -> PanelRow {
    PanelRow::Heading(text.to_owned())
}

fn pair(name: &str, value: &str) -> PanelRow {
    PanelRow::Pair(name.to_owned(), value.to_owned())
}

fn calls(stats: &Stats) -> Vec<PanelRow> {
    let tools = &stats.tools;
    let mut rows =
        vec![pair("Tool Calls:", &format!("{} ( ✓ {} x {} )", tools.calls, tools.success, tools.fail))];
    if tools.calls > 0 {
        rows.push(pair("Success Rate:", &percent(tools.success, tools.calls)));
    }
    let agreed = tools.decisions.accept + tools.decisions.modify;
    let asked = agreed + tools.decisions.reject;
    if asked > 0 {
        rows.push(pair("User Agreement:", &format!("{} ({asked} reviewed)", percent(agreed, asked))));
    }
    if stats.lines_added + stats.lines_removed > 0 {
        rows.push(pair("Code Changes:", &format!("+{} -{}", stats.lines_added, stats.lines_removed)));
    }
    rows
}

fn performance(stats: &Stats, wall: Duration) -> Vec<PanelRow> {
    let api: Duration = stats.models.iter().map(|(_, model)| model.api.latency).sum();
    let tools = stats.tools.duration;
    let active = api + tools;
    let share = |part: Duration| format!("{} ({})", time(part), percent(millis(part), millis(active)));
    vec![
        heading("Performance"),
        pair("Wall Time:", &time(wall)),
        pair("Agent Active:", &time(active)),
        pair("  » API Time:", &share(api)),
        pair("  » Tool Time:", &share(tools)),
    ]
}

/// Tokens of each model, and their cost if the price is known.
fn usage(stats: &Stats) -> Vec<PanelRow> {
    let row = |name: String, api: &ApiCounts| {
        let usage = &api.usage;
        let written = usage.written();
        vec![name, api.requests.to_string(), grouped(usage.input), grouped(usage.cached), grouped(written)]
    };
    let mut table =
        vec![["Model", "Reqs", "Input Tokens", "Cache Reads", "Output Tokens"].map(str::to_owned).to_vec()];
    let (mut cost, mut unknown) = (MicroUsd(0), false);
    for (model, counts) in &stats.models {
        table.push(row(one_line(model), &counts.api));
        if counts.roles.len() > 1 {
            table.extend(counts.roles.iter().map(|(role, api)| row(format!("  ↳ {}", role.as_str()), api)));
        }
        match list_price(model, &counts.api.usage) {
            Some(amount) => cost += amount,
            None => unknown |= counts.api.usage.total > 0,
        }
    }
    let mut rows = vec![heading("Model Usage"), PanelRow::Table(table)];
    let all = stats.usage();
    if all.cached > 0 {
        let read = |usage: &Usage| Usage { input: usage.cached, cached: usage.cached, ..Usage::default() };
        let saved = format!(
            "{} ({}) of the input tokens were cached{}.",
            grouped(all.cached),
            percent(all.cached, all.input),
            price_of(stats, &read)
        );
        rows.push(PanelRow::Text(saved));
    }
    let written = all.cache_written();
    if written > 0 {
        let write = |usage: &Usage| Usage {
            input: usage.cache_written(),
            cache_write_short: usage.cache_write_short,
            cache_write_long: usage.cache_write_long,
            ..Usage::default()
        };
        let text = format!(
            "{} input tokens were written to the cache{}.",
            grouped(written),
            price_of(stats, &write)
        );
        rows.push(PanelRow::Text(text));
    }
    if cost > MicroUsd(0) {
        let except = if unknown { ", excluding models without known prices" } else { "" };
        let text = format!("estimated {} (list prices of {}{except})", dollars(cost), prices_as_of());
        rows.push(pair("Cost:", &text));
    }
    rows
}

/// The price of a part of the tokens, where prices are known.
fn price_of(stats: &Stats, part: &dyn Fn(&Usage) -> Usage) -> String {
    let priced =
        stats.models.iter().filter_map(|(model, counts)| list_price(model, &part(&counts.api.usage)));
    let cost = priced.fold(MicroUsd(0), |mut sum, amount| {
        sum += amount;
        sum
    });
    if cost > MicroUsd(0) { format!(" ({})", dollars(cost)) } else { String::new() }
}

/// What was spent, wasted and allowed.
fn budget(status: &BudgetStatus) -> Vec<PanelRow> {
    let mut rows = vec![heading("Budget"), pair("Spent:", &BudgetStatus::in_words(&status.session))];
    if status.wasted.requests > 0 {
        rows.push(pair("Wasted:", &BudgetStatus::in_words(&status.wasted)));
    }
    rows.extend(status.scopes.iter().map(|scope| PanelRow::Text(format!("Limit per {}", scope.line()))));
    rows
}

/// An amount as people read it, to the hundredth of a cent.
fn dollars(amount: MicroUsd) -> String {
    let hundredths = amount.0.saturating_add(50) / 100;
    format!("${}.{:04}", hundredths / 10_000, hundredths % 10_000)
}

/// A bar for each turn.
fn plot(turns: &[Usage]) -> Vec<PanelRow> {
    let from = turns.len().saturating_sub(PLOTTED);
    let bars = turns
        .iter()
        .enumerate()
        .skip(from)
        .map(|(index, turn)| (format!("{}", index + 1), turn.total, grouped(turn.total)));
    vec![heading("Tokens per Turn"), PanelRow::Bars(bars.collect())]
}

fn cache_writes(api: &ApiCounts) -> u64 {
    api.usage.cache_write_short + api.usage.cache_write_long
}

fn model_panel(stats: &Stats) -> Panel {
    let title = "Model Stats For Nerds".to_owned();
    if stats.models.is_empty() {
        let rows = vec![PanelRow::Text("No API calls have been made in this session.".to_owned())];
        return Panel { title, rows };
    }
    let mut table = vec![vec!["Metric".to_owned()]];
    table[0].extend(stats.models.iter().map(|(name, _)| one_line(name)));
    let mut row = |name: &str, figure: &dyn Fn(&ApiCounts) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(stats.models.iter().map(|(_, model)| figure(&model.api)));
        table.push(cells);
    };
    row("Requests", &|api| api.requests.to_string());
    row("Errors", &|api| format!("{} ({})", api.errors, percent(api.errors, api.requests)));
    row("Avg Latency", &|api| time(average(api.latency, api.requests)));
    row("Total", &|api| grouped(api.usage.total));
    row("  ↳ Input", &|api| grouped(api.usage.input.saturating_sub(api.usage.cached)));
    row("  ↳ Cache Reads", &|api| grouped(api.usage.cached));
    if stats.models.iter().any(|(_, model)| cache_writes(&model.api) > 0) {
        row("  ↳ Cache Writes", &|api| grouped(cache_writes(api)));
    }
    row("  ↳ Thoughts", &|api| grouped(api.usage.reasoning));
    row("  ↳ Tool", &|api| grouped(api.usage.tool_input));
    row("  ↳ Output", &|api| grouped(api.usage.output));
    let roles = stats.models.iter().flat_map(|(_, model)| &model.roles).map(|(role, _)| role.as_str());
    let mut roles: Vec<&str> = roles.collect();
    roles.sort_unstable();
    roles.dedup();
    for role in roles {
        let mut cells = vec![format!("Role {role}")];
        cells.extend(stats.models.iter().map(|(_, model)| {
            let found = model.roles.iter().find(|(known, _)| known.as_str() == role);
            found.map_or_else(String::new, |(_, api)| api.requests.to_string())
        }));
        table.push(cells);
    }
    Panel { title, rows: vec![PanelRow::Table(table)] }
}

fn tool_panel(stats: &Stats) -> Panel {
    let title = "Tool Stats For Nerds".to_owned();
    if stats.by_tool.is_empty() {
        let rows = vec![PanelRow::Text("No tool calls have been made in this session.".to_owned())];
        return Panel { title, rows };
    }
    let mut table = vec![["Tool Name", "Calls", "Success Rate", "Avg Duration"].map(str::to_owned).to_vec()];
    table.extend(stats.by_tool.iter().map(|(name, totals)| {
        vec![
            one_line(name),
            totals.calls.to_string(),
            percent(totals.success, totals.calls),
            time(average(totals.duration, totals.calls)),
        ]
    }));
    let decided = &stats.tools.decisions;
    let reviewed = decided.accept + decided.reject + decided.modify;
    let rows = vec![
        PanelRow::Table(table),
        PanelRow::Blank,
        heading("User Decision Summary"),
        pair("Total Reviewed Suggestions:", &reviewed.to_string()),
        pair(" » Accepted:", &decided.accept.to_string()),
        pair(" » Rejected:", &decided.reject.to_string()),
        pair(" » Modified:", &decided.modify.to_string()),
        pair(
            " Overall Agreement Rate:",
            &match reviewed {
                0 => "--".to_owned(),
                _ => percent(decided.accept + decided.modify, reviewed),
            },
        ),
    ];
    Panel { title, rows }
}

fn average(sum: Duration, count: u64) -> Duration {
    sum.checked_div(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or_default()
}

/// `483ms`, `12.3s`, `3m 4s`, `1h 2m`.
fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        seconds => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

fn percent(part: u64, whole: u64) -> String {
    let tenths = (part * 1000 + whole / 2).checked_div(whole).unwrap_or_default();
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((percent(1, 3), percent(0, 0)), ("33.3%".to_owned(), "0.0%".to_owned()));
        let money = [49, 50, 1_234_567, 12_000_000].map(|amount| dollars(MicroUsd(amount)));
        assert_eq!(money, ["$0.0000", "$0.0001", "$1.2346", "$12.0000"]);
        let seconds = |seconds| time(Duration::from_secs_f64(seconds));
        assert_eq!([0.483, 12.34, 184.0, 3720.0].map(seconds), ["483ms", "12.3s", "3m 4s", "1h 2m"]);
    }

    #[test]
    fn each_turn_has_its_bar() {
        let turns: Vec<Usage> = (1..=30).map(|total| Usage { total, ..Usage::default() }).collect();
        let Some(PanelRow::Bars(bars)) = plot(&turns).pop() else { panic!("bars") };
        assert_eq!((bars.len(), bars[0].0.as_str(), bars[19].1), (20, "11", 30));
    }
}
