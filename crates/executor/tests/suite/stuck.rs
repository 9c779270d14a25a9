//! ZMB-2: a process that cannot be killed, for it waits in the kernel for a disk that does not answer.

use std::io::Read as _;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use tidemill_executor::News;

use crate::output::Frozen;
use crate::shim::{Attempt, is_alive, script, signal, until};

/// Looks that find a process in the kernel before it counts as hanging there.
const LOOKS: u32 = 50;

/// The job writes to a disk that hangs.
fn job(disk: &Frozen, dir: &tempfile::TempDir) -> Attempt {
    let text = "echo $PPID > shim; echo $$ > main; while [ ! -e go ]; do sleep 0.05; done; exec touch \"$DISK/file\"";
    let mut spec = script(text);
    spec.env.insert("DISK".to_owned(), dir.path().to_str().unwrap().to_owned());
    let _ = disk;
    Attempt::start(&spec)
}

/// Lets the job run into the disk, and waits until it hangs there.
fn hang(attempt: &Attempt) -> u32 {
    let main = attempt.pid("main");
    std::fs::write(attempt.path("work").join("go"), "").unwrap();
    // A process that reads its program from the disk waits in the same state, and not for long.
    let mut looks = 0;
    until("a write that hangs", || {
        let stat = std::fs::read_to_string(format!("/proc/{main}/stat")).ok()?;
        looks = if stat.contains("(touch) D ") { looks + 1 } else { 0 };
        (looks > LOOKS).then_some(())
    });
    main
}

/// The next news but that it runs, and where.
fn stuck(mut worker: &UnixStream) -> String {
    let mut said = Vec::new();
    loop {
        let mut byte = [0];
        worker.read_exact(&mut byte).unwrap();
        said.push(byte[0]);
        for news in News::take(&mut said) {
            match news {
                News::Started | News::Located(_) => {}
                News::Stuck(process) => return process,
                news => panic!("{news:?}"),
            }
        }
    }
}

/// ZMB-2: a shim says what it cannot kill, to the next worker, too; the attempt ends once the process is gone, and as it was to end.
#[test]
fn process_that_cannot_be_killed_is_named_and_its_attempt_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Frozen::mount(dir.path());
    let mut attempt = job(&disk, &dir);
    attempt.pid("main");
    let frozen = disk.freeze();
    let main = hang(&attempt);
    attempt.order("kill 0 asked");
    let said = stuck(&attempt.worker);
    assert!(said.starts_with(&format!("process {main} (touch), state D")), "{said}");
    attempt.leave();
    attempt.worker = attempt.next_worker();
    assert_eq!(stuck(&attempt.worker), said);
    assert!(is_alive(main) && attempt.record().is_none(), "it has not ended");
    drop(frozen);
    let record = attempt.end();
    assert_eq!((record.signal, record.kill_cause), (Some(9), Some(tidemill_executor::KillCause::Asked)));
}

/// ZMB-2: the same where the shim was killed: the server of shims says it, and nobody takes the attempt for ended.
#[test]
fn what_a_killed_shim_leaves_and_nobody_can_kill_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Frozen::mount(dir.path());
    let attempt = job(&disk, &dir);
    attempt.pid("main");
    let frozen = disk.freeze();
    let main = hang(&attempt);
    signal(attempt.pid("shim"), Signal::KILL);
    let said = stuck(&attempt.worker);
    assert!(said.starts_with(&format!("process {main} (touch)")), "{said}");
    drop(frozen);
    until("the end", || (!is_alive(main)).then_some(()));
}
