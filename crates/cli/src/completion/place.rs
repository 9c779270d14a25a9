//! Where in a command line the cursor stands, and which names can stand there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, Command};

use crate::args::{Global, OutputFormat};

/// A sort of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Batches,
    Bulk,
    Calendars,
    Contexts,
    Departments,
    Groups,
    Jobs,
    Keys,
    People,
    Pools,
    PullUsers,
    Reruns,
    Templates,
    Workers,
}

impl Names {
    /// What the value of an argument names; `noun` is the first command, `of` the one that has the argument.
    fn of(noun: &str, of: &str, argument: &str) -> Option<Self> {
        Some(match (noun, of, argument) {
            (_, _, "context") | ("context", "show" | "use" | "set" | "rm", "name") => Self::Contexts,
            // A new name is nothing to complete.
            ("job", "rename", "name") | ("job", "ls", "name") => return None,
            (_, _, "job" | "jobs" | "parent" | "parents" | "subset") => Self::Jobs,
            (_, "apply", "prune") | (_, _, "group" | "groups") => Self::Groups,
            ("group", _, "name") => Self::Groups,
            (
                "pull",
                "assign" | "ls" | "show" | "move" | "delete" | "grants" | "next" | "complete" | "return",
                "user" | "users",
            ) => Self::PullUsers,
            ("pull", "move", "to") => Self::Groups,
            ("pull", "show" | "delete", "name") => Self::Templates,
            (_, _, "batch") => Self::Batches,
            ("bulk", _, "bulk") => Self::Bulk,
            ("rerun", _, "rerun") => Self::Reruns,
            ("calendar", _, "name") => Self::Calendars,
            ("pool", _, "name") => Self::Pools,
            ("worker", _, "worker") | ("attempt", _, "worker") => Self::Workers,
            ("key", _, "app") => Self::Keys,
            ("department", _, "name") | (_, _, "department") => Self::Departments,
            ("person", _, "name" | "person" | "successor")
            | (_, _, "owner" | "user" | "as_user" | "person") => Self::People,
            _ => return None,
        })
    }
}

/// The word at the cursor.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) names: Names,
    /// What is there of the name.
    pub(super) prefix: String,
    /// What stands before it in the same word.
    pub(super) before: String,
    /// The options of every command, as far as they are there.
    pub(super) global: Global,
}

impl Place {
    /// None where the last word is none of a name. The first is the program.
    pub(super) fn of(mut program: Command, words: &[String]) -> Option<Self> {
        program.build();
        let (current, before) = words.get(1..)?.split_last()?;
        let mut line =
            Line { path: vec![&program], given: BTreeMap::new(), open: None, positions: 0, is_over: false };
        before.iter().for_each(|word| line.take(word));
        let (argument, before, prefix) = line.at(current)?;
        let noun = line.path.get(1)?.get_name();
        let names = Names::of(noun, line.command().get_name(), argument.get_id().as_str())?;
        Some(Self { names, prefix: prefix.to_owned(), before, global: line.global() })
    }
}

/// The words before the cursor, as far as they were read.
struct Line<'c> {
    path: Vec<&'c Command>,
    /// Values of options by their id.
    given: BTreeMap<String, String>,
    /// The option whose value comes next.
    open: Option<&'c Arg>,
    /// Values that stand without an option, so far.
    positions: usize,
    /// Whether no more options can come.
    is_over: bool,
}

impl<'c> Line<'c> {
    fn command(&self) -> &'c Command {
        self.path[self.path.len() - 1]
    }

    fn take(&mut self, word: &str) {
        if let Some(open) = self.open {
            // bash gives `--option=value` as three words.
            if word != "=" {
                self.given.insert(open.get_id().to_string(), word.to_owned());
                self.open = None;
            }
        } else if !self.is_over && word == "--" {
            self.is_over = true;
        } else if !self.is_over && word.starts_with('-') && word.len() > 1 {
            self.open = match (option(self.command(), word), word.split_once('=')) {
                (Some(option), Some((_, value))) => {
                    self.given.insert(option.get_id().to_string(), value.to_owned());
                    None
                }
                (option, None) => option,
                (None, Some(_)) => None,
            };
        } else if let Some(sub) = self.command().find_subcommand(word).filter(|_| self.positions == 0) {
            self.path.push(sub);
        } else {
            self.positions += 1;
        }
    }

    /// The argument whose value the word is, what of the word stands before the value, and the value so far.
    fn at<'w>(&self, word: &'w str) -> Option<(&'c Arg, String, &'w str)> {
        if let Some(open) = self.open {
            return Some((open, String::new(), word.trim_start_matches('=')));
        }
        if !self.is_over && word.starts_with('-') {
            let (name, value) = word.split_once('=')?;
            return Some((option(self.command(), name)?, format!("{name}="), value));
        }
        let positions: Vec<&Arg> = self.command().get_positionals().collect();
        let last = positions.last().filter(|last| takes_several(last));
        let position = positions.get(self.positions).or(last).copied()?;
        Some((position, String::new(), word))
    }

    fn global(&self) -> Global {
        let text = |name: &str, variable: &str| {
            let of_environment = || std::env::var(variable).ok().filter(|value| !value.is_empty());
            self.given.get(name).cloned().or_else(of_environment)
        };
        let path = |name: &str, variable: &str| text(name, variable).map(PathBuf::from);
        Global {
            config: path("config", "TIDEMILL_CONFIG"),
            data: path("data", "TIDEMILL_DATA"),
            server: text("server", "TIDEMILL_SERVER"),
            key: text("key", "TIDEMILL_KEY"),
            context: text("context", "TIDEMILL_CONTEXT"),
            ca_file: path("ca_file", "TIDEMILL_CA_FILE"),
            output: OutputFormat::Json,
            watch: None,
            as_user: text("as_user", "TIDEMILL_AS_USER"),
            quiet: true,
        }
    }
}

fn takes_several(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|count| count.max_values() > 1)
}

/// The option of a word such as `--group`, `--group=a` or `-o`, where it takes a value that may be a word of its own.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or(word);
    let is_it = |argument: &&Arg| match name.strip_prefix("--") {
        Some(long) => {
            argument.get_long() == Some(long)
                || argument.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => argument.get_short().is_some_and(|short| name.ends_with(short)),
    };
    let found = command.get_arguments().find(is_it)?;
    let takes_value =
        found.get_action().takes_values() && (word.contains('=') || !found.is_require_equals_set());
    takes_value.then_some(found)
}

/// Every argument that takes names, with the sort of them.
#[cfg(test)]
pub(crate) fn of_all(program: &Command) -> Vec<String> {
    fn below(command: &Command, noun: &str, path: &str, told: &mut Vec<String>) {
        for argument in
            command.get_arguments().filter(|it| !it.is_global_set() && it.get_action().takes_values())
        {
            if let Some(names) = Names::of(noun, command.get_name(), argument.get_id().as_str()) {
                told.push(format!("{path} {}: {names:?}", argument.get_id()));
            }
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let noun = if noun.is_empty() { sub.get_name() } else { noun };
            below(sub, noun, format!("{path} {}", sub.get_name()).trim(), told);
        }
    }
    let mut told = Vec::new();
    below(program, "", "", &mut told);
    told
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches as _, Subcommand as _};

    use super::*;

    fn program() -> Command {
        use clap::Args as _;
        Global::augment_args(crate::Command::augment_subcommands(Command::new("tidemill")))
    }

    fn at(line: &str) -> Option<(Names, String, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Place::of(program(), &words).map(|place| (place.names, place.before, place.prefix))
    }

    #[test]
    fn command_line_is_that_of_the_program() {
        let matches = program().try_get_matches_from(["tidemill", "group", "ls"]).unwrap();
        assert!(Global::from_arg_matches(&matches).is_ok());
    }

    /// API-6: the word at the cursor is told from those around it.
    #[test]
    fn cursor_stands_at_a_name() {
        let found = |names, before: &str, prefix: &str| Some((names, before.to_owned(), prefix.to_owned()));
        assert_eq!(at("tidemill job show de"), found(Names::Jobs, "", "de"));
        assert_eq!(at("tidemill jobs show demo/lo"), found(Names::Jobs, "", "demo/lo"));
        assert_eq!(at("tidemill -o json job show "), found(Names::Jobs, "", ""));
        assert_eq!(at("tidemill batch ls --group d"), found(Names::Groups, "", "d"));
        assert_eq!(at("tidemill batch ls --group = d"), found(Names::Groups, "", "d"));
        assert_eq!(at("tidemill batch ls --group ="), found(Names::Groups, "", ""));
        assert_eq!(at("tidemill batch ls --group=d"), found(Names::Groups, "--group=", "d"));
        assert_eq!(at("tidemill pool show --context x a"), found(Names::Pools, "", "a"));
        assert_eq!(at("tidemill job ls --context p"), found(Names::Contexts, "", "p"));
        assert_eq!(at("tidemill job ls --watch --owner"), None);
        for none in [
            "tidemill",
            "tidemill ",
            "tidemill jo",
            "tidemill job ",
            "tidemill job show --at",
            "tidemill job rename a b",
        ] {
            assert_eq!(at(none), None, "{none}");
        }
    }

    #[test]
    fn options_of_the_line_say_which_server() {
        let words =
            ["tidemill", "--server", "http://h:1", "job", "show", "--context=prod", ""].map(str::to_owned);
        let global = Place::of(program(), &words).unwrap().global;
        assert_eq!((global.server.as_deref(), global.context.as_deref()), (Some("http://h:1"), Some("prod")));
    }

    /// API-6: every argument that names something of the server, with what it names.
    #[test]
    fn arguments_that_take_names() {
        expect_test::expect_file!["arguments.txt"].assert_eq(&(of_all(&program()).join("\n") + "\n"));
    }
}
