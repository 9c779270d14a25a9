//! What groups' shards tell of their permits, and what the catalogue hears: the same, in the same order.

use std::collections::BTreeMap;

use tidemill_model::{PermitReport, ShardId};

use crate::Invariant;
use crate::at::At;
use crate::findings::{Findings, Place};

/// Which side a report stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Told,
    Heard,
}

/// All reports, by who tells.
#[derive(Debug, Default)]
pub(crate) struct PermitReports {
    by: BTreeMap<ShardId, Reports>,
}

#[derive(Debug, Default)]
struct Reports {
    told: u64,
    heard: u64,
    /// Those of which only one side has been seen.
    open: BTreeMap<u64, (PermitReport, Place)>,
}

impl PermitReports {
    /// `permits_accounted_for`
    pub(crate) fn report(&mut self, at: &At<'_>, by: ShardId, report: &PermitReport, side: Side) {
        let reports = self.by.entry(by).or_default();
        let number = if side == Side::Told { &mut reports.told } else { &mut reports.heard };
        *number += 1;
        let number = *number;
        match reports.open.remove(&number) {
            None => {
                reports.open.insert(number, (report.clone(), at.place()));
            }
            Some((other, (partition, offset, event))) if other != *report => {
                let why = format!(
                    "report {number} of shard {by} on permits differs from what stands at {partition}:{offset} event {event}"
                );
                at.breaks(Invariant::PermitsAccountedFor, why);
            }
            Some(_) => {}
        }
    }

    /// `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &Findings) {
        let rule = Invariant::PermitsAccountedFor;
        for (shard, reports) in &self.by {
            let Some((number, (_, place))) = reports.open.first_key_value() else { continue };
            if reports.heard > reports.told {
                let why = format!("report {number} of shard {shard} on permits was heard and never told");
                found.breaks(rule, *place, why);
            } else if at_rest {
                let why = format!("report {number} of shard {shard} on permits was never heard");
                found.breaks(rule, *place, why);
            }
        }
    }
}
