//! What is said while the model takes its time.

/// Things worth knowing.
pub const TIPS: &[&str] = &[
    "Tip: @ and a path bring a file along",
    "Tip: ! at the beginning runs a command of your own",
    "Tip: Shift+Tab changes what runs without asking",
    "Tip: Ctrl+R searches earlier prompts",
    "Tip: Ctrl+G opens your editor for a long prompt",
    "Tip: what you type now is sent when this is done",
    "Tip: /compress makes room in a long conversation",
    "Tip: /rewind goes back to an earlier prompt",
    "Tip: Ctrl+O shows the whole output of the last tool",
    "Tip: pollux --resume latest goes on where you left",
    "Tip: Alt+M shows an answer as the model wrote it",
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
