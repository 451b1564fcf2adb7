//! Timing: contenders in rounds, each round in an order of its own.

use std::time::{Duration, Instant};

use super::device::{Cache, Loaded};
use super::stats::Summary;
use crate::failure::Failure;

/// When a cell has been timed for long enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    /// Most rounds.
    pub(super) rounds: u32,
    /// Time after which no other round begins.
    pub(super) budget: Duration,
    pub(super) cache: Cache,
}

/// Shortest sample with warm caches: what is shorter is executed several times between two looks at
/// the clock. With cold caches an execute is a sample.
const SHORTEST: Duration = Duration::from_millis(2);

/// One in so many rounds is dropped at the start, while clocks and caches settle.
const SETTLING: usize = 8;

/// Times of one contender, one a round, in seconds; or the fault that ended it.
pub(super) type Samples = Result<Vec<f64>, Failure>;

impl Rounds {
    /// Times all contenders, after one execute of each that is not counted. `round` is told how many
    /// rounds are done.
    pub(super) fn run(
        &self,
        loaded: &mut dyn Loaded,
        contenders: usize,
        random: &mut fastrand::Rng,
        mut round: impl FnMut(u32),
    ) -> Vec<Samples> {
        let start = Instant::now();
        let mut samples: Vec<Samples> = (0..contenders).map(|_| Ok(Vec::new())).collect();
        let mut executes = vec![1; contenders];
        for (at, executes) in executes.iter_mut().enumerate() {
            match loaded.time(at, 1) {
                Ok(time) => *executes = self.executes(time),
                Err(fault) => samples[at] = Err(fault),
            }
        }
        let mut order: Vec<usize> = (0..contenders).collect();
        for done in 0..self.rounds {
            if done > 0 && start.elapsed() >= self.budget {
                break;
            }
            random.shuffle(&mut order);
            for &at in &order {
                let Ok(times) = &mut samples[at] else { continue };
                match loaded.time(at, executes[at]) {
                    Ok(time) => times.push(time.as_secs_f64()),
                    Err(fault) => samples[at] = Err(fault),
                }
            }
            round(done + 1);
        }
        for times in samples.iter_mut().flatten() {
            times.drain(..times.len() / SETTLING);
        }
        samples
    }

    fn executes(&self, time: Duration) -> u32 {
        match self.cache {
            Cache::Cold => 1,
            Cache::Warm => {
                let count = SHORTEST.as_nanos().div_ceil(time.as_nanos().max(1));
                u32::try_from(count).unwrap_or(u32::MAX).clamp(1, 10_000)
            }
        }
    }
}

/// How many times as fast as `first` a contender was, round by round.
pub(super) fn speedup(first: &[f64], times: &[f64]) -> Option<Summary> {
    let ratios: Vec<f64> = first.iter().zip(times).map(|(first, time)| first / time).collect();
    Summary::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::inputs::Image;

    /// Contender `c` takes `c + 1` milliseconds; the last one breaks after its third execute.
    struct Fake {
        log: Vec<(usize, u32)>,
    }

    impl Loaded for Fake {
        fn store(&mut self, _: &[Image]) -> Result<(), Failure> {
            Ok(())
        }

        fn time(&mut self, contender: usize, executes: u32) -> Result<Duration, Failure> {
            self.log.push((contender, executes));
            let seen = self.log.iter().filter(|&&(one, _)| one == contender).count();
            if contender == 2 && seen > 3 {
                return Err(Failure::Fault("broken".into()));
            }
            Ok(Duration::from_millis(contender as u64 + 1))
        }

        fn fetch(&self, _: usize) -> Result<Vec<u8>, Failure> {
            Ok(Vec::new())
        }
    }

    fn run(rounds: u32, budget: Duration, cache: Cache) -> (Vec<Samples>, Fake) {
        let mut fake = Fake { log: Vec::new() };
        let rounds = Rounds { rounds, budget, cache };
        let samples = rounds.run(&mut fake, 3, &mut fastrand::Rng::with_seed(1), |_| {});
        (samples, fake)
    }

    #[test]
    fn rounds_interleave_in_changing_orders_and_faults_end_one_contender() {
        let (samples, fake) = run(40, Duration::MAX, Cache::Cold);
        assert_eq!(samples[0].as_ref().unwrap(), &[0.001; 35]);
        assert_eq!(samples[1].as_ref().unwrap(), &[0.002; 35]);
        assert!(samples[2].is_err());
        let rounds: Vec<&[(usize, u32)]> = fake.log[12..].chunks_exact(2).collect();
        assert!(rounds.iter().all(|round| round[0].0 != round[1].0));
        assert!(rounds.iter().any(|round| round[0].0 == 0));
        assert!(rounds.iter().any(|round| round[0].0 == 1));
        let ratio = speedup(samples[1].as_ref().unwrap(), samples[0].as_ref().unwrap()).unwrap();
        assert_eq!((ratio.median, ratio.interval), (2.0, Some((2.0, 2.0))));
    }

    #[test]
    fn a_budget_ends_after_a_whole_round() {
        let (samples, _) = run(40, Duration::ZERO, Cache::Cold);
        assert!(samples.iter().all(|samples| samples.as_ref().unwrap().len() == 1));
    }

    #[test]
    fn warm_samples_are_long_enough_for_a_clock() {
        let (_, fake) = run(1, Duration::MAX, Cache::Warm);
        let (of_first, of_second) = (fake.log.contains(&(0, 2)), fake.log.contains(&(1, 1)));
        assert!(of_first && of_second, "{:?}", fake.log);
    }
}
