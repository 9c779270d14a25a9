//! Hand-made histories: for every rule a good one that passes, and a bad one that this rule alone names.

#![allow(clippy::unwrap_used, reason = "these are tests")]
#![allow(clippy::too_many_lines, reason = "a history is told from its beginning to its end")]

mod applies;
mod bulks;
mod cases;
mod commands;
mod corpus;
mod credentials;
mod depend;
mod dependencies;
mod directory;
mod external_dependencies;
mod external_work;
mod facts;
mod files;
mod firing;
mod foreign;
mod generation;
mod journal;
mod kit;
mod leaving;
mod levels;
mod life;
mod limits;
mod lost_output;
mod moves;
mod pools;
mod pulls;
mod removals;
mod reruns;
mod rights;
mod shards;
mod snapshots;
mod strays;
mod workers;
