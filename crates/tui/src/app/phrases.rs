//! Phrases shown while waiting for the model.

/// Things worth knowing.
pub const TIPS: &[&str] = &[
    "Tip: @path adds a file to the prompt",
    "Tip: ! runs a shell command",
    "Tip: Shift+Tab changes the approval mode",
    "Tip: Ctrl+R searches earlier prompts",
    "Tip: Ctrl+G opens your editor for a long prompt",
    "Tip: prompts typed now are sent after this turn",
    "Tip: /compress makes room in a long conversation",
    "Tip: /rewind goes back to an earlier prompt",
    "Tip: Ctrl+O shows the whole output of the last tools",
    "Tip: pollux --resume latest resumes the last session",
    "Tip: Alt+M shows raw Markdown",
    "Tip: /stats shows where the tokens went",
];

/// Things not worth knowing.
pub const WIT: &[&str] = &[
    "Asking the other twin...",
    "Counting the spaces in your tabs...",
    "Reading the manual, for once...",
    "Looking busy...",
    "Untangling a linked list...",
    "Blaming the cache...",
    "Turning it off and on again...",
    "Naming things, the hard part...",
    "Walking the tree, minding the leaves...",
    "Off by one, back in two...",
];
