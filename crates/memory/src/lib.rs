//! The durable memory: what was said and learned, kept in files and found again.
//!
//! Owns: the state directory, its session store and transcripts, the index (full text and vectors), search,
//! learnings. Does not own: making vectors (`embed`), when things are remembered, printing.
