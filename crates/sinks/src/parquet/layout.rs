//! Names of files and directories.

/// Where positions without rows are. Hive looks at no name that begins so.
pub(super) const POSITIONS: &str = "_positions";
/// Where files are written before they get their names.
pub(super) const TEMPORARY: &str = "_tmp";
const END: &str = ".parquet";

/// The directory of a day, which Hive reads as a partition.
pub(super) fn directory(at: i64) -> String {
    format!("dt={}", super::day(at))
}

/// Whether a directory is one of a day.
pub(super) fn is_day(name: &str) -> bool {
    name.starts_with("dt=")
}

/// The file of records `first` to `last`. With a width of 16 digits names sort as offsets do.
pub(super) fn name(partition: u32, first: u64, last: u64) -> String {
    format!("p{partition}-{first:016}-{last:016}{END}")
}

/// The file of a partition's position.
pub(super) fn position(partition: u32) -> String {
    format!("p{partition}.json")
}

/// The last file of a partition among those of a day.
pub(super) fn newest(partition: u32, files: &[String]) -> Option<&str> {
    let begin = format!("p{partition}-");
    let ours = files.iter().filter(|name| name.starts_with(&begin) && name.ends_with(END));
    ours.max().map(String::as_str)
}

/// Whether a file being written is one of this partition.
pub(super) fn is_of(partition: u32, name: &str) -> bool {
    name.starts_with(&format!("p{partition}-")) || name.starts_with(&format!("p{partition}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUL-12: the newest file of a partition is found by name.
    #[test]
    fn names_sort_as_offsets_do_and_partitions_are_told_apart() {
        let files = [name(1, 9, 10), name(1, 11, 100), name(1, 2, 8), name(11, 500, 600), position(1)];
        assert_eq!(newest(1, &files), Some(files[1].as_str()));
        assert_eq!(newest(11, &files), Some(files[3].as_str()));
        assert_eq!(newest(2, &files), None);
        assert!(is_of(1, &files[0]) && is_of(1, &files[4]) && !is_of(1, &files[3]));
        assert_eq!(directory(1_772_359_200_000), "dt=2026-03-01");
        assert_eq!(directory(1_772_323_199_999), "dt=2026-02-28");
    }
}
