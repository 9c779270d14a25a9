//! A target: its files, then their mutations.

use std::cell::Cell;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::edit::{Edit, edit, make};
use crate::watch::Watch;

/// Where no seed is given.
const SEED: u64 = 1;
/// One input takes no longer, in a build without optimisation on a busy machine.
const SLOW: Duration = Duration::from_secs(20);
/// So many more inputs are tried to make a failing one smaller.
const SHRINK: u32 = 400;

/// The committed inputs of one target.
#[derive(Debug)]
pub struct Corpus {
    directory: PathBuf,
    /// Whose decoder is tried; in front of the target's name.
    of: &'static str,
    seeds: Vec<Vec<u8>>,
}

impl Corpus {
    /// All files of a directory.
    ///
    /// # Panics
    /// It cannot be read, or is empty.
    #[must_use]
    pub fn read(directory: &str) -> Self {
        let directory = PathBuf::from(directory);
        let listed =
            fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        let read =
            |file: &PathBuf| fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let seeds: Vec<_> = files.iter().map(read).collect();
        assert!(!seeds.is_empty(), "{} holds no inputs", directory.display());
        Self { directory, of: "", seeds }
    }

    /// The same, tried by this crate.
    #[must_use]
    pub fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }

    /// The inputs as they are.
    #[must_use]
    pub fn inputs(&self) -> &[Vec<u8>] {
        &self.seeds
    }

    /// Checks every input as it is, then `cases` mutations of them for one seed, or seeds one after the other
    /// for as long as the environment says.
    ///
    /// # Panics
    /// A check panicked, or took too long. The input is then in the corpus, as small as it could be made.
    pub fn fuzz(&self, cases: u32, check: impl Fn(&[u8])) {
        let watch = Watch::begin(&self.directory);
        let tally = Tally::begin(self);
        let timed = |input: &[u8]| {
            let took = watch.during(input, || check(input));
            tally.count(took);
            took
        };
        for input in &self.seeds {
            let took = timed(input);
            assert!(took < SLOW, "an input as it is committed took {took:?}");
        }
        let (begun_at, first, seconds) = (Instant::now(), number("SEED"), number("SECONDS"));
        let mut seed = first.unwrap_or(SEED);
        loop {
            self.round(seed, cases, &timed);
            let limit = Duration::from_secs(seconds.unwrap_or(0));
            if begun_at.elapsed() >= limit {
                break;
            }
            seed = seed.wrapping_add(1);
        }
        println!("{}: seeds {}..={seed}, none failed", tally.name, first.unwrap_or(SEED));
    }

    fn round(&self, seed: u64, cases: u32, timed: &impl Fn(&[u8]) -> Duration) {
        let config =
            Config { cases, failure_persistence: None, max_shrink_iters: SHRINK, ..Config::default() };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let mutations = (any::<Index>(), vec(edit(), 1..8)).prop_map(Mutation);
        let outcome = runner.run(&mutations, |mutation| {
            let took = timed(&mutation.of(&self.seeds));
            if took < SLOW { Ok(()) } else { Err(TestCaseError::fail(format!("it took {took:?}"))) }
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Abort(reason)) => panic!("seed {seed}: {reason}"),
            Err(TestError::Fail(reason, mutation)) => self.keep(seed, &reason.to_string(), &mutation),
        }
    }

    fn keep(&self, seed: u64, reason: &str, mutation: &Mutation) -> ! {
        let input = mutation.of(&self.seeds);
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        let path = self.directory.join(format!("crash-{:016x}", hasher.finish()));
        let kept =
            fs::write(&path, &input).map_or_else(|error| error.to_string(), |()| path.display().to_string());
        let shown = String::from_utf8_lossy(&input);
        let shown: String = shown.chars().take(2_000).collect();
        panic!("seed {seed}: {reason}\nkept in {kept}; commit it with its fix:\n{shown}");
    }
}

/// How many inputs were tried, told when it is dropped, which is also where a check failed.
struct Tally {
    name: String,
    inputs: Cell<u64>,
    slowest: Cell<Duration>,
}

impl Tally {
    fn begin(corpus: &Corpus) -> Self {
        let name = corpus.directory.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{} {name}", corpus.of).trim().to_owned();
        Self { name, inputs: Cell::new(0), slowest: Cell::new(Duration::ZERO) }
    }

    fn count(&self, took: Duration) {
        self.inputs.set(self.inputs.get() + 1);
        self.slowest.set(self.slowest.get().max(took));
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let Self { name, inputs, slowest } = self;
        println!("{name}: {} inputs, the slowest {:?}", inputs.get(), slowest.get());
        let Some(counts) = text("COUNTS") else { return };
        let written = fs::File::options().create(true).append(true).open(&counts);
        let written = written.and_then(|mut file| writeln!(file, "{} {name}", inputs.get()));
        if let Err(error) = written {
            eprintln!("{counts}: {error}");
        }
    }
}

/// An input of the corpus, and what is changed in it.
#[derive(Clone, Debug)]
struct Mutation((Index, Vec<Edit>));

impl Mutation {
    fn of(&self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let (seed, edits) = &self.0;
        let mut input = seed.get(seeds).clone();
        for edit in edits {
            make(&mut input, edit, seeds);
        }
        input
    }
}

/// What the environment says.
fn text(name: &str) -> Option<String> {
    std::env::var(format!("TIDEMILL_FUZZ_{name}")).ok().filter(|text| !text.is_empty())
}

/// A number of the environment.
fn number(name: &str) -> Option<u64> {
    let text = text(name)?;
    Some(text.parse().unwrap_or_else(|_| panic!("TIDEMILL_FUZZ_{name} is {text:?}, not a number")))
}
