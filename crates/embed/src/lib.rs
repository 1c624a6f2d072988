//! Vectors for texts: Gemini, any OpenAI-compatible server, or a model in a local folder.
//!
//! Owns: the providers of [`pollux_domain::embedding::Embedder`], their batching and waiting, reading and
//! installing local models. Does not own: what is embedded and where vectors are kept (`memory`).
