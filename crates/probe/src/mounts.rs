//! Which mount a local path is on, told without touching the path: a dead mount hangs whoever touches it.

#[cfg(test)]
mod corpus;

use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mounts(Vec<Arc<str>>);

impl Mounts {
    /// As the kernel lists them; one for everything where it does not.
    pub(crate) fn read() -> Self {
        std::fs::read_to_string("/proc/self/mountinfo")
            .map_or_else(|_| Self(Vec::new()), |text| Self::parse(&text))
    }

    /// Fifth field of each line, with `\040` for a space and so on.
    fn parse(mountinfo: &str) -> Self {
        let mut points: Vec<Arc<str>> = mountinfo
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(|field| unescape(field).into())
            .collect();
        points.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        points.dedup();
        Self(points)
    }

    /// The mount point that this absolute path is below, symbolic links aside.
    pub(crate) fn of(&self, path: &str) -> Arc<str> {
        let is_below = |point: &str| {
            path.strip_prefix(point)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || point.ends_with('/'))
        };
        self.0.iter().find(|point| is_below(point)).map_or_else(|| "/".into(), Arc::clone)
    }
}

fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_belongs_to_the_longest_mount_point_above_it() {
        let mounts = Mounts::parse(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /mnt rw shared:1 - nfs host:/x rw\n\
             3 1 0:6 / /mnt/deep\\040one rw - nfs host:/y rw\n",
        );
        let table = [
            ("/", "/"),
            ("/data/x", "/"),
            ("/mnt", "/mnt"),
            ("/mnt/x", "/mnt"),
            ("/mnty/x", "/"),
            ("/mnt/deep one/x", "/mnt/deep one"),
        ];
        for (path, point) in table {
            assert_eq!(&*mounts.of(path), point, "{path}");
        }
        assert_eq!(&*Mounts(Vec::new()).of("/x"), "/");
    }

    #[test]
    fn mounts_of_this_process_are_read() {
        assert_eq!(&*Mounts::read().of("/proc/self/stat"), "/proc");
    }
}
