"""Facts in the form that a deployment profile holds them."""

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Tensor


def tensor_of(info: TensorInfo) -> Tensor:
    """An input or an output; what is not known of its shape is a question mark."""
    return Tensor(info.name, info.dtype, ["?" if dim is None else dim for dim in info.shape])


def four_digits(value: float) -> float:
    """More would pretend a precision that no clock here has. `evidence.json` keeps all."""
    return float(f"{value:.4g}")
