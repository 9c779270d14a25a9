//! BYD-20: small values that a batch passes to its children. What the newest attempt of the newest run passed on counts;
//! to another group they go with how the parent stands, once it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_calendar::Template;
use tidemill_model::{AttemptOutcome, BatchId, JobId, Timestamp};

use crate::group::GroupShard;
use crate::group::batches::batch::Batch;
use crate::group::dependencies::failure::Stand;
use crate::group::jobs::kept_texts::Kept;

type Values = BTreeMap<String, String>;

impl GroupShard {
    /// What the batch's templates name of its parents' values, by `PARENT.KEY`. The error is for people.
    pub(crate) fn values_for(&self, batch: &Batch) -> Result<Values, String> {
        let mut values = Values::new();
        let definition = &batch.definition;
        let written = definition.spec.templates().map(|(_, text)| text);
        // A parameter of the batch's own stands in the place of the job's.
        let own = batch.parameters.as_deref();
        let declared = definition.spec.parameters.iter();
        let declared = declared.filter(|(name, _)| own.is_none_or(|own| !own.contains_key(*name)));
        let parameters = declared.chain(own.into_iter().flatten()).map(|(_, text)| text.as_str());
        let texts = written.chain(parameters);
        for text in texts.filter(|text| text.contains("${values.")) {
            let template = Template::parse(text).map_err(|error| error.to_string())?;
            for (parent, key) in template.value_names() {
                let value = self.value_of(batch, parent, key)?;
                values.insert(format!("{parent}.{key}"), value);
            }
        }
        Ok(values)
    }

    /// Of the newest of the parent's times that the batch waited for and that is met: of `any`, others may be open.
    fn value_of(&self, batch: &Batch, parent: &str, key: &str) -> Result<String, String> {
        let fault = |what: String| format!("${{values.{parent}.{key}}}: {what}");
        let full = match parent.contains('/') {
            true => parent.to_owned(),
            false => format!("{}/{parent}", batch.definition.spec.group),
        };
        let is_named = |parent: &JobId| self.name_of(*parent) == full;
        // A batch keeps its definition, which may be older than its parent's name.
        let was_named = |parent: &JobId| self.was_named(*parent, &full);
        let parents = || {
            let listed = batch.dependencies.iter().map(|waits| waits.declared.parent);
            listed.chain(batch.counted.iter().flat_map(|counted| counted.parents()))
        };
        let parent = parents().find(is_named).or_else(|| parents().find(was_named));
        let parent = parent.ok_or_else(|| fault(format!("the batch waits for no parent {full}")))?;
        let time = match batch.dependencies.iter().find(|waits| waits.declared.parent == parent) {
            Some(waits) => {
                let times = || waits.declared.times.iter().zip(&waits.met);
                let passed = |time: &Timestamp| self.stand_of(parent, *time) != Stand::Skipped;
                let met = times().filter(|(time, met)| **met && passed(time)).map(|(time, _)| time).max();
                met.or_else(|| waits.declared.times.iter().max()).copied()
            }
            None => Some(batch.logical_time),
        };
        let time = time.ok_or_else(|| fault(format!("the batch waits for no batch of {full}")))?;
        let passed_on = self.passed_on(parent, time);
        let (named, values, dropped) =
            passed_on.ok_or_else(|| fault(format!("no batch of {full} for {time} is known")))?;
        if dropped {
            return Err(fault(format!(
                "the values that {full} passed on for {time} are so old that its group does not keep them; run \
                 {full} for {time} again, and then this"
            )));
        }
        let value = values.and_then(|values| values.get(key)).cloned();
        value.ok_or_else(|| fault(format!("{named} of {full} passed no value {key} on")))
    }

    /// The newest run of a parent's time, for people, what it passed on, and whether some of that is not kept; in another
    /// group as its shard said last.
    fn passed_on(&self, parent: JobId, time: Timestamp) -> Option<(String, Option<&Values>, bool)> {
        let named = |batch: Option<BatchId>, run: u32| {
            batch.map_or_else(|| format!("run {run} for {time}"), |id| format!("batch {id}"))
        };
        if let Some(job) = self.jobs.get(&parent) {
            let newest = job.newest_run(time)?;
            let dropped = newest.values == Kept::Dropped;
            return Some((named(newest.batch, newest.number), newest.values.texts(), dropped));
        }
        let standing = self.dependencies.foreign().standing(parent, time)?;
        Some((named(standing.batch, standing.run?), Some(&standing.values), standing.values_dropped))
    }

    /// An attempt has ended: what it passed on counts from now on, if it is of the newest run.
    pub(crate) fn values_passed(&mut self, id: BatchId, outcome: &AttemptOutcome) {
        let Some(batch) = self.batches.get(&id) else { return };
        let (job, time) = (batch.definition.id, batch.logical_time);
        let newest = self.jobs.get_mut(&job).and_then(|job| job.history.get_mut(time));
        if let Some(newest) = newest.filter(|newest| newest.batch == id) {
            newest.values = (!outcome.values.is_empty()).then(|| Arc::new(outcome.values.clone()));
        }
    }
}
