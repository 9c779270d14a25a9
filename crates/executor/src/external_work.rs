//! EXE-13: how work that jobs of a type start elsewhere is found, asked for and ended: applications of YARN, containers, pods.
//!
//! ```text
//!  found by   tag      `list` prints the ids of what carries the attempt's tag, which its command or environment passes on
//!             report   the job writes ids, a line each, into the file that TIDEMILL_WORK_IDS names
//!             pattern  a whole line of its output, where the type asks for that
//!  ended by   kill     one command for each id that has not ended by the word of `state`
//! ```
//! All commands run as the account of the job, with its environment, without a shell. What they print is data: an id is a word of
//! few signs that cannot be an option, and a state is one of the words that the configuration names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{ExternalWorkId, bounds};

use crate::TypeConfig;

/// What has to stand right before the id in a pattern, characters: less names other lines than those of a submission.
const PATTERN_ANCHOR: usize = 8;
/// Bounds of the times, milliseconds.
const TIME_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

/// How work that jobs of a type start elsewhere is found and ended. In its commands, one element each and not read by a shell,
/// `{tag}` stands for the tag of the attempt, and `{id}` for an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalWorkConfig {
    /// Prints what carries the tag `{tag}`, whatever its state; the first word of each line is an id if it begins with `id_prefix`.
    /// Default none: only what jobs report, or `pattern` finds, is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<String>,
    /// Prints the state of `{id}`. Required.
    pub state: Vec<String>,
    /// Ends `{id}`. Required.
    pub kill: Vec<String>,
    /// What ids begin with, such as `application_`; default none: any word can be an id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id_prefix: String,
    /// What the line with the state begins with, as `Final-State :`; the state is the next word. Default none: the first word that
    /// `state` prints.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state_prefix: String,
    /// States of what has ended with success; `*` at the end of one stands for any text, and a whole word counts before that. At least
    /// one state is required of all three.
    #[serde(default)]
    pub succeeded: Vec<String>,
    /// States of what has failed.
    #[serde(default)]
    pub failed: Vec<String>,
    /// States of what was ended by somebody. Every other state is of what has not ended.
    #[serde(default)]
    pub killed: Vec<String>,
    /// What `state` says when it fails since there is no such id any more, which counts as ended; default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// A line of the job's output that names an id: `{id}` stands for it, `*` for any text. The whole line has to be so, and at
    /// least 8 characters have to stand right before `{id}`. Default none. A job that prints such a line for work that is not its
    /// own has that ended: prefer a tag.
    #[serde(default)]
    pub pattern: Option<String>,
    /// What says whether an attempt has succeeded: `exit_code`, and what still runs elsewhere when its processes have ended is
    /// ended; or `final_state`: the attempt lasts until all that it started has ended, and succeeds if all of that has. Default
    /// `exit_code`. An attempt that started nothing elsewhere goes by its exit code.
    #[serde(default)]
    pub success: ExternalSuccess,
    /// The longest that one of the commands may take, milliseconds, 100 to 3,600,000; default 60,000.
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
    /// The longest pause between two looks for new work, milliseconds, 100 to 3,600,000; default 60,000. The first pauses are
    /// shorter.
    #[serde(default = "default_look")]
    pub look_ms: u64,
    /// How long after a kill nothing new may turn up, milliseconds, 100 to 3,600,000; default 3,000: a submission may have been on its
    /// way.
    #[serde(default = "default_settle")]
    pub settle_ms: u64,
}

fn default_timeout() -> u64 {
    60_000
}
fn default_look() -> u64 {
    60_000
}
fn default_settle() -> u64 {
    3_000
}

/// What says whether an attempt with external work has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExternalSuccess {
    /// The exit code of its main process.
    #[default]
    ExitCode,
    /// The states in which all that it started has ended.
    FinalState,
}

/// How one piece of external work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExternalState {
    /// With success.
    Succeeded,
    /// Without.
    Failed,
    /// Somebody ended it.
    Killed,
    /// Nobody knows it any more.
    Gone,
}

impl ExternalState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Gone => "gone",
        }
    }
}

impl ExternalWorkConfig {
    /// Of applications of YARN that carry a tag.
    pub(crate) fn yarn(success: ExternalSuccess) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Self {
            list: words(&["yarn", "application", "-list", "-appStates", "ALL", "-appTags", "{tag}"]),
            state: words(&["yarn", "application", "-status", "{id}"]),
            kill: words(&["yarn", "application", "-kill", "{id}"]),
            id_prefix: "application_".to_owned(),
            state_prefix: "Final-State :".to_owned(),
            succeeded: words(&["SUCCEEDED"]),
            failed: words(&["FAILED", "ENDED"]),
            killed: words(&["KILLED"]),
            gone: words(&["doesn't exist in RM"]),
            pattern: None,
            success,
            timeout_ms: default_timeout(),
            look_ms: default_look(),
            settle_ms: default_settle(),
        }
    }

    /// What is wrong with it: the value and its rule.
    pub(crate) fn check(&self) -> Result<(), (String, &'static str)> {
        let has = |command: &[String], place: &str| command.iter().any(|word| word.contains(place));
        for (name, command) in [("state", &self.state), ("kill", &self.kill)] {
            if command.first().is_none_or(|program| program.is_empty() || program.contains("{id}")) {
                return Err((
                    format!("external_work.{name}: {command:?}"),
                    "it has to name a program to run",
                ));
            }
            if !has(command, "{id}") {
                return Err((format!("external_work.{name}: {command:?}"), "an element has to hold {id}"));
            }
        }
        if !self.list.is_empty() && (self.list[0].is_empty() || !has(&self.list, "{tag}")) {
            let rule = "it has to name a program, and an element has to hold {tag}";
            return Err((format!("external_work.list: {:?}", self.list), rule));
        }
        if [&self.succeeded, &self.failed, &self.killed].into_iter().all(Vec::is_empty) {
            return Err((
                "external_work: no state".to_owned(),
                "succeeded, failed or killed has to name the states of what has ended",
            ));
        }
        let words = [&self.succeeded, &self.failed, &self.killed, &self.gone].into_iter().flatten();
        if let Some(blank) = words.into_iter().find(|word| word.trim().is_empty()) {
            return Err((format!("external_work: a state {blank:?}"), "a state is a word"));
        }
        if self.success == ExternalSuccess::FinalState && self.succeeded.is_empty() {
            let rule = "succeeded has to name a state, or no attempt would ever succeed";
            return Err(("external_work.success: final_state".to_owned(), rule));
        }
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| Pattern::parse(pattern).is_none()) {
            let rule = "it has to hold {id} once, right behind at least 8 characters that are no *, and nothing but \
                 text and * beside that";
            return Err((format!("external_work.pattern: {pattern:?}"), rule));
        }
        for (name, ms) in
            [("timeout_ms", self.timeout_ms), ("look_ms", self.look_ms), ("settle_ms", self.settle_ms)]
        {
            if !TIME_MS.contains(&ms) {
                return Err((format!("external_work.{name}: {ms}"), "it has to be 100 to 3600000"));
            }
        }
        Ok(())
    }

    /// The programs that it runs.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        [&self.list, &self.state, &self.kill]
            .into_iter()
            .filter_map(|command| Some(command.first()?.as_str()))
    }

    /// The ids in what `list` has printed.
    pub(crate) fn ids_in<'a>(&'a self, printed: &'a str) -> impl Iterator<Item = ExternalWorkId> + 'a {
        printed.lines().filter_map(|line| self.id(line.split_whitespace().next()?))
    }

    /// A word that can be an id.
    pub(crate) fn id(&self, word: &str) -> Option<ExternalWorkId> {
        word.starts_with(&self.id_prefix).then(|| ExternalWorkId::try_from(word).ok()).flatten()
    }

    /// How it ended, by what `state` has printed; `None`: it has not.
    pub(crate) fn state_in(&self, printed: &str) -> Option<ExternalState> {
        let after = |line: &'_ str| line.trim().strip_prefix(self.state_prefix.as_str()).map(str::to_owned);
        let line = printed.lines().filter(|line| !line.trim().is_empty()).find_map(after)?;
        let word = line.split_whitespace().next()?;
        let is = |words: &[String]| words.iter().any(|known| known == word);
        let begins = |words: &[String]| {
            words.iter().filter_map(|known| known.strip_suffix('*')).any(|known| word.starts_with(known))
        };
        let known = [
            (&self.succeeded, ExternalState::Succeeded),
            (&self.failed, ExternalState::Failed),
            (&self.killed, ExternalState::Killed),
        ];
        let found = known.iter().find(|(words, _)| is(words));
        found.or_else(|| known.iter().find(|(words, _)| begins(words))).map(|(_, state)| *state)
    }

    /// Whether a `state` that failed says so that there is no such id.
    pub(crate) fn is_gone(&self, said: &str) -> bool {
        self.gone.iter().any(|text| said.contains(text.as_str()))
    }
}

/// Of what a job has reported whose type is not known any more, what can be an id of one of these, as many as stand on record.
pub(crate) fn ids_of_any<'a>(
    types: impl Iterator<Item = &'a TypeConfig> + Clone,
    lines: &str,
) -> Vec<ExternalWorkId> {
    let id = |line: &str| {
        types.clone().filter_map(|of| of.external_work.as_ref()).find_map(|external| external.id(line))
    };
    lines.lines().filter_map(|line| id(line.trim())).take(bounds::EXTERNAL_WORK).collect()
}

/// A command of the configuration for one tag or id.
pub(crate) fn filled(command: &[String], place: &str, with: &str) -> Vec<String> {
    command.iter().map(|word| word.replace(place, with)).collect()
}

/// A line that names an id, taken apart.
pub(crate) struct Pattern<'a> {
    before: Vec<&'a str>,
    after: Vec<&'a str>,
}

impl<'a> Pattern<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (before, after) = text.split_once("{id}")?;
        let before: Vec<&str> = before.split('*').collect();
        let is_anchored = before.last().is_some_and(|last| last.chars().count() >= PATTERN_ANCHOR);
        let after: Vec<&str> = after.split('*').collect();
        // Whatever follows the id, the id ends before it.
        let is_bounded = after[0].is_empty() || after[0].starts_with(|c: char| c.is_whitespace());
        (is_anchored && is_bounded && !after.iter().any(|part| part.contains("{id}")))
            .then_some(Self { before, after })
    }

    /// What stands for the id in this line, if the whole line is so.
    pub(crate) fn word_in<'l>(&self, line: &'l str) -> Option<&'l str> {
        let (first, rest) = self.before.split_first()?;
        let mut left = line.strip_prefix(first)?;
        for part in rest {
            left = &left[left.find(part)? + part.len()..];
        }
        let end = left.find(char::is_whitespace).unwrap_or(left.len());
        let (word, mut left) = left.split_at(end);
        let (first, rest) = self.after.split_first()?;
        left = left.strip_prefix(first)?;
        let Some((last, middle)) = rest.split_last() else { return left.is_empty().then_some(word) };
        for part in middle {
            left = &left[left.find(part)? + part.len()..];
        }
        left.ends_with(last).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yarn() -> ExternalWorkConfig {
        ExternalWorkConfig::yarn(ExternalSuccess::ExitCode)
    }

    const LISTED: &str = "Total number of applications (application-types: [], states: [RUNNING] and tags: [t]):2\n\
        \x20               Application-Id\t    Application-Name\n\
        application_1700000000000_0001\t                 sql\n\
        application_1700000000000_0002\t              -kill\n\
        -kill application_1700000000000_0003\n";

    /// EXE-13: an id is the first word of a line, begins as ids do, and has the signs of one.
    #[test]
    fn ids_are_the_first_words_that_begin_as_ids() {
        let config = yarn();
        let ids: Vec<String> = config.ids_in(LISTED).map(|id| id.to_string()).collect();
        assert_eq!(ids, ["application_1700000000000_0001", "application_1700000000000_0002"]);
        assert_eq!(config.ids_in("application_1;rm application_2\n").count(), 0);
    }

    /// EXE-13: only the named line says the state, and a word that the configuration does not name is of what has not ended.
    #[test]
    fn state_is_the_word_behind_its_prefix() {
        let said = |word: &str| {
            format!(
                "Application Report :\n\tName : Final-State : KILLED\n\tFinal-State : {word}\n\tLog : x\n"
            )
        };
        let config = yarn();
        assert_eq!(config.state_in(&said("SUCCEEDED")), Some(ExternalState::Succeeded));
        assert_eq!(config.state_in(&said("KILLED")), Some(ExternalState::Killed));
        assert_eq!(config.state_in(&said("UNDEFINED")), None);
        assert_eq!(config.state_in("Connection refused"), None);
        let bare = ExternalWorkConfig { state_prefix: String::new(), ..yarn() };
        assert_eq!(bare.state_in("\n FAILED\n"), Some(ExternalState::Failed));
        let (succeeded, failed) = (vec!["exited0".to_owned()], vec!["exited*".to_owned()]);
        let codes = ExternalWorkConfig { failed, succeeded, ..bare };
        assert_eq!(codes.state_in("exited0"), Some(ExternalState::Succeeded));
        assert_eq!(codes.state_in("exited3"), Some(ExternalState::Failed));
        assert_eq!(codes.state_in("running0"), None);
    }

    /// EXE-13: a pattern matches whole lines, and one that is not anchored to a text is refused.
    #[test]
    fn pattern_matches_whole_lines_and_has_an_anchor() {
        for bad in ["{id}", "*{id}*", "* id {id}", "Submitted *{id}", "Submitted {id}{id}", "Submitted {id}x"]
        {
            assert!(Pattern::parse(bad).is_none(), "{bad}");
        }
        let pattern = Pattern::parse("* INFO *: Submitted application {id}").unwrap();
        let line = "24/01/01 00:00:00 INFO impl.YarnClientImpl: Submitted application application_1_2";
        assert_eq!(pattern.word_in(line), Some("application_1_2"));
        assert_eq!(pattern.word_in(&format!("{line} and more")), None);
        assert_eq!(pattern.word_in("Killing application application_1_2"), None);
        let open = Pattern::parse("container started: {id} *").unwrap();
        assert_eq!(open.word_in("container started: c1 on h"), Some("c1"));
        assert_eq!(open.word_in("a container started: c1 on h"), None);
    }

    /// EXE-13: what could not find or end anything is refused by field.
    #[test]
    fn configurations_that_could_end_nothing_are_refused() {
        assert_eq!(yarn().check(), Ok(()));
        let bad = [
            ExternalWorkConfig { state: Vec::new(), ..yarn() },
            ExternalWorkConfig { kill: vec!["yarn".to_owned()], ..yarn() },
            ExternalWorkConfig { kill: vec!["{id}".to_owned()], ..yarn() },
            ExternalWorkConfig { list: vec!["yarn".to_owned()], ..yarn() },
            ExternalWorkConfig { pattern: Some("*{id}".to_owned()), ..yarn() },
            ExternalWorkConfig { timeout_ms: 0, ..yarn() },
            ExternalWorkConfig { killed: vec![" ".to_owned()], ..yarn() },
            ExternalWorkConfig { succeeded: Vec::new(), success: ExternalSuccess::FinalState, ..yarn() },
        ];
        for config in bad {
            assert!(config.check().is_err(), "{config:?}");
        }
    }
}
