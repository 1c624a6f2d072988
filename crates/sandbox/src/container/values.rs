//! Reads the values of `SANDBOX_ENV`, `SANDBOX_PORTS` and `SANDBOX_FLAGS`.

use super::ContainerError;

fn invalid(variable: &'static str, why: String) -> ContainerError {
    ContainerError::Variable { variable, why }
}

/// `SANDBOX_ENV`: `NAME=value`, separated by commas.
pub fn parse_variables(text: &str) -> Result<Vec<(String, String)>, ContainerError> {
    let read = |entry: &str| {
        let named = entry.split_once('=').filter(|(name, _)| is_name(name));
        let (name, value) = named.ok_or_else(|| {
            invalid("SANDBOX_ENV", format!("expected `NAME=value`, got `{}`", shown(entry)))
        })?;
        Ok((name.to_owned(), value.to_owned()))
    };
    entries(text).map(read).collect()
}

/// The part of an entry that cannot be a secret.
fn shown(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `SANDBOX_PORTS`: numbers, separated by commas.
pub fn parse_ports(text: &str) -> Result<Vec<u16>, ContainerError> {
    let read = |entry: &str| match entry.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(invalid("SANDBOX_PORTS", format!("invalid port `{entry}`"))),
    };
    entries(text).map(read).collect()
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// `SANDBOX_FLAGS`, split as a shell does it: quotes and backslashes, nothing else.
pub fn split_flags(text: &str) -> Result<Vec<String>, ContainerError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => word.get_or_insert_default().push_str(&quoted(&mut letters, '\'')?),
            '"' => word.get_or_insert_default().push_str(&quoted(&mut letters, '"')?),
            '\\' => word.get_or_insert_default().extend(letters.next()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn quoted(letters: &mut std::str::Chars<'_>, end: char) -> Result<String, ContainerError> {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == end => return Ok(text),
            '\\' if end == '"' => match letters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => text.push(escaped),
                Some(other) => text.extend(['\\', other]),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    Err(invalid("SANDBOX_FLAGS", format!("a {end} is not closed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_mistakes_named_without_a_secret() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parse_variables("A=1, B=x=y ,,C=").unwrap(),
            [pair("A", "1"), pair("B", "x=y"), pair("C", "")]
        );
        for wrong in ["A", "1A=x", "A B=x", "=x", "A-B=secret"] {
            let error = parse_variables(wrong).unwrap_err().to_string();
            assert!(error.contains("SANDBOX_ENV") && error.contains("expected `NAME=value`"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert_eq!(parse_ports("8080, 3000").unwrap(), [8080, 3000]);
        for wrong in ["0", "65536", "80:80", "a", "-1"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_are_split_as_a_shell_does_it() {
        for (text, expected) in [
            ("", &[][..]),
            ("  --a   --b=c ", &["--a", "--b=c"]),
            (r#"--label "a b" 'c "d"'"#, &["--label", "a b", "c \"d\""]),
            (r#"a\ b "x\"y" "p\q""#, &["a b", "x\"y", "p\\q"]),
            ("'' x", &["", "x"]),
            ("$(id) `id` ; rm", &["$(id)", "`id`", ";", "rm"]),
        ] {
            assert_eq!(split_flags(text).unwrap(), expected, "{text}");
        }
        assert!(split_flags("'a").is_err() && split_flags("\"a").is_err());
    }
}
