//! A file of gimli opens here, and ours opens there.

use pollux_config::paths::sha256_hex;
use pollux_memory::{AgentId, Space};

use crate::scratch::{Scratch, ask, paths};

/// As the document of the format has them.
const TABLES: &[(&str, &[&str])] = &[
    ("meta", &["key", "value"]),
    ("files", &["path", "source", "hash", "mtime", "size"]),
    (
        "chunks",
        &[
            "id",
            "path",
            "source",
            "start_line",
            "end_line",
            "hash",
            "model",
            "text",
            "embedding",
            "updated_at",
        ],
    ),
    ("embedding_cache", &["provider", "model", "provider_key", "hash", "embedding", "dims", "updated_at"]),
    ("chunks_fts", &["text", "id", "path", "source", "model", "start_line", "end_line"]),
];

#[tokio::test]
async fn the_six_tables_are_as_documented_and_a_foreign_program_reads_them() {
    let scratch = Scratch::new().with_space(Space::Shared);
    scratch.note("MEMORY.md", "the answer is forty two");
    scratch.synced().await;
    let database = scratch.database();
    for (table, columns) in TABLES {
        let mut statement =
            database.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        let found: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, *columns, "{table}");
    }
    let sql: String = database
        .query_row("SELECT sql FROM sqlite_master WHERE name = 'chunks_vec'", [], |row| row.get(0))
        .unwrap();
    assert!(sql.ends_with("USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[64])"), "{sql}");
    let (id, hash, embedding): (String, String, String) = database
        .query_row("SELECT f.id, c.hash, c.embedding FROM chunks_fts f JOIN chunks c ON c.id = f.id WHERE chunks_fts MATCH '\"forty\" AND \"two\"' AND f.model = 'toy'", [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap();
    assert_eq!(hash, sha256_hex(b"the answer is forty two"));
    assert_eq!(id, sha256_hex(format!("memory:MEMORY.md:1:1:{hash}:toy").as_bytes()));
    assert_eq!(serde_json::from_str::<Vec<f32>>(&embedding).unwrap().len(), 64);
    let meta: String = database
        .query_row("SELECT value FROM meta WHERE key = 'memory_index_meta_v1'", [], |row| row.get(0))
        .unwrap();
    let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(
        (
            meta["model"].as_str(),
            meta["chunkTokens"].as_u64(),
            meta["chunkOverlap"].as_u64(),
            meta["vectorDims"].as_u64()
        ),
        (Some("toy"), Some(400), Some(80), Some(64))
    );
}

/// What gimli leaves: no tables of ours, whole milliseconds as fractions, and an old file without sources.
fn gimli(database: &rusqlite::Connection) {
    database
        .execute_batch(
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE files (path TEXT PRIMARY KEY, hash TEXT NOT NULL, mtime INTEGER NOT NULL, size INTEGER NOT NULL);
             CREATE TABLE chunks (id TEXT PRIMARY KEY, path TEXT NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
                hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, embedding TEXT NOT NULL, updated_at INTEGER NOT NULL);
             CREATE TABLE embedding_cache (provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL, hash TEXT NOT NULL,
                embedding TEXT NOT NULL, dims INTEGER, updated_at INTEGER NOT NULL, PRIMARY KEY (provider, model, provider_key, hash));
             CREATE VIRTUAL TABLE chunks_fts USING fts5(text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED);
             INSERT INTO files VALUES ('MEMORY.md', 'x', 1700000000000.25, 5);
             INSERT INTO chunks VALUES ('id1', 'MEMORY.md', 1, 2, 'h', 'm', 'gimli knows the dwarf song', '[0.1,0.2]', 1700000000000);
             INSERT INTO chunks_fts VALUES ('gimli knows the dwarf song', 'id1', 'MEMORY.md', 'memory', 'm', 1, 2);
             INSERT INTO embedding_cache VALUES ('openai', 'm', 'pk', 'h', '[0.1,0.2]', 2, 1700000000000);
             INSERT INTO meta VALUES ('memory_index_meta_v1', '{\"model\":\"m\",\"provider\":\"openai\",\"providerKey\":\"pk\",\"chunkTokens\":400,\"chunkOverlap\":80}');",
        )
        .unwrap();
}

#[tokio::test]
async fn a_file_of_gimli_is_searched_and_completed() {
    let scratch = Scratch::without_vectors().with_space(Space::Shared);
    scratch.agent().prepare().unwrap();
    gimli(&scratch.database());
    let memory = scratch.memory();
    assert!(ask(&memory, "dwarf song").await.hits.is_empty(), "its own formula drops words alone");
    scratch.note("MEMORY.md", "gimli knows the dwarf song\nand an axe");
    let (memory, _) = scratch.synced().await;
    assert_eq!(paths(&ask(&memory, "dwarf song").await), ["MEMORY.md"]);
    assert_eq!(scratch.count("SELECT count(*) FROM embedding_cache"), 1, "nothing of its cache is lost");
    assert_eq!(scratch.count("SELECT count(*) FROM chunks"), 1);
}

#[tokio::test]
async fn what_another_program_adds_to_our_file_is_found_too() {
    let scratch = Scratch::without_vectors().with_space(Space::Shared);
    scratch.note("MEMORY.md", "ours");
    scratch.synced().await;
    scratch
        .database()
        .execute_batch(
            "INSERT INTO files VALUES ('sessions/g.jsonl', 'sessions', 'x', 1, 1);
             INSERT INTO chunks VALUES ('theirs', 'sessions/g.jsonl', 'sessions', 1, 1, 'h', 'fts-only', 'a foreign thought', '[]', 1);
             INSERT INTO chunks_fts VALUES ('a foreign thought', 'theirs', 'sessions/g.jsonl', 'sessions', 'fts-only', 1, 1);",
        )
        .unwrap();
    scratch.said("g", &[("user", "a foreign thought")]);
    let (memory, synced) = scratch.synced().await;
    assert_eq!(synced.changed, 1, "ours is as it was");
    assert_eq!(paths(&ask(&memory, "foreign thought").await), ["sessions/g.jsonl"]);
    assert_eq!(
        scratch.count("SELECT count(*) FROM chunks"),
        scratch.count("SELECT count(*) FROM chunks_fts_content")
    );
}

#[tokio::test]
async fn the_cache_of_gimlis_own_file_is_taken_over() {
    let scratch = Scratch::without_vectors().with_space(Space::Shared);
    let other = scratch.state().join("memory");
    std::fs::create_dir_all(&other).unwrap();
    gimli(
        &rusqlite::Connection::open(other.join(format!("{}.sqlite", AgentId::default().as_str()))).unwrap(),
    );
    scratch.synced().await;
    assert_eq!(scratch.count("SELECT count(*) FROM embedding_cache"), 1);
}
