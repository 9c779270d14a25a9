//! What a shim tells its worker, one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::attempt_dir::ExitRecord;

/// One line. A shim that ends without having told its end was killed, or never ran the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// The job runs.
    Started,
    /// No process of it is left, and `exit.json` says the same as this.
    Ended(ExitRecord),
}

impl News {
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("plain data");
        line.push(b'\n');
        line
    }

    /// Takes the lines that are whole, and leaves the rest. A line of a newer shim is passed over.
    pub fn take(said: &mut Vec<u8>) -> Vec<Self> {
        let end = said.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = said.drain(..end).collect();
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_taken_when_their_line_is_whole() {
        let ended = News::Ended(ExitRecord { exit_code: Some(3), ..ExitRecord::default() });
        let mut said = [News::Started.to_line(), b"{\"sung\":1}\n".to_vec(), ended.to_line()].concat();
        let last = said.pop().unwrap();
        assert_eq!(News::take(&mut said), [News::Started]);
        said.push(last);
        assert_eq!(News::take(&mut said), [ended]);
        assert_eq!((News::take(&mut said), said.len()), (Vec::new(), 0));
    }
}
