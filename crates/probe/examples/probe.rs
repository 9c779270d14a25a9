//! Asks whether paths exist: `cargo run -p tidemill-probe --example probe -- [--mark NAME] PATH…`.
//!
//! `TIDEMILL_PROBE` may name a configuration in JSON, as `{"hdfs": {"default_name_node": "nn1:8020"}}`.
//! Ends with 0 where all are there, 1 where one is not, 2 where one is not known.

use std::process::ExitCode;

use anyhow::Context;
use tidemill_probe::{Config, Mark, Outcome, Prober, Question};

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let config = match std::env::var("TIDEMILL_PROBE") {
        Ok(text) => serde_json::from_str(&text).context("TIDEMILL_PROBE")?,
        Err(_) => Config::default(),
    };
    let prober = Prober::new(config)?;
    let mut mark = None;
    let mut questions = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--mark" {
            mark = Some(Mark::try_from(arguments.next().context("--mark wants a name")?)?);
        } else {
            questions.push(Question { path: prober.path("PATH", &argument)?, mark: mark.clone() });
        }
    }
    anyhow::ensure!(!questions.is_empty(), "usage: probe [--mark NAME] PATH…");
    let mut worst = 0;
    let mut answers = prober.probe(questions);
    while let Some(answer) = answers.next().await {
        let (text, code) = match answer.outcome {
            Outcome::Present => ("present".to_owned(), 0),
            Outcome::Absent => ("absent".to_owned(), 1),
            Outcome::Hung { tries } => (format!("hung, tried {tries} times"), 2),
            Outcome::Failed(failure) => (format!("failed: {}", failure.reason), 2),
        };
        println!("{text:8} {}", answer.question);
        worst = worst.max(code);
    }
    for (authority, counts) in prober.statistics().authorities {
        eprintln!("{authority}: {} calls, {} hung", counts.calls(), counts.hung_calls);
    }
    Ok(ExitCode::from(worst))
}
