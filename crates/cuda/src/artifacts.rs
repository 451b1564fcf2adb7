//! Where engines get their kernels from: memory, then the disk, then the compiler.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use frazil_core::{Compiled, Error, Origin};

use crate::compile::{Compiler, Request};
use crate::nvrtc::{NoNvrtc, nvrtc};
use crate::{Artifact, DiskCache, Key, Lookup};

/// A store of artifacts. What it gave once it keeps for as long as it lives.
///
/// Any number of threads may ask at once: those that want one kernel wait for the first of them, the
/// others do not. What goes wrong with the disk costs time and nothing else, and is said by an event
/// of `tracing` at level `WARN`: an entry that is not used and compiled anew, an artifact that cannot
/// be kept.
pub struct Artifacts {
    compiler: Arc<dyn Compiler>,
    disk: Option<DiskCache>,
    memory: Mutex<HashMap<Key, Arc<Slot>>>,
    counters: Counters,
}

/// The place of one artifact; locked by whoever makes it.
type Slot = Mutex<Option<Arc<Artifact>>>;

#[derive(Default)]
struct Counters {
    compiled: AtomicU64,
    disk: AtomicU64,
    memory: AtomicU64,
    refused: AtomicU64,
    not_kept: AtomicU64,
}

/// How often a store did what, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Artifacts that the compiler made.
    pub compiled: u64,
    /// Artifacts read from the disk.
    pub disk: u64,
    /// Answers from memory.
    pub memory: u64,
    /// Entries of the disk that were there and not used.
    pub refused: u64,
    /// Artifacts that the disk did not take.
    pub not_kept: u64,
}

/// An artifact, and how it was come by.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The artifact.
    pub artifact: Arc<Artifact>,
    /// Where it came from.
    pub origin: Origin,
    /// How long that took, waiting for others who make the same included.
    pub took: Duration,
}

/// The store of this process: its NVRTC, and the user's cache where there is a folder for one.
///
/// # Errors
///
/// [`NoNvrtc`]: nothing can be compiled, and nothing that was compiled can be named.
pub fn artifacts() -> Result<&'static Artifacts, NoNvrtc> {
    static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();
    let nvrtc = nvrtc()?;
    Ok(ARTIFACTS.get_or_init(|| {
        let disk = DiskCache::of_user();
        if let Err(error) = &disk {
            tracing::warn!("kernels are compiled anew by every process: {error}");
        }
        Artifacts::new(nvrtc, disk.ok())
    }))
}

impl Artifacts {
    /// A store over a compiler and, where there is one, a cache on disk.
    pub fn new(compiler: Arc<dyn Compiler>, disk: Option<DiskCache>) -> Self {
        let (memory, counters) = (Mutex::default(), Counters::default());
        Self { compiler, disk, memory, counters }
    }

    /// Its cache on disk.
    pub fn disk(&self) -> Option<&DiskCache> {
        self.disk.as_ref()
    }

    /// The artifact of a request: the one in memory, else the one on disk, else a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Compile`]. A request that failed is compiled again when it is asked for again.
    pub fn get(&self, request: &Request) -> Result<Fetched, Error> {
        let begin = Instant::now();
        let key = Key::of(request, self.compiler.build());
        let slot = {
            // A thread that panicked has left the map as it was, or with one more empty slot.
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(memory.entry(key).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let (artifact, origin) = match &*slot {
            Some(artifact) => (Arc::clone(artifact), Origin::Memory),
            None => {
                let (artifact, origin) = self.load_or_compile(&key, request)?;
                (Arc::clone(slot.insert(Arc::new(artifact))), origin)
            }
        };
        let counter = match origin {
            Origin::Compiled => &self.counters.compiled,
            Origin::Disk => &self.counters.disk,
            Origin::Memory => &self.counters.memory,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(Fetched { artifact, origin, took: begin.elapsed() })
    }

    /// The artifact of that key, as [`Compiled`] has it, where this store gave it before.
    pub fn find(&self, key: &str) -> Option<Arc<Artifact>> {
        let slot = {
            let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory
                .iter()
                .find(|(known, _)| known.to_string() == key)
                .map(|(_, slot)| slot.clone())?
        };
        let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.clone()
    }

    /// How often it did what.
    pub fn counts(&self) -> Counts {
        let Counters { compiled, disk, memory, refused, not_kept } = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            compiled: load(compiled),
            disk: load(disk),
            memory: load(memory),
            refused: load(refused),
            not_kept: load(not_kept),
        }
    }

    fn load_or_compile(&self, key: &Key, request: &Request) -> Result<(Artifact, Origin), Error> {
        let Some(disk) = &self.disk else {
            return Ok((self.compiler.compile(request)?, Origin::Compiled));
        };
        match disk.load(key) {
            Lookup::Hit(artifact) => return Ok((artifact, Origin::Disk)),
            Lookup::Absent => {}
            Lookup::Refused(refusal) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                let (path, kernel) = (disk.path(key), &*request.symbol);
                tracing::warn!("{kernel} is compiled anew: {}: {refusal}", path.display());
            }
        }
        let artifact = self.compiler.compile(request)?;
        if let Err(error) = disk.store(&artifact) {
            self.counters.not_kept.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("{} is compiled anew by every process: {error}", request.symbol);
        }
        Ok((artifact, Origin::Compiled))
    }
}

impl Fetched {
    /// As an engine answers it. `request` is what it was found for.
    pub fn compiled(&self, request: &Request) -> Compiled {
        Compiled {
            kernel: request.symbol.clone(),
            target: request.arch.to_string(),
            key: self.artifact.key.to_string(),
            origin: self.origin,
            took: self.took,
            image_bytes: self.artifact.image.len() as u64,
            resources: self.artifact.resources,
        }
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("compiler", &self.compiler)
            .field("disk", &self.disk)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use frazil_core::{Config, Version};

    use super::*;
    use crate::ImageKind;
    use crate::compile::{Arch, Forbidden};
    use crate::nvrtc::Build;
    use crate::sources::Source;

    const BUILD: Build = Build { version: Version::new(13, 5, 0), library_bytes: 7 };

    /// Makes an image of a few bytes; panics and then fails as long as it is told to, and counts.
    #[derive(Debug, Default)]
    struct Fake {
        compiled: AtomicU64,
        panics: AtomicU64,
        failures: AtomicU64,
    }

    impl Compiler for Fake {
        fn build(&self) -> Build {
            BUILD
        }

        fn compile(&self, request: &Request) -> Result<Artifact, Error> {
            self.compiled.fetch_add(1, Ordering::Relaxed);
            let fail = |left: u64| left.checked_sub(1);
            let (order, symbol) = (Ordering::Relaxed, request.symbol.to_string());
            assert!(self.panics.fetch_update(order, order, fail).is_err(), "told to panic");
            if self.failures.fetch_update(order, order, fail).is_ok() {
                return Err(Error::Compile { kernel: symbol, options: vec![], log: "no".into() });
            }
            // Long enough for other threads to come and wait.
            thread::sleep(Duration::from_millis(20));
            Ok(Artifact {
                key: Key::of(request, BUILD),
                kind: request.kind,
                image: symbol.clone().into_bytes(),
                symbols: vec![symbol],
                resources: None,
                compiler: BUILD.version,
            })
        }
    }

    fn request(symbol: &str) -> Request {
        Request {
            source: Source::new("a.cu", &[("a.cu", "")]).unwrap(),
            symbol: symbol.to_owned().into(),
            config: Config::default(),
            arch: Arch::ALL[0],
            kind: ImageKind::Cubin,
        }
    }

    fn forbidden(disk: &DiskCache) -> Artifacts {
        Artifacts::new(Arc::new(Forbidden(BUILD)), Some(disk.clone()))
    }

    #[test]
    fn a_second_request_and_a_second_process_compile_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(folder.path());
        let first = Artifacts::new(Arc::new(Fake::default()), Some(disk.clone()));
        let made = first.get(&request("frazil_a")).unwrap();
        let again = first.get(&request("frazil_a")).unwrap();
        assert_eq!((made.origin, again.origin), (Origin::Compiled, Origin::Memory));
        assert!(Arc::ptr_eq(&made.artifact, &again.artifact));
        let found = first.find(&made.compiled(&request("frazil_a")).key);
        assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &made.artifact)));
        assert!(first.find("").is_none());
        assert_eq!(first.counts(), Counts { compiled: 1, memory: 1, ..Counts::default() });

        let second = forbidden(&disk);
        let read = second.get(&request("frazil_a")).unwrap();
        assert_eq!((read.origin, &read.artifact), (Origin::Disk, &made.artifact));
        assert_eq!(second.counts(), Counts { disk: 1, ..Counts::default() });
        // The compiler that forbids, seen red.
        let refused = second.get(&request("frazil_b")).unwrap_err();
        assert!(refused.to_string().contains("compiling is forbidden"), "{refused}");
    }

    #[test]
    fn threads_that_want_one_kernel_compile_it_once() {
        let fake = Arc::new(Fake::default());
        let store = Artifacts::new(Arc::clone(&fake) as Arc<dyn Compiler>, None);
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for thread in 0..8 {
                let (store, barrier) = (&store, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    store.get(&request(["frazil_a", "frazil_b"][thread % 2])).unwrap();
                });
            }
        });
        assert_eq!(fake.compiled.load(Ordering::Relaxed), 2);
        assert_eq!(store.counts(), Counts { compiled: 2, memory: 6, ..Counts::default() });
    }

    #[test]
    fn a_request_that_failed_is_tried_again() {
        let fake = Fake { failures: 1.into(), ..Fake::default() };
        let store = Artifacts::new(Arc::new(fake), None);
        assert!(store.get(&request("frazil_a")).is_err());
        assert_eq!(store.get(&request("frazil_a")).unwrap().origin, Origin::Compiled);
    }

    /// Also for a thread that waited for the one that panicked.
    #[test]
    fn a_request_whose_compiler_panicked_is_tried_again() {
        let fake = Arc::new(Fake { panics: 1.into(), ..Fake::default() });
        let store = Artifacts::new(Arc::clone(&fake) as Arc<dyn Compiler>, None);
        let barrier = Barrier::new(2);
        let ended = thread::scope(|scope| {
            let ask = || {
                barrier.wait();
                store.get(&request("frazil_a")).map(|fetched| fetched.origin)
            };
            [scope.spawn(ask), scope.spawn(ask)].map(thread::ScopedJoinHandle::join)
        });
        let origins: Vec<Origin> = ended.into_iter().flatten().map(Result::unwrap).collect();
        assert_eq!(origins, [Origin::Compiled], "the other one panicked");
        assert_eq!(store.get(&request("frazil_a")).unwrap().origin, Origin::Memory);
        assert_eq!(fake.compiled.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_damaged_entry_is_compiled_anew_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let disk = DiskCache::at(folder.path());
        let store = || Artifacts::new(Arc::new(Fake::default()), Some(disk.clone()));
        let made = store().get(&request("frazil_a")).unwrap();
        let path = disk.path(&made.artifact.key);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let store = store();
        assert_eq!(store.get(&request("frazil_a")).unwrap().origin, Origin::Compiled);
        assert_eq!(store.counts(), Counts { compiled: 1, refused: 1, ..Counts::default() });
        assert_eq!(forbidden(&disk).get(&request("frazil_a")).unwrap().origin, Origin::Disk);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_time_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let store = Artifacts::new(Arc::new(Fake::default()), Some(DiskCache::at(&file)));
        assert_eq!(store.get(&request("frazil_a")).unwrap().origin, Origin::Compiled);
        assert_eq!(store.get(&request("frazil_a")).unwrap().origin, Origin::Memory);
        let counts = store.counts();
        assert_eq!((counts.compiled, counts.not_kept), (1, 1));
    }
}
