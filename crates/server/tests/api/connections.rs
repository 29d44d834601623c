//! What becomes of requests when connections break, servers say nothing or are away, while another server is there: real sockets
//! between a client and a real server.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_api::v1;
use anabranch_client::{Client, ClientOptions, ErrorKind, RetryPolicy};
use anabranch_runtime::Env;
use futures_util::TryStreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::harness::{Fixture, event, history};

/// How long any test may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tries again soon, and as often as clients do by default.
fn options() -> ClientOptions {
    let retry = RetryPolicy { first_delay: Duration::from_millis(1), ..RetryPolicy::default() };
    ClientOptions { retry, ..ClientOptions::default() }
}

fn client(servers: &[SocketAddr], options: ClientOptions) -> Client {
    let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
    Client::connect_lazily(&servers.join(","), options).unwrap()
}

/// An address at which nobody answers.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Hands bytes on between clients and a server, until its connections are reset, as when the server's process is killed.
struct Gate {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    resets: watch::Sender<u64>,
}

impl Gate {
    /// Connections are reset by themselves, too, after so many bytes to the client.
    async fn before(env: &Env, server: SocketAddr, most: usize) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (resets, heard) = watch::channel(0);
        let connections = Arc::new(AtomicUsize::new(0));
        let (tasks, counted) = (env.clone(), connections.clone());
        env.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let mut heard = heard.clone();
                heard.mark_unchanged();
                tasks.spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    hand_on(client, server, most, heard).await;
                });
            }
        });
        Gate { address, connections, resets }
    }

    fn reset(&self) {
        self.resets.send_modify(|resets| *resets += 1);
    }
}

async fn hand_on(mut client: TcpStream, mut server: TcpStream, most: usize, mut reset: watch::Receiver<u64>) {
    let (mut up, mut down, mut handed) = (vec![0; 16 << 10], vec![0; 16 << 10], 0);
    while handed < most {
        tokio::select! {
            _ = reset.changed() => break,
            read = client.read(&mut up) => match read {
                Ok(bytes) if bytes > 0 => server.write_all(&up[..bytes]).await.unwrap(),
                _ => return,
            },
            read = server.read(&mut down) => match read {
                Ok(bytes) if bytes > 0 => {
                    handed += bytes;
                    if client.write_all(&down[..bytes]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
    client.set_zero_linger().unwrap();
}

/// What somebody does who takes a request and never answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lapse {
    /// Resets the connection.
    Resets,
    /// Closes it.
    Closes,
    /// Says that it takes no more requests, this one included, and closes it.
    GoesAway,
    /// Keeps it open.
    Stalls,
}

/// Somebody who takes requests and never answers one.
struct Failing {
    address: SocketAddr,
    taken: Arc<AtomicUsize>,
}

impl Failing {
    async fn by(env: &Env, lapse: Lapse) -> Failing {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let failing = Failing { address: listener.local_addr().unwrap(), taken: Arc::default() };
        let (tasks, taken) = (env.clone(), failing.taken.clone());
        env.spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                let taken = taken.clone();
                tasks.spawn(async move {
                    if take_request(&mut tcp).await.is_none() {
                        return;
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                    fail(tcp, lapse).await;
                });
            }
        });
        failing
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// Reads what HTTP/2 begins with and frames until one opens a request.
async fn take_request(tcp: &mut TcpStream) -> Option<()> {
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    tcp.read_exact(&mut preface).await.ok()?;
    loop {
        let mut head = [0; 9];
        tcp.read_exact(&mut head).await.ok()?;
        let mut rest = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        tcp.read_exact(&mut rest).await.ok()?;
        if head[3] == HEADERS {
            return Some(());
        }
    }
}

async fn fail(mut tcp: TcpStream, lapse: Lapse) {
    match lapse {
        Lapse::Resets => tcp.set_zero_linger().unwrap(),
        Lapse::Closes => close(tcp).await,
        Lapse::GoesAway => {
            const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            tcp.write_all(&[&SETTINGS[..], &GO_AWAY].concat()).await.unwrap();
            close(tcp).await;
        }
        Lapse::Stalls => drop(tcp.read_to_end(&mut Vec::new()).await),
    }
}

/// What is unread when a connection is dropped resets it.
async fn close(mut tcp: TcpStream) {
    tcp.shutdown().await.unwrap();
    let _ = tcp.read_to_end(&mut Vec::new()).await;
}

fn one_event(fixture: &Fixture, series: &str, id: &str) -> v1::WriteEventRecordsRequest {
    let events = vec![event(series, fixture.ago(60), id, "x")];
    v1::WriteEventRecordsRequest { namespace: "plays".to_owned(), events }
}

/// Writes and reads from so many tasks at once, each so often; nothing may fail.
async fn load(fixture: &Fixture, client: &Client, tasks: usize, times: u64, done: &Arc<AtomicU64>) {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let (client, done) = (client.clone(), done.clone());
            let requests: Vec<_> =
                (0..times).map(|time| one_event(fixture, "profile:1", &format!("e-{task}-{time}"))).collect();
            fixture.env.spawn(async move {
                for request in requests {
                    client.write_sync(request).await.unwrap();
                    client.read(v1::ReadEventRecordsRequest { page_size: 10, ..history("profile:1") }).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no request may fail");
    }
}

#[tokio::test]
async fn no_request_fails_while_one_of_two_servers_is_away() {
    let fixture = Fixture::new().await;
    for _ in 0..5 {
        let client = client(&[nobody().await, fixture.grpc], options());
        load(&fixture, &client, 64, 4, &Arc::default()).await;
    }
    fixture.stop().await;
}

#[tokio::test]
async fn no_request_fails_when_connections_are_reset_under_it() {
    let fixture = Fixture::new().await;
    let gates = [
        Gate::before(&fixture.env, fixture.grpc, usize::MAX).await,
        Gate::before(&fixture.env, fixture.grpc, usize::MAX).await,
    ];
    let client = client(&gates.each_ref().map(|gate| gate.address), options());
    let done = Arc::new(AtomicU64::new(0));
    let resets = async {
        for turn in 0..20 {
            let enough = done.load(Ordering::Relaxed) + 50;
            while done.load(Ordering::Relaxed) < enough {
                tokio::task::yield_now().await;
            }
            gates[turn % 2].reset();
            gates[(turn + 1) % 2].reset();
        }
    };
    let load = load(&fixture, &client, 16, 100, &done);
    let ((), ()) = fixture.env.timeout(PATIENCE, async { tokio::join!(load, resets) }).await.unwrap();
    fixture.stop().await;
}

#[tokio::test]
async fn a_request_that_was_lost_goes_to_the_next_server_if_that_is_safe() {
    let fixture = Fixture::new().await;
    for lapse in [Lapse::Resets, Lapse::Closes, Lapse::GoesAway, Lapse::Stalls] {
        let failing = Failing::by(&fixture.env, lapse).await;
        let options = ClientOptions { request_timeout: Duration::from_secs(2), ..options() };
        let anew = || client(&[failing.address, fixture.grpc], options.clone());
        let series = format!("profile:{lapse:?}");
        anew().write_sync(one_event(&fixture, &series, "e-1")).await.unwrap_or_else(|e| panic!("{lapse:?}: {e:?}"));
        let page = anew().read(history(&series)).await.unwrap_or_else(|e| panic!("{lapse:?}: {e:?}"));
        assert_eq!(page.records.len(), 1, "W2: {lapse:?}");
        assert_eq!(failing.taken(), 2, "{lapse:?}");

        // What isn't safe to send again isn't, and the error says what is known.
        let request = v1::CreateNamespaceRequest { name: "again".to_owned(), ..Default::default() };
        let error = anew().create_namespace(request).await.unwrap_err();
        let expected = if lapse == Lapse::Stalls { ErrorKind::Timeout } else { ErrorKind::Unavailable };
        assert_eq!((error.kind(), failing.taken()), (expected, 3), "{lapse:?}: {error:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_server_that_is_alone_and_says_nothing_is_waited_for_once() {
    let env = Env::system();
    let failing = Failing::by(&env, Lapse::Stalls).await;
    let options = ClientOptions { request_timeout: Duration::from_millis(200), ..options() };
    let error = client(&[failing.address], options).read(history("profile:1")).await.unwrap_err();
    assert_eq!((error.kind(), failing.taken()), (ErrorKind::Timeout, 1), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_any_more_is_given_up_before_the_time_of_the_request() {
    let fixture = Fixture::new().await;
    fixture.write(vec![event("profile:1", fixture.ago(60), "e-1", "x")]).await;
    let failing = Failing::by(&fixture.env, Lapse::Stalls).await;
    let options = ClientOptions { request_timeout: 2 * PATIENCE, keep_alive: Duration::from_millis(500), ..options() };
    let anew = || client(&[failing.address, fixture.grpc], options.clone());
    let page = fixture.env.timeout(PATIENCE, anew().read(history("profile:1"))).await.unwrap().unwrap();
    let stream = anew().stream(history("profile:1")).try_collect::<Vec<_>>();
    let pages = fixture.env.timeout(PATIENCE, stream).await.unwrap().unwrap();
    let records: usize = pages.iter().map(|page| page.records.len()).sum();
    assert_eq!((page.records.len(), records, failing.taken()), (1, 1, 2));
    fixture.stop().await;
}

#[tokio::test]
async fn what_was_never_sent_goes_to_the_next_server_whatever_it_is() {
    let fixture = Fixture::new().await;
    let request = v1::CreateNamespaceRequest { name: "again".to_owned(), ..Default::default() };
    client(&[nobody().await, fixture.grpc], options()).create_namespace(request).await.unwrap();
    fixture.stop().await;
}

/// R1, and more breaks than attempts: progress begins the count again.
#[tokio::test]
async fn a_stream_whose_connections_break_holds_every_record_once() {
    const EVENTS: usize = 400;
    let fixture = Fixture::new().await;
    let value = bytes::Bytes::from(vec![7; 4 << 10]);
    let time = fixture.ago(60);
    for batch in 0..EVENTS / 50 {
        let events = (0..50).map(|at| event("profile:1", time, &format!("e-{:03}", batch * 50 + at), value.clone()));
        fixture.write(events.collect()).await;
    }
    let gate = Gate::before(&fixture.env, fixture.grpc, 128 << 10).await;
    let client = client(&[gate.address], options());
    let request = v1::ReadEventRecordsRequest { page_size: 5, ..history("profile:1") };
    let pages = fixture.env.timeout(PATIENCE, client.stream(request).try_collect::<Vec<_>>()).await.unwrap().unwrap();
    let ids: Vec<String> = pages.into_iter().flat_map(|page| page.records).map(|record| record.event_id).collect();
    let expected: Vec<String> = (0..EVENTS).rev().map(|at| format!("e-{at:03}")).collect();
    assert_eq!(ids, expected);
    let connections = gate.connections.load(Ordering::Relaxed);
    assert!(connections > RetryPolicy::default().attempts as usize, "only {connections} connections broke");
    fixture.stop().await;
}
