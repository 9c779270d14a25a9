//! How many parents are written in few bytes: lists as ever, but for long ones in which runs of parents with mapping
//! `same` stand as differences of their ids, or as names of which only what is new is written.
//!
//! ```text
//!  ids     {"shard": 0, "same": [7, 1, 1, 3]}             counters 7, 8, 9, 12 of shard 0
//!  names   {"names": "00load_1 052 053"}                  load_1, load_2, load_3
//! ```

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{JobId, Mapping, Parent, ParentSpec, ShardId};

/// Up to so many parents with mapping `same` are written one by one.
pub const LISTED_PARENTS: usize = 64;
/// The most names that one run of them may hold, so that a short text does not become a large list.
const MAX_NAMES: usize = 100_000;
/// Bytes of a name that can be those of the one before it.
const MAX_SHARED: usize = 255;

/// One element of a definition's list of parents.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ParentsElement {
    /// Parents with mapping `same` whose ids one shard minted.
    Ids {
        /// The shard.
        shard: ShardId,
        /// The counter of the first id, then the difference of each to the one before it.
        same: Vec<i64>,
    },
    /// One parent.
    One(Parent),
}

/// One element of the list of parents of a job as written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ParentSpecsElement {
    /// Parents with mapping `same`.
    Names {
        /// With a blank between them: the number of bytes, in two hexadecimal digits, that a name shares with the one
        /// before it, then the rest of the name.
        names: String,
    },
    /// One parent.
    One(ParentSpec),
}

fn is_same(parent: &Parent) -> bool {
    parent.mapping == Mapping::Same
}

fn elements(parents: &[Parent]) -> Vec<ParentsElement> {
    let are_many = parents.iter().filter(|parent| is_same(parent)).count() > LISTED_PARENTS;
    let alike = |a: &Parent, b: &Parent| {
        are_many && is_same(a) && is_same(b) && a.job.0 >= 0 && a.job.shard() == b.job.shard()
    };
    let element = |run: &[Parent]| match run {
        [first, _, ..] => {
            let counters = run.iter().map(|parent| parent.job.counter());
            let before = std::iter::once(0).chain(counters.clone());
            let same = counters.zip(before).map(|(counter, before)| counter - before).collect();
            vec![ParentsElement::Ids { shard: first.job.shard(), same }]
        }
        run => run.iter().cloned().map(ParentsElement::One).collect(),
    };
    parents.chunk_by(alike).flat_map(element).collect()
}

/// A definition's list of parents.
pub(crate) mod ids {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(parents: &[Parent], to: S) -> Result<S::Ok, S::Error> {
        elements(parents).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Parent>, D::Error> {
        let mut parents = Vec::new();
        for element in Vec::<ParentsElement>::deserialize(from)? {
            match element {
                ParentsElement::One(parent) => parents.push(parent),
                ParentsElement::Ids { shard, same } => {
                    let mut counter = 0_i64;
                    for difference in same {
                        counter = counter.checked_add(difference).unwrap_or(-1);
                        let job = JobId::of_counter(counter, shard);
                        let job = job.ok_or_else(|| D::Error::custom("a parent's id is out of range"))?;
                        parents.push(Parent { job, mapping: Mapping::Same });
                    }
                }
            }
        }
        Ok(parents)
    }
}

fn spec_elements(parents: &[ParentSpec]) -> Vec<ParentSpecsElement> {
    let fits = |parent: &ParentSpec| match parent {
        ParentSpec::Name(name) => name.is_ascii() && !name.contains(' '),
        ParentSpec::Mapped { .. } => false,
    };
    let are_many = parents.iter().filter(|parent| fits(parent)).count() > LISTED_PARENTS;
    let alike = |a: &ParentSpec, b: &ParentSpec| are_many && fits(a) && fits(b);
    let element = |run: &[ParentSpec]| match run {
        [_, _, ..] => {
            let names: Vec<&str> = run.iter().map(ParentSpec::job).collect();
            vec![ParentSpecsElement::Names { names: coded(&names) }]
        }
        run => run.iter().cloned().map(ParentSpecsElement::One).collect(),
    };
    parents.chunk_by(alike).flat_map(element).collect()
}

fn coded(names: &[&str]) -> String {
    let mut text = String::new();
    let mut before = "";
    for name in names {
        let shared = name.bytes().zip(before.bytes()).take(MAX_SHARED).take_while(|(a, b)| a == b).count();
        let blank = if text.is_empty() { "" } else { " " };
        text.push_str(&format!("{blank}{shared:02x}{}", &name[shared..]));
        before = name;
    }
    text
}

fn decoded(text: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for token in text.split(' ') {
        let digits = token.get(..2).and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let before = names.last().map_or("", String::as_str);
        let shared = digits.and_then(|shared| before.get(..shared));
        let shared = shared.ok_or_else(|| format!("no name can be read from {token:?}"))?;
        let name = format!("{shared}{}", &token[2..]);
        names.push(name);
        if names.len() > MAX_NAMES {
            return Err(format!("more than {MAX_NAMES} names"));
        }
    }
    Ok(names)
}

/// The list of parents of a job as written.
pub(crate) mod names {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(parents: &[ParentSpec], to: S) -> Result<S::Ok, S::Error> {
        spec_elements(parents).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ParentSpec>, D::Error> {
        let mut parents = Vec::new();
        for element in Vec::<ParentSpecsElement>::deserialize(from)? {
            match element {
                ParentSpecsElement::One(parent) => parents.push(parent),
                ParentSpecsElement::Names { names } => {
                    let names = decoded(&names).map_err(D::Error::custom)?;
                    parents.extend(names.into_iter().map(ParentSpec::Name));
                }
            }
        }
        Ok(parents)
    }
}

/// Bytes of JSON that a definition's list of parents takes, at least roughly: never less than it does.
pub fn parents_bytes(parents: &[Parent]) -> usize {
    if parents.len() <= LISTED_PARENTS {
        return 56 * parents.len();
    }
    let digits = |number: &i64| 2 + number.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    let element = |element: &ParentsElement| match element {
        ParentsElement::Ids { same, .. } => 32 + same.iter().map(digits).sum::<usize>(),
        ParentsElement::One(_) => 56,
    };
    elements(parents).iter().map(element).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Defined(#[serde(with = "ids")] Vec<Parent>);

    #[derive(Serialize, Deserialize)]
    struct Written(#[serde(with = "names")] Vec<ParentSpec>);

    fn parent(counter: u64, mapping: Mapping) -> Parent {
        Parent { job: JobId::mint(counter, ShardId(0)), mapping }
    }

    /// Few parents are written as they were before there was another form, and that form is read for ever.
    #[test]
    fn few_parents_are_written_one_by_one() {
        let few: Vec<Parent> = (1..=64).map(|n| parent(n, Mapping::Same)).collect();
        let text = serde_json::to_value(Defined(few.clone())).unwrap();
        assert_eq!(text[0], json!({"job": 4096, "mapping": "same"}));
        assert_eq!(serde_json::from_value::<Defined>(text).unwrap().0, few);
        let names: Vec<ParentSpec> = (0..64).map(|n| ParentSpec::Name(format!("p{n}"))).collect();
        assert_eq!(serde_json::to_value(Written(names)).unwrap()[3], json!("p3"));
    }

    /// 20,000 parents take few bytes, in whatever order, and come back as they were.
    #[test]
    fn many_parents_are_written_in_few_bytes() {
        let shuffled = |n: u64| 1 + n * 7_919 % 20_000;
        for (order, most) in [((|n| n + 1) as fn(u64) -> u64, 50_000), (shuffled, 160_000)] {
            let mut many: Vec<Parent> = (0..20_000).map(|n| parent(order(n), Mapping::Same)).collect();
            many.insert(100, parent(30_000, Mapping::Latest));
            many.push(Parent { job: JobId::mint(5, ShardId(3)), mapping: Mapping::Same });
            let text = serde_json::to_string(&Defined(many.clone())).unwrap();
            assert!(text.len() <= parents_bytes(&many) && text.len() < most, "{} bytes", text.len());
            assert_eq!(serde_json::from_str::<Defined>(&text).unwrap().0, many);

            let name = |n: u64| ParentSpec::Name(format!("sG1IterDecon_ID{:07}", order(n)));
            let mut many: Vec<ParentSpec> = (0..20_000).map(name).collect();
            many.insert(7, ParentSpec::Mapped { job: "daily".to_owned(), mapping: Mapping::All });
            many.push(ParentSpec::Name("ünlike others".to_owned()));
            let text = serde_json::to_string(&Written(many.clone())).unwrap();
            assert!(text.len() < most + 60_000, "{} bytes", text.len());
            assert_eq!(serde_json::from_str::<Written>(&text).unwrap().0, many);
        }
    }

    /// What no writer makes is refused, and never makes a large list of a short text.
    #[test]
    fn what_no_writer_makes_is_refused() {
        let ids = [json!([{"shard": 0, "same": [-1]}]), json!([{"shard": 0, "same": [i64::MAX, 1]}])];
        for bad in ids {
            assert!(serde_json::from_value::<Defined>(bad).is_err());
        }
        let long = "00x".to_owned() + &" 01".repeat(MAX_NAMES);
        for bad in ["05x", "zz", "0", "", "00ü 01", &long] {
            let bad = json!([{"names": bad}]);
            assert!(serde_json::from_value::<Written>(bad.clone()).is_err(), "{bad}");
        }
    }
}
