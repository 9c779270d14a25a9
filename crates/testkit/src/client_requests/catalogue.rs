//! What the catalogue has beside jobs: groups, keys and calendars.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tidemill_model::{
    AllowedAccounts, CalendarSpec, CatalogueCommand, GroupSettings, OnSilence, Role, ShardId,
};

use crate::cluster::public_key;
use crate::pulls::pull_settings;
use crate::rng::Rng;
use crate::world::World;

/// So few keys may there be.
pub(crate) const MOST_KEYS: usize = 3;

impl World {
    pub(crate) fn define_groups(&mut self, rng: &mut Rng) {
        for index in 0..self.plan.groups {
            let settings = settings(rng, self.holds(index));
            let name = format!("g{}", index + 1).try_into().expect("a group's name");
            let command = CatalogueCommand::DefineGroup { name, worker_key: public_key(), settings };
            // One after the other, so that their numbers follow their names.
            self.ask_later(ShardId::CATALOGUE, command, 100 * index as u64);
        }
        // Whose requests they are; it stays, so that jobs may run as its account.
        let (app, hash, role) = ("test".to_owned(), "0f".repeat(32), Role::Administrator);
        let run_as = ["etl".try_into().expect("an account")].into();
        let key =
            CatalogueCommand::DefineKey { app, hash, role, groups: Vec::new(), run_as, first_only: false };
        self.ask_catalogue(key);
        self.define_pools(&mut rng.aside("pools"));
        self.define_pulls();
        for index in 0..3 {
            let spec = calendar(&mut rng.clone(), &format!("c{index}"), self.wall());
            let calendar = Box::new(CalendarSpec::from_value(spec).expect("of the right form"));
            self.ask_later(ShardId::CATALOGUE, CatalogueCommand::DefineCalendar { calendar }, 0);
        }
    }

    pub(super) fn keys(&mut self, rng: &mut Rng) {
        let app = format!("app{}", rng.below(MOST_KEYS + 2));
        let role = [Role::Viewer, Role::User, Role::Administrator, Role::SuperAdministrator][rng.below(4)];
        let first_only = rng.chance(30);
        let command = match rng.chance(45) {
            true => CatalogueCommand::RevokeKey { app },
            false => {
                let (hash, groups, run_as) = ("0f".repeat(32), Vec::new(), BTreeSet::new());
                CatalogueCommand::DefineKey { app, hash, role, groups, run_as, first_only }
            }
        };
        self.ask_catalogue(command);
    }

    pub(super) fn change_group(&mut self, rng: &mut Rng) {
        let group = rng.below(self.plan.groups);
        let name = format!("g{}", group + 1).try_into().expect("a name");
        let mut settings = settings(rng, self.holds(group));
        if rng.chance(20) {
            settings.lost_after_ms = settings.lease_ms + 1;
        }
        self.ask_catalogue(CatalogueCommand::DefineGroup { name, worker_key: public_key(), settings });
    }

    /// A calendar in which today may be a working day, or not any more.
    pub(super) fn calendars(&mut self, rng: &mut Rng) {
        let name = format!("c{}", rng.below(3));
        let removed = rng.chance(50);
        let spec = calendar(rng, &name, self.wall());
        let calendar = Box::new(CalendarSpec::from_value(spec).expect("of the right form"));
        if removed {
            let name = calendar.name.clone();
            self.ask_catalogue(CatalogueCommand::DeleteCalendar { name });
        }
        // Soon there again, so that jobs can go on naming it.
        let delay = if removed { 2_000 } else { 0 };
        self.ask_later(ShardId::CATALOGUE, CatalogueCommand::DefineCalendar { calendar }, delay);
    }
}

fn settings(rng: &mut Rng, holds: bool) -> GroupSettings {
    let lost_after_ms = rng.range(4_000, 9_000);
    let mut settings = GroupSettings {
        start_timeout_ms: rng.range(2_000, 15_000),
        lost_after_ms,
        lease_ms: lost_after_ms + rng.range(1_000, 20_000),
        lease_margin_ms: rng.range(1_000, 4_000),
        on_silence: if holds { OnSilence::Hold } else { OnSilence::Kill },
        kill_grace_ms: rng.range(100, 3_000),
        quality_retry_ms: rng.clone().range(3_000, 8_000),
        quality_alarm_after: 2,
        max_load_percent: if rng.aside("load").chance(40) { 200 } else { 0 },
        min_free_memory_percent: if rng.aside("memory").chance(20) { 10 } else { 0 },
        accounts: accounts(rng.clone()),
        ..GroupSettings::default()
    };
    pull_settings(&mut rng.aside("pulls"), &mut settings);
    settings
}

/// Which accounts jobs may run as.
fn accounts(mut rng: Rng) -> Option<Arc<AllowedAccounts>> {
    let text = [r#"{"*": ["nobody"]}"#, r#"{"*": ["etl"]}"#, r#"{"*": ["etl", "nobody"]}"#];
    let text = rng.pick(&text).copied().filter(|_| rng.chance(80))?;
    Some(Arc::new(serde_json::from_str(text).expect("accounts")))
}

fn calendar(rng: &mut Rng, name: &str, wall: tidemill_model::Timestamp) -> Value {
    let today = wall.to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    let mut calendar = json!({"name": name, "week": ["monday", "tuesday", "saturday", "sunday"]});
    match rng.range(0, 4) {
        0 => calendar["holidays"] = json!([today]),
        1 => calendar["working_days"] = json!([today]),
        2 => calendar["zone"] = json!("Asia/Tokyo"),
        _ => {
            calendar["holidays"] = json!([today]);
            calendar["working_days"] = json!(["2026-01-01"]);
        }
    }
    calendar
}
