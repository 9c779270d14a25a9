//! LOG-1, EXE-6: what jobs print, through pipes into logs.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use tidemill_executor::{ExitRecord, KillCause, Lease, News, OutputCount, ShimSpec};

use crate::shim::{Attempt, Fixture, boottime_ms, hear_all, is_alive, script, signal, until};

/// The line that says what is missing: offset, bytes, reason; and where it stands.
fn gap(log: &[u8]) -> Option<(u64, u64, String, RangeInclusive<usize>)> {
    const HEAD: &[u8] = b"[tidemill] output gap: offset=";
    let begin = log.windows(HEAD.len()).position(|piece| piece == HEAD)?;
    assert!(begin == 0 || log[begin - 1] == b'\n', "it is a line of its own");
    let end = begin + log[begin..].iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8(log[begin + HEAD.len()..end].to_vec()).unwrap();
    let (offset, rest) = line.split_once(" dropped=").unwrap();
    let (dropped, reason) = rest.split_once(" reason=").unwrap();
    Some((offset.parse().unwrap(), dropped.parse().unwrap(), reason.to_owned(), begin..=end))
}

fn limited(text: &str, max_bytes: u64) -> ShimSpec {
    ShimSpec { output_max_bytes: Some(max_bytes), ..script(text) }
}

fn counted(written_bytes: u64, dropped_bytes: u64) -> OutputCount {
    OutputCount { written_bytes, dropped_bytes }
}

/// Writes into the pipe that the job reads before it goes on. It reads each once: the writer may not have closed it by then.
fn go(attempt: &Attempt, pipe: &str) {
    fs::write(attempt.path("work").join(pipe), "\n").unwrap();
}

fn wait_for(path: &Path) {
    until(&path.display().to_string(), || path.exists().then_some(()));
}

/// LOG-1: a job that prints gigabytes fills no disk, is not held up, and ends as it likes.
#[test]
fn a_gigabyte_of_output_takes_no_more_of_the_disk_than_its_limit() {
    const MAX: u64 = 1 << 20;
    let mut attempt = Attempt::start(&limited("head -c 1000000000 /dev/zero; exit 7", MAX));
    let record = attempt.end();
    assert_eq!((record.exit_code, record.stdout), (Some(7), counted(MAX, 1_000_000_000 - MAX)));
    let log = fs::read(attempt.path("stdout")).unwrap();
    let (offset, dropped, reason, line) = gap(&log).unwrap();
    assert_eq!((offset, dropped), (MAX - (64 << 10), 1_000_000_000 - MAX));
    assert_eq!(reason, "longer than 1048576 bytes");
    // The line, and the end of the one before it.
    assert_eq!(log.len() as u64, MAX + line.count() as u64 + 1);
}

/// LOG-1: of what is too long, the beginning and the end are there, with a line between them that says what is not.
#[test]
fn head_and_tail_of_a_long_output_are_kept() {
    let mut attempt = Attempt::start(&limited("seq 1 400000 >&2; echo short", 256 << 10));
    let whole: String = (1..=400_000).map(|number| format!("{number}\n")).collect();
    let record = attempt.end();
    let log = fs::read(attempt.path("stderr")).unwrap();
    let (offset, dropped, _, line) = gap(&log).unwrap();
    let head = &log[..usize::try_from(offset).unwrap()];
    assert!(whole.as_bytes().starts_with(head) && head.len() == 192 << 10);
    let tail = &log[line.end() + 1..];
    assert!(whole.as_bytes().ends_with(tail) && tail.len() == 64 << 10);
    assert_eq!(offset + dropped + (64 << 10), whole.len() as u64);
    assert_eq!(record.stderr, counted(256 << 10, dropped));
    assert_eq!((attempt.stdout().as_str(), record.stdout), ("short\n", counted(6, 0)));
}

/// LOG-1: whatever bytes a job prints are in the log, up to exactly the limit; both streams, each in its order.
#[test]
fn binary_output_without_newlines_is_byte_identical() {
    let text = "head -c 3000000 /dev/urandom > a; head -c 2000001 /dev/urandom > b; cat b >&2 & cat a; wait";
    let mut attempt = Attempt::start(&limited(text, 3_000_000));
    let record = attempt.end();
    for (printed, log) in [("work/a", "stdout"), ("work/b", "stderr")] {
        let [printed, log] = [printed, log].map(|name| fs::read(attempt.path(name)).unwrap());
        assert!(printed == log, "{} bytes, {} in the log", printed.len(), log.len());
    }
    assert_eq!((record.stdout, record.stderr), (counted(3_000_000, 0), counted(2_000_001, 0)));
}

/// A job does with its outputs what it likes: it closes them, opens them again, or puts something else in their place.
#[test]
fn job_may_close_reopen_and_replace_its_outputs() {
    let mut attempt = Attempt::start(&script("exec >&-; echo err >&2; echo lost 2> /dev/null || exit 4"));
    let record = attempt.end();
    assert_eq!((record.exit_code, record.stdout, record.stderr), (Some(4), counted(0, 0), counted(4, 0)));

    let mut attempt = Attempt::start(&script("echo a > /dev/stdout; echo b > /dev/stderr; echo c"));
    assert_eq!(attempt.end().exit_code, Some(0));
    assert_eq!(attempt.stdout(), "a\nc\n");
    assert_eq!(fs::read_to_string(attempt.path("stderr")).unwrap(), "b\n");

    let text =
        "mkfifo fifo; cat fifo > copy & echo before; exec > fifo; echo into; exec > /dev/null; wait; exit 5";
    let mut attempt = Attempt::start(&script(text));
    assert_eq!(attempt.end().exit_code, Some(5));
    assert_eq!(attempt.stdout(), "before\n");
    assert_eq!(fs::read_to_string(attempt.path("work/copy")).unwrap(), "into\n");
}

/// EXE-2: a job that runs as another account can open its outputs by their names, and the logs are not its own.
#[test]
fn job_of_another_account_may_reopen_its_outputs() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    let text = "id -un; echo a > /dev/stdout; echo b > /dev/stderr; cat ../stdout > /dev/null 2>&1 || exit 3";
    let spec = ShimSpec { run_as: Some("nobody".to_owned()), ..script(text) };
    let mut attempt = Attempt::start_with(Fixture::start_in(dir), &spec);
    let record = attempt.end();
    assert_eq!((record.exit_code, record.error), (Some(3), None));
    assert_eq!(attempt.stdout(), "nobody\na\n");
    assert_eq!(fs::read_to_string(attempt.path("stderr")).unwrap(), "b\n");
}

/// A job that prints nothing costs no thread, one that prints and runs on costs one; what it has printed is there while it runs.
#[test]
fn only_a_job_that_prints_and_runs_on_costs_a_thread() {
    let mut attempt =
        Attempt::start(&script("mkfifo go on; echo $PPID > shim; read x < go; echo word; read x < on"));
    let tasks = PathBuf::from(format!("/proc/{}/task", attempt.pid("shim")));
    let threads = || fs::read_dir(&tasks).unwrap().count();
    assert_eq!(threads(), 1);
    assert!(!attempt.path("stderr").exists(), "nor a file");
    go(&attempt, "go");
    until("the word", || (attempt.stdout() == "word\n").then_some(()));
    assert_eq!(threads(), 2);
    go(&attempt, "on");
    assert_eq!(attempt.end().exit_code, Some(0));
}

/// A file system of the test's own.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: &Path, options: &[&str]) -> Self {
        run("mount", options, path);
        Self(path.to_owned())
    }

    /// A small one in memory.
    fn in_memory(path: &Path) -> Self {
        Self::mount(path, &["-t", "tmpfs", "-o", "size=2m", "tidemill-test"])
    }

    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        std::io::copy(&mut std::io::repeat(0), &mut filler).unwrap_err();
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    let done = Command::new(program).args(arguments).arg(path).output().unwrap();
    assert!(done.status.success(), "tests run as root: {}", String::from_utf8_lossy(&done.stderr));
}

/// LOG-1: a full disk holds no job up; its log says where something is missing as soon as it can, without the job printing
/// anything, and goes on.
#[test]
fn full_disk_holds_no_job_up_and_its_log_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(dir.path());
    let text = "mkfifo go on; echo $$ > main; echo first; read x < go; head -c 500000 /dev/zero; exec 3> \"$ELSEWHERE\"; \
        read x < on; echo last; exit 6";
    let mut spec = script(text);
    let elsewhere = tempfile::tempdir().unwrap();
    let printed = elsewhere.path().join("printed");
    spec.env.insert("ELSEWHERE".to_owned(), printed.to_str().unwrap().to_owned());
    let mut attempt = Attempt::start_with(Fixture::start_in(dir), &spec);
    attempt.pid("main");
    until("the first line", || (attempt.stdout() == "first\n").then_some(()));
    disk.fill();
    go(&attempt, "go");
    wait_for(&printed);
    disk.empty();
    let file = attempt.path("stdout");
    let read = || fs::read(&file).unwrap();
    let (offset, dropped, reason, line) = until("the line of the gap", || gap(&read()));
    assert_eq!(reason, "cannot write: No space left on device (os error 28)");
    assert_eq!((offset + dropped, line.end() + 1), (500_006, read().len()));
    go(&attempt, "on");
    let record = attempt.end();
    assert_eq!((record.exit_code, record.stdout), (Some(6), counted(offset + 5, dropped)));
    assert!(read().ends_with(b"\nlast\n"));
}

/// EXE-3, LOG-1: the exit code of a job reaches its worker though neither its output nor its end can be written down.
#[test]
fn end_is_reported_where_nothing_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::in_memory(dir.path());
    let text = "mkfifo go; echo $$ > main; read x < go; head -c 100000 /dev/zero >&2; exit 6";
    let attempt = Attempt::start_with(Fixture::start_in(dir), &script(text));
    attempt.pid("main");
    disk.fill();
    go(&attempt, "go");
    let news = hear_all(&attempt.worker);
    let [News::Started, News::Ended(record)] = &news[..] else { panic!("{news:?}") };
    assert_eq!((record.exit_code, record.stderr.dropped_bytes), (Some(6), 100_000));
    assert_eq!(attempt.record(), None);
}

/// The limit of the sizes of files, which an executor may be started under, ends no shim.
#[test]
fn limit_of_file_sizes_is_an_error_of_the_log_alone() {
    let text = "mkfifo go; echo $PPID > shim; read x < go; head -c 300000 /dev/zero; exit 6";
    let mut attempt = Attempt::start(&script(text));
    let shim = Pid::from_raw(attempt.pid("shim").try_into().unwrap());
    prlimit(shim, Resource::Fsize, Rlimit { current: Some(100_000), maximum: Some(100_000) }).unwrap();
    go(&attempt, "go");
    let record = attempt.end();
    assert_eq!((record.exit_code, record.stdout), (Some(6), counted(100_000, 200_000)));
}

/// EXE-6: what a process prints whose parent is gone is in the log, and what it prints until it is ended.
#[test]
fn grandchild_that_outlives_its_parent_goes_on_printing() {
    let text = "(setsid seq 1 100000000 &); \
        while test $(stat -c %s ../stdout) -lt 1000000; do sleep 0.01; done; echo done >&2; exit 3";
    let mut attempt = Attempt::start(&script(text));
    let record = attempt.end();
    assert_eq!((record.exit_code, record.stdout.dropped_bytes), (Some(3), 0));
    let log = attempt.stdout();
    assert!(log.len() > 1_000_000 && log.len() as u64 == record.stdout.written_bytes);
    let numbers = log.split_inclusive('\n').enumerate();
    let (whole, cut): (Vec<_>, Vec<_>) = numbers.partition(|(_, line)| line.ends_with('\n'));
    assert!(whole.iter().all(|(index, line)| **line == format!("{}\n", index + 1)), "none is missing");
    assert!(cut.len() <= 1);
}

/// EXE-5: a process that is none of the job's, and has its output open, holds no end up; what the job has printed is there.
#[test]
fn stranger_with_the_output_open_does_not_hold_up_the_end() {
    let text = "mkfifo go; echo $$ > main; echo begin; read x < go; seq 1 10000; echo end";
    let mut attempt = Attempt::start(&script(text));
    let main = attempt.pid("main");
    let mut stranger = File::options().write(true).open(format!("/proc/{main}/fd/1")).unwrap();
    // More than is copied at once, so that the pipe is never empty.
    rustix::pipe::fcntl_setpipe_size(&stranger, 1 << 20).unwrap();
    let prints = thread::spawn(move || while stranger.write_all(&[0; 64 << 10]).is_ok() {});
    go(&attempt, "go");
    let record = attempt.end();
    prints.join().unwrap();
    let log = attempt.stdout();
    assert_eq!((record.exit_code, record.stdout), (Some(0), counted(log.len() as u64, 0)));
    let of_job: String = log.replace('\0', "");
    let numbers: String = (1..=10_000).map(|number| format!("{number}\n")).collect();
    assert!(of_job.starts_with(&format!("begin\n{numbers}end\n")), "{} bytes", of_job.len());
}

/// LOG-1, EXE-10: no byte of a job is missing that prints while its worker is killed and the next one comes.
#[test]
fn output_is_whole_where_the_worker_is_killed_meanwhile() {
    let text = "for part in 1 2 3 4 5 6; do seq $part 6 300000; echo $part > part; sleep 0.1; done; echo $$ > all; exit 3";
    let mut attempt = Attempt::start(&script(text));
    for _ in 0..2 {
        attempt.pid("part");
        attempt.leave();
        attempt.worker = attempt.next_worker();
    }
    attempt.pid("all");
    hear_all(&attempt.worker);
    let record = attempt.record().unwrap();
    let printed: String = (1..=6)
        .flat_map(|part| (part..=300_000).step_by(6))
        .map(|number: u32| format!("{number}\n"))
        .collect();
    assert!(attempt.stdout() == printed);
    assert_eq!((record.exit_code, record.stdout), (Some(3), counted(printed.len() as u64, 0)));
}

/// A disk that takes everything until it hangs: who writes to it then is in state D, and no signal reaches it.
pub(crate) struct Frozen {
    disk: Disk,
    _image: tempfile::NamedTempFile,
}

impl Frozen {
    pub(crate) fn mount(path: &Path) -> Self {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(16 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0"], image.path());
        let disk = Disk::mount(path, &["-o", "loop", image.path().to_str().unwrap()]);
        Self { disk, _image: image }
    }

    pub(crate) fn freeze(&self) -> Hang<'_> {
        run("fsfreeze", &["-f"], &self.disk.0);
        Hang(&self.disk)
    }
}

/// Dropped, it lets the disk go on: before a test that has failed waits for what waits for the disk.
pub(crate) struct Hang<'a>(&'a Disk);

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0.0).status();
    }
}

/// Until one of its threads waits for the disk.
fn wait_for_hang(shim: u32) {
    until("a write that hangs", || {
        let tasks = fs::read_dir(format!("/proc/{shim}/task")).unwrap();
        let hangs =
            |task: PathBuf| fs::read_to_string(task.join("stat")).is_ok_and(|stat| stat.contains(") D "));
        tasks.flatten().any(|task| hangs(task.path())).then_some(())
    });
}

/// Rule 9, TMO-5: a disk that hangs keeps neither a lease nor an order to kill from ending a job that prints, nor does it where the
/// worker is gone.
#[test]
fn lease_and_kill_hold_while_the_disk_of_the_log_hangs() {
    for (by_order, is_alone) in [(false, false), (false, true), (true, false)] {
        let dir = tempfile::tempdir().unwrap();
        let disk = Frozen::mount(dir.path());
        let mut spec = script("trap '' TERM; echo $PPID > shim; echo $$ > main; while :; do echo line; done");
        spec.lease = Some(Lease { term_at_ms: boottime_ms() + 5_000, kill_at_ms: boottime_ms() + 5_200 });
        if by_order {
            spec.lease = None;
        }
        let mut attempt = Attempt::start_with(Fixture::start_in(dir), &spec);
        let (shim, main) = (attempt.pid("shim"), attempt.pid("main"));
        let frozen = disk.freeze();
        wait_for_hang(shim);
        if by_order {
            attempt.order("kill 100 asked");
        }
        if is_alone {
            attempt.leave();
        }
        until("the end of the job", || (!is_alive(main)).then_some(()));
        drop(frozen);
        let cause = if by_order { KillCause::Asked } else { KillCause::Lease };
        let record = until("the record", || attempt.record());
        assert_eq!((record.kill_cause, record.signal), (Some(cause), Some(9)));
        assert_eq!(record.stdout.dropped_bytes, 0);
    }
}

/// LOG-1: a disk that goes on hanging takes output from a job, and not its time.
#[test]
fn job_goes_on_while_the_disk_of_its_log_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Frozen::mount(dir.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let text = "cd \"$ELSEWHERE\"; mkfifo go on; echo first; read x < go; seq 1 100000; \
        echo > printed; read x < on; echo last; exit 6";
    let mut spec = script(text);
    spec.env.insert("ELSEWHERE".to_owned(), elsewhere.path().to_str().unwrap().to_owned());
    let mut attempt = Attempt::start_with(Fixture::start_in(dir), &spec);
    let go = |pipe: &str| fs::write(elsewhere.path().join(pipe), "\n").unwrap();
    let first = || fs::read(attempt.path("stdout")).is_ok_and(|log| log == b"first\n");
    until("the first line", || first().then_some(()));
    let frozen = disk.freeze();
    go("go");
    wait_for(&elsewhere.path().join("printed"));
    drop(frozen);
    let log = attempt.path("stdout");
    until("the line of the gap", || gap(&fs::read(&log).unwrap()));
    go("on");
    let record = attempt.end();
    assert_eq!(record.exit_code, Some(6));
    let log = fs::read(attempt.path("stdout")).unwrap();
    let (offset, dropped, reason, line) = gap(&log).unwrap();
    assert_eq!(reason, "a write took longer than 10000 ms");
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let whole = format!("first\n{numbers}last\n");
    let (before, after) = (usize::try_from(offset).unwrap(), usize::try_from(offset + dropped).unwrap());
    assert!(log.starts_with(&whole.as_bytes()[..before]), "what comes before the line is the beginning");
    assert!(log[line.end() + 1..] == whole.as_bytes()[after..], "what comes behind it is the rest");
    assert_eq!(record.stdout, counted(whole.len() as u64 - dropped, dropped));
}

/// What a killed job has printed is all there.
#[test]
fn killed_job_leaves_all_that_it_has_printed() {
    let mut attempt = Attempt::start(&script("seq 1 5000; echo $$ > main; exec sleep 1000"));
    signal(attempt.pid("main"), Signal::KILL);
    let record: ExitRecord = attempt.end();
    let numbers: String = (1..=5_000).map(|number| format!("{number}\n")).collect();
    assert!(attempt.stdout() == numbers);
    assert_eq!(record.signal, Some(9));
}
