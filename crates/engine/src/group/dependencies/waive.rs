//! DEP-7: a person lets a batch run without some of its conditions, on record with name and reason.

use tidemill_model::{
    Actor, BatchEvent, BatchId, ExternalDependency, ExternalDependencyId, JobId, MAX_CODE_BYTES,
    MAX_PATH_BYTES, Rejection, Timestamp, WaivedParent, Waiver, bounds,
};

use crate::decision::Decision;
use crate::group::GroupShard;
use crate::group::batches::batch::{Batch, WaitsFor};

impl GroupShard {
    pub(crate) fn override_dependency(
        &self,
        id: BatchId,
        what: &Waiver,
        reason: &str,
        by: &Actor,
    ) -> Result<Decision, Rejection> {
        let batch = self.unfinished(id)?;
        check_named(what)?;
        if reason.trim().is_empty() || reason.chars().count() > bounds::REASON_CHARS {
            let rule = format!("must say why, in 1 to {} characters", bounds::REASON_CHARS);
            return Err(Rejection::field("reason", reason, rule));
        }
        if batch.grant().is_some() {
            return Err(Rejection::NotWaitedFor { batch: id.0, reason: "it has started".to_owned() });
        }
        let external_dependencies = self.waived_external_dependencies(batch, what);
        let named = match what {
            Waiver::All => Some((None, None)),
            Waiver::Parent { job, logical_time } => Some((Some(*job), *logical_time)),
            Waiver::Path(_) | Waiver::ThirdParty(_) | Waiver::Quality => None,
        };
        let mut parents = named.map(|(job, time)| waived_parents(batch, job, time)).unwrap_or_default();
        let counted = named.filter(|(_, time)| time.is_none_or(|wanted| wanted == batch.logical_time));
        let (of_counted, counted_parents) =
            counted.map(|(job, _)| Self::waivable_counted(batch, job)).unwrap_or_default();
        let counted = batch.counted.as_ref().map_or(0, |counted| counted.unmet);
        let counted_left = if counted_parents { 0 } else { counted.saturating_sub(of_counted.len() as u32) };
        parents.extend(of_counted);
        parents.sort();
        let gated = batch.gate().is_some_and(|gate| !gate.is_open());
        let quality = gated && matches!(what, Waiver::All | Waiver::Quality);
        if external_dependencies.is_empty() && parents.is_empty() && !counted_parents && !quality {
            let reason = match what {
                Waiver::All => "all its conditions are met".to_owned(),
                Waiver::Path(path) => format!("it has no unmet path {path}"),
                Waiver::ThirdParty(code) => format!("it has no unmet third party's {code}"),
                Waiver::Parent { job, .. } => format!("it has no unmet parent {job} of that time"),
                Waiver::Quality => "the quality service does not keep it back".to_owned(),
            };
            return Err(Rejection::NotWaitedFor { batch: id.0, reason });
        }
        let left = |dependency: &&WaitsFor| !batch.is_met(dependency, &parents);
        let unmet = batch.dependencies.iter().filter(left).count() as u32 + counted_left;
        let (by, reason) = (by.clone(), reason.to_owned());
        Ok(Decision::of(BatchEvent::DependencyOverridden {
            batch: id,
            external_dependencies,
            parents,
            counted_parents,
            quality,
            unmet,
            by,
            reason,
        }))
    }

    fn waived_external_dependencies(&self, batch: &Batch, what: &Waiver) -> Vec<ExternalDependencyId> {
        let is_named = |external_dependency: &ExternalDependency| match (what, external_dependency) {
            (Waiver::All, _) => true,
            (Waiver::Path(wanted), ExternalDependency::Path { path, .. }) => path == wanted,
            (Waiver::ThirdParty(wanted), ExternalDependency::ThirdParty { code, .. }) => code == wanted,
            (Waiver::Path(_) | Waiver::ThirdParty(_) | Waiver::Parent { .. } | Waiver::Quality, _) => false,
        };
        let unmet = batch.external_dependencies().iter().filter(|need| need.is_unmet());
        unmet
            .map(|need| need.id)
            .filter(|id| self.external.dependencies().what(*id).is_some_and(is_named))
            .collect()
    }

    pub(crate) fn dependency_overridden(&mut self, now: Timestamp, event: &BatchEvent) {
        let BatchEvent::DependencyOverridden {
            batch: id,
            external_dependencies,
            parents,
            counted_parents,
            quality,
            ..
        } = event
        else {
            return;
        };
        self.waive_counted(*id, parents, *counted_parents);
        if *quality {
            self.settle_gate(*id);
        }
        let Some(batch) = self.batches.get_mut(id) else { return };
        let needs = batch.needs.get_or_insert_default();
        for need in
            needs.external_dependencies.iter_mut().filter(|need| external_dependencies.contains(&need.id))
        {
            need.waived = true;
        }
        needs.waived.extend(parents);
        if let Some(gate) = needs.gate.as_mut().filter(|_| *quality) {
            gate.waived = true;
        }
        self.make_ready(now, *id);
        self.reconsider(*id);
    }
}

/// Of its parents' times that have not succeeded, those that are named.
fn waived_parents(batch: &Batch, wanted: Option<JobId>, wanted_time: Option<Timestamp>) -> Vec<WaivedParent> {
    let mut waived: Vec<WaivedParent> = Vec::new();
    for dependency in batch.dependencies.iter().filter(|dependency| !batch.is_met(dependency, &[])) {
        let job = dependency.declared.parent;
        if wanted.is_some_and(|wanted| wanted != job) {
            continue;
        }
        let times = dependency.declared.times.iter().zip(&dependency.met);
        let unmet = times.filter(|(time, met)| !**met && wanted_time.is_none_or(|wanted| wanted == **time));
        waived.extend(unmet.map(|(time, _)| WaivedParent { job, logical_time: Some(*time) }));
        if dependency.declared.times.is_empty() && wanted_time.is_none() {
            waived.push(WaivedParent { job, logical_time: None });
        }
    }
    waived.sort();
    waived.dedup();
    waived.retain(|waiver| !batch.waived().contains(waiver));
    waived
}

/// What is longer than any condition's name is none, and an answer that quotes it would have no bound.
fn check_named(what: &Waiver) -> Result<(), Rejection> {
    let (field, text, most) = match what {
        Waiver::Path(path) => ("what.path", path, MAX_PATH_BYTES),
        Waiver::ThirdParty(code) => ("what.third_party", code, MAX_CODE_BYTES),
        Waiver::All | Waiver::Parent { .. } | Waiver::Quality => return Ok(()),
    };
    if text.len() > most {
        let rule = format!("has {} bytes; must be at most {most}", text.len());
        return Err(Rejection::field(field, text, rule));
    }
    Ok(())
}
