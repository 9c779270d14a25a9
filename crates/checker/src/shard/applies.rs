//! Large requests of the catalogue: staged, committed, carried out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{ApplyEvent, Event, JobDefinition, JobEvent, JobId, JobSpec, RequestId};

use crate::{At, Invariant};

/// Group and name.
type Key = (String, String);

/// A definition that the catalogue has.
#[derive(Debug)]
struct Known {
    definition: Arc<JobDefinition>,
    enabled: bool,
    unnamed: bool,
}

/// What was committed and has not ended.
#[derive(Debug)]
struct Running {
    apply: RequestId,
    jobs: BTreeMap<Key, JobSpec>,
    delete: BTreeSet<JobId>,
    done: u32,
}

/// The requests, and the definitions that they are held against.
#[derive(Debug, Default)]
pub(super) struct Applies {
    known: HashMap<JobId, Known>,
    names: HashMap<Key, JobId>,
    staged: HashMap<RequestId, BTreeMap<u32, Arc<Vec<JobSpec>>>>,
    running: Option<Running>,
}

impl Applies {
    /// `applies_carried_out`, `names_mean_one_job`
    pub(super) fn event(&mut self, at: &At<'_>, event: &Event) {
        if let Some(why) = self.wrong_name(event) {
            at.breaks(Invariant::NamesMeanOneJob, why);
        }
        if let Some(why) = self.wrong(event) {
            at.breaks(Invariant::AppliesCarriedOut, why);
        }
        self.fold(event);
    }

    /// What the event says that cannot be.
    fn wrong(&self, event: &Event) -> Option<String> {
        match event {
            Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
                self.stray(Some(&key_of(definition)), None)
            }
            Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job }) => {
                let key = self.known.get(job).map(|known| key_of(&known.definition));
                self.stray(key.as_ref(), None)
            }
            Event::Job(JobEvent::Deleted { job }) => self.stray(None, Some(*job)),
            Event::Apply(ApplyEvent::Staged { apply, part, .. }) => {
                let is_twice = self.staged.get(apply).is_some_and(|parts| parts.contains_key(part));
                is_twice.then(|| format!("part {part} of {apply} is staged twice"))
            }
            Event::Apply(ApplyEvent::StagingDiscarded { apply }) => {
                (!self.staged.contains_key(apply)).then(|| format!("{apply} is dropped, and is not staged"))
            }
            Event::Apply(ApplyEvent::Committed { apply, .. }) => self.wrong_commit(apply),
            Event::Apply(ApplyEvent::Advanced { apply, done, by: _ }) => {
                let moves = self.running.as_ref().is_some_and(|running| {
                    let all = running.jobs.len() + running.delete.len();
                    running.apply == *apply && *done > running.done && (*done as usize) < all
                });
                (!moves).then(|| format!("{apply} cannot advance to {done}"))
            }
            Event::Apply(ApplyEvent::Finished { apply, .. }) => self.wrong_end(apply),
            _ => None,
        }
    }

    /// JOB-9: a name means one job; a job gets another one only where the record says which one it had.
    fn wrong_name(&self, event: &Event) -> Option<String> {
        let (Known { definition, .. }, had) = defined(event).filter(|(known, _)| !known.unnamed)?;
        let (key, id) = (key_of(&definition), definition.id);
        if let Some(other) = self.names.get(&key).filter(|other| **other != id) {
            return Some(format!("job {id} gets the name {}, which job {other} has", definition.full_name()));
        }
        let known = self.known.get(&id).map(|known| key_of(&known.definition));
        let expected = known.filter(|known| *known != key);
        (had != expected).then(|| format!("job {id} had the name {expected:?}, and its record says {had:?}"))
    }

    /// A change that does not belong to what is being carried out.
    fn stray(&self, key: Option<&Key>, deleted: Option<JobId>) -> Option<String> {
        let running = self.running.as_ref()?;
        let is_of_it = key.is_some_and(|key| running.jobs.contains_key(key))
            || deleted.is_some_and(|job| running.delete.contains(&job));
        (!is_of_it).then(|| format!("{key:?}{deleted:?} changes while {} is carried out", running.apply))
    }

    fn wrong_commit(&self, apply: &RequestId) -> Option<String> {
        if let Some(running) = &self.running {
            return Some(format!("{apply} is committed while {} is carried out", running.apply));
        }
        let Some(parts) = self.staged.get(apply) else {
            return Some(format!("{apply} is committed, and is not staged"));
        };
        let is_whole = parts.keys().copied().eq(0..u32::try_from(parts.len()).unwrap_or(u32::MAX));
        (!is_whole).then(|| format!("{apply} is committed, and parts of it are missing"))
    }

    fn wrong_end(&self, apply: &RequestId) -> Option<String> {
        let Some(running) = self.running.as_ref().filter(|running| running.apply == *apply) else {
            return Some(format!("{apply} ends, and is not carried out"));
        };
        let left = running.jobs.iter().find(|(key, spec)| {
            let known = self.names.get(*key).and_then(|id| self.known.get(id));
            !known.is_some_and(|known| is_as_written(known, spec))
        });
        if let Some(((group, name), _)) = left {
            return Some(format!("{apply} ends, and {group}/{name} is not as it was staged"));
        }
        let kept = running.delete.iter().find(|job| self.known.contains_key(job));
        kept.map(|job| format!("{apply} ends, and job {job} is not deleted"))
    }

    fn fold(&mut self, event: &Event) {
        if let Some((known, had)) = defined(event) {
            if let Some(had) = had {
                self.names.remove(&had);
            }
            if !known.unnamed {
                self.names.insert(key_of(&known.definition), known.definition.id);
            }
            self.known.insert(known.definition.id, known);
        }
        match event {
            Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job }) => {
                if let Some(known) = self.known.get_mut(job) {
                    known.enabled = matches!(event, Event::Job(JobEvent::Enabled { .. }));
                }
            }
            Event::Job(JobEvent::Deleted { job }) => {
                if let Some(known) = self.known.remove(job).filter(|known| !known.unnamed) {
                    self.names.remove(&key_of(&known.definition));
                }
            }
            Event::Apply(ApplyEvent::Staged { apply, part, jobs }) => {
                self.staged.entry(apply.clone()).or_default().insert(*part, Arc::clone(jobs));
            }
            Event::Apply(ApplyEvent::StagingDiscarded { apply }) => {
                self.staged.remove(apply);
            }
            Event::Apply(ApplyEvent::Committed { apply, delete, .. }) => {
                let parts = self.staged.remove(apply).unwrap_or_default();
                let jobs = parts.values().flat_map(|part| part.iter());
                let key = |spec: &JobSpec| (spec.group.to_string(), spec.name.to_string());
                let jobs = jobs.map(|spec| (key(spec), spec.clone())).collect();
                let delete = delete.iter().copied().collect();
                self.running = Some(Running { apply: apply.clone(), jobs, delete, done: 0 });
            }
            Event::Apply(ApplyEvent::Advanced { done, .. }) => {
                if let Some(running) = &mut self.running {
                    running.done = *done;
                }
            }
            Event::Apply(ApplyEvent::Finished { .. }) => self.running = None,
            _ => {}
        }
    }
}

/// What an event defines, and the name that it had until then, where the record says so.
fn defined(event: &Event) -> Option<(Known, Option<Key>)> {
    let (definition, enabled, unnamed, had) = match event {
        Event::Job(JobEvent::Defined { definition, enabled, unnamed, previous_name }) => {
            let name = previous_name.as_ref();
            let had = name.map(|name| (definition.spec.group.to_string(), name.to_string()));
            (definition, *enabled, *unnamed, had)
        }
        Event::Job(JobEvent::Moved { definition, enabled, unnamed, previous_group, .. }) => {
            let had = (previous_group.to_string(), definition.spec.name.to_string());
            (definition, *enabled, *unnamed, Some(had).filter(|_| !unnamed))
        }
        _ => return None,
    };
    Some((Known { definition: Arc::clone(definition), enabled, unnamed }, had))
}

fn key_of(definition: &JobDefinition) -> Key {
    (definition.spec.group.to_string(), definition.spec.name.to_string())
}

/// Whether a definition says what the job as written says; of its parents, how many they are.
fn is_as_written(known: &Known, spec: &JobSpec) -> bool {
    let is = &known.definition;
    is.spec == spec.clone().normalized()
        && is.parents.len() == spec.parents.len() + usize::from(spec.depends_on_past)
        && known.enabled == spec.enabled
}
