//! Workers: registration, health, leases, and what they report.

pub(in crate::group) mod lease;
pub(in crate::group) mod machine;
pub(in crate::group) mod registration;
pub(in crate::group) mod report;
pub(in crate::group) mod settle;
pub(in crate::group) mod worker;
