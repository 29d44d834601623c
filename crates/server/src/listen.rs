//! Sockets and connections: accepting, TLS, HTTP/1 and HTTP/2, and an end that lets requests under way finish.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anabranch_runtime::Env;
use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto::Builder,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::observe::{Observe, Protocol};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEADER_BYTES: u32 = 64 << 10;
const MAX_STREAMS: u32 = 1024;
/// Bytes that a client may send ahead of what was read, per request and per connection.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const MAX_FRAME: u32 = 256 << 10;
/// Bytes of answers that may wait for a slow client, per request.
const SEND_BUFFER: usize = 1 << 20;
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait when a connection can't be accepted, as when too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address that is listened on, and who answers there.
pub(crate) struct Listener {
    pub(crate) protocol: Protocol,
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
    /// Places for connections, shared by all listeners.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) env: Env,
    pub(crate) observe: Arc<Observe>,
}

/// Begins to listen.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

impl Listener {
    /// Serves until `stop` says true, then gives requests under way at most `grace` to finish.
    pub(crate) async fn serve(self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let builder = builder();
        let ending = GracefulShutdown::new();
        let (cut, _) = watch::channel(());
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = self.accept() => accepted,
            };
            let Some((tcp, place)) = accepted else { continue };
            let connection = Connection {
                builder: builder.clone(),
                watcher: ending.watcher(),
                router: self.router.clone(),
                tls: self.tls.clone(),
                env: self.env.clone(),
            };
            let mut cut = cut.subscribe();
            let open = self.observe.connections.with_label_values(&[self.protocol.name()]);
            open.inc();
            self.env.spawn(async move {
                tokio::select! {
                    () = connection.serve(tcp) => {}
                    // The sender is gone: time is up.
                    _ = cut.changed() => {}
                }
                open.dec();
                drop(place);
            });
        }
        drop(self.tcp);
        if self.env.timeout(grace, ending.shutdown()).await.is_err() {
            tracing::warn!(
                protocol = self.protocol.name(),
                ?grace,
                "connections that did not come to their end in time are cut off"
            );
        }
    }

    /// The next connection, once there is room for it.
    async fn accept(&self) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
        let place = self.room.clone().acquire_owned().await.ok()?;
        match self.tcp.accept().await {
            Ok((tcp, _)) => {
                // Answers are small and awaited: waiting for more to send only delays them.
                let _ = tcp.set_nodelay(true);
                Some((tcp, place))
            }
            Err(error) => {
                tracing::warn!(protocol = self.protocol.name(), %error, "a connection could not be accepted");
                self.env.sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}

/// One connection with all it needs.
struct Connection {
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
    router: Router,
    tls: Option<TlsAcceptor>,
    env: Env,
}

impl Connection {
    async fn serve(self, tcp: TcpStream) {
        let Some(tls) = self.tls.clone() else { return self.speak(tcp).await };
        match self.env.timeout(HANDSHAKE_TIMEOUT, tls.accept(tcp)).await {
            Ok(Ok(stream)) => self.speak(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = TowerToHyperService::new(self.router);
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(error, "a connection broke");
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .max_send_buf_size(SEND_BUFFER)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    builder
}
