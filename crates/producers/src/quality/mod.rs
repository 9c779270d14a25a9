//! The role that asks the quality service whether batches may run (DQ-1).
//!
//! ```text
//!  owner: asked for ──► Take (a command) ──► decided ──► POST to the service      nothing waits for an answer
//!                                                             │
//!  owner: answered ◄── REST, when the service calls back ◄────┘
//! ```
//!
//! A question is taken by a command first, and sent only when the owner has decided that it is ours (rule 14 of the
//! protocol): two processes never send it both, and where one dies in between, the owner asks again, under the
//! next number. What the service says comes back through the public interface, at any time; this role does not
//! wait for it. [`Role`] is without clock and I/O, [`Quality`] the loop around it.

mod config;
#[cfg(test)]
mod corpus;
mod role;
mod run;
mod service;

pub use config::Config;
pub use role::{Input, Output, Role, Taken};
pub use run::{Quality, start};
