"""Sends samples to a model that `edgeopt-agent` serves, with NVIDIA's client for Triton.

    pip install 'tritonclient[http]'
    python triton_client.py localhost:8080 model data.npz

`data.npz` has one array per input, samples along the first axis, as for `edgeopt optimize`.
"""

import argparse
from collections.abc import Iterator

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException, np_to_triton_dtype


def samples(path: str) -> Iterator[dict[str, np.ndarray]]:
    with np.load(path) as data:
        arrays = dict(data)
    for rows in zip(*arrays.values(), strict=True):
        yield dict(zip(arrays, rows, strict=True))


def infer(client: triton.InferenceServerClient, model: str, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    inputs = []
    for name, array in feeds.items():
        tensor = triton.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)  # sent as bytes, not as JSON
        inputs.append(tensor)
    answer = client.infer(model, inputs)
    return {output["name"]: answer.as_numpy(output["name"]) for output in answer.get_response()["outputs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends samples to a served model.")
    parser.add_argument("address", help="host:port of the agent")
    parser.add_argument("model")
    parser.add_argument("data")
    arguments = parser.parse_args()
    with triton.InferenceServerClient(arguments.address) as client:
        if not client.is_model_ready(arguments.model):
            raise SystemExit(f"{arguments.model} is not ready at {arguments.address}: see `edgeopt-agent status`")
        for number, feeds in enumerate(samples(arguments.data)):
            try:
                outputs = infer(client, arguments.model, feeds)
            except InferenceServerException as error:
                raise SystemExit(f"sample {number}: {error.message()}") from error
            print(number, *(f"{name}{list(array.shape)} best {array.argmax()}" for name, array in outputs.items()))


if __name__ == "__main__":
    main()
