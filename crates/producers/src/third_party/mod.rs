//! What third parties report on a topic (DEP-2).
//!
//! Each record of the site's topic is one [`ThirdPartyReport`](tidemill_model::ThirdPartyReport) in JSON. It becomes
//! a command to the catalogue, whose request id names topic, partition and offset: a record that is read again
//! after a crash is decided once. Reports of one code are sent one after the other, in the order of the topic. A
//! record that cannot be read, or is refused, is set aside on `dead-letters` with its reason, and the next one is
//! taken. Records are done only when the owner has decided them; while it cannot be asked, nothing is lost and
//! nothing overtakes.

mod config;
mod run;

pub use config::Config;
pub use run::{ThirdParties, start};
