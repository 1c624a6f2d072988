use super::*;

fn note(text: &str) -> Document {
    let lines = text.split('\n').enumerate();
    let lines = lines.map(|(index, text)| SourceLine {
        number: index + 1,
        text: text.to_owned(),
        provenance: Provenance::Owner,
    });
    Document { lines: lines.collect(), hash: String::new(), date: None }
}

fn cut(text: &str, path: &str, mode: ChunkMode, tokens: usize, overlap: usize) -> Vec<Chunk> {
    chunks(&note(text), path, Source::Memory, Chunking { mode, tokens, overlap })
}

fn places(chunks: &[Chunk]) -> Vec<(usize, usize)> {
    chunks.iter().map(|chunk| (chunk.start_line, chunk.end_line)).collect()
}

#[test]
fn lines_are_gathered_up_to_the_limit_and_the_last_ones_are_carried() {
    // 32 characters for each chunk, 8 for the overlap; a line costs 10.
    let text = "aaaaaaaaa\nbbbbbbbbb\nccccccccc\nddddddddd\neeeeeeeee";
    let chunks = cut(text, "memory/a.md", ChunkMode::Seed, 8, 2);
    assert_eq!(places(&chunks), [(1, 3), (3, 5)]);
    assert_eq!(chunks[1].text, "ccccccccc\nddddddddd\neeeeeeeee");
    assert_eq!(chunks[1].hash, sha256_hex(chunks[1].text.as_bytes()));
}

#[test]
fn a_long_line_is_cut_and_blank_chunks_are_dropped() {
    let chunks = cut(&"x".repeat(70), "memory/a.md", ChunkMode::Seed, 8, 0);
    assert_eq!(chunks.iter().map(|chunk| chunk.text.len()).collect::<Vec<_>>(), [32, 32, 6]);
    assert_eq!(places(&chunks), [(1, 1); 3]);
    assert!(cut("\n \n\n", "memory/a.md", ChunkMode::Seed, 8, 0).is_empty());
    let wide = cut(&"🦀".repeat(40), "memory/a.md", ChunkMode::Seed, 8, 0);
    assert_eq!(wide[0].text.chars().count(), 16, "two units each");
}

#[test]
fn carried_lines_are_not_counted_again_as_upstream() {
    // The carried line of 32 makes the second chunk larger than the limit.
    let text = format!("{}\n{}", "a".repeat(32), "b".repeat(30));
    let chunks = cut(&text, "memory/a.md", ChunkMode::Seed, 8, 2);
    assert_eq!(places(&chunks), [(1, 1), (1, 2)]);
    let chunks = cut(&text, "memory/a.md", ChunkMode::V2, 8, 2);
    assert_eq!(places(&chunks), [(1, 1), (2, 2)]);
}

#[test]
fn v2_starts_chunks_at_headings_and_items_and_keeps_their_trail() {
    let text = "# Home\nintro\n## Ports\n- [2026-01-02] web 8080\n- db 5432\n```\n# no heading\n```";
    let curated = cut(text, "MEMORY.md", ChunkMode::V2, 400, 80);
    assert_eq!(places(&curated), [(1, 2), (3, 3), (4, 4), (5, 6), (7, 8)]);
    assert_eq!(curated[2].trail, "Home > Ports");
    assert_eq!(curated[2].date.as_deref(), Some("2026-01-02"));
    assert_eq!(curated[2].embedded(ChunkMode::V2), "2026-01-02 Home > Ports\n- [2026-01-02] web 8080");
    assert_eq!(curated[2].embedded(ChunkMode::Seed), curated[2].text);
    assert_eq!(curated[4].trail, "Home > Ports", "a fence holds no headings");
    let plain = cut(text, "memory/2026-03-04-x.md", ChunkMode::V2, 400, 80);
    assert_eq!(plain[0].date.as_deref(), Some("2026-03-04"));
}

#[test]
fn the_identity_of_a_chunk_is_the_documented_one() {
    let chunk = &cut("hello", "MEMORY.md", ChunkMode::Seed, 400, 80)[0];
    let expected = sha256_hex(format!("memory:MEMORY.md:1:1:{}:m", sha256_hex(b"hello")).as_bytes());
    assert_eq!(chunk.id(Source::Memory, "MEMORY.md", "m"), expected);
}
