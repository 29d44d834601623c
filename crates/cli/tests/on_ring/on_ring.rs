//! Two servers and two workers on three nodes and a broker, and what is taken away from them: one after another, and two
//! at once.

mod faults;
mod load;
mod processes;
mod stage;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use faults::{Fault, Pairs};
use stage::Stage;

/// How many pairs of faults a run goes through.
const PAIRS: usize = 4;
/// One ring at a time: two would leave each other no processor.
static TURN: Mutex<()> = Mutex::new(());

/// W1, R1, S2 to S5 on real processes: whichever one of them goes away, nothing acknowledged is lost, nothing wrong is read,
/// and every split comes to its end.
#[test]
fn nothing_is_lost_or_wrong_while_one_after_another_goes_away() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stage = Stage::set();
    stage.import("wide-0");
    stage.wait_for_splits("wide-0");
    stage.tell("a wide history was noticed by a read, told over Kafka, and split by a worker");

    stage.strike(Fault::NodeKilled(2));
    stage.goes_on();
    stage.import("wide-1");
    stage.heal(Fault::NodeKilled(2));
    stage.goes_on();

    stage.strike(Fault::BrokerKilled);
    stage.goes_on();
    stage.heal(Fault::BrokerKilled);
    stage.wait_for_splits("wide-1");

    for state in ["DETECTED", "PLANNING", "PLANNED", "SPLITTING", "VERIFYING", "FAILED"] {
        stage.kill_workers_in(state);
    }
    stage.tell("every split came to its end");

    stage.kill_servers_in_turn();

    stage.strike(Fault::NodeStill(1));
    stage.hold(Duration::from_secs(20));
    stage.asked_others();
    stage.heal(Fault::NodeStill(1));
    stage.goes_on();

    if stage.has_small_disk() {
        stage.strike(Fault::NodeFull);
        stage.import("wide-5");
        stage.goes_on();
        stage.notices_a_full_disk();
        stage.heal(Fault::NodeFull);
        stage.wait_for_splits("wide-5");
    }

    stage.restart_servers_in_turn();
    stage.end();
}

/// The same while any two of them are away at once, drawn by a seed. Where that leaves no majority of nodes, or no server, nobody is
/// served meanwhile, and afterwards everything goes on.
#[test]
fn nothing_is_lost_or_wrong_while_two_at_once_go_away() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = faults::seed();
    let mut stage = Stage::set();
    stage.tell(&format!("pairs of faults by seed {seed}: cargo xtask test --tier ring --seed {seed}"));
    for (number, [first, second]) in Pairs::new(seed, stage.has_small_disk()).take(PAIRS).enumerate() {
        let series = format!("pair-{number}");
        stage.import(&series);
        stage.strike(first);
        stage.strike(second);
        match faults::leave_enough([first, second]) {
            true => stage.goes_on(),
            false => stage.hold(Duration::from_secs(10)),
        }
        // The later one goes first, and last the next time.
        let mut order = if number % 2 == 0 { [second, first] } else { [first, second] };
        // A node ends when it is started while the one that it asks about the ring stands still.
        order.sort_by_key(|fault| !matches!(fault, Fault::NodeStill(_)));
        order.into_iter().for_each(|fault| stage.heal(fault));
        stage.goes_on();
        stage.wait_for_splits(&series);
    }
    stage.end();
}

/// What happened when.
pub(crate) struct Story {
    begun: Instant,
}

impl Story {
    fn begin() -> Self {
        Story { begun: Instant::now() }
    }

    fn tell(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}
