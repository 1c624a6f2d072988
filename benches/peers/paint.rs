//! How long a program takes until its interface accepts input, on a terminal that answers as real ones do.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use pollux_test_support::Screen;

use crate::measure::Cost;

/// Questions to a terminal and its answers; that about the cursor is answered with its place. A program that waited for
/// an answer in vain would look slow.
const ANSWERS: [(&[u8], &str); 8] = [
    (b"\x1b[6n", ""),
    (b"\x1b[c", "\x1b[?62;22c"),
    (b"\x1b[?u", "\x1b[?0u"),
    (b"\x1b[>0q", "\x1bP>|XTerm(390)\x1b\\"),
    (b"\x1b[14t", "\x1b[4;760;900t"),
    (b"\x1b]10;?", "\x1b]10;rgb:cdcd/d6d6/f4f4\x1b\\"),
    (b"\x1b]11;?", "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"),
    (b"\x1b[?2026$p", "\x1b[?2026;2$y"),
];
const LONGEST: usize = 9;

/// The time until the window shows `ready`. The memory is that of all its processes after some idle time; none is
/// measured if there is no such time.
pub(crate) fn first_paint(
    command: &Command,
    ready: &str,
    limit: Duration,
    idle: Duration,
) -> Result<Cost, String> {
    let started = Instant::now();
    let screen = Screen::start(command, 100, 40);
    let mut answered = 0;
    let wall = loop {
        answered = answer(&screen, answered);
        if screen.text().contains(ready) {
            break started.elapsed();
        }
        if started.elapsed() > limit {
            println!("  no `{ready}` in the window:\n{}", screen.text());
            return Err(format!("showed no prompt within {} s", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(300));
    };
    let shown = Instant::now();
    while shown.elapsed() < idle {
        answered = answer(&screen, answered);
        std::thread::sleep(Duration::from_millis(20));
    }
    let peak_kib = if idle.is_zero() { 0 } else { memory_kib(screen.pid()) };
    Ok(Cost { wall, peak_kib, ..Cost::default() })
}

/// Answers every question after `from`; gives the place up to which all are answered.
fn answer(screen: &Screen, mut from: usize) -> usize {
    let raw = screen.raw();
    loop {
        let asked = ANSWERS.iter().filter_map(|(question, reply)| {
            let rest = raw.get(from..)?;
            let at = rest.windows(question.len()).position(|window| window == *question)?;
            Some((from + at + question.len(), *reply))
        });
        let Some((end, reply)) = asked.min() else {
            // The last bytes may be half a question.
            return from.max(raw.len().saturating_sub(LONGEST));
        };
        if reply.is_empty() {
            let (row, column) = screen.look(pollux_test_support::Window::cursor_position);
            screen.type_text(&format!("\x1b[{};{}R", row + 1, column + 1));
        } else {
            screen.type_text(reply);
        }
        from = end;
    }
}

/// Proportional memory of a process and everything it started.
fn memory_kib(root: u32) -> u64 {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let (mut waiting, mut total) = (vec![root], 0);
    while let Some(pid) = waiting.pop() {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        total += line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
        waiting.extend(children.remove(&pid).unwrap_or_default());
    }
    total
}
