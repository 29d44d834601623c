//! A message that can't be read, on its way to the topic of dead letters. It is passed over only when the broker has it there.

use rdkafka::{
    Message,
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedHeaders, BorrowedMessage, Header, OwnedHeaders},
    producer::BaseRecord,
};
use tokio::sync::oneshot;

use super::{outstanding::Place, publishing::Sent};

/// The header that says why.
const REASON: &str = "reason";
/// The header that says that a letter isn't the whole message, and where that lies.
const TRUNCATED: &str = "truncated";
/// What is kept of the payload of a message that is too large.
const CUT_BYTES: usize = 64 << 10;
/// What is kept of a reason or a key then.
const CUT_WORDS: usize = 1 << 10;

/// A message that can't be read.
pub(super) struct Letter {
    /// Names it among what is outstanding.
    pub(super) tag: u64,
    pub(super) place: Place,
    /// It is on its way: who tells when it got there.
    pub(super) under_way: Option<oneshot::Receiver<Result<(), KafkaError>>>,
    /// The broker has it.
    pub(super) is_aside: bool,
    reason: String,
    headers: OwnedHeaders,
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    form: Form,
}

/// How much of a message is put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Cut,
    Bare,
}

impl Letter {
    pub(super) fn new(message: &BorrowedMessage<'_>, tag: u64, place: Place, reason: String) -> Letter {
        Letter {
            tag,
            place,
            under_way: None,
            is_aside: false,
            reason,
            headers: message.headers().map_or_else(OwnedHeaders::new, BorrowedHeaders::detach),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().unwrap_or_default().to_vec(),
            form: Form::Whole,
        }
    }

    /// As it goes to a topic.
    pub(super) fn record<'a>(&'a self, topic: &'a str, sent: Sent) -> BaseRecord<'a, [u8], [u8], Box<Sent>> {
        let words = if self.form == Form::Whole { usize::MAX } else { CUT_WORDS };
        let ends = self.reason.char_indices().map(|(at, letter)| at + letter.len_utf8());
        let reason = &self.reason[..ends.take_while(|end| *end <= words).last().unwrap_or(0)];
        let kept = match self.form {
            Form::Whole => self.payload.len(),
            Form::Cut => self.payload.len().min(CUT_BYTES),
            Form::Bare => 0,
        };
        let mut headers = if self.form == Form::Whole { self.headers.clone() } else { OwnedHeaders::new() };
        headers = headers.insert(Header { key: REASON, value: Some(reason) });
        if self.form != Form::Whole {
            let (Place { partition, offset }, all) = (self.place, self.payload.len());
            let note = format!("{kept} of {all} bytes; the message was at {partition}/{offset}");
            headers = headers.insert(Header { key: TRUNCATED, value: Some(&note) });
        }
        let record = BaseRecord::with_opaque_to(topic, Box::new(sent)).headers(headers).payload(&self.payload[..kept]);
        match &self.key {
            Some(key) if self.form != Form::Bare => record.key(&key[..key.len().min(words)]),
            _ => record,
        }
    }

    /// The broker found it too large: less of it is put aside. `false`: nothing is left to leave out.
    pub(super) fn shrink(&mut self) -> bool {
        let smaller = match self.form {
            Form::Whole => Form::Cut,
            Form::Cut => Form::Bare,
            Form::Bare => return false,
        };
        self.form = smaller;
        true
    }
}

/// Whether a message can't be sent for its size.
pub(super) fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}
