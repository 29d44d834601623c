//! CPU time and memory of a process, from `/proc`.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// Linux counts in this unit towards programs, whatever the kernel's own tick is.
const TICKS_PER_SECOND: u64 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So long without CPU time, and background work counts as done.
const QUIET_LOOKS: u32 = 4;
const MOST_LOOKS: u32 = 600;

/// A running process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// CPU time so far, of all its threads, in user and in kernel mode. To the hundredth of a second.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let text = self.read("stat")?;
        // The name in parentheses may hold anything; user and system time are the 12th and 13th field after it.
        let (_, fields) = text.rsplit_once(')').context("no name in /proc/PID/stat")?;
        let mut fields = fields.split_whitespace().skip(11);
        let mut ticks =
            || fields.next().and_then(|field| field.parse::<u64>().ok()).context("no times in /proc/PID/stat");
        let total = ticks()? + ticks()?;
        Ok(Duration::from_millis(total * 1000 / TICKS_PER_SECOND))
    }

    /// This one.
    pub(crate) fn own() -> Process {
        Process(std::process::id())
    }

    /// The same for this process, to the nanosecond.
    pub(crate) fn own_cpu() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    /// Memory that is resident now.
    pub(crate) fn resident_bytes(self) -> Result<u64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc/PID/status")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Waits until it uses no CPU time any more, so that flushes and compactions it still owes are counted. Says how much
    /// it had used then.
    pub(crate) async fn settled_cpu(self) -> Result<Duration> {
        let mut last = self.cpu()?;
        let mut quiet = 0;
        for _ in 0..MOST_LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.cpu()?;
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
            if quiet >= QUIET_LOOKS {
                break;
            }
        }
        Ok(last)
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_its_cpu_time_grows_with_work() {
        let process = Process(std::process::id());
        assert!(process.resident_bytes().unwrap() > 1 << 20);
        let before = process.cpu().unwrap();
        let mut number = 1u64;
        while process.cpu().unwrap() < before + Duration::from_millis(50) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(Process::own_cpu() >= before);
    }
}
