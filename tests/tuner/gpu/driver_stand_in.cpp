// A CUDA driver without a GPU, for tests: it runs kernels that a C++ compiler has made of their CUDA source.
//
// The functions are those of the toolkit's cuda.h, which checks their types. Threads of a block are fibers that take
// turns: each runs up to its next barrier. Blocks follow each other. The file named by STAND_IN_KERNELS has the kernels
// (kernels_stand_in.h), or the one that is named behind a fatbin's first word (nvcc_stand_in.py); a call of the function named by STAND_IN_FAILS fails, and so does every one behind it.
// A graph is run once; launched again, it does nothing, as the same launches would write the same again.
#include <cuda.h>
#include <dlfcn.h>
#include <time.h>
#include <ucontext.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Launch {
    void *function;
    unsigned blocks, threads, shared_bytes;
    std::vector<void *> arguments;

    bool operator==(const Launch &other) const {
        return function == other.function && arguments == other.arguments;
    }
};

struct Graph {
    std::vector<Launch> launches;
    bool has_run = false;
};

constexpr unsigned MOST_THREADS = 1024, MOST_ARGUMENTS = 12, STACK_BYTES = 64 * 1024;
constexpr unsigned MOST_USUAL_SHARED_BYTES = 48 * 1024;

void *kernels = nullptr;
Graph *recording = nullptr;
bool has_failed = false;
unsigned allowed_shared_bytes = MOST_USUAL_SHARED_BYTES;
ucontext_t scheduler;
std::vector<ucontext_t> fibers(MOST_THREADS);
std::vector<char> stacks;
std::vector<bool> is_done(MOST_THREADS);
unsigned current = 0;
const Launch *running = nullptr;

using Kernel = void (*)(...);
using Twelve = void (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

void fiber() {
    void *a[MOST_ARGUMENTS] = {};
    for (size_t place = 0; place < running->arguments.size(); ++place) a[place] = running->arguments[place];
    reinterpret_cast<Twelve>(running->function)(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    is_done[current] = true;
}

void wait_at_barrier() { swapcontext(&fibers[current], &scheduler); }

void run_block(unsigned block) {
    int *thread_index = static_cast<int *>(dlsym(kernels, "threadIdx"));
    *static_cast<int *>(dlsym(kernels, "blockIdx")) = static_cast<int>(block);
    for (unsigned thread = 0; thread < running->threads; ++thread) {
        is_done[thread] = false;
        getcontext(&fibers[thread]);
        fibers[thread].uc_stack.ss_sp = stacks.data() + size_t{thread} * STACK_BYTES;
        fibers[thread].uc_stack.ss_size = STACK_BYTES;
        fibers[thread].uc_link = &scheduler;
        makecontext(&fibers[thread], fiber, 0);
    }
    for (bool is_busy = true; is_busy;) {
        is_busy = false;
        for (current = 0; current < running->threads; ++current) {
            if (is_done[current]) continue;
            *thread_index = static_cast<int>(current);
            swapcontext(&scheduler, &fibers[current]);
            is_busy = is_busy || !is_done[current];
        }
    }
}

void run(const Launch &launch) {
    running = &launch;
    stacks.resize(size_t{MOST_THREADS} * STACK_BYTES);
    for (unsigned block = 0; block < launch.blocks; ++block) run_block(block);
}

CUresult said(const char *name) {
    const char *failing = getenv("STAND_IN_FAILS");
    has_failed = has_failed || (failing && std::string(failing) == name);
    return has_failed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

}  // namespace

#define SAY(name) \
    if (CUresult code = said(name)) return code

extern "C" {

CUresult cuInit(unsigned) { return said("cuInit"); }

CUresult cuDriverGetVersion(int *version) { return *version = 13000, CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int *count) { return *count = 1, CUDA_SUCCESS; }

CUresult cuDeviceGet(CUdevice *device, int number) { return *device = number, CUDA_SUCCESS; }

CUresult cuDeviceGetName(char *name, int length, CUdevice) {
    return strncpy(name, "stand-in", length), CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute number, CUdevice) {
    switch (number) {
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1500000; break;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 4 << 20; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 164 << 10; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 163 << 10; break;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1 << 10; break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1200000; break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) { return *bytes = size_t{8} << 30, CUDA_SUCCESS; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice) { return CUDA_SUCCESS; }

CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }

CUresult cuStreamCreate(CUstream *stream, unsigned) {
    return *stream = reinterpret_cast<CUstream>(new int), CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream) { return said("cuStreamSynchronize"); }

CUresult cuEventCreate(CUevent *event, unsigned) {
    return *event = reinterpret_cast<CUevent>(new timespec), CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream) {
    return clock_gettime(CLOCK_MONOTONIC, reinterpret_cast<timespec *>(event)), CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent) { return CUDA_SUCCESS; }

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end) {
    const timespec *from = reinterpret_cast<timespec *>(begin), *to = reinterpret_cast<timespec *>(end);
    *milliseconds = static_cast<float>((to->tv_sec - from->tv_sec) * 1e3 + (to->tv_nsec - from->tv_nsec) * 1e-6 + 1e-3);
    return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    return cuEventElapsedTime_v2(milliseconds, begin, end);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    SAY("cuModuleLoadData");
    const unsigned fatbin = 0xba55ed50;
    if (memcmp(image, &fatbin, sizeof fatbin)) return CUDA_ERROR_INVALID_IMAGE;
    const char *own = static_cast<const char *>(image) + sizeof fatbin;  // of a candidate: the file that has it
    const char *path = *own == '/' ? own : getenv("STAND_IN_KERNELS");
    kernels = path ? dlopen(path, RTLD_NOW) : nullptr;
    if (!kernels) return CUDA_ERROR_FILE_NOT_FOUND;
    *static_cast<void (**)()>(dlsym(kernels, "wait_at_barrier")) = wait_at_barrier;
    *module = static_cast<CUmodule>(kernels);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) { return dlclose(module), CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    void *found = dlsym(module, name);
    *function = static_cast<CUfunction>(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) allowed_shared_bytes = value;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    return *address = reinterpret_cast<CUdeviceptr>(aligned_alloc(256, (bytes + 255) / 256 * 256)), CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    return memcpy(reinterpret_cast<void *>(to), from, bytes), CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    SAY("cuMemcpyDtoH");
    return memcpy(to, reinterpret_cast<void *>(from), bytes), CUDA_SUCCESS;
}

CUresult cuLaunchKernel(
    CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
    unsigned shared_bytes, CUstream, void **parameters, void **) {
    SAY("cuLaunchKernel");
    if (!blocks || !threads || threads > MOST_THREADS || shared_bytes > allowed_shared_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    Launch launch{static_cast<void *>(function), blocks, threads, shared_bytes, {}};
    const char *name = "";
    Dl_info found;
    if (dladdr(launch.function, &found) && found.dli_sname) name = found.dli_sname;
    const std::string counted = std::string(name) + "_parameters";
    const int count = *static_cast<int *>(dlsym(kernels, counted.c_str()));
    for (int place = 0; place < count; ++place) launch.arguments.push_back(*static_cast<void **>(parameters[place]));
    if (recording) {
        recording->launches.push_back(launch);
    } else {
        run(launch);
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) { return recording = new Graph, CUDA_SUCCESS; }

CUresult cuStreamEndCapture(CUstream, CUgraph *graph) {
    *graph = reinterpret_cast<CUgraph>(recording);
    return recording = nullptr, CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long) {
    return *executable = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph *>(graph))), CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream) {
    Graph &graph = *reinterpret_cast<Graph *>(executable);
    for (size_t place = 0; !graph.has_run && place < graph.launches.size(); ++place) {
        if (!place || !(graph.launches[place] == graph.launches[place - 1])) run(graph.launches[place]);
    }
    graph.has_run = true;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) { return delete reinterpret_cast<Graph *>(graph), CUDA_SUCCESS; }

CUresult cuGraphExecDestroy(CUgraphExec executable) {
    return delete reinterpret_cast<Graph *>(executable), CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
    *text = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "refused by the stand-in";
    return CUDA_SUCCESS;
}
}
