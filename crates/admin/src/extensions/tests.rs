use pollux_host::prompter::Prompter;

use super::*;

fn asked(typed: &str, unless_said: bool) -> (bool, String) {
    let mut screen = Vec::new();
    let mut input = typed.as_bytes();
    let mut asking = Prompter { at_terminal: false, input: &mut input, screen: &mut screen };
    let agreed = asking.agrees("Go on?", unless_said);
    (agreed, String::from_utf8(screen).unwrap())
}

#[test]
fn an_empty_answer_is_the_usual_one_and_silence_is_a_no() {
    assert_eq!(asked("\n", true), (true, "Go on? [Y/n]: ".to_owned()));
    assert_eq!(asked("\n", false), (false, "Go on? [y/N]: ".to_owned()));
    assert!(asked("YES\n", false).0 && !asked("no\n", true).0 && !asked("", true).0);
}

#[test]
fn the_list_has_upstreams_blocks() {
    let row = ExtensionRow {
        name: "x".into(),
        version: "1.0.0".into(),
        id: "i".into(),
        name_hash: "h".into(),
        path: "/p".into(),
        origin: Some(json!({"source": "o/r", "type": "github-release", "releaseTag": "v1"})),
        enabled_here: false,
        enabled_for_user: true,
        servers: vec![("s".into(), json!({"command": "node"}))],
        settings: vec![
            SettingRow {
                name: "Token".into(),
                sensitive: true,
                value: Some("***".into()),
                place: Some(("User", "Keychain".into())),
                ..SettingRow::default()
            },
            SettingRow { name: "Region".into(), ..SettingRow::default() },
        ],
        ..ExtensionRow::default()
    };
    let wanted = "\
✗ x (1.0.0)
 ID: i
 name: h
 Path: /p
 Source: o/r (Type: github-release)
 Release tag: v1
 Enabled (User): true
 Enabled (Workspace): false
 MCP servers:
  s
 Settings:
  Token: *** (User - Keychain)
  Region: [not set]
";
    assert_eq!(page::text(std::slice::from_ref(&row)), wanted);
    assert_eq!(page::text(&[row.clone(), row.clone()]), format!("{wanted}\n{wanted}"));
    assert_eq!(page::text(&[]), "No extensions installed.\n");
    assert_eq!(page::json(&[]), json!([]));
    assert_eq!(page::json(&[row])[0]["resolvedSettings"][0]["scope"], "user");
}

#[test]
fn every_template_has_a_manifest_and_the_folders_name() {
    for template in templates::NAMES.iter().map(|name| Some(*name)).chain([None]) {
        let files = templates::files(template, "mine").unwrap();
        let (first, text) = files.first().unwrap();
        assert_eq!(*first, "gemini-extension.json");
        let manifest: Value = serde_json::from_str(text).unwrap();
        assert_eq!(manifest["name"], "mine");
    }
    assert!(templates::files(Some("nosuch"), "mine").is_none());
}
