//! The table of built-in providers: where each one is and which variables belong to it.
//!
//! `model` reads from it how a provider is asked, `config` which variables hold keys. What is known of their models
//! is in the catalogue of `model`; a provider without an entry there still works, its models are then named by it.

use super::Dialect;

/// A provider that works with a key alone.
#[derive(Debug, PartialEq)]
pub struct BuiltInProvider {
    pub id: &'static str,
    /// The name that people know it by.
    pub name: &'static str,
    pub dialect: Dialect,
    /// Empty where only the user knows it.
    pub base: &'static str,
    /// Variables that hold its key, the first one first.
    pub keys: &'static [&'static str],
    /// Variables that hold its address, the first one first.
    pub addresses: &'static [&'static str],
    /// On the user's own machine: no key is needed.
    pub local: bool,
    /// How people start it, if it is local.
    pub start: Option<&'static str>,
}

const CHAT: BuiltInProvider = BuiltInProvider {
    id: "",
    name: "",
    dialect: Dialect::CHAT,
    base: "",
    keys: &[],
    addresses: &[],
    local: false,
    start: None,
};

/// Every built-in provider, one row each. Gemini's own rows only name it; `auth` chooses its credentials.
pub const BUILT_IN_PROVIDERS: &[BuiltInProvider] = &[
    BuiltInProvider { id: "gemini", name: "Gemini", dialect: Dialect::GEMINI, ..CHAT },
    BuiltInProvider { id: "vertex", name: "Vertex AI", dialect: Dialect::GEMINI, ..CHAT },
    BuiltInProvider {
        id: "anthropic",
        name: "Anthropic",
        dialect: Dialect::MESSAGES,
        base: "https://api.anthropic.com",
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        addresses: &["ANTHROPIC_BASE_URL"],
        ..CHAT
    },
    BuiltInProvider {
        id: "openai",
        name: "OpenAI",
        dialect: Dialect::RESPONSES,
        base: "https://api.openai.com/v1",
        keys: &["OPENAI_API_KEY"],
        addresses: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        ..CHAT
    },
    BuiltInProvider {
        id: "openrouter",
        name: "OpenRouter",
        base: "https://openrouter.ai/api/v1",
        keys: &["OPENROUTER_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "azure",
        name: "Azure OpenAI",
        dialect: Dialect::RESPONSES,
        keys: &["AZURE_OPENAI_API_KEY"],
        addresses: &["AZURE_OPENAI_ENDPOINT", "AZURE_RESOURCE_NAME"],
        ..CHAT
    },
    BuiltInProvider {
        id: "cerebras",
        name: "Cerebras",
        base: "https://api.cerebras.ai/v1",
        keys: &["CEREBRAS_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "deepseek",
        name: "DeepSeek",
        base: "https://api.deepseek.com",
        keys: &["DEEPSEEK_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "fireworks",
        name: "Fireworks",
        base: "https://api.fireworks.ai/inference/v1",
        keys: &["FIREWORKS_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "groq",
        name: "Groq",
        base: "https://api.groq.com/openai/v1",
        keys: &["GROQ_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "huggingface",
        name: "Hugging Face",
        base: "https://router.huggingface.co/v1",
        keys: &["HF_TOKEN"],
        ..CHAT
    },
    BuiltInProvider {
        id: "mistral",
        name: "Mistral",
        base: "https://api.mistral.ai/v1",
        keys: &["MISTRAL_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "moonshot",
        name: "Moonshot",
        base: "https://api.moonshot.ai/v1",
        keys: &["MOONSHOT_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "together",
        name: "Together",
        base: "https://api.together.xyz/v1",
        keys: &["TOGETHER_API_KEY"],
        ..CHAT
    },
    BuiltInProvider { id: "xai", name: "xAI", base: "https://api.x.ai/v1", keys: &["XAI_API_KEY"], ..CHAT },
    BuiltInProvider {
        id: "zai",
        name: "Z.ai",
        base: "https://api.z.ai/api/paas/v4",
        keys: &["ZAI_API_KEY"],
        ..CHAT
    },
    BuiltInProvider {
        id: "ollama",
        name: "Ollama",
        base: "http://127.0.0.1:11434/v1",
        keys: &["OLLAMA_API_KEY"],
        addresses: &["OLLAMA_HOST"],
        local: true,
        start: Some("ollama serve"),
        ..CHAT
    },
    BuiltInProvider {
        id: "lmstudio",
        name: "LM Studio",
        base: "http://127.0.0.1:1234/v1",
        local: true,
        start: Some("lms server start"),
        ..CHAT
    },
    BuiltInProvider {
        id: "llamacpp",
        name: "llama.cpp",
        base: "http://127.0.0.1:8080/v1",
        keys: &["LLAMA_API_KEY"],
        local: true,
        start: Some("llama-server -m MODEL.gguf --jinja"),
        ..CHAT
    },
    BuiltInProvider {
        id: "vllm",
        name: "vLLM",
        base: "http://127.0.0.1:8000/v1",
        keys: &["VLLM_API_KEY"],
        local: true,
        start: Some("vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER"),
        ..CHAT
    },
    BuiltInProvider { id: "gguf", name: "GGUF file", local: true, ..CHAT },
];

impl BuiltInProvider {
    pub fn find(id: &str) -> Option<&'static Self> {
        BUILT_IN_PROVIDERS.iter().find(|row| row.id == id)
    }

    /// The variables that hold the key of some provider.
    pub fn key_variables() -> impl Iterator<Item = &'static str> {
        BUILT_IN_PROVIDERS.iter().flat_map(|row| row.keys.iter().copied())
    }

    /// The variables that hold the address of some provider.
    pub fn address_variables() -> impl Iterator<Item = &'static str> {
        BUILT_IN_PROVIDERS.iter().flat_map(|row| row.addresses.iter().copied())
    }

    /// The host of its own address.
    pub fn host(&self) -> &'static str {
        let rest = self.base.split_once("://").map_or(self.base, |(_, rest)| rest);
        rest.split(['/', ':']).next().unwrap_or(rest)
    }
}
