//! Search results.

use pollux_catalogue::{Filter, Origin};
use pollux_foreign::ForeignAgent;

use crate::scratch::{Scratch, agent, call, now, shown, user};

#[test]
fn all_words_must_match_in_one_message_and_the_last_may_be_a_prefix() {
    let scratch = Scratch::new();
    scratch.session(
        "one",
        "aaaaaaaa",
        10,
        &[user("u", "Fix the flaky build, please"), agent("g", "It builds now.")],
    );
    scratch.session("two", "bbbbbbbb", 20, &[user("u", "fix the poem")]);
    assert_eq!(scratch.find("FIX bui"), ["aaaaaaaa u user: [Fix] the flaky [build], please"]);
    assert_eq!(scratch.find("bui fix"), [""; 0], "only the last word is a beginning");
    assert_eq!(scratch.find("fix now"), [""; 0]);
    assert_eq!(scratch.find("fix").len(), 2);
    assert_eq!(scratch.find("\"flaky build\""), ["aaaaaaaa u user: Fix the [flaky build], please"]);
    assert_eq!(scratch.find("\"build flaky\""), [""; 0]);
}

#[test]
fn calls_and_errors_are_found_but_not_outputs() {
    let scratch = Scratch::new();
    let messages = [
        user("u", "go"),
        call("g1", "cargo clippy", "zebra everywhere", "success"),
        call("g2", "cargo miri", "undefined giraffe", "error"),
    ];
    scratch.session("one", "aaaaaaaa", 10, &messages);
    assert_eq!(scratch.find("clippy"), ["aaaaaaaa g1 tool: run_shell_command cargo [clippy]"]);
    assert_eq!(scratch.find("giraffe"), ["aaaaaaaa g2 error: undefined [giraffe]"]);
    assert_eq!(scratch.find("zebra"), [""; 0]);
}

#[test]
fn query_syntax_is_treated_as_words() {
    let scratch = Scratch::new();
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "a near(b) or text: \"quoted\" c++ -x")]);
    for words in
        ["near(b)", "OR", "text:", "\"quoted", "c++", "-x", "a* b", "^a", "{text}: a", "a AND b", "'a'"]
    {
        let found = scratch.find(words);
        assert!(found.len() <= 1, "{words}: {found:?}");
    }
    assert_eq!(scratch.find("near(b)").len(), 1);
    assert_eq!(scratch.find("a NOT b"), [""; 0], "`NOT` is a word that is not there");
    assert_eq!(scratch.find("* \" \" --"), [""; 0]);
}

#[test]
fn accents_and_unspaced_scripts_are_found() {
    let scratch = Scratch::new();
    scratch.session(
        "one",
        "aaaaaaaa",
        10,
        &[user("u", "Die Größe der Datei"), user("v", "次のテストを修正する")],
    );
    assert_eq!(scratch.find("grosse"), [""; 0]);
    assert_eq!(scratch.find("große"), ["aaaaaaaa u user: Die [Größe] der Datei"]);
    assert_eq!(scratch.find("修正"), ["aaaaaaaa v user: 次のテストを[修正]する"]);
    assert_eq!(scratch.find("正修"), [""; 0]);
}

#[test]
fn titles_and_other_agents_are_searched() {
    let scratch = Scratch::new();
    let meta = serde_json::json!({"$set": {"summary": "Taming the flux capacitor"}});
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "help"), meta]);
    scratch.claude("cccccccc", "the capacitor hums");
    let hits = scratch.catalogue().search("capacitor", &Filter::default(), now());
    assert_eq!(
        shown(&hits),
        ["aaaaaaaa  title: Taming the flux [capacitor]", "cccccccc u1 user: the [capacitor] hums"]
    );
    let filter = Filter { origin: Some(Origin::Foreign(ForeignAgent::Claude)), ..Filter::default() };
    assert_eq!(scratch.catalogue().search("capacitor", &filter, now()).len(), 1);
}

#[test]
fn recent_hits_come_first_and_one_session_does_not_fill_the_list() {
    let scratch = Scratch::new();
    let old = serde_json::json!({"id": "u", "timestamp": "2024-03-01T10:00:00Z", "type": "user", "content": "walrus here"});
    scratch.session("one", "aaaaaaaa", 10, &[old]);
    let many: Vec<_> = (0..10).map(|index| user(&format!("u{index}"), "walrus there")).collect();
    scratch.session("two", "bbbbbbbb", 20, &many);
    let found = scratch.find("walrus");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.first().unwrap().starts_with("bbbbbbbb"), "{found:?}");
    assert!(found.last().unwrap().starts_with("aaaaaaaa"), "{found:?}");
}

#[test]
fn removed_text_is_no_longer_found() {
    let scratch = Scratch::new();
    scratch.session("one", "aaaaaaaa", 10, &[user("u", "walrus"), user("v", "seal")]);
    assert_eq!(scratch.find("walrus").len(), 1);
    scratch.session("one", "aaaaaaaa", 11, &[user("u", "otter"), user("v", "seal")]);
    assert_eq!(scratch.find("walrus"), [""; 0]);
    assert_eq!(scratch.find("otter"), ["aaaaaaaa u user: [otter]"]);
    assert_eq!(scratch.find("seal").len(), 1);
}

#[test]
fn a_long_text_is_found_by_its_beginning() {
    let scratch = Scratch::new();
    let text = format!("walrus {} otter", "filler ".repeat(20_000));
    scratch.session("one", "aaaaaaaa", 10, &[user("u", &text)]);
    assert_eq!(scratch.find("walrus").len(), 1);
    assert_eq!(scratch.find("otter"), [""; 0]);
}
