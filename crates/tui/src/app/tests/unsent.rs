//! What becomes of texts that are not sent yet: the queue, the draft, and drafts that were put aside.

use super::*;
use crate::composer::Submission;

fn busy() -> Stage {
    let mut stage = Stage::new(60, 20);
    let now = stage.now;
    stage.app.begin_turn("go", false, now);
    stage
}

fn queue(stage: &mut Stage, texts: &[&str]) {
    for text in texts {
        let shell = text.strip_prefix('!');
        stage.app.composer.set_shell_mode(shell.is_some());
        stage.app.set_text(shell.unwrap_or(text));
        assert_eq!(stage.press(KeyCode::Tab, KeyModifiers::NONE), [], "{text}");
        stage.app.composer.set_shell_mode(false);
    }
}

fn typed(submission: &Submission) -> String {
    if submission.shell { format!("!{}", submission.text) } else { submission.text.clone() }
}

fn sent(stage: &mut Stage) -> Vec<String> {
    std::iter::from_fn(|| stage.app.take_queue()).map(|sent| typed(&sent)).collect()
}

fn ctrl(stage: &mut Stage, letter: char) -> Vec<Action> {
    stage.press(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

fn composed(stage: &Stage) -> (String, bool) {
    (stage.app.composed(), stage.app.composer.shell_mode())
}

#[test]
fn a_queued_command_is_never_part_of_a_prompt() {
    let mut stage = busy();
    let texts = ["/clear", "fix", "it", "/memory add Ada prefers tea", "!ls", "!pwd", "then", "test", "/x"];
    queue(&mut stage, &texts);
    // A shell command that was pasted into a prompt is one, too.
    stage.app.paste("!rm old", stage.now, &|_| false);
    stage.press(KeyCode::Tab, KeyModifiers::NONE);
    queue(&mut stage, &["last"]);
    stage.event(Event::TurnEnded(TurnEnd::Finished(None)));
    let first = stage.app.take_queue().map(|sent| sent.text);
    assert_eq!(first.as_deref(), Some("/clear"));
    // The new session gets the rest.
    stage.app.clear();
    assert_eq!(
        sent(&mut stage),
        ["fix\n\nit", "/memory add Ada prefers tea", "!ls", "!pwd", "then\n\ntest", "/x", "!rm old", "last"]
    );
}

#[test]
fn cancelling_never_makes_a_prompt_part_of_a_shell_command() {
    let mut stage = busy();
    queue(&mut stage, &["delete the old files"]);
    stage.write("!ls -la");
    assert_eq!(ctrl(&mut stage, 'c'), [Action::Cancel]);
    assert_eq!(composed(&stage), ("ls -la".to_owned(), true));
    stage.event(Event::TurnEnded(TurnEnd::Cancelled));
    // It was cancelled and must not be sent by itself.
    assert_eq!(sent(&mut stage), [""; 0]);
    assert!(
        stage.shown().contains("Not sent (press ↑ to edit):\n    delete the old files"),
        "{}",
        stage.shown()
    );
    assert_eq!(stage.enter(), [Action::Submit { text: "ls -la".to_owned(), shell: true }]);
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    assert_eq!(composed(&stage), ("delete the old files".to_owned(), false));
    assert!(!stage.shown().contains("Not sent"), "{}", stage.shown());
}

#[test]
fn shell_commands_and_slash_commands_stay_what_they_are_beside_a_draft() {
    let mut stage = busy();
    queue(&mut stage, &["one", "two", "!ls", "/clear", "three"]);
    stage.write("draft");
    ctrl(&mut stage, 'c');
    stage.event(Event::TurnEnded(TurnEnd::Cancelled));
    assert_eq!(composed(&stage), ("one\n\ntwo\n\ndraft".to_owned(), false));
    let shown = stage.shown();
    assert!(shown.contains("Not sent (press ↑ to edit):\n    !ls\n    /clear\n    three"), "{shown}");
    let mut pulled = Vec::new();
    for _ in 0..3 {
        stage.enter();
        stage.press(KeyCode::Up, KeyModifiers::NONE);
        pulled.push(composed(&stage));
    }
    assert_eq!(
        pulled,
        [("ls", true), ("/clear", false), ("three", false)].map(|(text, on)| (text.to_owned(), on))
    );
    // A command that is being typed stays alone, too.
    let mut stage = busy();
    queue(&mut stage, &["one"]);
    stage.write("/memory add");
    ctrl(&mut stage, 'c');
    assert_eq!(composed(&stage), ("/memory add".to_owned(), false));
}

#[test]
fn a_text_that_the_turn_refuses_or_took_never_joins_a_shell_command() {
    for refused in [true, false] {
        let mut stage = busy();
        stage.write("remove them");
        let steered = stage.enter();
        let [Action::Steer { id, .. }] = steered.as_slice() else { panic!("{steered:?}") };
        stage.write("!ls");
        let by = FrontId::local();
        if refused {
            let result = OpResult::refused(RefusalCode::NotAllowed, "blocked by a hook");
            stage.event(Event::Acknowledged { id: id.clone(), by, result });
            assert!(
                stage.shown().contains("Not sent (press ↑ to edit):\n    remove them"),
                "{}",
                stage.shown()
            );
        } else {
            assert_eq!(ctrl(&mut stage, 'c'), [Action::Withdraw(id.clone()), Action::Cancel]);
            stage.event(Event::Steered {
                id: id.clone(),
                typed: "remove them".to_owned(),
                message: None,
                by,
            });
            assert!(!stage.shown().contains("Not sent"), "{}", stage.shown());
        }
        assert_eq!(composed(&stage), ("ls".to_owned(), true));
    }
}

#[test]
fn the_end_shows_what_was_not_sent() {
    let mut stage = busy();
    queue(&mut stage, &["follow up", "!ls"]);
    stage.write("a dra");
    stage.app.end();
    let shown = stage.shown();
    for line in ["Not sent: follow up", "Not sent: !ls", "Not sent: a dra"] {
        assert!(shown.contains(line), "{shown}");
    }
    // Blanks, an earlier prompt that is only shown, and the command that leaves are no drafts.
    let mut stage = busy();
    queue(&mut stage, &["/quit"]);
    stage.write("   ");
    stage.app.end();
    assert!(!stage.shown().contains("Not sent"), "{}", stage.shown());
    let mut stage = Stage::new(60, 20);
    stage.app.add_history(vec!["earlier".to_owned()], Vec::new());
    stage.press(KeyCode::Up, KeyModifiers::NONE);
    assert_eq!(stage.app.take_unsent(), []);
}

#[test]
fn unsent_texts_are_whole_and_come_in_order_from_wherever_they_are() {
    let mut stage = busy();
    let paste = "line\n".repeat(12);
    stage.app.add_history(vec!["earlier".to_owned()], Vec::new());
    queue(&mut stage, &["first"]);
    stage.write("aside ");
    stage.app.paste(&paste, stage.now, &|_| false);
    ctrl(&mut stage, 'p');
    stage.write("changed ");
    // The text is a draft behind the search, too.
    ctrl(&mut stage, 'r');
    stage.write("sought");
    let unsent = stage.app.take_unsent();
    let texts: Vec<&str> = unsent.iter().map(|unsent| unsent.text.as_str()).collect();
    let aside = format!("aside {}", paste.trim());
    assert_eq!(texts, ["first", aside.as_str(), "changed first"]);
    assert_eq!(unsent[1].not_sent(true), "Not sent: aside [Pasted Text: 13 lines]");
    assert!(unsent[1].not_sent(false).ends_with("line line line"), "{}", unsent[1].not_sent(false));
    assert_eq!(stage.app.take_unsent(), [], "they are not saved twice");
}

#[test]
fn a_secret_that_is_asked_for_is_no_draft() {
    use crate::dialog::TextEntry;
    let mut stage = Stage::new(60, 20);
    stage.app.enter(TextEntry::new("API key", true));
    stage.write("sk-secret");
    stage.app.paste("sk-pasted", stage.now, &|_| false);
    assert_eq!(stage.app.take_unsent(), []);
    stage.app.end();
    assert!(!stage.shown().contains("sk-"), "{}", stage.shown());
}

#[test]
fn what_the_core_has_is_not_unsent() {
    let mut stage = busy();
    stage.app.facts.detaches = true;
    stage.write("use tabs");
    stage.enter();
    queue(&mut stage, &["then test"]);
    let texts: Vec<String> = stage.app.take_unsent().iter().map(typed).collect();
    assert_eq!(texts, ["then test"]);
}

#[test]
fn a_prompt_to_edit_leaves_shell_mode_and_keeps_the_draft() {
    let mut stage = Stage::new(60, 20);
    stage.write("!rm -r");
    stage.app.suggest("fix the tests");
    assert_eq!(composed(&stage), ("fix the tests".to_owned(), false));
    stage.enter();
    let drafts: Vec<String> = stage.app.take_unsent().iter().map(typed).collect();
    assert_eq!(drafts, ["!rm -r"]);
    let mut stage = Stage::new(60, 20);
    stage.write("my draft");
    stage.app.suggest("fix the tests");
    assert_eq!(stage.enter(), [Action::Submit { text: "fix the tests".to_owned(), shell: false }]);
    assert_eq!(stage.app.composed(), "my draft");
}

#[test]
fn a_prompt_that_could_not_be_sent_leaves_the_draft_alone() {
    let mut stage = Stage::new(60, 20);
    stage.write("draft");
    stage.app.give_back("one more", false);
    assert_eq!(stage.app.composed(), "one more\n\ndraft");
    stage.app.give_back("ls", true);
    assert_eq!(composed(&stage), ("one more\n\ndraft".to_owned(), false));
    assert!(stage.shown().contains("Not sent (press ↑ to edit):\n    !ls"), "{}", stage.shown());
}
