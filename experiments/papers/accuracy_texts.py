"""Texts of the page on accuracy: what is compared, what has set a number, what is left out, what is not explained."""

INTRODUCTION = """# How accurate it is

Predicted figures beside measured and published ones, by kind of machine. The mean error is of absolute errors by the
true figure; bias is the geometric mean of predicted by true, less one; rank correlations are Spearman's. Beside
published figures `roofline` has mean error and bias of the simplest prediction: multiply-accumulates at the peak of the
data sheet, on as many cores as there are threads, or inputs, weights and results once at the peak bandwidth, whichever
takes longer. Rows that were looked at more than once are called *held out* where none of their figures has set a
number, and *blind* only where they were simulated once. This page is written from files in `experiments/measured` and
`experiments/papers`, by

    python -m dsascape.experiments.papers.accuracy_page docs/accuracy.md
"""
SEEN = """The networks of these tables were looked at while the model was made, the held-out pairs only once, after
the model was final. Code and model have changed since these tables were measured; `dsascape run
experiments/measured/cpu.yaml` measures them again.
"""
ON_EPYC = """The same networks on two virtual cores of an AMD EPYC (`experiments/measured/epyc`), which `dsascape
calibrate` described in 28 s. A first measurement had shown kernels with 21.5 % mean error on one thread, and networks
with 18 % on two; what followed from that is measured by small kernels or counted in the code, and no number has been
set by times of networks: write-backs that do not hold up reading, vectors of concatenations, buffers on the stack, and
lines that pass from core to core. Virtual cores of this machine lie on one core complex or on two, and move by the
second. On two, a line that another core has read is written in 29 ns in place of 7, and what both cores read comes from
memory twice: networks on two threads take up to twice as long, of which `measure` warns. Rows of two threads are told
apart by that warning; `calibrate` had found the cores on one complex.
"""
ON_PUBLISHED_CPUS = """Networks in FP32 at batch 1 on phones and boards, as the makers of two libraries have published
them, beside `fixed-pattern` with Winograd where it pays. Devices were split by name into those for development
(Snapdragon 410, 810 and 835, Raspberry Pi 4) and others (Kirin 970, Snapdragon 660, RK3399, Raspberry Pi 3B+), which
have set no number but are not blind: their expected latencies were looked at when the model was final and several times
since, one network had been simulated on the Raspberry Pi 3B+ before, eight networks of the others when all kinds of
kernels had one efficiency, and the tables had been read when they were copied. Kinds of cores are mostly in both parts.
`expected` has the library efficiency that the presets state by kind of kernel: 0.87 of the bound for products, 0.54 for
convolutions and 0.40 for depthwise ones on cores in order, 0.59, 0.38 and 0.29 out of order. One thread of the
development devices has set them (`python -m dsascape.experiments.papers.cpu_efficiencies`); with all kinds alike the
same networks are off by 15 % in place of 11 and 13. ncnn's code says why kinds differ: its convolutions with windows
first copy their data with a border around it, depthwise ones pass over their results again for an activation, and those
of 7x7 load two operands for each multiply-accumulate into one sum. That phones' clocks fall with cores at work only, to
0.85 of the highest in place of 0.85 always, was decided when Snapdragon 835 gained too much from four threads. So only
rows held out judge. After they had been looked at, slower cores were left out of kernels that they would hold up, as
more threads should never be slower; all rows were simulated once more then. `python -m
dsascape.experiments.papers.published_cpus held-out` simulates them again.
"""
OF_PUBLISHED_CPUS = """What is left: MobileNet-YOLO comes out slower than expected, by up to 1.7 times on one thread.
VGG-16, too, did so before Winograd's algorithm could run in phases, as libraries compute it; it is expected at 0.6 to
1.3 of ncnn's time now. Networks of small kernels come out too fast on several threads:
SqueezeNet, ShuffleNet and BlazeFace at 0.6 to 0.75 on Snapdragon 835. In ncnn, groups of channels (AlexNet, RegNetY)
run one after the other, layers whose channels are no multiples of four (BlazeFace) have other code, and a swish, an
addition or a concatenation is a pass over memory, which `fixed-pattern` has in the kernel before. Raspberry Pis ran
32-bit code of 16 registers, but are described with 64-bit code of 32.
"""
OF_SERVERS = """Servers in FP32 at batch 1, of which few figures are published; these two are for development, and have
set `library_region`. ArcFace's ResNet-100 (12.1 billion multiply-accumulates at 112 x 112) by four libraries on a Xeon
E5-2630 v4 ([cyrusbehr/deeplearningInferenceBenchmarks](https://github.com/cyrusbehr/deeplearningInferenceBenchmarks)),
beside `platinum_8124m` with that part's cores, caches, AVX2 and clocks (3.1 GHz on two cores, 2.4 on ten, from memory),
`fixed-pattern`, convolutions computed directly, without `library_region`, in ms:

| threads | roofline | predicted | OpenVINO | ONNX Runtime | ncnn | MXNet |
|---|---|---|---|---|---|---|
| 1 | 244 | 290 | 301 | 311 | 332 | 352 |
| 4 | 60.9 | 81.9 | 86 | 96 | 100 | 108 |
| 8 | 30.5 | 50.4 | 51 | 61 | 67 | 68 |
| 10 | 24.4 | 45.7 | 47 | 57 | 68 | 64 |

*One thread.* Winograd's algorithm is the cause that was looked for: with it (`tuning.winograd=6`) 205 ms are predicted,
a bias of -36 % over the four libraries, without it -10 %, where the roofline has -25 %. Libraries on x86 convolve
directly here, so `winograd` is to be left at 0 for them. On a Threadripper 3970X ncnn's seven networks say the same
(`epyc` at 4.5 GHz with that part's caches): -61 % with Winograd, -50 % without, -57 % of the roofline; VGG-16 alone
takes less than its bound without, 0.89. *Many threads.* That waiting for threads is missing was tested: beyond the
error on one thread, each of 153 kernels misses 52, 45 and 52 us with ONNX Runtime on 4, 8 and 10 cores, 55, 44 and 55
us with MXNet, 40, 60 and 102 us with ncnn, but 6 us or nothing with OpenVINO; on 20 cores of two sockets ONNX Runtime
and ncnn miss some 250. TensorFlow's MobileNet-V2 on a Platinum 8124M (Ampere's model library: 11 ms on one thread, 5 ms
on 18) misses 61 us a kernel. So it is a cost of a kernel, of the runtimes of libraries and not of processors: it does
not grow from 4 to 10 cores, and generated code has none of it. Of 1,305 kernels on the server above, those predicted
below 20 us take 4.7, 5.1, 4.3 and 4.4 us on 1, 2, 4 and 8 threads in the median, where 4.5, 4.7, 4.8 and 5.3 are
predicted with split loops as `calibrate` measures them by thread count (1.7 to 3.8 us; oneDNN plans with 3,000 cycles
up to four threads and 4,000 + 500 for each beyond, 1 to 5 us). Hence `library_region`, of which only expected latencies
know: 50 us on 4 threads and 61 on 18; two sockets are not described. Falling clocks are a third of what four to ten
cores lose.

*Phones and boards.* On four threads of Snapdragon 835 and eight of 810, the number of kernels explains more of what is
missing beyond one thread's error than time does (of the relative error, 0.18 in the root mean square, 0.13 is left with
the former and 0.14 with the latter; of 0.31, 0.19 and 0.20): 45 and 150 us a kernel. Phones of this kind have the 45 in
their files, on eight threads, too, as more threads should not be slower. The Raspberry Pi 4 gains 1.6 to 2.2 from four
threads where 2.8 to 3.2 are predicted, and that is another matter: it misses 470 to 1,100 us a kernel, and RK3588, with
the same library and system, nothing (it gains 3.1 to 3.9, predicted 3.1 to 3.8). Three causes were ruled out on its
SqueezeNet and ResNet-18: an L2 of a quarter of the bandwidth for one core and half for all (predicted gains go from
2.80 and 3.16 to 2.87 and 3.20), passes over memory that a library does not fuse (`unfused`: 2.93 and 2.84), and memory
(20 and 31 MB are 4 and 6 ms of 17 and 57, where 25 and 27 are missing). So its cause is not known. Eight and twelve
cores of a Jetson AGX Orin, whose file takes the servers' 50 and 61 us, judge them: networks in FP16 and INT8 on twelve
are expected at 0.69 to 1.10 of what ncnn takes, where the bound is at 0.20 to 0.57; these times were read after the two
numbers were set. All rows of phones on several threads have been simulated with that.
"""
ON_NEWER_CPUS = """Networks in FP16 and INT8 on newer cores, and in INT8 on older ones, as the makers of ncnn have
published them. Devices were split by name before any was simulated. Those held out (Apple M1, RK3568, Jetson AGX Orin,
RK3399, VIM3) have set no number, but have been simulated two or three times, so that none is blind any more; the tables
had been read when they were copied. INT8 are the quantised networks (`resnet18-int8`): INT8 products, between which all
is FP16, or FP32 on cores without FP16 arithmetic. FP16 has all sizes of Winograd tiles (`tuning.coarse_winograd`), as
in ncnn. `expected` has library efficiencies by dtype that one thread of the development devices has set: for FP16 0.61
in products, 0.75 in depthwise convolutions and 1 in convolutions with windows (their bound is long already, as
ResNet-18's), 0.46 for INT8 with dot products, 0.64 without. Of Cortex-A55 there was none: its FP16 has the efficiencies
by kind of FP32 on cores in order. So only rows held out judge. `python -m dsascape.experiments.papers.published_newer
held-out` simulates them again.
"""
OF_NEWER_CPUS = """The rows of Cortex-A72 and A73 (RK3399, VIM3) are those of a second run: in the first, bounds of VIM3
were up to 1.85 times what ncnn takes, as those of VGG-16 had been on the Raspberry Pi 4, because INT8 had no Winograd;
with that (integers of 16 bits, where there are no dot products) one bound is left that is exceeded, VGG-16 on four
cores. Their efficiency was calibrated anew for it, on the Raspberry Pis alone. Those of the M1 and of RK3568 were
simulated again once, when FP16 got efficiencies by kind. With dot products INT8 is expected at 0.44 to 1.5 of ncnn's
time, in FP16 at 0.60 to 1.4. SqueezeNet comes out too fast, the more so on several threads; why has not been looked at.
In FP16 the bound of ResNet-18, which is mostly Winograd, is 0.57 to 0.97 of ncnn's time, and that of SqueezeNet and
MobileNet-V2 0.3 to 0.75: transforms are probably predicted too slow.
"""
ON_SERVER = """[A second processor](server.md), on one to eight threads: virtual cores of a rented Emerald Rapids
server. Six networks that are not in the zoo and that nobody had looked at, ten plans; the code was built elsewhere, for
eight threads, ran there for the first time, and is right throughout. Tiles and model were final before. SqueezeNet and
ResNet-18 had run there earlier and are not in this table: they led to changes of `calibrate` (small differences are
measured by turns, split loops and clocks by the number of threads). The clocks on two to eight threads are those of
readings beside the kernels, a split loop on two threads was measured on another machine of the kind, and all else is
`calibrate`'s.
"""
OF_SERVER = """On one thread networks are off by 7.5 % in the mean, and kernels by 16.5; on more, predictions are too
short. The machine's speed changes by the second: multiply-accumulates in registers take 180 ps on one thread, and 205
or 370 on the slowest of eight. That does not explain it: divided by [the pace of the
moment](measure.md#on-a-virtual-machine-whose-speed-changes), networks are off by 5, 16, 16 and 23 %. Scaling is uneven
in itself: two threads make GPT-2's block 2.1 times as fast and ViT-Ti 1.1 times, with code of the same kind. On an EPYC
the cause was lines that pass from core to core, which cost more or less with the places of virtual cores (above); here
it has not been measured. On one thread, concatenations take 2.6 times what is predicted, those of few channels most:
vectors that reached over two inputs became a branch per element. The code has none now, and buffers of tiles on the
stack, but was not measured here again. Products with a ragged edge (attention's scores) take 1.5 times. Of 16 choices
between two plans 14 are right; the others lose 9.9 and 19.4 %, the second between runs of which one had the faster
moment. PyTorch 2.11 (oneDNN; traced and frozen) takes 4.1, 2.4, 0.9, 3.3 and 1.5 times as long as `fixed-pattern` on
one thread for GhostNet, GoogLeNet, GPT-2's block, MobileNetV3 and RegNetX, and 4.7, 3.9, 0.9, 5.7 and 2.8 times on
eight; ViT-Ti was not timed.
"""
ON_OWN_GPU = """Generated code on an H100 ([each network](gpu.md)): FP32 on lanes, each run a CUDA graph, all results
correct. The code had been seen by no GPU before; what the first runs showed was mended in the code (copies that run
behind the threads, stores of four elements, no guards where zeros are added) and then in the model of the code (loads
of one element, instructions of addresses, which are counted in machine code). One number is set by times, those of
SqueezeNet, which is left out of the table: three cycles between instructions of a warp. These networks were looked at
meanwhile, so none of them is blind. Before all that, kernels were off by 64 % in the mean. What is left: kernels are
mostly predicted too short. Convolutions with windows took 2.5 times their prediction, and have been read in machine
code: guards around each sum made loads and multiply-accumulates wait for each other, which the code has no more
(ResNet-50 takes 0.56 of before), and bank conflicts had been hidden behind other pipes. They take 1.8 times what is
predicted now, with instructions as they are counted: of two such kernels a profiler finds 40 and 42 % of issue slots
and 55 and 49 % of the first cache busy. An SM holds one block of them, whose few warps copy, multiply and wait at a
barrier in step; the model has these overlap. Depthwise ones of MobileViT took up to 4.8 times, as each thread of a
warp read a line of its own, for which the cache takes a pass each (measured: 34 cycles for 32 lines); these passes
are in the model now, and threads lie along channels. Predictions are of the loops that ran
(`experiments/measured/gpu/steps.jsonl`), counted on these; tiles as the model had them before came to 23.5 % and
-16.3 %. No number was set for the change.
"""
LIBRARIES = """[PyTorch's libraries](gpu-libraries.md) on an H100 and an H200, beside the presets of that name.
`bound` is the simulated latency, `expected` the one with the library efficiency that the machine's file states, and
products as a library's kernels compute them (`scheduler.gpu.library`), all else as PyTorch's own launch threads
(`scheduler.gpu.library_elements`). Products in FP16 on the H100 have set one number of that, the trips to memory of a
kernel, and are left out of what is expected. A profile of the H200 (names, grids and times of PyTorch's kernels) has
shown the tiles and which kernels there are, so all of these rows have been looked at.
"""
OF_LIBRARIES = """Large products in FP16 reach 635 to 675 TFLOPS at some 700 W, the power limit, with clocks of 1.29 to
1.40 GHz in place of 1.98. With the limit in force, and energies that other kernels have set ([power](gpu-power.md)),
large products in 16 bits are expected at 0.89 to 1.04 of what they take. The efficiency of tensor units is that of the
GH200, the same die under a higher limit, and not that of one product that the limit had slowed down, as before: two
dozen products are expected at 0.86 to 1.10, off by 6.7 % (before 4.9), while at full clock they are expected 11 %
faster. Large ones in FP32 are within 13 %; small ones are expected at 0.75 to 0.94
of what they take, those of 16 rows at 0.60 to 0.74, and in 16 bits those of an odd depth (147, 777) at 0.37 to 0.43:
they run in kernels of earlier GPUs. Softmax by PyTorch mostly moves less than half of what memory gives, which is not
modelled. Transposition does too, as each thread of a warp reads a line of its own: with a pass of the cache for each
it is expected at 0.83 to 1.39, before at 0.19 to 0.58. Over half of the time of ResNet-50 at batch 16 goes into
kernels that add a bias or cut off at zero, as a profile shows. Grids of PyTorch's kernels follow from its sources, and
their times from loads that wait one after the other and from divisions for addresses, with no number set by a time: of
the 1,900 kernels of that profile, with 0.4 us between two, maxima over windows (28 blocks on 132 SMs) are expected at
0.92 of what they take, before at 0.12, additions of a bias at 0.98, concatenations at 0.79, means at 0.71.
Convolutions with windows have tiles of 64, 128 and 256 now and no shared reductions: 0.87, before 0.70. Depthwise ones
are at 0.66, first layers of three channels at 0.3 to 0.7. Convolutional networks are expected at 0.76 to 0.98, before
at 0.54 to 0.89. What is left there besides: some 2 us that a kernel of a convolution takes before its first and after
its last step, and the L2, which reads and writes at less than it reads. Encoders are expected at 0.67 to 0.96, prompts
at 0.84 to 1.02, and decoding at 0.98 to 1.13. Attention of encoders by itself was expected at 0.38 to 0.74 of what it
takes; as a library's block computes it, step by step, with nothing to hide its trips to memory
(`scheduler.gpu.library_attention`), at 0.66 to 0.79. None of these times has set a number there.
"""
OF_GPUS = """TensorRT's kernels fuse attention and are launched as one graph. On phones the order of networks is right
and the level of the bound is not: libraries there reach 0.12 of the bound in products, 0.31 in convolutions, 0.38 of
memory, and a kernel takes 2.5 times its launch. Fourteen networks on two development devices have set that (`python -m
dsascape.experiments.papers.mobile_efficiencies`); the rows "by ... alone" are judged by the other device and the other
library. The Mali-G76 has the same and set nothing; no time of it has been found. A predictor that was trained on
TFLite's times of an Adreno 640 has 0.6 to 2.0 times what is expected there. A library efficiency of 0.89 for tensor
units of A100 follows from one measured product, that of memory from copies ([where numbers come
from](sources.md#a100)); BERT has not been used.
"""
BY_CARD = """Inference that NVIDIA's repositories, MLCommons and timm publish of eleven cards ([each
figure](gpu-published.md)). **No figure has set a value of a preset or of the model**, and the presets came before the
first comparison; they have been looked at several times since, so none is blind. Two things have followed from that:
PyTorch's ViT has its attention in one kernel, as among PyTorch's libraries above, and rows of a card leave out what
holds more than the card's work, which has rows of its own. PyTorch without graphs takes nearly as long for one picture
as for 16, 9 to 18 ms, as the host issues its functions one by one: 45 us each on the hosts of these cards, which other
networks on other hosts have set ([where numbers come from](sources.md#t4)); these hosts take 35 to 60. Automatic mixed
precision casts the weights in every run, 54 functions more for ResNet-50 and 82 for EfficientNet-B0: a single picture
in FP16 takes 2.4 and 4.1 ms more than in FP32. Normalisation is a function of its own there. Up to batch 32 Paddle-TRT
is hardly slower on an A30 than on an A100, its 99th percentile up to four times the mean, which its host does not
explain.
"""
OF_CARDS = """ResNet-50 in INT8 by TensorRT at its batches of 32 to 2048 is expected at 0.80 to 1.16 of what it takes, a
single image at 0.33 to 0.62. Encoders at batch 32 are hardly biased, at batch 1 a quarter too short, most with 384
tokens on A30, L4 and L40S (0.5 to 0.85). A part of that is attention: TensorRT's plugin for BERT launches one block for
each head unless a table in it says that it divides the queries, and that has no entry for 384 tokens in FP16 on GPUs
after A100 (`fused_multihead_attention_v2.h`). By hand, 12 blocks on an L40S take 24 us a layer, where three kernels are
predicted with 15: half of what is missing there, and most of it on an L4. On A30 it divides them, and what is missing
there has no cause yet. Products as a library's kernels compute them, which only H100 and H200 have in their files, do
not explain it: with like kernels in the files of A30, L4, L40S and T4, batch 1 came out as far off in the mean as
without. FP32 on lanes is off by 12 %. At batches beyond 32 networks of PyTorch are expected at 0.69 (MobileViT,
ResNeSt) to 1.26 (ResNet-50 in FP32 on a T4) of what they take, ViT at 1.03 and 1.07; at smaller ones, where the host
sets the pace, at 0.69 to 1.30, and on an A100, whose host is faster than its file says, at 1.44 and 1.66. The library
efficiency of tensor units of L4 and L40S is assumed, that of another card; on an L40S the bound is nearer at batch 32.
The clock of T4 as it falls under 70 W is of products that others have measured.
"""
SINGLE_KERNELS = """Products, softmax, layer norm and elementwise operators in FP32 that NeuSight publishes of eight
cards ([each case](gpu-kernels.md)), by halves of the cards. **The development half has set** the sustained clock of
`a100_pcie_40gb`, the library efficiency of memory of P100, between which sizes an L2 loses rows, and the form of
kernels; its rows show a fit. **No time of the blind half has set anything**: it was simulated once, when all else was
done. Names of kernels say which tiles cuBLAS has, on cards of both halves.
"""
OF_SINGLE_KERNELS = """Before tiles and passes were known, the development half was expected with mean errors of 13.9 %
for products, 24.3 % batched, 24.7 % for softmax and 34.7 % for layer norm. What is left, as kinds: clocks under limits
of 70 to 72 W, which no row states (batched products of T4 run at 3.3 to 6.4 TFLOPS with one kernel; those of L4 are
expected at 0.59 to 0.70 of what they take, or at 0.90 to 1.18; products of L4 are expected a fifth too short; [what
was tried](machine.md)); batched products of P4 with 512 rows and more of 64 to 96 columns, whose limit lowers no
expected time: all eight at 0.68 or 0.69, its others at 0.83 to 1.12; softmax of more than 1024 elements on a V100,
whose L2 keeps more than a T4's in proportion (expected 24 % too long); layer norm and softmax of an A100 with some ten
thousand rows of odd lengths, at 0.6 of what they take, of which no cause has been found; operands of 0.4 to 2.1 GB with
rows from 24 KiB on P100 and P4, at 0.5 to 0.75 of what they take, perhaps as these cards translate addresses; and what
takes less than 0.2 ms, as the host's way to the kernel is in the time.
"""
OF_DSAS = """Two rows of GraphTurbo's table 1 have set the launch cost of `stcp920`; its table 2 has set nothing,
and its rows are looked at one by one in [GraphTurbo](graphturbo.md). Goya's clock, peak and memories are not
published, so its file is mostly assumed. NVDLA's primer has frames of ResNet-50 a second, which are estimates
too; they take arithmetic and data alone, and leave out the lanes behind the array and launches. Without these, five
sizes come out at 1.01, 1.14, 1.11, 1.15 and 1.67 of them (`python -m dsascape.experiments.papers.nvdla_sizes` has each
with them: 0.87 to 0.69, and 1.5 of the smallest). For Ethos-U65 and TPU v4i no absolute figures of a network of the zoo
have been found. Areas beside published dies are in [machines](machine.md#clustered-scratchpad-accelerator).
"""
BEFORE_RTL = """No row of this table is blind. BERT and ResNet-50 were looked at while the model was made; RetinaNet and
U-Net have set no number since, but had been looked at before, and led to two changes then.
"""
ON_RTL = """`gemmini` runs 74 layers of BERT-base, ResNet-50, the head of RetinaNet and U-Net one by one, with
memories that hold two of the tiles that ran on RTL, and these tiles: those of DOSA's search, and those of Gemmini's
library. `our tiles` are those of our own search, beside RTL with DOSA's: how fast the machine is expected to be at
its best. `python -m dsascape.experiments.papers.gemmini_layers` prints each layer.

Before, RTL was compared with tiles of our own: mean errors were 18.6 % of searched and 36.3 % of the library's tiles.
What changed the model is Gemmini's source: weights are held, and rows of one image row at a time streamed past them
(`weight_stationary`); every loop command reloads its operands (`reloads`); DMA moves rows in requests of 64 bytes,
and stores those of 16 (`request`). No number is fitted, but of two that the source allows one was chosen by three
layers of ResNet-50 with rows of 4 pixels: a pair of commands takes 8 cycles, not 4. RetinaNet and U-Net have set
nothing since; but they had been looked at in an earlier version, for which DRAM went from 16 to 8 bytes a cycle and
taps became products of their own, and a few of U-Net while the published mappings were read.

What is left, as kinds: weights in rows of 16 bytes far apart (1024 channels of 28 x 28 and 54 x 54, 0.31 and 0.56),
slower than their requests for a cause not found (whole lines of memory would explain a part); one channel of 570 x
570 (0.46) and two results of 388 x 388 (0.33), of a byte or two a pixel; small images (4 x 4 and 2 x 2, up to 1.54),
perhaps from an L2 cache that is warm, as RTL takes 14,176 and 22,894 cycles for one and the same tile, and within a
tile of a product, arithmetic overlaps with loads and stores (128 x 64 by 64 x 128, 1.7). Where a mapping splits a
window, as many blocks of channels stand for its parts. The library's tiles of deep layers of 7 x 7 (0.46 to 0.6) take
17 to 23 cycles a request, of which no cause has been found.
"""
ON_POWER = """Predicted power of ResNet-50 at batch 16 under `fixed-pattern`, energy by latency, beside what a GPU is
rated at. A rating is a limit, not the power of this network. Executing an instruction (fetch, decode, rename,
registers) has energy of its own, derived from figures at 45 nm that others have published; before, the shares were 22
% on p100, 39 % on v100, 42 % on a100, 35 % on h100 and 36 % on h200. Kernels measured on an H100 have set the
energies of h100, and those of its die in h200 ([power](gpu-power.md)): before, the shares were 41 % and 42 %. Those
of the older GPUs are derived as before: the H100's, taken to 7 nm as logic scales, would hold an A100 at 0.78 of its
clock in a product of 8192 in FP16, which is known to run at 0.87 of what it does on zeros. Left out there: clocks of
stalled SMs, the network on chip, regulators, fans and boards.
"""
PARTS = """Power of CPUs and scratchpads at ResNet-50, batch 16 (10 on Goya), by part, beside its limit. STCP920 runs
under `fixed-pattern` and then `graphturbo`, Ascend, Goya and IPU under `graphturbo`, all others under `fixed-pattern`.
Power depends on how fast a part is taken to be, so the energy of an image stands beside it.
"""
OF_PARTS = """What sets these numbers is left out of the comparison: power of 21 cores of phones and desktops on
CoreMark and Prime95 (`experiments/measured/power/cores.csv`) sets the energy of a cycle, idle power and area of four
TPUs that of scratchpads, so that `tpu_v4i`, whose own idle power is stated, is judged by nothing but its limit. The
static power of `ipu_mk1` follows from its rating. Static power of CPUs (caches, mesh, memory controllers) is assumed in
each file. A regression of power of Skylake servers on their counters (EAR, `cpu_power_model_default.h`) has 11.4 W an
instruction a cycle and 28 W for vector instructions at the cores of one node, 108 pJ and 267 pJ an instruction if it
has 44; the file of `platinum_8124m` has 105 pJ, and 193 pJ of registers and 39 pJ of arithmetic for a
multiply-accumulate. It has set no number, but was looked at when the energy of registers was chosen among published
ones. So was NVDLA, which stood at 0.67 W, when SRAM got its energy by the width of its accesses. Measured:
"""
OF_MEASURED_PARTS = """The boards' 5.1 and 6.4 W have Ethernet, USB and regulators in them, which are no part of the
file. No measured power of CPUs of these phones at networks was found. Goya's latency is predicted 2.3 times too long,
so that its power is low where the energy of an image is not: 100 W and 15,000 images a second are 6.7 mJ. On `ipu_mk1`
weights come from the host in every run, so that arrays wait. Left out: losses of regulators (of phones they are in the
cores' cycles), fans, boards, voltage that falls with the clock, cores that sleep.
"""
POWERS_MEASURED = """Measured by the drivers' counters over a second of the same work ([each](gpu-libraries.md)).
Shares are in the mean of the cases: of the power in the latency that is expected, and of the energy of a run. Where too
short a latency is expected, of convolutional networks above all, the power is nearer than the energy. None of these
cases has set an energy; the power of an idle H100 is from the same file. Before, 68 %, 41 %, 59 % and 57 % of the power
were predicted on the H100, and 73 %, 41 %, 62 % and 62 % on the H200. The H200 that was measured draws 10 to 17 % less
than the H100 at the same work on the chip, which nothing in its file says. SMs run at 1.98 GHz where power allows, and
at 1.83 in the presets, which is the clock of their peak: energies on the chip are 13 % higher there.
"""
BLIND = """## Blind spots

- Real scratchpad accelerators: none was at hand.
- CPUs in FP16 and INT8: published times of one library on ARM's cores only, some of two devices' tables; servers, x86
  and `smmla` in these dtypes with nothing. The packing of activations is not modelled.
- More than two threads: measured on one server, whose speed changes, and predicted too short there, by a fifth on two
  and four threads. Cores of several kinds: beside published times only.
- Mobile GPUs: published times of two devices only, which have set their efficiencies, see above.
- Generated code on GPUs other than H100, code for tensor units; hosts of GPUs, one time for every function.
- Energy of GPUs other than those of one die: none measured. Energy of CPUs and scratchpads: five measured figures, of
  two boards, a card and two chips; no counter was at hand.
- Kernels of a CPU without an anchor are costed by rows. Over random programs errors are 140 to 217 %
  ([Ansor](ansor.md)), though programs that a search keeps are predicted as the tables above say.
"""
