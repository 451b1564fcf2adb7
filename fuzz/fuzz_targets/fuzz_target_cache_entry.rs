#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    frazil_fuzz_targets::run("cache_entry", input);
});
