//! What is answered on the ports of a server that isn't up yet: that it is alive, and what it waits for.

use std::{io, os::fd::AsFd, sync::Arc, time::Duration};

use anabranch_runtime::Env;
use axum::{Router, response::Response, routing::get};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    StartError,
    backend::Waiting,
    failure::Failure,
    listen::Listener,
    observe::{Observe, Protocol},
};

/// How long answers under way get when the server is up.
const GRACE: Duration = Duration::from_secs(1);

/// Answers until it is dropped.
pub(crate) struct Doors<'a> {
    waiting: &'a Waiting,
    room: &'a Arc<Semaphore>,
    observe: &'a Arc<Observe>,
    env: &'a Env,
    stop: watch::Sender<bool>,
}

impl<'a> Doors<'a> {
    pub(crate) fn new(
        waiting: &'a Waiting,
        room: &'a Arc<Semaphore>,
        observe: &'a Arc<Observe>,
        env: &'a Env,
    ) -> Doors<'a> {
        Doors { waiting, room, observe, env, stop: watch::channel(false).0 }
    }

    /// Answers on a port, in the words of its protocol. The port stays open when this ends.
    pub(crate) fn answer(
        &self,
        protocol: Protocol,
        port: &TcpListener,
        tls: Option<TlsAcceptor>,
        refuse: fn(&Failure) -> Response,
    ) -> Result<(), StartError> {
        let waiting = self.waiting.clone();
        let router = Router::new()
            .route("/healthz", get(async || "ok\n"))
            .fallback(async move || refuse(&Failure::from(waiting.reason())));
        let listener = Listener {
            protocol,
            tcp: same_port(port).map_err(|error| StartError::Internal(error.to_string()))?,
            tls,
            router,
            room: self.room.clone(),
            env: self.env.clone(),
            observe: self.observe.clone(),
        };
        self.env.spawn(listener.serve(self.stop.subscribe(), GRACE));
        Ok(())
    }
}

impl Drop for Doors<'_> {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

fn same_port(port: &TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(port.as_fd().try_clone_to_owned()?.into())
}
