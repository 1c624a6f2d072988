//! Checks that a Dockerfile can be built without a network.
//!
//! Engines take the network from commands of a build, but fetch what the file itself names: addresses in `ADD`, images,
//! and another reader for the file. What cannot be told apart is refused.

/// The images that a build needs, or why it needs a network.
pub(super) fn images(text: &str) -> Result<Vec<String>, String> {
    let (mut images, mut stages): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for line in instructions(text)? {
        let mut words = line.split_whitespace();
        let mut name = words.next().unwrap_or_default().to_ascii_uppercase();
        if name == "ONBUILD" {
            name = words.next().unwrap_or_default().to_ascii_uppercase();
        }
        let words: Vec<&str> = words.collect();
        let options = words.iter().take_while(|word| word.starts_with("--")).count();
        let (options, operands) = words.split_at_checked(options).unwrap_or_default();
        if options.iter().any(|option| option.contains(['"', '\'', '\\'])) || has_odd_end(&words) {
            return Err(format!("`{line}` is quoted in a way that is not supported without a network"));
        }
        if name == "ADD" && (words.iter().any(|word| is_remote(word)) || !is_plain(&operands.join(" "))) {
            return Err(format!("`{line}` needs a network, which `tools.sandboxNetwork` turns off"));
        }
        let base = (name == "FROM").then(|| operands.first().copied()).flatten();
        let mounted = words.iter().flat_map(|word| word.split(',')).filter_map(|part| {
            let part = option_value(part, "--mount=").unwrap_or(part);
            option_value(part, "from=")
        });
        let copied = words.iter().filter_map(|word| option_value(word, "--from="));
        // Only `--from` takes the number of a stage.
        let copied = copied.filter(|image| !image.bytes().all(|digit| digit.is_ascii_digit()));
        for image in base.into_iter().chain(mounted).chain(copied) {
            if image.contains('$') {
                return Err(format!("`{line}` names an image by a variable, which needs a network"));
            }
            let is_stage = image == "scratch" || stages.iter().any(|stage| stage.eq_ignore_ascii_case(image));
            if !is_stage {
                images.push(image.to_owned());
            }
        }
        if let ("FROM", [_, word, stage, ..]) = (name.as_str(), operands)
            && word.eq_ignore_ascii_case("as")
        {
            stages.push((*stage).to_owned());
        }
    }
    Ok(images)
}

/// What follows the name of an option, in whatever case.
fn option_value<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    let (start, value) = word.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

/// Whether a source may be an address.
fn is_remote(word: &str) -> bool {
    let has_user = word.split_once('@').is_some_and(|(_, rest)| rest.contains(':'));
    word.contains("://") || word.contains('$') || has_user || word.contains("github.com")
}

/// Whether operands are what they look like: words without quotes, or a JSON list without escapes.
fn is_plain(operands: &str) -> bool {
    let is_list = || serde_json::from_str::<Vec<String>>(operands).is_ok();
    !operands.contains(['\\', '\'']) && (!operands.contains('"') || is_list())
}

/// Whether a text that begins with `<<` may end elsewhere than it seems to: at a word with a backslash, which would
/// also continue the line, or at one that looks like a comment.
fn has_odd_end(words: &[&str]) -> bool {
    let ends = words.iter().filter_map(|word| word.split_once("<<").map(|(_, end)| end));
    let inner = |end: &str| {
        let end = end.trim_start_matches('-');
        let quoted = ['"', '\''].iter().find_map(|quote| end.strip_prefix(*quote)?.strip_suffix(*quote));
        quoted.unwrap_or(end).to_owned()
    };
    ends.map(inner).any(|end| end.contains(['"', '\'', '\\', '#']))
}

/// The lines of a file as the engine reads them.
fn instructions(text: &str) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut goes_on = false;
    for part in text.lines() {
        let part = part.trim_start_matches('\u{feff}').trim_end();
        let start = part.trim_start();
        let comment = start.strip_prefix('#').or_else(|| start.strip_prefix("//"));
        if comment.is_some_and(is_directive) || (lines.is_empty() && !goes_on && start.starts_with('{')) {
            return Err(format!("`{start}` is not supported without a network"));
        }
        if start.starts_with('#') || (start.is_empty() && !goes_on) {
            continue;
        }
        // Engines differ in whether these continue a line.
        if start.is_empty() || start.ends_with("\\\\") {
            return Err(format!(
                "an empty line or `\\\\` in `{}` is not supported without a network",
                if goes_on { &line } else { start }
            ));
        }
        let part = if goes_on { part } else { start };
        goes_on = part.ends_with('\\');
        line.push_str(part.strip_suffix('\\').unwrap_or(part));
        if !goes_on {
            lines.push(std::mem::take(&mut line));
        }
    }
    lines.push(line);
    lines.retain(|line| !line.trim().is_empty());
    Ok(lines)
}

/// Whether a comment chooses another reader or another sign for continued lines.
fn is_directive(comment: &str) -> bool {
    let comment = comment.trim_start().to_ascii_lowercase();
    let names = ["syntax", "escape"];
    names.iter().any(|name| comment.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_fetched_is_refused() {
        for text in [
            "FROM scratch\nADD http://a.example/x /x",
            "FROM scratch\nadd --chmod=755 https://a.example/x /x",
            "FROM scratch\nADD [\"https://a.example/x\", \"/x\"]",
            "FROM scratch\nADD \\\n  # note\n  https://a.example/x \\\n /x",
            "ARG U=http\nFROM scratch\nADD $U /x",
            "FROM scratch\nADD git@a.example:x.git /x",
            "FROM scratch\nADD me@a.example:x.git /x",
            "FROM scratch\nONBUILD ADD ftp://a.example/x /x",
            "# syntax=a.example/reader\nFROM scratch",
            "#!/usr/bin/env build\n\n# syntax = a.example/reader\nFROM scratch",
            "// syntax=a.example/reader\nFROM scratch",
            "#!/usr/bin/env build\n//syntax=a.example/reader\nFROM scratch",
            "{\"syntax\": \"a.example/reader\"}\nFROM scratch",
            "\u{feff}#!x\n\n  {\"syntax\": \"a.example/reader\"}",
            "# escape=`\nFROM scratch",
            "ARG B=x\nFROM ${B}",
        ] {
            assert!(images(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quotes_and_escapes_hide_nothing() {
        for text in [
            "FROM scratch\nADD ht\\tp:/\\/a.example/x /x",
            "FROM scratch\nADD http:\"//\"a.example/x /x",
            "FROM scratch\nADD 'http:'//a.example/x /x",
            "FROM scratch\nADD [\"http:\\u002f\\u002fa.example/x\", \"/x\"]",
            "FROM scratch\nADD [ ht\"tp\":\"//\"a.example/x /x",
            "FROM scratch\nRUN --mount=type=bind,\"from=a.example/b\",target=/m true",
            "FROM scratch\nRUN --mo\"unt\"=type=bind,from=a.example/b,target=/m true",
            "FROM scratch\nCOPY --fr\\om=a.example/b /x /x",
            // What continues a line, and what does not.
            "FROM scratch\nADD\\\n http://a.example/x /x",
            "FROM scratch\nADD \\\n\nhttp://a.example/x /x",
            "FROM scratch\nRUN true \\\\\nADD http://a.example/x /x",
            "FROM scratch\nRUN <<'E\\'\nE\\\nADD http://a.example/x /x",
            "FROM scratch\nRUN <<\"#E\"\ntrue \\\n#E\nADD http://a.example/x /x",
        ] {
            assert!(images(text).is_err(), "{text}");
        }
        let plain =
            "FROM scratch\nADD [\"a b\", \"/x\"]\nRUN echo \"a\\b\" 'c' && cat <<'EOF'\nx\nEOF\nADD a /b";
        assert_eq!(images(plain), Ok(Vec::new()));
    }

    #[test]
    fn images_are_named_and_stages_are_not() {
        let text = "# note\nFROM --platform=linux/amd64 debian:12 AS base\nADD tool /tool\nFROM scratch\n\
                    COPY --from=base /x /x\nCOPY --from=0 /y /y\nCOPY --from=a.example/b /z /z\n\
                    RUN --mount=type=bind,from=c.example/d,target=/m true\nfrom Base\n\
                    RUN --mount=FROM=e.example/f,target=/m --mount=type=bind,From=1,target=/n true\nFROM 0";
        assert_eq!(
            images(text).unwrap(),
            ["debian:12", "a.example/b", "c.example/d", "e.example/f", "1", "0"]
        );
    }
}
