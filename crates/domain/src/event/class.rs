//! What an event is about, for readers that treat many kinds alike.

use super::Event;

/// What an event is about. A reader that folds a few kinds of events and ignores the others needs no list of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventClass {
    /// The session itself: that it exists, its title, mode and model.
    Session,
    /// The result of an operation, for its sender only.
    Acknowledgement,
    /// The beginning and end of a turn.
    Turn,
    /// Requests to a model, and attempts that failed.
    Request,
    /// A piece of something that is still growing: text, thoughts, output. Neighbours may be joined.
    Piece,
    /// A tool call, or a person's own command.
    Call,
    /// A question to a person and its end.
    Question,
    /// A change to what the conversation holds.
    History,
    /// Activity of a sub-agent or a hook.
    Side,
    /// A line for people.
    Notice,
}

impl Event {
    pub fn class(&self) -> EventClass {
        match self {
            Self::SessionReady { .. }
            | Self::ModeChanged { .. }
            | Self::ModelChanged(_)
            | Self::ModelFallback(_)
            | Self::FrontsChanged(_)
            | Self::EditorChanged(_)
            | Self::Titled(_) => EventClass::Session,
            Self::Acknowledged { .. } => EventClass::Acknowledgement,
            Self::QueueChanged(_)
            | Self::PromptAccepted { .. }
            | Self::Steered { .. }
            | Self::StepBegan { .. }
            | Self::StepCommitted
            | Self::TurnEnded(_) => EventClass::Turn,
            Self::RequestSent(_)
            | Self::RequestEnded(_)
            | Self::Waiting(_)
            | Self::CallProgress { .. }
            | Self::Budget(_)
            | Self::AttemptDiscarded(_) => EventClass::Request,
            Self::Text(_) | Self::Thought(_) | Self::CallOutput { .. } | Self::CallScreen { .. } => {
                EventClass::Piece
            }
            Self::CallRequested(_)
            | Self::CallStarted { .. }
            | Self::CallFinished(_)
            | Self::ShellStarted { .. }
            | Self::ShellEnded(_)
            | Self::BackgroundChanged(_) => EventClass::Call,
            Self::ApprovalWanted(_) | Self::ApprovalSettled { .. } => EventClass::Question,
            Self::Compressing { .. } | Self::Compressed(_) | Self::Rewound { .. } => EventClass::History,
            Self::HookRan(_) | Self::Activity(_) => EventClass::Side,
            Self::Notice { .. } => EventClass::Notice,
        }
    }
}
