//! Ports that nobody uses, chosen when a server starts.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use crate::error::TestbedError;

/// Below it are ports of services.
const LOWEST: u16 = 10_000;
/// From here on the system takes ports for connections that programs open, unless it says otherwise.
const LEASED: u16 = 32_768;
/// How many ports a process tries before those where the process after it began.
const STRIDE: u32 = 61;
const ATTEMPTS: usize = 1_000;

/// A loopback address, `127.0.0.N`: each node of a ring has its own, so that all may use the same ports.
pub fn loopback(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

/// Different ports that are free on every one of these addresses. No connection gets one of them by chance, however long the server
/// takes to start, and this process gets none of them a second time.
pub fn free<const N: usize>(addresses: &[Ipv4Addr]) -> Result<[u16; N], TestbedError> {
    let leased = leased();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = one(addresses, leased)?;
    }
    Ok(ports)
}

fn one(addresses: &[Ipv4Addr], leased: u16) -> Result<u16, TestbedError> {
    let is_free = |port: &u16| addresses.iter().all(|address| TcpListener::bind((*address, *port)).is_ok());
    let found = std::iter::repeat_with(|| next(leased)).take(ATTEMPTS).find(is_free);
    found.ok_or_else(|| TestbedError::Refused(format!("no port is free on all of {addresses:?}")))
}

/// The next one to try. Processes that run beside each other have numbers that lie close together, and begin apart.
fn next(leased: u16) -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let place = std::process::id().wrapping_mul(STRIDE).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
    LOWEST + (place % u32::from(leased - LOWEST)) as u16
}

/// The first port that the system may take for a connection.
fn leased() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.filter(|first| *first > LOWEST).unwrap_or(LEASED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_can_be_bound_on_every_address() {
        let addresses = [loopback(1), loopback(2), loopback(3)];
        let ports: [u16; 4] = free(&addresses).unwrap();
        let mut held = Vec::new();
        for port in ports {
            for address in addresses {
                held.push(TcpListener::bind((address, port)).unwrap());
            }
        }
        assert_eq!(held.len(), 12);
    }

    /// A server may take half a minute to bind what it was given.
    #[test]
    fn a_port_that_was_given_is_not_given_again_and_no_connection_gets_it() {
        let first: [u16; 50] = free(&[loopback(1)]).unwrap();
        let second: [u16; 50] = free(&[loopback(1)]).unwrap();
        let leased = leased();
        assert!(
            first.iter().all(|port| (LOWEST..leased).contains(port) && !second.contains(port)),
            "{first:?} {second:?}"
        );
    }
}
