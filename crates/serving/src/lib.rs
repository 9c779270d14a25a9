//! How every listener of Tidemill serves HTTP (OPS-7, OPS-10): the interface, the owners' live port, workers' logs.
//!
//! ```text
//!  accept ─► Connections: a place, or the longest silent one makes room, or 503
//!               └─► one task: (handshake,) head in time ─► handler, its body in time ─► answer, taken in time ─► silent again
//! ```
//! Whoever has sent no complete request holds a place only while nobody else needs it, and not for long. The
//! descriptors that the log, the tables and running jobs need are never given to connections.
//!
//! What it must never do: know a call or a key.
//!
//! Start reading at [`serve`]; [`Config`] and [`Limits`] say the bounds, [`descriptors`] where they come from.

mod arriving;
mod config;
mod connections;
pub mod descriptors;
mod listener;
mod server;
pub mod tls;
mod watched;

pub use arriving::BodyLate;
pub use config::{Config, Limits};
pub use listener::Listener;
pub use server::{Peer, serve};
