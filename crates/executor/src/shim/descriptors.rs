//! What is open when a server of shims begins.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::unistd::close;

/// Standard input, output and errors.
const STANDARD: i32 = 2;

/// Closes all but the standard descriptors: what the starter of the worker left open by mistake would else be open in
/// every job. Comes before anything is opened here.
pub(super) fn close_inherited() -> io::Result<()> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    for name in names {
        let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if number > STANDARD {
            match close(number) {
                // The one by which they were listed is closed already.
                Ok(()) | Err(Errno::EBADF) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}
