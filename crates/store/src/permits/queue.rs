//! Those of one class that wait, in a fair order: start-time fair queueing over flows, by bytes.
//!
//! A read begins at the later of the class's virtual time and the end of its flow's last read, and ends so many bytes
//! later; who begins first is served first. How many bytes a read will bring isn't known before, so a flow is charged what
//! its last one brought, and the difference once it is known.

use std::{collections::BTreeMap, time::Duration};

/// A seek costs something, even when it finds nothing.
const LEAST_BYTES: u64 = 4 << 10;
/// What a flow's first read is taken for.
const FIRST_BYTES: u64 = 64 << 10;
/// Flows that are remembered. Only those matter that are ahead of the virtual time.
const MAX_FLOWS: usize = 4096;

/// A place in the queue: where it begins in virtual time, and the order of arrival.
pub(super) type Place = (u64, u64);

pub(super) struct Waiter<T> {
    pub(super) flow: u64,
    pub(super) since: Duration,
    pub(super) charged: u64,
    pub(super) turn: T,
}

/// What is known of one series.
#[derive(Clone, Copy)]
struct Flow {
    /// Where its last read ends in virtual time.
    finish: u64,
    /// What that read brought.
    bytes: u64,
}

pub(super) struct Lane<T> {
    virtual_time: u64,
    flows: BTreeMap<u64, Flow>,
    waiting: BTreeMap<Place, Waiter<T>>,
    arrivals: u64,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane { virtual_time: 0, flows: BTreeMap::new(), waiting: BTreeMap::new(), arrivals: 0 }
    }
}

impl<T> Lane<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// What the next in turn was charged.
    pub(super) fn next_charge(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(_, waiter)| waiter.charged)
    }

    /// Lets a read begin that doesn't have to wait; answers what it was charged.
    pub(super) fn begin(&mut self, flow: u64) -> u64 {
        let (start, charged) = self.charge(flow);
        self.virtual_time = self.virtual_time.max(start);
        charged
    }

    /// Lets a read wait.
    pub(super) fn push(&mut self, flow: u64, since: Duration, turn: T) -> Place {
        let (start, charged) = self.charge(flow);
        self.arrivals += 1;
        let place = (start, self.arrivals);
        self.waiting.insert(place, Waiter { flow, since, charged, turn });
        place
    }

    /// Takes the next in turn.
    pub(super) fn pop(&mut self) -> Option<Waiter<T>> {
        let ((start, _), waiter) = self.waiting.pop_first()?;
        self.virtual_time = self.virtual_time.max(start);
        Some(waiter)
    }

    /// Somebody gave up waiting.
    pub(super) fn leave(&mut self, place: Place) {
        if let Some(waiter) = self.waiting.remove(&place) {
            self.settle(waiter.flow, waiter.charged, None);
        }
    }

    /// A read brought so many bytes, or was given up.
    pub(super) fn settle(&mut self, flow: u64, charged: u64, bytes: Option<u64>) {
        let Some(known) = self.flows.get_mut(&flow) else { return };
        let cost = bytes.map_or(0, |bytes| bytes.max(LEAST_BYTES));
        known.finish = (known.finish + cost).saturating_sub(charged);
        known.bytes = bytes.map_or(known.bytes, |_| cost);
    }

    fn charge(&mut self, flow: u64) -> (u64, u64) {
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&flow) {
            let now = self.virtual_time;
            self.flows.retain(|_, flow| flow.finish > now);
            if self.flows.len() >= MAX_FLOWS {
                self.flows.clear(); // everybody begins anew: fair enough, and bounded
            }
        }
        let known = self.flows.entry(flow).or_insert(Flow { finish: 0, bytes: FIRST_BYTES });
        let start = known.finish.max(self.virtual_time);
        known.finish = start + known.bytes;
        (start, known.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the lane `times` times; what each flow got in bytes.
    fn serve(lane: &mut Lane<()>, times: usize, bytes: impl Fn(u64) -> u64) -> BTreeMap<u64, u64> {
        let mut served = BTreeMap::new();
        for _ in 0..times {
            let waiter = lane.pop().unwrap();
            *served.entry(waiter.flow).or_default() += bytes(waiter.flow);
            lane.settle(waiter.flow, waiter.charged, Some(bytes(waiter.flow)));
            lane.push(waiter.flow, Duration::ZERO, ());
        }
        served
    }

    #[test]
    fn flows_share_by_bytes_whatever_the_size_and_number_of_their_reads() {
        let mut lane = Lane::default();
        // Flow 1 has sixteen reads waiting, of 1 MiB each; flow 2 has one, of 64 KiB.
        for _ in 0..16 {
            lane.push(1, Duration::ZERO, ());
        }
        lane.push(2, Duration::ZERO, ());
        let served = serve(&mut lane, 1700, |flow| if flow == 1 { 1 << 20 } else { 64 << 10 });
        let ratio = served[&1] as f64 / served[&2] as f64;
        assert!((0.7..1.4).contains(&ratio), "{served:?}");
    }

    #[test]
    fn a_newcomer_does_not_wait_for_what_others_have_saved_up_nor_save_up_itself() {
        let mut lane = Lane::default();
        for _ in 0..100 {
            lane.push(1, Duration::ZERO, ());
        }
        serve(&mut lane, 50, |_| 1 << 20);
        lane.push(2, Duration::ZERO, ());
        let first_two: Vec<u64> = (0..2).filter_map(|_| lane.pop()).map(|waiter| waiter.flow).collect();
        assert!(first_two.contains(&2), "{first_two:?}");
    }

    #[test]
    fn who_leaves_is_not_charged_and_the_memory_is_bounded() {
        let mut lane = Lane::default();
        let place = lane.push(1, Duration::ZERO, ());
        lane.leave(place);
        assert_eq!((lane.len(), lane.flows[&1].finish), (0, 0));
        for flow in 0..10 * MAX_FLOWS as u64 {
            lane.begin(flow);
            assert!(lane.flows.len() <= MAX_FLOWS);
        }
    }
}
