//! Secrets that this program draws, and those that people give it.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::{Done, Failure};
use crate::output;

/// `N` random bytes in hexadecimal.
pub fn draw<const N: usize>() -> String {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex(&bytes)
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Most bytes that are read of what a person types or a program pipes.
const MAX_TYPED_BYTES: u64 = 64 << 10;

/// A secret that a person types without seeing it, or the first line of standard input where that is no terminal.
pub(crate) fn ask(prompt: &str) -> Done<String> {
    let input = io::stdin();
    let mut line = String::new();
    let cannot = |error: io::Error| Failure::caused("cannot read what is secret from standard input", &error);
    if input.is_terminal() {
        // Written without a line end, so it is not a remark.
        let _ = write!(io::stderr(), "{prompt}: ").and_then(|()| io::stderr().flush());
        let _silent = Silent::begin(input.as_fd()).map_err(|error| cannot(error.into()))?;
        input.lock().take(MAX_TYPED_BYTES).read_line(&mut line).map_err(cannot)?;
        output::note("");
    } else {
        input.lock().take(MAX_TYPED_BYTES).read_line(&mut line).map_err(cannot)?;
    }
    let secret = line.trim().to_owned();
    if secret.is_empty() {
        return Err(Failure::bad_input(format!("nothing was given for: {prompt}"))
            .hint("type it where it is asked for, or pipe it in, one line for each question"));
    }
    Ok(secret)
}

/// Whether a person types what is asked for.
pub(crate) fn is_typed() -> bool {
    io::stdin().is_terminal()
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silent<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn begin(terminal: BorrowedFd<'a>) -> Result<Self, rustix::io::Errno> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing either.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}
