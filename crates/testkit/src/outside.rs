//! The world outside of the scheduler: paths that come and go, probers, third parties, the quality service, and
//! people who look after what waits for them.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidemill_executor::{Input as WorkerInput, Looked};
use tidemill_model::{
    BatchCommand, BatchId, CatalogueCommand, ExternalDependencyId, Incarnation, ObservationCommand,
    OutputAnswer, OutputFound, PathAnswer, PathCheck, ProbeReport, ShardId, ThirdPartyReport, Token, Waiver,
};

use crate::happening::{Happening, Then};
use crate::rng::Rng;
use crate::world::{World, unasked};

/// Codes that jobs name and third parties report.
pub(crate) const CODES: [&str; 3] = ["c0", "c1", "c2"];

impl World {
    /// One round of all of them.
    pub(crate) fn outside(&mut self, round: u64) {
        let mut rng = Rng::new(self.plan.seed, "outside", round);
        let rng = &mut rng;
        self.probe(rng);
        self.look_for_outputs(round);
        if rng.chance(50) {
            self.third_party(rng);
        }
        self.quality(rng);
        match rng.range(0, 100) {
            0..8 => self.waive(rng),
            8..12 => self.probe_now(rng),
            12..20 => self.checks(rng),
            _ => {}
        }
        if !self.healed {
            self.after(rng.range(700, 2_500), Happening::Outside { round: round + 1 });
        }
    }

    /// Answers about all wanted paths, some of them of an older generation.
    fn probe(&mut self, rng: &mut Rng) {
        let mut answers: BTreeMap<ShardId, Vec<PathAnswer>> = BTreeMap::new();
        for (external_dependency, known) in
            self.known.external_dependencies.iter().filter(|(_, known)| known.is_path && !known.there)
        {
            let generation = known.generation - u64::from(rng.chance(5));
            let answer =
                PathAnswer { external_dependency: *external_dependency, generation, exists: rng.chance(35) };
            answers.entry(external_dependency.shard()).or_default().push(answer);
        }
        for (shard, answers) in answers {
            let command = ObservationCommand::ReportPaths { answers, seal: String::new() };
            self.send(&unasked("prober", shard, command), 0, Then::Nobody);
        }
    }

    /// Probers look for what lost attempts may have made; of some they never say anything.
    fn look_for_outputs(&mut self, round: u64) {
        let mut rng = Rng::new(self.plan.seed, "outputs", round);
        let mut answers: BTreeMap<ShardId, Vec<OutputAnswer>> = BTreeMap::new();
        for (batch, (token, since)) in &self.known.lost_outputs {
            if token.counter() % 8 == 0 || rng.chance(10) {
                continue;
            }
            let ms = SignedDuration::from_millis(rng.range(1, 5_000) as i64);
            let found = match rng.range(0, 100) {
                0..40 => OutputFound::Changed { at: *since + ms },
                40..75 => OutputFound::Changed { at: *since - ms },
                75..90 => OutputFound::Absent,
                _ => OutputFound::Unknown { reason: "nobody may ask for it".to_owned() },
            };
            let token = if rng.chance(5) { Token(token.0 + 1) } else { *token };
            answers.entry(batch.shard()).or_default().push(OutputAnswer { batch: *batch, token, found });
        }
        for (shard, answers) in answers {
            let command = ObservationCommand::ReportOutputs { answers, seal: String::new() };
            self.send(&unasked("prober", shard, command), 0, Then::Nobody);
        }
    }

    fn third_party(&mut self, rng: &mut Rng) {
        let newest: Vec<_> = self.known.batches.values().rev().take(30).map(|it| it.logical_time).collect();
        let Some(logical_time) = rng.pick(&newest).copied() else { return };
        let report = ThirdPartyReport {
            code: CODES[rng.below(CODES.len())].into(),
            logical_time,
            ready: rng.chance(85),
        };
        self.ask_catalogue(CatalogueCommand::ReportThirdParty(report));
    }

    /// Somebody takes the question, the service answers; both now and then stay away.
    fn quality(&mut self, rng: &mut Rng) {
        let asked: Vec<(BatchId, u32)> = self.known.asked.iter().map(|(id, number)| (*id, *number)).collect();
        for (batch, number) in asked {
            if rng.chance(50) {
                let by = Incarnation::new(format!("p{}", rng.below(2)));
                self.ask(batch.shard(), BatchCommand::SendQuality { batch, number, by });
            }
            if rng.chance(30) {
                let allowed = rng.chance(80);
                let reason = if allowed { String::new() } else { "too few rows".to_owned() };
                self.ask(batch.shard(), BatchCommand::AnswerQuality { batch, allowed, reason });
            }
        }
    }

    fn waive(&mut self, rng: &mut Rng) {
        let unfinished = self.known.unfinished();
        let Some(batch) = rng.pick(&unfinished).copied() else { return };
        let parent = self.known.jobs.keys().next().copied();
        let what = match (rng.range(0, 10), parent) {
            (0..6, _) => Waiver::All,
            (6, _) => Waiver::Path("/d1".into()),
            (7, _) => Waiver::ThirdParty(CODES[0].into()),
            (8, Some(job)) => Waiver::Parent { job, logical_time: None },
            _ => Waiver::Quality,
        };
        let reason = if rng.chance(90) { "in a hurry" } else { "" }.to_owned();
        self.ask(batch.shard(), BatchCommand::OverrideDependency { batch, what, reason });
    }

    fn probe_now(&mut self, rng: &mut Rng) {
        let unfinished = self.known.unfinished();
        match rng.pick(&unfinished).copied().filter(|_| rng.clone().chance(70)) {
            Some(batch) => self.ask(batch.shard(), ObservationCommand::ProbeNow { batch: Some(batch) }),
            None => self.ask_catalogue(ObservationCommand::ProbeNow { batch: None }),
        };
    }

    fn checks(&mut self, rng: &mut Rng) {
        let report = ProbeReport {
            prober: format!("p{}", rng.below(2)).into(),
            authority: "hdfs://nn:8020".into(),
            late_ms: [0, 301_000, 601_000][rng.below(3)],
            failure: if rng.chance(20) { "refused".to_owned() } else { String::new() },
        };
        self.ask_catalogue(CatalogueCommand::ReportProbes(report));
    }

    /// A worker looks at a batch's paths; a look that hangs never comes back.
    pub(crate) fn look_at_paths(&mut self, index: usize, token: Token, checks: &[PathCheck]) {
        let life = self.clusters[index].life;
        let gone: Vec<ExternalDependencyId> =
            checks.iter().take(1).map(|check| check.external_dependency).collect();
        let looked = match self.rng.range(0, 100) {
            0..80 => Looked::There,
            80..92 => Looked::Gone(gone),
            92..98 => Looked::Unknown("the name node does not answer".to_owned()),
            _ => return,
        };
        let wait = self.rng.range(5, 400);
        self.after(wait, Happening::worker(index, life, WorkerInput::Looked { token, looked }));
    }
}
