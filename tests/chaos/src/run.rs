//! One run: everything started, struck, healed, drained, stopped and judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use tidemill_checker::export_journal;

use crate::caller::{Client, Common};
use crate::client::Submitter;
use crate::conduct::Conduct;
use crate::fault::Kind;
use crate::fixture::{Fixture, Machine, Place};
use crate::history::History;
use crate::intruder::{Intruder, targets};
use crate::journal::Journal;
use crate::prepare::{granted, prepare};
use crate::pulled::Crew;
use crate::puller::{self, Puller};
use crate::python::{self, Package};
use crate::report::Report;
use crate::role::{Part, Role};
use crate::verdict::{judge, settle};
use crate::{guest, jobs, logs, nemesis, recovery, schedule};

/// The numbers of clients of batches, and of those that pull.
const SUBMITTERS: std::ops::RangeInclusive<u64> = 1..=4;
pub(crate) const PULLERS: std::ops::RangeInclusive<u64> = 5..=6;

/// Clients that mean harm.
const INTRUDERS: u64 = 4;

/// A worker of the client of Python has 200 users at most, and there are two.
pub const MOST_PYTHON_WORKERS: u64 = 400;

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All choices come from it.
    pub seed: u64,
    /// How long faults are made.
    pub minutes: f64,
    /// Which.
    pub kinds: Vec<Kind>,
    /// Users for whom the client of Python pulls, each at once; 1 to [`MOST_PYTHON_WORKERS`].
    pub python_workers: u64,
}

/// Does it. Violations are in the report.
///
/// # Errors
/// The run could not be made at all, or not be judged.
pub fn run(plan: &Plan, place: &Place, is_over: &AtomicBool) -> Result<Report> {
    place.python.as_deref().map_or(Ok(()), python::look)?;
    let mut machine = Machine::default();
    let fixture = Fixture::start(place, &mut machine)?;
    let mut report = Report { seed: plan.seed, ..Report::default() };
    let not_possible = machine.not_possible.iter().filter(|(kind, _)| plan.kinds.contains(kind));
    report.not_possible_here = not_possible.map(|(kind, why)| (kind.name(), why.clone())).collect();
    let python = place.python.clone().map_or_else(|| fixture.services.python(), Ok)?;
    let (package, common) = thread::scope(|scope| {
        let package = scope.spawn(|| Package::install(&python, &fixture.dir.join("pulls")));
        let common = prepare(&fixture, plan.python_workers, &mut report);
        (package.join().map_err(|_| anyhow!("the installation of clients/python panicked")), common)
    });
    let (package, common) = (package??, Arc::new(common?));
    let mut journal = Journal::open(fixture.log()?)?;

    let conduct = Arc::new(Conduct::default());
    let watching = AtomicBool::new(true);
    let stage = Stage { plan, fixture: &fixture, common: &common, conduct: &conduct, is_over };
    let judged = thread::scope(|scope| {
        scope.spawn(|| fixture.watch(&|| !watching.load(Ordering::SeqCst)));
        let judged = stage.work(&package, &mut journal, &mut report);
        watching.store(false, Ordering::SeqCst);
        judged
    });
    let histories = judged?;
    settle(&fixture, &mut journal, &mut report)?;
    judge(&fixture, &mut journal, histories, &conduct, &mut report)?;
    report.own_ends = fixture.roles.iter().map(|role| (role.name.clone(), role.own_ends())).collect();
    report.own_ends.retain(|_, ends| !ends.is_empty());
    if !report.is_clean() {
        let file = std::fs::File::create(place.dir.join("journal.export"))?;
        export_journal(journal.log(), file).context("cannot export the journal")?;
    }
    Ok(report)
}

/// What is there before anything is struck.
struct Stage<'a> {
    plan: &'a Plan,
    fixture: &'a Fixture,
    common: &'a Arc<Common>,
    conduct: &'a Arc<Conduct>,
    is_over: &'a AtomicBool,
}

impl Stage<'_> {
    /// Workload and faults, then recovery with the workload going on, then the rest of the work.
    fn work(&self, package: &Package, journal: &mut Journal, report: &mut Report) -> Result<Vec<History>> {
        let Self { plan, fixture, common, .. } = self;
        match recovery::recover(fixture, common, journal)? {
            Ok(took) => println!("everything works after {took:.1?}"),
            Err(why) => bail!("nothing was struck yet, and {why}"),
        }
        let crew = Crew::start(package, fixture, common, plan.python_workers)?;
        let histories = self.strike(&crew, journal, report)?;
        for struck in &report.struck {
            *report.faults.entry(struck.step.kind.name()).or_default() += 1;
            if let Some(failed) = &struck.failed {
                report.violations.push(format!("fault {} was not made or healed: {failed}", struck.step));
            }
        }
        switch_off(common)?;
        let users = PULLERS.flat_map(puller::users).map(|(name, _)| name);
        let unable = recovery::cannot_pull(common, users).into_iter();
        report.violations.extend(unable.map(|why| format!("recovered_within_30_s_and_drained: {why}")));
        match recovery::drain(common, journal)? {
            Ok(took) => report.drained_s = Some(took.as_secs_f64()),
            Err(why) => report.violations.push(format!("recovered_within_30_s_and_drained: {why}")),
        }
        crew.finish(common, journal, &histories, report)?;
        logs::check(fixture, common, (journal.entries(), &histories), report)?;
        Ok(histories)
    }

    /// Clients go on until everything that was struck works again; gives their accounts.
    fn strike(&self, crew: &Crew, journal: &mut Journal, report: &mut Report) -> Result<Vec<History>> {
        let Self { plan, fixture, common, conduct, is_over } = self;
        let total_ms = (plan.minutes * 60_000.0) as u64;
        let steps = schedule::draw(plan.seed, total_ms, &plan.kinds, &|kind| fixture.targets(kind));
        println!("schedule of seed {} over {:.1} minutes:", plan.seed, plan.minutes);
        steps.iter().for_each(|step| println!("{step}"));
        println!("faults, as they strike:");

        let enough = AtomicBool::new(false);
        thread::scope(|scope| {
            let submitters = SUBMITTERS.map(|number| {
                let client = Submitter::new(common, plan.seed, number);
                scope.spawn(|| client.run(&enough))
            });
            let pullers = PULLERS.map(|number| {
                let client = Puller::new(common, plan.seed, number);
                scope.spawn(|| client.run(&enough))
            });
            let adders = crew.adders(common, plan.seed).into_iter();
            let adders = adders.map(|client| scope.spawn(|| client.run(&enough)));
            let targets = targets(fixture);
            for number in 1..=INTRUDERS {
                let intruder = Intruder::new(&targets, plan.seed, number, conduct);
                let enough = &enough;
                scope.spawn(move || intruder.run(enough));
            }
            for (interface, role) in common.interfaces.iter().zip(fixture.of_part(Part::Api)) {
                scope.spawn(|| guest::run(interface, &role.name, conduct, &enough));
            }
            let clients: Vec<_> = submitters.chain(pullers).chain(adders).collect();
            let begun_at = Instant::now();
            report.struck = nemesis::run(fixture, &steps, total_ms, is_over);
            report.minutes = begun_at.elapsed().as_secs_f64() / 60.0;
            println!("all is healed");
            let recovered = recovery::recover(fixture, common, journal);
            enough.store(true, Ordering::SeqCst);
            let histories: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            match recovered? {
                Ok(took) => report.recovered_s = Some(took.as_secs_f64()),
                Err(why) => {
                    fixture.roles.iter().for_each(Role::stacks);
                    report.violations.push(format!("recovered_within_30_s_and_drained: {why}"));
                }
            }
            histories.into_iter().map(|joined| joined.map_err(|_| anyhow!("a client panicked"))).collect()
        })
    }
}

fn switch_off(common: &Common) -> Result<()> {
    for name in jobs::SCHEDULED {
        let job = common.jobs.get(name).copied().unwrap_or_default();
        let interface = common.interfaces.first().ok_or_else(|| anyhow!("there is no interface"))?;
        granted("schedules are switched off", || {
            interface.post(&format!("/api/jobs/{job}/disable"), &format!("off-{job}"), &json!({}))
        })?;
    }
    Ok(())
}
