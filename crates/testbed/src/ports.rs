//! Ports that nobody uses, chosen when a server starts.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{TestbedError, cannot};

/// A loopback address, `127.0.0.N`: each node of a ring has its own, so that all may use the same ports.
pub fn loopback(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, number)
}

/// Different ports that are free on every one of these addresses. Nothing keeps them free: take them soon.
pub fn free<const N: usize>(addresses: &[Ipv4Addr]) -> Result<[u16; N], TestbedError> {
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        *port = one(addresses, &mut held)?;
    }
    Ok(ports)
}

/// Holds what it found, so that the next one is another.
fn one(addresses: &[Ipv4Addr], held: &mut Vec<TcpListener>) -> Result<u16, TestbedError> {
    for _ in 0..100 {
        let first = TcpListener::bind((addresses[0], 0)).map_err(cannot("find a free port"))?;
        let port = first.local_addr().map_err(cannot("find a free port"))?.port();
        let others: Result<Vec<_>, _> =
            addresses[1..].iter().map(|address| TcpListener::bind((*address, port))).collect();
        held.push(first);
        if let Ok(others) = others {
            held.extend(others);
            return Ok(port);
        }
    }
    Err(TestbedError::Refused(format!("no port is free on all of {addresses:?}")))
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
}
