// One word written, added to or copied: what an engine's launch does beside what it should.

struct StrayParams {
    const unsigned* from;
    unsigned* to;
    unsigned value;
    unsigned action;  // 0: the value is written; 1: what is read is added; 2: what is read is written;
                      // 3: a NaN of every float type is written, unless what is read is the value
};

extern "C" __global__ void frazil_stray(const __grid_constant__ StrayParams params) {
    if (params.action == 0) {
        *params.to = params.value;
    } else if (params.action == 1) {
        *params.to += *params.from;
    } else if (params.action == 2) {
        *params.to = *params.from;
    } else if (*params.from != params.value) {
        *params.to = 0xffffffff;
    }
}
