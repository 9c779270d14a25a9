//! Which rows an event changes or reads: what has to be known before it is applied.

use tidemill_model::Event;

use super::Caches;

pub(super) fn need(rows: &mut Caches, shard: i64, event: &Event) {
    match event {
        Event::Catalogue(event) => rows.need_catalogue(event),
        Event::Job(event) => rows.need_job(event),
        Event::Replication(event) => rows.need_replication(shard, event),
        Event::Schedule(event) => rows.need_schedule(shard, event),
        Event::Transfer(event) => rows.need_transfer(shard, event),
        Event::Batch(event) => rows.need_batch(shard, event),
        Event::Attempt(event) => rows.need_attempt(event),
        Event::FinalCommand(event) => rows.need_final_command(event),
        Event::Observation(event) => rows.need_observation(event),
        Event::Worker(event) => rows.need_worker(shard, event),
        Event::Bulk(event) => rows.need_bulk(event),
        Event::Task(event) => super::pull::need(rows, shard, event),
        Event::Rerun(event) => super::rerun::need(rows, event),
        Event::Partition(_)
        | Event::Subscription(_)
        | Event::Alarm(_)
        | Event::Deletion(_)
        | Event::Apply(_)
        | Event::Permit(_) => {}
    }
}
