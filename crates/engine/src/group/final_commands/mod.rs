//! JOB-8: the script that runs once a batch has ended for good.

pub(in crate::group) mod final_command;
pub(in crate::group) mod handshake;
