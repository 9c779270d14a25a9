//! People and departments: who comes, changes, leaves and is on call; jobs that they own; and calls that were refused.

use serde_json::{Value, json};
use tidemill_model::{AccessCommand, DirectoryChange, DirectoryCommand, Level, Refusal, RefusalReason};

use crate::plan::Mode;
use crate::{Rng, World};

/// Names that people and departments have; one of them is asked for both. Nobody is of `lab`, and it owns nothing: it may go.
const PEOPLE: [&str; 7] = ["ann", "bob", "cleo", "dan", "eve", "fay", "ops"];
const DEPARTMENTS: [&str; 4] = ["data", "web", "lab", "ops"];

impl World {
    /// Nobody writes what the catalogue's level does not allow yet. Where a log loses the record that raised it, whoever has read
    /// it would raise it again.
    fn has_directory(&self) -> bool {
        self.plan.mode == Mode::Usual && self.oracle[0].state.level().allows(Level::DIRECTORY)
    }

    /// Now and then somebody changes the directory, or an interface reports whom it refused.
    pub(super) fn client_request_of_people(&mut self, rng: &mut Rng) {
        if !self.has_directory() || !rng.chance(45) {
            return;
        }
        if rng.chance(10) {
            return self.report_refusals(rng);
        }
        if rng.chance(35) {
            return self.client_request_of_credentials(rng);
        }
        let mut changes: Vec<Value> = Vec::new();
        if self.known.directory.people.is_empty() && self.known.directory.departments.is_empty() {
            changes.extend(founded());
        } else {
            for _ in 0..rng.range(1, 4) {
                changes.push(self.directory_change(rng));
            }
        }
        // Now and then by whoever has not seen the last change.
        let stale = u64::from(rng.chance(6));
        let revision = self.known.directory.revision.saturating_sub(stale);
        let changes =
            changes.into_iter().map(|change| serde_json::from_value(change).expect("of the right form"));
        let changes: Vec<DirectoryChange> = changes.collect();
        self.ask_catalogue(DirectoryCommand::Change { revision, changes });
    }

    fn directory_change(&self, rng: &mut Rng) -> Value {
        let known = &self.known.directory;
        let some: Vec<&str> = known.people.keys().map(|name| name.as_str()).collect();
        let person = rng.pick(&some).copied().unwrap_or("ann");
        let department = DEPARTMENTS[rng.below(DEPARTMENTS.len())];
        match rng.range(0, 20) {
            0..5 => self.person(rng, PEOPLE[rng.clone().below(PEOPLE.len())]),
            // Whoever leaves names somebody, mostly.
            5..10 => {
                let successor = rng.pick(&some).filter(|_| rng.clone().chance(90));
                json!({"person": {"name": person, "enabled": false, "successor": successor}})
            }
            10..14 => self.department(rng, department),
            14 => json!({"delete_department": {"name": if rng.chance(60) { "lab" } else { department }}}),
            15..18 => json!({"delete_person": {"name": person}}),
            // As it is.
            18 => known
                .people
                .values()
                .next()
                .map_or_else(|| self.person(rng, "ann"), |same| json!({"person": same})),
            _ => json!({"person": {"name": "ann", "departments": ["nowhere"]}}),
        }
    }

    fn person(&self, rng: &mut Rng, name: &str) -> Value {
        let known = self.known.directory.departments.keys().map(|name| name.as_str());
        let known: Vec<&str> = known.filter(|name| *name != "lab").collect();
        let departments: Vec<&str> = rng.pick(&known).copied().into_iter().collect();
        let grants = self.some_grants(&mut rng.aside("grants"));
        let full_name = format!("{name} the {}th", rng.below(9));
        json!({"person": {"name": name, "departments": departments, "full_name": full_name, "grants": grants}})
    }

    /// Mostly something of a group; more than that jobs may depend on it only now and then.
    fn some_grants(&self, rng: &mut Rng) -> Value {
        if rng.chance(40) {
            return json!([]);
        }
        let group = format!("g{}", rng.below(self.plan.groups) + 1);
        let may: &[&str] = if rng.chance(50) { &["depend"] } else { &["edit", "depend"] };
        json!([{"on": {"group": group}, "may": may}])
    }

    fn department(&self, rng: &mut Rng, name: &str) -> Value {
        let known: Vec<&str> = self.known.directory.people.keys().map(|name| name.as_str()).collect();
        let mut department = json!({"name": name, "for_system": rng.chance(30)});
        if let Some(first) = rng.pick(&known).copied() {
            let mut turns = vec![json!([first])];
            turns.extend(rng.pick(&known).filter(|next| **next != first).map(|next| json!([next, first])));
            let overrides = match rng.chance(30) {
                true => {
                    json!([{"from": "2026-10-01T00:00:00", "to": "2026-11-01T00:00:00", "people": [first]}])
                }
                false => json!([]),
            };
            department["on_call"] = json!({
                "zone": "Europe/Berlin", "starts": "2026-01-05T09:00:00", "days": rng.range(1, 8), "turns": turns,
                "overrides": overrides,
            });
        }
        json!({"department": department})
    }

    /// Where there may be a directory, jobs mostly have an owner, hardly ever one whom it does not have.
    pub(super) fn owned(&self, rng: &mut Rng, job: &mut Value) {
        if !self.has_directory() || !rng.chance(60) {
            return;
        }
        let known = &self.known.directory;
        let people = known.people.values().filter(|person| person.enabled || rng.clone().chance(3));
        let mut owners: Vec<&str> = people.map(|person| person.name.as_str()).collect();
        owners.extend(known.departments.keys().map(|name| name.as_str()).filter(|name| *name != "lab"));
        let owner = rng.pick(&owners).copied().filter(|_| rng.clone().chance(96)).unwrap_or("nobody");
        job["owner"] = json!(owner);
    }

    fn report_refusals(&mut self, rng: &mut Rng) {
        let at = self.wall();
        let refusal = |number: u64| Refusal {
            app: format!("app{number}"),
            person: rng.clone().chance(50).then(|| "ann".to_owned()),
            call: "POST /api/jobs/7/run".to_owned(),
            address: "127.0.0.1".to_owned(),
            reason: if number == 0 { RefusalReason::Unauthenticated } else { RefusalReason::Forbidden },
            count: rng.clone().range(0, 20) as u32,
            first_at: at,
            last_at: at,
        };
        let refusals = (0..rng.clone().range(1, 4)).map(refusal).collect();
        self.ask_catalogue(AccessCommand::ReportRefusals { refusals });
    }
}

/// The first of all.
fn founded() -> Vec<Value> {
    let rota = json!({
        "zone": "America/New_York", "starts": "2026-01-05T09:00:00", "days": 7, "turns": [["ann", "bob"], ["bob"]],
    });
    vec![
        json!({"department": {"name": "data", "on_call": rota}}),
        json!({"department": {"name": "web", "for_system": true}}),
        json!({"department": {"name": "lab"}}),
        json!({"person": {"name": "ann", "departments": ["data"], "mail": "ann@example.org", "phone": "+4930123456"}}),
        json!({"person": {"name": "bob", "departments": ["data", "web"], "language": "zh"}}),
        json!({"person": {"name": "cleo", "departments": ["web"]}}),
    ]
}
