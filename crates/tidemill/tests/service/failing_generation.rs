//! Fires on which the rules fail, as the public feed and the command line of the real program tell of them. An owner
//! that is rigged to fail works in the program's place for a while, in a time that the test counts itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::server::Server;
use crate::server::feed::Feed;
use jiff::SignedDuration;
use serde_json::Value;
use tidemill_dispatcher::{Clock, Config, Input, Moment, Output, Owner, Start};
use tidemill_engine::FaultInjection;
use tidemill_log::{From, Log, Producer, Reader, Readers, SqliteConfig, SqliteLog, Topic, append_wait};
use tidemill_model::{ShardId, Timestamp};

const PATIENCE: Duration = Duration::from_secs(30);
const PARTITIONS: u32 = 2;
/// One more than may fail in a minute before administrators are told.
const FAILING: usize = 11;
/// Three retries, five seconds apart, and some more.
const SECONDS: u64 = 25;

/// One partition's owner, and how far its clock is ahead.
struct FaultInjected {
    log: SqliteLog,
    producer: Arc<dyn Producer>,
    owner: Owner,
    partition: u32,
    journal: Box<dyn Reader>,
    commands: Option<Box<dyn Reader>>,
    ahead_ms: u64,
    is_over: bool,
}

impl FaultInjected {
    fn open(data: &Path, shard: ShardId, fault_injection: FaultInjection) -> Self {
        let mut config = SqliteConfig::new(data.join("log"));
        config.partitions = PARTITIONS;
        let log = SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap();
        let partition = shard.partition(PARTITIONS);
        let config = Config { claim_after_ms: 0, ..Config::default() };
        let start = Start { partition, count: PARTITIONS, incarnation: "fault_injected".to_owned(), config };
        let (producer, journal) =
            (log.producer().unwrap(), log.reader(Topic::Journal, partition, From::Start).unwrap());
        let owner = Owner::fault_injected(start, fault_injection);
        Self { log, producer, owner, partition, journal, commands: None, ahead_ms: 0, is_over: false }
    }

    fn moment(&self) -> Moment {
        let Moment { wall, boot_ms } = Clock.now();
        let ahead = SignedDuration::from_millis(self.ahead_ms as i64);
        Moment { wall: wall + ahead, boot_ms: boot_ms + self.ahead_ms }
    }

    fn hear(&mut self, input: Input) {
        let outputs = self.owner.step(input, self.moment()).unwrap();
        self.act(outputs);
    }

    fn act(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Append(record) => {
                    let producer = Arc::clone(&self.producer);
                    let topic = Topic::Journal;
                    let result =
                        append_wait(&*producer, topic, self.partition, b"", record.to_vec(), PATIENCE);
                    self.hear(Input::Appended(result));
                }
                Output::AskEnds => {
                    let end = |topic| self.log.range(topic, self.partition).unwrap().end;
                    let (journal, commands) = (end(Topic::Journal), end(Topic::Commands));
                    self.hear(Input::Ends { asked: self.moment(), journal, commands });
                }
                Output::ReadCommands(from) => {
                    let reader = self.log.reader(Topic::Commands, self.partition, From::Offset(from));
                    self.commands = Some(reader.unwrap());
                }
                // The next owner says again what is outstanding.
                Output::Act(_) => {}
                Output::Restart { reason, .. } => panic!("{reason}"),
                Output::Resigned => self.is_over = true,
            }
        }
    }

    /// Takes in what there is, and decides until nothing is left to be done at this moment.
    fn work(&mut self) {
        loop {
            let journal = self.journal.poll(1_000, Duration::ZERO).unwrap();
            let commands = self.commands.as_mut().map(|reader| reader.poll(1_000, Duration::ZERO).unwrap());
            let commands = commands.unwrap_or_default();
            let mut is_idle = journal.is_empty() && commands.is_empty();
            self.hear(Input::Journal(journal));
            self.hear(Input::Commands(commands));
            let outputs = self.owner.drive(self.moment()).unwrap();
            is_idle &= outputs.is_empty();
            self.act(outputs);
            if is_idle || self.is_over {
                return;
            }
        }
    }

    /// Owns the partition for so many seconds of its own, and hands it over.
    fn own_for(mut self, seconds: u64) {
        self.hear(Input::Suggested(true));
        self.work();
        for _ in 0..2 * seconds {
            self.ahead_ms += 500;
            self.work();
        }
        self.hear(Input::Resign);
        self.work();
        assert!(self.is_over, "it stands at {:?}", self.owner.role());
    }
}

fn name(number: usize) -> String {
    format!("bad-{number:02}")
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == format!("tidemill.{kind}.v1")).collect()
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

/// GEN-4: a fire that fails is tried again three times, five seconds apart; then its job makes no more batches and
/// whoever owns it is told, by its priority. More than ten jobs in one minute are told to administrators, once. Others
/// go on.
#[test]
fn failing_generation_is_retried_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path();
    let server = Server::start(data);
    let job = |name: &str, priority: u8| {
        format!(
            "- {{name: {name}, group: default, type: noop, max_concurrent: 100, priority: {priority}, schedule: {{cron: '* * * * * ?', zone: UTC}}}}\n"
        )
    };
    let bad: String =
        (0..FAILING).map(|number| job(&name(number), if number == 0 { 4 } else { 5 })).collect();
    server.apply(&format!("jobs:\n{bad}{}", job("good", 5)));
    assert_eq!(server.stop(), Some(0));
    let fault_injection =
        FaultInjection { panicking_schedules: Some("bad-".to_owned()), ..FaultInjection::default() };
    FaultInjected::open(data, ShardId(1), fault_injection).own_for(SECONDS);

    let server = Server::start(data);
    let mut feed = Feed::follow(data);
    let events = feed.until_now(&server);
    let failed = of_kind(&events, "generation.failed");
    let alarms = of_kind(&events, "alarm.raised");
    for number in 0..FAILING {
        let id = server.json(&["job", "show", &format!("default/{}", name(number))])["id"].clone();
        let of_job: Vec<&&Value> = failed.iter().filter(|event| event["data"]["job"] == id).collect();
        let counted: Vec<&Value> = of_job.iter().map(|event| &event["data"]["failures"]).collect();
        assert_eq!(counted, [1, 2, 3, 4], "{of_job:#?}");
        for event in &of_job[..3] {
            let wait = time(&event["data"]["retry_at"]).duration_since(time(&event["time"]));
            assert_eq!(wait, SignedDuration::from_secs(5), "{event:#}");
        }
        assert!(of_job[3]["data"].get("retry_at").is_none_or(Value::is_null), "{:#}", of_job[3]);
        let told: Vec<&&Value> = alarms.iter().filter(|event| event["data"]["job"] == id).collect();
        let [alarm] = told[..] else { panic!("{told:#?}") };
        assert_eq!(alarm["data"]["kind"], "generation_failed");
        assert_eq!(alarm["data"]["severity"], if number == 0 { "important" } else { "notice" });
        let since = of_job[0]["data"]["logical_time"].as_str().unwrap();
        let message = alarm["data"]["message"].as_str().unwrap();
        assert!(message.contains("tried 4 times") && message.contains(&name(number)), "{message}");
        let later =
            server.json(&["batch", "ls", "--job", &format!("default/{}", name(number)), "--from", since]);
        assert_eq!(later["items"], Value::Array(Vec::new()));
    }
    let many: Vec<&&Value> =
        alarms.iter().filter(|event| event["data"]["kind"] == "generations_failing").collect();
    let [many] = many[..] else { panic!("{alarms:#?}") };
    assert_eq!(many["data"]["severity"], "critical");
    let since = failed[0]["data"]["logical_time"].as_str().unwrap();
    let good = server.json(&["batch", "ls", "--job", "default/good", "--from", since, "--limit", "100"]);
    assert!(good["items"].as_array().unwrap().len() >= SECONDS as usize, "{good:#}");
    a_suspended_timer_is_redriven(&server);
    assert_eq!(server.stop(), Some(0));
}

/// EVT-9: suspended timers are dead letters; a redrive lets a job go on, and its letter is closed.
fn a_suspended_timer_is_redriven(server: &Server) {
    let letters =
        || server.json(&["dead-letters", "ls", "--kind", "timer"])["items"].as_array().unwrap().clone();
    let suspended = letters();
    assert_eq!(suspended.len(), FAILING, "{suspended:#?}");
    let job = server.json(&["job", "show", &format!("default/{}", name(0))])["id"].to_string();
    let letter = suspended.iter().find(|letter| letter["subject"] == format!("job/{job}")).unwrap();
    server.json(&["dead-letters", "redrive", letter["id"].as_str().unwrap()]);
    crate::server::until("it makes batches again", || {
        let batches = server.json(&["batch", "ls", "--job", &job, "--limit", "1"]);
        (!batches["items"].as_array().unwrap().is_empty()).then_some(())
    });
    assert_eq!(letters().len(), FAILING - 1);
}
