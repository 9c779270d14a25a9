//! The one call that the compiler cannot check: a copy of this process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::libc;
use nix::unistd::ForkResult;
use rustix::process::Pid;

/// What a panic makes of the copy: the exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Runs this in a copy of this process, which ends with the exit code that it gives. The process must have
/// no other thread; docs/adr/0007 says why it is a copy and not another program.
#[allow(unsafe_code)]
pub(super) fn fork(run: impl FnOnce() -> i32) -> nix::Result<Pid> {
    // SAFETY: what makes fork unsafe is what other threads hold at that moment and nobody in the copy will
    // ever release: locks, the allocator's among them. The server has refused to begin with a second thread
    // and never starts one, so every lock is free and the heap is whole. What the copy owns besides memory,
    // its descriptors, are owned there by the same values as here.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => {
            Ok(Pid::from_raw(child.as_raw()).expect("a process that was started has a number"))
        }
        ForkResult::Child => {
            // Unwinding must not reach the server's loop, which this copy is not.
            let code = catch_unwind(AssertUnwindSafe(run)).unwrap_or(PANICKED);
            // SAFETY: `_exit` only ends the process; what the server registered to be done at its end is
            // the server's to do.
            unsafe { libc::_exit(code) }
        }
    }
}
