//! The commands that keys can be bound to, with ids, default keys and descriptions.

/// One row for each command: variant, id (must equal upstream's), default keys, description.
macro_rules! commands {
    ($($section:literal { $($name:ident $id:literal [$($key:literal),*] $text:literal)* })*) => {
        /// A command that keys can be bound to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Command { $($($name,)*)* }

        impl Command {
            /// Every command, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)*)*];

            /// The name in `keybindings.json`.
            pub fn id(self) -> &'static str {
                match self { $($(Self::$name => $id,)*)* }
            }

            /// The description in the list of shortcuts.
            pub fn description(self) -> &'static str {
                match self { $($(Self::$name => $text,)*)* }
            }

            /// The heading it is listed under.
            pub fn section(self) -> &'static str {
                match self { $($(Self::$name => $section,)*)* }
            }

            /// The default keys.
            pub(crate) fn defaults(self) -> &'static [&'static str] {
                match self { $($(Self::$name => &[$($key),*],)*)* }
            }
        }
    };
}

commands! {
    "Basics" {
        Confirm "basic.confirm" ["enter"] "Confirm"
        Cancel "basic.cancel" ["escape", "ctrl+["] "Cancel, close, go back"
        Quit "basic.quit" ["ctrl+c"] "Cancel the request; twice to exit"
        Exit "basic.exit" ["ctrl+d"] "Exit if the prompt is empty"
        Detach "basic.detach" ["ctrl+\\", "ctrl+4"] "Detach from the session (then press d)"
    }
    "Cursor" {
        Home "cursor.home" ["ctrl+a", "home"] "Start of the line"
        End "cursor.end" ["ctrl+e", "end"] "End of the line"
        Up "cursor.up" ["up"] "One row up"
        Down "cursor.down" ["down"] "One row down"
        Left "cursor.left" ["left"] "One character left"
        Right "cursor.right" ["right", "ctrl+f"] "One character right"
        WordLeft "cursor.wordLeft" ["ctrl+left", "alt+left", "alt+b"] "One word left"
        WordRight "cursor.wordRight" ["ctrl+right", "alt+right", "alt+f"] "One word right"
    }
    "Editing" {
        DeleteRightAll "edit.deleteRightAll" ["ctrl+k"] "Delete to the end of the line"
        DeleteLeftAll "edit.deleteLeftAll" ["ctrl+u"] "Delete to the start of the line"
        Clear "edit.clear" ["ctrl+c"] "Clear the prompt"
        DeleteWordLeft "edit.deleteWordLeft" ["ctrl+backspace", "alt+backspace", "ctrl+w"] "Delete the word before the cursor"
        DeleteWordRight "edit.deleteWordRight" ["ctrl+delete", "alt+delete", "alt+d"] "Delete the word after the cursor"
        DeleteLeft "edit.deleteLeft" ["backspace", "ctrl+h"] "Delete the character before the cursor"
        DeleteRight "edit.deleteRight" ["delete", "ctrl+d"] "Delete the character after the cursor"
        Undo "edit.undo" ["alt+z", "ctrl+_", "cmd+z"] "Undo"
        Redo "edit.redo" ["ctrl+shift+z", "alt+shift+z", "cmd+shift+z"] "Redo"
        Yank "edit.yank" ["alt+y"] "Insert the last deleted text"
    }
    "Scrolling" {
        ScrollUp "scroll.up" ["shift+up"] "Scroll up"
        ScrollDown "scroll.down" ["shift+down"] "Scroll down"
        ScrollHome "scroll.home" ["ctrl+home", "shift+home"] "Scroll to the top"
        ScrollEnd "scroll.end" ["ctrl+end", "shift+end"] "Scroll to the bottom"
        PageUp "scroll.pageUp" ["pageup"] "One page up"
        PageDown "scroll.pageDown" ["pagedown"] "One page down"
    }
    "History" {
        HistoryPrevious "history.previous" ["ctrl+p"] "Earlier prompt"
        HistoryNext "history.next" ["ctrl+n"] "Later prompt"
        SearchStart "history.search.start" ["ctrl+r"] "Search earlier prompts"
        SearchSubmit "history.search.submit" ["enter"] "Send the found prompt"
        SearchAccept "history.search.accept" ["tab"] "Use the found prompt"
    }
    "Lists and dialogs" {
        NavUp "nav.up" ["up"] "One entry up"
        NavDown "nav.down" ["down"] "One entry down"
        DialogUp "nav.dialog.up" ["up", "k"] "One entry up in a dialog"
        DialogDown "nav.dialog.down" ["down", "j"] "One entry down in a dialog"
        DialogNext "nav.dialog.next" ["tab"] "Next part of a dialog"
        DialogPrevious "nav.dialog.previous" ["shift+tab"] "Previous part of a dialog"
    }
    "Suggestions" {
        SuggestAccept "suggest.accept" ["tab", "enter"] "Take the suggestion"
        SuggestPrevious "suggest.focusPrevious" ["up", "ctrl+p"] "Previous suggestion"
        SuggestNext "suggest.focusNext" ["down", "ctrl+n"] "Next suggestion"
        SuggestExpand "suggest.expand" ["right"] "Show the whole suggestion"
        SuggestCollapse "suggest.collapse" ["left"] "Shorten the suggestion"
    }
    "Input" {
        Submit "input.submit" ["enter"] "Send the prompt"
        QueueMessage "input.queueMessage" ["tab"] "Queue the prompt while a request runs"
        Newline "input.newline" ["ctrl+enter", "cmd+enter", "alt+enter", "shift+enter", "ctrl+j"] "New line"
        OpenEditor "input.openExternalEditor" ["ctrl+g", "ctrl+shift+g"] "Edit the prompt in an editor"
        OldOpenEditor "input.deprecatedOpenExternalEditor" ["ctrl+x"] "Show the key that opens the editor"
        PasteClipboard "input.paste" ["ctrl+v", "cmd+v", "alt+v"] "Paste text or an image"
    }
    "Program" {
        ShowErrors "app.showErrorDetails" ["f12"] "Details of errors"
        ShowTodos "app.showFullTodos" ["ctrl+t"] "Whole to-do list"
        ShowIdeContext "app.showIdeContextDetail" ["f4"] "Files open in the editor"
        ToggleMarkdown "app.toggleMarkdown" ["alt+m"] "Raw or rendered Markdown"
        ToggleCopyMode "app.toggleCopyMode" ["f9"] "Copy mode"
        ToggleMouse "app.toggleMouseMode" ["ctrl+s"] "Mouse on or off"
        ToggleYolo "app.toggleYolo" ["ctrl+y"] "Toggle YOLO mode"
        CycleMode "app.cycleApprovalMode" ["shift+tab"] "Next approval mode"
        ShowMoreLines "app.showMoreLines" ["ctrl+o"] "More or fewer lines of output"
        ExpandPaste "app.expandPaste" ["ctrl+o"] "Expand or fold pasted text"
        FocusShell "app.focusShellInput" ["tab"] "Type into the running command"
        UnfocusShell "app.unfocusShellInput" ["shift+tab"] "Leave the running command"
        ClearScreen "app.clearScreen" ["ctrl+l"] "Clear the screen"
        Restart "app.restart" ["r", "shift+r"] "Restart where a dialog offers it"
        Suspend "app.suspend" ["ctrl+z"] "Suspend the program (`fg` resumes it)"
        ShellUnfocusWarning "app.showShellUnfocusWarning" ["tab"] "Show how to leave the running command"
        Voice "app.voiceModePTT" ["space"] "Push to talk"
        DumpFrame "app.dumpFrame" ["f8"] "Write the frame on screen to a file"
        StartRecording "app.startRecording" ["f6"] "Start recording frames"
        StopRecording "app.stopRecording" ["f7"] "Stop recording frames"
    }
    "Background commands" {
        BackgroundEscape "background.escape" ["escape"] "Leave the background command"
        BackgroundSelect "background.select" ["enter"] "Open the background command"
        BackgroundToggle "background.toggle" ["ctrl+b"] "Move to the background, or show it"
        BackgroundList "background.toggleList" ["ctrl+l"] "List of background commands"
        BackgroundKill "background.kill" ["ctrl+k"] "End the background command"
        BackgroundUnfocus "background.unfocus" ["shift+tab"] "Back to the prompt"
        BackgroundUnfocusList "background.unfocusList" ["tab"] "Back from the list"
        BackgroundUnfocusWarning "background.unfocusWarning" ["tab"] "Show how to return to the prompt"
    }
    "Extensions" {
        ExtensionUpdate "extension.update" ["i"] "Install or update the extension"
        ExtensionLink "extension.link" ["l"] "Link the extension"
    }
}

/// Commands of gemini-cli without a handler here. Their ids stay valid in `keybindings.json`, and nothing lists them.
const WITHOUT_EFFECT: &[Command] = {
    use Command::*;
    &[
        DialogUp,
        DialogDown,
        DialogNext,
        DialogPrevious,
        SuggestExpand,
        SuggestCollapse,
        ShowErrors,
        ShowIdeContext,
        ToggleCopyMode,
        Restart,
        Voice,
        DumpFrame,
        StartRecording,
        StopRecording,
        BackgroundEscape,
        BackgroundSelect,
        BackgroundList,
        BackgroundKill,
        BackgroundUnfocus,
        BackgroundUnfocusList,
        BackgroundUnfocusWarning,
        ExtensionUpdate,
        ExtensionLink,
    ]
};

impl Command {
    /// Whether its keys do something.
    pub fn has_effect(self) -> bool {
        !WITHOUT_EFFECT.contains(&self)
    }

    /// The command with this id; names are case-sensitive.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|command| command.id() == id)
    }
}
