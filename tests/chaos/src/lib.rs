//! Faults from a seed against the real program on real services, and the verdict on what it did.
//!
//! ```text
//!  seed ─► schedule ─► nemesis ─► processes, services, disks, networks, proxies
//!     ├──► intruders, guests ─► conduct ─┐
//!     ├──► clients ──► REST ─► history ──┤
//!     └──► pull workers in Python ───────┤
//!                        journal ────────┼─► verdict: checker, comparison, marks on disk, tables, takeovers, logs
//!               marks of jobs on disk ───┤
//!                   what stores keep ────┘
//! ```
//! Where to start reading: [`run()`], one run from start to verdict; [`Kind`](fault::Kind), what can go wrong;
//! `fixture`, what runs.
//!
//! It must never judge by anything but what clients, journal, tables, logs and disk say; it knows no rule of the engine.

mod adder;
mod book;
mod caller;
mod client;
mod command;
mod compare;
mod conduct;
mod database;
mod disk;
mod doings;
pub mod fault;
mod fixture;
mod guest;
mod history;
mod intruder;
mod jobs;
mod journal;
mod logs;
mod nemesis;
mod network;
mod ports;
mod prepare;
mod printed;
mod proxy;
mod pulled;
mod puller;
mod python;
mod recovery;
pub mod report;
mod rest;
mod rng;
mod role;
mod run;
mod schedule;
mod services;
mod socket;
mod takeover;
mod verdict;
mod witness;

pub use fixture::Place;
pub use report::Report;
pub use run::{MOST_PYTHON_WORKERS, Plan, run};
