//! A simulated device with one module, whose launches must be clean.

use frazil_ptx_sim::{Fault, Image, Launch, Memory, Module, Report};

pub(crate) struct Device {
    memory: Memory,
    image: Image,
    seed: u64,
    target: String,
    pub(crate) dynamic_shared_bytes: u32,
}

/// A value in memory.
pub(crate) trait Value: Copy {
    const BYTES: usize;
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! values {
    ($($ty:ty),+) => {$(
        impl Value for $ty {
            const BYTES: usize = size_of::<$ty>();

            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }

        impl From<$ty> for Parameter {
            fn from(value: $ty) -> Self {
                Self(value.to_bytes())
            }
        }
    )+};
}

values!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

/// The bytes of a parameter.
pub(crate) struct Parameter(pub(crate) Vec<u8>);

impl Device {
    pub(crate) fn new(text: &str, seed: u64, target: &str) -> Self {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{target}: {error}"));
        let mut memory = Memory::new(1 << 30);
        let image = module.load(&mut memory).unwrap();
        Self { memory, image, seed, target: target.to_owned(), dynamic_shared_bytes: 0 }
    }

    pub(crate) fn alloc(&mut self, bytes: u64) -> u64 {
        self.memory.alloc(bytes, 16).unwrap()
    }

    pub(crate) fn upload<T: Value>(&mut self, values: &[T]) -> u64 {
        let bytes: Vec<_> = values.iter().flat_map(|value| value.to_bytes()).collect();
        let address = self.alloc(bytes.len() as u64);
        self.memory.write(address, &bytes).unwrap();
        address
    }

    pub(crate) fn download<T: Value>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::BYTES];
        self.memory.read(address, &mut bytes).unwrap();
        bytes.chunks(T::BYTES).map(T::from_bytes).collect()
    }

    pub(crate) fn symbol(&self, name: &str) -> u64 {
        self.image.symbol(name).unwrap().0
    }

    /// Launches the only kernel, and fails at any finding.
    pub(crate) fn launch(&mut self, grid: [u32; 3], block: [u32; 3], values: &[Parameter]) {
        let report = self.run(grid, block, values);
        let name = self.image.module().entries()[0].name();
        let what = format!("{name} for {} with seed {}", self.target, self.seed);
        let report = report.unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings, [""; 0], "{what}");
    }

    /// Launches the only kernel.
    pub(crate) fn run(
        &mut self,
        grid: [u32; 3],
        block: [u32; 3],
        values: &[Parameter],
    ) -> Result<Report, Fault> {
        let entry = &self.image.module().entries()[0];
        let mut params = vec![0; entry.parameter_bytes() as usize];
        assert_eq!(entry.parameters().len(), values.len());
        for (parameter, value) in entry.parameters().iter().zip(values) {
            let begin = parameter.offset as usize;
            params[begin..begin + value.0.len()].copy_from_slice(&value.0);
        }
        let name = entry.name().to_owned();
        let dynamic_shared_bytes = self.dynamic_shared_bytes;
        let launch =
            Launch { dynamic_shared_bytes, seed: self.seed, ..Launch::new(grid, block, &params) };
        self.image.kernel(&name).unwrap().run(&mut self.memory, &launch)
    }
}
