//! Limits of attempts and what attempts use, with real processes and the control groups of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidemill_executor::Config;
use tidemill_model::{
    AttemptOutcome, AttemptResult, ExcessKind, GroupLimits, LimitKind, LimitMeans, Limits, Registration,
    RunSpec, Token, Usage, WorkMessage,
};

use crate::executor::{Executor, Owner, config, spec};
use crate::shim::until;
use crate::site::left_in;

const TOKEN: Token = Token(4097);
/// Takes memory, 8 MiB at once, until it is ended.
const HOG: &str = "python3 -c 'taken = []\nwhile True: taken.append(bytearray(8 << 20))'";

/// Each of its processes starts others, as long as it can.
const FORK_BOMB: &str = "exec python3 -c 'import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.05)'";

/// A worker with an owner that grants what the test says.
struct Fixture {
    dir: TempDir,
    owner: Owner,
    executor: Executor,
    me: Registration,
}

impl Fixture {
    /// With control groups, as root has them on every system that tests run on.
    fn start() -> Self {
        let fixture = Self::with(|_| ());
        let kept = fixture.me.keeps.expect("a worker says how it keeps limits");
        let all = [kept.memory, kept.cpu, kept.processes];
        assert_eq!(all, [LimitMeans::ControlGroup; 3], "these tests need control groups: run them as root");
        fixture
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let (dir, mut owner) = (TempDir::new().unwrap(), Owner::new());
        let mut config = config(dir.path());
        config.heartbeat_ms = 100;
        change(&mut config);
        let executor = Executor::start(&owner, config);
        let me = owner.hear_registration();
        owner.welcome(&me, Vec::new());
        Self { dir, owner, executor, me }
    }

    fn begin(&mut self, limits: Limits, script: &str) {
        // A failure of a test is not to leave anything behind.
        let run = RunSpec { limits, execution_timeout_ms: Some(60_000), ..spec(TOKEN, "shell", script) };
        self.owner.grant(&self.me, &run);
        self.owner.hear_started(TOKEN);
    }

    fn end(&mut self) -> (AttemptOutcome, Usage) {
        let (outcome, usage) = self.owner.hear_finished(TOKEN);
        (outcome, usage.expect("a process ran"))
    }

    fn run(&mut self, limits: Limits, script: &str) -> (AttemptOutcome, Usage, String) {
        self.begin(limits, script);
        let (outcome, usage) = self.end();
        let stdout = fs::read_to_string(self.dir.path().join("attempts/4097/stdout")).unwrap();
        (outcome, usage, stdout)
    }

    fn kill(&self) {
        self.owner.say(&self.me, &WorkMessage::Kill { token: TOKEN, grace_ms: 0 });
    }

    /// The worker's directories in the trees of control groups.
    fn groups(&self) -> Vec<PathBuf> {
        let name = format!("tidemill-{}", self.me.worker);
        let mut found = Vec::new();
        let mut open = vec![PathBuf::from("/sys/fs/cgroup")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                if entry.file_name() == *name {
                    found.push(entry.path());
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(entry.path());
                }
            }
        }
        found
    }

    fn groups_of_attempts(&self) -> Vec<PathBuf> {
        let all = self.groups().into_iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
        all.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path()).collect()
    }

    /// As [`Self::stop`], where shims have a group of their own.
    fn end_shims(self) {
        let Self { executor, .. } = self;
        executor.stop();
        executor.join();
    }

    fn stop(self) {
        let groups = self.groups();
        assert_eq!(self.groups_of_attempts(), [""; 0].map(PathBuf::from), "the groups of attempts are gone");
        self.executor.stop();
        self.executor.join();
        assert!(groups.iter().all(|dir| !dir.exists()), "a worker that has ended leaves none of its own");
    }
}

fn memory(memory_mb: u32) -> Limits {
    Limits { memory_mb: Some(memory_mb), ..Limits::default() }
}

/// EXE-2, EXE-7: what takes more memory than its limit is ended, says so, and used no more.
#[test]
fn attempt_beyond_its_memory_is_ended() {
    let mut fixture = Fixture::start();
    let (outcome, usage, _) = fixture.run(memory(64), HOG);
    let excess = outcome.excess.expect("an excess");
    assert_eq!(
        (outcome.result, excess.kind, excess.limit),
        (AttemptResult::Failed, ExcessKind::Memory, Some(64))
    );
    assert!(outcome.message.contains("its limit of 64 MiB"), "{}", outcome.message);
    // Pages of programs and libraries count where they were first read, and not in this group.
    assert!((60 * 1024..=80 * 1024).contains(&usage.peak_memory_kib), "{usage:?}");
    assert_eq!(excess.seen, Some(64));
    fixture.stop();
}

/// EXE-7: an attempt that lost a process for want of memory says so though it succeeds.
#[test]
fn lost_process_is_told_though_the_attempt_succeeds() {
    let mut fixture = Fixture::start();
    let (outcome, _, _) = fixture.run(memory(64), &format!("{HOG}\nexit 0"));
    assert_eq!((outcome.result, outcome.exit_code), (AttemptResult::Success, Some(0)));
    assert_eq!(outcome.excess.map(|excess| excess.kind), Some(ExcessKind::Memory));
    fixture.stop();
}

/// EXE-2: without control groups the whole tree is looked at, and ended when it is beyond its limit.
#[test]
fn without_control_groups_the_tree_is_looked_at() {
    let mut fixture = Fixture::with(|config| config.cgroup = Some("none".to_owned()));
    let kept = fixture.me.keeps.unwrap();
    assert_eq!((kept.memory, kept.cpu), (LimitMeans::Looks, LimitMeans::Nothing));
    let sleeper = "python3 -c 'taken = b\"x\" * (80 << 20); import time; time.sleep(600)'";
    let limits = Limits { cpu_percent: Some(50), ..memory(120) };
    let (outcome, usage, _) = fixture.run(limits, &format!("{sleeper} & {sleeper} & wait; sleep 600"));
    let excess = outcome.excess.expect("an excess");
    assert_eq!(
        (outcome.result, excess.kind, excess.limit),
        (AttemptResult::Failed, ExcessKind::Memory, Some(120))
    );
    assert!(excess.seen.unwrap() > 120 && usage.peak_memory_kib > 120 * 1024, "{excess:?} {usage:?}");
    assert_eq!(usage.unenforced, [LimitKind::Cpu], "what nobody keeps is said");
    fixture.stop();
}

/// EXE-2: the same of processes.
#[test]
fn without_control_groups_processes_are_counted() {
    let mut fixture = Fixture::with(|config| config.cgroup = Some("none".to_owned()));
    let limits = Limits { processes: Some(5), ..Limits::default() };
    let (outcome, usage, _) = fixture.run(limits, "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait");
    assert_eq!(
        outcome.excess.map(|excess| (excess.kind, excess.limit)),
        Some((ExcessKind::Processes, Some(5)))
    );
    assert!(
        outcome.result == AttemptResult::Failed && usage.peak_processes > Some(5),
        "{outcome:?} {usage:?}"
    );
    fixture.stop();
}

/// EXE-2, EXE-7: what forks without end gets no more than its limit, and is reported while it runs.
#[test]
fn fork_bomb_is_held_and_reported_while_it_runs() {
    let mut fixture = Fixture::start();
    let limits = Limits { processes: Some(20), ..Limits::default() };
    fixture.begin(limits, FORK_BOMB);
    let excesses = fixture.owner.hear_excesses();
    assert_eq!(excesses.len(), 1);
    let (token, excess) = (excesses[0].token, excesses[0].excess);
    assert_eq!((token, excess.kind, excess.limit), (TOKEN, ExcessKind::Processes, Some(20)));
    fixture.kill();
    let (outcome, usage) = fixture.end();
    assert_eq!(outcome.excess.map(|excess| excess.kind), Some(ExcessKind::Processes));
    assert!(usage.peak_processes.unwrap() <= 20, "{usage:?}");
    fixture.stop();
}

/// EXE-2: the same where no control group holds it: looks count its processes, and all of them are ended.
#[test]
fn fork_bomb_is_ended_without_control_groups() {
    let mut fixture = Fixture::with(|config| config.cgroup = Some("none".to_owned()));
    let limits = Limits { processes: Some(20), ..Limits::default() };
    // Bounded, for a test that fails, and longer than the pause between two looks.
    let bomb = "exec python3 -c 'import os, time\nfor _ in range(8): os.fork()\ntime.sleep(60)'";
    let (outcome, usage, _) = fixture.run(limits, bomb);
    let excess = outcome.excess.expect("an excess");
    assert_eq!(
        (outcome.result, excess.kind, excess.limit),
        (AttemptResult::Failed, ExcessKind::Processes, Some(20))
    );
    assert!(usage.peak_processes > Some(20), "{usage:?}");
    let work = fixture.dir.path().join("attempts/4097/work");
    assert!(left_in(&work).is_empty(), "its end is said when nothing of it is left");
    fixture.stop();
}

/// EXE-2: the kernel is told of the share of the processor, and the job's first process is in the group.
#[test]
fn attempt_has_its_share_of_the_processor() {
    let mut fixture = Fixture::start();
    let limits = Limits { cpu_percent: Some(150), ..Limits::default() };
    fixture.begin(limits, "echo $$ > pid; until [ -e ../go ]; do sleep 0.05; done; cat /proc/self/cgroup");
    let [group] = fixture.groups_of_attempts().try_into().expect("one group");
    let figure = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    let share = format!("{}{}", figure("cpu.cfs_quota_us"), figure("cpu.max"));
    assert_eq!(share.split_whitespace().next(), Some("150000"));
    let work = fixture.dir.path().join("attempts/4097/work/pid");
    let pid = until("its number", || fs::read_to_string(&work).ok().filter(|text| text.ends_with('\n')));
    assert!(figure("cgroup.procs").lines().any(|line| line == pid.trim()), "{}", figure("cgroup.procs"));
    fs::write(fixture.dir.path().join("attempts/4097/go"), "").unwrap();
    let (outcome, _) = fixture.end();
    assert_eq!((outcome.result, outcome.excess), (AttemptResult::Success, None));
    let stdout = fs::read_to_string(fixture.dir.path().join("attempts/4097/stdout")).unwrap();
    assert!(stdout.contains(&format!("tidemill-{}/4097", fixture.me.worker)), "{stdout}");
    fixture.stop();
}

/// EXE-2: neither more files than the limit, nor a limit that the job can raise.
#[test]
fn open_files_are_limited() {
    let mut fixture = Fixture::start();
    let limits = Limits { open_files: Some(64), ..Limits::default() };
    let (outcome, _, stdout) = fixture.run(limits, "ulimit -n; ulimit -Hn");
    assert_eq!((outcome.result, &*stdout), (AttemptResult::Success, "64\n64\n"));
    fixture.stop();
}

/// Takes 60 MiB until the test says otherwise: once as a child, once as a grandchild.
const TAKERS: &str = "cat > taker.py <<'END'
taken = b'x' * (60 << 20)
import os, time
while not os.path.exists('../go'): time.sleep(0.05)
END
sh -c 'python3 taker.py; true' & python3 taker.py & wait";

/// EXE-7: memory is that of the whole tree, a grandchild's among it, whoever counts it; beyond the alarm the attempt goes on.
#[test]
fn memory_of_the_whole_tree_raises_an_alarm() {
    let without = Fixture::with(|config| config.cgroup = Some("none".to_owned()));
    for mut fixture in [Fixture::start(), without] {
        let limits = Limits { memory_alarm_mb: Some(110), ..Limits::default() };
        fixture.begin(limits, TAKERS);
        let excesses = fixture.owner.hear_excesses();
        let (token, excess) = (excesses[0].token, excesses[0].excess);
        assert_eq!((token, excess.kind, excess.limit), (TOKEN, ExcessKind::MemoryAlarm, Some(110)));
        assert!(excess.seen.unwrap() >= 110, "{excess:?}");
        fs::write(fixture.dir.path().join("attempts/4097/go"), "").unwrap();
        let (outcome, usage) = fixture.end();
        assert_eq!((outcome.result, outcome.excess), (AttemptResult::Success, Some(excess)));
        assert!(usage.peak_memory_kib > 110 * 1024, "{usage:?}");
        fixture.stop();
    }
}

/// EXE-7: an attempt without limits has no control group, and is measured.
#[test]
fn plain_attempt_has_no_group_and_is_measured() {
    let mut fixture = Fixture::start();
    fixture.begin(
        Limits::default(),
        "until [ -e ../go ]; do sleep 0.05; done; dd if=/dev/zero of=x bs=1M count=4 conv=fsync",
    );
    assert_eq!(fixture.groups_of_attempts(), [""; 0].map(PathBuf::from));
    fs::write(fixture.dir.path().join("attempts/4097/go"), "").unwrap();
    let (outcome, usage) = fixture.end();
    assert_eq!((outcome.result, outcome.excess), (AttemptResult::Success, None));
    assert!(usage.peak_processes >= Some(1) && usage.peak_memory_kib > 0, "{usage:?}");
    assert!(usage.read_kib.is_some() && usage.written_kib.is_some(), "{usage:?}");
    fixture.stop();
}

/// EXE-2: the limits of the worker's type and of the group count where the job names none, and none is above the group's maximum.
#[test]
fn limits_of_type_and_group_reach_the_attempt() {
    let of_type = Limits { open_files: Some(100), ..Limits::default() };
    let mut fixture = Fixture::with(|config| {
        let json = serde_json::json!({"command": ["/bin/sh", "{script}"], "limits": of_type});
        config.types.insert("shell".try_into().unwrap(), serde_json::from_value(json).unwrap());
    });
    let max = Limits { open_files: Some(90), processes: Some(64), ..Limits::default() };
    let group_limits = GroupLimits { default: Limits { processes: Some(32), ..Limits::default() }, max };
    let script =
        "ulimit -n; find /sys/fs/cgroup -path \"*tidemill-$TIDEMILL_WORKER/4097/pids.max\" -exec cat {} +";
    fixture.owner.grant(&fixture.me, &RunSpec { group_limits, ..spec(TOKEN, "shell", script) });
    fixture.owner.hear_started(TOKEN);
    fixture.end();
    let stdout = fs::read_to_string(fixture.dir.path().join("attempts/4097/stdout")).unwrap();
    assert_eq!(stdout, "90\n32\n");
    fixture.stop();
}

/// EXE-2: the shim is outside of the group, and the kernel takes it last where the worker may ask for that; the job is as likely to
/// be taken as any.
#[test]
fn shim_is_outside_of_the_group() {
    let lower = "echo -900 > /proc/self/oom_score_adj";
    let may = std::process::Command::new("sh").args(["-c", lower]).output().unwrap().status.success();
    let expected = if may { "-900" } else { "0" };
    let mut fixture = Fixture::start();
    let script = format!(
        "until grep -qx -- {expected} /proc/$PPID/oom_score_adj; do sleep 0.05; done; cat /proc/self/oom_score_adj
        cat /proc/self/cgroup | grep -c tidemill-; cat /proc/$PPID/cgroup | grep -c tidemill-"
    );
    let (outcome, _, stdout) = fixture.run(memory(64), &script);
    assert_eq!((outcome.exit_code, &*stdout), (Some(1), "0\n1\n0\n"));
    fixture.stop();
}

/// EXE-2, TMO-5: the run time of a job without one of its own is that of its group, and no job's is above the group's maximum.
#[test]
fn run_time_is_limited_by_the_group() {
    let run_time = |run_time_s| Limits { run_time_s, ..Limits::default() };
    for (own_ms, default, max) in
        [(None, Some(1), None), (None, None, Some(1)), (Some(60_000), None, Some(1))]
    {
        let mut fixture = Fixture::with(|_| ());
        let group_limits = GroupLimits { default: run_time(default), max: run_time(max) };
        let run = RunSpec { group_limits, execution_timeout_ms: own_ms, ..spec(TOKEN, "shell", "sleep 60") };
        fixture.owner.grant(&fixture.me, &run);
        fixture.owner.hear_started(TOKEN);
        assert_eq!(fixture.end().0.result, AttemptResult::TimedOut);
        fixture.stop();
    }
}

/// A group of this name in each tree, which somebody else has made.
struct Apart(Vec<PathBuf>);

impl Apart {
    fn make(name: &str) -> Self {
        let roots = ["", "memory", "pids", "cpu"].map(|tree| PathBuf::from("/sys/fs/cgroup").join(tree));
        let trees = roots.iter().filter(|root| root.join("cgroup.procs").exists());
        let dirs: Vec<PathBuf> = trees.map(|root| root.join(name)).collect();
        dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        Self(dirs)
    }

    /// All in it together have no more memory than that.
    fn bound_memory(&self, bytes: u64) {
        let files =
            self.0.iter().flat_map(|dir| ["memory.limit_in_bytes", "memory.max"].map(|file| dir.join(file)));
        let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
        assert!(!files.is_empty());
        files.iter().for_each(|file| fs::write(file, bytes.to_string()).unwrap());
    }
}

impl Drop for Apart {
    /// With what a test that failed has left there.
    fn drop(&mut self) {
        self.0.iter().for_each(|dir| empty(dir));
    }
}

fn empty(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            empty(&entry.path());
        }
    }
    for _ in 0..100 {
        let pids = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if fs::remove_dir(dir).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// EXE-2, EXE-7: the kernel ends a job for want of memory that is not the job's own: what it shares with others is full. It counts as
/// its host's, whether the job has a limit, which the kernel counts by, or none, where it is inferred.
#[test]
fn want_of_memory_of_the_host_is_told_from_the_own_limit() {
    let name = format!("tidemill-full-{}", std::process::id());
    let apart = Apart::make(&name);
    apart.bound_memory(128 << 20);
    for limits in [memory(2048), Limits::default()] {
        let place = Some(format!("/{name}"));
        let mut fixture = Fixture::with(|config| config.cgroup = place);
        // What was ended on the host before is looked at first.
        let (outcome, _, _) = fixture.run(limits, &format!("sleep 4; {HOG}"));
        let excess = outcome.excess.unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(
            (outcome.result, excess.kind, excess.limit),
            (AttemptResult::Failed, ExcessKind::HostMemory, None),
            "{outcome:?}"
        );
        fixture.end_shims();
    }
}

/// EXE-10, EXE-2: where a place is named for attempts, none of them is in the executor's own group, with limits or without, and
/// neither are their shims: the executor's group can be taken down and made again while they run.
#[test]
fn attempts_are_apart_from_the_executor_where_a_place_is_named() {
    let name = format!("tidemill-apart-{}", std::process::id());
    let apart = Apart::make(&name);
    let script = "grep -c tidemill-apart /proc/self/cgroup; cat /proc/self/cgroup; cat /proc/$PPID/cgroup";
    for limits in [Limits::default(), memory(64)] {
        let place = Some(format!("/{name}"));
        let mut fixture = Fixture::with(|config| config.cgroup = place);
        let (shims, own) = (
            format!("/{name}/tidemill-{}/shims", fixture.me.worker),
            format!("/tidemill-{}/4097", fixture.me.worker),
        );
        let (outcome, _, stdout) = fixture.run(limits, script);
        assert_eq!(outcome.result, AttemptResult::Success, "{stdout}");
        assert_eq!(stdout.lines().next(), Some(&*apart.0.len().to_string()), "{stdout}");
        assert!(stdout.contains(&shims), "{stdout}");
        assert_eq!(stdout.contains(&own), limits.memory_mb.is_some(), "{stdout}");
        assert!(
            fixture
                .groups()
                .iter()
                .all(|dir| dir.starts_with("/sys/fs/cgroup") && dir.to_string_lossy().contains(&name))
        );
        fixture.end_shims();
    }
}

/// EXE-2: groups that dead shims have left are removed when the worker starts again.
#[test]
fn groups_of_dead_shims_are_removed_at_the_next_start() {
    let fixture = Fixture::start();
    let groups = fixture.groups();
    let left: Vec<PathBuf> = groups.iter().map(|dir| dir.join("8193")).collect();
    let Fixture { dir, mut owner, executor, me } = fixture;
    executor.stop();
    executor.join();
    left.iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    let executor = Executor::start(&owner, config(dir.path()));
    let again = owner.hear_registration();
    assert_eq!(again.worker, me.worker);
    until("the groups are gone", || left.iter().all(|dir| !dir.exists()).then_some(()));
    assert!(!left.is_empty());
    Fixture { dir, owner, executor, me }.stop();
}
