//! Pools that jobs of one group or of all share, and changes of them.

use serde_json::{Value, json};
use tidemill_model::{CatalogueCommand, PoolSpec, ShardId};

use crate::rng::Rng;
use crate::world::World;

impl World {
    /// `p1` is of group `g1`, and so on; all groups share the others.
    pub(crate) fn define_pools(&mut self, rng: &mut Rng) {
        let own = (1..=self.plan.groups).map(|number| format!("p{number}"));
        let names: Vec<String> = own.chain(["all", "both"].map(str::to_owned)).collect();
        for name in names {
            // Once their groups are there, and before the first jobs.
            let command = define(rng, &name);
            self.ask_later(ShardId::CATALOGUE, command, 100 * self.plan.groups as u64);
        }
    }

    /// Other bounds of a pool, or one that comes and goes, or that may not go.
    pub(crate) fn change_pool(&mut self, rng: &mut Rng) {
        let own = format!("p{}", rng.below(self.plan.groups) + 1);
        let command = match rng.range(0, 8) {
            0..2 => define(rng, "spare"),
            2..4 => remove("spare"),
            4 => remove("all"),
            5 => define(rng, "all"),
            6 => define(rng, "both"),
            _ => define(rng, &own),
        };
        self.ask_catalogue(command);
    }
}

fn define(rng: &mut Rng, name: &str) -> CatalogueCommand {
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

fn remove(name: &str) -> CatalogueCommand {
    CatalogueCommand::DeletePool { name: name.try_into().expect("a name") }
}

/// What its batches take of pools.
pub(crate) fn uses(rng: &mut Rng, job: &mut Value) {
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
