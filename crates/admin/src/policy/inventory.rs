//! The rules in force, as a table and for programs.

use serde_json::{Value, json};

/// Longest tool and condition in the table, in characters.
const WIDEST: usize = 48;

/// Everything in force, each list in the order in which it is tried.
#[derive(Debug, Default)]
pub struct Inventory {
    pub rules: Vec<InventoryLine>,
    /// Always require approval, even where a rule allows.
    pub protected: Vec<InventoryLine>,
    pub checkers: Vec<InventoryLine>,
}

/// A rule or a checker.
#[derive(Debug)]
pub struct InventoryLine {
    /// As in `4.95`.
    pub priority: f64,
    /// What it says: `allow`, `ask`, `deny`, or a checker's name.
    pub says: String,
    pub tool: String,
    pub condition: String,
    /// Modes and kinds of runs it is limited to.
    pub when: String,
    /// File and line, a setting or a flag; the rule's name, if it has one.
    pub place: String,
    pub json: Value,
}

impl Inventory {
    pub fn json(&self) -> String {
        let list =
            |lines: &[InventoryLine]| -> Vec<Value> { lines.iter().map(|line| line.json.clone()).collect() };
        let all = json!({
            "rules": list(&self.rules),
            "protected": list(&self.protected),
            "checkers": list(&self.checkers),
        });
        format!("{all:#}\n")
    }

    pub fn text(&self) -> String {
        let mut text = table("decision", &self.rules);
        let more = [
            ("Always require approval:", "decision", &self.protected),
            ("Safety checkers:", "checker", &self.checkers),
        ];
        for (title, says, lines) in more {
            if !lines.is_empty() {
                text.push_str(&format!("\n{title}\n{}", table(says, lines)));
            }
        }
        text
    }
}

fn table(says: &str, lines: &[InventoryLine]) -> String {
    let head = ["priority", says, "tool", "condition", "when", "where"].map(str::to_owned);
    let rows = lines.iter().map(|line| {
        [
            format!("{:.3}", line.priority),
            line.says.clone(),
            cut(&line.tool),
            cut(&line.condition),
            line.when.clone(),
            line.place.clone(),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| length(row, column)).max().unwrap_or_default();
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if let Some(width) = widths.get(column) {
                text.extend(std::iter::repeat_n(' ', width - length(row, column) + 2));
            }
        }
        text.push('\n');
    }
    text
}

fn length(row: &[String; 6], column: usize) -> usize {
    row.get(column).map_or(0, |cell| cell.chars().count())
}

fn cut(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    match text.chars().nth(WIDEST) {
        None => text.chars().map(one_line).collect(),
        Some(_) => text.chars().take(WIDEST - 1).map(one_line).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(says: &str, tool: &str) -> InventoryLine {
        InventoryLine {
            priority: 4.1,
            says: says.to_owned(),
            tool: tool.to_owned(),
            condition: String::new(),
            when: "plan".to_owned(),
            place: "a.toml:1".to_owned(),
            json: json!({"tool": tool}),
        }
    }

    #[test]
    fn columns_line_up_and_long_cells_are_cut() {
        let rules = vec![line("allow", "glob"), line("ask", &"ä".repeat(60))];
        let inventory = Inventory { rules, ..Inventory::default() };
        let text = inventory.text();
        let before = |line: &str| {
            line.split_once("a.toml").or(line.split_once("where")).map(|(before, _)| before.chars().count())
        };
        let starts: Vec<usize> = text.lines().filter_map(before).collect();
        assert_eq!(starts.len(), 3, "{text}");
        assert!(starts.iter().all(|at| *at == starts[0]), "{text}");
        assert!(text.contains(&format!("{}…", "ä".repeat(47))), "{text}");
        assert!(!text.contains("Safety checkers"));
    }
}
