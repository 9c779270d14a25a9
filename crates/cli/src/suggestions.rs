//! What is said of a wrong command line in other words than those of its library: of suggestions only those that are a slip
//! away, and of numbers what they have to be.

use std::error::Error as _;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use tidemill_model::is_close;

/// What was written, and what is suggested for it.
const PAIRS: [(ContextKind, ContextKind); 3] = [
    (ContextKind::InvalidArg, ContextKind::SuggestedArg),
    (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
    (ContextKind::InvalidValue, ContextKind::SuggestedValue),
];

/// Says what is wrong with a command line in these words.
pub fn reword(mut error: clap::Error) -> clap::Error {
    keep_close(&mut error);
    tell_of_numbers(error)
}

/// Takes suggestions away that are far from what was written.
fn keep_close(error: &mut clap::Error) {
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

/// Says what a number has to be, and of what, in place of what the parser of numbers says of its digits.
fn tell_of_numbers(error: clap::Error) -> clap::Error {
    let is_of_digits = error.source().is_some_and(|source| source.is::<ParseIntError>());
    let (Some(ContextValue::String(field)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    if error.kind() != ErrorKind::ValueValidation || !is_of_digits {
        return error;
    }
    let rule = match field.as_str() {
        "<BATCH>" => "must be the number of a batch; `tidemill batch ls` lists them",
        "<BULK>" => "must be the number of an operation; `tidemill bulk ls` lists them",
        "<GRANT>" => "must be the number of a grant; `tidemill pull grants` lists them",
        "<RERUN>" => "must be the number of a rerun or cold start; `tidemill rerun ls` lists them",
        "<TASK>" => "must be the number of a pull task; `tidemill pull task ls` lists them",
        _ => "must be a whole number, and not a larger one than fits there",
    };
    let told =
        format!("invalid value '{value}' for '{field}': {rule}\n\nFor more information, try '--help'.\n");
    clap::Error::raw(error.kind(), told)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Command, Global};

    #[derive(Debug, clap::Parser)]
    #[command(name = "tidemill")]
    struct Cli {
        #[command(flatten)]
        _global: Global,
        #[command(subcommand)]
        _command: Command,
    }

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

    /// A6: what is no number is told by its field and value, with what it has to be and where to find one.
    #[test]
    fn what_is_no_number_is_told_with_its_rule() {
        let told = |arguments: &[&str]| {
            let error = Cli::try_parse_from([&["tidemill"], arguments].concat()).err().unwrap();
            let error = tell_of_numbers(error);
            assert_eq!(error.exit_code(), 2);
            error.to_string()
        };
        for (arguments, wanted) in [
            (
                &["batch", "rerun", "abc"][..],
                "invalid value 'abc' for '<BATCH>': must be the number of a batch; `tidemill batch ls`",
            ),
            (&["batch", "kill", "99999999999999999999"], "'<BATCH>': must be the number of a batch"),
            (&["bulk", "show", "x"], "'<BULK>': must be the number of an operation"),
            (&["rerun", "show", "x"], "'<RERUN>': must be the number of a rerun"),
            (&["pull", "task", "show", "x"], "'<TASK>': must be the number of a pull task"),
        ] {
            let said = told(arguments);
            assert!(said.contains(wanted) && !said.contains("digit"), "{said}");
            for command in said.split('`').skip(1).step_by(2) {
                let words: Vec<&str> = command.split(' ').collect();
                assert!(Cli::try_parse_from(words).is_ok(), "{command}");
            }
        }
    }
}
