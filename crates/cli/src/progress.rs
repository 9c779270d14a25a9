//! How far something is, while it is done: on standard error, where people look at it (API-6).

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::session::Session;

/// Whether people see it: standard error is a terminal, and neither `--quiet` nor a form for programs was asked for.
fn is_shown(session: &Session<'_>) -> bool {
    !session.quiet && !session.format.is_for_programs() && std::io::stderr().is_terminal()
}

/// A count of so many, with a bar; a message says more of it.
pub(crate) fn bar(session: &Session<'_>, length: u64) -> ProgressBar {
    of(is_shown(session), Some(length), "{bar:40} {pos}/{len} {msg}")
}

/// Bytes whose number nobody knows before.
pub(crate) fn bytes(session: &Session<'_>) -> ProgressBar {
    of(is_shown(session), None, "{spinner} {bytes}, {bytes_per_sec}")
}

/// One call that may take a while, with what it does.
pub(crate) fn call(session: &Session<'_>, what: String) -> ProgressBar {
    let bar = of(is_shown(session), None, "{spinner} {msg}, {elapsed}").with_message(what);
    bar.tick();
    if !bar.is_hidden() {
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
    }
    bar
}

fn of(is_shown: bool, length: Option<u64>, template: &str) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("the template is good");
    ProgressBar::with_draw_target(length, target).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_good_and_hidden_bars_draw_nothing() {
        for template in
            ["{bar:40} {pos}/{len} {msg}", "{spinner} {bytes}, {bytes_per_sec}", "{spinner} {msg}, {elapsed}"]
        {
            assert!(of(false, Some(3), template).is_hidden());
        }
    }
}
