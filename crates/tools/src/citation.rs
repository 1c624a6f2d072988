//! Inserts citation marks into a grounded reply and lists its sources.

use pollux_domain::content::Part;
use pollux_domain::model::{GroundingInfo, ReplyChunk};

/// The text of a reply, without thoughts.
pub(crate) fn spoken(reply: &ReplyChunk) -> String {
    reply.parts.iter().filter_map(Part::spoken_text).collect()
}

/// Puts `[n]` where a source is used and appends the list of sources. Without sources the text stays.
pub(crate) fn cited(text: &str, info: &GroundingInfo, nameless: &str) -> String {
    if info.sources.is_empty() {
        return text.to_owned();
    }
    let mut marks: Vec<(usize, String)> = info
        .supports
        .iter()
        .filter(|support| !support.sources.is_empty())
        .map(|support| {
            let mark = support.sources.iter().map(|index| format!("[{}]", index.saturating_add(1))).collect();
            let end = usize::try_from(support.end).unwrap_or(usize::MAX);
            // The model counts bytes; one that falls into a character means the character before.
            (text.floor_char_boundary(end.min(text.len())), mark)
        })
        .collect();
    marks.sort_by_key(|(end, _)| *end);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (end, mark) in marks {
        out.push_str(text.get(from..end).unwrap_or_default());
        out.push_str(&mark);
        from = end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out.push_str("\n\nSources:\n");
    let lines: Vec<String> = info
        .sources
        .iter()
        .enumerate()
        .map(|(index, source)| {
            let title = source.title.as_deref().unwrap_or("Untitled");
            format!("[{}] {title} ({})", index + 1, source.uri.as_deref().unwrap_or(nameless))
        })
        .collect();
    out.push_str(&lines.join("\n"));
    out
}

#[cfg(test)]
mod tests {
    use pollux_domain::model::{GroundingSource, GroundingSupport};

    use super::*;

    /// Ends of stretches with their sources.
    type Supports = [(u64, &'static [u64])];

    fn info(supports: &Supports) -> GroundingInfo {
        GroundingInfo {
            sources: vec![
                GroundingSource { title: Some("A".into()), uri: Some("https://a".into()) },
                GroundingSource::default(),
            ],
            supports: supports
                .iter()
                .map(|(end, sources)| GroundingSupport { end: *end, sources: sources.to_vec() })
                .collect(),
            pages: Vec::new(),
        }
    }

    #[test]
    fn marks_stand_at_byte_offsets_of_any_text() {
        let sources = "\n\nSources:\n[1] A (https://a)\n[2] Untitled (No URI)";
        let cases: &[(&str, &Supports, &str)] = &[
            ("one two", &[(3, &[0]), (7, &[1, 0])], "one[1] two[2][1]"),
            ("日本語 text", &[(9, &[0])], "日本語[1] text"),
            ("日本語", &[(4, &[0])], "日[1]本語"),
            ("é😀é", &[(8, &[1]), (2, &[0])], "é[1]😀é[2]"),
            ("short", &[(9999, &[0])], "short[1]"),
            ("short", &[(u64::MAX, &[u64::MAX])], &format!("short[{}]", u64::MAX)),
            ("same", &[(4, &[0]), (4, &[1])], "same[1][2]"),
            ("none", &[(2, &[])], "none"),
        ];
        for (text, supports, expected) in cases {
            assert_eq!(cited(text, &info(supports), "No URI"), format!("{expected}{sources}"));
        }
        assert_eq!(cited("plain", &GroundingInfo::default(), ""), "plain");
    }
}
