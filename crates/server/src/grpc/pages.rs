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
        let series = std::mem::take(&mut page.series);
        // Everything but the records is a message like any other.
        let rest: ReadEventRecordsResponse = page.into_message();
        let lengths: Vec<usize> = records.iter().map(|record| record_length(record, &series)).collect();
        let all: usize = lengths.iter().map(|length| 1 + encoded_len_varint(*length as u64) + length).sum();
        buffer.reserve(all + rest.encoded_len());
        for (record, length) in records.iter().zip(lengths) {
            encode_key(1, WireType::LengthDelimited, buffer);
            encode_varint(length as u64, buffer);
            write_record(record, &series, buffer);
        }
        rest.encode_raw(buffer);
        Ok(())
    }
}

/// As long as a field of text or bytes is; one that is empty isn't written.
fn field_length(tag: u32, bytes: usize) -> usize {
    if bytes == 0 { 0 } else { key_len(tag) + encoded_len_varint(bytes as u64) + bytes }
}

fn write_field(tag: u32, bytes: &[u8], buffer: &mut impl BufMut) {
    if !bytes.is_empty() {
        write_present(tag, bytes, buffer);
    }
}

fn write_present(tag: u32, bytes: &[u8], buffer: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, buffer);
    encode_varint(bytes.len() as u64, buffer);
    buffer.put_slice(bytes);
}

fn record_length(record: &Record, series: &str) -> usize {
    let time = Timestamp::from_nanos(record.position.time.nanos());
    let items = record.items.iter().map(item_length);
    let items: usize = items.map(|length| key_len(4) + encoded_len_varint(length as u64) + length).sum();
    field_length(1, series.len())
        + encoding::message::encoded_len(2, &time)
        + field_length(3, record.position.id.len())
        + items
        + if record.continued { 2 } else { 0 }
}

fn write_record(record: &Record, series: &str, buffer: &mut impl BufMut) {
    write_field(1, series.as_bytes(), buffer);
    encoding::message::encode(2, &Timestamp::from_nanos(record.position.time.nanos()), buffer);
    write_field(3, record.position.id.as_str().as_bytes(), buffer);
    for item in &record.items {
        encode_key(4, WireType::LengthDelimited, buffer);
        encode_varint(item_length(item) as u64, buffer);
        write_field(1, item.key.as_str().as_bytes(), buffer);
        write_field(2, &item.value, buffer);
        if let Some(metadata) = &item.metadata {
            write_present(3, metadata, buffer);
        }
    }
    if record.continued {
        encoding::bool::encode(5, &true, buffer);
    }
}

fn item_length(item: &Item) -> usize {
    // Absent metadata isn't written; empty metadata is.
    let metadata = item
        .metadata
        .as_ref()
        .map_or(0, |metadata| key_len(3) + encoded_len_varint(metadata.len() as u64) + metadata.len());
    field_length(1, item.key.len()) + field_length(2, item.value.len()) + metadata
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
            for record in &page.records {
                encode_key(1, WireType::LengthDelimited, &mut buffer);
                encode_varint(record_length(record, "profile:123") as u64, &mut buffer);
                write_record(record, "profile:123", &mut buffer);
            }
            let mut rest = found();
            rest.page.records.clear();
            rest.into_message().encode_raw(&mut buffer);
            prop_assert_eq!(buffer.freeze(), Bytes::from(found().into_message().encode_to_vec()));
        }
    }
}
