//! What people and programs request: one command after the other, from what is on record at the moment.

mod batches;
mod catalogue;
mod credentials;
mod directory;
mod job_spec;
mod jobs;
mod strangers;

use tidemill_model::{Actor, Command, CommandRecord, Outcome, Reply, RequestId, ShardId};

pub(crate) use self::catalogue::MOST_KEYS;
pub(crate) use self::jobs::POISON;
use crate::clients::is_by_state;
use crate::happening::{Happening, Then};
use crate::known::KnownJob;
use crate::rng::Rng;
use crate::world::{Requested, World};

/// The request beside which hundreds of jobs are applied at once, in histories where they are; more than shards are told
/// of in one envelope.
const LARGE_AT: usize = 8;
/// Until an unanswered request is sent again.
const AGAIN_MS: u64 = 6_000;

impl World {
    /// Sends a request that is repeated until it is answered.
    pub(crate) fn ask(&mut self, shard: ShardId, command: impl Into<Command>) -> RequestId {
        self.ask_later(shard, command, 0)
    }

    pub(crate) fn ask_catalogue(&mut self, command: impl Into<Command>) -> RequestId {
        self.ask(ShardId::CATALOGUE, command)
    }

    pub(crate) fn ask_later(&mut self, shard: ShardId, command: impl Into<Command>, delay: u64) -> RequestId {
        let number = self.requests + 1;
        let request = RequestId::of_client("test", &format!("r{number}"), number);
        self.ask_with(request, shard, command, delay)
    }

    pub(crate) fn ask_with(
        &mut self,
        request: RequestId,
        shard: ShardId,
        command: impl Into<Command>,
        delay: u64,
    ) -> RequestId {
        let actor = Actor { app: "test".into(), user: Some("ann".into()) };
        self.ask_by(actor, request, shard, command, delay)
    }

    fn ask_by(
        &mut self,
        actor: Actor,
        request: RequestId,
        shard: ShardId,
        command: impl Into<Command>,
        delay: u64,
    ) -> RequestId {
        self.requests += 1;
        let record = CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(self.instance(self.requests)),
            actor,
            command: command.into(),
        };
        self.stats.add("sent", "client_request");
        self.tell(|| format!("WISH {request} to {shard}: {:?}", record.command));
        self.send(&record, delay, Then::Nobody);
        let partition = shard.partition(self.plan.partitions);
        self.requested.insert(request.clone(), Requested { partition, record, answer: None });
        self.after(AGAIN_MS, Happening::ClientRequestAgain { request: request.clone() });
        request
    }

    pub(crate) fn client_request_again(&mut self, request: &RequestId) {
        let Some(requested) = self.requested.get(request).filter(|requested| requested.answer.is_none())
        else {
            return;
        };
        let mut record = requested.record.clone();
        // Through another instance, as a client does whose own is gone.
        let other = self.rng.next();
        record.reply_to = Some(self.instance(other));
        self.stats.add("sent", "client_request_again");
        self.send(&record, 0, Then::Nobody);
        self.after(AGAIN_MS, Happening::ClientRequestAgain { request: request.clone() });
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        let Some(requested) = self.requested.get_mut(&reply.request) else {
            return self.is_wrong(format!("a reply to nobody's request: {reply:?}"));
        };
        if reply.outcome == Outcome::Repeated || reply.partition != requested.partition {
            let what = format!("a reply that cannot be: {reply:?}");
            return self.is_wrong(what);
        }
        match &requested.answer {
            Some(first) if *first != reply.outcome && !is_by_state(&reply.request) => {
                let what = format!("{} was answered {first:?}, then {:?}", reply.request, reply.outcome);
                self.is_wrong(what);
            }
            Some(_) => {}
            None => requested.answer = Some(reply.outcome),
        }
    }

    pub(crate) fn client_request(&mut self, index: usize) {
        let mut rng = Rng::new(self.plan.seed, "client_request", index as u64);
        let rng = &mut rng;
        if index == LARGE_AT && self.plan.is_large {
            self.apply_many(rng.aside("many"));
        }
        self.client_request_of_reruns(index);
        self.client_request_of_pulls(index);
        if index > 4 {
            self.client_request_of_people(&mut rng.aside("directory"));
        }
        let aside = &mut rng.aside("pool");
        if index > 4 && aside.chance(5) {
            self.change_pool(aside);
        }
        // Kinds that need several requests of one sort in one history.
        match rng.aside("seldom").range(0, 100) {
            0..3 if index > 4 => self.calendars(&mut rng.aside("calendars")),
            3..8 => self.keys(&mut rng.aside("keys")),
            8..11 if index > 4 => self.rename(&mut rng.aside("rename")),
            11..15 if index > 4 => self.bulk(&mut rng.aside("bulk")),
            15..21 if index > 4 => self.move_job(&mut rng.aside("move")),
            21..24 if index > 4 => self.change_account(&mut rng.aside("account")),
            24 if index > 4 => self.delete_with_children(&mut rng.aside("orphans")),
            25..27 if index > 4 => self.hold_level(),
            27..33 if index > 4 => self.vouch_for_an_end(&mut rng.aside("vouch")),
            _ => {}
        }
        if rng.range(0, 500) == 0 {
            return self.run_often(rng);
        }
        self.usual_client_request(index, rng);
    }

    fn usual_client_request(&mut self, index: usize, rng: &mut Rng) {
        match if index < 4 { 0 } else { rng.range(0, 100) } {
            0..14 => self.apply_jobs(rng),
            14..33 => self.submit(rng),
            33 | 49 | 94 => self.report_user_code(rng),
            34 => self.keys(rng),
            35 => self.calendars(rng),
            36..49 => self.run_job(rng),
            50..62 => self.rerun(rng),
            62..69 => self.kill(rng),
            69..72 => self.mark(rng),
            72..79 => self.switch(rng),
            79..82 => self.delete(rng),
            82..85 => self.drain(rng),
            85..87 => self.freeze(rng),
            87..89 => self.keys(rng),
            89..90 => self.change_group(rng),
            90..92 => self.calendars(rng),
            92..93 => self.garbage(rng),
            93 => self.stray(rng),
            95..97 => self.impostor(rng),
            97..98 => self.repeat_an_old_client_request(rng),
            98..99 => self.set_time(rng),
            _ => self.define_job(rng),
        }
    }

    fn some_job(&self, rng: &mut Rng, submitted: bool) -> Option<KnownJob> {
        let jobs: Vec<_> = self.known.jobs.values().filter(|job| submitted || !job.submitted).collect();
        rng.pick(&jobs).map(|job| (*job).clone())
    }
}
