//! Many questions to one authority: which are asked singly, which by a listing of their directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use crate::backend::Target;
use crate::lane::{Call, Lane};
use crate::{Answer, Outcome, Question};

/// A piece of work that one task does.
#[derive(Debug, PartialEq, Eq)]
enum Unit {
    Look(Question),
    /// A listing of this directory for all of these, which are in it.
    List {
        directory: String,
        questions: Vec<Question>,
    },
}

/// Asks everything, and sends one answer to each.
pub(crate) async fn run(lane: Arc<Lane>, questions: Vec<Question>, answers: mpsc::Sender<Answer>) {
    let units = plan(questions, lane.backend.looks_per_page());
    let pass = Pass { lane: &lane, answers: &answers };
    stream::iter(units)
        .for_each_concurrent(lane.width(), |unit| async move {
            match unit {
                Unit::Look(question) => pass.look(question).await,
                Unit::List { directory, questions } => pass.list(&directory, questions).await,
            }
        })
        .await;
}

fn plan(questions: Vec<Question>, looks_per_page: usize) -> Vec<Unit> {
    let mut directories: BTreeMap<String, Vec<Question>> = BTreeMap::new();
    let mut units = Vec::new();
    for question in questions {
        match question.path.entry() {
            Some((directory, _)) => directories.entry(directory.to_owned()).or_default().push(question),
            None => units.push(Unit::Look(question)),
        }
    }
    for (directory, questions) in directories {
        if questions.len() >= looks_per_page {
            units.push(Unit::List { directory, questions });
        } else {
            units.extend(questions.into_iter().map(Unit::Look));
        }
    }
    units
}

#[derive(Clone, Copy)]
struct Pass<'a> {
    lane: &'a Lane,
    answers: &'a mpsc::Sender<Answer>,
}

impl Pass<'_> {
    async fn look(&self, question: Question) {
        let target = match &question.mark {
            Some(mark) => {
                let inside = format!("{}/{mark}", question.path.inside().trim_end_matches('/'));
                Target { inside, mark: true }
            }
            None => Target { inside: question.path.inside().to_owned(), mark: false },
        };
        let outcome = self.lane.look(&target).await;
        self.answer(question, outcome).await;
    }

    async fn answer(&self, question: Question, outcome: Outcome) {
        self.lane.counters.outcome(&outcome);
        // Nobody listens any more: the pass is being ended.
        let _ = self.answers.send(Answer { question, outcome }).await;
    }

    /// Lists while that is cheaper than to look; whatever the listing leaves open is looked for singly.
    async fn list(&self, directory: &str, questions: Vec<Question>) {
        let most_pages = questions.len() / self.lane.backend.looks_per_page().max(1);
        let mut open = Open::new(questions);
        let mut single = Vec::new();
        if let Some(mut pages) = self.lane.backend.list(directory) {
            for _ in 0..most_pages.max(1) {
                let page = match self.lane.once(Call::List, || pages.next()).await {
                    Ok(Some(page)) => page,
                    Ok(None) => {
                        self.absent(open.take_all()).await;
                        break;
                    }
                    // May be that only listing is refused, or that it was too large; looks have their tries.
                    Err(_) => break,
                };
                for name in &page.names {
                    for question in open.take(name) {
                        match question.mark {
                            // The directory is there; whether it is complete has to be asked.
                            Some(_) => single.push(question),
                            None => self.answer(question, Outcome::Present).await,
                        }
                    }
                }
                if page.last {
                    self.absent(open.take_all()).await;
                } else if let Some(to) = &page.complete_to {
                    self.absent(open.take_to(to)).await;
                }
                if open.is_empty() {
                    break;
                }
            }
        }
        single.extend(open.take_all());
        stream::iter(single).for_each_concurrent(self.lane.width(), |question| self.look(question)).await;
    }

    async fn absent(&self, questions: Vec<Question>) {
        for question in questions {
            self.answer(question, Outcome::Absent).await;
        }
    }
}

/// Questions of one directory that are not answered yet, by name. One name may be asked with and without mark.
struct Open(BTreeMap<String, Vec<Question>>);

impl Open {
    fn new(questions: Vec<Question>) -> Self {
        let mut names: BTreeMap<String, Vec<Question>> = BTreeMap::new();
        for question in questions {
            let (_, name) = question.path.entry().expect("the root is never planned into a listing");
            names.entry(name.to_owned()).or_default().push(question);
        }
        Self(names)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, name: &str) -> Vec<Question> {
        self.0.remove(name).unwrap_or_default()
    }

    fn take_all(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.0).into_values().flatten().collect()
    }

    /// ASCII names up to this one, which is ASCII.
    fn take_to(&mut self, to: &str) -> Vec<Question> {
        let names: Vec<String> = self
            .0
            .keys()
            .take_while(|name| name.as_str() <= to)
            .filter(|name| name.is_ascii())
            .cloned()
            .collect();
        names.iter().flat_map(|name| self.take(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Path;

    fn question(path: &str) -> Question {
        Question { path: Path::parse("path", path, None).unwrap(), mark: None }
    }

    #[test]
    fn only_directories_with_enough_questions_are_listed() {
        let paths = ["hdfs://n:1/a/1", "hdfs://n:1/a/2", "hdfs://n:1/a/3", "hdfs://n:1/b/1", "hdfs://n:1/"];
        let questions: Vec<_> = paths.into_iter().map(question).collect();
        let listed = plan(questions.clone(), 3);
        let directory = "/a".to_owned();
        assert_eq!(
            listed,
            [
                Unit::Look(questions[4].clone()),
                Unit::List { directory, questions: questions[..3].to_vec() },
                Unit::Look(questions[3].clone()),
            ]
        );
        let looked = plan(questions, 4);
        assert!(looked.iter().all(|unit| matches!(unit, Unit::Look(_))));
    }

    #[test]
    fn names_up_to_the_last_of_a_page_are_decided_where_orders_agree() {
        let mut open = Open::new(["/d/a", "/d/b", "/d/é", "/d/c"].map(question).to_vec());
        let decided: Vec<_> = open.take_to("b").iter().map(ToString::to_string).collect();
        assert_eq!(decided, ["/d/a", "/d/b"]);
        assert_eq!(open.take_to("~").len(), 1);
        assert_eq!(open.take_all(), [question("/d/é")]);
    }
}
