//! Lists in what people read: the first few, and how many more there are.

/// The first `most` of them, at least one, as `name` has it; of the others their number.
pub(in crate::group) fn listed<T>(all: &[T], most: usize, name: impl FnMut(&T) -> String) -> String {
    let first: Vec<String> = all.iter().take(most.max(1)).map(name).collect();
    match all.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn list_is_cut_and_says_so() {
        let of = |most| listed(&[1, 2, 3], most, |number| format!("b{number}"));
        assert_eq!(
            [of(2), of(3), of(4), of(0)],
            ["b1, b2 and 1 more", "b1, b2, b3", "b1, b2, b3", "b1 and 2 more"]
        );
    }
}
