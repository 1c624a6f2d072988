//! Both kinds against what the Python package `tokenizers` says, on strings chosen to hurt.

use std::io::BufRead;

use proptest::prelude::*;

use super::*;

const WORDS: &str = include_str!("../../../tests/fixtures/words/tokenizer.json");
const WORDS_EXPECTED: &str = include_str!("../../../tests/fixtures/words/expected.json");
const PAIRS: &str = include_str!("../../../tests/fixtures/pairs/tokenizer.json");
const PAIRS_EXPECTED: &str = include_str!("../../../tests/fixtures/pairs/expected.json");

fn encoded(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut Memo::new(), &mut ids);
    ids
}

fn check(json: &str, expected: &str) {
    let tokenizer = Tokenizer::parse(json.as_bytes()).unwrap();
    let expected: Vec<(String, Vec<u32>)> = serde_json::from_str(expected).unwrap();
    assert!(expected.len() > 200);
    let mut memo = Memo::new();
    for (text, ids) in expected {
        assert_eq!(encoded(&tokenizer, &text), ids, "{text:?}");
        // What was remembered from other texts changes nothing.
        let mut again = Vec::new();
        tokenizer.encode(&text, &mut memo, &mut again);
        assert_eq!(again, ids, "{text:?}");
    }
}

#[test]
fn word_pieces_are_those_of_the_reference() {
    check(WORDS, WORDS_EXPECTED);
}

#[test]
fn pairs_are_those_of_the_reference() {
    check(PAIRS, PAIRS_EXPECTED);
}

#[test]
fn the_tokens_around_a_text_come_from_the_template() {
    let words = Tokenizer::parse(WORDS.as_bytes()).unwrap();
    assert_eq!((words.before.as_slice(), words.after.as_slice()), ([2].as_slice(), [3].as_slice()));
    assert_eq!(words.unknown(), Some(1));
    let pairs = Tokenizer::parse(PAIRS.as_bytes()).unwrap();
    assert_eq!((pairs.before.as_slice(), pairs.after.len()), ([1].as_slice(), 0));
}

#[test]
fn a_packed_tokenizer_is_the_same_and_a_damaged_one_is_refused() {
    for json in [WORDS, PAIRS] {
        let made = Tokenizer::parse(json.as_bytes()).unwrap();
        let mut packed = Packed::default();
        made.pack(&mut packed);
        let bytes = packed.finish();
        assert_eq!(Tokenizer::unpack(&mut Unpacked::new(&bytes)).unwrap(), made);
        for cut in (0..bytes.len()).step_by(97) {
            assert!(Tokenizer::unpack(&mut Unpacked::new(&bytes[..cut])).is_none());
        }
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert!(Tokenizer::unpack(&mut Unpacked::new(&other)).is_none());
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let cases = [
        ("{", "invalid JSON"),
        (r#"{"model":{"type":"Unigram"}}"#, "Unigram"),
        (r#"{"model":{"type":"WordPiece","vocab":{}}}"#, "normalizer null"),
        (
            r#"{"model":{"type":"WordPiece","vocab":{"a":4000000000}},"normalizer":{"type":"BertNormalizer"},
               "pre_tokenizer":{"type":"BertPreTokenizer"}}"#,
            "4000000001",
        ),
        (r#"{"model":{"type":"BPE","vocab":{"a":0}}}"#, "SentencePiece"),
    ];
    for (json, reason) in cases {
        let error = Tokenizer::parse(json.as_bytes()).unwrap_err();
        assert!(error.contains(reason), "{json}: {error}");
    }
}

proptest! {
    #[test]
    fn any_text_and_any_damage_is_survived(text: String, at: usize, byte: u8) {
        for json in [WORDS, PAIRS] {
            let tokenizer = Tokenizer::parse(json.as_bytes()).unwrap();
            encoded(&tokenizer, &text);
            let mut packed = Packed::default();
            tokenizer.pack(&mut packed);
            let mut bytes = packed.finish();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Some(tokenizer) = Tokenizer::unpack(&mut Unpacked::new(&bytes)) {
                encoded(&tokenizer, &text);
            }
        }
    }
}

/// Compares with a real model: `POLLUX_TOKENIZER` names its `tokenizer.json`, `POLLUX_TOKENS` a file with one
/// `["text", [ids…]]` in each line.
#[test]
#[ignore = "needs files that are not in the repository"]
fn a_real_tokenizer_gives_the_expected_ids() {
    let json = std::fs::read(std::env::var_os("POLLUX_TOKENIZER").unwrap()).unwrap();
    let tokenizer = Tokenizer::parse(&json).unwrap();
    let lines = std::fs::File::open(std::env::var_os("POLLUX_TOKENS").unwrap()).unwrap();
    let (mut all, mut wrong) = (0, Vec::new());
    for line in std::io::BufReader::new(lines).lines() {
        let (text, ids): (String, Vec<u32>) = serde_json::from_str(&line.unwrap()).unwrap();
        all += 1;
        let found = encoded(&tokenizer, &text);
        if found != ids {
            wrong.push((text, ids, found));
        }
    }
    assert!(wrong.is_empty(), "{} of {all} differ, such as {:?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}
