//! What the wires of OpenAI's two dialects and Anthropic's have in common: where the server is and what it is sent
//! ([`endpoint`]), what its errors mean ([`fault`]), counts of tokens ([`count`]), ids of calls ([`call_ids`]), names of tools ([`tool_names`]),
//! schemas of their arguments ([`schema`]), what is declared of them ([`declarations`]), the body of a request ([`body`]), settings in neutral words ([`settings`]), lists of models ([`model_list`]), and requests to it ([`server`]).
//! Nothing here knows one wire.

pub(crate) mod body;
pub(crate) mod call_ids;
pub(crate) mod count;
pub(crate) mod declarations;
mod digest;
pub mod endpoint;
pub(crate) mod fault;
pub(crate) mod model_list;
pub(crate) mod random;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod settings;
pub(crate) mod tool_names;
