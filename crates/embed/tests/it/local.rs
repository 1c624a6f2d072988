//! Models in folders: the tiny ones of this repository, and real ones on request.
#![expect(clippy::disallowed_methods, reason = "scratch files need no care")]

use std::fs;
use std::path::{Path, PathBuf};

use pollux_domain::embedding::{EmbedErrorKind, Embedder, Purpose};
use pollux_embed::LocalModel;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A copy of a fixture that may be changed.
pub(crate) fn copy(name: &str) -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join(name);
    fs::create_dir(&folder).unwrap();
    for file in ["model.safetensors", "tokenizer.json", "config.json"] {
        if fixture(name).join(file).exists() {
            fs::copy(fixture(name).join(file), folder.join(file)).unwrap();
        }
    }
    (scratch, folder)
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, text: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < tolerance, "{text:?}: {found} is not {expected}");
    }
}

async fn check(name: &str) {
    let (_scratch, folder) = copy(name);
    let expected = fs::read_to_string(fixture(name).join("vectors.json")).unwrap();
    let expected: Vec<(String, Vec<f32>)> = serde_json::from_str(&expected).unwrap();
    let model = LocalModel::open(&folder, None).unwrap();
    assert_eq!(model.dimensions(), expected[0].1.len());
    let texts: Vec<String> = expected.iter().map(|(text, _)| text.clone()).collect();
    let together = model.embed(&texts, Purpose::Document).await.unwrap();
    for ((text, expected), found) in expected.iter().zip(&together) {
        assert_close(found, expected, 2e-5, text);
        let alone = model.embed(std::slice::from_ref(text), Purpose::Query).await.unwrap();
        assert_close(&alone[0], found, 1e-6, text);
    }
}

#[tokio::test]
async fn an_encoder_gives_the_vectors_of_a_reference_also_for_long_texts_and_in_batches() {
    check("words").await;
}

#[tokio::test]
async fn a_static_table_gives_the_mean_of_its_rows() {
    check("pairs").await;
    // So many tokens that the whole table is read give the same.
    let (_scratch, folder) = copy("pairs");
    let model = LocalModel::open(&folder, None).unwrap();
    let texts: Vec<String> = (0..500).map(|_| "The quick brown fox".to_owned()).collect();
    let few = model.embed(&texts[..1], Purpose::Document).await.unwrap();
    let many = model.embed(&texts, Purpose::Document).await.unwrap();
    assert!(many.iter().all(|vector| *vector == few[0]));
}

#[tokio::test]
async fn a_model2vec_table_leaves_out_unknown_words_and_weighs_the_others() {
    let (_scratch, folder) = copy("words");
    fs::remove_file(folder.join("config.json")).unwrap();
    // Two rows, shared by all tokens in turn; the weight of a token is its number.
    let count = 909;
    let mut data: Vec<u8> = [1.0_f32, 0.0, 0.0, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    data.extend((0..count).flat_map(|id: i64| (id % 2).to_le_bytes()));
    data.extend((0..count).flat_map(|id| (id as f64).to_le_bytes()));
    let header = format!(
        r#"{{"embeddings":{{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}},
            "mapping":{{"dtype":"I64","shape":[{count}],"data_offsets":[16,{0}]}},
            "weights":{{"dtype":"F64","shape":[{count}],"data_offsets":[{0},{1}]}}}}"#,
        16 + count * 8,
        16 + count * 16
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(data);
    fs::write(folder.join("model.safetensors"), file).unwrap();
    let model = LocalModel::open(&folder, None).unwrap();
    // [CLS] is 2 and [SEP] is 3; the word in the middle has no token.
    let texts = ["[CLS] \u{4e2a}\u{1f984}q\u{4e2a} [SEP]".to_owned(), "\u{1f984}".to_owned()];
    let vectors = model.embed(&texts, Purpose::Document).await.unwrap();
    let length = 13_f32.sqrt();
    assert_close(&vectors[0], &[2.0 / length, 3.0 / length], 1e-6, "known");
    assert_eq!(vectors[1], [0.0, 0.0]);
}

#[tokio::test]
async fn prepared_files_are_used_and_rebuilt_after_a_change() {
    let (scratch, folder) = copy("words");
    let cache = scratch.path().join("cache");
    let first = LocalModel::open(&folder, Some(&cache)).unwrap();
    let prepared: Vec<PathBuf> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(prepared.len(), 1);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "the model's folder stays as it is");
    let text = ["Hello world".to_owned()];
    let expected = first.embed(&text, Purpose::Query).await.unwrap();
    // Damaged or cut, it is not used.
    let good = fs::read(&prepared[0]).unwrap();
    for bad in [&good[..good.len() / 2], b"", b"something else"] {
        fs::write(&prepared[0], bad).unwrap();
        let model = LocalModel::open(&folder, Some(&cache)).unwrap();
        assert_eq!(model.embed(&text, Purpose::Query).await.unwrap(), expected);
        assert_eq!(model.origin(), first.origin());
    }
    // Another file is another origin.
    let mut weights = fs::read(folder.join("model.safetensors")).unwrap();
    let last = weights.len() - 1;
    weights[last] ^= 1;
    fs::write(folder.join("model.safetensors"), weights).unwrap();
    let changed = LocalModel::open(&folder, Some(&cache)).unwrap();
    assert_ne!(changed.origin().key, first.origin().key);
}

#[tokio::test]
async fn folders_without_a_usable_model_are_refused_with_a_reason() {
    let (_scratch, folder) = copy("words");
    let reason = |folder: &Path| LocalModel::open(folder, None).unwrap_err().to_string();
    assert!(reason(&folder.join("nowhere")).contains("not a folder"));
    fs::write(folder.join("config.json"), "{}").unwrap();
    assert!(reason(&folder).contains("config.json"), "{}", reason(&folder));
    fs::write(folder.join("model.safetensors"), "short").unwrap();
    assert!(reason(&folder).contains("too short"));
    fs::write(folder.join("tokenizer.json"), r#"{"model":{"type":"Unigram"}}"#).unwrap();
    assert!(reason(&folder).contains("Unigram"));
    fs::remove_file(folder.join("tokenizer.json")).unwrap();
    assert!(reason(&folder).contains("has no `tokenizer.json`"));
    // A model that breaks after it was opened says so, too.
    let (_scratch, folder) = copy("words");
    let model = LocalModel::open(&folder, None).unwrap();
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    let error = model.embed(&["x".to_owned()], Purpose::Query).await.unwrap_err();
    assert_eq!(error.kind, EmbedErrorKind::Setup);
    assert!(error.message.contains("model.safetensors"), "{error}");
}

/// `POLLUX_MINILM` names a folder with all-MiniLM-L6-v2.
#[tokio::test]
#[ignore = "needs files that are not in the repository"]
async fn all_minilm_gives_its_known_vector() {
    let folder = PathBuf::from(std::env::var_os("POLLUX_MINILM").expect("POLLUX_MINILM"));
    let scratch = tempfile::tempdir().unwrap();
    let model = LocalModel::open(&folder, Some(scratch.path())).unwrap();
    let vectors = model.embed(&["Hello world".to_owned()], Purpose::Query).await.unwrap();
    assert_eq!(vectors[0].len(), 384);
    assert_close(
        &vectors[0][..5],
        &[-0.034_477, 0.031_023, 0.006_735, 0.026_109, -0.039_362],
        2e-6,
        "Hello world",
    );
}
