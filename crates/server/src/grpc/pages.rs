//! Pages go from the engine's records to the wire without a message in between: a page of a thousand records would be built,
//! measured and taken apart again only to be copied. The bytes are those of `ReadEventRecordsResponse`, and go out as they were
//! written: a codec's buffer would be one more copy.

use std::{convert::Infallible, future::ready, sync::Arc};

use anabranch_api::{
    v1::{ReadEventRecordsRequest, ReadEventRecordsResponse},
    wkt::Timestamp,
};
use anabranch_model::{Item, Record};
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderValue, header::CONTENT_TYPE, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::{
    Message,
    encoding::{self, encoded_len_varint, key_len},
};
use tonic::{
    Status,
    codec::{BufferSettings, Streaming},
    metadata::GRPC_CONTENT_TYPE,
};
use tonic_prost::ProstDecoder;
use tower::service_fn;

use super::status::status;
use crate::{
    convert::reads::FoundPage,
    limits::{Permit, timeout},
    observe::Protocol,
    operations::{Answer, Operations},
};

/// An rpc that answers pages.
type Rpc = fn(Arc<Operations>, Parts, ReadEventRecordsRequest) -> BoxFuture<'static, Result<Response, Status>>;

/// Adds the two rpcs that answer pages, in front of the generated service.
pub(super) fn add(router: Router, operations: &Arc<Operations>, max_message_bytes: usize) -> Router {
    let service = |rpc: Rpc| {
        let operations = operations.clone();
        service_fn(move |request: Request| {
            let operations = operations.clone();
            async move {
                let answer = match received(request, max_message_bytes).await {
                    Ok((parts, message)) => rpc(operations, parts, message).await,
                    Err(status) => Err(status),
                };
                Ok::<_, Infallible>(answer.unwrap_or_else(Status::into_http))
            }
        })
    };
    router
        .route_service("/anabranch.v1.TimeSeriesService/ReadEventRecords", service(read_page))
        .route_service("/anabranch.v1.TimeSeriesService/StreamEventRecords", service(stream_pages))
}

/// The one message of a request.
async fn received(request: Request, max_message_bytes: usize) -> Result<(Parts, ReadEventRecordsRequest), Status> {
    let (parts, body) = request.into_parts();
    if parts.headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity") {
        return Err(Status::unimplemented("compressed requests aren't taken"));
    }
    let decoder = ProstDecoder::new(BufferSettings::default());
    let mut messages = Streaming::new_request(decoder, body, None, Some(max_message_bytes));
    let message = messages.message().await?.ok_or_else(|| Status::internal("the request has no message"))?;
    Ok((parts, message))
}

fn read_page(
    operations: Arc<Operations>,
    parts: Parts,
    message: ReadEventRecordsRequest,
) -> BoxFuture<'static, Result<Response, Status>> {
    async move {
        let work = operations.read(message, timeout(&parts.headers));
        let page = operations.observe.track(Protocol::Grpc, "ReadEventRecords", work).await.map_err(status)?;
        Ok(answer(stream::once(ready(Ok(written(page))))))
    }
    .boxed()
}

#[expect(clippy::needless_pass_by_value, reason = "as every rpc takes it")]
fn stream_pages(
    operations: Arc<Operations>,
    mut parts: Parts,
    message: ReadEventRecordsRequest,
) -> BoxFuture<'static, Result<Response, Status>> {
    let (timeout, permit) = (timeout(&parts.headers), parts.extensions.remove::<Permit>());
    let pages = operations.stream(Protocol::Grpc, message, timeout, permit, |page| Ok(written(page)));
    ready(Ok(answer(pages))).boxed()
}

/// Written pages, and how they ended.
fn answer(pages: impl Stream<Item = Answer<Bytes>> + Send + 'static) -> Response {
    let frames = stream::unfold(Some(Box::pin(pages)), async |pages| {
        let mut pages = pages?;
        Some(match pages.next().await {
            Some(Ok(page)) => (Frame::data(page), Some(pages)),
            Some(Err(failure)) => (trailers(&status(failure)), None),
            None => (trailers(&Status::ok("")), None),
        })
    });
    let body = Body::new(StreamBody::new(frames.map(Ok::<_, Infallible>)));
    ([(CONTENT_TYPE, GRPC_CONTENT_TYPE)], body).into_response()
}

fn trailers(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    // What can't stand in a header is told without its words.
    if let Err(unwritable) = status.add_header(&mut trailers) {
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from(unwritable.code() as i32));
    }
    Frame::trailers(trailers)
}

/// A page as it goes over the wire: that it isn't compressed, how long it is, and the message.
fn written(mut page: FoundPage) -> Bytes {
    let records = std::mem::take(&mut page.page.records);
    let writer = RecordWriter::new(&std::mem::take(&mut page.series));
    // Everything but the records is a message like any other.
    let rest: ReadEventRecordsResponse = page.into_message();
    let lengths: Vec<usize> = records.iter().map(|record| writer.length(record)).collect();
    let length = lengths.iter().map(|length| field_length(1, *length)).sum::<usize>() + rest.encoded_len();
    let mut out = Vec::with_capacity(LEAD_BYTES + HEAD_BYTES + length);
    out.resize(LEAD_BYTES, 0);
    out.push(0);
    out.extend_from_slice(&(length as u32).to_be_bytes());
    for (record, length) in records.iter().zip(lengths) {
        writer.write(record, length, &mut out);
    }
    rest.encode_raw(&mut out);
    Bytes::from(out).slice(LEAD_BYTES..)
}

/// A page lies so far behind the beginning of its memory, which is that of a page of the machine. The kernel puts it into its own
/// pages right behind the frame's head, and some processors copy four times as slowly to where that is a few bytes further into a
/// page than it came from.
const LEAD_BYTES: usize = 128;
/// What stands before a message.
const HEAD_BYTES: usize = 1 + size_of::<u32>();

/// Writes records of one series as the field `records` of a page.
struct RecordWriter {
    /// The field that is the same in every record.
    series: Vec<u8>,
}

impl RecordWriter {
    fn new(series: &str) -> Self {
        let mut field = Vec::new();
        write_bytes(1, series.as_bytes(), &mut field);
        RecordWriter { series: field }
    }

    /// How long a record is.
    fn length(&self, record: &Record) -> usize {
        let time = Timestamp::from_nanos(record.position.time.nanos());
        let items = record.items.iter().map(|item| field_length(4, item_length(item)));
        self.series.len()
            + field_length(2, time_length(&time))
            + field_length(3, record.position.id.len())
            + items.sum::<usize>()
            + if record.continued { 2 } else { 0 }
    }

    fn write(&self, record: &Record, length: usize, out: &mut Vec<u8>) {
        let time = Timestamp::from_nanos(record.position.time.nanos());
        let id = record.position.id.as_str();
        write_head(1, length, out);
        out.extend_from_slice(&self.series);
        write_head(2, time_length(&time), out);
        write_number(1, time.seconds as u64, out);
        write_number(2, time.nanos as u64, out);
        write_bytes(3, id.as_bytes(), out);
        for item in &record.items {
            write_head(4, item_length(item), out);
            write_bytes(1, item.key.as_str().as_bytes(), out);
            if !item.value.is_empty() {
                write_bytes(2, &item.value, out);
            }
            if let Some(metadata) = &item.metadata {
                write_bytes(3, metadata, out);
            }
        }
        if record.continued {
            encoding::bool::encode(5, &true, out);
        }
    }
}

/// How long a field is whose content has this length.
fn field_length(tag: u8, bytes: usize) -> usize {
    key_len(tag.into()) + encoded_len_varint(bytes as u64) + bytes
}

fn write_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    write_head(tag, bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// The key and the length of a field whose number is below 16.
#[inline]
fn write_head(tag: u8, bytes: usize, out: &mut Vec<u8>) {
    out.push(tag << 3 | encoding::WireType::LengthDelimited as u8);
    write_varint(bytes as u64, out);
}

/// A field that is a number; zero isn't written.
#[inline]
fn write_number(tag: u8, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        out.push(tag << 3 | encoding::WireType::Varint as u8);
        write_varint(number, out);
    }
}

#[inline]
fn write_varint(mut left: u64, out: &mut Vec<u8>) {
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn time_length(time: &Timestamp) -> usize {
    let number = |number: u64| if number == 0 { 0 } else { 1 + encoded_len_varint(number) };
    number(time.seconds as u64) + number(time.nanos as u64)
}

fn item_length(item: &Item) -> usize {
    // An empty value isn't written; nor is absent metadata, but empty metadata is.
    let value = if item.value.is_empty() { 0 } else { field_length(2, item.value.len()) };
    let metadata = item.metadata.as_ref().map_or(0, |metadata| field_length(3, metadata.len()));
    field_length(1, item.key.len()) + value + metadata
}

#[cfg(test)]
mod tests {
    use anabranch_engine::Page;
    use anabranch_model::{EventId, EventItemKey, Position};
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let item = ("[a-c]{1,3}", prop::collection::vec(any::<u8>(), 0..300), prop::option::of("[a-c]{0,3}"));
        // Zero seconds and zero nanoseconds aren't written.
        let time =
            prop_oneof![any::<i64>(), -2_000_000_000..2_000_000_000i64, (-2..2i64).prop_map(|s| s * 1_000_000_000)];
        (time, "[a-z]{1,40}", prop::collection::vec(item, 0..4), any::<bool>()).prop_map(
            |(time, id, items, continued)| {
                let item = |(key, value, metadata): (String, Vec<u8>, Option<String>)| Item {
                    key: EventItemKey::new(key).unwrap(),
                    value: Bytes::from(value),
                    metadata: metadata.map(Bytes::from),
                };
                Record {
                    position: Position {
                        time: anabranch_model::Timestamp::from_nanos(time),
                        id: EventId::new(id).unwrap(),
                    },
                    items: items.into_iter().map(item).collect(),
                    continued,
                }
            },
        )
    }

    proptest! {
        /// The bytes are those of the message that is documented.
        #[test]
        fn a_page_is_written_as_its_message_would_be(records in prop::collection::vec(any_record(), 0..5)) {
            let mut page = Page::default();
            page.records = records;
            page.next_page_token = Some("token".to_owned());
            let found = || FoundPage {
                page: page.clone(),
                namespace: "plays".to_owned(),
                series: "profile:123".to_owned(),
                took: std::time::Duration::from_millis(3),
            };
            let message = found().into_message().encode_to_vec();
            let written = written(found());
            prop_assert_eq!(&written[HEAD_BYTES..], &message);
            prop_assert_eq!(&written[..HEAD_BYTES], [&[0], &(message.len() as u32).to_be_bytes()[..]].concat());
        }
    }
}
