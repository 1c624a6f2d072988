//! Reading `tokenizer.json`.

use serde_json::Value;

use super::pairs::Pairs;
use super::vocabulary::Vocabulary;
use super::word_pieces::WordPieces;
use super::{Kind, Tokenizer};

/// More tokens than any model has.
const MAX_TOKENS: usize = 2_000_000;

impl Tokenizer {
    /// Parses the file; the error names the unsupported feature.
    pub(in crate::local) fn parse(json: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(json).map_err(|error| format!("invalid JSON: {error}"))?;
        let model = &file["model"];
        let kind = match model["type"].as_str() {
            Some("WordPiece") => Kind::Words(word_pieces(&file)?),
            Some("BPE") => Kind::Pairs(pairs(&file)?),
            // Files of the first years do not name the type.
            None if model["max_input_chars_per_word"].is_number() => Kind::Words(word_pieces(&file)?),
            other => {
                let name = other.unwrap_or("(unnamed)");
                return Err(format!("unsupported model {name} (only WordPiece and BPE are supported)"));
            }
        };
        let mut added = Vec::new();
        for token in file["added_tokens"].as_array().into_iter().flatten() {
            if let (Some(text), Some(id)) = (token["content"].as_str(), number(&token["id"]))
                && !text.is_empty()
            {
                added.push((text.to_owned(), id));
            }
        }
        let (before, after) = template(&file["post_processor"]);
        Ok(Self { kind, added, before, after })
    }
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Tokens in the order of their numbers.
fn vocabulary(model: &Value) -> Result<Vocabulary, String> {
    let entries = model["vocab"].as_object().ok_or("it has no vocabulary")?;
    let size = entries.values().filter_map(number).max().map_or(0, |last| last as usize + 1);
    if size == 0 || size > MAX_TOKENS {
        return Err(format!("a vocabulary of {size} tokens is not supported"));
    }
    let mut tokens = vec![""; size];
    for (token, id) in entries {
        let place = number(id).and_then(|id| tokens.get_mut(id as usize));
        *place.ok_or_else(|| format!("the token `{token}` has no number"))? = token;
    }
    Ok(Vocabulary::new(tokens.into_iter()))
}

fn word_pieces(file: &Value) -> Result<WordPieces, String> {
    let model = &file["model"];
    let prefix = model["continuing_subword_prefix"].as_str().unwrap_or("##");
    if prefix != "##" {
        return Err(format!("pieces that continue a word with `{prefix}` are not supported"));
    }
    let normalizer = &file["normalizer"];
    if normalizer["type"] != "BertNormalizer" {
        return Err(format!("the normalizer {} is not supported", normalizer["type"]));
    }
    if file["pre_tokenizer"]["type"] != "BertPreTokenizer" {
        return Err(format!("the pre-tokenizer {} is not supported", file["pre_tokenizer"]["type"]));
    }
    let vocabulary = vocabulary(model)?;
    let unknown = model["unk_token"].as_str().unwrap_or("[UNK]");
    let unknown = vocabulary.id(unknown).ok_or("it has no token for unknown words")?;
    let flag = |name: &str| normalizer[name].as_bool();
    let lower_case = flag("lowercase").unwrap_or(true);
    Ok(WordPieces {
        vocabulary,
        unknown,
        lower_case,
        strip_accents: flag("strip_accents").unwrap_or(lower_case),
        clean: flag("clean_text").unwrap_or(true),
        split_chinese: flag("handle_chinese_chars").unwrap_or(true),
    })
}

fn pairs(file: &Value) -> Result<Pairs, String> {
    let model = &file["model"];
    if !writes_spaces_as_marks(&file["normalizer"]) || !file["pre_tokenizer"].is_null() {
        return Err("the only supported BPE tokenizers are those of SentencePiece (Llama 2)".to_owned());
    }
    if model["ignore_merges"] == true {
        return Err("BPE that ignores its merges is not supported".to_owned());
    }
    let vocabulary = vocabulary(model)?;
    let list = model["merges"].as_array().ok_or("it has no merges")?;
    // Either `"a b"` or `["a", "b"]`.
    let merges: Option<Vec<(&str, &str)>> = list
        .iter()
        .map(|merge| match merge.as_str() {
            Some(text) => text.split_once(' '),
            None => Some((merge[0].as_str()?, merge[1].as_str()?)),
        })
        .collect();
    let merges = merges.ok_or("one of its merges is not a pair")?;
    let unknown = model["unk_token"].as_str().and_then(|token| vocabulary.id(token));
    Pairs::new(vocabulary, unknown, model["byte_fallback"] == true, merges.into_iter())
        .ok_or_else(|| "one of its merges produces an unknown token".to_owned())
}

/// Prepend `▁`, then replace every space by it.
fn writes_spaces_as_marks(normalizer: &Value) -> bool {
    let Some([prepend, replace]) = normalizer["normalizers"].as_array().map(Vec::as_slice) else {
        return false;
    };
    prepend["type"] == "Prepend"
        && prepend["prepend"] == "▁"
        && replace["type"] == "Replace"
        && replace["pattern"]["String"] == " "
        && replace["content"] == "▁"
}

/// The tokens before and after a single text.
fn template(post: &Value) -> (Vec<u32>, Vec<u32>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    match post["type"].as_str() {
        Some("TemplateProcessing") => {
            let mut side = &mut before;
            for piece in post["single"].as_array().into_iter().flatten() {
                if piece["Sequence"].is_object() {
                    side = &mut after;
                } else if let Some(name) = piece["SpecialToken"]["id"].as_str() {
                    let ids = post["special_tokens"][name]["ids"].as_array();
                    side.extend(ids.into_iter().flatten().filter_map(number));
                }
            }
        }
        Some("BertProcessing") => {
            before.extend(number(&post["cls"][1]));
            after.extend(number(&post["sep"][1]));
        }
        _ => {}
    }
    (before, after)
}
