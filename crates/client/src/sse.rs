//! Server-sent events, line by line.

use std::io::{self, BufRead, Read};

/// One message of a stream: in the public feed, one event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The cursor to go on from.
    pub id: Option<String>,
    /// Its type.
    pub event: Option<String>,
    /// Its body: of the public feed, a CloudEvent as JSON.
    pub data: String,
}

const MAX_LINE_BYTES: u64 = 8 << 20;

/// The events of one connection, until the server ends it.
pub(crate) struct Messages {
    lines: Box<dyn BufRead>,
}

impl Messages {
    pub(crate) fn new(lines: Box<dyn BufRead>) -> Self {
        Self { lines }
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let read = self.lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.pop_if(|last| *last == b'\n').is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.pop_if(|last| *last == b'\r');
        String::from_utf8(bytes).map(Some).map_err(io::Error::other)
    }

    fn message(&mut self) -> io::Result<Option<Message>> {
        let mut message = Message::default();
        let mut has_data = false;
        while let Some(line) = self.line()? {
            if line.is_empty() {
                if has_data {
                    return Ok(Some(message));
                }
                message = Message::default();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line.as_str(), ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => message.id = Some(value.to_owned()),
                "event" => message.event = Some(value.to_owned()),
                "data" => {
                    if has_data {
                        message.data.push('\n');
                    }
                    message.data.push_str(value);
                    has_data = true;
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl Iterator for Messages {
    type Item = io::Result<Message>;
    fn next(&mut self) -> Option<Self::Item> {
        self.message().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Vec<io::Result<Message>> {
        Messages::new(Box::new(text.as_bytes())).collect()
    }

    #[test]
    fn messages_are_read_with_comments_and_several_data_lines() {
        let messages =
            read(": hello\n\nid: a1\nevent: batch.finished\ndata: {\ndata: }\n\nretry: 5\n\ndata:x\r\n\r\n");
        let messages: Vec<_> = messages.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            messages,
            [
                Message { id: Some("a1".into()), event: Some("batch.finished".into()), data: "{\n}".into() },
                Message { data: "x".into(), ..Message::default() },
            ]
        );
    }

    #[test]
    fn half_a_message_at_the_end_is_no_message() {
        assert!(read("data: x\n").is_empty());
        assert!(read("data: x").pop().unwrap().is_err());
    }
}
