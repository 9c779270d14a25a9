//! What people request of reruns and cold starts, beside everything else.

use jiff::SignedDuration;
use tidemill_model::{
    Cascade, ColdStartOf, JobId, Period, RerunCommand, RerunDefinition, RerunId, RerunOnly, RerunOrder,
    RerunScope, RerunSpec, ShardId,
};

use crate::{Rng, World};

impl World {
    /// Beside a request of another kind, and in a stream of its own: now and then a plan, more often something that
    /// is to become of one.
    pub(crate) fn client_request_of_reruns(&mut self, index: usize) {
        let mut rng = Rng::new(self.plan.seed, "rerun", index as u64);
        match rng.range(0, 100) {
            0..10 => self.plan_rerun(&mut rng),
            10..32 => self.act_on_a_rerun(&mut rng),
            _ => {}
        }
    }

    fn plan_rerun(&mut self, rng: &mut Rng) {
        let known =
            self.known.jobs.values().filter(|job| !job.submitted && (job.enabled || rng.clone().chance(20)));
        let known: Vec<JobId> = known.map(|job| job.id).collect();
        let Some(first) = rng.pick(&known).copied() else { return };
        let now = self.wall();
        let back = |seconds: u64| now.checked_sub(SignedDuration::from_secs(seconds as i64)).unwrap_or(now);
        let (mut from, mut to) = (back(rng.range(15, 90)), back(rng.range(0, 15)));
        let scope = match rng.range(0, 10) {
            0..4 => RerunScope::Rerun { jobs: vec![first], cascade: Cascade::Logic },
            4 => RerunScope::Rerun { jobs: vec![first], cascade: Cascade::Data },
            5 => RerunScope::Rerun { jobs: vec![first], cascade: Cascade::Job },
            6..8 => {
                let more: Vec<JobId> = (0..3).filter_map(|_| rng.pick(&known).copied()).collect();
                RerunScope::Rerun { jobs: vec![first], cascade: Cascade::Subset(more) }
            }
            _ => {
                from = back(3 * 3_600);
                let group = format!("g{}", rng.below(self.plan.groups) + 1);
                let of = match rng.below(3) {
                    0 => ColdStartOf::All,
                    1 => ColdStartOf::Group(group.try_into().expect("a name")),
                    _ => ColdStartOf::Jobs(vec![self.disabled_one(rng).unwrap_or(first)]),
                };
                RerunScope::ColdStart { of, period: Period::Hour }
            }
        };
        if rng.chance(4) {
            to = now + SignedDuration::from_secs(100);
        }
        let is_cold = matches!(scope, RerunScope::ColdStart { .. });
        let spec = RerunSpec {
            scope,
            from,
            to,
            reach: rng.chance(20).then_some(now),
            only: [RerunOnly::All, RerunOnly::All, RerunOnly::Missing, RerunOnly::Failed][rng.below(4)],
            order: [RerunOrder::Oldest, RerunOrder::Newest][rng.below(2)],
            concurrency: rng.range(1, 5) as u32,
            definition: match rng.chance(15) && !is_cold {
                true => RerunDefinition::Recorded,
                false => RerunDefinition::Today,
            },
            reason: "because".to_owned(),
            approve: rng.chance(50),
        };
        self.ask_catalogue(RerunCommand::Plan(Box::new(spec)));
    }

    /// Now and then one that is refused, because it is disabled.
    fn disabled_one(&self, rng: &mut Rng) -> Option<JobId> {
        let all = self.known.jobs.values().filter(|job| !job.submitted && !job.enabled);
        let all: Vec<JobId> = all.map(|job| job.id).collect();
        rng.pick(&all).copied().filter(|_| rng.chance(50))
    }

    fn act_on_a_rerun(&mut self, rng: &mut Rng) {
        let live: Vec<RerunId> = self.known.reruns.iter().copied().collect();
        let Some(rerun) = rng.pick(&live).copied() else { return };
        let command = match rng.range(0, 20) {
            0..11 => RerunCommand::Approve { rerun },
            11..14 => RerunCommand::Pause { rerun },
            14..17 => RerunCommand::Resume { rerun },
            _ => RerunCommand::Cancel { rerun, kill: rng.chance(50) },
        };
        let pauses = matches!(command, RerunCommand::Pause { .. });
        self.ask_catalogue(command);
        if pauses && rng.chance(50) {
            let delay = rng.range(100, 3_000);
            self.ask_later(ShardId::CATALOGUE, RerunCommand::Resume { rerun }, delay);
        }
    }
}
