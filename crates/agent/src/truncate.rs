//! Truncates long tool output to its head and tail; the full output is saved to a file that the model can read.

use std::path::{Path, PathBuf};

use pollux_config::groups::Tools;
use pollux_domain::id::{CallId, SessionId};

/// Cuts a text for the model.
pub(crate) fn excerpt(text: &str, threshold: usize, saved_at: &Path) -> String {
    let count = text.chars().count();
    let head = threshold / 5;
    let tail = threshold - head;
    let omitted = count.saturating_sub(head + tail);
    let head_text: String = text.chars().take(head).collect();
    let tail_text: String = text.chars().skip(count.saturating_sub(tail)).collect();
    format!(
        "Output too large. Showing first {} and last {} characters. For full output see: {}\n{head_text}\n\n\
         ... [{} characters omitted] ...\n\n{tail_text}",
        grouped(head),
        grouped(tail),
        saved_at.display(),
        grouped(omitted),
    )
}

/// The threshold in characters, if the text is over it.
pub(crate) fn exceeded(text: &str, settings: &Tools, window_left: u64) -> Option<usize> {
    let set = usize::try_from(settings.truncate_threshold).ok().filter(|limit| *limit > 0)?;
    let room = usize::try_from(window_left.saturating_mul(4)).unwrap_or(usize::MAX).max(1_000);
    let threshold = set.min(room);
    // Bytes are at least as many as characters: the common short case needs no counting.
    (text.len() > threshold && text.chars().count() > threshold).then_some(threshold)
}

/// Where the whole output of a call is kept.
pub(crate) fn file_for(temp_dir: &Path, session: &SessionId, tool: &str, call: &CallId) -> PathBuf {
    let tool = safe(tool);
    let call = safe(call.as_str());
    let name = if call.starts_with(&tool) { call } else { format!("{tool}_{call}") };
    folder(temp_dir, session).join(format!("{name}.txt"))
}

/// The folder of a session's saved outputs.
pub(crate) fn folder(temp_dir: &Path, session: &SessionId) -> PathBuf {
    temp_dir.join("tool-outputs").join(format!("session-{}", safe(session.as_str())))
}

/// Saves a text with restricted access.
pub(crate) fn save(path: &Path, text: impl AsRef<[u8]>) -> std::io::Result<()> {
    std::io::Write::write_all(&mut create(path)?, text.as_ref())
}

/// Creates a file with restricted access, and its folder if need be.
fn create(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).or_else(|error| match path.parent() {
        Some(parent) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir_all(parent)?;
            options.open(path)
        }
        _ => Err(error),
    })
}

/// A name that is a single part of a path whatever it held.
pub(crate) fn safe(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c.to_ascii_lowercase() } else { '_' })
        .take(120)
        .collect()
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excerpt_names_its_parts_and_the_file() {
        let text = excerpt(&"x".repeat(50_000), 10_000, Path::new("/t/out.txt"));
        assert!(text.starts_with(
            "Output too large. Showing first 2,000 and last 8,000 characters. For full output see: /t/out.txt\n"
        ));
        assert!(text.contains("... [40,000 characters omitted] ..."));
    }

    #[test]
    fn files_are_named_safely_and_the_tool_is_not_doubled() {
        let id = SessionId::from_file("a/b");
        let path =
            file_for(Path::new("/t"), &id, "run_shell_command", &CallId::new("run_shell_command", "X/../1"));
        assert_eq!(path, Path::new("/t/tool-outputs/session-a_b/run_shell_command__x____1.txt"));
    }

    #[test]
    fn a_threshold_of_zero_never_cuts() {
        let tools = |threshold| Tools { truncate_threshold: threshold, ..Default::default() };
        assert_eq!(exceeded(&"x".repeat(100), &tools(0), 1_000_000), None);
        assert_eq!(exceeded(&"x".repeat(100), &tools(50), 1_000_000), Some(50));
        assert_eq!(exceeded(&"é".repeat(40), &tools(50), 1_000_000), None);
    }
}
