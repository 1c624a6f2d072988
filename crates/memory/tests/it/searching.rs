use pollux_memory::{ChunkMode, Provenance, Request, SearchMode, Source, render};

use crate::scratch::{Scratch, ask, paths};

fn seed(query: &str) -> Request {
    Request { mode: Some(SearchMode::Seed), ..Request::new(query) }
}

#[tokio::test]
async fn the_parts_of_a_score_are_reported_and_sum_to_it() {
    let scratch = Scratch::new();
    for (day, text) in [("2026-06-01", "tea is in the kitchen"), ("2025-01-01", "coffee is in the cellar")] {
        scratch.note(&format!("memory/{day}.md"), text);
    }
    scratch.note("MEMORY.md", "The kitchen has fooBar_baz tea.");
    let (memory, _) = scratch.synced().await;
    for query in ["where is the tea", "fooBar_baz", "coffee cellar"] {
        for request in [Request::new(query), seed(query)] {
            for hit in memory.search(&request).await.unwrap().hits {
                assert!((hit.explain.sum() - hit.score).abs() < 1e-6);
                assert!((-1e-9..=1.0 + 1e-9).contains(&hit.score), "{hit:?}");
            }
        }
    }
}

#[tokio::test]
async fn seed_mode_is_the_documented_formula() {
    let scratch = Scratch::new();
    for (name, text) in [("a", "red green blue"), ("b", "red green"), ("c", "yellow")] {
        scratch.note(&format!("memory/{name}.md"), text);
    }
    let (memory, _) = scratch.synced().await;
    let answer = memory.search(&seed("red green")).await.unwrap();
    assert_eq!(paths(&answer), ["memory/b.md", "memory/a.md"]);
    for hit in &answer.hits {
        let cosine = hit.explain.cosine.unwrap();
        assert!((hit.score - (0.7 * cosine + 0.3)).abs() < 1e-6, "words always count 1");
    }
    // Words alone are below the least score.
    let words = Scratch::without_vectors();
    words.note("memory/a.md", "red green blue");
    let (memory, _) = words.synced().await;
    assert!(memory.search(&seed("red green")).await.unwrap().hits.is_empty());
    assert_eq!(paths(&ask(&memory, "red green").await), ["memory/a.md"]);
}

#[tokio::test]
async fn the_vector_table_and_the_numbers_in_the_text_agree() {
    let mut hits = Vec::new();
    for vector in [true, false] {
        let mut scratch = Scratch::new();
        scratch.settings.store.vector = vector;
        for number in 0..30 {
            scratch.note(
                &format!("memory/{number}.md"),
                &format!("subject{} word{} thing{number}", number % 3, number % 5),
            );
        }
        let (memory, _) = scratch.synced().await;
        let tables = scratch.count("SELECT count(*) FROM sqlite_master WHERE name = 'chunks_vec'");
        assert_eq!(tables == 1, vector, "sqlite-vec is linked in");
        let found = memory.search(&seed("subject1 word2 thing7")).await.unwrap();
        hits.push(
            found
                .hits
                .iter()
                .map(|hit| (hit.path.clone(), (hit.score * 1e4).round() as i64))
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(hits[0], hits[1]);
    assert!(!hits[0].is_empty());
}

#[tokio::test]
async fn names_of_code_other_scripts_and_word_forms_are_found() {
    let scratch = Scratch::without_vectors();
    for (name, text) in [
        ("ids", "The helper fooBar_baz came with commit a828e60 in src/net/retry.rs"),
        ("other", "foo bar baz retry net src helper commit, all apart"),
        ("japanese", "会議は東京の本社で行われます"),
        ("chinese", "我们在北京的办公室讨论了预算"),
        ("russian", "Встреча с клиентом прошла в Москве"),
        ("english", "She was running marathons in several cities"),
    ] {
        scratch.note(&format!("memory/{name}.md"), text);
    }
    let (memory, _) = scratch.synced().await;
    for (query, expected) in [
        ("fooBar_baz", "ids"),
        ("foobar_ba", "ids"),
        ("where is fooBar_baz?", "ids"),
        ("a828e60", "ids"),
        ("src/net/retry.rs", "ids"),
        ("東京の会議", "japanese"),
        ("本社", "japanese"),
        ("北京预算", "chinese"),
        ("встреча москве", "russian"),
        ("run a marathon", "english"),
        ("english.md", "english"),
        ("russian", "russian"),
    ] {
        let answer = ask(&memory, query).await;
        assert_eq!(
            paths(&answer).first().copied(),
            Some(format!("memory/{expected}.md").as_str()),
            "{query}"
        );
    }
    assert!(ask(&memory, "\"AND OR NOT NEAR( * ^ ' \u{0}").await.hits.len() < 6, "no operator gets through");
}

/// Notes with one word of interest each, and what should find them first.
const FORMS: &[(&str, &str, &[&str])] = &[
    ("ru", "Резервные копии хранятся на сервере в Рейкьявике.", &["Рейкьявик", "резервная копия", "сервер"]),
    (
        "de",
        "Die Rechnungen werden am Freitag verschickt.",
        &["Rechnung", "Rechnungen", "wann kommt die Rechnung"],
    ),
    ("haus", "Drei Häuser stehen am Ufer.", &["Haus", "häuser", "haeuser ufer"]),
    ("tr", "Kitaplarımızdan biri kayboldu.", &["kitap", "kitaplar"]),
    (
        "compound",
        "Der Überweisungsauftrag ruht am Sonntag.",
        &["Auftrag", "überweisung", "Überweisungsaufträge"],
    ),
    ("parts", "Das Gesetz zum Verkehrswesen.", &["Verkehrswesengesetz"]),
    ("undo", "rollback is `make undo`", &["how do I roll back a release", "rollbacks", "roll-back"]),
    ("apart", "You can check out the tree again.", &["checkout"]),
    ("pl", "Faktury wysyłamy w piątek.", &["faktura", "fakturze"]),
    ("fi", "Palvelimella on varmuuskopioita.", &["palvelin varmuuskopio", "varmuuskopiot"]),
];

#[tokio::test]
async fn words_find_their_longer_shorter_and_joined_forms() {
    for scratch in [Scratch::without_vectors(), Scratch::new()] {
        for (name, text, _) in FORMS {
            scratch.note(&format!("memory/{name}.md"), text);
        }
        let (memory, _) = scratch.synced().await;
        for (name, _, queries) in FORMS {
            for query in *queries {
                let answer = ask(&memory, query).await;
                assert_eq!(
                    paths(&answer).first().copied(),
                    Some(format!("memory/{name}.md").as_str()),
                    "{query}"
                );
            }
        }
        for query in ["Quastenflosser", "xyz", "Берлин"] {
            let answer = ask(&memory, query).await;
            assert!(answer.hits.iter().all(|hit| hit.explain.keyword.is_none()), "{query}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn the_word_itself_comes_before_its_other_forms() {
    let scratch = Scratch::without_vectors();
    // The exact one is long and has the word once; the others are short and have it often.
    let filler = "und noch vieles mehr davon ".repeat(40);
    scratch.note("memory/exact.md", &format!("{filler} Rechnung {filler}"));
    scratch.note("memory/longer.md", "Rechnungen Rechnungen Rechnungen");
    scratch.note("memory/joined.md", "Rechnungswesen");
    scratch.note("memory/friday.md", "Freitag ist frei, und Freitag ist gut.");
    scratch.note("memory/both.md", "Rechnungen am Freitag");
    let (memory, _) = scratch.synced().await;
    let found = ask(&memory, "Rechnung").await;
    assert_eq!(paths(&found)[0], "memory/exact.md");
    for other in ["longer", "joined", "both"] {
        assert!(
            paths(&found).contains(&format!("memory/{other}.md").as_str()),
            "{other}: {:?}",
            paths(&found)
        );
    }
    let found = ask(&memory, "Rechnung Freitag").await;
    assert_eq!(paths(&found)[0], "memory/both.md", "a form adds to what has another word");
}

#[tokio::test]
async fn a_large_index_looks_at_a_bounded_number_of_rows() {
    let scratch = Scratch::without_vectors();
    for file in 0..30 {
        let lines: Vec<String> = (0..90)
            .map(|line| {
                format!("## h{line}\nverkehrsmittel{} und Zahlungsverkehr {file}\n", words(file * 90 + line))
            })
            .collect();
        scratch.note(&format!("memory/{file}.md"), &lines.join("\n"));
    }
    scratch.note("memory/hit.md", "Die Rechnungen werden am Freitag verschickt.");
    let mut scratch = scratch;
    scratch.settings.chunking.mode = ChunkMode::V2;
    let (memory, synced) = scratch.synced().await;
    assert!(synced.chunks_written > 2000, "{synced:?}");
    assert_eq!(paths(&ask(&memory, "Rechnung").await).first().copied(), Some("memory/hit.md"));
    let request = Request { max_results: Some(200), ..Request::new("Verkehr") };
    let found = memory.search(&request).await.unwrap();
    assert!((64..=128).contains(&found.hits.len()), "{}", found.hits.len());
}

/// A number in letters.
fn words(number: usize) -> String {
    number.to_string().bytes().map(|digit| char::from(b'a' + digit - b'0')).collect()
}

#[tokio::test]
async fn a_snippet_shows_what_was_searched_for() {
    for scratch in [Scratch::without_vectors(), Scratch::new()] {
        let mut lines: Vec<String> = (0..17)
            .map(|line| format!("{line} the usual words about nothing at all, again and again and again"))
            .collect();
        lines.insert(13, "the lighthouse keeper is called Marguerite".into());
        scratch.note("memory/long.md", &lines.join("\n"));
        let (memory, _) = scratch.synced().await;
        let hit = ask(&memory, "who is the lighthouse keeper").await.hits.remove(0);
        assert!(hit.snippet.contains("Marguerite") && hit.snippet.starts_with('…'), "{}", hit.snippet);
        let shown: String = hit.snippet.chars().skip(hit.focus).take(10).collect();
        assert_eq!(shown, "lighthouse");
        assert!(render(&[hit], false).contains("Marguerite"));
        let seed =
            memory.search(&Request { min_score: Some(0.0), ..seed("lighthouse keeper") }).await.unwrap();
        assert!(seed.hits.iter().all(|hit| hit.snippet.starts_with("0 the usual")), "as it was");
    }
}

#[tokio::test]
async fn of_fifty_changed_facts_the_newest_comes_first_and_the_old_ones_stay() {
    for scratch in [Scratch::new(), Scratch::without_vectors()] {
        let subjects: Vec<String> =
            (0..50).map(|number| format!("service{number} of team{}", number % 7)).collect();
        for (month, value) in [("2026-01", "db1"), ("2026-03", "db2"), ("2026-05", "db3")] {
            for (number, subject) in subjects.iter().enumerate() {
                let day = number % 28 + 1;
                scratch.note(
                    &format!("memory/{month}-{day:02}-{number}.md"),
                    &format!("The database host of {subject} is {value}.internal now."),
                );
            }
        }
        let (memory, _) = scratch.synced().await;
        let (mut newest, mut reachable) = (0, 0);
        for subject in &subjects {
            let answer = ask(&memory, &format!("What is the database host of {subject}?")).await;
            newest += usize::from(answer.hits[0].snippet.contains("db3"));
            reachable += usize::from(
                answer
                    .hits
                    .iter()
                    .any(|hit| hit.snippet.contains("db1") && hit.snippet.contains(subject.as_str())),
            );
        }
        assert!(newest >= 48, "{newest} of 50");
        assert_eq!(reachable, 50);
    }
}

#[tokio::test]
async fn dates_and_headings_are_found_though_they_are_not_in_the_text() {
    let mut scratch = Scratch::without_vectors();
    scratch.settings.chunking.mode = ChunkMode::V2;
    scratch.note("memory/2026-06-14.md", "# Standup\n## Payments team\nThe queue was stuck.");
    scratch.note("memory/2026-02-02.md", "# Standup\n## Search team\nThe index was slow.");
    let (memory, _) = scratch.synced().await;
    for query in ["what happened yesterday", "payments team", "june 14", "2026-06-14"] {
        let answer = ask(&memory, query).await;
        assert_eq!(paths(&answer)[0], "memory/2026-06-14.md", "{query}");
        assert!(!answer.hits[0].snippet.contains("june"), "the stored text is the note's");
    }
    let hit = ask(&memory, "stuck queue").await.hits.remove(0);
    assert_eq!(
        (hit.citation().as_str(), hit.date.as_deref()),
        ("memory/2026-06-14.md#L2-L3", Some("2026-06-14"))
    );
}

#[tokio::test]
async fn sources_are_kept_apart_and_everything_knows_who_wrote_it() {
    let scratch = Scratch::new();
    scratch.note("MEMORY.md", "the launch code word is walnut");
    scratch.said("s1", &[("user", "the launch code word was chestnut")]);
    scratch.said("s2", &[("assistant", "maybe the code word is hazel")]);
    let (memory, _) = scratch.synced().await;
    let only = |source| Request { source: Some(source), ..Request::new("launch code word") };
    let notes = memory.search(&only(Source::Memory)).await.unwrap();
    assert_eq!(paths(&notes), ["MEMORY.md"]);
    let mut sessions = memory.search(&only(Source::Sessions)).await.unwrap();
    sessions.hits.sort_by(|a, b| a.path.cmp(&b.path));
    let who: Vec<_> = sessions.hits.iter().map(|hit| (hit.path.as_str(), hit.provenance)).collect();
    assert_eq!(who, [("sessions/s1.jsonl", Provenance::Owner), ("sessions/s2.jsonl", Provenance::Agent)]);
    assert_eq!(sessions.hits[0].citation(), "sessions/s1.jsonl#L2", "the line of the transcript");
    let mut scratch = scratch;
    scratch.trusted = false;
    scratch.note("MEMORY.md", "the launch code word is walnut!");
    let (memory, _) = scratch.synced().await;
    let answer = memory.search(&only(Source::Memory)).await.unwrap();
    assert_eq!(answer.hits[0].provenance, Provenance::Untrusted);
    assert!(render(&answer.hits, true).contains("MEMORY.md#L1 source=memory from=untrusted"));
}

#[tokio::test]
async fn lines_of_notes_can_be_read_and_nothing_else() {
    let scratch = Scratch::without_vectors();
    let lines: Vec<String> = (1..=300).map(|line| format!("line {line}")).collect();
    scratch.note("memory/long.md", &lines.join("\n"));
    scratch.note("secrets.env", "x");
    std::fs::create_dir_all(scratch.root().join("workspace-evil")).unwrap();
    std::fs::write(scratch.root().join("workspace-evil/x.md"), "evil").unwrap();
    std::os::unix::fs::symlink(
        scratch.root().join("workspace-evil/x.md"),
        scratch.workspace().join("memory/link.md"),
    )
    .unwrap();
    let memory = scratch.memory();
    let some = memory.get("memory/long.md", Some(5), Some(2)).await.unwrap();
    assert_eq!((some.text.as_str(), some.next, some.total_lines), ("line 5\nline 6", Some(7), 300));
    let all = memory.get("memory/long.md", None, None).await.unwrap();
    assert_eq!((all.lines, all.next), (120, Some(121)));
    for path in [
        "secrets.env",
        "memory/../secrets.env",
        "memory/../../workspace-evil/x.md",
        "../memory/long.md",
        "/etc/passwd",
        "memory/link.md",
        "sessions/s.jsonl",
        "",
    ] {
        assert!(memory.get(path, None, None).await.is_err(), "{path}");
    }
    let missing = memory.get("memory/none.md", None, None).await.unwrap_err();
    assert!(matches!(missing, pollux_memory::GetError::NotFound { .. }));
}
