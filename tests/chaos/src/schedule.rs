//! What happens when: all of it drawn from the seed before anything begins.

use std::fmt;

use serde::Serialize;

use crate::fault::Kind;
use crate::rng::Rng;

/// Faults under way at once, at most.
const AT_ONCE: usize = 2;
/// The first one comes when the workload has settled.
const FIRST_MS: u64 = 3_000;
/// From one start to the next.
const GAP_MS: (u64, u64) = (2_500, 7_500);

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its place in the schedule, from 1.
    pub number: usize,
    /// When it starts, from the beginning of the schedule.
    pub at_ms: u64,
    /// After how long it is healed.
    pub for_ms: u64,
    /// What it is.
    pub kind: Kind,
    /// What it strikes: a process, one of a process's connections (`api-1/log`, `api-1/tables`), or a service.
    pub target: String,
    /// A number that some kinds need: milliseconds of delay.
    pub size: u64,
}

impl Step {
    /// What nothing else may strike at the same time.
    pub(crate) fn subject(&self) -> &str {
        self.target.split('/').next().unwrap_or_default()
    }

    fn ends_ms(&self) -> u64 {
        self.at_ms + self.for_ms
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| std::time::Duration::from_millis(ms).as_secs_f64();
        let (at, lasts, name) = (seconds(self.at_ms), seconds(self.for_ms), self.kind.name());
        write!(f, "{:3}  at {at:7.1} s  for {lasts:4.1} s  {name:<18} {}", self.number, self.target)
    }
}

/// A takeover is judged where nothing else was wrong for so long before it, and during it.
const CALM_MS: u64 = 13_000;
/// Kills of a dispatcher that are given this calm.
const CALM_PERCENT: u64 = 60;

/// Draws a schedule over so long; `targets` are those of a kind. Each kind comes once, in any order, before one
/// comes twice; a kind without targets never does.
pub(crate) fn draw(
    seed: u64,
    total_ms: u64,
    kinds: &[Kind],
    targets: &dyn Fn(Kind) -> Vec<String>,
) -> Vec<Step> {
    let mut rng = Rng::new(seed, "schedule");
    let mut steps: Vec<Step> = Vec::new();
    let mut hand = Vec::new();
    let mut at_ms = FIRST_MS;
    let possible: Vec<Kind> = kinds.iter().copied().filter(|kind| !targets(*kind).is_empty()).collect();
    while at_ms < total_ms && !possible.is_empty() {
        let active: Vec<&Step> = steps.iter().filter(|step| step.ends_ms() > at_ms).collect();
        if active.len() >= AT_ONCE {
            at_ms = active.iter().map(|step| step.ends_ms()).min().unwrap_or(at_ms) + 1;
            continue;
        }
        if hand.is_empty() {
            hand.clone_from(&possible);
            rng.shuffle(&mut hand);
        }
        let Some(kind) = hand.pop() else { break };
        let calm = kind == Kind::KillDispatcher && rng.chance(CALM_PERCENT);
        let last = steps.iter().map(Step::ends_ms).max();
        if let Some(calm_ms) = last.map(|last| last + CALM_MS).filter(|it| calm && *it > at_ms) {
            at_ms = calm_ms;
            if at_ms >= total_ms {
                break;
            }
        }
        let (low, high) = kind.lasts_ms();
        let for_ms = rng.range(low, high).min(total_ms - at_ms);
        let size = rng.range(20, 600);
        let free: Vec<String> = targets(kind)
            .into_iter()
            .filter(|target| {
                let subject = target.split('/').next().unwrap_or_default();
                let mut active = steps.iter().filter(|step| step.ends_ms() > at_ms);
                active.all(|step| step.subject() != subject)
            })
            .collect();
        match rng.pick(&free) {
            Some(target) => {
                let number = steps.len() + 1;
                steps.push(Step { number, at_ms, for_ms, kind, target: target.clone(), size });
                at_ms += if calm { CALM_MS } else { rng.range(GAP_MS.0, GAP_MS.1) };
            }
            // Its only target is struck already: its turn comes again.
            None => {
                hand.insert(0, kind);
                at_ms += 500;
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(kind: Kind) -> Vec<String> {
        match kind {
            Kind::DiskFull => Vec::new(),
            Kind::BrokerKill | Kind::BrokerRestart | Kind::BrokerPause => vec!["kafka".to_owned()],
            _ => ["a", "b/log", "b/tables"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn one_seed_gives_one_schedule_and_another_seed_another() {
        let first = draw(7, 600_000, Kind::ALL, &targets);
        assert_eq!(first, draw(7, 600_000, Kind::ALL, &targets));
        assert_ne!(first, draw(8, 600_000, Kind::ALL, &targets));
        assert!(first.len() > 50, "{}", first.len());
    }

    #[test]
    fn what_is_possible_comes_and_what_is_not_never_does() {
        let steps = draw(7, 300_000, Kind::ALL, &targets);
        for kind in Kind::ALL {
            assert_eq!(
                steps.iter().any(|step| step.kind == *kind),
                *kind != Kind::DiskFull,
                "{}",
                kind.name()
            );
        }
    }

    #[test]
    fn some_kills_of_dispatchers_have_the_calm_to_be_judged() {
        let steps = draw(7, 600_000, Kind::ALL, &targets);
        let kills = steps.iter().filter(|step| step.kind == Kind::KillDispatcher);
        let is_calm = |kill: &&Step| {
            let near = |it: &&Step| it.ends_ms() + CALM_MS > kill.at_ms && it.at_ms < kill.at_ms + CALM_MS;
            steps.iter().filter(near).count() == 1
        };
        assert!(kills.filter(is_calm).count() >= 2);
    }

    #[test]
    fn two_faults_at_most_and_never_on_one_subject() {
        for seed in 0..50 {
            let steps = draw(seed, 300_000, Kind::ALL, &targets);
            for step in &steps {
                let beside = steps.iter().filter(|it| it.number < step.number && it.ends_ms() > step.at_ms);
                let beside: Vec<_> = beside.collect();
                assert!(beside.len() < AT_ONCE, "{step}");
                assert!(beside.iter().all(|it| it.subject() != step.subject()), "{step}");
                assert!(step.ends_ms() <= 300_000);
            }
        }
    }
}
