use super::*;
use serde_json::json;

fn trial(event: &'static str, outcome: Outcome) -> Trial {
    let run = TrialRun {
        name: Some("guard".into()),
        command: "./g.sh".into(),
        source: "project".into(),
        ending: "exit code 2".into(),
        exit_code: Some(2),
        duration_ms: 7,
        stdout: "a\nb".into(),
        decision: "deny",
        warning: Some("was slow".into()),
        ..TrialRun::default()
    };
    Trial { event, runs: vec![run], outcome, ..Trial::default() }
}

fn specific(value: &Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

#[test]
fn a_trial_tells_what_each_hook_did_and_what_comes_of_it() {
    let outcome = Outcome {
        verdict: "block",
        reason: Some("no".into()),
        system_message: Some("one\ntwo".into()),
        specific: specific(&json!({"tool_input": {"a": 1}, "clearContext": true, "hookEventName": "x"})),
        ..Outcome::default()
    };
    let expected = "\
BeforeTool: 1 hook
  guard (project): ./g.sh
    exit code 2 after 7 ms: deny
    stdout: a
    stdout: b
    warning: it was slow
outcome: blocked: no
  message: one
    two
  new arguments: {\"a\":1}
  `clearContext` has no effect for BeforeTool
";
    assert_eq!(trial("BeforeTool", outcome.clone()).text(), expected);
    let json = trial("BeforeTool", outcome).json();
    assert_eq!(json["runs"][0]["exitCode"], 2);
    assert_eq!(json["outcome"]["verdict"], "block");
}

#[test]
fn every_verdict_has_its_words() {
    for (verdict, reason, expected) in [
        ("proceed", None, "outcome: continues\n"),
        ("stop", None, "outcome: the turn stops: No reason provided\n"),
        ("ask", Some("sure?"), "outcome: approval required: sure?\n"),
        ("ask", None, "outcome: approval required\n"),
    ] {
        let outcome = Outcome { verdict, reason: reason.map(str::to_owned), ..Outcome::default() };
        assert!(trial("BeforeTool", outcome).text().ends_with(expected), "{verdict}");
    }
    let nothing = Trial { event: "AfterTool", nothing: "no hook".into(), ..Trial::default() };
    assert_eq!(nothing.text(), "AfterTool: no hook\n");
}
