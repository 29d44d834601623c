//! Pages go from the engine's records to the wire without a message in between: a page of a thousand records would be built,
//! measured and taken apart again only to be copied. The bytes are those of `ReadEventRecordsResponse`.

use std::{convert::Infallible, sync::Arc};

use anabranch_api::{
    v1::{ReadEventRecordsRequest, ReadEventRecordsResponse},
    wkt::Timestamp,
};
use anabranch_model::{Item, Record};
use axum::{
    Router,
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use bytes::BufMut;
use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use prost::{
    Message,
    encoding::{self, WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, EncodeBuf, Encoder},
    server::{Grpc, ServerStreamingService, UnaryService},
};
use tonic_prost::ProstDecoder;
use tower::service_fn;

use super::status::status;
use crate::{
    convert::reads::FoundPage,
    limits::{Permit, timeout},
    observe::Protocol,
    operations::Operations,
};

/// Adds the two rpcs that answer pages, in front of the generated service.
pub(super) fn add(router: Router, operations: &Arc<Operations>, max_message_bytes: usize) -> Router {
    let (read, stream) = (operations.clone(), operations.clone());
    let grpc = move || Grpc::new(PageCodec).max_decoding_message_size(max_message_bytes);
    let unary = service_fn(move |request: Request| {
        let operations = read.clone();
        async move { answer(grpc().unary(ReadPage(operations), request).await) }
    });
    let streaming = service_fn(move |request: Request| {
        let operations = stream.clone();
        async move { answer(grpc().server_streaming(StreamPages(operations), request).await) }
    });
    router
        .route_service("/anabranch.v1.TimeSeriesService/ReadEventRecords", unary)
        .route_service("/anabranch.v1.TimeSeriesService/StreamEventRecords", streaming)
}

#[expect(clippy::unnecessary_wraps, reason = "what a service answers")]
fn answer(response: axum::http::Response<tonic::body::Body>) -> Result<Response, Infallible> {
    Ok(response.map(Body::new).into_response())
}

struct ReadPage(Arc<Operations>);

impl UnaryService<ReadEventRecordsRequest> for ReadPage {
    type Response = FoundPage;
    type Future = BoxFuture<'static, Result<tonic::Response<FoundPage>, Status>>;

    fn call(&mut self, request: tonic::Request<ReadEventRecordsRequest>) -> Self::Future {
        let operations = self.0.clone();
        Box::pin(async move {
            let timeout = timeout(request.metadata().as_ref());
            let work = operations.read(request.into_inner(), timeout);
            let tracked = operations.observe.track(Protocol::Grpc, "ReadEventRecords", work);
            tracked.await.map(tonic::Response::new).map_err(status)
        })
    }
}

struct StreamPages(Arc<Operations>);

impl ServerStreamingService<ReadEventRecordsRequest> for StreamPages {
    type Response = FoundPage;
    type ResponseStream = BoxStream<'static, Result<FoundPage, Status>>;
    type Future = BoxFuture<'static, Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, mut request: tonic::Request<ReadEventRecordsRequest>) -> Self::Future {
        let operations = self.0.clone();
        Box::pin(async move {
            let timeout = timeout(request.metadata().as_ref());
            let permit = request.extensions_mut().remove::<Permit>();
            let pages = operations.stream(Protocol::Grpc, request.into_inner(), timeout, permit);
            let pages = ReceiverStream::new(pages).map(|page| page.map_err(status));
            Ok(tonic::Response::new(pages.boxed()))
        })
    }
}

/// Pages out, requests in.
#[derive(Clone, Copy)]
struct PageCodec;

impl Codec for PageCodec {
    type Encode = FoundPage;
    type Decode = ReadEventRecordsRequest;
    type Encoder = PageEncoder;
    type Decoder = ProstDecoder<ReadEventRecordsRequest>;

    fn encoder(&mut self) -> PageEncoder {
        PageEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

struct PageEncoder;

impl Encoder for PageEncoder {
    type Item = FoundPage;
    type Error = Status;

    fn encode(&mut self, page: FoundPage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let mut page = page;
        let records = std::mem::take(&mut page.page.records);
        let mut writer = RecordWriter::new(&std::mem::take(&mut page.series));
        // Everything but the records is a message like any other.
        let rest: ReadEventRecordsResponse = page.into_message();
        let all: usize = records.iter().map(|record| writer.most_bytes(record)).sum();
        buffer.reserve(all + rest.encoded_len());
        for record in &records {
            writer.write(record, buffer);
        }
        rest.encode_raw(buffer);
        Ok(())
    }
}

/// More than the keys and lengths of a record's own fields, or of an item's, can take.
const FRAMING_BYTES: usize = 48;

/// Writes records of one series as the field `records` of a page. What is small is gathered and written at once: a record
/// is two copies, one of its value and one of all that stands before it.
struct RecordWriter {
    /// The field that is the same in every record.
    series: Vec<u8>,
    gathered: Vec<u8>,
}

impl RecordWriter {
    fn new(series: &str) -> Self {
        let mut field = Vec::new();
        write_text(1, series, &mut field);
        RecordWriter { series: field, gathered: Vec::with_capacity(256) }
    }

    /// At least what a record takes.
    fn most_bytes(&self, record: &Record) -> usize {
        self.series.len() + record.bytes() + FRAMING_BYTES * (1 + record.items.len())
    }

    fn write(&mut self, record: &Record, out: &mut impl BufMut) {
        let RecordWriter { series, gathered } = self;
        let time = Timestamp::from_nanos(record.position.time.nanos());
        let id = record.position.id.as_str();
        let items = record.items.iter().map(|item| field_length(4, item_length(item)));
        let length = series.len()
            + encoding::message::encoded_len(2, &time)
            + field_length(3, id.len())
            + items.sum::<usize>()
            + if record.continued { 2 } else { 0 };
        gathered.clear();
        write_head(1, length, gathered);
        gathered.extend_from_slice(series);
        encoding::message::encode(2, &time, gathered);
        write_text(3, id, gathered);
        for item in &record.items {
            write_head(4, item_length(item), gathered);
            write_text(1, item.key.as_str(), gathered);
            if !item.value.is_empty() {
                write_head(2, item.value.len(), gathered);
                out.put_slice(gathered);
                out.put_slice(&item.value);
                gathered.clear();
            }
            if let Some(metadata) = &item.metadata {
                write_head(3, metadata.len(), gathered);
                gathered.extend_from_slice(metadata);
            }
        }
        if record.continued {
            encoding::bool::encode(5, &true, gathered);
        }
        out.put_slice(gathered);
    }
}

/// How long a field is whose content has this length.
fn field_length(tag: u32, bytes: usize) -> usize {
    key_len(tag) + encoded_len_varint(bytes as u64) + bytes
}

/// The key and the length of a field.
fn write_head(tag: u32, bytes: usize, out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes as u64, out);
}

fn write_text(tag: u32, text: &str, out: &mut Vec<u8>) {
    write_head(tag, text.len(), out);
    out.extend_from_slice(text.as_bytes());
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
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let item = ("[a-c]{1,3}", prop::collection::vec(any::<u8>(), 0..300), prop::option::of("[a-c]{0,3}"));
        (any::<i64>(), "[a-z]{1,40}", prop::collection::vec(item, 0..4), any::<bool>()).prop_map(
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
            let mut buffer = bytes::BytesMut::new();
            let mut writer = RecordWriter::new("profile:123");
            for record in &page.records {
                let before = buffer.len();
                writer.write(record, &mut buffer);
                prop_assert!(buffer.len() - before <= writer.most_bytes(record));
            }
            let mut rest = found();
            rest.page.records.clear();
            rest.into_message().encode_raw(&mut buffer);
            prop_assert_eq!(buffer.freeze(), Bytes::from(found().into_message().encode_to_vec()));
        }
    }
}
