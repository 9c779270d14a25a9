//! The commands of people: what `tidemill` says to a server, and how answers and refusals read on a terminal.
//!
//! ```text
//!  args (clap) ─► commands ─► Session ─► Server ─► tidemill_client
//!                    │            └─ Host: settings, keys and rules of the program around
//!                    └─► output, render
//! ```
//! A program flattens [`Command`] into its own command line, and implements [`Host`]. What it shows itself, it shows as the
//! commands do: [`output`], [`render`], [`Failure`], [`Exit`].
//!
//! What it must never do: decide anything, know a server but by its public calls, import a role or the engine.
//!
//! Start reading at the commands' list, `args/mod.rs`.

pub mod address;
mod args;
mod command;
mod commands;
mod exit;
mod failure;
pub mod files;
mod host;
pub mod output;
mod problem;
pub mod render;
pub mod secret;
mod server;
mod session;
mod suggestions;
mod target;
mod yaml;

pub use args::{Global, OutputFormat, PartitionCommand};
pub use command::Command;
pub use commands::apply_jobs;
pub use exit::Exit;
pub use failure::{Done, Failure};
pub use host::{Host, Settings};
pub use server::{Query, Server};
pub use suggestions::reword;
pub use target::{KEY_FILE, OPERATOR_FILE, Target};
pub use yaml::JobFiles;
