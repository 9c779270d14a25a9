//! Someone who requests and waits for the outcome.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_log::{From, Log, LogId, Producer, Reader, Topic, append_wait};
use tidemill_model::{
    Actor, Answer, BatchCommand, CatalogueCommand, Command, CommandRecord, GroupName, GroupSettings,
    InstanceId, JobType, Outcome, Priority, Program, Reply, RequestId, ShardId, Submission,
};

use super::PATIENCE;
use super::journal::History;
use super::worker::public_key;

pub struct Client {
    pub log: Arc<dyn Log>,
    producer: Arc<dyn Producer>,
    replies: Box<dyn Reader>,
    instance: InstanceId,
    heard: Vec<Reply>,
    asked: u64,
}

impl Client {
    pub fn new(log: &Arc<dyn Log>) -> Self {
        let instance = InstanceId::new(format!("client-{}", LogId::random()));
        let partition = tidemill_log::partition_of_key(instance.as_str(), log.partitions(Topic::Replies));
        let replies = log.reader(Topic::Replies, partition, From::End).unwrap();
        let producer = log.producer().unwrap();
        Self { log: Arc::clone(log), producer, replies, instance, heard: Vec::new(), asked: 0 }
    }

    pub fn fresh_request(&mut self) -> RequestId {
        self.asked += 1;
        RequestId::new(format!("{}-{}", self.instance, self.asked))
    }

    /// Appends the request and gives its offset.
    pub fn send(&self, shard: ShardId, request: &RequestId, command: Command) -> u64 {
        let record = CommandRecord {
            shard,
            request: Some(request.clone()),
            reply_to: Some(self.instance.clone()),
            actor: Actor { app: "test".into(), user: None },
            command,
        };
        self.send_raw(shard, serde_json::to_vec(&record).unwrap())
    }

    pub fn send_raw(&self, shard: ShardId, value: Vec<u8>) -> u64 {
        let partition = shard.partition(self.log.partitions(Topic::Commands));
        let key = shard.to_string();
        append_wait(self.producer.as_ref(), Topic::Commands, partition, key.as_bytes(), value, PATIENCE)
            .unwrap()
    }

    /// The next reply to this request that has not been given out.
    pub fn reply(&mut self, request: &RequestId) -> Reply {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.heard.iter().position(|reply| reply.request == *request) {
                return self.heard.remove(at);
            }
            assert!(Instant::now() < end, "no reply to {request} within {PATIENCE:?}");
            for record in self.replies.poll(1_000, Duration::from_millis(200)).unwrap() {
                if record.key == self.instance.as_str().as_bytes() {
                    self.heard.push(serde_json::from_slice(&record.value).unwrap());
                }
            }
        }
    }

    /// Requests and waits.
    pub fn ask(&mut self, shard: ShardId, command: Command) -> Reply {
        let request = self.fresh_request();
        self.send(shard, &request, command);
        self.reply(&request)
    }

    /// Makes a group and waits until its shard knows of it.
    pub fn define_group(&mut self, name: &str, settings: GroupSettings) -> ShardId {
        let name = GroupName::try_from(name).unwrap();
        let command =
            Command::Catalogue(CatalogueCommand::DefineGroup { name, worker_key: public_key(), settings });
        let reply = self.ask(ShardId::CATALOGUE, command);
        let Outcome::Answered(Answer::Group { shard, .. }) = reply.outcome else { panic!("{reply:?}") };
        let log = Arc::clone(&self.log);
        let known = |history: &History| history.count("group.replicated") > 0;
        History::until(&log, shard.partition(log.partitions(Topic::Journal)), "the group is known", known);
        shard
    }

    /// Submits an ad-hoc job; gives the request and the offset.
    pub fn submit(&mut self, shard: ShardId, name: &str) -> RequestId {
        let request = self.fresh_request();
        self.send(shard, &request, submission(name));
        request
    }
}

pub fn submission(name: &str) -> Command {
    Command::Batch(BatchCommand::SubmitJob(Box::new(Submission {
        name: name.try_into().unwrap(),
        group: "demo".try_into().unwrap(),
        group_id: tidemill_model::GroupId(1),
        app_name: "test".to_owned(),
        owner: String::new(),
        job_type: JobType::try_from("noop").unwrap(),
        program: Program::None,
        parameters: Default::default(),
        priority: Priority::DEFAULT,
        parents: Vec::new(),
        retries: 0,
        retry_interval_s: 0,
    })))
}
