// Small kernels that show what no data sheet tells of a GPU (tuner/calibrate/gpu_probing.py says how they are used).
//
// STEPS, CHAINS, LINE and TILE come from there. What is computed is stored only where it has a value that it never has,
// so that nothing is left out. Loads that end in .cg pass by the first cache.

extern "C" __global__ void __launch_bounds__(32) fma_chain(float *held, long long *cycles) {
  float sum = held[threadIdx.x], factor = held[32], term = held[33];
  long long begin = clock64();
#pragma unroll 64
  for (int step = 0; step < STEPS; ++step) sum = sum * factor + term;
  long long end = clock64();
  if (sum == -1.0f) held[threadIdx.x] = sum;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}

extern "C" __global__ void __launch_bounds__(1024) fma_rate(float *held, long long *cycles) {
  float sum[CHAINS], factor = held[32], term = held[33];
  for (int chain = 0; chain < CHAINS; ++chain) sum[chain] = held[chain] + (float)threadIdx.x;
  long long begin = clock64();
#pragma unroll 8
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) sum[chain] = sum[chain] * factor + term;
  }
  __syncthreads();
  long long end = clock64();
  float all = 0.0f;
  for (int chain = 0; chain < CHAINS; ++chain) all = all + sum[chain];
  if (all == -1.0f) held[threadIdx.x] = all;
  if (threadIdx.x == 0 && blockIdx.x == 0) cycles[0] = end - begin;
}

extern "C" __global__ void __launch_bounds__(1024) special_rate(float *held) {
  float value[CHAINS];
  for (int chain = 0; chain < CHAINS; ++chain) value[chain] = held[chain] + (float)threadIdx.x;
#pragma unroll 8
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) value[chain] = __expf(value[chain]);
  }
  float all = 0.0f;
  for (int chain = 0; chain < CHAINS; ++chain) all = all + value[chain];
  if (all == -1.0f) held[threadIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(32) shared_chase(int *held, long long *cycles) {
  __shared__ int next[TILE];
  for (int place = (int)threadIdx.x; place < TILE; place += 32) next[place] = (place + 32) % TILE;
  __syncthreads();
  int place = (int)threadIdx.x;
  long long begin = clock64();
#pragma unroll 64
  for (int step = 0; step < STEPS; ++step) place = next[place];
  long long end = clock64();
  if (place < 0) held[0] = place;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}

extern "C" __global__ void __launch_bounds__(1024) shared_rate(float *held, long long *cycles) {
  __shared__ float4 tile[TILE];
  for (int place = (int)threadIdx.x; place < TILE; place += 1024) tile[place] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
  __syncthreads();
  float4 sum = make_float4(held[0], held[1], held[2], held[3]);
  long long begin = clock64();
#pragma unroll 16
  for (int step = 0; step < STEPS; ++step) {
    float4 value = tile[((int)threadIdx.x + step * 32) % TILE];
    sum.x += value.x;
    sum.y += value.y;
    sum.z += value.z;
    sum.w += value.w;
  }
  __syncthreads();
  long long end = clock64();
  if (sum.x + sum.y + sum.z + sum.w == -1.0f) held[0] = sum.x;
  if (threadIdx.x == 0) cycles[0] = end - begin;
}

// given: lines of the array, and lines from each line of the chain to the next
extern "C" __global__ void __launch_bounds__(256) link(int *chain, const int *given) {
  int step = (int)(blockIdx.x * 256 + threadIdx.x);
  long long lines = given[0], apart = given[1];
  if (step < STEPS) chain[step * apart % lines * LINE] = (int)((step + 1) % STEPS * apart % lines * LINE);
}

extern "C" __global__ void __launch_bounds__(1) chase(int *chain, int *left) {
  int place = 0;
  for (int step = 0; step < STEPS; ++step) place = __ldcg(chain + place);
  left[0] = place;
}

// given: vectors of four numbers in the array, and how often it is read
extern "C" __global__ void __launch_bounds__(1024) read_all(const float4 *array, const int *given, float *left) {
  long long count = given[0], threads = (long long)given[2] * 1024;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int round = 0; round < given[1]; ++round) {
#pragma unroll 4
    for (long long place = (long long)blockIdx.x * 1024 + threadIdx.x; place < count; place += threads) {
      float4 value = __ldcg(array + place);
      sum.x += value.x;
      sum.y += value.y;
      sum.z += value.z;
      sum.w += value.w;
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == -1.0f) left[0] = sum.x;
}

extern "C" __global__ void __launch_bounds__(128) touch(float *held) {
  held[blockIdx.x * 128 + threadIdx.x] = held[blockIdx.x * 128 + threadIdx.x] * 0.5f;
}
