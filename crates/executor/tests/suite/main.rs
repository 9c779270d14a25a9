//! The executor's tests, with real processes.

#![allow(clippy::unwrap_used, reason = "a test that fails may say so bluntly")]

mod executor;
mod external_work;
mod killed_worker;
mod limits;
mod lost_shim;
mod other_account;
mod output;
mod secrets;
mod shim;
mod shipping;
mod site;
mod strangers;
mod stuck;
