//! What every client has: ways in, a name for each request, and the account of what it was told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::history::{Action, History, Told, Written};
use crate::rest::{Answer, Rest};
use crate::rng::Rng;

/// Sends of one request, at most.
const TRIES: u32 = 4;
const PAUSE_MS: (u64, u64) = (150, 900);

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

/// Somebody who goes on wishing.
pub(crate) trait Client: Sized {
    /// One thing after another.
    fn one(&mut self);

    /// Its account, at the end.
    fn into_history(self) -> History;

    /// How it draws.
    fn rng(&mut self) -> &mut Rng;

    /// Works until told to stop.
    #[must_use]
    fn run(mut self, is_over: &AtomicBool) -> History {
        while !is_over.load(Ordering::SeqCst) {
            self.one();
            thread::sleep(Duration::from_millis(self.rng().range(PAUSE_MS.0, PAUSE_MS.1)));
        }
        self.into_history()
    }
}

/// Calls on behalf of one client.
pub(crate) struct Caller {
    pub(crate) common: Arc<Common>,
    pub(crate) rng: Rng,
    pub(crate) number: u64,
    pub(crate) sent: u64,
    pub(crate) history: History,
}

impl Caller {
    /// The `number`-th client of a seed.
    #[must_use]
    pub(crate) fn new(common: &Arc<Common>, seed: u64, number: u64) -> Self {
        let rng = Rng::new(seed, &format!("client {number}"));
        Self { common: Arc::clone(common), rng, number, sent: 0, history: History::default() }
    }

    /// Any of the interfaces.
    pub(crate) fn interface(&mut self) -> Rest {
        self.rng.pick(&self.common.interfaces).cloned().expect("a site has an interface")
    }

    /// Reads something, of which only is noted whether there was an answer.
    pub(crate) fn read(&mut self, path: &str) -> Answer {
        let answer = self.interface().get(path);
        match &answer {
            Answer::Ok(_) => self.history.reads_ok += 1,
            Answer::Refused(_) | Answer::Unknown(_) => self.history.reads_failed += 1,
        }
        answer
    }

    /// Sends a request until somebody says what came of it, under one name.
    pub(crate) fn write(&mut self, action: Action, path: &str, body: &Value) -> Told {
        self.sent += 1;
        let key = format!("chaos-{}-{}", self.number, self.sent);
        let mut told = Told::Unknown(String::new());
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            let answer = self.interface().post(path, &key, body);
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
        let at_ms = Timestamp::now().as_millisecond();
        self.history.writes.push(Written { key, action, tries, at_ms, told: told.clone() });
        told
    }

    /// Something that must never be.
    pub(crate) fn wrong(&mut self, what: String) {
        self.history.violations.push(what);
    }
}

/// Whether a refusal is an owner's, and so also tells what came of earlier tries under the same name. That a user is
/// on its way tells nothing of what was done before it left.
pub(crate) fn is_decision(why: &str) -> bool {
    !why.starts_with("409 user_moving:")
        && ["404 unknown:", "409 ", "422 "].iter().any(|start| why.starts_with(start))
}
