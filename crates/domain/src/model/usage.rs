//! What a request cost.

/// Tokens of one request and its reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub candidates: u64,
    pub cached: u64,
    pub thoughts: u64,
    pub tool: u64,
    pub total: u64,
}

impl Usage {
    /// Adds another request's counts.
    pub fn add(&mut self, other: Usage) {
        self.prompt += other.prompt;
        self.candidates += other.candidates;
        self.cached += other.cached;
        self.thoughts += other.thoughts;
        self.tool += other.tool;
        self.total += other.total;
    }
}
