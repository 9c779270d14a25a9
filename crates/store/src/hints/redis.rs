//! Hints in Redis, 6.2 or later.
//!
//! ```text
//!  tidemill:{LOG:PARTITION}:beat          LIFE NUMBER           where the keeper's chain of steps stands
//!  tidemill:{LOG:PARTITION}:life          LIFE                  gone when it does not hold any more
//!  tidemill:{LOG:PARTITION}:wanted        1                     gone when nobody has looked for a while
//!  tidemill:{LOG:PARTITION}:g:SHARD       OFFSET                mark of a group
//!  tidemill:{LOG:PARTITION}:u:SHARD:USER  OFFSET                mark of a user
//!  tidemill:{LOG:PARTITION}:h:SHARD:USER  LIFE OFFSET UNTIL BEGINS   a hint
//! ```
//! Every key ends by itself. The braces keep the keys of a partition together where keys are spread.
//!
//! What a server loses when it stops, or a replica when it takes over, are its *last* writes; the chain tells. A
//! server that drops single keys for room would go unnoticed, so one that may is not used.

mod circuit;
mod client;
#[cfg(test)]
mod corpus;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Cmd, FromRedisValue};
use tokio::runtime::Runtime;

use super::{
    Hint, HintFuture, HintPage, Hints, LONGEST_HINT, Life, Look, MARKS_KEPT, Mark, Place, Turn, WANTED_FOR,
};
use crate::Error;
use circuit::Circuit;

/// Who waits for a hint could ask the owner instead.
const LOOK_PATIENCE: Duration = Duration::from_millis(100);
/// A keeper has nothing else to do.
const KEEPER_PATIENCE: Duration = Duration::from_millis(500);
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Keys that the server looks at for one page.
const PAGE_KEYS: u32 = 500;
/// The keeper is told of looks once in so long.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What fails where a server is none for hints.
const USE: &str = "use the server for hints";

const BEGIN: &str = "\
local holds = redis.call('GET', KEYS[2])
if holds and holds ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' 0', 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
return 1";

const TURN: &str = "\
local beat = redis.call('GET', KEYS[1])
if not beat then return 0 end
local life, number = string.match(beat, '^(%S+) (%d+)$')
number = tonumber(number)
if life ~= ARGV[1] or number < tonumber(ARGV[2]) or number >= tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[3], 'PX', ARGV[5])
for i = 3, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 3], 'PX', ARGV[5]) end
if ARGV[4] ~= '' then redis.call('SET', KEYS[2], ARGV[1], 'PXAT', ARGV[4]) end
return 1";

/// Hints in Redis, for the processes of a cluster.
pub struct RedisHints {
    /// Begins every key; the partition follows.
    prefix: String,
    place: String,
    connection: ConnectionManager,
    circuit: Arc<Circuit>,
    /// When the keeper of a partition was told last that somebody looks.
    told_at: Mutex<HashMap<u32, Instant>>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for RedisHints {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where nobody may wait; what is under way is a hint.
            runtime.shutdown_background();
        }
    }
}

impl RedisHints {
    /// Hints of one log on the server of `redis://[user:password@]host:port[/db]`, or `rediss://…` for an encrypted
    /// connection. It need not be there yet; where it is, it has to take the password, and its certificate to be
    /// signed by whom the file names, or else by whom the machine trusts.
    ///
    /// # Errors
    /// [`Error::Hints`] where the address or the file cannot be used, the thread that talks to the server cannot be
    /// had, or the server answers and waiting would not fix what it says.
    pub fn open(url: &str, ca_file: Option<&Path>, log_id: &str) -> Result<Self, Error> {
        let place = place_of(url);
        let failed = |source: crate::Source| Error::Hints { what: USE, place: place.clone(), source };
        let client = client::of(url, ca_file).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hints")
            .enable_all()
            .build()
            .map_err(|error| failed(error.into()))?;
        match runtime.block_on(client::try_out(&client, CONNECT_PATIENCE)) {
            Ok(()) => {}
            Err(client::Trouble::Passing(error)) => {
                tracing::warn!(place, error, "the server for hints is not there yet; it is asked again");
            }
            Err(client::Trouble::Lasting(error)) => return Err(failed(error)),
        }
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_PATIENCE))
            .set_response_timeout(Some(KEEPER_PATIENCE))
            .set_number_of_retries(0)
            .set_max_delay(LONGEST_PAUSE);
        let connection = {
            let _context = runtime.enter();
            ConnectionManager::new_lazy_with_config(client, config).map_err(|error| failed(error.into()))?
        };
        let prefix = format!("tidemill:{{{log_id}:");
        let (circuit, told_at) = (Arc::default(), Mutex::default());
        Ok(Self { prefix, place, connection, circuit, told_at, runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken only when this is dropped")
    }

    fn key(&self, partition: u32, rest: &str) -> String {
        format!("{}{partition}}}:{rest}", self.prefix)
    }

    fn hint_key(&self, place: &Place) -> String {
        self.key(place.partition, &format!("h:{}:{}", place.shard, place.user))
    }

    fn mark_key(&self, partition: u32, mark: &Mark) -> String {
        match mark {
            Mark::Group { shard } => self.key(partition, &format!("g:{shard}")),
            Mark::User { shard, user } => self.key(partition, &format!("u:{shard}:{user}")),
        }
    }

    fn failed(&self, what: &'static str, source: impl Into<crate::Source>) -> Error {
        Error::Hints { what, place: self.place.clone(), source: source.into() }
    }

    /// For those who could ask the owner instead: briefly, and not right after it failed.
    fn briefly<T: FromRedisValue + Send + 'static>(
        &self,
        what: &'static str,
        command: Cmd,
    ) -> HintFuture<'_, T> {
        if !self.circuit.is_closed() {
            let error = self.failed(what, "it failed a moment ago");
            return Box::pin(std::future::ready(Err(error)));
        }
        let (mut connection, circuit) = (self.connection.clone(), Arc::clone(&self.circuit));
        // On the thread of the connection: whoever waits may do so on any executor, or not at all.
        let asked = self.runtime().spawn(async move {
            let answered = tokio::time::timeout(LOOK_PATIENCE, command.query_async(&mut connection)).await;
            let answered: Result<T, crate::Source> = match answered {
                Ok(answered) => answered.map_err(Into::into),
                Err(late) => Err(late.into()),
            };
            if answered.is_err() {
                circuit.open();
            }
            answered
        });
        Box::pin(async move {
            let answered = asked.await.map_err(|ended| self.failed(what, ended))?;
            answered.map_err(|source| self.failed(what, source))
        })
    }

    /// Tells the keeper that somebody looks, where that was not told a moment ago.
    fn tell(&self, partition: u32) {
        let now = Instant::now();
        {
            let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
            if told_at.get(&partition).is_some_and(|at| now.duration_since(*at) < TELL_EVERY) {
                return;
            }
            told_at.insert(partition, now);
        }
        let mut command = redis::cmd("SET");
        command.arg(self.key(partition, "wanted")).arg(1).arg("PX").arg(WANTED_FOR.as_millis().to_string());
        // It is under way; nobody waits for it.
        drop(self.briefly::<()>("wake the keeper", command));
    }

    /// For the keeper.
    fn wait<T: FromRedisValue>(&self, what: &'static str, command: &Cmd) -> Result<T, Error> {
        let mut connection = self.connection.clone();
        let answered = self.runtime().block_on(async move {
            tokio::time::timeout(KEEPER_PATIENCE, command.query_async(&mut connection)).await
        });
        match answered {
            Ok(answered) => answered.map_err(|error| self.failed(what, error)),
            Err(late) => Err(self.failed(what, late)),
        }
    }

    /// Refuses a server that may drop keys for room.
    fn check_policy(&self) -> Result<(), Error> {
        let mut command = redis::cmd("INFO");
        command.arg("memory");
        let info: String = self.wait(USE, &command)?;
        let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let (bound, policy) = (value("maxmemory").unwrap_or("0"), value("maxmemory_policy").unwrap_or(""));
        if bound == "0" || policy == "noeviction" {
            return Ok(());
        }
        let rule = format!("its maxmemory-policy is {policy}, which may drop a mark; it must be noeviction");
        Err(self.failed(USE, rule))
    }
}

impl Hints for RedisHints {
    fn look(&self, place: &Place) -> HintFuture<'_, Look> {
        let (partition, shard) = (place.partition, place.shard);
        self.tell(partition);
        let mut command = redis::cmd("MGET");
        command
            .arg(self.key(partition, "life"))
            .arg(self.hint_key(place))
            .arg(self.mark_key(partition, &Mark::Group { shard }))
            .arg(self.mark_key(partition, &Mark::User { shard, user: place.user.clone() }));
        let asked = self.briefly::<Vec<Option<String>>>("look for a hint", command);
        Box::pin(async move {
            let found = asked.await?;
            look_of(&found).ok_or_else(|| self.failed("look for a hint", "a key holds what nobody wrote"))
        })
    }

    fn keep(&self, place: &Place, hint: &Hint, kept_for: Duration) -> HintFuture<'_, ()> {
        let kept_ms = kept_for.min(LONGEST_HINT).as_millis().max(1).to_string();
        let mut command = redis::cmd("SET");
        command.arg(self.hint_key(place)).arg(text_of(hint)).arg("PX").arg(kept_ms);
        self.briefly("keep a hint", command)
    }

    fn page(&self, partition: u32, from: Option<u64>) -> Result<HintPage, Error> {
        const WHAT: &str = "go through the hints";
        let begin = self.key(partition, "h:");
        let mut command = redis::cmd("SCAN");
        command.arg(from.unwrap_or(0)).arg("MATCH").arg(format!("{begin}*")).arg("COUNT").arg(PAGE_KEYS);
        let (next, keys): (u64, Vec<String>) = self.wait(USE, &command)?;
        let places: Vec<Place> =
            keys.iter().filter_map(|key| place_in(partition, key.strip_prefix(&begin)?)).collect();
        let mut looks = Vec::with_capacity(places.len());
        if !places.is_empty() {
            let mut command = redis::cmd("MGET");
            command.arg(self.key(partition, "life"));
            for place in &places {
                let (shard, user) = (place.shard, place.user.clone());
                command.arg(self.hint_key(place));
                command.arg(self.mark_key(partition, &Mark::Group { shard }));
                command.arg(self.mark_key(partition, &Mark::User { shard, user }));
            }
            let found: Vec<Option<String>> = self.wait(USE, &command)?;
            let life = found.first().cloned().flatten();
            for (place, found) in places.into_iter().zip(found[1..].chunks(3)) {
                let of_one = [std::slice::from_ref(&life), found].concat();
                let look = look_of(&of_one);
                let look = look.ok_or_else(|| self.failed(WHAT, "a key holds what nobody wrote"))?;
                looks.extend(look.hint.is_some().then_some((place, look)));
            }
        }
        Ok(HintPage { looks, next: (next != 0).then_some(next) })
    }

    /// The life first: from then on no hint counts. Marks stay, for a new life may have written them by now; they end by
    /// themselves.
    fn forget(&self, partition: u32) -> Result<u64, Error> {
        const WHAT: &str = "forget the hints";
        let mut command = redis::cmd("DEL");
        command.arg(self.key(partition, "life")).arg(self.key(partition, "beat"));
        let _: u64 = self.wait(WHAT, &command)?;
        let (mut from, mut forgotten) = (0, 0);
        loop {
            let mut command = redis::cmd("SCAN");
            command.arg(from).arg("MATCH").arg(format!("{}*", self.key(partition, "h:")));
            command.arg("COUNT").arg(PAGE_KEYS);
            let (next, keys): (u64, Vec<String>) = self.wait(WHAT, &command)?;
            if !keys.is_empty() {
                let mut command = redis::cmd("DEL");
                command.arg(keys);
                forgotten += self.wait::<u64>(WHAT, &command)?;
            }
            from = next;
            if from == 0 {
                return Ok(forgotten);
            }
        }
    }

    fn wanted(&self, partition: u32) -> Result<bool, Error> {
        let mut command = redis::cmd("EXISTS");
        command.arg(self.key(partition, "wanted"));
        self.wait("ask whether hints are wanted", &command)
    }

    fn clock_ms(&self) -> Result<i64, Error> {
        let (seconds, micros): (i64, i64) = self.wait("read the time", &redis::cmd("TIME"))?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    fn begin(&self, partition: u32, life: &Life) -> Result<bool, Error> {
        self.check_policy()?;
        let mut command = redis::cmd("EVAL");
        command.arg(BEGIN).arg(2).arg(self.key(partition, "beat")).arg(self.key(partition, "life"));
        command.arg(life.as_str()).arg(MARKS_KEPT.as_millis().to_string());
        self.wait("begin a life", &command)
    }

    fn turn(&self, turn: &Turn<'_>) -> Result<bool, Error> {
        let partition = turn.partition;
        let mut command = redis::cmd("EVAL");
        command.arg(TURN).arg(turn.marks.len() + 2);
        command.arg(self.key(partition, "beat")).arg(self.key(partition, "life"));
        for (mark, _) in turn.marks {
            command.arg(self.mark_key(partition, mark));
        }
        command.arg(turn.life.as_str()).arg(turn.confirmed).arg(turn.number);
        command.arg(turn.holds_until_ms.map_or(String::new(), |until| until.to_string()));
        command.arg(MARKS_KEPT.as_millis().to_string());
        for (_, offset) in turn.marks {
            command.arg(offset);
        }
        self.wait("write marks", &command)
    }
}

/// `SHARD:USER`, as the key of a hint ends.
fn place_in(partition: u32, text: &str) -> Option<Place> {
    let (shard, user) = text.split_once(':')?;
    Some(Place { partition, shard: shard.parse().ok()?, user: user.into() })
}

fn text_of(hint: &Hint) -> String {
    format!("{} {} {} {}", hint.life, hint.offset, hint.until_ms, hint.begins)
}

fn hint_of(text: &str) -> Option<Hint> {
    let mut words = text.split(' ');
    let mut word = || words.next();
    let (life, offset, until, begins) = (word()?, word()?, word()?, word()?);
    Some(Hint {
        life: Life(life.into()),
        offset: offset.parse().ok()?,
        until_ms: until.parse().ok()?,
        begins: begins.parse().ok()?,
    })
}

fn look_of(found: &[Option<String>]) -> Option<Look> {
    let [life, hint, group, user] = found else { return None };
    let number = |text: &Option<String>| {
        text.as_ref().map(|text| text.parse().ok()).map_or(Some(None), |it| it.map(Some))
    };
    Some(Look {
        life: life.as_ref().map(|life| Life(life.as_str().into())),
        // One that cannot be read is none.
        hint: hint.as_deref().and_then(hint_of),
        group_mark: number(group)?,
        user_mark: number(user)?,
    })
}

/// Server and port, without user or password.
fn place_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.rsplit_once('@').map_or(rest, |(_, host)| host).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_survive_their_text_and_other_text_is_none() {
        let hint = Hint { life: Life::draw(), offset: 7, until_ms: -3, begins: true };
        assert_eq!(hint_of(&text_of(&hint)), Some(hint));
        for text in ["", "a", "a 1", "a x 1", "a 1 x", "a 1 1", "a 1 1 x"] {
            assert_eq!(hint_of(text), None, "{text}");
        }
    }

    #[test]
    fn place_shows_no_password() {
        assert_eq!(place_of("redis://me:se@cret@cache:6379/1"), "cache:6379/1");
        assert_eq!(place_of("redis://cache"), "cache");
    }
}
