//! Where files go while something is measured, and on what kind of file system.

use std::fs;
use std::path::{Path, PathBuf};

const MEMORY: &str = "/dev/shm";
const TMPFS: &str = "tmpfs";

/// The directory for files that are to cost as little as possible: on a file system in memory, where the
/// machine has one.
pub(crate) fn in_memory() -> PathBuf {
    let memory = PathBuf::from(MEMORY);
    if file_system(&memory).as_deref() == Some(TMPFS) { memory } else { on_disk() }
}

/// The directory for temporary files, `TMPDIR`.
pub(crate) fn on_disk() -> PathBuf {
    std::env::temp_dir()
}

/// The kind of file system there: that of the longest mount point above it, the newest of these.
pub(crate) fn file_system(path: &Path) -> Option<String> {
    kind(&fs::canonicalize(path).ok()?, &fs::read_to_string("/proc/self/mounts").ok()?)
}

fn kind(path: &Path, mounts: &str) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_mount_point_tells_the_kind() {
        let mounts = "a / ext4 rw 0 0\nb /dev devtmpfs rw 0 0\nc /dev/shm tmpfs rw 0 0\n";
        for (path, expected) in [("/tmp/x", "ext4"), ("/dev/shm/x", "tmpfs"), ("/dev/shmem", "devtmpfs")] {
            assert_eq!(kind(Path::new(path), mounts).as_deref(), Some(expected), "{path}");
        }
    }
}
