//! Tables of text.

/// Rows with columns of equal width; `right` are the columns whose values stand at the right.
pub fn columns<const N: usize>(rows: impl IntoIterator<Item = [String; N]>, right: &[usize]) -> String {
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, value) in widths.iter_mut().zip(row) {
            *width = (*width).max(value.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (index, (value, width)) in row.iter().zip(widths).enumerate() {
            let gap = if index == 0 { "" } else { "  " };
            let value =
                if right.contains(&index) { format!("{value:>width$}") } else { format!("{value:<width$}") };
            line.push_str(gap);
            line.push_str(&value);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn values_stand_under_each_other() {
        let rows = [["a", "1", "x"], ["bcd", "22", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(rows, &[1]), "a     1  x\nbcd  22\n");
    }
}
