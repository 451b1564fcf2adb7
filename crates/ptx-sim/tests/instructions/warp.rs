//! Instructions whose operands lie in several lanes.

use frazil_ptx_sim::{Launch, Memory, Module};

/// Runs `text` in one warp, at every time that asynchronous copies may be made: each lane finds its values in `%i0` and
/// up, the address of the first in `%in`, and leaves results in `%o0` and up.
pub(crate) fn run_warp(text: &str, inputs: &[Vec<u32>], num_outputs: usize) -> Vec<Vec<u32>> {
    let results = [0, 1, 2].map(|seed| run_seed(text, inputs, num_outputs, seed));
    assert!(results.iter().all(|result| *result == results[0]), "{text}");
    results[0].clone()
}

fn run_seed(text: &str, inputs: &[Vec<u32>], num_outputs: usize, seed: u64) -> Vec<Vec<u32>> {
    let num_inputs = inputs[0].len();
    let load = |i: usize| format!("ld.global.b32 %i{i}, [%in+{}];\n", 4 * i);
    let store = |o: usize| format!("st.global.b32 [%out+{}], %o{o};\n", 4 * o);
    let ptx = format!(
        ".version 9.5 .target sm_90a .address_size 64
        .visible .entry k(.param .u64 inputs, .param .u64 results) {{
            .reg .b32 %i<16>, %o<16>, %s<8>, %lane;
            .reg .b64 %in, %out, %at;
            .reg .pred %p;
            .shared .align 16 .b8 s[4096];
            mov.u32 %lane, %laneid;
            ld.param.u64 %in, [inputs];
            ld.param.u64 %out, [results];
            mad.wide.u32 %in, %lane, {}, %in;
            mad.wide.u32 %out, %lane, {}, %out;
            {}
            {text}
            {}
            ret;
        }}",
        4 * num_inputs,
        4 * num_outputs,
        (0..num_inputs).map(load).collect::<String>(),
        (0..num_outputs).map(store).collect::<String>(),
    );
    let module = Module::parse(&ptx).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = Memory::new(1 << 20);
    let image = module.load(&mut memory).unwrap();
    let bytes: Vec<u8> = inputs.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let from = memory.alloc(bytes.len() as u64, 16).unwrap();
    memory.write(from, &bytes).unwrap();
    let mut results = vec![0; 32 * 4 * num_outputs];
    let to = memory.alloc(results.len() as u64, 16).unwrap();
    let params = [from, to].map(u64::to_le_bytes).concat();
    let launch = Launch { seed, ..Launch::new([1; 3], [32, 1, 1], &params) };
    let report = image.kernel("k").unwrap().run(&mut memory, &launch);
    let report = report.unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(report.findings, [], "{text}");
    memory.read(to, &mut results).unwrap();
    let words = results.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    words.collect::<Vec<_>>().chunks(num_outputs).map(<[u32]>::to_vec).collect()
}
