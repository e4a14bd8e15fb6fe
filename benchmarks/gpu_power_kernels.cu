// Kernels that do one thing for long, for `benchmarks.gpu_power`: each has `blocks` blocks of 1024 threads (of 32 where
// said) that repeat a body `repeats` times. Built with: nvcc -O3 -arch=sm_90 -shared -Xcompiler -fPIC
#include <cuda_fp16.h>
#include <cstdint>

#define BODIES 64  // of a repeat, so that the loop itself does not count

// Warps that are resident and wait.
__global__ void asleep(int repeats) {
    for (int i = 0; i < repeats; ++i) __nanosleep(100000);
}

// One dependent instruction at a time: SMs are at work, but almost idle. One warp a block.
__global__ void spinning(const float *x, float *out, int repeats) {
    float a = x[threadIdx.x];
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES; ++j) a = fmaf(a, -a, 0.7f);
    if (a == 12345.0f) out[0] = a;
}

// Products and multiply-additions in turn, whose values never come to rest (the logistic map), or all zero.
__global__ void __launch_bounds__(1024) fp32(const float *x, float *out, int repeats) {
    float a[4];
    for (int c = 0; c < 4; ++c) a[c] = x[(blockIdx.x * 1024 + threadIdx.x) * 4 + c];
    const float one = x[0] == 0.0f ? 0.0f : 1.0f, r = x[0] == 0.0f ? 0.0f : -1.95f;
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 8; ++j)
#pragma unroll
            for (int c = 0; c < 4; ++c) { const float t = a[c] * r; a[c] = fmaf(t, a[c], one); }
    if (a[0] + a[1] + a[2] + a[3] == 12345.0f) out[0] = a[0];
}

__global__ void __launch_bounds__(1024) fp16(const float *x, float *out, int repeats) {
    __half2 a[4];
    for (int c = 0; c < 4; ++c) a[c] = __float2half2_rn(x[(blockIdx.x * 1024 + threadIdx.x) * 4 + c]);
    const __half2 one = __float2half2_rn(1.0f), r = __float2half2_rn(-1.95f);
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 8; ++j)
#pragma unroll
            for (int c = 0; c < 4; ++c) { const __half2 t = __hmul2(a[c], r); a[c] = __hfma2(t, a[c], one); }
    __half2 s = __hadd2(__hadd2(a[0], a[1]), __hadd2(a[2], a[3]));
    if (__low2float(s) == 12345.0f) out[0] = 1.0f;
}

// Shifts and exclusive or's of 32 bits (xorshift).
__global__ void __launch_bounds__(1024) integers(const float *x, float *out, int repeats) {
    uint32_t a[4];
    for (int c = 0; c < 4; ++c) a[c] = __float_as_uint(x[(blockIdx.x * 1024 + threadIdx.x) * 4 + c]) | 1u;
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 8; ++j)
#pragma unroll
            for (int c = 0; c < 4; ++c) { a[c] ^= a[c] << 13; a[c] ^= a[c] >> 17; a[c] ^= a[c] << 5; }
    if ((a[0] ^ a[1] ^ a[2] ^ a[3]) == 12345u) out[0] = 1.0f;
}

__global__ void __launch_bounds__(1024) sines(const float *x, float *out, int repeats) {
    float a[4];
    for (int c = 0; c < 4; ++c) a[c] = x[(blockIdx.x * 1024 + threadIdx.x) * 4 + c];
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 8; ++j)
#pragma unroll
            for (int c = 0; c < 4; ++c) a[c] = __sinf(3.0f * a[c]);
    if (a[0] + a[1] + a[2] + a[3] == 12345.0f) out[0] = a[0];
}

// Reads of 16 B a thread from shared memory, without conflicts.
__global__ void __launch_bounds__(1024) shared(const float *x, float *out, int repeats) {
    __shared__ float4 held[2048];
    for (int i = threadIdx.x; i < 2048; i += 1024) held[i] = reinterpret_cast<const float4 *>(x)[i];
    __syncthreads();
    float4 s = {0, 0, 0, 0};
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(held + threadIdx.x));
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 4; ++j) {
            float4 v;
            asm volatile("ld.volatile.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                         : "r"(at + (j % 2) * 16384));
            if (j == BODIES / 4 - 1) { s.x += v.x; s.y += v.y; s.z += v.z; s.w += v.w; }
        }
    if (s.x + s.y + s.z + s.w == 12345.0f) out[0] = s.x;
}

// Reads of 16 B a thread past the L1, all blocks through the same `bytes`, each from its own place on.
__global__ void __launch_bounds__(1024) reads(const uint4 *x, float *out, size_t vectors, int repeats) {
    uint4 s = {0, 0, 0, 0};
    const size_t step = static_cast<size_t>(gridDim.x) * 1024 * 8;
    for (int i = 0; i < repeats; ++i)
        for (size_t at = static_cast<size_t>(blockIdx.x) * 8192 + threadIdx.x; at + 7168 < vectors; at += step) {
            uint4 v[8];
#pragma unroll
            for (int j = 0; j < 8; ++j)
                asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z),
                             "=r"(v[j].w) : "l"(x + at + j * 1024));
#pragma unroll
            for (int j = 0; j < 8; ++j) { s.x ^= v[j].x; s.y ^= v[j].y; s.z ^= v[j].z; s.w ^= v[j].w; }
        }
    if ((s.x ^ s.y ^ s.z ^ s.w) == 12345u) out[0] = 1.0f;
}

// Writes of 16 B a thread of the value that is there already, or of others.
__global__ void __launch_bounds__(1024) writes(const uint4 *x, uint4 *to, size_t vectors, int repeats) {
    uint4 v = x[threadIdx.x];
    const size_t step = static_cast<size_t>(gridDim.x) * 1024;
    for (int i = 0; i < repeats; ++i) {
        v.x = v.x * 1664525u + 1013904223u; v.y ^= v.x; v.z += v.y; v.w ^= v.z;
        for (size_t at = static_cast<size_t>(blockIdx.x) * 1024 + threadIdx.x; at < vectors; at += step) to[at] = v;
    }
}

// Products m16n8k16 of registers, FP16 with sums in FP32, of tensor units. 256 threads a block.
__global__ void __launch_bounds__(256) tensor(const uint32_t *x, float *out, int repeats) {
    uint32_t a[4][4], b[4][2];
    float c[4][4] = {};
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) a[i][j] = x[(threadIdx.x * 4 + i) * 4 + j];
        for (int j = 0; j < 2; ++j) b[i][j] = x[8192 + (threadIdx.x * 4 + i) * 2 + j];
    }
    for (int i = 0; i < repeats; ++i)
#pragma unroll
        for (int j = 0; j < BODIES / 16; ++j)
#pragma unroll
            for (int t = 0; t < 4; ++t)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
                             " {%0,%1,%2,%3};"
                             : "+f"(c[t][0]), "+f"(c[t][1]), "+f"(c[t][2]), "+f"(c[t][3])
                             : "r"(a[(t + j) % 4][0]), "r"(a[(t + j) % 4][1]), "r"(a[(t + j) % 4][2]),
                               "r"(a[(t + j) % 4][3]), "r"(b[t][0]), "r"(b[t][1]));
    float s = 0;
    for (int t = 0; t < 4; ++t) s += c[t][0] + c[t][1] + c[t][2] + c[t][3];
    if (s == 12345.0f) out[0] = s;
}

// Starts a kernel by name; returns the error's number, 0 for none, -1 for an unknown name.
extern "C" int start(const char *name, int blocks, int repeats, const void *x, void *out, size_t bytes, void *stream) {
    auto on = static_cast<cudaStream_t>(stream);
    auto f = static_cast<const float *>(x);
    auto o = static_cast<float *>(out);
    auto is = [name](const char *other) {
        const char *a = name, *b = other;
        while (*a && *a == *b) ++a, ++b;
        return *a == *b;
    };
    if (is("asleep")) asleep<<<blocks, 32, 0, on>>>(repeats);
    else if (is("spinning")) spinning<<<blocks, 32, 0, on>>>(f, o, repeats);
    else if (is("fp32")) fp32<<<blocks, 1024, 0, on>>>(f, o, repeats);
    else if (is("fp16")) fp16<<<blocks, 1024, 0, on>>>(f, o, repeats);
    else if (is("integers")) integers<<<blocks, 1024, 0, on>>>(f, o, repeats);
    else if (is("sines")) sines<<<blocks, 1024, 0, on>>>(f, o, repeats);
    else if (is("shared")) shared<<<blocks, 1024, 0, on>>>(f, o, repeats);
    else if (is("reads")) reads<<<blocks, 1024, 0, on>>>(static_cast<const uint4 *>(x), o, bytes / 16, repeats);
    else if (is("writes")) writes<<<blocks, 1024, 0, on>>>(static_cast<const uint4 *>(x), static_cast<uint4 *>(out),
                                                          bytes / 16, repeats);
    else if (is("tensor")) tensor<<<blocks, 256, 0, on>>>(static_cast<const uint32_t *>(x), o, repeats);
    else return -1;
    return static_cast<int>(cudaGetLastError());
}
