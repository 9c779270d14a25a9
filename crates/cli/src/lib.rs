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
mod commands;
pub mod completion;
mod contexts;
mod exit;
mod failure;
pub mod files;
pub mod output;
mod problem;
mod progress;
pub mod render;
pub mod secret;
mod server;
mod session;
mod suggestions;
mod target;
mod watch;
mod yaml;

pub use args::{Global, OutputFormat, PartitionCommand};
pub use commands::{Command, apply_jobs};
pub use exit::Exit;
pub use failure::{Done, Failure};
pub use server::{Query, Server};
pub use session::{Host, Settings};
pub use suggestions::reword;
pub use target::{KEY_FILE, OPERATOR_FILE, Target};
pub use yaml::JobFiles;
