//! What became of clients that mean harm, and of guests beside them; and what of it must not be.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use tidemill_model::{AccessEvent, Event};

use crate::fault::Kind;
use crate::intruder::MARK;
use crate::journal::{Entry, What};
use crate::nemesis::Struck;
use crate::pulled;
use crate::socket::{End, Ended, Manner};

/// A process that was stopped has this long to do what came meanwhile.
const WAKING_MS: i64 = 3_000;
/// The tables and the log are missed this long after a fault of them was healed.
const AFTERMATH_MS: i64 = 12_000;
/// Suspects that are remembered.
const SUSPECTS: usize = 1_000;

pub(crate) const ANSWERED: &str = "hostile_client_is_answered_or_closed_in_time";
pub(crate) const CHANGES_NOTHING: &str = "hostile_client_changes_nothing";
pub(crate) const SERVED: &str = "guest_is_served_beside_hostile_clients";

/// Sockets of intruders, or calls of guests, by what became of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ends {
    /// With an answer.
    pub answered: u64,
    /// Closed by the server.
    pub closed: u64,
    /// Not taken: the process did not run, or had no room.
    pub absent: u64,
    /// The client was gone first.
    pub left: u64,
    /// Not as it has to be.
    pub suspect: u64,
}

/// Who is watched doing what.
pub(crate) struct Watching<'a> {
    pub role: &'a str,
    pub act: &'static str,
    /// Its answer needs the tables.
    pub needs_tables: bool,
}

/// Something that must not be, but where a fault explains it.
#[derive(Clone, Debug)]
struct Suspect {
    rule: &'static str,
    role: String,
    what: String,
    begun_ms: i64,
    ended_ms: i64,
    excuse: Excuse,
}

/// Which faults explain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    /// The process did not run, or could not be reached.
    Away,
    /// Or something was wrong that its answer needs.
    Anything,
    /// None does.
    Nothing,
}

/// All that was noted.
#[derive(Default)]
pub(crate) struct Conduct {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    ends: BTreeMap<&'static str, Ends>,
    suspects: Vec<Suspect>,
}

impl Conduct {
    /// The ends of one act.
    pub(crate) fn note(&self, watching: &Watching<'_>, manner: &Manner, ends: &[Ended]) {
        let away = if watching.needs_tables { Excuse::Anything } else { Excuse::Away };
        for ended in ends {
            let suspicion = match ended.end {
                End::Open => Some((ANSWERED, away, format!("open {:?} after its begin", manner.bound))),
                End::Answered(500) => Some((ANSWERED, Excuse::Anything, "answered 500".to_owned())),
                End::Answered(status @ 200..300) if !manner.may_succeed => {
                    Some((CHANGES_NOTHING, Excuse::Nothing, format!("answered {status}")))
                }
                End::Answered(_) | End::Closed | End::Absent | End::Left => None,
            };
            self.add(watching, ended, suspicion);
        }
        let good = ends.iter().filter(|it| matches!(it.end, End::Answered(200..300))).count();
        if let (Some(most), Some(first)) = (manner.most_succeed, ends.first())
            && good > most
        {
            let what = format!("{good} at once, and {most} are the bound");
            self.add(watching, first, Some((ANSWERED, Excuse::Nothing, what)));
        }
    }

    /// A call of a guest, who has to have its answer.
    pub(crate) fn note_guest(&self, watching: &Watching<'_>, ended: &Ended, refused: Option<String>) {
        let suspicion = refused.map(|why| (SERVED, Excuse::Anything, why));
        self.add(watching, ended, suspicion);
    }

    fn add(&self, watching: &Watching<'_>, ended: &Ended, suspicion: Option<(&'static str, Excuse, String)>) {
        // Each change is one push or one count.
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = noted.ends.entry(watching.act).or_default();
        match (&suspicion, ended.end) {
            (Some(_), _) | (None, End::Open) => ends.suspect += 1,
            (None, End::Answered(_)) => ends.answered += 1,
            (None, End::Closed) => ends.closed += 1,
            (None, End::Absent) => ends.absent += 1,
            (None, End::Left) => ends.left += 1,
        }
        if let Some((rule, excuse, what)) = suspicion
            && noted.suspects.len() < SUSPECTS
        {
            let (begun_ms, ended_ms) = (ended.begun_at.as_millisecond(), ended.ended_at.as_millisecond());
            let (role, what) = (watching.role.to_owned(), format!("{}: {what}", watching.act));
            noted.suspects.push(Suspect { rule, role, what, begun_ms, ended_ms, excuse });
        }
    }

    /// By act, what became of its sockets.
    pub(crate) fn ends(&self) -> BTreeMap<&'static str, Ends> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).ends.clone()
    }

    /// What no fault explains, and what is missing: a run in which nobody was seen shows nothing.
    pub(crate) fn violations(&self, struck: &[Struck]) -> Vec<String> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let open = noted.suspects.iter().filter(|suspect| !struck.iter().any(|it| suspect.is_excused_by(it)));
        let mut wrong: Vec<_> = open
            .map(|it| {
                let at = Timestamp::from_millisecond(it.begun_ms).unwrap_or_default();
                format!("{}: {} at {}, from {at} on", it.rule, it.what, it.role)
            })
            .collect();
        let sum = |guests: bool| -> u64 {
            let of = noted.ends.iter().filter(|(act, _)| act.starts_with("guest") == guests);
            of.map(|(_, ends)| ends.answered).sum()
        };
        for (guests, rule) in [(false, ANSWERED), (true, SERVED)] {
            if sum(guests) == 0 {
                wrong.push(format!("{rule}: nobody was answered at all"));
            }
        }
        wrong
    }
}

impl Suspect {
    fn is_excused_by(&self, struck: &Struck) -> bool {
        let (subject, kind) = (struck.step.subject(), struck.step.kind);
        let is_within = |after_ms: i64| {
            struck.at_ms <= self.ended_ms && struck.healed_ms.saturating_add(after_ms) >= self.begun_ms
        };
        let is_away = subject == self.role && kind.is_absence() && is_within(WAKING_MS);
        match self.excuse {
            Excuse::Nothing => false,
            Excuse::Away => is_away,
            Excuse::Anything => {
                // The way of pull workers to an interface is theirs alone.
                let is_of_others = struck.step.target.ends_with(pulled::LINK);
                let matters = (subject == self.role && !is_of_others)
                    || ["kafka", "mariadb", "redis"].contains(&subject);
                is_away || (matters && is_within(AFTERMATH_MS))
            }
        }
    }
}

/// Records that have what only intruders say, other than what they were refused.
pub(crate) fn traces(entries: &[Entry]) -> Vec<String> {
    let is_refusal = |event: &Event| matches!(event, Event::Access(AccessEvent::Refused { .. }));
    let has_trace = |entry: &&Entry| match &entry.what {
        What::Envelope(envelope) => {
            let mut envelope = envelope.clone();
            envelope.events.retain(|it| !is_refusal(&it.event));
            serde_json::to_string(&envelope).is_ok_and(|text| text.to_lowercase().contains(MARK))
        }
        What::Claim(_) | What::Left | What::Genesis => false,
    };
    let place =
        |entry: &Entry| format!("{CHANGES_NOTHING}: journal {} has it at {}", entry.partition, entry.offset);
    entries.iter().filter(has_trace).map(place).collect()
}

impl Kind {
    /// Whether its subject cannot be reached, or does nothing.
    const fn is_absence(self) -> bool {
        matches!(
            self,
            Kind::PauseDispatcher
                | Kind::PauseExecutor
                | Kind::PauseProjector
                | Kind::PauseApi
                | Kind::PauseProducers
                | Kind::PauseLogs
                | Kind::Cut
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use crate::schedule::Step;
    use crate::socket::drive;

    const SILENT: Watching<'_> = Watching { role: "api-1", act: "silence", needs_tables: false };

    /// A server that takes every connection, says this, and keeps it for the length of the test, or closes it.
    fn server(says: &'static str, closes: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(says.as_bytes());
                if !closes {
                    kept.push(stream);
                }
            }
        });
        address
    }

    /// What an act of two sockets without a word finds there.
    fn found(says: &'static str, closes: bool) -> Conduct {
        let conduct = Conduct::default();
        let manner = Manner { sockets: 2, bound: Duration::from_millis(1), ..Manner::default() };
        let ends = drive(&server(says, closes), &manner, &AtomicBool::new(false));
        conduct.note(&SILENT, &manner, &ends);
        conduct
    }

    /// Without what is said where nobody was answered at all.
    fn of_acts(conduct: &Conduct, struck: &[Struck]) -> Vec<String> {
        conduct.violations(struck).into_iter().filter(|it| !it.contains("nobody was")).collect()
    }

    fn struck(kind: Kind, target: &str) -> Struck {
        // A moment ago: while what is judged went on.
        let at_ms = Timestamp::now().as_millisecond() - 500;
        let step = Step { number: 1, at_ms: 0, for_ms: 0, kind, target: target.to_owned(), size: 0 };
        Struck { step, at_ms, healed_ms: at_ms, failed: None }
    }

    #[test]
    fn who_is_answered_or_closed_is_no_harm() {
        for says in ["", "HTTP/1.1 400 Bad Request\r\n"] {
            assert_eq!(of_acts(&found(says, true), &[]), Vec::<String>::new(), "{says}");
        }
    }

    /// OPS-10: the planted fault: a listener that knows no time.
    #[test]
    fn who_stays_open_is_found_and_only_an_absence_of_the_process_explains_it() {
        let conduct = found("", false);
        assert_eq!(of_acts(&conduct, &[]).len(), 2);
        assert_eq!(of_acts(&conduct, &[struck(Kind::PauseApi, "api-1")]).len(), 0);
        let others = [
            struck(Kind::PauseApi, "api-2"),
            struck(Kind::Stall, "api-1/tables"),
            struck(Kind::DatabaseKill, "mariadb"),
        ];
        assert_eq!(of_acts(&conduct, &others).len(), 2);
    }

    /// API-5: what nobody may is done for nobody, whatever else is wrong.
    #[test]
    fn success_of_an_intruder_is_never_explained() {
        let conduct = found("HTTP/1.1 200 OK\r\n", true);
        let wrong = of_acts(&conduct, &[struck(Kind::PauseApi, "api-1"), struck(Kind::BrokerKill, "kafka")]);
        assert!(wrong.len() == 2 && wrong.iter().all(|it| it.starts_with(CHANGES_NOTHING)), "{wrong:?}");
    }

    /// OPS-7: more streams of one key than its bound are found.
    #[test]
    fn more_successes_than_the_bound_are_found() {
        let now = Timestamp::now();
        let ended = Ended { end: End::Answered(200), begun_at: now, ended_at: now };
        let manner = Manner { may_succeed: true, most_succeed: Some(2), ..Manner::default() };
        for (count, wrong) in [(2, 0), (3, 1)] {
            let conduct = Conduct::default();
            conduct.note(&SILENT, &manner, &vec![ended; count]);
            assert_eq!(of_acts(&conduct, &[]).len(), wrong, "{count}");
        }
    }

    #[test]
    fn guest_without_an_answer_is_explained_by_what_its_answer_needs() {
        let conduct = Conduct::default();
        let now = Timestamp::now();
        let watching = Watching { role: "api-1", act: "guest-read", needs_tables: true };
        let ended = Ended { end: End::Open, begun_at: now, ended_at: now };
        conduct.note_guest(&watching, &ended, Some("503".to_owned()));
        assert_eq!(of_acts(&conduct, &[]).len(), 1);
        assert_eq!(of_acts(&conduct, &[struck(Kind::DatabaseKill, "mariadb")]).len(), 0);
        assert_eq!(of_acts(&conduct, &[struck(Kind::Reset, "api-1/tables")]).len(), 0);
        assert_eq!(of_acts(&conduct, &[struck(Kind::Reset, "api-1/workers")]).len(), 1);
        assert_eq!(of_acts(&conduct, &[struck(Kind::KillApi, "api-2")]).len(), 1);
    }

    /// API-9: that an intruder was refused is on record, and is no trace of what it did.
    #[test]
    fn refusals_of_an_intruder_are_no_traces_and_what_comes_of_it_is() {
        let of = |events: &str| {
            let now = Timestamp::UNIX_EPOCH;
            let envelope = format!(r#"{{"now":"{now}","level":4,"resume":null,"events":[{events}]}}"#);
            let what = What::Envelope(serde_json::from_str(&envelope).unwrap());
            traces(&[Entry { partition: 0, offset: 7, at_ms: 0, what }]).len()
        };
        let refused = r#"{"shard":0,"event":{"access":{"refused":{"refusal":{"app":"intruder","person":null,
            "call":"POST /api/keys","address":"127.0.0.1","reason":"unauthenticated","count":4,
            "first_at":"2026-11-28T07:25:36Z","last_at":"2026-11-28T07:25:36Z"}}}}}"#;
        let gone = r#"{"shard":0,"event":{"directory":{"person_deleted":{"name":"intruder"}}}}"#;
        assert_eq!([of(refused), of(gone), of(&format!("{refused},{gone}"))], [0, 1, 1]);
    }

    #[test]
    fn a_run_that_saw_nobody_shows_nothing() {
        assert_eq!(Conduct::default().violations(&[]).len(), 2);
    }
}
