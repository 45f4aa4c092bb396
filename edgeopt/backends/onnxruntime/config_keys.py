"""The session config keys of ONNX Runtime 1.31, which takes any other word without a complaint.

They are those of onnxruntime_session_options_config_keys.h that decide how a model runs; a test looks for them in
the installed runtime.
"""

from edgeopt.errors import UsageError
from edgeopt.nearest import nearest

KNOWN = (
    "ep.cuda.fpa_intb_gemm",
    "ep.cuda.fpa_intb_profile_m",
    "ep.enable_weightless",
    "mlas.disable_kleidiai",
    "mlas.kleidiai.conv_igemm_max_work",
    "mlas.nchwc_depthwise_sliding",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch",
    "mlas.qnbit.force_fp32",
    "mlas.use_lut_gemm",
    "optimization.constant_folding_max_output_size_in_bytes",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "session.allow_released_opsets_only",
    "session.disable_aot_function_inlining",
    "session.disable_double_qdq_remover",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop",
    "session.graph_optimizations_loop_level",
    "session.inter_op.spin_backoff_max",
    "session.inter_op.spin_duration_us",
    "session.prepack.enable_parallel",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.strict_shape_type_inference",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.x64quantprecision",
)
ELSEWHERE = (
    "ep.dml.disable_graph_fusion",
    "ep.dml.disable_memory_arena",
    "ep.dml.enable_cpu_sync_spinning",
    "ep.dml.enable_graph_capture",
    "ep.dml.enable_graph_serialization",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)
"""Of other builds: DirectML's, and those for Arm."""

OPTIONS = {
    "optimization.enable_gelu_approximation": "gelu_approximation",
    "session.disable_prepacking": "prepacking",
    "session.dynamic_block_base": "dynamic_block_base",
    "session.inter_op.allow_spinning": "spinning",
    "session.intra_op.allow_spinning": "spinning",
    "session.intra_op.spin_backoff_max": "spin_backoff_max",
    "session.intra_op.spin_duration_us": "spin_duration_us",
    "session.intra_op_thread_affinities": "cores",
    "session.set_denormal_as_zero": "flush_denormals",
}
"""Those that have an option of their own."""


def read_entries(text: str, backend: str) -> dict[str, str]:
    """`key=value; key=value` as entries; a key that the runtime does not have is a UsageError."""
    entries = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if not (key and sign and value):
            raise UsageError(
                f"The option 'entries' of {backend} holds '{part}', which is no key with a value.",
                "Write key=value; key=value.",
            )
        if key in OPTIONS:
            raise UsageError(
                f"The option 'entries' of {backend} names {key}, which has an option of its own.",
                f"Set '{OPTIONS[key]}' instead.",
            )
        if key not in KNOWN and key not in ELSEWHERE:
            raise UsageError(
                f"ONNX Runtime has no session config key '{key}'.", nearest(key, (*KNOWN, *ELSEWHERE, *OPTIONS))
            )
        entries[key] = value
    return entries
