// One word written, added to or copied: what an engine's launch does beside what it should.

struct StrayParams {
    const unsigned* from;
    unsigned* to;
    unsigned value;
    unsigned action;  // 0: the value is written; 1: what is read is added; 2: what is read is written
};

extern "C" __global__ void frazil_stray(const __grid_constant__ StrayParams params) {
    if (params.action == 0) {
        *params.to = params.value;
    } else if (params.action == 1) {
        *params.to += *params.from;
    } else {
        *params.to = *params.from;
    }
}
