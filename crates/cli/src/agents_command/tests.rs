use pollux_host::agents::question;
use pollux_host::request::Scope;

use super::*;

struct Fixed {
    rows: Vec<Row>,
    agreed: Vec<String>,
}

impl AgentSet for Fixed {
    fn notes(&self) -> &[String] {
        &[]
    }

    fn is_on(&self) -> bool {
        true
    }

    fn rows(&self) -> Vec<Row> {
        self.rows.clone()
    }

    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    fn show(&self, _name: &str) -> Result<(Row, String), Failure> {
        Ok((self.rows[0].clone(), "You \u{1b}[31mpaint.".to_owned()))
    }

    fn switch(&mut self, name: &str, on: bool, _scope: Scope) -> Result<String, Failure> {
        Ok(format!("{name} {on}\n"))
    }

    fn acknowledge(&mut self, name: &str) -> Result<String, Failure> {
        self.agreed.push(name.to_owned());
        Ok(String::new())
    }
}

fn fixed() -> Fixed {
    let painter = Row {
        name: "painter".into(),
        description: "paints\nhouses".into(),
        origin: "project".into(),
        status: "unacknowledged",
        ..Row::default()
    };
    let far = Row {
        name: "far".into(),
        status: "enabled",
        origin: "user".into(),
        is_remote: true,
        ..Row::default()
    };
    Fixed { rows: vec![painter, far], agreed: Vec::new() }
}

fn said(command: &AgentsCommand) -> String {
    let mut out = Vec::new();
    run(command, &mut fixed(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn agents_are_listed_by_kind_with_their_state() {
    let text = said(&AgentsCommand::List { json: false });
    assert!(
        text.contains("Local agents:\n\npainter [Needs agreement] [project]\n  Description: paints houses\n"),
        "{text}"
    );
    assert!(text.contains("Remote agents:\n\nfar [Enabled] [user]\n"), "{text}");
    let json: Value = serde_json::from_str(&said(&AgentsCommand::List { json: true })).unwrap();
    assert_eq!(json["agents"][1]["kind"], "remote");
    let text = said(&AgentsCommand::Show { name: "painter".into(), json: false });
    assert!(text.ends_with("\nYou paint.\n"), "{text:?}");
}

#[test]
fn a_person_is_asked_about_all_that_nobody_agreed_to_and_about_nothing_else() {
    let mut agents = fixed();
    let (lines, names) = question(&agents).unwrap();
    assert!(lines.iter().any(|line| line == "  * painter: paints houses"), "{lines:?}");
    assert_eq!(names, ["painter"]);
    agents.rows.remove(0);
    assert!(question(&agents).is_none());
}
