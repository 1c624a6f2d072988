//! Runs work on all cores and collects the results on one thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// More threads than this gain nothing on one disk.
const MAX_WORKERS: usize = 8;

/// Runs `work` for every job on all cores and passes the results to `take` as they arrive. Workers run ahead
/// only as far as memory stays bounded. The first error of `take` stops it.
pub(crate) fn each<'j, J: Sync, R: Send, E>(
    jobs: &'j [J],
    work: impl Fn(&J) -> R + Sync,
    mut take: impl FnMut(&'j J, R) -> Result<(), E>,
) -> Result<(), E> {
    let workers =
        thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_WORKERS).min(jobs.len());
    if workers < 2 {
        return jobs.iter().try_for_each(|job| take(job, work(job)));
    }
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(workers);
        for _ in 0..workers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send((job, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        // Dropping the receiver on an error ends the workers.
        receiver.into_iter().try_for_each(|(job, result)| take(job, result))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_is_taken_once() {
        let jobs: Vec<u64> = (0..1000).collect();
        let mut sum = 0;
        let done: Result<(), ()> = each(
            &jobs,
            |job| job * 2,
            |_, result| {
                sum += result;
                Ok(())
            },
        );
        assert_eq!((done, sum), (Ok(()), 999_000));
    }

    #[test]
    fn an_error_ends_the_work() {
        let jobs: Vec<u64> = (0..1000).collect();
        let mut taken = 0;
        let done = each(
            &jobs,
            |job| *job,
            |_, _| {
                taken += 1;
                if taken == 3 { Err("full") } else { Ok(()) }
            },
        );
        assert_eq!((done, taken), (Err("full"), 3));
    }
}
