//! EXE-8, EXE-10: workers that are killed, or stand still, at an unlucky moment.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use tidemill_executor::{AttemptDir, ExitRecord, KillCause};
use tidemill_model::{
    AttemptResult, Command, ExcessKind, GroupSettings, LimitMeans, Limits, Registration, RunSpec, StartRight,
    Token, WorkMessage, WorkerCommand,
};

use crate::executor::{name, spec};
use crate::shim::{HIDDEN, boottime_ms, is_alive, signal, until};
use crate::site::{End, Site, WorkerProcess, halt, parent_of, processes_in};

pub(crate) const TOKEN: Token = Token(4097);
/// Says that it was begun, and ends with a code of its own when it may.
pub(crate) const WAITS: &str = "echo >> runs; mkfifo go; read code < go; exit $code";

pub(crate) fn record(attempt: &Path) -> Option<ExitRecord> {
    AttemptDir::new(attempt).exit_record().unwrap()
}

/// Lets a job end that waits.
pub(crate) fn go(site: &Site, token: Token) {
    let fifo = site.attempt(token).join("work").join("go");
    until("the job", || fifo.exists().then_some(()));
    fs::write(fifo, "3\n").unwrap();
}

/// The server of shims of this worker.
pub(crate) fn server_of(site: &Site, worker: &WorkerProcess) -> u32 {
    until("the server of shims", || {
        let mut found = processes_in(site.path()).into_iter();
        let (pid, _) = found.find(|(pid, command)| {
            command.contains("tidemill-shim") && parent_of(*pid) == Some(worker.id())
        })?;
        u32::try_from(pid).ok()
    })
}

/// Whether the worker waits for what the shim of this attempt says: it has said what to run by then.
fn has_ordered_start(worker: &WorkerProcess, token: Token) -> bool {
    let polled = format!("data: {:>16x} ", token.0);
    let files = fs::read_dir(format!("/proc/{}/fdinfo", worker.id())).unwrap().flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(|text| text.contains(&polled))
}

fn is_before_its_start((outcome, usage): &End) -> bool {
    outcome.result == AttemptResult::Lost
        && ["the worker process ended before it was started", "the worker does not have it"]
            .contains(&&*outcome.message)
        && usage.is_none()
}

/// EXE-5, EXE-8: a worker, its server of shims and a shim are killed at the same moment, so that nobody is left who watches over
/// the tree. The next worker ends it before it reports the attempt, once, as lost.
#[test]
fn tree_without_worker_server_and_shim_is_ended_by_the_next_worker() {
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    let tree = "echo >> runs; echo $PPID > shim; echo $$ > main; sleep 1000 & echo $! > child; \
        setsid sh -c 'setsid sh -c \"echo \\$\\$ > daemon; exec sleep 1000\" & exit 0'; exec sleep 1000";
    site.run(&me, TOKEN, tree);
    let of_tree = ["main", "child", "daemon"].map(|name| site.pid(TOKEN, name));
    let (shim, server) = (site.pid(TOKEN, "shim"), server_of(&site, &worker));
    // None of them sees another one end.
    let watchers = [worker.id(), server, shim];
    watchers.into_iter().for_each(halt);
    [shim, server].into_iter().for_each(|pid| signal(pid, Signal::KILL));
    worker.kill();
    until("the end of the watchers", || (!watchers.into_iter().any(is_alive)).then_some(()));
    assert!(of_tree.into_iter().all(is_alive), "nobody ends it");

    let (worker, again) = site.begin(&[TOKEN]);
    assert_eq!((&again.worker, &again.live), (&me.worker, &Vec::new()));
    let (outcome, usage) = site.hear_end(TOKEN);
    assert!(!of_tree.into_iter().any(is_alive));
    let vanished = "its shim was killed, so how it ended is not known; nothing of it runs any more";
    assert_eq!((outcome.result, &*outcome.message, usage), (AttemptResult::Lost, vanished, None));
    assert_eq!(site.runs(TOKEN), 1);
    site.record(worker, &again, &[TOKEN]);
}

/// EXE-5: the same where a process of it shows in no way whose it is, but by the control group of an attempt that has limits.
#[test]
fn process_that_hides_is_found_by_the_control_group_of_its_attempt() {
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    assert_eq!(me.keeps.unwrap().processes, LimitMeans::ControlGroup, "this test runs as root");
    let limits = Limits { processes: Some(64), ..Limits::default() };
    let tree = format!("echo >> runs; echo $PPID > shim; {HIDDEN}; echo $$ > main; exec sleep 1000");
    site.owner.grant(&me, &RunSpec { limits, ..spec(TOKEN, "shell", &tree) });
    site.owner.hear_started(TOKEN);
    let of_tree = ["main", "hidden"].map(|name| site.pid(TOKEN, name));
    let environment = format!("/proc/{}/environ", of_tree[1]);
    until("a process that hides", || fs::read(&environment).unwrap().is_empty().then_some(()));
    let watchers = [worker.id(), server_of(&site, &worker), site.pid(TOKEN, "shim")];
    watchers.into_iter().for_each(halt);
    watchers.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    worker.kill();
    assert!(of_tree.into_iter().all(is_alive), "nobody ends it");

    let (worker, again) = site.begin(&[TOKEN]);
    let (outcome, _) = site.hear_end(TOKEN);
    assert!(!of_tree.into_iter().any(is_alive));
    assert_eq!(outcome.result, AttemptResult::Lost);
    site.record(worker, &again, &[TOKEN]);
}

/// EXE-2, EXE-10: a limit of memory holds while no worker is there, and under the worker that has taken the attempt over: the end says
/// which limit it was.
#[test]
fn limit_of_memory_holds_over_a_takeover() {
    for is_alone in [true, false] {
        let mut site = Site::new();
        let (worker, me) = site.begin(&[]);
        let limits = Limits { memory_mb: Some(64), ..Limits::default() };
        let text = "import os, time\nwhile not os.path.exists('take'): time.sleep(0.02)\n\
            taken = []\nwhile True: taken.append(bytearray(8 << 20))";
        site.owner.grant(&me, &RunSpec { limits, ..spec(TOKEN, "python", text) });
        site.owner.hear_started(TOKEN);
        worker.kill();
        let take = site.attempt(TOKEN).join("work").join("take");
        if is_alone {
            fs::write(&take, "").unwrap();
            until("the end", || record(&site.attempt(TOKEN)));
        }
        let (worker, again) = site.begin(&[TOKEN]);
        if !is_alone {
            assert_eq!(again.live, [TOKEN]);
            fs::write(&take, "").unwrap();
        }
        let (outcome, usage) = site.hear_end(TOKEN);
        let excess = outcome.excess.map(|excess| (excess.kind, excess.limit));
        assert_eq!(excess, Some((ExcessKind::Memory, Some(64))), "{outcome:?}");
        assert_eq!(outcome.result, AttemptResult::Failed, "{outcome:?}");
        assert!(usage.as_ref().is_some_and(|usage| usage.peak_memory_kib > 32 << 10), "{usage:?}");
        site.record(worker, &again, &[TOKEN]);
    }
}

/// A worker that has ordered a start, whose server of shims stands still, and was killed.
fn killed_after_its_order(site: &mut Site) -> u32 {
    let (worker, me) = site.begin(&[]);
    let server = server_of(site, &worker);
    halt(server);
    site.owner.grant(&me, &spec(TOKEN, "shell", WAITS));
    until("the order", || has_ordered_start(&worker, TOKEN).then_some(()));
    worker.kill();
    server
}

/// EXE-10: a start that was ordered before its worker was killed is obeyed; the next worker takes the attempt over.
#[test]
fn start_that_is_obeyed_after_its_worker_was_killed_is_taken_over() {
    let mut site = Site::new();
    let server = killed_after_its_order(&mut site);
    signal(server, Signal::CONT);
    until("the start", || (site.runs(TOKEN) == 1).then_some(()));
    let (worker, again) = site.begin(&[TOKEN]);
    assert_eq!(again.live, [TOKEN]);
    site.owner.hear_started(TOKEN);
    go(&site, TOKEN);
    let (outcome, _) = site.hear_end(TOKEN);
    assert_eq!((outcome.result, outcome.exit_code), (AttemptResult::Failed, Some(3)));
    assert_eq!(site.runs(TOKEN), 1);
    site.record(worker, &again, &[TOKEN]);
}

/// EXE-8: where the next worker comes first, it reports the attempt as lost, once, and nobody obeys the old order any more, whether
/// the end is on record by then or not.
#[test]
fn start_that_the_next_worker_has_given_up_is_obeyed_by_nobody() {
    for is_recorded in [false, true] {
        let mut site = Site::new();
        let server = killed_after_its_order(&mut site);
        let (worker, again) = site.begin(&[TOKEN]);
        assert_eq!(again.live, []);
        let end = site.hear_end(TOKEN);
        assert!(is_before_its_start(&end), "{end:?}");
        if is_recorded {
            site.owner.say(&again, &WorkMessage::Recorded { token: TOKEN });
            let attempt = site.attempt(TOKEN);
            until("the end on record", || (!attempt.exists()).then_some(()));
        }
        signal(server, Signal::CONT);
        until("the end of the old server", || (!is_alive(server)).then_some(()));
        assert_eq!(site.runs(TOKEN), 0);
        site.record(worker, &again, &[TOKEN]);
        assert_eq!(site.runs(TOKEN), 0);
    }
}

/// EXE-8, EXE-10: whenever a worker is killed between the order to start and the report that the job runs, the next one either takes
/// over what runs, or reports once that nothing was started; and the job is begun once at most.
#[test]
fn worker_killed_anywhere_in_a_start_leaves_one_process_or_none() {
    type Moment = fn(&Path, &WorkerProcess) -> bool;
    let moments: [(&str, Moment); 7] = [
        ("granted", |_, _| true),
        ("its directory is there", |attempt, _| attempt.exists()),
        ("it is noted what it runs", |attempt, _| attempt.join("run").is_symlink()),
        ("its script is there", |attempt, _| attempt.join("script.sh").exists()),
        ("its start is ordered", |_, worker| has_ordered_start(worker, TOKEN)),
        ("its shim has begun", |attempt, _| attempt.join("stdout").exists()),
        ("it runs", |attempt, _| attempt.join("work").join("runs").exists()),
    ];
    for (name, is_there) in moments {
        let mut site = Site::new();
        let (worker, me) = site.begin(&[]);
        site.owner.grant(&me, &spec(TOKEN, "shell", WAITS));
        let attempt = site.attempt(TOKEN);
        until(name, || is_there(&attempt, &worker).then_some(()));
        worker.kill();
        // It may have said that it started.
        while !site.owner.heard_so_far().is_empty() {
            site.owner.hear_started(TOKEN);
        }
        let (worker, again) = site.begin(&[TOKEN]);
        let (end, runs) = if again.live.is_empty() {
            (site.hear_end(TOKEN), 0)
        } else {
            go(&site, TOKEN);
            (site.hear_end(TOKEN), 1)
        };
        match runs {
            0 => assert!(is_before_its_start(&end), "{name}: {end:?}"),
            _ => {
                let (outcome, _) = end;
                assert_eq!((outcome.result, outcome.exit_code), (AttemptResult::Failed, Some(3)), "{name}");
            }
        }
        site.record(worker, &again, &[TOKEN]);
        assert_eq!(site.runs(TOKEN), runs, "{name}");
    }
}

/// EXE-5, EXE-10: TERM was sent, the job ignores it, and its worker is killed within the grace: the order binds, and the next worker
/// reports that the job was killed on request, whether it comes within the grace or after it.
#[test]
fn kill_under_way_binds_though_its_worker_is_killed() {
    for is_soon in [true, false] {
        let mut site = Site::new();
        let (worker, me) = site.begin(&[]);
        site.run(&me, TOKEN, "trap 'echo >> asked' TERM; echo >> runs; while :; do sleep 0.05; done");
        let attempt = site.attempt(TOKEN);
        until("the job", || attempt.join("work").join("runs").exists().then_some(()));
        let grace_ms = if is_soon { 8_000 } else { 1_500 };
        site.owner.say(&me, &WorkMessage::Kill { token: TOKEN, grace_ms });
        until("the job is asked", || attempt.join("work").join("asked").exists().then_some(()));
        worker.kill();
        if !is_soon {
            until("the end", || record(&attempt));
            // Its shim is gone with its lock.
            let directory = fs::File::open(&attempt).unwrap();
            flock(&directory, FlockOperation::LockExclusive).unwrap();
        }
        let (worker, again) = site.begin(&[TOKEN]);
        assert_eq!(again.live, if is_soon { vec![TOKEN] } else { Vec::new() });
        let (outcome, usage) = site.hear_end(TOKEN);
        let (killed, said) = (AttemptResult::Killed, "killed on request");
        assert_eq!((outcome.result, outcome.signal, &*outcome.message), (killed, Some(9), said));
        assert!(usage.is_some());
        assert_eq!(record(&attempt).unwrap().kill_cause, Some(KillCause::Asked));
        site.record(worker, &again, &[TOKEN]);
    }
}

/// EXE-8: the end of an attempt is written down and its worker killed before it has reported it, after it has, or after its owner has
/// answered that it is on record: the next worker reports the same end, and no worker reports another one.
#[test]
fn worker_killed_in_a_report_reports_the_same_end_again() {
    for killed in ["before its report", "before the answer", "at the answer"] {
        let mut site = Site::new();
        let (worker, me) = site.begin(&[]);
        site.run(&me, TOKEN, WAITS);
        let attempt = site.attempt(TOKEN);
        let before = if killed == "before its report" {
            halt(worker.id());
            go(&site, TOKEN);
            until("the end", || record(&attempt));
            None
        } else {
            go(&site, TOKEN);
            Some(site.hear_end(TOKEN))
        };
        if killed == "at the answer" {
            halt(worker.id());
            site.owner.say(&me, &WorkMessage::Recorded { token: TOKEN });
        }
        worker.kill();
        while !site.owner.heard_so_far().is_empty() {
            assert_eq!(Some(site.hear_end(TOKEN)), before, "{killed}");
        }
        let (worker, again) = site.begin(&[TOKEN]);
        let end = site.hear_end(TOKEN);
        assert_eq!((end.0.result, end.0.exit_code), (AttemptResult::Failed, Some(3)), "{killed}");
        assert!(end.1.is_some() && before.is_none_or(|before| before == end), "{killed}");
        assert_eq!(site.runs(TOKEN), 1);
        site.record(worker, &again, &[TOKEN]);
    }
}

/// Of six seconds, so that a worker can be stopped past it.
fn short_lease() -> GroupSettings {
    GroupSettings { lease_ms: 6_000, kill_grace_ms: 300, ..GroupSettings::default() }
}

/// Until a lease that was given by now is over.
fn outlast(lease_ms: u64) {
    let over = boottime_ms() + lease_ms;
    until("the end of the lease", || (boottime_ms() > over).then_some(()));
}

fn begin_with_lease(site: &mut Site) -> (WorkerProcess, Registration) {
    let worker = site.start();
    let me = site.owner.hear_registration();
    site.welcome(&me, Vec::new(), short_lease());
    (worker, me)
}

/// Rule 9, EXE-8: a worker stands still for longer than its lease. Its jobs are ended by their shims meanwhile, without it; when it goes
/// on it reports that, in another life, and starts nothing on what came for the old one: neither on a grant nor under a right.
#[test]
fn worker_that_stood_still_past_its_lease_starts_nothing_of_its_old_life() {
    let mut site = Site::new();
    let (worker, me) = begin_with_lease(&mut site);
    site.run(&me, TOKEN, "echo >> runs; echo $$ > main; exec sleep 1000");
    let main = site.pid(TOKEN, "main");
    let (asked, under_right, later) = (Token(8193), Token(12289), Token(16385));
    let request = site.owner.hear_request(&me, asked, &name("shell"));

    halt(worker.id());
    let (incarnation, nonce) = (request.incarnation, request.nonce);
    let of_old = |token| Box::new(spec(token, "shell", WAITS));
    site.owner.say(&me, &WorkMessage::Granted { incarnation, nonce, spec: of_old(asked) });
    let right = StartRight { incarnation: me.incarnation.clone(), heartbeat: 1, window_ms: 600_000 };
    site.owner.say(&me, &WorkMessage::AssignedWithRight { right, spec: of_old(under_right) });
    outlast(short_lease().lease_ms);
    assert!(!is_alive(main), "its shim has ended it");
    let ended = record(&site.attempt(TOKEN)).unwrap();
    assert_eq!((ended.kill_cause, ended.signal), (Some(KillCause::Lease), Some(15)));

    signal(worker.id(), Signal::CONT);
    let (mut again, mut end) = (None, None);
    while again.is_none() || end.is_none() {
        match site.owner.hear() {
            Command::Worker(WorkerCommand::Register(of)) => again = Some(*of),
            Command::Worker(WorkerCommand::ReportFinished { token: TOKEN, outcome, .. }) => {
                end = Some((outcome.result, outcome.message));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(end.unwrap(), (AttemptResult::Lost, "killed because the worker's lease ran out".to_owned()));
    let again = again.unwrap();
    assert_eq!(again.worker, me.worker);
    assert_ne!(again.incarnation, me.incarnation);
    site.owner.say(&again, &WorkMessage::Recorded { token: TOKEN });
    site.welcome(&again, vec![asked, under_right], short_lease());
    for token in [asked, under_right] {
        let end = site.hear_end(token);
        assert!(is_before_its_start(&end), "{end:?}");
        assert!(!site.attempt(token).exists());
    }
    // What is granted in the new life runs.
    site.run(&again, later, WAITS);
    go(&site, later);
    assert_eq!(site.hear_end(later).0.exit_code, Some(3));
    assert_eq!([asked, under_right, later, TOKEN].map(|token| site.runs(token)), [0, 0, 1, 1]);
    site.record(worker, &again, &[TOKEN, asked, under_right, later]);
}

/// Rule 9: a start that was ordered in time, and is obeyed after the lease, starts nothing.
#[test]
fn start_that_is_obeyed_past_the_lease_starts_nothing() {
    let mut site = Site::new();
    let (worker, me) = begin_with_lease(&mut site);
    let server = server_of(&site, &worker);
    halt(server);
    site.owner.grant(&me, &spec(TOKEN, "shell", WAITS));
    until("the order", || has_ordered_start(&worker, TOKEN).then_some(()));
    halt(worker.id());
    outlast(short_lease().lease_ms);
    signal(server, Signal::CONT);
    let attempt: PathBuf = site.attempt(TOKEN);
    let ended = until("the end", || record(&attempt));
    assert_eq!((ended.kill_cause, ended.exit_code, ended.signal), (Some(KillCause::Lease), None, None));
    signal(worker.id(), Signal::CONT);
    let again = loop {
        match site.owner.hear() {
            Command::Worker(WorkerCommand::Register(of)) => break *of,
            Command::Worker(WorkerCommand::ReportFinished { token: TOKEN, .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    site.welcome(&again, vec![TOKEN], short_lease());
    let (outcome, _) = site.hear_end(TOKEN);
    let lost = (AttemptResult::Lost, "killed because the worker's lease ran out");
    assert_eq!((outcome.result, &*outcome.message), lost);
    assert_eq!(site.runs(TOKEN), 0);
    site.record(worker, &again, &[TOKEN]);
}
