//! This computer's processor as a device to bench on.

use std::time::{Duration, Instant};

use frazil::{Bindings, Device, DeviceProps, Executable, HostBuffer, Stream, Workspace};
use frazil_roofline::{Product, Sweep};

use super::device::{BenchDevice, Cache, Limits, Loaded};
use super::inputs::Image;
use crate::computer;
use crate::failure::Failure;

/// Rows and columns of the product that frazil's host engine is held against.
const PRODUCT_ROWS: usize = 2048;

/// More than the caches of any processor that one process gets for itself.
const SWEEP_BYTES: usize = 256 << 20;

/// Times that each limit is measured; the best counts.
const RUNS: u32 = 3;

/// The processor.
pub(super) struct Host {
    device: Device,
    name: String,
    driver: String,
    product: Product,
    sweep: Sweep,
}

/// Host memory with a cell's tensors.
struct HostLoaded<'a> {
    host: &'a Host,
    cache: Cache,
    tensors: Vec<(Image, HostBuffer)>,
    contenders: Vec<(Executable, HostBuffer)>,
}

impl Host {
    pub(super) fn open() -> Self {
        let device = frazil::cpu::host();
        let num_threads = match &device.target().device {
            DeviceProps::Host(host) => host.num_threads,
            _ => 1,
        };
        let driver = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let product = Product::new(PRODUCT_ROWS, usize::try_from(num_threads).unwrap_or(1));
        let processor = computer::processor(text);
        let processor = processor.as_deref().unwrap_or(std::env::consts::ARCH);
        let name = format!("{processor}, {num_threads} threads");
        Self { device, name, driver, product, sweep: Sweep::new(SWEEP_BYTES) }
    }
}

/// A file's text.
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl BenchDevice for Host {
    fn device(&self) -> &Device {
        &self.device
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn driver(&self) -> &str {
        &self.driver
    }

    fn free_bytes(&self) -> Option<u64> {
        computer::free_bytes(text)
    }

    fn limits(&mut self) -> Result<Limits, Failure> {
        Ok(Limits {
            flops: (self.product.best_flops_per_second(RUNS), "gemm_f32_2048"),
            bytes: (self.sweep.best_bytes_per_second(RUNS), "read_256_mib"),
        })
    }

    fn load<'a>(
        &'a self,
        images: &[Image],
        contenders: Vec<Executable>,
        cache: Cache,
    ) -> Result<Box<dyn Loaded + 'a>, Failure> {
        let tensors = images.iter().map(|image| {
            let Image { tensor, bytes } = image;
            let buffer = HostBuffer::zeroed(bytes.len());
            (Image { tensor: tensor.clone(), bytes: Vec::new() }, buffer)
        });
        let with_workspace = |executable: Executable| {
            let bytes = executable.plan().workspace_bytes();
            let len = usize::try_from(bytes);
            let len = len.map_err(|_| Failure::Fault(format!("a workspace of {bytes} bytes")))?;
            Ok((executable, HostBuffer::zeroed(len)))
        };
        let contenders = contenders.into_iter().map(with_workspace);
        let contenders = contenders.collect::<Result<Vec<_>, Failure>>()?;
        let mut loaded = HostLoaded { host: self, cache, tensors: tensors.collect(), contenders };
        loaded.store(images)?;
        Ok(Box::new(loaded))
    }
}

impl Loaded for HostLoaded<'_> {
    fn store(&mut self, images: &[Image]) -> Result<(), Failure> {
        for ((_, buffer), image) in self.tensors.iter_mut().zip(images) {
            buffer.as_bytes_mut().copy_from_slice(&image.bytes);
        }
        Ok(())
    }

    fn time(&mut self, contender: usize, executes: u32) -> Result<Duration, Failure> {
        let (executable, workspace) = &mut self.contenders[contender];
        let mut bindings = Bindings::new();
        for (Image { tensor, .. }, buffer) in &mut self.tensors {
            let bound = bindings.bind(tensor.id, buffer.buffer().with_dtype(tensor.dtype));
            bound.map_err(|error| Failure::Fault(error.to_string()))?;
        }
        let mut time = Duration::ZERO;
        for _ in 0..executes {
            if self.cache == Cache::Cold {
                self.host.sweep.run();
            }
            let start = Instant::now();
            executable.execute(&bindings, Workspace::new(workspace.buffer()), Stream::HOST)?;
            time += start.elapsed();
        }
        Ok(time / executes.max(1))
    }

    fn fetch(&self, image: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.tensors[image].1.as_bytes().to_vec())
    }
}
