//! Agents elsewhere, reached over the A2A protocol.
//!
//! Owns: the agent card, the messages of the protocol, their transports and the credentials of a call. Does not
//! own: which agents there are, whether one may be called.
