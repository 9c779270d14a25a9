//! Which name somebody meant who made a slip in writing it.

/// The name that is a slip away from what was written: of several the closest.
pub fn closest<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    names.into_iter().filter(|name| is_close(written, name)).min_by_key(|name| slips(written, name))
}

/// One slip in a short name, two in a longer one.
pub fn is_close(written: &str, name: &str) -> bool {
    let most = if name.trim_start_matches('-').chars().count() < 6 { 1 } else { 2 };
    written.len() <= MAX_BYTES && slips(written, name) <= most
}

/// What is longer is no name with a slip in it.
const MAX_BYTES: usize = 256;

/// How many letters were left out, added, mistaken or exchanged with their neighbour.
pub fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let names = ["command", "comment", "class", "enabled"];
        for (written, meant) in [
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("commment", Some("comment")),
            ("clas", Some("class")),
            ("colour", None),
            ("cls", None),
            ("", None),
        ] {
            assert_eq!(closest(written, names), meant, "{written}");
        }
        assert_eq!([("", "abc"), ("abc", "axc"), ("abc", "acb")].map(|(a, b)| slips(a, b)), [3, 1, 1]);
        assert!(!is_close(&"x".repeat(1 << 20), "command"));
    }
}
