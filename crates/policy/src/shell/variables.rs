//! Environment variables that change how programs behave.

use super::{Findings, lists};

/// Whether a variable in front of an allowed command does not affect what the rule is about.
pub(crate) fn is_harmless(name: &str, value: Option<&str>) -> bool {
    let known = lists::holds("variable/quiet", name)
        || lists::holds("variable/harmless", name)
        || name.starts_with("LC_")
        || ["CARGO_TERM_", "CARGO_PROFILE_", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS", "CARGO_NET_OFFLINE"]
            .iter()
            .any(|start| name.starts_with(start))
        || ["RUSTFLAGS", "RUSTDOCFLAGS", "NODE_OPTIONS", "PAGER", "CARGO_TARGET_DIR"].contains(&name)
        || name.ends_with("_PAGER");
    known && !is_risky(name, value)
}

/// Whether tools read a variable that may be exported already, and that other lines use for their own purposes.
fn is_of_tools(name: &str) -> bool {
    lists::holds("variable/tool", name)
}

/// Whether giving this variable this value changes which code runs.
pub(super) fn is_risky(name: &str, value: Option<&str>) -> bool {
    if lists::holds("variable/harmless", name) {
        return false;
    }
    // A path in place of a name makes libraries read that file.
    if matches!(name, "TZ" | "TERM" | "LANG" | "LANGUAGE") || name.starts_with("LC_") {
        return !value.is_some_and(|value| !value.starts_with(['/', ':', '.']) && !value.contains(".."));
    }
    if name == "PAGER" || name.ends_with("_PAGER") || name == "MANPAGER" {
        return !matches!(value, Some("" | "cat"));
    }
    if name == "NODE_OPTIONS" {
        return !value.is_some_and(|v| {
            v.split(' ').all(|o| o.starts_with("--max-old-space-size=") || o == "--no-warnings")
        });
    }
    if name == "RUSTFLAGS"
        || name == "RUSTDOCFLAGS"
        || name == "CFLAGS"
        || name == "CXXFLAGS"
        || name == "LDFLAGS"
    {
        let is_rust = name.starts_with("RUST");
        return !value.is_some_and(|v| {
            !v.contains("linker")
                && !v.contains("plugin")
                && !v.contains("wrapper")
                && !v.contains('@')
                && (!is_rust || flags_of_rustc_are_plain(v))
        });
    }
    if name.starts_with("CARGO") {
        let words = [
            "RUSTC",
            "RUNNER",
            "LINKER",
            "WRAPPER",
            "HOME",
            "RUSTFLAGS",
            "CONFIG",
            "REGISTR",
            "HTTP",
            "CREDENTIAL",
            "ALIAS",
            "RUSTDOC",
            "UNSTABLE",
            "INSTALL",
            "TOKEN",
        ];
        if name.ends_with("TARGET_DIR") {
            return !value.is_some_and(|v| !v.starts_with(['/', '~', '$']) && !v.contains(".."));
        }
        return words.iter().any(|word| name.contains(word));
    }
    let upper = name.to_ascii_uppercase();
    lists::holds("variable/risky", name)
        || lists::list("variable/risky-prefix").iter().any(|prefix| name.starts_with(prefix))
        || upper.ends_with("_PROXY")
        || upper.ends_with("_PAGER")
        || upper.ends_with("_EDITOR")
        || upper.ends_with("_ASKPASS")
}

/// Whether options for rustc, and for rustdoc with the same ones, name no file and start nothing.
fn flags_of_rustc_are_plain(flags: &str) -> bool {
    const REACHING: [&str; 13] = [
        "emit",
        "print",
        "sysroot",
        "llvm-args",
        "incremental",
        "save-temps",
        "profile-use",
        "profile-generate",
        "extern",
        "out-dir",
        "remark-dir",
        "dlltool",
        "html-",
    ];
    // Well-known linkers, by name.
    let is_linker = |word: &str| {
        let name = word.strip_prefix("-C").unwrap_or(word).strip_prefix("link-arg=-fuse-ld=");
        name.is_some_and(|name| matches!(name, "lld" | "mold" | "gold" | "bfd"))
    };
    let given = flags.split_whitespace().map(|word| match is_linker(word) {
        true if word.starts_with('-') => "-Cdebuginfo=0",
        true => "debuginfo=0",
        false => word,
    });
    let words = std::iter::once("rustc").chain(given);
    let part = super::Part { words: words.map(|word| Some(word.to_owned())).collect(), ..Default::default() };
    let (touches, unsure) = super::reach::touches(&part);
    touches.is_empty() && unsure.is_none() && !REACHING.iter().any(|word| flags.contains(word))
}

/// Whether programs may inherit a variable that only this line assigns: lower-case names are not exported by convention.
pub(super) fn may_be_exported(name: &str) -> bool {
    !name.chars().any(|c| c.is_ascii_lowercase())
}

/// Notes a variable that one program gets.
pub(super) fn passed(name: &str, value: Option<&str>, found: &mut Findings) {
    if is_risky(name, value) {
        found.doubt(format!("it sets `{name}`, which changes how programs behave"));
    }
}

/// Notes a variable of the shell. If it is exported already, all later commands of the line get the new value.
pub(super) fn assigned(name: &str, value: Option<&str>, found: &mut Findings) {
    passed(name, value, found);
    noted(name, found);
}

/// Notes a variable of tools that the line may change.
pub(super) fn noted(name: &str, found: &mut Findings) {
    if is_of_tools(name) && !found.set.iter().any(|set| set == name) {
        found.set.push(name.to_owned());
    }
}

/// Builtins and programs that a function must not silently replace.
pub(super) fn is_command_name(name: &str) -> bool {
    lists::holds("shell/names", name)
        || super::programs::is_listed(name)
        || super::wrapper::is_wrapper(name)
        || name.contains('/')
}
