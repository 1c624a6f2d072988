//! What skills and extensions cost a command that lists them.

use crate::measure::{Series, run, table};
use crate::scenes::{Bench, Place, Runs, interleaved, put};

const EXTENSIONS: usize = 50;
const OF_EACH: usize = 2;
const OF_THE_USER: usize = 200;

/// `skills list` without any, and with 300 skills, a third of them in 50 extensions.
pub(crate) fn skills(bench: &Bench) {
    let (without, with) = (bench.place("no-skills"), bench.place("many-skills"));
    fill(&with, EXTENSIONS, OF_THE_USER);
    let mut runs: Runs<'_> = Vec::new();
    for (name, place) in [("no skills", &without), ("300 skills, 50 extensions", &with)] {
        for command in [&["skills", "list"][..], &["skills", "list", "--json"], &["--version"]] {
            let pollux = bench.pollux();
            runs.push((
                Series::new(&format!("{}: {name}", command.join(" "))),
                Box::new(move || run(&mut place.command(&pollux, None, command))),
            ));
        }
    }
    table("listing skills", &interleaved(bench, runs));
}

/// Extensions with skills of their own, and skills of the user.
pub(crate) fn fill(place: &Place, extensions: usize, of_the_user: usize) {
    let gemini = place.home().join(".gemini");
    let write = |path: &std::path::Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        put(path, text);
    };
    let skill = |name: &str| {
        let body = "Do one thing after the other, and look at the result before the next.\n".repeat(40);
        format!(
            "---\nname: {name}\ndescription: \"Does what {name} does. Use when: somebody asks for {name}.\"\n---\n{body}"
        )
    };
    for n in 0..of_the_user {
        write(&gemini.join(format!("skills/own-{n}/SKILL.md")), &skill(&format!("own-{n}")));
    }
    for n in 0..extensions {
        let folder = gemini.join(format!("extensions/extension-{n}"));
        write(
            &folder.join("gemini-extension.json"),
            &format!("{{\"name\": \"extension-{n}\", \"version\": \"1.0.0\"}}"),
        );
        for m in 0..OF_EACH {
            let name = format!("of-{n}-{m}");
            write(&folder.join(format!("skills/{name}/SKILL.md")), &skill(&name));
        }
    }
}
