"""Small models of every family, with seeded random weights, each as its usual exporter writes it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import onnx

from tests.families.classical import tree_classifier, tree_ensemble, tree_regressor
from tests.families.detection import faster_rcnn, ssd, yolo
from tests.families.exporter import feeds_of
from tests.families.recurrent import gru_stream, lstm_stream, word2vec
from tests.families.transformers import bart, bert, distilbert, gpt2, llama, roberta, t5, vit, whisper_encoder
from tests.families.vision import densenet, efficientnet, mobilenet_v2, mobilenet_v3, resnet, squeezenet, unet


class Family(NamedTuple):
    name: str
    build: Callable[[], onnx.ModelProto]

    def feeds(self, model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
        """What the model is fed, weights that are listed as inputs left out."""
        weights = {weight.name for weight in model.graph.initializer}
        return {name: array for name, array in feeds_of(model, seed).items() if name not in weights}


FAMILIES = (
    Family("ResNet", resnet),
    Family("MobileNet v2", mobilenet_v2),
    Family("MobileNet v3", mobilenet_v3),
    Family("EfficientNet", efficientnet),
    Family("DenseNet", densenet),
    Family("SqueezeNet", squeezenet),
    Family("U-Net", unet),
    Family("YOLO", yolo),
    Family("SSD", ssd),
    Family("Faster R-CNN", faster_rcnn),
    Family("BERT", partial(bert, layers=1)),
    Family("DistilBERT", partial(distilbert, layers=1)),
    Family("RoBERTa", partial(roberta, layers=1)),
    Family("GPT-2", partial(gpt2, layers=1)),
    Family("T5", partial(t5, layers=1)),
    Family("BART", partial(bart, layers=1)),
    Family("Llama", partial(llama, layers=1)),
    Family("ViT", partial(vit, layers=1)),
    Family("Whisper encoder", partial(whisper_encoder, layers=1)),
    Family("Word2Vec", word2vec),
    Family("LSTM stream", lstm_stream),
    Family("GRU stream", gru_stream),
    Family("Trees, classifier", tree_classifier),
    Family("Trees, regressor", tree_regressor),
    Family("Trees, TreeEnsemble-5", tree_ensemble),
)
