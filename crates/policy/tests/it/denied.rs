//! Deny rules in yolo mode, for commands behind shells, launchers and programs with commands of their own.

use pollux_domain::approval::ApprovalMode;
use pollux_policy::request::Decision;

use crate::everyday::{LIST, decide, with_rules};

/// Commands that run `rm` or `git push`.
const DENIED: &[&str] = &[
    "command rm -v x",
    "command -- rm -v x",
    "command -p rm -V x",
    "bash -oc errexit 'rm x'",
    "bash -Oc extglob 'rm x'",
    "bash -coO errexit extglob 'rm x'",
    "bash +oc errexit 'rm x'",
    "bash -o errexit -c 'rm x'",
    "zsh -oerrexit -c 'rm x'",
    "zsh -co errexit 'rm x'",
    "bash --norc -c 'rm x'",
    "eval -- rm x",
    "builtin eval -- rm x",
    "builtin -- eval -- rm x",
    "$(git --exec-path)/git-push",
    "\"$(git --exec-path)\"/git-push origin",
    "\"$(git --exec-path)/git-push\" origin",
    "$(git --exec-path)/git push",
    "/usr/lib/git-core/git-push",
    "git-push origin",
    "$DIR/rm x",
    "${DIR:-/bin}/rm x",
    "eatmydata rm x",
    "direnv exec . rm x",
    "uv run rm x",
    "uv run -- rm x",
    "uv run --isolated rm x",
    "mise exec -- rm x",
    "mise exec node@20 -- rm x",
    "mise x rm x",
    "nix-shell --run 'rm x'",
    "nix-shell -p hello --run rm",
    "cpulimit -l 5 rm x",
    "cpulimit -l 5 -- rm x",
    "xterm -e rm x",
    "dc -e '!rm x'",
    "sqlite3 a.db '.shell rm x'",
    "sqlite3 a.db '.system rm x'",
    "psql -c '\\! rm x'",
    "mysql -e '\\! rm x'",
    "mysql -e 'select 1; system rm x'",
    "arch -x86_64 rm x",
    "arch rm x",
    "psql <<< '\\! rm x'",
    "psql db <<'EOF'\nselect 1;\n\\! rm x\nEOF",
    "sqlite3 a.db <<< '.shell rm x'",
    "mysql -e 'SYSTEM rm x'",
];

/// Commands of which it is not known what they run.
const UNKNOWN: &[&str] = &[
    "echo x | crontab -",
    "echo x | make -f -",
    "alias -p ls='rm x'",
    "fish -ic 'rm x'",
    "csh -fc 'rm x'",
    "pwsh -NoProfile -comm 'rm x'",
    "echo '!rm x' | dc",
    "echo '\\! rm x' | psql",
    "printf '\\134! rm x' | psql db",
    "psql < x.sql",
    "psql -f - < x.sql",
    "echo .shell rm x | sqlite3 a.db",
    "m4 <<< 'syscmd(rm x)'",
];

/// Commands that run neither.
const OTHERS: &[&str] = &[
    "command -v rm",
    "command -pv rm",
    "uv run pytest",
    "sqlite3 a.db .tables",
    "psql -tAc 'select 1'",
    "psql db <<'EOF'\nselect 1;\nEOF",
    "m4 x.m4",
    "mysql -e 'select * from system_users'",
    "crontab -l",
    "pwsh -NoProfile -File x.ps1",
];

#[test]
fn a_deny_rule_finds_commands_behind_shells_launchers_and_escapes() {
    let deny = LIST
        .replace(r#"["git", "cargo", "npm test"]"#, r#"["rm", "git push"]"#)
        .replace("\"allow\"", "\"deny\"");
    let engine = with_rules(&deny);
    for (commands, expected) in
        [(DENIED, Decision::Deny), (UNKNOWN, Decision::Ask), (OTHERS, Decision::Allow)]
    {
        for command in commands {
            let verdict = decide(&engine, command, ApprovalMode::Yolo, true);
            assert_eq!(verdict.decision, expected, "{command}: {}", verdict.reason);
        }
    }
}

/// Each script may be that of each program, which must not take the square of their number.
#[test]
fn many_programs_with_many_scripts_are_asked_about_at_once() {
    let deny = LIST
        .replace(r#"["git", "cargo", "npm test"]"#, r#"["rm", "git push"]"#)
        .replace("\"allow\"", "\"deny\"");
    let engine = with_rules(&deny);
    let line: String = (0..1_900).map(|number| format!("psql<<<'\\!x{number}';")).collect();
    let verdict = decide(&engine, &line, ApprovalMode::Yolo, true);
    assert_eq!(verdict.decision, Decision::Ask, "{}", verdict.reason);
}
