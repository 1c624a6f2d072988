//! Drafts and pastes that outlive the prompt they were in.

use super::*;

const LABEL: &str = "Please use: [Pasted Text: 12 lines]";

fn content(letter: char) -> String {
    format!("{letter}\n").repeat(11)
}

/// With an earlier prompt, and a draft with a paste.
fn drafting() -> ComposerHarness {
    let mut harness = ComposerHarness::new();
    harness.composer.add_history(vec!["first".to_owned()], vec!["ls".to_owned()]);
    harness.press("Please use: ");
    harness.paste(&content('x'));
    harness
}

fn has_draft(harness: &ComposerHarness) {
    assert_eq!(harness.composer.text(), LABEL);
    assert_eq!(harness.composer.expanded(), format!("Please use: {}", content('x')));
}

#[test]
fn a_draft_with_a_paste_survives_prompts_of_the_other_mode() {
    let mut harness = drafting();
    harness.press("<Home><Up><End><C-u>!true");
    assert!(harness.submit().shell);
    harness.press("<Esc><Down>");
    has_draft(&harness);
    assert_eq!(harness.submit().text, format!("Please use: {}", content('x')).trim());
    // Another paste that is discarded meanwhile does not take its place.
    let mut harness = drafting();
    harness.press("<Home><Up><End><C-u>!true");
    harness.submit();
    harness.press("<Esc>");
    harness.paste(&content('y'));
    harness.press("<Home><C-k><Down>");
    has_draft(&harness);
}

#[test]
fn a_draft_comes_back_when_an_earlier_prompt_was_sent() {
    let mut harness = drafting();
    harness.press("<Home><Up>");
    assert_eq!(harness.submit().text, "first");
    has_draft(&harness);
    // It is sent once.
    harness.submit();
    assert_eq!(harness.composer.text(), "");
    assert_eq!(harness.press("<Down>"), Reaction::Ignored);
    // The same with a prompt that was changed.
    let mut harness = drafting();
    harness.press("<Home><Up><End><C-u>other");
    assert_eq!(harness.submit().text, "other");
    has_draft(&harness);
    // An undo brings it back, too, and then there is none left.
    let mut harness = drafting();
    harness.press("<Home><Up><A-z>");
    has_draft(&harness);
    harness.submit();
    assert_eq!(harness.composer.text(), "");
}

#[test]
fn a_draft_comes_back_when_a_prompt_that_was_found_is_sent() {
    let mut harness = drafting();
    harness.press("<C-r><C-u>fir");
    assert_eq!(harness.submit().text, "first");
    has_draft(&harness);
    // What was typed to be sought is no draft.
    let mut harness = ComposerHarness::new();
    harness.composer.add_history(vec!["first".to_owned()], Vec::new());
    harness.press("fir<C-r>");
    assert_eq!(harness.submit().text, "first");
    assert_eq!(harness.composer.text(), "");
}

#[test]
fn clearing_an_earlier_prompt_keeps_the_draft() {
    for keys in ["<Home><Up><Esc><Esc>", "<Home><Up><C-c>"] {
        let mut harness = drafting();
        harness.press(keys);
        assert_eq!(harness.composer.text(), "", "{keys}");
        harness.press("<Down>");
        has_draft(&harness);
    }
}

#[test]
fn a_cut_paste_is_yanked_into_a_later_prompt() {
    let mut harness = drafting();
    harness.press("<C-u>/stats");
    harness.submit();
    harness.press("<A-y>");
    has_draft(&harness);
    let mut harness = drafting();
    harness.press("<C-u>");
    harness.paste(&content('y'));
    harness.submit();
    harness.paste(&content('y'));
    harness.press(" <A-y>");
    assert_eq!(harness.composer.text(), "[Pasted Text: 12 lines] Please use: [Pasted Text: 12 lines #2]");
    let whole = format!("{} Please use: {}", content('y'), content('x'));
    assert_eq!(harness.submit().text, whole.trim());
}

#[test]
fn vim_puts_a_paste_into_a_later_prompt() {
    for (keys, put) in [("<Esc>dd", "p"), ("<Esc>yy", "p"), ("<Esc>0d$", "P"), ("<Esc>0y$", "P")] {
        let mut harness = drafting();
        harness.composer.set_vim(true);
        harness.press(keys);
        harness.composer.set_text("/stats");
        harness.submit();
        harness.press(put);
        let text = format!("Please use: {}", content('x'));
        assert_eq!(harness.composer.expanded().trim(), text.trim(), "{keys}");
        assert_eq!(harness.composer.text().trim(), LABEL, "{keys}");
    }
}

#[test]
fn a_paste_behind_a_search_is_not_mixed_up_with_one_in_it() {
    let mut harness = ComposerHarness::new();
    harness.paste(&content('x'));
    harness.press("<C-u>");
    let mark = harness.composer.mark();
    harness.press("<C-r><A-y>");
    let now = harness.now;
    harness.composer.at(mark, |composer| composer.paste(&content('y'), now, &|_| false));
    // Nothing is found, so the search text becomes the prompt.
    harness.press("<Tab>");
    assert_eq!(harness.composer.expanded(), content('x'));
}
