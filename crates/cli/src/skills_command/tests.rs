use super::*;

struct Fixed {
    agreed: Option<String>,
}

fn row(name: &str, origin: &'static str, enabled: bool) -> Row {
    let (description, location) = (format!("about {name}"), format!("/s/{name}/SKILL.md"));
    Row { name: name.into(), description, location, origin, extension: None, enabled }
}

impl SkillSet for Fixed {
    fn notes(&self) -> &[String] {
        &[]
    }

    fn look(&self) -> (Vec<Row>, Vec<String>) {
        (
            vec![row("alpha", "built-in", true), row("beta", "user", true), row("Zeta", "workspace", false)],
            vec!["odd\u{1b}[2J".into()],
        )
    }

    fn body(&self, name: &str) -> Result<Option<(Row, String)>, Failure> {
        Ok((name == "beta").then(|| (row("beta", "user", true), "Do it.".to_owned())))
    }

    fn enable(&mut self, _name: &str) -> Result<String, Failure> {
        Ok("on\n".into())
    }

    fn disable(&mut self, _name: &str, _scope: SkillScope) -> Result<String, Failure> {
        Ok("off\n".into())
    }

    fn unheard(&self, _scope: SkillScope) -> Option<String> {
        None
    }

    fn install(&mut self, source: &SkillSource, asking: &mut Asking<'_>) -> Result<String, Failure> {
        (asking.say)("Searching...");
        if !(asking.agrees)("Installing it.") {
            return Err(Failure::new(ExitKind::Failure, "Skill installation cancelled by user."));
        }
        self.agreed = Some(source.source.clone());
        Ok("done\n".into())
    }

    fn link(&mut self, source: &SkillSource, asking: &mut Asking<'_>) -> Result<String, Failure> {
        self.install(source, asking)
    }

    fn uninstall(&mut self, _name: &str, _scope: SkillScope) -> Result<String, Failure> {
        Ok("gone\n".into())
    }

    fn validate(&self, path: &Path) -> Checked {
        let errors = if path.ends_with("good") { Vec::new() } else { vec!["no name".to_owned()] };
        Checked { errors, advice: Vec::new() }
    }
}

/// What goes to stdout and stderr, and the failure if it is one.
fn done(command: &SkillsCommand, typed: &str) -> (String, String, Option<Failure>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut input = typed.as_bytes();
    let mut asked = Asked { input: &mut input, screen: &mut err };
    let failure = run(command, &mut Fixed { agreed: None }, Path::new("/w"), &mut asked, &mut out).err();
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap(), failure)
}

fn install(consent: bool) -> SkillsCommand {
    SkillsCommand::Install(SkillSource { source: "src".into(), scope: SkillScope::User, path: None, consent })
}

#[test]
fn the_list_hides_what_is_built_in_unless_asked() {
    let (out, err, _) = done(&SkillsCommand::List { all: false, json: false }, "");
    assert_eq!(
        out,
        "Discovered Agent Skills:\n\nbeta [Enabled]\n  Description: about beta\n  Location:    /s/beta/SKILL.md\n\n\
         Zeta [Disabled]\n  Description: about Zeta\n  Location:    /s/Zeta/SKILL.md\n\n"
    );
    assert_eq!(err, "odd\n");
    let (out, _, _) = done(&SkillsCommand::List { all: true, json: false }, "");
    assert!(out.ends_with(
        "alpha [Enabled] [Built-in]\n  Description: about alpha\n  Location:    /s/alpha/SKILL.md\n\n"
    ));
    assert_eq!(list(&[], true, true), "No skills discovered.\n");
    let (out, _, _) = done(&SkillsCommand::List { all: false, json: true }, "");
    let rows: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        rows[0],
        serde_json::json!({"name": "beta", "description": "about beta", "location": "/s/beta/SKILL.md", "origin": "user", "enabled": true})
    );
}

#[test]
fn a_skill_is_shown_or_the_nearest_is_named() {
    let (out, _, _) = done(&SkillsCommand::Show { name: "beta".into(), json: false }, "");
    assert!(out.ends_with("SKILL.md\n\nDo it.\n"), "{out}");
    let (_, _, failure) = done(&SkillsCommand::Show { name: "betta".into(), json: false }, "");
    let failure = failure.unwrap();
    assert_eq!((failure.summary.as_str(), failure.exit), ("Skill \"betta\" not found.", ExitKind::Failure));
    assert_eq!(failure.hint.as_deref(), Some("did you mean \"beta\"?"));
}

#[test]
fn nothing_is_installed_without_a_yes() {
    for typed in ["\n", "y\n", "YES\n"] {
        let (out, err, failure) = done(&install(false), typed);
        assert!(failure.is_none() && out == "done\n", "{typed:?}");
        assert_eq!(err, "Searching...\nInstalling it.\nDo you want to continue? [Y/n]: ");
    }
    let (_, _, failure) = done(&install(false), "n\n");
    assert_eq!(failure.unwrap().summary, "Skill installation cancelled by user.");
    let (_, _, failure) = done(&install(false), "");
    assert!(failure.unwrap().hint.unwrap().contains("--consent"));
    let (out, err, _) = done(&install(true), "");
    assert_eq!(
        (out.as_str(), err.as_str()),
        ("done\n", "Searching...\nYou have consented to the following:\nInstalling it.\n")
    );
}

#[test]
fn an_invalid_skill_fails_in_words_and_in_json() {
    let validate = |path: &str, json| SkillsCommand::Validate { path: path.into(), json };
    assert_eq!(done(&validate("good", false), "").0, "Valid skill: good\n");
    let (out, _, failure) = done(&validate("bad", false), "");
    assert_eq!(
        (out.as_str(), failure.unwrap().summary.as_str()),
        ("", "Validation failed for bad:\n  - no name")
    );
    let (out, _, failure) = done(&validate("bad", true), "");
    assert!(out.contains("\"valid\": false") && failure.is_some());
}

#[test]
fn what_came_and_went_is_counted() {
    assert_eq!(change(0, 0), "Agent skills reloaded successfully.\n");
    assert_eq!(
        change(2, 1),
        "Agent skills reloaded successfully. 2 newly available skills and 1 skill no longer available.\n"
    );
}
