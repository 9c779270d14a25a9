//! A small disk, in memory, that can be filled.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::command::call;

const SIZE: &str = "size=64m";
const FILLER: &str = "filler";

/// A mounted disk.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts an empty one here.
    ///
    /// # Errors
    /// The machine does not permit it.
    pub(crate) fn mount(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)?;
        call("mount", &["-t", "tmpfs", "-o", SIZE, "tidemill-chaos", &path.to_string_lossy()])?;
        Ok(Self { path: path.to_owned() })
    }

    /// Writes until nothing fits any more.
    ///
    /// # Errors
    /// Writing fails for another reason.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.path.join(FILLER))?;
        for size in [64 * 1024, 4096, 1] {
            let bytes = vec![0; size];
            loop {
                match file.write_all(&bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("cannot fill the disk"),
                }
            }
        }
        Ok(())
    }

    /// Makes room again.
    ///
    /// # Errors
    /// The filler cannot be removed.
    pub(crate) fn empty(&self) -> Result<()> {
        fs::remove_file(self.path.join(FILLER)).context("cannot make room on the disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = call("umount", &["--lazy", &self.path.to_string_lossy()]) {
            eprintln!("a disk is left behind: {error:#}");
        }
    }
}
