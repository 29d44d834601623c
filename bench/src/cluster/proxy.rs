//! A network that takes its time: everything that goes through arrives so much later, in order, however much it is.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot},
};

use crate::figures::on_one_thread;

const CHUNK: usize = 64 << 10;
/// Chunks on their way: more than any window of TCP holds.
const ON_THEIR_WAY: usize = 1024;

/// Listens until it is dropped. It has a thread of its own: whoever waits for something that goes through it may block.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Proxy {
    /// Delays what goes to `target` and what comes back, each by `delay`.
    pub(crate) fn start(target: SocketAddr, delay: Duration) -> Result<Proxy> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            on_one_thread(async move {
                let listener = TcpListener::from_std(listener)?;
                tokio::select! {
                    () = accept(listener, target, delay) => {}
                    _ = stopped => {}
                }
                Ok(())
            })
        });
        Ok(Proxy { address, _stop: stop })
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, delay: Duration) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(target).await else { return };
            client.set_nodelay(true).ok();
            server.set_nodelay(true).ok();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(carry(from_client, to_server, delay), carry(from_server, to_client, delay));
        });
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut on_their_way) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THEIR_WAY);
    let reading = async move {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            if sender.send((Instant::now() + delay, chunk[..length].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let writing = async move {
        while let Some((due, bytes)) = on_their_way.recv().await {
            tokio::time::sleep_until(due.into()).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(reading, writing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_through_arrives_whole_and_late_both_ways() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = echo.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = echo.accept().await.unwrap();
            let (mut from, mut to) = stream.split();
            tokio::io::copy(&mut from, &mut to).await.unwrap();
        });
        let proxy = Proxy::start(target, Duration::from_millis(20)).unwrap();
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let began = Instant::now();
        let (mut from, mut to) = stream.split();
        let mut received = vec![0; sent.len()];
        let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut received));
        written.unwrap();
        read.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
        assert!(received == sent, "other bytes came back");
    }
}
