//! EXE-5, EXE-10: processes that look as if they were an attempt's, and are not.

use std::fs;
use std::process::{Child, Command};

use rustix::process::Signal;
use tidemill_model::{AttemptResult, Token};

use crate::executor::log_of;
use crate::killed_worker::{TOKEN, WAITS, go, server_of};
use crate::shim::{is_alive, signal, until};
use crate::site::{Site, halt};

/// A process that is none of any attempt. Dropped, it ends.
struct Stranger {
    number: u32,
    /// The same, or who has started it, and waits for it.
    child: Child,
}

/// Starts a process of a number that is free, and waits for it. To set the number of the next process of the system instead would
/// give those of other tests numbers that are waited for there.
const STARTER: &str = r#"
import ctypes, os, struct, sys
number = (ctypes.c_int32 * 1)(int(sys.argv[1]))
SIGCHLD, CLONE3 = 17, 435
arguments = struct.pack("11Q", 0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(number), 1, 0)
child = ctypes.CDLL(None).syscall(CLONE3, arguments, len(arguments))
if child == 0: os.execv("/bin/sleep", ["sleep", "1000"])
if child < 0: sys.exit(1)
os.waitpid(child, 0)
"#;

impl Stranger {
    fn start(marks: &[(&str, &str)]) -> Self {
        let child = Self::command("sleep", marks).arg("1000").spawn().unwrap();
        Self { number: child.id(), child }
    }

    /// With the number that another process had.
    fn with_number(number: u32, marks: &[(&str, &str)]) -> Self {
        until("a process of the same number", || {
            let number_is = number.to_string();
            let mut child =
                Self::command("python3", marks).args(["-c", STARTER, &number_is]).spawn().unwrap();
            let command = format!("/proc/{number}/cmdline");
            until("a process, or none", || {
                let is_there = fs::read(&command).is_ok_and(|command| command == b"sleep\x001000\0");
                (is_there || child.try_wait().unwrap().is_some()).then_some(())
            });
            child.try_wait().unwrap().is_none().then(|| Self { number, child })
        })
    }

    fn command(program: &str, marks: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").envs(marks.iter().copied());
        command
    }

    fn is_alive(&self) -> bool {
        is_alive(self.number)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        signal(self.number, Signal::KILL);
        self.child.wait().unwrap();
    }
}

/// EXE-5: an attempt and all who watch over it are killed, and their numbers are other processes' by now. The next worker reports the
/// attempt as lost, and does nothing to them, though some look like an attempt's: of another worker, or of another attempt.
#[test]
fn later_processes_with_the_numbers_of_an_attempt_are_left_alone() {
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    site.run(&me, TOKEN, "echo >> runs; echo $PPID > shim; echo $$ > main; exec sleep 1000");
    let (main, shim) = (site.pid(TOKEN, "main"), site.pid(TOKEN, "shim"));
    let all = [server_of(&site, &worker), shim, main, worker.id()];
    all.into_iter().for_each(halt);
    all.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    worker.kill();
    site.expect_nothing_left();
    let (worker_id, token) = (me.worker.to_string(), TOKEN.to_string());
    let marks: [&[(&str, &str)]; 4] = [
        &[],
        &[("TIDEMILL_WORKER", &worker_id), ("TIDEMILL_TOKEN", "8193")],
        &[("TIDEMILL_WORKER", "w-0123456789abcdef"), ("TIDEMILL_TOKEN", &token)],
        &[("TIDEMILL_TOKEN", &token)],
    ];
    let strangers: Vec<_> =
        all.into_iter().zip(marks).map(|(pid, of)| Stranger::with_number(pid, of)).collect();

    let (worker, again) = site.begin(&[TOKEN]);
    assert_eq!((&again.worker, &again.live), (&me.worker, &Vec::new()));
    let (outcome, _) = site.hear_end(TOKEN);
    assert_eq!(outcome.result, AttemptResult::Lost);
    site.record(worker, &again, &[TOKEN]);
    assert_eq!(site.runs(TOKEN), 1);
    assert!(strangers.iter().all(Stranger::is_alive));
}

/// EXE-10: after a reboot of the machine another worker begins. It takes over no attempt of the one before, reports none and kills
/// nothing; what they have printed can still be read.
#[test]
fn worker_after_a_reboot_has_nothing_of_the_one_before_but_its_logs() {
    let mut site = Site::new();
    let (worker, me) = site.begin(&[]);
    let (ended, running, next) = (TOKEN, Token(8193), Token(12289));
    site.run(&me, ended, "echo >> runs; echo printed; exit 4");
    assert_eq!(site.hear_end(ended).0.exit_code, Some(4));
    site.run(&me, running, &format!("echo printed so far; echo $$ > main; {WAITS}"));
    let main = site.pid(running, "main");
    worker.kill();
    // The machine is still up, so this process stands for one that has nothing to do with the worker but its marks.
    let marks = [("TIDEMILL_WORKER", me.worker.to_string()), ("TIDEMILL_TOKEN", running.to_string())];
    let stranger = Stranger::start(&marks.each_ref().map(|(name, value)| (*name, &**value)));
    let identity = site.data().join("worker.json");
    let mut earlier: serde_json::Value = serde_json::from_slice(&fs::read(&identity).unwrap()).unwrap();
    earlier["boot"] = "11111111-2222-3333-4444-555555555555".into();
    fs::write(&identity, serde_json::to_vec(&earlier).unwrap()).unwrap();

    let (worker, again) = site.begin(&[]);
    assert_ne!(again.worker, me.worker);
    assert_eq!((again.live.len(), again.running.len()), (0, 0));
    for (token, printed) in [(ended, "printed\n"), (running, "printed so far\n")] {
        let log = log_of(&again, token, "");
        assert_eq!((log["content"].as_str(), log["is_end"].as_bool()), (Some(printed), Some(true)));
        assert!(!site.attempt(token).exists() && site.runs(token) == 1);
    }
    // It works, and what it says is of its own attempt alone.
    site.run(&again, next, WAITS);
    go(&site, next);
    assert_eq!(site.hear_end(next).0.exit_code, Some(3));
    until("the end of a job that nobody can take over", || (!is_alive(main)).then_some(()));
    site.record(worker, &again, &[next]);
    assert!(stranger.is_alive());
}
