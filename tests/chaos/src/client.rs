//! One client: draws wishes, sends each until it is answered or hopeless, and writes down what it was told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::history::{History, Told, Wish, Written};
use crate::jobs;
use crate::rest::{Answer, Rest};
use crate::rng::Rng;

/// Sends of one wish, at most.
const TRIES: u32 = 4;
const PAUSE_MS: (u64, u64) = (150, 900);
/// Batches that a client remembers.
const KNOWN: usize = 64;

/// What all clients know.
pub(crate) struct Common {
    /// One caller for each interface.
    pub interfaces: Vec<Rest>,
    /// Ids of jobs by group/name.
    pub jobs: BTreeMap<String, i64>,
    /// The number of the group that submissions go to.
    pub group: i64,
    /// Where jobs leave their marks.
    pub dir: PathBuf,
}

/// A client.
pub(crate) struct Client {
    common: Arc<Common>,
    rng: Rng,
    number: u64,
    sent: u64,
    /// Its batches, and the position from which on reads show them.
    known: Vec<(i64, String)>,
    history: History,
}

impl Client {
    /// The `number`-th client of a seed.
    #[must_use]
    pub(crate) fn new(common: &Arc<Common>, seed: u64, number: u64) -> Self {
        let rng = Rng::new(seed, &format!("client {number}"));
        let (common, known, history) = (Arc::clone(common), Vec::new(), History::default());
        Self { common, rng, number, sent: 0, known, history }
    }

    /// Works until told to stop.
    #[must_use]
    pub(crate) fn run(mut self, is_over: &AtomicBool) -> History {
        while !is_over.load(Ordering::SeqCst) {
            self.one();
            thread::sleep(Duration::from_millis(self.rng.range(PAUSE_MS.0, PAUSE_MS.1)));
        }
        self.history
    }

    fn one(&mut self) {
        match self.rng.range(0, 100) {
            0..38 => self.run_job(),
            38..48 => self.rerun(),
            48..58 => self.kill(),
            58..66 => self.submit(),
            66..70 => self.apply(),
            70..74 => self.switch(),
            74..80 => self.absurd(),
            80..84 => self.repeat(),
            _ => self.read(),
        }
    }

    fn job(&self, name: &str) -> i64 {
        self.common.jobs.get(name).copied().unwrap_or_default()
    }

    /// A logical time that no other wish has.
    fn logical_time(&self) -> Timestamp {
        let second = 1_704_067_200 + i64::try_from(self.number * 1_000_000 + self.sent).unwrap_or(0);
        Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn run_job(&mut self) {
        let Some(name) = self.rng.pick(&jobs::BY_HAND).copied() else { return };
        let path = format!("/api/jobs/{}/run", self.job(name));
        let body = json!({"logical_time": self.logical_time()});
        self.write(Wish::Run, &path, &body);
    }

    fn rerun(&mut self) {
        let Some((batch, _)) = self.rng.pick(&self.known).cloned() else { return };
        self.write(Wish::Rerun(batch), &format!("/api/batches/{batch}/rerun"), &json!({}));
    }

    fn kill(&mut self) {
        // One of the last few: it may still go on.
        let newest = &self.known[self.known.len().saturating_sub(3)..];
        let Some((batch, _)) = self.rng.pick(newest).cloned() else { return };
        self.write(Wish::Kill(batch), &format!("/api/batches/{batch}/kill"), &json!({"reason": "chaos"}));
    }

    fn submit(&mut self) {
        let Some(interface) = self.common.interfaces.first() else { return };
        let (app, secret) = interface.key();
        let body = json!({
            "app_name": app, "app_key": secret, "job_name": format!("submitted-{}-{}", self.number, self.sent),
            "user": format!("client-{}", self.number), "job_type": "shell", "group_id": self.common.group,
            "command": jobs::command(&self.common.dir, "0.1", 0),
        });
        self.write(Wish::Submit, "/api/job/submit", &body);
    }

    fn apply(&mut self) {
        let comment = format!("{}-{}", self.number, self.sent);
        let body = json!({"jobs": [jobs::switched(&comment)]});
        self.write(Wish::Apply(comment), "/api/jobs/apply", &body);
    }

    fn switch(&mut self) {
        let (job, on) = (self.job(jobs::SWITCHED), self.rng.chance(50));
        let word = if on { "enable" } else { "disable" };
        self.write(Wish::Switch(job, on), &format!("/api/jobs/{job}/{word}"), &json!({}));
    }

    fn absurd(&mut self) {
        let path = match self.rng.range(0, 3) {
            0 => "/api/jobs/999999999/run".to_owned(),
            1 => "/api/batches/999999999/kill".to_owned(),
            _ => format!("/api/jobs/{}/run", self.job(jobs::BY_HAND[0])),
        };
        // The last of these is a good path with a body that nobody takes.
        let body = json!({"logical_time": if path.contains("99999") { Value::Null } else { json!("noon") }});
        let body = if path.ends_with("kill") { json!({}) } else { body };
        self.write(Wish::Absurd, &path, &body);
    }

    /// Sends a wish until somebody says what came of it, under one name.
    fn write(&mut self, wish: Wish, path: &str, body: &Value) {
        self.sent += 1;
        let key = format!("chaos-{}-{}", self.number, self.sent);
        let mut told = Told::Unknown(String::new());
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            let Some(interface) = self.rng.pick(&self.common.interfaces).cloned() else { return };
            let answer = interface.post(path, &key, body);
            let was_open = tries > 1 && matches!(told, Told::Unknown(_));
            told = match answer {
                Answer::Ok(body) if body["accept"] == json!(false) => {
                    Told::Refused(body["message"].to_string())
                }
                Answer::Ok(body) => Told::Ok(body),
                // Not sent this time; what came of an earlier try is as open as before.
                Answer::Refused(why) if was_open && !is_decision(&why) => Told::Unknown(why),
                Answer::Refused(why) => Told::Refused(why),
                Answer::Unknown(why) => Told::Unknown(why),
            };
            match &told {
                Told::Unknown(_) => thread::sleep(Duration::from_millis(200)),
                Told::Ok(_) | Told::Refused(_) => break,
            }
        }
        if let Told::Ok(answer) = &told
            && let (Some(batch), Some(position)) = (answer["batch"].as_i64(), answer["position"].as_str())
        {
            self.known.push((batch, position.to_owned()));
            if self.known.len() > KNOWN {
                self.known.remove(0);
            }
        }
        let at_ms = Timestamp::now().as_millisecond();
        self.history.writes.push(Written { key, wish, tries, at_ms, told });
    }

    /// The same wish once more gets the same answer, from any interface.
    fn repeat(&mut self) {
        let newest = &self.history.writes[self.history.writes.len().saturating_sub(20)..];
        let runs = newest.iter().filter(|it| matches!((&it.wish, &it.told), (Wish::Rerun(_), Told::Ok(_))));
        let runs: Vec<_> = runs.cloned().collect();
        let Some(Written { key, wish: Wish::Rerun(batch), told: Told::Ok(first), .. }) = self.rng.pick(&runs)
        else {
            return;
        };
        let Some(interface) = self.rng.pick(&self.common.interfaces).cloned() else { return };
        match interface.post(&format!("/api/batches/{batch}/rerun"), key, &json!({})) {
            Answer::Ok(again) if again["batch"] != first["batch"] => {
                self.history.violations.push(format!("wish {key} was answered {first}, and again {again}"));
            }
            Answer::Refused(why) if is_decision(&why) => {
                self.history.violations.push(format!("wish {key} was answered {first}, and again {why}"));
            }
            Answer::Ok(_) => self.history.reads_ok += 1,
            Answer::Refused(_) | Answer::Unknown(_) => self.history.reads_failed += 1,
        }
    }

    /// What was acknowledged is there for whoever gives its position.
    fn read(&mut self) {
        let Some(interface) = self.rng.pick(&self.common.interfaces).cloned() else { return };
        let Some((batch, position)) = self.rng.pick(&self.known).cloned() else { return };
        let path = match self.rng.range(0, 4) {
            0 => "/api/batches?limit=20".to_owned(),
            1 => format!("/api/batches/{batch}/why"),
            _ => format!("/api/batches/{batch}?at_least={position}"),
        };
        match interface.get(&path) {
            Answer::Ok(_) => self.history.reads_ok += 1,
            Answer::Refused(why) if why.starts_with("404") && path.contains("at_least") => {
                let told = format!("batch {batch} was made at {position}, and a read of that says {why}");
                self.history.violations.push(told);
            }
            Answer::Refused(_) | Answer::Unknown(_) => self.history.reads_failed += 1,
        }
    }
}

/// Whether a refusal is an owner's, and so also tells what came of earlier tries under the same name.
fn is_decision(why: &str) -> bool {
    ["404 unknown:", "409 ", "422 "].iter().any(|start| why.starts_with(start))
}
