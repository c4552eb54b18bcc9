"""The table of kinds: names seen in real traces, and those that must not be mistaken."""

from __future__ import annotations

import pytest

from eroica_otel import kinds
from eroica_otel.kinds import Frame


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten::mm", "gemm"),
        ("aten::addmm", "gemm"),
        ("aten::_scaled_dot_product_flash_attention", "attention"),
        ("aten::convolution", "convolution"),
        ("aten::native_layer_norm", "normalization"),
        ("aten::_softmax", "softmax"),
        ("aten::addcdiv_", "elementwise"),
        ("aten::relu", "elementwise"),
        ("aten::mean", "reduction"),
        ("aten::copy_", "copy"),
        ("aten::resolve_conj", "view"),
        ("aten::embedding", "embedding"),
        ("aten::randn", "random"),
        ("eroica_demo::device", "other"),
    ],
)
def test_an_operator_is_compute(name: str, family: str) -> None:
    assert kinds.classify("cpu_op", name) == kinds.Label("compute", family, True)


@pytest.mark.parametrize(
    "name",
    [
        "autograd::engine::evaluate_function: AddmmBackward0",
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
        "torch::autograd::AccumulateGrad",
        "AddmmBackward0",
        "c10d::allreduce_",
        "torch::distributed::reducer::mul_out",
        "torch.distributed.ddp.reducer::copy_bucket_to_grad",
        "detach",
    ],
)
def test_a_wrapper_nests_and_is_never_charged(name: str) -> None:
    assert kinds.classify("cpu_op", name) == kinds.Label("", "", True)


@pytest.mark.parametrize(
    "name",
    ["Optimizer.step#AdamW.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "nccl:all_reduce"],
)
def test_an_annotation_nests_and_is_never_charged(name: str) -> None:
    assert kinds.classify("user_annotation", name) == kinds.Label("", "", True)


@pytest.mark.parametrize(
    ("category", "name", "family"),
    [
        ("user_annotation", "gloo:all_reduce", "collective"),
        ("cpu_op", "gloo:all_gather", "collective"),
        ("user_annotation", "gloo:broadcast", "broadcast"),
        ("user_annotation", "gloo:send", "point_to_point"),
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "collective"),
        ("Kernel", "ncclKernel_AllToAll_RING_LL_Sum_int8_t(ncclWorkElem)", "all_to_all"),
        ("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "point_to_point"),
        ("kernel", "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)", "collective"),
        ("kernel", "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "collective"),
        ("kernel", "ncclDevKernel_Generic_1: alltoallv", "all_to_all"),
        ("kernel", "mscclKernel_Sum_half_LL(ncclDevComm*)", "collective"),
        ("kernel", "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", "point_to_point"),
        ("kernel", "deep_ep::internode_ll::combine<true, 7168>", "point_to_point"),
        (
            "kernel",
            "void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<c10::BFloat16>(void*)",
            "collective",
        ),
        ("kernel", "multimem_all_gather_kernel", "collective"),
        ("kernel", "triton_red_fused_symm_mem_all_reduce_0", "collective"),
        ("kernel", "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", "collective"),
        ("user_annotation", "MPI_Allreduce", "collective"),
        ("user_annotation", "MPI_Isend", "point_to_point"),
        ("user_annotation", "MPI_Bcast", "broadcast"),
        ("user_annotation", "mpi:all_reduce", "collective"),
    ],
)
def test_a_collective_is_found_by_its_name_in_any_category(category: str, name: str, family: str) -> None:
    label = kinds.classify(category, name)
    assert (label.kind, label.family) == ("communication", family)
    assert kinds.is_collective(name)


@pytest.mark.parametrize(
    ("category", "name", "kind", "family"),
    [
        ("kernel", "ampere_sgemm_128x64_nn", "compute", "gemm"),
        ("kernel", "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x256_SN", "compute", "gemm"),
        ("kernel", "void cudnn::bn_bw_1C11_kernel_new<float>(float)", "compute", "normalization"),
        ("kernel", "void cudnn::detail::dgrad_engine<float, 512>(int)", "compute", "convolution"),
        ("kernel", "void at::native::vectorized_elementwise_kernel<4, Add>(int, Add)", "compute", "elementwise"),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "memory", "copy"),
        ("Memset", "Memset (Device)", "memory", "set"),
        ("cuda_runtime", "cudaStreamSynchronize", "host", "sync"),
        ("cuda_runtime", "cudaMalloc", "host", "alloc"),
        ("cuda_runtime", "cudaStreamBeginCapture_v10000", "host", "capture"),
        ("cuda_runtime", "cudaGraphInstantiate", "host", "capture"),
        ("cuda_runtime", "cudaStreamIsCapturing", "host", "other"),  # asked in every allocation
        ("cuda_runtime", "cudaGraphLaunch", "host", "launch"),
        ("cuda_runtime", "cudaLaunchKernel", "host", "launch"),
        ("cuda_driver", "cuLaunchKernel", "host", "launch"),
        ("cuda_runtime", "cudaMemcpyAsync", "host", "other"),
    ],
)
def test_what_a_gpu_does_and_what_the_host_calls(category: str, name: str, kind: str, family: str) -> None:
    assert kinds.classify(category, name) == kinds.Label(kind, family, False)


@pytest.mark.parametrize(
    "name",
    [
        "nccl:all_reduce",  # the host's side of a kernel
        "ncclGroupEnd",
        "symm_mem::one_shot_all_reduce",  # the operator that launches one
        "void deep_ep::layout::get_dispatch_layout<256>(long const*)",  # computes who gets what
        "MPI_Init",
        "MPI_Comm_rank",
        "void at::native::reduce_kernel<512, 1>(int)",
        "all_reduce_loss_function",
    ],
)
def test_what_only_sounds_like_a_collective(name: str) -> None:
    assert not kinds.is_collective(name)


@pytest.mark.parametrize(
    ("name", "kind"), [("dma_request", "memory"), ("pe_exe", "compute"), ("event_wait", ""), ("event_record", "")]
)
def test_commands_of_other_makers_are_told_by_their_names(name: str, kind: str) -> None:
    assert kinds.is_kernel("mtia_ccp_events")
    assert kinds.classify("mtia_ccp_events", name).kind == kind


def test_item_waits_on_a_gpu_and_copies_on_a_cpu() -> None:
    assert kinds.classify("cpu_op", "aten::item") == kinds.Label("compute", "copy", True)
    assert kinds.classify_on_gpu("cpu_op", "aten::item") == kinds.Label("host", "sync", True)
    assert kinds.classify_on_gpu("kernel", "aten::item").kind == "compute"
    assert kinds.classify_on_gpu("cpu_op", "aten::mm") == kinds.classify("cpu_op", "aten::mm")


def test_a_trace_with_kernels_or_launches_is_one_of_an_accelerator() -> None:
    assert kinds.uses_accelerator(["Kernel"], ["x"])
    assert kinds.uses_accelerator(["cuda_runtime"], ["cudaLaunchKernel"])
    assert kinds.uses_accelerator(["cuda_runtime"], ["hipGraphLaunch"])
    assert not kinds.uses_accelerator(["cpu_op", "user_annotation"], ["aten::mm", "nccl:all_reduce"])


def test_a_line_that_nobody_knows_is_not_shown() -> None:
    assert kinds.frame_name(Frame("a.b", "f", "/x/b.py", 0)) == "f (b.py)"


def test_a_python_function_of_the_trace_neither_counts_nor_hides_the_operator_around_it() -> None:
    assert kinds.classify("python_function", "train.py(3): main") == kinds.Label("", "", False)
    assert kinds.is_known("python_function")


def test_categories() -> None:
    assert kinds.is_kernel("Kernel")
    assert not kinds.is_kernel("gpu_memcpy")
    assert kinds.is_known("Trace")
    assert kinds.is_known("cpu_instant_event")
    assert not kinds.is_known("quantum_events")


MAIN = Frame("__main__", "main", "/job/train.py", 3)
NEXT = Frame("torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__", "dataloader.py", 700)
FETCH = Frame("torch.utils.data._utils.fetch", "_MapDatasetFetcher.fetch", "fetch.py", 40)
READ = Frame("__main__", "RemoteText.read", "/job/train.py", 30)
ENGINE = Frame("torch.autograd.graph", "_engine_run_backward", "graph.py", 800)


@pytest.mark.parametrize(
    ("stack", "family"),
    [
        ((MAIN,), "other"),
        ((MAIN, NEXT), "input"),
        ((MAIN, NEXT, FETCH, READ), "input"),
        ((MAIN, Frame("eroica_otel.signals.hooks", "watch", "hooks.py", 80), READ), "input"),
        ((MAIN, Frame("eroica_otel.signals.hooks", "Recorder.update", "hooks.py", 60)), "other"),
        ((Frame("torch.utils.data._utils.worker", "_worker_loop", "worker.py", 200), FETCH, READ), "loader"),
        ((MAIN, ENGINE), "wait"),
        ((MAIN, ENGINE, Frame("__main__", "hook", "/job/train.py", 90)), "other"),
        ((MAIN, Frame("torch.distributed.distributed_c10d", "all_reduce", "c10d.py", 2700)), "wait"),
        ((MAIN, Frame("torch.distributed.distributed_c10d", "barrier", "c10d.py", 4000)), "wait"),
        ((MAIN, Frame("torch.distributed.fsdp._runtime_utils", "_reshard", "r.py", 1)), "other"),
        ((MAIN, Frame("torch.cuda", "synchronize", "__init__.py", 900)), "wait"),
        ((MAIN, Frame("torch.cuda.streams", "Event.synchronize", "streams.py", 200)), "wait"),
        ((MAIN, Frame("torchlike.distributed", "barrier", "x.py", 1)), "other"),
    ],
)
def test_family_of_a_stack(stack: tuple[Frame, ...], family: str) -> None:
    assert kinds.python_family(stack) == family


def test_frames_of_this_package_are_own_but_not_those_of_its_demo_training() -> None:
    assert kinds.is_own(Frame("eroica_otel.plugin", "x", "", 1))
    assert kinds.is_own(Frame("eroica_otel", "watch", "", 1))
    assert not kinds.is_own(Frame("eroica_otel.demo.train", "augment", "", 1))
    assert not kinds.is_own(Frame("eroica_other", "x", "", 1))


@pytest.mark.parametrize(
    ("category", "name", "short"),
    [
        (
            "kernel",
            "void at::native::vectorized_elementwise_kernel<4, at::Add<float>, std::array<char*, 2ul> >(int, float)",
            "at::native::vectorized_elementwise_kernel",
        ),
        ("kernel", "void (anonymous namespace)::softmax<float, true>(float*, int)", "softmax"),
        ("kernel", "triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("cpu_op", "aten::mm", "aten::mm"),
        ("user_annotation", "object at 0x7f3a90", "object at "),
    ],
)
def test_short_name_has_no_template_arguments_and_no_addresses(category: str, name: str, short: str) -> None:
    assert kinds.short_name(category, name) == short


def test_names_are_at_most_128_characters_and_the_place_of_a_python_function_survives() -> None:
    assert len(kinds.short_name("cpu_op", "x" * 500)) == 128
    assert kinds.frame_name(READ) == "RemoteText.read (train.py:30)"
    long = kinds.frame_name(Frame("m", "q" * 500, "/job/train.py", 12))
    assert len(long) == 128
    assert long.endswith(" (train.py:12)")
    assert len(kinds.frame_name(Frame("m", "q", "f" * 500, 12))) <= 128


def test_function_id_tells_kind_and_identity_apart() -> None:
    first = kinds.function_id("compute", "aten::mm")
    assert first == kinds.function_id("compute", "aten::mm")
    assert len({first, kinds.function_id("python", "aten::mm"), kinds.function_id("compute", "aten::bmm")}) == 3
    assert len(first) == 12
    assert int(first, 16) >= 0
    assert kinds.identity_name("f at 0x7fff1234") == kinds.identity_name("f at 0x55aa")


def test_identity_of_a_frame_is_where_its_function_begins() -> None:
    assert kinds.frame_identity(READ) == "__main__:RemoteText.read:30"
