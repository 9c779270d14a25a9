//! Tasks that clients pull, over HTTP from the real program (PUL-5 to PUL-9).

mod crowd;
pub(crate) mod http;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::backend::Backend;
use crate::program::Running;
use crate::raw;
use crate::row::{Row, percentile};
use crate::usage::Usage;
use crowd::{ASSIGNED_AT_ONCE, Crowd};

/// Records that commands and journals took while empty polls came.
pub(crate) const GROWTH: &str = "records that the log took meanwhile";

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pulls {
    /// Grants and completions by so many clients.
    Busy {
        /// At once.
        clients: usize,
    },
    /// Empty polls.
    Empty,
    /// A large group wakes.
    WakeUp,
}

const LASTS: Duration = Duration::from_secs(5);
/// Users whom clients act for.
const USERS: usize = 4_096;
/// Tasks for all of them: more grants than are given in the time.
const TASKS: i64 = 30;
const EMPTY_CLIENTS: usize = 64;
const WAKING: usize = 100_000;
const WAKING_CLIENTS: usize = 64;
/// After so long from its acknowledgement every poll offers a task.
const OFFERED_AFTER: Duration = Duration::from_secs(1);
/// Times that something else may come to the log while empty polls come.
const TRIES: usize = 5;
/// Commands of another kind that may come meanwhile.
const OTHERS: u64 = 2;
const RECORD_BYTES: usize = 300;

/// What came of it.
struct Lap {
    n: usize,
    seconds: f64,
    cpu_s: f64,
    times_ms: Vec<f64>,
}

/// Runs what is measured in a runtime of one thread: the machine's other processors are the server's.
pub(crate) fn measure(pulls: Pulls, name: &str, backend: Backend, scale: usize) -> anyhow::Result<Row> {
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fixture = Running::start(backend, directory.path())?;
    let lasts = LASTS / u32::try_from(scale)?;
    let (lap, more) = runtime.block_on(async {
        match pulls {
            Pulls::Busy { clients } => busy(&fixture, clients, lasts).await,
            Pulls::Empty => empty(&fixture, lasts).await,
            Pulls::WakeUp => wake_up(&fixture, WAKING / scale).await,
        }
    })?;
    let peaks = fixture.peaks_mb();
    drop(fixture);
    let (raw_limit, raw_unit) = match pulls {
        Pulls::Empty => (runtime.block_on(raw::exchanges_per_second(EMPTY_CLIENTS, lasts))?, "exchanges/s"),
        Pulls::Busy { .. } | Pulls::WakeUp => (records_limit(backend, directory.path(), scale)?, "records/s"),
    };
    let Lap { n, seconds, cpu_s, mut times_ms } = lap;
    let per_second = n as f64 / seconds;
    let row = Row {
        workload: name.to_owned(),
        backend: backend.name(),
        runs: 1,
        n,
        per_second,
        p50_ms: percentile(&mut times_ms, 0.5),
        p99_ms: percentile(&mut times_ms, 0.99),
        cpu_s,
        peak_rss_mb: peaks.iter().map(|(_, mb)| mb).sum(),
        raw_limit,
        ratio: per_second / raw_limit,
        raw_unit: raw_unit.to_owned(),
        ..Row::default()
    };
    let row = more.into_iter().fold(row, |row, (figure, value)| row.with(figure, value));
    let wakes = matches!(pulls, Pulls::WakeUp);
    let peaks = peaks.into_iter().filter(|_| wakes);
    Ok(peaks.fold(row, |row, (role, mb)| row.with(&format!("{role}: peak MB"), mb)))
}

/// Of another log of the same kind, with nothing beside it.
fn records_limit(backend: Backend, directory: &Path, scale: usize) -> anyhow::Result<f64> {
    raw::records_per_second(&backend.open(&directory.join("raw"))?, 200_000 / scale, RECORD_BYTES)
}

type More = Vec<(&'static str, f64)>;

/// Every client pulls for one of its users after the other, and completes what it gets.
async fn busy(fixture: &Running, clients: usize, lasts: Duration) -> anyhow::Result<(Lap, More)> {
    let crowd = Crowd::assign(fixture, USERS).await?;
    for minutes in 1..=TASKS {
        crowd.task(minutes).await?;
    }
    tokio::time::sleep(OFFERED_AFTER).await;
    let (before, begun) = (Usage::now(), Instant::now());
    let worked = crowd
        .split(clients, |mut client, users| async move {
            let mut times_ms = Vec::new();
            for user in users.iter().copied().cycle() {
                if begun.elapsed() >= lasts {
                    break;
                }
                let pulled = client.pull(user).await?;
                let Some((_, grant)) = pulled.grant else { anyhow::bail!("user {user} has done every task") };
                times_ms.extend([pulled.ms, client.complete(user, grant).await?]);
            }
            Ok(times_ms)
        })
        .await?;
    let lap = lap(begun, &before, worked);
    Ok((lap, Vec::new()))
}

fn lap(begun: Instant, before: &Usage, times_ms: Vec<Vec<f64>>) -> Lap {
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_s = Usage::now().cpu_s - before.cpu_s;
    let times_ms: Vec<f64> = times_ms.into_iter().flatten().collect();
    Lap { n: times_ms.len(), seconds, cpu_s, times_ms }
}

/// Polls while everybody has a hint that nothing is due.
async fn empty(fixture: &Running, lasts: Duration) -> anyhow::Result<(Lap, More)> {
    let crowd = Crowd::assign(fixture, USERS).await?;
    ensure!(prepare(fixture, &crowd).await? <= OTHERS, "not everybody has a hint after {TRIES} rounds");
    let mut last = None;
    for _ in 0..TRIES {
        let (commands, journal) = fixture.records()?;
        let (before, begun) = (Usage::now(), Instant::now());
        let polled = crowd
            .split(EMPTY_CLIENTS, |mut client, users| async move {
                let mut times_ms = Vec::new();
                for user in users.iter().copied().cycle() {
                    if begun.elapsed() >= lasts {
                        break;
                    }
                    let pulled = client.pull(user).await?;
                    ensure!(pulled.grant.is_none(), "user {user} was given something");
                    times_ms.push(pulled.ms);
                }
                Ok(times_ms)
            })
            .await?;
        let lap = lap(begun, &before, polled);
        let now = fixture.records()?;
        let growth = now.0 - commands + now.1 - journal;
        last = Some((lap, vec![(GROWTH, growth as f64)]));
        if growth == 0 {
            break;
        }
    }
    last.ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

/// Polls until a whole round asks no owner any more, or for some rounds: on a machine that is too busy for a projector
/// that keeps up, no hint counts. Gives how many commands the last round took.
async fn prepare(fixture: &Running, crowd: &Crowd) -> anyhow::Result<u64> {
    let mut last = u64::MAX;
    for _ in 0..TRIES {
        let before = fixture.records()?.0;
        crowd
            .split(WAKING_CLIENTS, |mut client, users| async move {
                for user in users {
                    ensure!(client.pull(user).await?.grant.is_none(), "user {user} was given something");
                }
                Ok(())
            })
            .await?;
        last = fixture.records()?.0 - before;
        if last <= OTHERS {
            break;
        }
    }
    Ok(last)
}

/// Everybody has a hint that nothing is due; then one task comes, and everybody gets it at the first poll a second
/// after it was acknowledged.
async fn wake_up(fixture: &Running, users: usize) -> anyhow::Result<(Lap, More)> {
    let commands = fixture.records()?.0;
    let preparing = Instant::now();
    let crowd = Crowd::assign(fixture, users).await?;
    let last_round = prepare(fixture, &crowd).await?;
    let prepared_s = preparing.elapsed().as_secs_f64();
    let assignments = users.div_ceil(ASSIGNED_AT_ONCE) as u64;
    let asked = fixture.records()?.0 - commands - assignments;
    let task = crowd.task(1).await?;
    tokio::time::sleep(OFFERED_AFTER).await;
    let commands = fixture.records()?.0;
    let (before, begun) = (Usage::now(), Instant::now());
    let served = crowd
        .split(WAKING_CLIENTS, move |mut client, users| async move {
            let mut times_ms = Vec::with_capacity(users.len());
            for user in users {
                let pulled = client.pull(user).await?;
                let got = pulled.grant.map(|(task, _)| task);
                ensure!(got == Some(task), "user {user} was not offered task {task} after a second");
                times_ms.push(pulled.ms);
            }
            Ok(times_ms)
        })
        .await?;
    let lap = lap(begun, &before, served);
    let woken = fixture.records()?.0 - commands;
    let more = vec![
        ("until everybody had been assigned and had a hint, s", prepared_s),
        ("questions to the owner until then", asked as f64),
        ("questions in the last round before the task", last_round as f64),
        ("until everybody had the task, s", lap.seconds),
        ("questions to the owner for it", woken as f64),
    ];
    Ok((lap, more))
}
