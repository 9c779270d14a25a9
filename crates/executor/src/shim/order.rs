//! What the worker tells a running shim, one line each, over the shim's standard input, whose end means that the worker
//! is gone; and what a shim tells its worker, one line of JSON each.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidemill_derive::Word;
use tidemill_model::{Excess, ExternalWorkId};

use crate::attempt_dir::ExitRecord;

/// Until when an attempt may live, on CLOCK_BOOTTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lease {
    /// TERM at this time, milliseconds.
    pub term_at_ms: u64,
    /// KILL at this time, milliseconds.
    pub kill_at_ms: u64,
}

impl Lease {
    /// As long as it likes: its group holds what runs on a silent worker.
    pub const FOREVER: Self = Self { term_at_ms: u64::MAX, kill_at_ms: u64::MAX };
}

/// Why an attempt was ended before it ended by itself; an order and `exit.json` use its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Word)]
#[serde(rename_all = "snake_case")]
pub enum KillCause {
    /// The owner asked for it.
    Asked,
    /// The worker, or the machine, is being stopped.
    WorkerStopped,
    /// The worker process is gone.
    WorkerGone,
    /// The lease ran out.
    Lease,
    /// The owner does not know of this attempt.
    Disowned,
    /// It ran longer than its job allows.
    TimedOut,
}

impl KillCause {
    pub(crate) const ALL: [Self; 6] =
        [Self::Asked, Self::WorkerStopped, Self::WorkerGone, Self::Lease, Self::Disowned, Self::TimedOut];
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// `lease TERM_AT KILL_AT`: the attempt may live longer.
    Lease(Lease),
    /// `kill GRACE_MS WHY`: end it, TERM first.
    Kill { grace_ms: u64, because: KillCause },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Lease(lease) => writeln!(f, "lease {} {}", lease.term_at_ms, lease.kill_at_ms),
            Order::Kill { grace_ms, because } => writeln!(f, "kill {grace_ms} {because}"),
        }
    }
}

impl FromStr for Order {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| ());
        match words[..] {
            ["lease", term_at, kill_at] => {
                Ok(Order::Lease(Lease { term_at_ms: number(term_at)?, kill_at_ms: number(kill_at)? }))
            }
            ["kill", grace, why] => {
                let because = KillCause::ALL.into_iter().find(|known| known.as_str() == why).ok_or(())?;
                Ok(Order::Kill { grace_ms: number(grace)?, because })
            }
            _ => Err(()),
        }
    }
}

/// One line. A shim that ends without having told its end was killed, or never ran the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The job runs.
    Started,
    /// It wants more than there is for it.
    Exceeded(Excess),
    /// A process of it cannot be killed: which, for people.
    Stuck(String),
    /// It has started this elsewhere.
    ExternalWork(Vec<ExternalWorkId>),
    /// Where its processes are, once they have run for a while, and again as what was seen of them grows.
    Located(Located),
    /// No process of it is left, and `exit.json` says the same as this.
    Ended(Box<ExitRecord>),
}

/// For who measures the processes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The process above all of them.
    pub shim: i32,
    /// A child of that which is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<i32>,
    /// The most that was seen of their memory, KiB.
    pub peak_memory_kib: u64,
    /// The most processes and threads that were seen.
    pub peak_processes: u32,
}

impl News {
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("plain data");
        line.push(b'\n');
        line
    }

    /// Takes the lines that are whole, and leaves the rest. A line of a newer shim is passed over.
    pub fn take(said: &mut Vec<u8>) -> Vec<Self> {
        let end = said.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = said.drain(..end).collect();
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_reads_back_from_its_line() {
        let lease = Order::Lease(Lease { term_at_ms: 5, kill_at_ms: 7 });
        let kills = KillCause::ALL.map(|because| Order::Kill { grace_ms: 3, because });
        for order in kills.into_iter().chain([lease]) {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in ["", "lease 1", "kill x asked", "kill 1 bored", "kill 1 asked now"] {
            assert_eq!(text.parse::<Order>(), Err(()), "{text}");
        }
    }

    #[test]
    fn news_are_taken_when_their_line_is_whole() {
        let ended = News::Ended(Box::new(ExitRecord { exit_code: Some(3), ..ExitRecord::default() }));
        let mut said = [News::Started.to_line(), b"{\"sung\":1}\n".to_vec(), ended.to_line()].concat();
        let last = said.pop().unwrap();
        assert_eq!(News::take(&mut said), [News::Started]);
        said.push(last);
        assert_eq!(News::take(&mut said), [ended]);
        assert_eq!((News::take(&mut said), said.len()), (Vec::new(), 0));
    }
}
