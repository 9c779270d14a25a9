//! ZMB-2: a process that SIGKILL does not end, for it hangs in a call of the kernel: a network file system without its server, a
//! disk that does not answer.
//!
//! It is killed again and again, and goes once the kernel lets it. Until then its attempt has not ended, and people hear
//! of it.

use std::fs;

/// So long after the first SIGKILL a process is stuck, milliseconds.
const STUCK_AFTER_MS: u64 = 10_000;
/// Bytes of a name in `/proc`.
const NAME_MAX: usize = 64;

/// Whether something cannot be killed.
#[derive(Debug, Default)]
pub(crate) struct Stuck {
    first_kill_ms: Option<u64>,
    process: Option<String>,
}

impl Stuck {
    /// This one lives after a walk that killed it. Gives what people are to hear, once.
    pub(crate) fn lives_on(&mut self, pid: i32, now_ms: u64) -> Option<&str> {
        let since_ms = *self.first_kill_ms.get_or_insert(now_ms);
        if self.process.is_some() || now_ms < since_ms.saturating_add(STUCK_AFTER_MS) {
            return None;
        }
        self.process = Some(describe(pid));
        self.process()
    }

    /// What cannot be killed, for people.
    pub(crate) fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }
}

/// Number, name, state and where it hangs, as far as the kernel says so.
fn describe(pid: i32) -> String {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        text.chars().filter(|character| !character.is_control()).take(NAME_MAX).collect::<String>()
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("unknown").trim();
    let call = match &*read("wchan") {
        "" | "0" => String::new(),
        call => format!(" in {call}"),
    };
    format!("process {pid} ({}), state {state}{call}", read("comm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ZMB-2: it is said once, with what is known of the process, and not before it was killed for a while.
    #[test]
    fn a_process_that_lives_on_is_named_once() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut stuck = Stuck::default();
        assert_eq!(stuck.lives_on(pid, 5), None);
        assert_eq!(stuck.lives_on(pid, 4 + STUCK_AFTER_MS), None);
        let said = stuck.lives_on(pid, 5 + STUCK_AFTER_MS).unwrap().to_owned();
        assert!(said.starts_with(&format!("process {pid} (")) && said.contains("state "), "{said}");
        assert_eq!(stuck.lives_on(pid, 6 + STUCK_AFTER_MS), None);
        assert_eq!(stuck.process(), Some(&*said));
    }
}
