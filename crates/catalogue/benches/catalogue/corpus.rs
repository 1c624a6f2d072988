//! Realistic sessions: most are small, some large, a few huge; nearly all bytes are tool output.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// How many projects the sessions belong to.
const PROJECTS: usize = 40;

/// The same numbers on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % end.max(1)
    }
}

/// Thirty thousand words with a skewed frequency distribution.
pub(crate) struct Vocabulary(Vec<String>);

impl Vocabulary {
    pub(crate) fn new() -> Self {
        let syllables = [
            "ba", "con", "der", "fi", "gu", "ho", "in", "jo", "ka", "lem", "mor", "ne", "op", "pre", "qua",
            "ri", "sto", "ter", "un", "ver", "wi", "xe", "yo", "zu",
        ];
        let mut random = Random::new(7);
        let mut word =
            || (0..2 + random.below(3)).map(|_| syllables[random.below(syllables.len())]).collect();
        Self((0..30_000).map(|_| word()).collect())
    }

    pub(crate) fn word(&self, random: &mut Random) -> &str {
        // The product of two even choices leans to the front.
        let place = random.below(self.0.len()) * random.below(self.0.len()) / self.0.len();
        &self.0[place]
    }

    fn text(&self, random: &mut Random, bytes: usize, end: &str) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            text.push_str(self.word(random));
            text.push_str(if random.below(12) == 0 { end } else { " " });
        }
        text
    }
}

/// Writes so many sessions of so many bytes in all; returns the chats folders.
pub(crate) fn write(root: &Path, sessions: usize, bytes: usize) -> Vec<PathBuf> {
    let vocabulary = Vocabulary::new();
    let mut random = Random::new(42);
    let dirs: Vec<PathBuf> =
        (0..PROJECTS).map(|index| root.join(format!("tmp/{index:064x}/chats"))).collect();
    for dir in &dirs {
        fs::create_dir_all(dir).unwrap();
    }
    let huge = (sessions / 500).max(1);
    let large = sessions / 50;
    let small = sessions - huge - large;
    for index in 0..sessions {
        let size = match index {
            index if index < huge => bytes * 35 / 100 / huge,
            index if index < huge + large => bytes * 25 / 100 / large.max(1),
            _ => bytes * 40 / 100 / small * (40 + random.below(120)) / 100,
        };
        session(&dirs[index % PROJECTS], index, size, &vocabulary, &mut random);
    }
    dirs
}

fn session(dir: &Path, index: usize, size: usize, vocabulary: &Vocabulary, random: &mut Random) {
    let is_log = index.is_multiple_of(2);
    let (day, minute) = (1 + index % 28, index % 60);
    let id = format!("{index:08x}-0000-4000-8000-000000000000");
    let stamp = format!("2026-{:02}-{day:02}T{:02}:{minute:02}", 1 + index % 10, index % 24);
    let end = if is_log { "jsonl" } else { "json" };
    let name = format!("session-{}-{index:08x}.{end}", stamp.replace(':', "-"));
    let mut out = BufWriter::new(File::create(dir.join(name)).unwrap());
    let meta = format!(
        "\"sessionId\":\"{id}\",\"projectHash\":\"{:064x}\",\"startTime\":\"{stamp}:00.000Z\",\"lastUpdated\":\"{stamp}:59.000Z\",\"kind\":\"main\"",
        index % PROJECTS
    );
    if is_log {
        writeln!(out, "{{{meta}}}").unwrap();
    } else {
        write!(
            out,
            "{{\n  {},\n  \"messages\": [",
            meta.replace(",\"", ",\n  \"").replace("\":\"", "\": \"")
        )
        .unwrap();
    }
    let mut written = 0;
    let mut number = 0;
    while written < size {
        for message in turn(&stamp, number, vocabulary, random) {
            if is_log {
                writeln!(out, "{message}").unwrap();
            } else {
                write!(out, "{}\n    {message}", if written > 0 { "," } else { "" }).unwrap();
            }
            written += message.len();
        }
        number += 1;
    }
    if !is_log {
        out.write_all(b"\n  ]\n}\n").unwrap();
    }
    out.flush().unwrap();
}

/// A prompt, and a reply with two calls.
fn turn(stamp: &str, number: usize, vocabulary: &Vocabulary, random: &mut Random) -> [String; 2] {
    let time = format!("{stamp}:{:02}.000Z", number % 60);
    let prompt_size = 20 + random.below(300);
    let prompt = vocabulary.text(random, prompt_size, ", ");
    let user = format!(
        "{{\"id\":\"u-{number}\",\"timestamp\":\"{time}\",\"type\":\"user\",\"content\":[{{\"text\":\"{prompt}\"}}]}}"
    );
    let mut calls = String::new();
    for call in 0..2 {
        let path = vocabulary.text(random, 30, "/").replace(' ', "_");
        let output_size = 500 + random.below(4) * random.below(8000);
        let output = vocabulary.text(random, output_size, ";\\n    ");
        let status = if random.below(20) == 0 { "error" } else { "success" };
        let comma = if call > 0 { "," } else { "" };
        write!(
            calls,
            "{comma}{{\"id\":\"c{number}-{call}\",\"name\":\"read_file\",\"args\":{{\"file_path\":\"/src/{path}.rs\"}},\
             \"result\":[{{\"functionResponse\":{{\"id\":\"c{number}-{call}\",\"name\":\"read_file\",\"response\":{{\"output\":\"{output}\"}}}}}}],\
             \"status\":\"{status}\",\"timestamp\":\"{time}\",\"resultDisplay\":\"\",\"description\":\"x\",\"displayName\":\"ReadFile\",\"renderOutputAsMarkdown\":true}}"
        )
        .unwrap();
    }
    let reply_size = 100 + random.below(900);
    let reply = vocabulary.text(random, reply_size, ". ");
    let agent = format!(
        "{{\"id\":\"g-{number}\",\"timestamp\":\"{time}\",\"type\":\"gemini\",\"content\":\"{reply}\",\"thoughts\":[],\
         \"tokens\":{{\"input\":9,\"output\":2,\"cached\":0,\"thoughts\":0,\"tool\":0,\"total\":11}},\"model\":\"m\",\"toolCalls\":[{calls}]}}"
    );
    [user, agent]
}
