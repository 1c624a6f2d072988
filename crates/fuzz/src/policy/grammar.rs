//! Commands made of pieces of shell grammar. The policy's own tests use it as well.

/// The building blocks of commands. Tripwires are `t1`, `t2` and `t3`; `git`, `cargo` and `npm` are allowed.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "git status", "git log ", "git commit -m ", "cargo test", "npm test", "echo ", "echo x", "cat a", "ls", "true", "x=",
    "x=t1", "x=\"t1 a\"", "y=$x", "$x", "\"$x\"", "${x}", "${x:-", "${x#", "${x%", "${xy-", "${#x}", "${x[0]}", "${!x}",
    "${x@P}", "$y", "$1", "$@", "$_", "$PWD", "$HOME", "$(", "$(t1)", ")", "`", "`t1`", "'", "\"", "\\", "\\\n", "$'", "$\"",
    "t1", "t2 a", "t3", "; t1", "; ", " ", " ", "\n", "\n", "&& ", "|| ", "| ", "& ", "|& ", "(", ")", "{ ", "; }", "!", " ! ",
    "<<E\n", "<<'E'\n", "<<-E\n", "\nE\n", "<<< ", "< a ", "> /dev/null ", "2>&1 ", ">&2 ", "<(", ">(", "&> /dev/null ",
    "$((", "))", "((", "1", "+", "i=0", "i++", "[[ ", " ]]", "[ ", " ]", "=~ ", "-eq ", "-v ", "-f a", "a[$(t1)]", "'a[$(t1)]'",
    "if ", "; then ", "; else ", "; fi", "for x in ", "for x in t1 t2", "; do ", "; done", "case a in ", "a) ", ";; ", " esac",
    "f() ", "f", "function g ", "eval ", "eval '", "sh -c '", "bash -c \"", "env ", "env -i ", "command ", "builtin ", "exec ",
    "xargs ", "xargs -I{} ", "{}", "timeout 5 ", "nice ", "time ", "nohup ", "trap t1 EXIT", "trap '", "' EXIT", "read x",
    "IFS= read -r x", "printf ", "printf -v x t1", "declare x=t1", "export x=t1", "local x", "unset x", "set -- t1", "alias ls=t1",
    "PATH=.", "GIT_PAGER=t1 ", "-c core.pager=t1 ", "-c alias.z=!t1 z", "--exec=t1 ", "-x t1 ", "bisect run t1", "submodule foreach t1",
    "*", "?", "[a]", "{t1,t2}", "{a,b}", "{1..3}", "~", "=", "\t", "#", " #", "%", "/", "@", ":", "-", ".", ",", "$", "a", "b",
    "sed -n 1p a", "sed '1e t1' a", "sed 's/a/b/", "e'", "awk '{print}' a", "awk 'BEGIN{system(\"t1\")}'", "find . -exec t1 {} +",
    "find . -name a", "find . | ", "sort a", "--compress-program=t1 ", "head -1 a", "grep a a", "wc -l a", "test ", "coproc ", "until ",
    "in ", "do ", "then ", "case ", "select x in t1", "let x=1", "wait", "test -v ", "mapfile x", "hash -p t1 ls", "\r", "\u{a0}",
];

/// A command line, one piece for each byte or two.
pub(crate) fn command(bytes: &[u8]) -> String {
    let mut text = String::new();
    for pair in bytes.chunks(2).take(24) {
        let number = pair.iter().fold(0_usize, |sum, byte| sum * 256 + usize::from(*byte));
        text.push_str(PIECES[number % PIECES.len()]);
    }
    text
}
