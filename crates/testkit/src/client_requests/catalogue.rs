//! What the catalogue has beside jobs: groups, keys, calendars and pools; and operators, who drain workers, freeze groups and
//! repair clocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::{
    AllowedAccounts, CalendarSpec, CatalogueCommand, GroupLimits, GroupSettings, Limits, OnSilence, PoolSpec,
    Role, ShardCommand, ShardId, WorkerCommand,
};

use crate::cluster::public_key;
use crate::pulls::pull_settings;
use crate::{Rng, World};

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
        let key = CatalogueCommand::DefineKey {
            app,
            hash,
            role,
            groups: Vec::new(),
            run_as,
            may: BTreeSet::new(),
            department: None,
            first_only: false,
        };
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
                CatalogueCommand::DefineKey {
                    app,
                    hash,
                    role,
                    groups,
                    run_as,
                    may: BTreeSet::new(),
                    department: None,
                    first_only,
                }
            }
        };
        self.ask_catalogue(command);
    }

    pub(super) fn change_group(&mut self, rng: &mut Rng) {
        let group = rng.below(self.plan.groups);
        let name = format!("g{}", group + 1).try_into().expect("a name");
        let mut settings = settings(rng, self.holds(group));
        settings.limits = limits(rng.aside("limits"));
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

/// EXE-2: limits of a group, which jobs may be above.
fn limits(mut rng: Rng) -> Option<Arc<GroupLimits>> {
    let max = Limits { memory_mb: Some(rng.range(100, 400) as u32), ..Limits::default() };
    let default = Limits { processes: Some(rng.range(10, 90) as u32), ..Limits::default() };
    rng.chance(30).then(|| Arc::new(GroupLimits { default, max }))
}

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

impl World {
    pub(super) fn drain(&mut self, rng: &mut Rng) {
        let workers: Vec<_> = self.known.workers.iter().collect();
        let Some((worker, shard)) = rng.pick(&workers) else { return self.submit(rng) };
        let (worker, shard) = ((*worker).clone(), **shard);
        let drains = rng.chance(50);
        let command = if drains { WorkerCommand::Drain { worker } } else { WorkerCommand::Resume { worker } };
        self.ask(shard, command);
    }

    /// Freezes a group or everything, or lifts the freeze of what is frozen.
    pub(super) fn freeze(&mut self, rng: &mut Rng) {
        let frozen: Vec<_> = self.known.frozen.iter().cloned().collect();
        if let Some(group) = rng.pick(&frozen).filter(|_| rng.clone().chance(60)).cloned() {
            self.ask_catalogue(CatalogueCommand::LiftFreeze { group, reason: String::new() });
            return;
        }
        let name = format!("g{}", rng.below(self.plan.groups) + 1);
        let group = rng.chance(60).then(|| name.try_into().expect("a name"));
        let seconds = SignedDuration::from_secs(rng.range(0, 120) as i64 - 60);
        let latest = rng.chance(80).then(|| self.wall() + seconds);
        let reason = "a move".to_owned();
        self.ask_catalogue(CatalogueCommand::Freeze { group, latest, reason });
    }

    /// An operator repairs the clock, which does not need it.
    pub(super) fn set_time(&mut self, rng: &mut Rng) {
        let shard = ShardId(rng.below(self.plan.groups + 1) as u16);
        let now = self.wall() - SignedDuration::from_millis(rng.range(1_000, 3_000) as i64);
        self.ask(shard, ShardCommand::SetTime { now });
    }
}

impl World {
    /// `p1` is of group `g1`, and so on; all groups share the others.
    pub(super) fn define_pools(&mut self, rng: &mut Rng) {
        let own = (1..=self.plan.groups).map(|number| format!("p{number}"));
        let names: Vec<String> = own.chain(["all", "both"].map(str::to_owned)).collect();
        for name in names {
            // Once their groups are there, and before the first jobs.
            let command = pool(rng, &name);
            self.ask_later(ShardId::CATALOGUE, command, 100 * self.plan.groups as u64);
        }
    }

    /// Other bounds of a pool, or one that comes and goes, or that may not go.
    pub(super) fn change_pool(&mut self, rng: &mut Rng) {
        let own = format!("p{}", rng.below(self.plan.groups) + 1);
        let command = match rng.range(0, 8) {
            0..2 => pool(rng, "spare"),
            2..4 => remove_pool("spare"),
            4 => remove_pool("all"),
            5 => pool(rng, "all"),
            6 => pool(rng, "both"),
            _ => pool(rng, &own),
        };
        self.ask_catalogue(command);
    }
}

fn pool(rng: &mut Rng, name: &str) -> CatalogueCommand {
    let mut pool = json!({"name": name, "slots": rng.range(2, 5)});
    if let Some(number) = name.strip_prefix('p') {
        pool["group"] = json!(format!("g{number}"));
    }
    rng.sometimes(
        40,
        &mut pool,
        "rate",
        |rng| json!({"starts": rng.range(1, 4), "interval_s": rng.range(1, 6)}),
    );
    let pool = PoolSpec::from_value(pool).expect("of the right form");
    CatalogueCommand::DefinePool { pool: Box::new(pool) }
}

fn remove_pool(name: &str) -> CatalogueCommand {
    CatalogueCommand::DeletePool { name: name.try_into().expect("a name") }
}

/// What its batches take of pools.
pub(super) fn uses_of_pools(rng: &mut Rng, job: &mut Value) {
    if !rng.chance(30) || job["type"] == "anchor" {
        return;
    }
    let own = job["group"].as_str().unwrap_or_default().replacen('g', "p", 1);
    job["pools"] = match rng.range(0, 5) {
        0 => json!(["all"]),
        1 => json!(["all", {"name": "both", "weight": 2}]),
        2 => json!(["both", own]),
        3 => json!([{"name": own, "weight": rng.range(1, 3)}]),
        _ => json!([own, "all"]),
    };
}
