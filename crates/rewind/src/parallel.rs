//! Runs the same work on many items with a few threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const MAX_THREADS: usize = 8;
/// Fewer things than this are not worth a thread.
const WORTH_A_THREAD: usize = 32;

/// Calls `work` with adjacent slices of `items`; the results are in the order of the items.
pub(crate) fn map_pieces<T: Sync, R: Send>(
    items: &[T],
    piece: usize,
    work: impl Fn(&[T]) -> Vec<R> + Sync,
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    if threads < 2 || items.len() < WORTH_A_THREAD {
        return work(items);
    }
    let pieces: Vec<&[T]> = items.chunks(piece.max(1)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(index) else { return done };
            done.push((index, work(piece)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = map_pieces(&items, 7, |piece| piece.iter().map(|n| n * 2).collect());
        assert_eq!(doubled, items.iter().map(|n| n * 2).collect::<Vec<_>>());
    }
}
