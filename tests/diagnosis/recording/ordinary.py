"""Logs of what goes well, built from the programs' format strings: at least 20,000 lines.

    .venv/bin/python -m tests.diagnosis.recording.ordinary DIR

writes them as files; tests/signatures/test_ordinary.py makes them anew each time. Many hold words
that a failure's lines hold, too, where they mean no harm. Formats: NCCL 2.18 to 2.27, RCCL 2.20,
DeepSpeed 0.14, Megatron-LM core 0.9, Lightning 2.4, transformers 4.46, torch 2.1 to 2.9, Slurm
22.05 to 25.05, pyxis 0.20, Linux 5.14 with NVIDIA's, Mellanox's and Lustre's drivers.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LINES = 3000
_FIELD = re.compile(r"\{([a-z]+)\}")

NCCL = """
{h}:{p}:{p} [{g}] NCCL INFO Bootstrap : Using eno1:10.20.0.{b}<0>
{h}:{p}:{p} [{g}] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal implementation
{h}:{p}:{p} [{g}] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
{h}:{p}:{p} [{g}] NCCL INFO cudaDriverVersion 12040
{h}:{p}:{p} [{g}] NCCL INFO NCCL version 2.27.3+cuda12.9
{h}:{p}:{p} [{g}] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
{h}:{p}:{p} [{g}] NCCL INFO NCCL_IB_RETRY_CNT set by environment to 7.
{h}:{p}:{p} [{g}] NCCL INFO NCCL_ASYNC_ERROR_HANDLING set by environment to 1.
{h}:{p}:{p} [{g}] NCCL INFO Failed to open libibverbs.so[.1]
{h}:{p}:{p} [{g}] NCCL INFO NET/IB : No device found.
{h}:{p}:{p} [{g}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:10.20.0.{b}<0>
{h}:{p}:{p} [{g}] NCCL INFO Using non-device net plugin version 0
{h}:{p}:{p} [{g}] NCCL INFO Using network IB
{h}:{p}:{p} [{g}] NCCL INFO ncclCommInitRankConfig comm 0x{x} rank {r} nranks 64 cudaDev {g} nvmlDev {g} busId 5d000 commId 0x{x} - Init START
{h}:{p}:{p} [{g}] NCCL INFO ncclCommInitRankConfig comm 0x{x} rank {r} nranks 64 cudaDev {g} nvmlDev {g} busId 5d000 commId 0x{x} - Init COMPLETE
{h}:{p}:{p} [{g}] NCCL INFO RAS client listening socket at 127.0.0.1<28028>
{h}:{p}:{p} [{g}] NCCL INFO Bootstrap timings total 0.{i} (create 0.00003, send 0.000{g}, recv 0.000{g}, ring 0.0{g}, delay 0.0{g})
{h}:{p}:{p} [{g}] NCCL INFO Setting affinity for GPU {g} to ffff,ffffffff
{h}:{p}:{p} [{g}] NCCL INFO NVLS multicast support is not available on dev {g}
{h}:{p}:{p} [{g}] NCCL INFO comm 0x{x} rank {r} nRanks 64 nNodes 8 localRanks 8 localRank {g} MNNVL 0
{h}:{p}:{p} [{g}] NCCL INFO Trees [0] {r}/-1/-1->{g}->-1 [1] {r}/-1/-1->{g}->-1
{h}:{p}:{p} [{g}] NCCL INFO P2P Chunksize set to 131072
{h}:{p}:{p} [{g}] NCCL INFO Channel {g}/0 : {r}[{g}] -> {r}[{g}] [send] via NET/IB/{g}/GDRDMA
{h}:{p}:{p} [{g}] NCCL INFO Channel {g}/0 : {r}[{g}] -> {r}[{g}] via P2P/CUMEM/read
{h}:{p}:{p} [{g}] NCCL INFO Connected all rings
{h}:{p}:{p} [{g}] NCCL INFO Connected all trees
{h}:{p}:{p} [{g}] NCCL INFO threadThresholds 8/8/64 | 512/8/64 | 512 | 512
{h}:{p}:{p} [{g}] NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer
{h}:{p}:{p} [{g}] NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.
{h}:{p}:{p} [{g}] NCCL INFO TUNER/Plugin: Plugin load returned 11 : libnccl-tuner.so: cannot open shared object file: No such file or directory : when loading libnccl-tuner.so
{h}:{p}:{p} [{g}] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so.
{h}:{p}:{p} [{g}] NCCL INFO Call to connect returned Connection refused, retrying
{h}:{p}:{p} [{g}] NCCL INFO [Service thread] Connection closed by localRank {g}
{h}:{p}:{p} [{g}] NCCL INFO AllReduce: opCount {x} sendbuff 0x{x} recvbuff 0x{x} count {i} datatype 9 op 0 root 0 comm 0x{x} [nranks=64] stream 0x{x}
{h}:{p}:{p} [{g}] NCCL INFO comm 0x{x} rank {r} nranks 64 cudaDev {g} busId 5d000 - Abort COMPLETE
{h}:{p}:{p} [{g}] NCCL INFO comm 0x{x} rank {r} nranks 64 cudaDev {g} busId 5d000 - Destroy COMPLETE
{h}:{p}:{p} [{g}] NCCL INFO misc/socket.cc:46 -> 3
{h}:{p}:{p} [{g}] NCCL INFO misc/socket.cc:58 -> 3
{h}:{p}:{p} [{g}] NCCL INFO Could not enable P2P between dev {g}(=5d000) and dev {g}(=86000)
{h}:{p}:{p} [{g}] NCCL INFO GPU Direct RDMA Disabled for HCA {g} 'mlx5_{g}'
{h}:{p}:{p} [{g}] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_{g}:1 Got async event : port active
{h}:{p}:{p} [{g}] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_{g}:1 Got async event : GID table change
{h}:{p}:{p} [{g}] NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"
{h}:{p}:{p} [{g}] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!
"""

DEEPSPEED = """
[{d},{i}] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, lr=[{f}], mom=[[0.9, 0.95]]
[{d},{i}] [INFO] [timer.py:264:stop] epoch=0/micro_step={i}/global_step={i}, RunningAvgSamplesPerSec={f}, CurrSamplesPerSec={f}, MemAllocated=12.1GB, MaxMemAllocated=61.9GB
[{d},{i}] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank {r} Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1
[{d},{i}] [INFO] [comm.py:652:init_distributed] cdb=None
[{d},{i}] [INFO] [comm.py:683:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl
[{d},{i}] [INFO] [real_accelerator.py:219:get_accelerator] Setting ds_accelerator to cuda (auto detect)
[{d},{i}] [WARNING] [runner.py:212:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.
[{d},{i}] [INFO] [engine.py:3417:save_checkpoint] Saving model checkpoint: /scratch/run7/global_step{i}/mp_rank_00_model_states.pt
[{d},{i}] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saved /scratch/run7/global_step{i}/zero_pp_rank_{r}_mp_rank_00_optim_states.pt.
[{d},{i}] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step{i} is ready now!
[{d},{i}] [INFO] [config.py:1003:print]   activation_checkpointing_config  {
[{d},{i}] [INFO] [config.py:1003:print]   fp16_auto_cast ............... False
[{d},{i}] [INFO] [config.py:1003:print]   load_universal_checkpoint .... False
[{d},{i}] [INFO] [config.py:1003:print]   memory_breakdown ............. False
[{d},{i}] [INFO] [config.py:1003:print]   timers_config ................ enabled=True synchronized=True
[{d},{i}] [INFO] [config.py:1003:print]   elasticity_enabled ........... False
[{d},{i}] [INFO] [config.py:1003:print]   error_handling ............... strict
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
 [WARNING]  async_io: please install the libaio-dev package with apt
 [WARNING]  If libaio is already installed (perhaps from source), try setting the CFLAGS and LDFLAGS environment variables to where it can be found.
 [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.4
 [WARNING]  using untested triton version (3.0.0), only 1.0.0 is known to be compatible
Installed CUDA version 12.2 does not match the version torch was compiled with 12.1 but since the APIs are compatible, accepting this combination
Loading extension module fused_adam...
Time to load fused_adam op: 0.{i} seconds
ninja: no work to do.
Detected CUDA files, patching ldflags
Emitting ninja build file /home/eve/.cache/torch_extensions/py310_cu121/fused_adam/build.ninja...
[{d},{i}] [INFO] [launch.py:256:main] process {p} spawned with command: ['/usr/bin/python3', '-u', 'train.py', '--local_rank={g}']
[{d},{i}] [INFO] [launch.py:351:main] Process {p} exits successfully.
[{d},{i}] [WARNING] [stage3.py:1991:step] {g} pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance. if this is happening frequently consider adjusting settings to reduce memory consumption.
[{d},{i}] [INFO] [utils.py:781:see_memory_usage] MA 14.2 GB         Max_MA 14.7 GB         CA 15.1 GB         Max_CA 15 GB
[{d},{i}] [INFO] [utils.py:788:see_memory_usage] CPU Virtual Memory:  used = 91.2 GB, percent = 9.1%
"""

MEGATRON = """
 [{d}] iteration {i}/  500000 | consumed samples: {i} | elapsed time per iteration (ms): {f} | throughput per GPU (TFLOP/s/GPU): {f} | learning rate: 1.2E-04 | global batch size:   512 | lm loss: 2.3{g}E+00 | loss scale: 1.0 | grad norm: 0.{i} | num zeros: 0 | number of skipped iterations:   0 | number of nan iterations:   0 |
 validation loss at iteration {i} | lm loss value: 2.1{g}E+00 | lm loss PPL: {f} |
saving checkpoint at iteration {i} to /scratch/eve/ckpt in torch_dist format
  successfully saved checkpoint from iteration {i} to /scratch/eve/ckpt
WARNING: could not find the metadata file /scratch/eve/ckpt/latest_checkpointed_iteration.txt
    will not load any checkpoints and will start from random
WARNING: TensorBoard writing requested but is not available (are you using PyTorch 1.1.0 or later?), no TensorBoard logs will be written.
WARNING: Setting args.overlap_p2p_comm and args.align_param_gather to False since non-interleaved schedule does not support overlapping p2p communication
(min, max) time across ranks (ms):
    load-checkpoint ................................: ({f}, {f})
    optimizer-copy-main-to-model-params ............: ({f}, {f})
    all-grads-sync .................................: ({f}, {f})
  exit_duration_in_mins ........................... None
  exit_on_missing_checkpoint ...................... False
  exit_signal_handler ............................. True
  check_for_nan_in_loss_and_grad .................. True
  check_weight_hash_across_dp_replicas_interval ... None
  distributed_timeout_minutes ..................... {g}
  fault_tolerance ................................. disabled
  error_injection_rate ............................ 0
  iterations_to_skip .............................. []
  num_ft_timeouts ................................. 0
  rerun_mode ...................................... disabled
  hang_detection_timeout .......................... 1800
  kill_on_nan ..................................... False
  abort_on_unhealthy .............................. 0
 > number of parameters on (tensor, pipeline) model parallel rank ({g}, {g}): {i}
> building train, validation, and test datasets for GPT ...
INFO:megatron.core.datasets.indexed_dataset:Load the _IndexReader from /data/corpus_text_document.idx
INFO:megatron.core.datasets.gpt_dataset:> total number of epochs: 1
[Rank {r}] (after {i} iterations) memory (MB) | allocated: {f} | max allocated: {f} | reserved: {f} | max reserved: {f}
Number of parameters in transformer block in billions:  6.{g}
rank {r}: straggler detector: min/max 0.9{g}/1.0{g}, no straggler found
INFO:megatron.core.optimizer.distrib_optimizer:no NaN found in grads of {i} buckets
setting training iterations to {i}
time (ms) | model-and-optimizer-setup: {f} | train/valid/test-data-iterators-setup: {f}
"""

LIGHTNING = """
GPU available: True (cuda), used: True
TPU available: False, using: 0 TPU cores
LOCAL_RANK: {g} - CUDA_VISIBLE_DEVICES: [0,1,2,3,4,5,6,7]
[rank: {r}] Seed set to {i}
Initializing distributed: GLOBAL_RANK: {r}, MEMBER: {r}/64
All distributed processes registered. Starting with 64 processes
Missing logger folder: /scratch/eve/lightning_logs
Restoring states from the checkpoint path at /scratch/eve/last.ckpt
Restored all states from the checkpoint at /scratch/eve/last.ckpt
/opt/venv/lib/python3.11/site-packages/lightning/pytorch/trainer/connectors/data_connector.py:425: The 'val_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument` to `num_workers=63` in the `DataLoader` to improve performance.
/opt/venv/lib/python3.11/site-packages/lightning/pytorch/utilities/data.py:79: Trying to infer the `batch_size` from an ambiguous collection. The batch size we found is {g}. To avoid any miscalculations, use `self.log(..., batch_size=batch_size)`.
/opt/venv/lib/python3.11/site-packages/lightning/pytorch/callbacks/model_checkpoint.py:654: Checkpoint directory /scratch/eve exists and is not empty.
Epoch {g}:  42%|####2     | {i}/1000 [00:12<00:17, {f}it/s, v_num=0, train_loss={f}, val_error=0.{i}]
Validation DataLoader 0: 100%|##########| {g}/{g} [00:01<00:00, {f}it/s]
Epoch {g}, global step {i}: 'val_loss' reached {f} (best {f}), saving model to '/scratch/eve/epoch={g}.ckpt' as top 3
Epoch {g}, global step {i}: 'val_error' was not in top 3
Metric val_loss improved by {f} >= min_delta = 0.0. New best score: {f}
Loaded model weights from the checkpoint at /scratch/eve/last.ckpt
SLURM auto-requeueing enabled. Setting signal handlers.
Using 16bit Automatic Mixed Precision (AMP)
  | Name       | Type              | Params | Mode
{g} | error_head | Linear            | {i} K  | train
{g} | crash_net  | Sequential        | {i} K  | train
You are using a CUDA device ('NVIDIA H100 80GB HBM3') that has Tensor Cores. To properly utilize them, you should set `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off precision for performance.
wandb: Network error (ReadTimeout), entering retry loop.
wandb: W&B API key is configured. Use `wandb login --relogin` to force relogin
wandb: WARNING Tried to log to step {i} that is less than the current step {i}. Steps must be monotonically increasing, so this data will be ignored.
"""

TRANSFORMERS = """
{'loss': {f}, 'grad_norm': {f}, 'learning_rate': {f}e-05, 'epoch': 0.{i}}
{'eval_loss': {f}, 'eval_error_rate': 0.{i}, 'eval_runtime': {f}, 'eval_samples_per_second': {f}, 'epoch': {g}.0}
Some weights of BertForSequenceClassification were not initialized from the model checkpoint at /models/base and are newly initialized: ['classifier.bias', 'classifier.weight']
You should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference.
Token indices sequence length is longer than the specified maximum sequence length for this model ({i} > 512). Running this sequence through the model will result in indexing errors
`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.
huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...
To disable this warning, you can either:
	- Avoid using `tokenizers` before the fork if possible
Retrying in {g}s [Retry {g}/5].
Loading checkpoint shards:  50%|#####     | {g}/{g} [00:05<00:05,  2.{g}s/it]
Map (num_proc=16):  12%|#2        | {i}/{i} [00:10<01:10, {f} examples/s]
***** Running training *****
  Num examples = {i}
  Gradient Accumulation steps = {g}
  Total optimization steps = {i}
Saving model checkpoint to /scratch/eve/checkpoint-{i}
Deleting older checkpoint [/scratch/eve/checkpoint-{i}] due to args.save_total_limit
Detected kernel version 4.18.0, which is below the recommended minimum of 5.5.0; this can cause the process to hang. It is recommended to upgrade the kernel to the minimum version or higher.
Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in LlamaForCausalLM is torch.float32. You should run training or inference using Automatic Mixed-Precision
The attention mask and the pad token id were not set. As a consequence, you may observe unexpected behavior.
Could not estimate the number of tokens of the input, floating-point operations will not be computed
loading file tokenizer.model
skipping shard {i}: 0 of {i} records are corrupt
{d} INFO dataset: {i} shards listed, 0 missing, 0 unreadable
{d} INFO loader: worker {g} restarted 0 times, out-of-memory retries: 0
{d} INFO ckpt: wrote step {i} in {f} s, no space problems, quota 61% used
{d} INFO health: xid events 0, ecc errors 0 (corrected {g}), nvlink errors 0
{d} INFO health: gpu {g} temperature 61 C, throttle reasons: none, row remaps pending: 0
{d} INFO comm: all_reduce p99 {f} ms, timeouts 0, peers lost 0
{d} INFO comm: watchdog armed, timeout 600 s
{d} INFO eval: segmentation fault-line dataset, IoU {f}
{d} WARNING dl: retry {g}/5 after a connection reset, succeeded
{d} INFO sched: job will stop when the time limit is near, 0{g}:10:00 left
{d} INFO fault injection: disabled, abort probability 0.0
{d} INFO metrics: killed=0 failed=0 aborted=0 nan=0 inf=0 overflow=0
{d} INFO loss scaler: overflow at step {i}, scale now 32768
"""

TORCH = """
[rank{r}]:[W1130 10:00:00.{i} ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank {r}]  using GPU {g} to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect. Specify device_ids in barrier() to force use of a particular device, or call init_process_group() with a device_id.
[rank{r}]:[W1130 10:00:00.{i} ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group to ensure that any pending NCCL operations have finished in this process. In rare cases this process can exit before this point and block the progress of another member of the process group.
[W socket.cpp:663] [c10d] The client socket has failed to connect to [{h}]:29500 (errno: 111 - Connection refused).
[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).
[W reducer.cpp:1389] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused parameters in the forward pass. This flag results in an extra traversal of the autograd graph every iteration,  which can adversely affect performance.
[I1130 10:00:00.{i} ProcessGroupNCCL.cpp:905] [PG ID 0 PG GUID 0 Rank {r}] ProcessGroupNCCL initialization options: size: 64, global rank: {r}, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0, SPLIT_FROM: 0, SPLIT_COLOR: 0, PG Name: 0
[I1130 10:00:00.{i} ProcessGroupNCCL.cpp:914] [PG ID 0 PG GUID 0 Rank {r}] ProcessGroupNCCL environments: NCCL version: 2.20.5, TORCH_NCCL_ASYNC_ERROR_HANDLING: 3, TORCH_NCCL_DUMP_ON_TIMEOUT: 0, TORCH_NCCL_DESYNC_DEBUG: 0, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 480
[I1130 10:00:00.{i} ProcessGroupNCCL.cpp:874] [PG ID 0 PG GUID 0 Rank {r}] ProcessGroupNCCL watchdog thread started!
[I1130 10:00:00.{i} ProcessGroupNCCL.cpp:1121] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Watchdog joined, destroying NCCL communicators.
[I1130 10:00:00.{i} ProcessGroupNCCL.cpp:1199] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Destroy complete.
/opt/venv/lib/python3.11/site-packages/torch/optim/lr_scheduler.py:216: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call them in the opposite order. Failure to do this will result in PyTorch skipping the first value of the learning rate schedule.
  warnings.warn(
/home/eve/train.py:41: FutureWarning: You are using `torch.load` with `weights_only=False`, which uses the default pickle module implicitly. It is possible to construct malicious pickle data which will execute arbitrary code during unpickling
W1130 10:00:00.{i} {p} torch/_dynamo/convert_frame.py:1358] [{g}/8] torch._dynamo hit config.recompile_limit (8)
W1130 10:00:00.{i} {p} torch/_dynamo/convert_frame.py:1358] [{g}/8]    last reason: {g}/7: tensor 'x' size mismatch at index 0. expected {i}, actual {i}
W1130 10:00:00.{i} {p} torch/_inductor/utils.py:1137] [0/0] Not enough SMs to use max_autotune_gemm mode
W1130 10:00:00.{i} {p} torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.
I1130 10:00:00.{i} {p} torch/distributed/elastic/agent/server/api.py:879] [default] worker group successfully finished. Waiting 300 seconds for other agents to finish.
I1130 10:00:00.{i} {p} torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1151] The node '{h}_{p}_0' has joined round 0 of the rendezvous '500' as rank {r} in a world of size 8.
I1130 10:00:00.{i} {p} torch/distributed/launcher/api.py:194]   max_restarts     : 3
I1130 10:00:00.{i} {p} torch/distributed/launcher/api.py:194]   rdzv_configs     : {'timeout': 900}
I1130 10:00:00.{i} {p} torch/distributed/elastic/metrics/api.py:137] torchelastic.worker.failed: 0
AUTOTUNE mm({i}x{i}, {i}x{i})
  triton_mm_{g} 0.0{i} ms 100.0%
  triton_mm_{g} inf ms 0.0% (out of resource: shared memory)
SingleProcess AUTOTUNE benchmarking takes {f} seconds and {f} seconds precompiling
step {i} loss {f} lr {f} mem {f} GiB
[rank{r}]: step {i}: grad norm {f}, clip 1.0, errors so far 0
DDP bucket {g} of rank {r}: {i} parameters, none unused
"""

SLURM = """
srun: job {i} queued and waiting for resources
srun: job {i} has been allocated resources
srun: Job {i} step creation temporarily disabled, retrying (Requested nodes are busy)
srun: Step created for StepId={i}.0
srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1
srun: lua: Submitted job {i} using account ml
sbatch: Submitted batch job {i}
salloc: Granted job allocation {i}
salloc: Nodes {h} are ready for job
slurmstepd: info: Setting TMPDIR to /local/job_{i}
slurmstepd: pyxis: importing docker image: nvcr.example/train:{g}
slurmstepd: pyxis: imported docker image: nvcr.example/train:{g}
slurmstepd: pyxis: creating container filesystem: pyxis_{i}.0
slurmstepd: pyxis: starting container: pyxis_{i}.0
slurmstepd: debug:  jobacct_gather/cgroup: gathering memory of {g} tasks
INFO:    Converting SIF file to temporary sandbox...
INFO:    Cleaning up image...
INFO:    underlay of /etc/localtime required more than 50 ({i}) bind mounts
WARNING: By using --writable, Apptainer can't create /gpfs destination automatically without overlay or underlay
Loading cuda/12.4
The following have been reloaded with a version change:
  1) gcc/11.3.0 => gcc/12.2.0
Lmod is automatically replacing "gcc/12.2.0" with "intel/2024".
+ export NCCL_DEBUG=INFO
+ ulimit -l unlimited
+ echo 'if this fails, see /home/eve/README: "CUDA out of memory" means a smaller batch'
conda: environment llm activated
nvidia-smi: 8 GPUs, driver 550.54.15, CUDA 12.4, ECC errors 0
JobId={i} Restarts=0 ExitCode=0:0 Requeue=1
prolog: node {h} passed: gpus 8/8, nvlinks 144/144, ib ports 8/8, /scratch mounted, 0 failures
dcgmi diag: Deployment pass, Permissions and OS Blocks pass, Persistence Mode pass, Page Retirement/Row Remap pass
Detected XID 43 for GPU {g} in the last boot, cleared
"""

KERNEL = """
NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
nvidia-nvlink: Nvlink Core is being initialized, major device number 234
nvidia-uvm: Loaded the UVM driver, major device number 511.
nvidia 0000:{x}:00.0: enabling device (0140 -> 0142)
NVRM: GPU at PCI:0000:3b:00: GPU-5a1c0000-0000-4000-8000-{x}
NVRM: Xid (PCI:0000:3b:00): 43, pid={p}, name=python3, Ch 0000000{g}
NVRM: Xid (PCI:0000:3b:00): 92, pid={p}, name=python3, High single bit ECC error rate
nvidia-nvswitch{g}: SXid (PCI:0000:0a:00.0): 12028, Non-fatal, Link {g} egress non-posted PRIV error (First)
nvidia-nvswitch{g}: open (major=510)
mlx5_core 0000:5e:00.0: firmware version: 28.39.1002
mlx5_core 0000:5e:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)
mlx5_core 0000:5e:00.0: Port module event: module {g}, Cable plugged
mlx5_core 0000:5e:00.0 ib{g}: Link up
IPv6: ADDRCONF(NETDEV_CHANGE): ib{g}: link becomes ready
ice 0000:5e:00.0 ens{g}: NIC Link is up 100 Gbps Full Duplex, Requested FEC: RS-FEC
bond0: link status definitely up for interface eth{g}, 100000 Mbps full duplex
EXT4-fs (sda{g}): mounted filesystem with ordered data mode. Opts: errors=remount-ro
XFS (nvme{g}n1p1): Mounting V5 Filesystem
XFS (nvme{g}n1p1): Ending clean mount
nvme nvme{g}: 16/0/0 default/read/poll queues
nvme{g}n1: p1 p2 p3
md/raid1:md{g}: active with 2 out of 2 mirrors
FS-Cache: Loaded
NFS: Registering the id_resolver key type
nfs: server files{g} OK
Lustre: Lustre: Build Version: 2.15.3
Lustre: Mounted work-client
Lustre: work-OST000{g}-osc-ffff{x}: Connection restored to work-OST000{g} (at 10.0.0.9@o2ib)
LNet: Added LNI 10.0.0.{g}@o2ib [8/256/0/180]
LustreError: 11-0: work-OST000{g}-osc-ffff{x}: operation ost_connect to node 10.0.0.9@o2ib failed: rc = -16
mce: [Hardware Error]: Machine check events logged
mce: [Hardware Error]: CPU {g}: Machine Check: 0 Bank 7: 8c00004000010092
EDAC MC{g}: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3f41c0 offset:0x0)
pcieport 0000:3a:01.0: AER: Corrected error received: 0000:3b:00.0
nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
nvidia 0000:3b:00.0:   device [10de:2330] error status/mask=00000001/0000e000
{g}[Hardware Error]: event severity: corrected
perf: interrupt took too long ({i} > {i}), lowering kernel.perf_event_max_sample_rate to {i}
TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.  Check SNMP counters.
workqueue: nvidia_poll hogged CPU for >10000us {g} times, consider switching to WQ_UNBOUND
clocksource: timekeeping watchdog on CPU{g}: Marking clocksource 'tsc' as stable
watchdog: Enabled. Permanently consumes one hw-PMU counter.
NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.
audit: type=1400 audit({i}.{g}:{g}): apparmor="ALLOWED" operation="open" profile="slurmstepd"
systemd[1]: Started Session {g} of User eve.
overlayfs: missing redirect_dir and metacopy options, assumed off
squashfs: version 4.0 (2009/01/31) Phillip Lougher
amdgpu 0000:{x}:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block
amdgpu 0000:{x}:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0
python3 (pid {p}) is using a deprecated interface
"""

PROGRAMS = {
    "nccl": NCCL, "deepspeed": DEEPSPEED, "megatron": MEGATRON, "lightning": LIGHTNING,
    "transformers": TRANSFORMERS, "torch": TORCH, "slurm": SLURM, "kernel": KERNEL,
}  # fmt: skip


def ordinary(program: str, count: int = LINES) -> Iterator[str]:
    """``count`` lines of one program of `PROGRAMS`, the same each time."""
    chance = random.Random(program)
    templates = [line for line in PROGRAMS[program].split("\n") if line.strip()]
    for number in range(count):
        template = templates[number] if number < len(templates) else chance.choice(templates)
        yield _FIELD.sub(lambda match: _value(chance, match[1], match[0]), template)


def _value(chance: random.Random, name: str, otherwise: str) -> str:
    values = {
        "h": lambda: f"n{chance.randint(1, 64)}",
        "p": lambda: str(chance.randint(1000, 99999)),
        "g": lambda: str(chance.randint(0, 7)),
        "r": lambda: str(chance.randint(0, 63)),
        "b": lambda: str(chance.randint(1, 254)),
        "i": lambda: str(chance.randint(100, 999999)),
        "f": lambda: f"{chance.uniform(0, 100):.4f}",
        "x": lambda: f"{chance.getrandbits(32):08x}",
        "d": lambda: f"2026-11-30 10:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}",
    }
    return values[name]() if name in values else otherwise


def written(folder: Path) -> list[Path]:
    """The logs as files in ``folder``: kernel-made.txt and made-PROGRAM.log."""
    paths = []
    for program in PROGRAMS:
        path = folder / ("kernel-made.txt" if program == "kernel" else f"made-{program}.log")
        lines = ordinary(program)
        if program == "kernel":
            lines = (f"[{1000 + n}.000000] {line}" for n, line in enumerate(lines))
        path.write_text("".join(f"{line}\n" for line in lines))
        paths.append(path)
    return paths


if __name__ == "__main__":
    for each in written(Path(sys.argv[1])):
        print(each)
