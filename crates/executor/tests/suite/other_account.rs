//! EXE-2, EXE-5: what a job of another account than the worker's may not do: to the worker, to shims, to the server of shims, to attempts of
//! other accounts, and to what of its own attempt is the worker's. Files of keys are the program's: its test of attacks tries those.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use tidemill_model::{AttemptResult, RunSpec, Token};

use crate::executor::{log_of, spec};
use crate::killed_worker::{TOKEN, WAITS, go, server_of};
use crate::shim::{is_alive, until};
use crate::site::Site;

/// What is tried on files: what it is, and how in Python. Each is refused as what the account may not do (EACCES).
const ON_FILES: &[(&str, &str)] = &[
    ("list the worker's directory", "os.listdir(data)"),
    ("list attempts", "os.listdir(data + '/attempts')"),
    ("list attempts that have ended", "os.listdir(data + '/ended')"),
    ("read who the worker is", "open(data + '/worker.json')"),
    ("say who the worker is", "os.rename('tries', data + '/worker.json')"),
    ("hold the worker's lock", "open(data + '/lock', 'w')"),
    ("make an attempt", "os.mkdir(data + '/attempts/12289')"),
    ("list another attempt", "os.listdir(other)"),
    ("hold its lock", "os.open(other, os.O_RDONLY)"),
    ("read its script", "open(other + '/script.sh')"),
    ("write its script", "open(other + '/script.sh', 'a')"),
    ("read its output", "open(other + '/stdout')"),
    ("write its output", "open(other + '/stdout', 'a')"),
    ("read what it passes on", "open(other + '/values.json')"),
    ("write what it passes on", "open(other + '/values.json', 'a')"),
    ("list where it works", "os.listdir(other + '/work')"),
    ("write where it works", "open(other + '/work/x', 'w')"),
    ("write down its end", "open(other + '/exit.json', 'w')"),
    ("connect to its shim", "connect(other + '/control')"),
    ("remove its shim's socket", "os.unlink(other + '/control')"),
    ("move it", "os.rename(other, data + '/attempts/12289')"),
    ("list its own attempt", "os.listdir(own)"),
    ("hold its own lock", "os.open(own, os.O_RDONLY)"),
    ("write its own output", "open(own + '/stdout', 'a')"),
    ("write down its own end", "open(own + '/exit.json', 'w')"),
    ("prepare its own end", "open(own + '/exit.json.new', 'w')"),
    ("connect to its own shim", "connect(own + '/control')"),
    ("remove its own shim's socket", "os.unlink(own + '/control')"),
    ("put a socket in its place", "socket.socket(socket.AF_UNIX).bind(own + '/control.new')"),
    ("say what it runs", "os.symlink('5/6/2026-07-01T09:00:00Z', own + '/run.new')"),
    ("move where it works", "os.rename(own + '/work', own + '/x')"),
    ("move its own attempt", "os.rename(own, data + '/attempts/12289')"),
];

/// What is tried on each process, with the word of the refusal.
const ON_PROCESSES: &[(&str, &str, &str)] = &[
    ("kill", "os.kill(pid, signal.SIGKILL)", "EPERM"),
    ("stop", "os.kill(pid, signal.SIGSTOP)", "EPERM"),
    ("trace", "refused(libc.ptrace(16, pid, 0, 0))", "EPERM"),
    ("take the sockets of", "refused(libc.syscall(438, os.pidfd_open(pid), 0, 0))", "EPERM"),
    ("read the memory of", "read_memory(pid)", "EPERM"),
    ("open the memory of", "open(f'/proc/{pid}/mem', 'rb')", "EACCES"),
    ("read the environment of", "open(f'/proc/{pid}/environ').read()", "EACCES"),
    ("list the descriptors of", "os.listdir(f'/proc/{pid}/fd')", "EACCES"),
    ("open the standard input of", "open(f'/proc/{pid}/fd/0')", "EACCES"),
    ("go where it works,", "os.chdir(f'/proc/{pid}/cwd')", "EACCES"),
    ("limit", "resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))", "EPERM"),
    ("slow", "os.setpriority(os.PRIO_PROCESS, pid, 19)", "EPERM"),
    ("choose for the want of memory", "open(f'/proc/{pid}/oom_score_adj', 'w')", "EACCES"),
];

/// The beginning of the program that tries.
const TRIES: &str = r#"
import ctypes, errno, os, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(result):
    if result == -1: raise OSError(ctypes.get_errno(), "refused")
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
def read_memory(pid):
    room = ctypes.create_string_buffer(8)
    here, there = Piece(ctypes.addressof(room), 8), Piece(4096, 8)
    refused(libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
def connect(path): socket.socket(socket.AF_UNIX).connect(path)
def attempt(name, what, pid=None):
    try: exec(what, globals() | {"pid": pid})
    except OSError as error: print(f"{name}: {errno.errorcode[error.errno]}")
    else: print(f"{name}: done")
print("open:", *sorted(fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")))
"#;

/// The program, and what it prints where everything is refused.
fn tries(site: &Site, own: Token, processes: &[(&str, u32)]) -> (String, String) {
    let (data, other) = (site.data(), site.attempt(TOKEN));
    let mut program = format!(
        "{TRIES}data, other, own = {:?}, {:?}, {:?}\n",
        data.to_str().unwrap(),
        other.to_str().unwrap(),
        site.attempt(own).to_str().unwrap()
    );
    let mut expected = "open: 0 1 2\n".to_owned();
    for (name, what) in ON_FILES {
        program.push_str(&format!("attempt({name:?}, {what:?})\n"));
        expected.push_str(&format!("{name}: EACCES\n"));
    }
    for (whose, pid) in processes {
        for (name, what, word) in ON_PROCESSES {
            program.push_str(&format!("attempt(\"{name} {whose}\", {what:?}, {pid})\n"));
            expected.push_str(&format!("{name} {whose}: {word}\n"));
        }
    }
    (program, expected)
}

fn as_account(account: &str, token: Token, script: &str) -> RunSpec {
    RunSpec { run_as: Some(account.try_into().unwrap()), ..spec(token, "shell", script) }
}

/// EXE-2, EXE-5, EXE-10: neither an account that has nothing to do with that of the other attempt, nor one of the same group, gets anywhere,
/// while both wait for the next worker, or have been taken over by it. The other attempt goes on as if nothing had happened.
#[test]
fn job_of_another_account_reaches_no_attempt_but_its_own() {
    for spy in ["daemon", "sync"] {
        let mut site = Site::new();
        let (worker, me) = site.begin(&[]);
        let own = Token(8193);
        let script = format!("echo printed; echo $PPID > shim; echo $$ > main; {WAITS}");
        site.owner.grant(&me, &as_account("nobody", TOKEN, &script));
        site.owner.hear_started(TOKEN);
        let waits = "id -un; echo $PPID > shim; while [ ! -e tries ]; do sleep 0.05; done; exec /usr/bin/python3 tries";
        site.owner.grant(&me, &as_account(spy, own, waits));
        site.owner.hear_started(own);
        let (shim, main, own_shim) =
            (site.pid(TOKEN, "shim"), site.pid(TOKEN, "main"), site.pid(own, "shim"));
        worker.kill();
        let (worker, again) = site.begin(&[TOKEN, own]);
        assert_eq!(again.live, [TOKEN, own]);
        for token in [TOKEN, own] {
            let control = site.attempt(token).join("control");
            until("the control socket", || control.exists().then_some(()));
        }
        let processes = [
            ("the worker", worker.id()),
            ("its server of shims", server_of(&site, &worker)),
            ("the shim of another attempt", shim),
            ("the job of another attempt", main),
            ("its own shim", own_shim),
        ];
        let (program, expected) = tries(&site, own, &processes);
        let place = site.attempt(own).join("work");
        fs::write(place.join("tries.new"), program).unwrap();
        fs::set_permissions(place.join("tries.new"), Permissions::from_mode(0o644)).unwrap();
        fs::rename(place.join("tries.new"), place.join("tries")).unwrap();
        let record = site.attempt(own).join("exit.json");
        until("the end of the tries", || record.exists().then_some(()));
        let said = fs::read_to_string(site.attempt(own).join("stdout")).unwrap();
        let expected = format!("{spy}\n{expected}");
        let other: Vec<_> =
            said.lines().zip(expected.lines()).filter(|(said, expected)| said != expected).collect();
        assert!(said == expected, "said, and expected: {other:#?}");

        assert!(processes.into_iter().all(|(_, pid)| is_alive(pid) || pid == own_shim));
        go(&site, TOKEN);
        let ends = site.hear_ends(&[TOKEN, own]);
        let (failed, success) = (AttemptResult::Failed, AttemptResult::Success);
        let ends = ends.map(|(outcome, _)| (outcome.result, outcome.exit_code));
        assert_eq!(ends, [(failed, Some(3)), (success, Some(0))]);
        assert_eq!(log_of(&again, TOKEN, "")["content"], "printed\n");
        site.record(worker, &again, &[TOKEN, own]);
    }
}
