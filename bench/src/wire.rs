//! Connections that send prepared bytes and hand over received ones, so that what is measured is the server and not the
//! client's encoding.

use std::net::SocketAddr;

use anabranch_api::v1;
use anyhow::{Context, Result};
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::{
    Status, Streaming,
    client::Grpc,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::{Channel, Endpoint},
};

pub(crate) const WRITE_SYNC: &str = "/anabranch.v1.TimeSeriesService/WriteEventRecordsSync";
pub(crate) const READ: &str = "/anabranch.v1.TimeSeriesService/ReadEventRecords";
pub(crate) const STREAM: &str = "/anabranch.v1.TimeSeriesService/StreamEventRecords";
pub(crate) const CREATE_NAMESPACE: &str = "/anabranch.v1.NamespaceService/CreateNamespace";

/// Enough for a page to arrive without waiting for the window to be opened again.
const WINDOW_BYTES: u32 = 4 << 20;
/// Frames as big as the server takes them; 16 KiB, the least, would cost it a system call each.
const FRAME_BYTES: u32 = 256 << 10;
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// One connection of its own.
pub(crate) struct Connection(Grpc<Channel>);

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Connection> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.with_context(|| format!("cannot connect to {address}"))?;
        Ok(Connection(Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)))
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&mut self, method: &'static str, request: Bytes) -> Result<Bytes> {
        self.ready().await?;
        let codec = Raw { request_bytes: request.len() };
        let path = PathAndQuery::from_static(method);
        let answer = self.0.unary(tonic::Request::new(request), path, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(method, &status))
    }

    /// Sends a request and returns its stream of answers.
    pub(crate) async fn stream(&mut self, method: &'static str, request: Bytes) -> Result<Streaming<Bytes>> {
        self.ready().await?;
        let codec = Raw { request_bytes: request.len() };
        let path = PathAndQuery::from_static(method);
        let answer = self.0.server_streaming(tonic::Request::new(request), path, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(method, &status))
    }

    async fn ready(&mut self) -> Result<()> {
        self.0.ready().await.context("the connection is gone")
    }
}

pub(crate) fn failed(method: &str, status: &Status) -> anyhow::Error {
    anyhow::anyhow!("{method}: {:?}: {}", status.code(), status.message())
}

/// A request, ready to be sent.
pub(crate) fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// What a scan has to know of a page; the rest stays encoded.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PageOutline {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) records: Vec<Bytes>,
    #[prost(string, tag = "2")]
    pub(crate) next_page_token: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) response_context: Vec<v1::ResponseContext>,
}

impl PageOutline {
    /// Bytes that the server took from its store for this page.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.response_context.iter().map(|context| context.bytes_read).sum()
    }
}

/// Messages as they lie in memory.
struct Raw {
    request_bytes: usize,
}

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawEncoder;
    type Decoder = RawDecoder;

    fn encoder(&mut self) -> RawEncoder {
        RawEncoder { bytes: self.request_bytes }
    }

    fn decoder(&mut self) -> RawDecoder {
        RawDecoder
    }
}

struct RawEncoder {
    bytes: usize,
}

impl Encoder for RawEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        let whole = self.bytes + 64;
        BufferSettings::new(whole, whole)
    }
}

struct RawDecoder;

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
