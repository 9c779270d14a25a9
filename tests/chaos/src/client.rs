//! A client of jobs and batches: draws requests, and remembers what it was told.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::caller::{Caller, Client, Common, is_decision};
use crate::history::{Action, History, Shown, Told, Written};
use crate::jobs;
use crate::logs::SHOWN;
use crate::rest::Answer;
use crate::rng::Rng;

/// Batches that a client remembers.
const KNOWN: usize = 64;

/// The client.
pub(crate) struct Submitter {
    caller: Caller,
    /// Its batches, and the position from which on reads show them.
    known: Vec<(i64, String)>,
}

impl Client for Submitter {
    fn one(&mut self) {
        match self.caller.rng.range(0, 100) {
            0..32 => self.run_job(),
            32..37 => self.run_gated(),
            37..46 => self.rerun(),
            46..55 => self.kill(),
            55..62 => self.submit(),
            62..66 => self.apply(),
            66..70 => self.switch(),
            70..72 => self.plan(),
            72..77 => self.absurd(),
            77..81 => self.repeat(),
            81..91 => self.read_log(),
            _ => self.read(),
        }
    }

    fn into_history(self) -> History {
        self.caller.history
    }

    fn rng(&mut self) -> &mut Rng {
        &mut self.caller.rng
    }
}

impl Submitter {
    /// The `number`-th client of a seed.
    #[must_use]
    pub(crate) fn new(common: &Arc<Common>, seed: u64, number: u64) -> Self {
        Self { caller: Caller::new(common, seed, number), known: Vec::new() }
    }

    fn job(&self, name: &str) -> i64 {
        self.caller.common.jobs.get(name).copied().unwrap_or_default()
    }

    /// A logical time that no other request has.
    fn logical_time(&self) -> Timestamp {
        let second =
            1_704_067_200 + i64::try_from(self.caller.number * 1_000_000 + self.caller.sent).unwrap_or(0);
        Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn run_job(&mut self) {
        let Some(name) = self.caller.rng.pick(&jobs::BY_HAND).copied() else { return };
        self.run_at(name, self.logical_time());
    }

    fn run_at(&mut self, name: &str, time: Timestamp) {
        let path = format!("/api/jobs/{}/run", self.job(name));
        self.write(Action::Run, &path, &json!({"logical_time": time, "concurrent": true}));
    }

    /// Remembers the batch that comes of it.
    fn write(&mut self, action: Action, path: &str, body: &Value) {
        if let Told::Ok(answer) = self.caller.write(action, path, body)
            && let (Some(batch), Some(position)) = (answer["batch"].as_i64(), answer["position"].as_str())
        {
            self.known.push((batch, position.to_owned()));
            if self.known.len() > KNOWN {
                self.known.remove(0);
            }
        }
    }

    fn rerun(&mut self) {
        let Some((batch, _)) = self.caller.rng.pick(&self.known).cloned() else { return };
        self.write(Action::Rerun(batch), &format!("/api/batches/{batch}/rerun"), &json!({}));
    }

    fn kill(&mut self) {
        // One of the last few: it may still go on.
        let newest = &self.known[self.known.len().saturating_sub(3)..];
        let Some((batch, _)) = self.caller.rng.pick(newest).cloned() else { return };
        self.write(Action::Kill(batch), &format!("/api/batches/{batch}/kill"), &json!({"reason": "chaos"}));
    }

    fn submit(&mut self) {
        let Some(interface) = self.caller.common.interfaces.first() else { return };
        let (app, secret) = interface.key();
        let body = json!({
            "app_name": app, "app_key": secret, "job_name": format!("submitted-{}-{}", self.caller.number, self.caller.sent),
            "user": format!("client-{}", self.caller.number), "job_type": "shell", "group_id": self.caller.common.group,
            "command": jobs::command(&self.caller.common.dir, 1, 0),
        });
        self.write(Action::Submit, "/api/job/submit", &body);
    }

    fn apply(&mut self) {
        let comment = format!("{}-{}", self.caller.number, self.caller.sent);
        let body = json!({"jobs": [jobs::switched(&comment)]});
        self.write(Action::Apply(comment), "/api/jobs/apply", &body);
    }

    fn switch(&mut self) {
        let (job, on) = (self.job(jobs::SWITCHED), self.caller.rng.chance(50));
        let word = if on { "enable" } else { "disable" };
        self.write(Action::Switch(job, on), &format!("/api/jobs/{job}/{word}"), &json!({}));
    }

    fn absurd(&mut self) {
        let path = match self.caller.rng.range(0, 3) {
            0 => "/api/jobs/999999999/run".to_owned(),
            1 => "/api/batches/999999999/kill".to_owned(),
            _ => format!("/api/jobs/{}/run", self.job(jobs::BY_HAND[0])),
        };
        // The last of these is a good path with a body that nobody takes.
        let body = json!({"logical_time": if path.contains("99999") { Value::Null } else { json!("noon") }});
        let body = if path.ends_with("kill") { json!({}) } else { body };
        self.write(Action::Absurd, &path, &body);
    }

    /// Runs a job that waits for a path and a third party's report, and has them come, most times; the rest is
    /// killed in the end.
    fn run_gated(&mut self) {
        let time = self.logical_time();
        let is_first = self.caller.rng.chance(50);
        if is_first {
            self.run_at(jobs::GATED, time);
        }
        if self.caller.rng.chance(90)
            && std::fs::write(jobs::input(&self.caller.common.dir, time), "").is_err()
        {
            return;
        }
        if self.caller.rng.chance(90) {
            let body = json!({"code": jobs::CODE, "logical_time": time});
            self.caller.write(Action::Report(time), "/api/third-party", &body);
        }
        if !is_first {
            self.run_at(jobs::GATED, time);
        }
    }

    /// The last fires of a schedule again, by a plan.
    fn plan(&mut self) {
        let to = Timestamp::now();
        let body = json!({
            "jobs": [jobs::SCHEDULED[0]], "cascade": "job", "from": to - SignedDuration::from_secs(15), "to": to,
            "concurrency": 2, "approve": true,
        });
        self.caller.write(Action::Plan, "/api/reruns", &body);
    }

    /// The same request once more gets the same answer, from any interface.
    fn repeat(&mut self) {
        let newest = &self.caller.history.writes[self.caller.history.writes.len().saturating_sub(20)..];
        let runs =
            newest.iter().filter(|it| matches!((&it.action, &it.told), (Action::Rerun(_), Told::Ok(_))));
        let runs: Vec<_> = runs.cloned().collect();
        let Some(Written { key, action: Action::Rerun(batch), told: Told::Ok(first), .. }) =
            self.caller.rng.pick(&runs)
        else {
            return;
        };
        let (key, batch, first) = (key.clone(), *batch, first.clone());
        match self.caller.interface().post(&format!("/api/batches/{batch}/rerun"), &key, &json!({})) {
            Answer::Ok(again) if again["batch"] != first["batch"] => {
                self.caller.wrong(format!("request {key} was answered {first}, and again {again}"));
            }
            Answer::Refused(why) if is_decision(&why) => {
                self.caller.wrong(format!("request {key} was answered {first}, and again {why}"));
            }
            Answer::Ok(_) => self.caller.history.reads_ok += 1,
            Answer::Refused(_) | Answer::Unknown(_) => self.caller.history.reads_failed += 1,
        }
    }

    /// The next part of the log of one of its last few batches.
    fn read_log(&mut self) {
        let newest = &self.known[self.known.len().saturating_sub(3)..];
        let Some((batch, _)) = self.caller.rng.pick(newest).cloned() else { return };
        let shown = &self.caller.history.shown;
        let before = shown.iter().rev().find(|it| it.batch == batch);
        let offset = before.map_or(0, |it| it.offset + it.content.len());
        let path = format!("/api/batches/{batch}/log?attempt=1&lines=500&offset={offset}");
        let Answer::Ok(part) = self.caller.read(&path) else { return };
        let content = part["content"].as_str().unwrap_or_default().to_owned();
        if part["offset"] != offset + content.len() {
            self.caller.wrong(format!("{SHOWN}: {path} is answered {part}"));
        }
        if !content.is_empty() {
            self.caller.history.shown.push(Shown { batch, attempt: 1, offset, content });
        }
    }

    /// What was acknowledged is there for whoever gives its position.
    fn read(&mut self) {
        let Some((batch, position)) = self.caller.rng.pick(&self.known).cloned() else { return };
        let path = match self.caller.rng.range(0, 4) {
            0 => "/api/batches?limit=20".to_owned(),
            1 => format!("/api/batches/{batch}/why"),
            _ => format!("/api/batches/{batch}?at_least={position}"),
        };
        if let Answer::Refused(why) = self.caller.read(&path)
            && why.starts_with("404")
            && path.contains("at_least")
        {
            self.caller.wrong(format!("batch {batch} was made at {position}, and a read of that says {why}"));
        }
    }
}
