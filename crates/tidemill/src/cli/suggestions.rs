//! Which suggestions of the command line's library are shown: only those that are a slip away.

use clap::error::{ContextKind, ContextValue};

/// What was written, and what is suggested for it.
const PAIRS: [(ContextKind, ContextKind); 3] = [
    (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
    (ContextKind::InvalidValue, ContextKind::SuggestedValue),
];

/// Takes suggestions away that are far from what was written.
pub(super) fn keep_close(error: &mut clap::Error) {
    for (written, suggested) in PAIRS {
        let Some(ContextValue::String(text)) = error.get(written) else { continue };
        let text = text.clone();
        let named = match error.get(suggested) {
            Some(ContextValue::String(one)) => vec![one.clone()],
            Some(ContextValue::Strings(all)) => all.clone(),
            _ => continue,
        };
        let close: Vec<String> = named.into_iter().filter(|name| is_close(&text, name)).collect();
        error.remove(suggested);
        if !close.is_empty() {
            error.insert(suggested, ContextValue::Strings(close));
        }
    }
}

/// One slip in a short name, two in a longer one.
fn is_close(written: &str, name: &str) -> bool {
    let most = if name.trim_start_matches('-').chars().count() < 6 { 1 } else { 2 };
    slips(written, name) <= most
}

/// How many letters were left out, added, mistaken or exchanged with their neighbour.
fn slips(a: &str, b: &str) -> usize {
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
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    /// A6: a slip is corrected; what is another word is not taken for one.
    #[test]
    fn only_close_names_are_suggested() {
        let told = |arguments: &[&str]| {
            let mut error = Cli::try_parse_from([&["tidemill"], arguments].concat()).err().unwrap();
            keep_close(&mut error);
            error.to_string()
        };
        assert!(told(&["job", "shwo"]).contains("'show'"));
        assert!(told(&["job", "ls", "--gruop", "x"]).contains("'--group'"));
        for far in [&["worker", "ls", "--group", "x"][..], &["frobnicate"], &["job", "sing"]] {
            assert!(!told(far).contains("similar"), "{}", told(far));
        }
    }
}
