use super::*;

fn read(text: &str) -> FileRules {
    parse(text, &RuleOrigin { tier: Tier::User, source: "p.toml".to_owned(), path: None })
}

const GOOD: &str = "[[rule]]\ntoolName = \"glob\"\ndecision = \"allow\"\npriority = 1\n";

#[test]
fn lists_expand_into_one_rule_each_and_both_spellings_are_read() {
    let found = read(
        "[[rule]]\ntool_name = \"run_shell_command\"\ncommand_prefix = [\"git\", \"npm test\"]\ndecision = \"deny\"\n\
         priority = 7\ndeny_message = \"no\"\nallow_redirection = true\nfuture_key = 1\n\
         [[rule]]\ntoolName = [\"glob\", \"read_file\"]\ndecision = \"allow\"\npriority = 0\nmodes = [\"autoEdit\", \"plan\"]\n",
    );
    assert_eq!(found.problems, []);
    let labels: Vec<&str> = found.rules.iter().map(|rule| rule.source.label.as_str()).collect();
    assert_eq!(
        labels,
        ["deny run_shell_command(git)", "deny run_shell_command(npm test)", "allow glob", "allow read_file"]
    );
    assert_eq!(found.rules[0].deny_message.as_deref(), Some("no"));
    assert!(!found.rules[0].allow_redirection);
    assert_eq!(found.rules[2].source.line, Some(9));
}

#[test]
fn a_bad_rule_is_reported_with_its_line_and_drops_only_itself() {
    let table = [
        ("toolName = \"\"\ndecision = \"allow\"\npriority = 1", "toolName cannot be empty string", 2),
        ("decision = \"allow\"\npriority = 1", "Schema validation failed", 1),
        ("toolName = \"glob\"\npriority = 1", "Schema validation failed", 1),
        ("toolName = \"glob\"\ndecision = \"maybe\"\npriority = 1", "Schema validation failed", 3),
        ("toolName = \"glob\"\ndecision = \"allow\"", "Schema validation failed", 1),
        ("toolName = \"glob\"\ndecision = \"allow\"\npriority = 1000", "Schema validation failed", 4),
        ("toolName = \"glob\"\ndecision = \"allow\"\npriority = 1.5", "Schema validation failed", 4),
        (
            "toolName = \"glob\"\ndecision = \"allow\"\npriority = 1\nmodes = [\"x\"]",
            "Schema validation failed",
            5,
        ),
        (
            "toolName = \"glob\"\ndecision = \"allow\"\npriority = 1\nargsPattern = \"(\"",
            "Invalid regex pattern",
            5,
        ),
        (
            "toolName = \"glob\"\ndecision = \"allow\"\npriority = 1\nargsPattern = \"(a+)+\"",
            "Unsafe regex",
            5,
        ),
        (
            "toolName = \"glob\"\ndecision = \"allow\"\npriority = 1\ncommandPrefix = \"a\"",
            "Schema validation",
            5,
        ),
        ("toolName = 3\ndecision = \"allow\"\npriority = 1", "Schema validation failed", 2),
    ];
    for (body, message, line) in table {
        let found = read(&format!("[[rule]]\n{body}\n\n{GOOD}"));
        assert_eq!(found.rules.len(), 1, "{body}");
        let problem = &found.problems[0];
        assert!(problem.message.contains(message), "{body}: {}", problem.message);
        assert_eq!((problem.line, problem.rule), (Some(line), Some(1)), "{body}");
    }
}

#[test]
fn a_server_without_a_tool_means_all_its_tools() {
    let found = read("[[rule]]\nmcpName = \"git\"\ndecision = \"deny\"\npriority = 1\n");
    assert_eq!(found.rules[0].source.label, "deny * of server git");
}

#[test]
fn a_problem_reads_as_documented() {
    let found = read("[[rule]]\ntoolName = \"glob\"\ndecision = \"allow\"\n");
    assert_eq!(
        found.problems[0].to_string(),
        "[USER] Policy file error in p.toml:1:\n  Schema validation failed\nInvalid policy rule (rule #1):\n  \
         - Field \"rule.0.priority\": Required\n  Suggestion: Correct the rule; until then it is ignored"
    );
}

#[test]
fn a_misspelt_tool_is_a_warning_and_the_rule_stays() {
    let found = read("[[rule]]\ntoolName = \"raed_file\"\ndecision = \"allow\"\npriority = 1\n");
    assert_eq!((found.rules.len(), found.problems[0].severity), (1, Severity::Warning));
    assert_eq!(found.problems[0].suggestion.as_deref(), Some("Did you mean \"read_file\"?"));
    assert_eq!(read("[[rule]]\ntoolName = \"my_own\"\ndecision = \"allow\"\npriority = 1\n").problems, []);
}

#[test]
fn only_unreadable_text_that_may_deny_makes_the_engine_ask() {
    assert_eq!(read("x = [").unreadable.len(), 0);
    assert_eq!(read("[[rule]]\ndecision = 'deny'\nx = [").unreadable.len(), 1);
    assert_eq!(read("rule = 3").unreadable.len(), 1);
}

proptest::proptest! {
    #[test]
    fn any_text_can_be_analysed(text in "(\\[\\[rule\\]\\]\n|toolName|decision|=|\"|deny|'|\\[|\\]|\n|[a-z0-9 ]|\\PC){0,40}") {
        read(&text);
    }
}
